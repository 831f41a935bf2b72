//! The target of a run: an address, or a Datastore and the current answers of its server. Needs
//! the client and, to query the server, the observer.

use super::{
    machines,
    servers::{behind, nodes_of, servers},
};
use crate::{
    cluster::pods,
    datastore::{CHANGE_WAITS, built_for, observe},
    run::{build, context::Pass},
};
use dragstrip_core::{
    datastore::verify,
    labels,
    run::{
        decide::{Connection, DatastoreKey, ReadyTarget, TargetState, TargetTls},
        identity::Identity,
        snapshot::Snapshot,
        stored_result::annotation,
        validate::{ValidatedRun, host_and_port, protocol, unsuitable},
    },
};
use dragstrip_crds::{
    Datastore, DatastoreStatus, conditions,
    conditions::types::READY,
    datastore::{MemberStatus, ServerProtocol, ServerTls},
    run::{ClientTls, ExternalTarget, Target},
};
use dragstrip_results::{
    observed::Observation,
    protocol::{JobMember, JobTls},
};
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, ResourceExt, runtime::reflector::ObjectRef};
use std::{collections::BTreeSet, net::SocketAddr, sync::Arc};

/// Finds the target of `run` by the status of its Datastore, without a query to the server. If
/// the run has measured something, its results say how its first clients reached the Datastore:
/// a change of the Datastore then waits for the run, which finds it as it was.
pub async fn find(pass: &Pass<'_>, snapshot: &Snapshot) -> kube::Result<TargetState> {
    let connection = snapshot.stored.values().find_map(|stored| stored.connection.as_ref());
    let (own, name) = match &pass.run.spec.target {
        Target::External(external) => return Ok(outside(pass, external)),
        Target::Datastore(_) => (true, &pass.run.holder.name),
        Target::DatastoreRef(reference) => (false, &reference.name),
    };
    let datastores: Api<Datastore> = Api::namespaced(pass.client.clone(), &pass.run.holder.namespace);
    match datastores.get_opt(name).await? {
        None if own => Ok(TargetState::ToBeMade),
        None => Ok(TargetState::Missing(format!(
            "there is no Datastore named {name} in namespace {}: create it or correct spec.target.datastoreRef.name",
            pass.run.holder.namespace
        ))),
        Some(datastore) if own && !owned_by(&datastore, pass.run) => Ok(taken(&datastore)),
        Some(datastore) if connection.is_none() && is_outdated(&datastore, pass.run) => {
            Ok(TargetState::Outdated)
        }
        Some(datastore) => Ok(by_status(pass, &datastore, own, connection)),
    }
}

/// A Datastore under the run's name that is not the run's: if it belongs to an earlier run of
/// that name, it will be gone soon.
fn taken(datastore: &Datastore) -> TargetState {
    let name = datastore.name_any();
    let of_a_run = datastore.owner_references().iter().any(|owner| owner.kind == "BenchmarkRun");
    if of_a_run || datastore.metadata.deletion_timestamp.is_some() {
        let message = format!("waits for the Datastore {name} of an earlier run of this name to be removed");
        return not_ready(true, "Starting", message);
    }
    TargetState::NameTaken(format!(
        "a Datastore named {name} exists already and is not this run's: use spec.target.datastoreRef or another name for the run"
    ))
}

/// Whether `datastore`, the run's own, was made from another declaration than the run has now.
pub fn is_outdated(datastore: &Datastore, run: &ValidatedRun) -> bool {
    let declared = run.spec.target.datastore().map(build::declaration);
    datastore.metadata.deletion_timestamp.is_none()
        && declared.is_some()
        && annotation(&datastore.metadata, labels::SPEC_HASH) != declared.as_deref()
        && owned_by(datastore, run)
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

fn outside(pass: &Pass<'_>, external: &ExternalTarget) -> TargetState {
    // Admission has checked it.
    let Some((host, port)) = host_and_port(&external.address) else {
        return TargetState::Missing(format!("{:?} is not HOST:PORT", external.address));
    };
    let pods = pass.world.pods.state();
    let datastore = behind(pass, &pods, &host);
    TargetState::Ready(Box::new(ReadyTarget {
        name: external.address.clone(),
        host,
        connection: Connection {
            port,
            cluster: external.cluster,
            emulated_cluster: external.emulated_cluster,
            protocol: external.protocol,
            auth: external.auth_secret_ref.clone(),
            tls: external.tls.as_ref().map(outside_tls),
        },
        username: external.username.clone(),
        identity: datastore.as_ref().map(|key| Identity::of(servers(&pods, key), None)),
        nodes: nodes_of(datastore.iter().flat_map(|key| servers(&pods, key))),
        datastore,
        questioned: true,
        ..ReadyTarget::default()
    }))
}

fn observers<'a>(pods: impl Iterator<Item = &'a Arc<Pod>>) -> Vec<SocketAddr> {
    pods.filter_map(|pod| pods::observer(pod)).collect()
}

