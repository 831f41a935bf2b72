//! The target of a run: an address, or a Datastore and what its server says at
//! this moment. Needs the client and the observer.

use super::{
    decide::{ReadyTarget, TargetState, TargetTls},
    validate::{ValidatedRun, beyond_resp, host_and_port, protocol},
};
use crate::{
    cluster::pods,
    context::Context,
    datastore::{observe, verify},
};
use dragstrip_crds::{
    Datastore, DatastoreStatus, conditions,
    conditions::types::READY,
    datastore::{MemberStatus, ServerProtocol, ServerTls},
    run::{ClientTls, ExternalTarget},
};
use dragstrip_results::{
    observed::Observation,
    protocol::{JobMember, JobTls},
};
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, ResourceExt};
use std::collections::BTreeSet;

/// Finds the target of `run`.
pub async fn find(ctx: &Context, run: &ValidatedRun) -> kube::Result<TargetState> {
    let spec = &run.spec.target;
    if let Some(external) = &spec.external {
        return Ok(outside(external));
    }
    let own = spec.datastore.is_some();
    let name = spec.datastore_ref.as_ref().map_or(&run.holder.name, |reference| &reference.name);
    let datastores: Api<Datastore> = Api::namespaced(ctx.client.clone(), &run.holder.namespace);
    match datastores.get_opt(name).await? {
        None if own => Ok(TargetState::ToBeMade),
        None => Ok(TargetState::Missing(format!(
            "there is no Datastore named {name} in namespace {}: create it or correct spec.target.datastoreRef.name",
            run.holder.namespace
        ))),
        Some(datastore) if own && !owned_by(&datastore, run) => Ok(TargetState::NameTaken(format!(
            "a Datastore named {name} exists already and is not this run's: use spec.target.datastoreRef or another name for the run"
        ))),
        Some(datastore) => consult(ctx, run, &datastore, own).await,
    }
}

fn owned_by(datastore: &Datastore, run: &ValidatedRun) -> bool {
    datastore.owner_references().iter().any(|owner| owner.uid == run.holder.uid)
}

fn outside_tls(tls: &ClientTls) -> TargetTls {
    TargetTls {
        job: JobTls {
            server_name: tls.server_name.clone(),
            authority: tls.ca_secret_name.is_some(),
            client_certificate: tls.client_secret_name.is_some(),
            insecure_skip_verify: tls.insecure_skip_verify,
        },
        authority_secret: tls.ca_secret_name.clone(),
        client_secret: tls.client_secret_name.clone(),
    }
}

fn outside(external: &ExternalTarget) -> TargetState {
    // Checked by validate.
    let Ok((host, port)) = host_and_port(&external.address) else {
        return TargetState::Missing(format!("{:?} is not HOST:PORT", external.address));
    };
    TargetState::Ready(Box::new(ReadyTarget {
        name: external.address.clone(),
        host,
        port,
        cluster: external.cluster,
        protocol: external.protocol,
        username: external.username.clone(),
        auth: external.auth_secret_ref.clone(),
        tls: external.tls.as_ref().map(outside_tls),
        truth: None,
        members: Vec::new(),
        nodes: Vec::new(),
        datastore: false,
    }))
}

/// The server's certificate is for the Datastore's name, not for a pod's address.
fn own_tls(tls: &ServerTls, status: &DatastoreStatus) -> TargetTls {
    let endpoint = status.endpoint.as_deref().and_then(|endpoint| host_and_port(endpoint).ok());
    TargetTls {
        job: JobTls {
            server_name: endpoint.map(|(host, _)| host),
            authority: true,
            client_certificate: tls.client_secret_name.is_some(),
            insecure_skip_verify: false,
        },
        authority_secret: Some(tls.secret_name.clone()),
        client_secret: tls.client_secret_name.clone(),
    }
}

/// The servers of a Datastore that has several; those that one observer sees
/// with the process that runs just now.
fn members(status: &[MemberStatus], observation: Option<&Observation>) -> Result<Vec<JobMember>, String> {
    let seen = observation.map_or(&[][..], |observation| &observation.shards);
    let all_seen = seen.len() == status.len();
    let member = |(index, member): (usize, &MemberStatus)| {
        let (host, port) = host_and_port(&member.address)
            .map_err(|_| format!("pod {} has no address yet: {:?}", member.pod, member.address))?;
        let now = seen.get(index).filter(|_| all_seen).map(|truth| truth.run_id.clone());
        Ok(JobMember { host, port, run_id: now.or_else(|| member.run_id.clone()) })
    };
    status.iter().enumerate().map(member).collect()
}

