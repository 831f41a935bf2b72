//! What the servers of a Datastore use while a run loads them: their observers are told
//! to sample before the load, and asked after it. What cannot be had is left out: no
//! measurement fails for want of it, or waits long. The same of their memory, where what
//! cannot be had is told. Needs the observers.

use super::target;
use crate::{cluster::pods, context::Context};
use dragstrip_agents::{AgentError, Agents};
use dragstrip_core::run::{
    decide::DatastoreKey,
    merge::common_window,
    timing::sampled_seconds,
    validate::{Attempt, ValidatedRun},
};
use dragstrip_crds::run::{MemoryMoment, MemoryReading};
use dragstrip_results::error_chain::chain;
use dragstrip_results::{
    memory::{self, MemberMemory},
    protocol::{OBSERVER_PORT, UsageCommand, UsageWindow},
    result::PodResult,
    usage::ServerUsage,
};
use futures::future::join_all;
use jiff::Timestamp;
use kube::ResourceExt;
use std::{net::SocketAddr, time::Duration};

/// How long all observers together may take to tell their clock and what was used.
const ASKED_WITHIN: Duration = Duration::from_secs(3);

/// An observer beside a server of the target.
struct Observer {
    pod: String,
    node: Option<String>,
    address: SocketAddr,
}

impl Observer {
    /// The server on `port`, which is one of `several` of its pod or the only one.
    fn name_of(&self, port: &str, several: bool) -> String {
        if several { format!("{}:{port}", self.pod) } else { self.pod.clone() }
    }
}

/// The observers of the Datastore that `run` loads, and the token that they want; `None`
/// where nothing observes it.
fn observers(ctx: &Context, run: &ValidatedRun) -> Option<(String, Vec<Observer>)> {
    let key =
        DatastoreKey { namespace: run.holder.namespace.clone(), name: run.datastore_name()?.to_owned() };
    let datastore = target::datastore(ctx, run)?;
    let pods = ctx.world.pods.state();
    let observers = target::servers(&pods, &key).filter_map(|pod| {
        // One that is not up now does not tell, which must show: a sum of the others would be too small.
        let address = SocketAddr::new(pods::address(pod)?, OBSERVER_PORT);
        Some(Observer { pod: pod.name_any(), node: target::node_of(pod), address })
    });
    let observers = observers.collect();
    Some((datastore.uid()?, observers))
}

/// Tells all observers of the target to sample what its servers use. Repeating it changes
/// nothing.
pub async fn start_sampling(ctx: &Context, run: &ValidatedRun, attempt: &Attempt) {
    let Some((token, observers)) = observers(ctx, run) else { return };
    let command = UsageCommand { token: run.token(attempt), seconds: sampled_seconds(run, attempt) };
    let reported = observers.iter().map(|observer| async {
        if let Err(error) = ctx.agents.sample(observer.address, &token, &command).await {
            let why = chain(&error);
            tracing::info!(pod = observer.pod, why, "the observer does not sample what its servers use");
        }
    });
    join_all(reported).await;
}

/// What each server used in the window in which all clients of `attempt` loaded it; none
/// of those whose observer does not tell, or where there was no such window.
pub async fn gather(
    ctx: &Context,
    run: &ValidatedRun,
    attempt: &Attempt,
    results: &[PodResult],
) -> Vec<ServerUsage> {
    let Some((window, (token, observers))) = common_window(results).zip(observers(ctx, run)) else {
        return Vec::new();
    };
    let window =
        UsageWindow { token: run.token(attempt), from_unix_nanos: window.start, to_unix_nanos: window.end };
    let requests = observers.iter().map(|observer| async {
        let asking = ask(&ctx.agents, observer, &token, &window);
        let why = match tokio::time::timeout(ASKED_WITHIN, asking).await {
            Ok(Ok(servers)) => return named(observer, servers),
            Ok(Err(error)) => chain(&error),
            Err(_) => format!("no answer within {} s", ASKED_WITHIN.as_secs()),
        };
        tracing::info!(pod = observer.pod, why, "the observer does not tell what its servers used");
        Vec::new()
    });
    join_all(requests).await.concat()
}

/// What the servers beside `observer` used in `window`, which is by this clock.
async fn ask(
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
    agents.usage(observer.address, token, &window).await
}

/// The memory of the servers that `run` loads, of which a load had `ended`; nothing where
/// nobody observes them.
pub async fn memory(
    ctx: &Context,
    run: &ValidatedRun,
    moment: MemoryMoment,
    ended: Timestamp,
) -> Vec<MemoryReading> {
    let Some((token, observers)) = observers(ctx, run) else { return Vec::new() };
    let seconds = Timestamp::now().duration_since(ended).as_secs_f64();
    let requests = observers.iter().map(|observer| async {
        let why = match ctx.agents.memory(observer.address, &token).await {
            Ok(members) => return by_pod(observer, members),
            Err(error) => chain(&error),
        };
        vec![MemberMemory { server: observer.pod.clone(), unread: Some(why), ..MemberMemory::default() }]
    });
    memory::readings(moment, seconds, join_all(requests).await.concat())
}

/// The servers by their pod, and by their port too where the pod has several. Pure.
fn by_pod(observer: &Observer, members: Vec<MemberMemory>) -> Vec<MemberMemory> {
    let several = members.len() > 1;
    let named = members
        .into_iter()
        .map(|member| MemberMemory { server: observer.name_of(&member.server, several), ..member });
    named.collect()
}

/// The servers by their pod, and by their port too where the pod has several. Pure.
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
    fn servers_are_named_by_their_pod_and_by_their_port_where_it_has_several() {
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