/// The server's certificate is for the Datastore's name, not for a pod's address.
fn own_tls(tls: &ServerTls, status: &DatastoreStatus) -> TargetTls {
    let endpoint = status.endpoint.as_deref().and_then(host_and_port);
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

/// The several servers of a Datastore, with their processes if one observer sees all.
fn members(status: &[MemberStatus], observation: Option<&Observation>) -> Result<Vec<JobMember>, String> {
    let seen = observation.map_or(&[][..], |observation| &observation.shards);
    let all_seen = seen.len() == status.len();
    let member = |(index, member): (usize, &MemberStatus)| {
        let (host, port) = host_and_port(&member.address)
            .ok_or_else(|| format!("pod {} has no address yet: {:?}", member.pod, member.address))?;
        let now = seen.get(index).filter(|_| all_seen).map(|truth| truth.run_id.clone());
        Ok(JobMember { host, port, run_id: now.or_else(|| member.run_id.clone()) })
    };
    status.iter().enumerate().map(member).collect()
}

/// Every difference between what is declared and what runs, each once.
fn disagreements(datastore: &Datastore, observation: &Observation) -> Vec<String> {
    let truths = std::iter::once(&observation.server).chain(&observation.shards);
    let all = truths.flat_map(|truth| verify::disagreements(&datastore.spec, truth));
    all.collect::<BTreeSet<_>>().into_iter().collect()
}

fn not_ready(own: bool, reason: &str, message: String) -> TargetState {
    TargetState::NotReady { own, reason: reason.to_owned(), message }
}

/// Why the Datastore cannot be used by its status; `None` if it can.
fn held_up(datastore: &Datastore, status: &DatastoreStatus, own: bool) -> Option<TargetState> {
    if conditions::holds(&status.conditions, READY, datastore.metadata.generation) {
        return None;
    }
    let name = datastore.name_any();
    let ready = conditions::find(&status.conditions, READY);
    let (reason, message) = ready.map_or(("Starting", "not checked yet"), |c| (&c.reason, &c.message));
    if reason == "NotAsDeclared" {
        return Some(TargetState::Disagrees(format!("Datastore {name}: {message}")));
    }
    Some(not_ready(own, reason, format!("Datastore {name} is not ready ({reason}): {message}")))
}

/// The state of a Datastore by its status, without a query to its server.
fn by_status(
    pass: &Pass<'_>,
    datastore: &Datastore,
    own: bool,
    connection: Option<&Connection>,
) -> TargetState {
    let name = datastore.name_any();
    let status = datastore.status.clone().unwrap_or_default();
    let changes = connection.is_some()
        && conditions::find(&status.conditions, READY).is_some_and(|ready| ready.reason == CHANGE_WAITS);
    // A run that has measured something was served.
    if connection.is_none()
        && let Some(message) = unsuitable(&pass.run.spec, &datastore.spec)
    {
        return TargetState::Unsuitable(format!("Datastore {name} cannot serve this run: spec.{message}"));
    }
    if datastore.metadata.deletion_timestamp.is_some() {
        return not_ready(own, "Deleted", format!("Datastore {name} is being deleted"));
    }
    if let Some(state) = held_up(datastore, &status, own).filter(|_| !changes) {
        return state;
    }
    let key = DatastoreKey { namespace: pass.run.holder.namespace.clone(), name };
    let pods = pass.world.pods.state();
    let set = ObjectRef::new(&key.name).within(&key.namespace);
    let generation = pass.world.stateful_sets.get(&set).and_then(|set| built_for(&set));
    let state = ready(datastore, &status, &key, servers(&pods, &key), generation, own);
    reached_by(state, connection)
}

/// A target that is ready, reached by the `connection` of the run's first clients.
fn reached_by(state: TargetState, connection: Option<&Connection>) -> TargetState {
    match (state, connection) {
        (TargetState::Ready(target), Some(connection)) => TargetState::Ready(Box::new(ReadyTarget {
            connection: connection.clone(),
            questioned: connection.protocol == ServerProtocol::Tcp,
            ..*target
        })),
        (state, _) => state,
    }
}

/// The state of a Datastore with a ready status, by its `pods`, built for `generation`.
fn ready<'a>(
    datastore: &Datastore,
    status: &DatastoreStatus,
    key: &DatastoreKey,
    pods: impl Iterator<Item = &'a Arc<Pod>> + Clone,
    generation: Option<i64>,
    own: bool,
) -> TargetState {
    let name = &key.name;
    let waits = |what: &str| not_ready(own, "Starting", format!("Datastore {name}: {what}"));
    let Some(pod) = pods.clone().find(|pod| Some(pod.name_any()) == status.pod && pods::ready(pod)) else {
        return waits("its pod is not ready");
    };
    let members = match members(&status.members, None) {
        Ok(members) => members,
        Err(message) => return waits(&message),
    };
    let spec = &datastore.spec;
    TargetState::Ready(Box::new(ReadyTarget {
        host: pod.status.as_ref().and_then(|status| status.pod_ip.clone()).unwrap_or_default(),
        connection: Connection {
            port: u16::try_from(spec.port).unwrap_or(6379),
            cluster: spec.cluster.is_some(),
            emulated_cluster: spec.emulates_cluster(),
            protocol: protocol(spec),
            auth: spec.auth_secret_ref.clone(),
            tls: spec.tls.as_ref().map(|tls| own_tls(tls, status)),
        },
        members,
        observers: observers(pods.clone()),
        nodes: nodes_of(pods.clone()),
        identity: Some(Identity::of(pods, generation)),
        datastore: Some(key.clone()),
        // A server that cannot be queried is used as it is.
        questioned: protocol(spec) == ServerProtocol::Tcp,
        name: name.clone(),
        ..ReadyTarget::default()
    }))
}