/// The nodes that a Datastore's servers run on, in a fixed order.
fn nodes(status: &DatastoreStatus, pod: &Pod) -> Vec<String> {
    let first = pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
    let others = status.members.iter().filter_map(|member| member.node.clone());
    first.into_iter().chain(others).collect::<BTreeSet<_>>().into_iter().collect()
}

/// Every difference between what is declared and what runs, each told once.
fn disagreements(datastore: &Datastore, observation: &Observation) -> Vec<String> {
    let truths = std::iter::once(&observation.server).chain(&observation.shards);
    let all = truths.flat_map(|truth| verify::disagreements(&datastore.spec, truth));
    all.collect::<BTreeSet<_>>().into_iter().collect()
}

fn not_ready(own: bool, reason: &str, message: String) -> TargetState {
    TargetState::NotReady { own, reason: reason.to_owned(), message }
}

/// Why a Datastore's status says that it cannot be used; `None` when it can.
fn held_up(datastore: &Datastore, status: &DatastoreStatus, own: bool) -> Option<TargetState> {
    if conditions::holds(&status.conditions, READY, datastore.metadata.generation) {
        return None;
    }
    let name = datastore.name_any();
    let ready = conditions::find(&status.conditions, READY);
    let (reason, message) = ready.map_or(("Starting", "not looked at yet"), |c| (&c.reason, &c.message));
    if reason == "NotAsDeclared" {
        return Some(TargetState::Disagrees(format!("Datastore {name}: {message}")));
    }
    Some(not_ready(own, reason, format!("Datastore {name} is not ready ({reason}): {message}")))
}

async fn consult(
    ctx: &Context,
    run: &ValidatedRun,
    datastore: &Datastore,
    own: bool,
) -> kube::Result<TargetState> {
    let name = datastore.name_any();
    let protocol = protocol(&datastore.spec);
    if let Some(message) = beyond_resp(&run.spec, protocol) {
        return Ok(TargetState::Unsuitable(format!(
            "Datastore {name} cannot serve this run: spec.{message}"
        )));
    }
    let status = datastore.status.clone().unwrap_or_default();
    if let Some(state) = held_up(datastore, &status, own) {
        return Ok(state);
    }
    let pods: Api<Pod> = Api::namespaced(ctx.client.clone(), &run.holder.namespace);
    let pod = match &status.pod {
        Some(pod) => pods.get_opt(pod).await?,
        None => None,
    };
    let Some(pod) = pod.filter(pods::ready) else {
        return Ok(not_ready(own, "Starting", format!("the pod of Datastore {name} is not ready")));
    };
    // The condition may be hours old: the server is asked again before load is sent.
    let observation = match protocol {
        ServerProtocol::Tcp => None,
        ServerProtocol::Resp => {
            match observe(&ctx.agents, &pod, &datastore.uid().unwrap_or_default()).await {
                Some(Ok(observation)) => Some(observation),
                Some(Err(error)) => {
                    return Ok(not_ready(own, "ObserverSilent", format!("Datastore {name}: {error}")));
                }
                None => {
                    return Ok(not_ready(own, "Starting", format!("Datastore {name} has no observer yet")));
                }
            }
        }
    };
    Ok(ready(datastore, &status, &pod, observation, own))
}

