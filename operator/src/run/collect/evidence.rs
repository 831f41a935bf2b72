//! What the servers of a Datastore use while a run loads them: their observers start sampling before the
//! load, and report after it. Without evidence no measurement fails or waits long. The same for the servers'
//! memory, where a failure is recorded. Needs the observers.

use crate::{
    cluster::pods,
    run::{
        context::Pass,
        fetch::servers::{self, node_of},
    },
};
use dragstrip_agents::{AgentError, Agents};
use dragstrip_core::run::{merge::common_window, timing::sampled_seconds, validate::Attempt};
use dragstrip_crds::run::{MemoryMoment, MemoryReading};
use dragstrip_results::{
    error_chain::chain,
    memory::{self, MemberMemory},
    protocol::{OBSERVER_PORT, UsageCommand, UsageWindow},
    result::PodResult,
    usage::ServerUsage,
};
use futures::future::join_all;
use jiff::Timestamp;
use kube::ResourceExt;
use std::{net::SocketAddr, time::Duration};

/// Timeout for all observers together, which report their clock and what their servers used.
const TIMEOUT: Duration = Duration::from_secs(3);

/// An observer beside a server of the target.
struct Observer {
    pod: String,
    node: Option<String>,
    address: SocketAddr,
}

impl Observer {
    /// The name of the server on `port`, one of `several` of its pod or the only one.
    fn name_of(&self, port: &str, several: bool) -> String {
        if several { format!("{}:{port}", self.pod) } else { self.pod.clone() }
    }
}

/// The observers of the Datastore that `run` loads, and their token; `None` if it has no observers.
fn observers(pass: &Pass<'_>) -> Option<(String, Vec<Observer>)> {
    let key = servers::key(pass.run)?;
    let token = servers::datastore(pass)?.uid()?;
    let pods = pass.world.pods.state();
    let observers = servers::servers(&pods, &key).filter_map(|pod| {
        // One that is down cannot report, which must show: a sum of the others would be too small.
        let address = SocketAddr::new(pods::address(pod)?, OBSERVER_PORT);
        Some(Observer { pod: pod.name_any(), node: node_of(pod), address })
    });
    Some((token, observers.collect()))
}

/// Makes all observers of the target sample what their servers use. Safe to repeat.
pub async fn start_sampling(pass: &Pass<'_>, attempt: &Attempt) {
    let Some((token, observers)) = observers(pass) else { return };
    let command =
        UsageCommand { token: pass.run.token(attempt), seconds: sampled_seconds(pass.run, attempt) };
    let requests = observers.iter().map(|observer| async {
        if let Err(error) = pass.agents.sample(observer.address, &token, &command).await {
            let why = chain(&error);
            tracing::info!(pod = observer.pod, why, "the observer does not sample what its servers use");
        }
    });
    join_all(requests).await;
}

/// What each server used in the window in which all clients of `attempt` loaded it; without those
/// whose observer does not report, and empty if there was no such window.
pub async fn gather(pass: &Pass<'_>, attempt: &Attempt, results: &[PodResult]) -> Vec<ServerUsage> {
    let Some((window, (token, observers))) = common_window(results).zip(observers(pass)) else {
        return Vec::new();
    };
    let window = UsageWindow {
        token: pass.run.token(attempt),
        from_unix_nanos: window.start,
        to_unix_nanos: window.end,
    };
    let requests = observers.iter().map(|observer| async {
        let request = usage(&pass.agents, observer, &token, &window);
        let why = match tokio::time::timeout(TIMEOUT, request).await {
            Ok(Ok(servers)) => return servers,
            Ok(Err(error)) => chain(&error),
            Err(_) => format!("no answer within {} s", TIMEOUT.as_secs()),
        };
        tracing::info!(pod = observer.pod, why, "the observer does not report what its servers used");
        Vec::new()
    });
    join_all(requests).await.concat()
}

/// What the servers beside `observer` used in `window`, which is by this clock.
async fn usage(
    agents: &Agents,
    observer: &Observer,
    token: &str,
    window: &UsageWindow,
) -> Result<Vec<ServerUsage>, AgentError> {
    let ahead = agents.clock(observer.address, token).await?.offset_nanos;
    let window = UsageWindow {
        from_unix_nanos: window.from_unix_nanos.saturating_add(ahead),
        to_unix_nanos: window.to_unix_nanos.saturating_add(ahead),
        ..window.clone()
    };
    Ok(named(observer, agents.usage(observer.address, token, &window).await?))
}

/// The memory of the run's servers, at this moment after a load that had `ended`, by their observers.
pub async fn memory(pass: &Pass<'_>, moment: MemoryMoment, ended: Timestamp) -> Vec<MemoryReading> {
    let Some((token, observers)) = observers(pass) else { return Vec::new() };
    let seconds = Timestamp::now().duration_since(ended).as_secs_f64();
    let requests = observers.iter().map(|observer| async {
        match pass.agents.memory(observer.address, &token).await {
            Ok(members) => {
                let several = members.len() > 1;
                let named = members.into_iter().map(|member| MemberMemory {
                    server: observer.name_of(&member.server, several),
                    ..member
                });
                named.collect()
            }
            Err(error) => {
                let (server, unread) = (observer.pod.clone(), Some(chain(&error)));
                vec![MemberMemory { server, unread, ..MemberMemory::default() }]
            }
        }
    });
    memory::readings(moment, seconds, join_all(requests).await.concat())
}

/// The servers by their pod, and by their port too if the pod has several. Pure.
fn named(observer: &Observer, servers: Vec<ServerUsage>) -> Vec<ServerUsage> {
    let several = servers.len() > 1;
    let named = servers.into_iter().map(|server| ServerUsage {
        server: observer.name_of(&server.server, several),
        node: observer.node.clone(),
        ..server
    });
    named.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_have_the_name_of_their_pod_and_of_their_port_if_it_has_several() {
        let observer = Observer {
            pod: "shop-0".into(),
            node: Some("worker".into()),
            address: ([10, 0, 0, 1], OBSERVER_PORT).into(),
        };
        let server = |port: &str| ServerUsage { server: port.into(), ..ServerUsage::default() };
        let names = |servers: Vec<ServerUsage>| {
            let named = named(&observer, servers);
            assert!(named.iter().all(|server| server.node.as_deref() == Some("worker")));
            named.into_iter().map(|server| server.server).collect::<Vec<_>>()
        };
        assert_eq!(names(vec![server("6379")]), ["shop-0"]);
        assert_eq!(names(vec![server("7000"), server("7001")]), ["shop-0:7000", "shop-0:7001"]);
    }
}