/// Queries the server of a target that was found ready, once the turn is this run's: the
/// Datastore's condition may be hours old. While another run loads a server nobody queries it,
/// since that costs it something.
pub async fn question(pass: &Pass<'_>, found: ReadyTarget) -> kube::Result<TargetState> {
    let own = pass.run.spec.target.datastore().is_some();
    let Some(key) = found.datastore.clone().filter(|_| !found.questioned) else {
        return Ok(TargetState::Ready(Box::new(found)));
    };
    let datastores: Api<Datastore> = Api::namespaced(pass.client.clone(), &key.namespace);
    let name = &key.name;
    let Some(datastore) = datastores.get_opt(name).await? else {
        return Ok(not_ready(own, "Deleted", format!("Datastore {name} is gone")));
    };
    let status = datastore.status.clone().unwrap_or_default();
    let pods = pass.world.pods.state();
    let Some(pod) = servers(&pods, &key).find(|pod| Some(pod.name_any()) == status.pod) else {
        return Ok(not_ready(own, "Starting", format!("Datastore {name} has no pod")));
    };
    Ok(match observe(&pass.agents, pod, &datastore.uid().unwrap_or_default()).await {
        Some(Ok(observation)) => {
            let found = ReadyTarget { cpus: machines::seen(pod, &observation), ..found };
            answered(&datastore, &status, found, observation, own)
        }
        Some(Err(error)) => not_ready(own, "ObserverSilent", format!("Datastore {name}: {error}")),
        None => not_ready(own, "Starting", format!("Datastore {name} has no observer yet")),
    })
}

fn answered(
    datastore: &Datastore,
    status: &DatastoreStatus,
    found: ReadyTarget,
    observation: Observation,
    own: bool,
) -> TargetState {
    let name = &found.name;
    // The server was not built for a declaration whose change waits for this run.
    let built_for = found.identity.as_ref().and_then(|identity| identity.generation);
    let edited = built_for.is_some_and(|generation| Some(generation) != datastore.metadata.generation);
    let different = if edited { Vec::new() } else { disagreements(datastore, &observation) };
    if !different.is_empty() {
        return TargetState::Disagrees(format!("Datastore {name}: {}", different.join("; ")));
    }
    let members = match members(&status.members, Some(&observation)) {
        Ok(members) => members,
        Err(message) => return not_ready(own, "Starting", format!("Datastore {name}: {message}")),
    };
    let processes = members.iter().filter_map(|member| member.run_id.clone());
    let processes: Vec<String> = processes.chain([observation.server.run_id.clone()]).collect();
    TargetState::Ready(Box::new(ReadyTarget {
        identity: found.identity.map(|identity| identity.with_processes(processes)),
        truth: Some(observation.server),
        members,
        questioned: true,
        ..found
    }))
}

#[cfg(test)]
mod tests;