/// What a Datastore is that is ready and whose server answered.
fn ready(
    datastore: &Datastore,
    status: &DatastoreStatus,
    pod: &Pod,
    observation: Option<Observation>,
    own: bool,
) -> TargetState {
    let name = datastore.name_any();
    let found = observation.as_ref().map(|seen| disagreements(datastore, seen)).unwrap_or_default();
    if !found.is_empty() {
        return TargetState::Disagrees(format!("Datastore {name}: {}", found.join("; ")));
    }
    let members = match members(&status.members, observation.as_ref()) {
        Ok(members) => members,
        Err(message) => return not_ready(own, "Starting", format!("Datastore {name}: {message}")),
    };
    let spec = &datastore.spec;
    TargetState::Ready(Box::new(ReadyTarget {
        host: pod.status.as_ref().and_then(|status| status.pod_ip.clone()).unwrap_or_default(),
        port: u16::try_from(spec.port).unwrap_or(6379),
        cluster: spec.cluster.is_some(),
        protocol: protocol(spec),
        username: None,
        auth: spec.auth_secret_ref.clone(),
        tls: spec.tls.as_ref().map(|tls| own_tls(tls, status)),
        truth: observation.map(|observation| observation.server),
        members,
        nodes: nodes(status, pod),
        datastore: true,
        name,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::fixtures::truth;
    use dragstrip_crds::observed::{HostTruth, ServerTruth};
    use serde_json::json;

    fn status() -> DatastoreStatus {
        let member = |index: u16| {
            json!({
                "pod": format!("dragstrip-shop-{index}"), "address": format!("10.0.0.{index}:6379"),
                "role": "shard", "node": format!("node-{}", 9 - index), "runId": format!("old-{index}")
            })
        };
        serde_json::from_value(json!({
            "endpoint": "shop.races.svc:6379", "pod": "dragstrip-shop-0", "members": [member(0), member(1)]
        }))
        .unwrap()
    }

    fn datastore(spec: serde_json::Value) -> Datastore {
        Datastore::new("shop", serde_json::from_value(spec).unwrap())
    }

    fn pod() -> Pod {
        serde_json::from_value(json!({
            "metadata": {"name": "dragstrip-shop-0"}, "spec": {"nodeName": "node-9", "containers": []},
            "status": {"podIP": "10.0.0.0"}
        }))
        .unwrap()
    }

    fn observation(cluster: bool, shards: &[&str]) -> Observation {
        let truth = |run_id: &&str| ServerTruth {
            engine: Some(dragstrip_crds::Engine::Redis),
            run_id: (*run_id).to_owned(),
            cluster_enabled: cluster,
            ..truth()
        };
        Observation {
            server: truth(&"seen-0"),
            host: HostTruth { kernel: "6.1".into(), cpu_model: "x".into(), cpus: 2 },
            cgroup: None,
            shards: shards.iter().map(truth).collect(),
        }
    }

    fn taken(state: TargetState) -> ReadyTarget {
        match state {
            TargetState::Ready(target) => *target,
            other => panic!("the target is not ready: {other:?}"),
        }
    }

    #[test]
    fn a_cluster_has_all_its_members_with_the_processes_that_run_now() {
        let spec = json!({"engine": "Redis", "threads": 1, "cluster": {"shards": 3}});
        let find = |shards: &[&str]| {
            taken(ready(&datastore(spec.clone()), &status(), &pod(), Some(observation(true, shards)), false))
        };
        let one_pod = find(&["seen-0", "seen-1"]);
        let ids = |target: &ReadyTarget| {
            target.members.iter().map(|m| m.run_id.clone().unwrap()).collect::<Vec<_>>()
        };
        assert!(one_pod.cluster);
        assert_eq!(ids(&one_pod), ["seen-0", "seen-1"], "one observer sees all shards");
        let spread = find(&[]);
        assert_eq!(ids(&spread), ["old-0", "old-1"], "each was verified by its own observer");
        assert_eq!(spread.members[1].host, "10.0.0.1");
        assert_eq!(spread.nodes, ["node-8", "node-9"], "the nodes of all, sorted and each once");
    }

    #[test]
    fn a_shard_that_is_not_as_declared_stops_the_run() {
        let spec = json!({"engine": "Redis", "threads": 1});
        let mut seen = observation(false, &["a", "b"]);
        seen.shards[1].threads = Some(4);
        let state = ready(&datastore(spec), &status(), &pod(), Some(seen), false);
        let TargetState::Disagrees(message) = state else { panic!("{state:?}") };
        assert!(message.contains("threads: declared 1, the server runs 4"), "{message}");
    }

    #[test]
    fn certificates_are_for_the_datastores_name() {
        let spec = json!({"engine": "Redis", "threads": 1, "tls": {"secretName": "pit-tls"}});
        let target = taken(ready(&datastore(spec), &status(), &pod(), Some(observation(false, &[])), false));
        let tls = target.tls.unwrap();
        assert_eq!(tls.job.server_name.as_deref(), Some("shop.races.svc"));
        assert_eq!((tls.authority_secret.as_deref(), tls.client_secret), (Some("pit-tls"), None));
    }

    #[test]
    fn a_server_that_speaks_no_resp_is_taken_unasked() {
        let spec = json!({"engine": "Custom", "image": "etcd:1", "threads": 1, "custom": {"members": 2}});
        let target = taken(ready(&datastore(spec), &status(), &pod(), None, false));
        assert_eq!((target.protocol, target.truth, target.members.len()), (ServerProtocol::Tcp, None, 2));
    }
}
