//! The Datastore that a run loads, and its pods, as the watches show them.

use super::alias::datastore_at;
use crate::run::context::{Pass, RunContext};
use dragstrip_core::{
    labels,
    run::{
        decide::DatastoreKey,
        identity::Identity,
        validate::{ValidatedRun, host_and_port},
    },
};
use dragstrip_crds::Datastore;
use k8s_openapi::api::core::v1::Pod;
use kube::{ResourceExt, runtime::reflector::ObjectRef};
use std::{collections::BTreeSet, sync::Arc};

fn stored(ctx: &RunContext, key: &DatastoreKey) -> Option<Arc<Datastore>> {
    ctx.world.datastores.get(&ObjectRef::new(&key.name).within(&key.namespace))
}

/// The Datastore that `run` refers to or owns, whether it exists or not.
pub fn key(run: &ValidatedRun) -> Option<DatastoreKey> {
    let name = run.datastore_name()?.to_owned();
    Some(DatastoreKey { namespace: run.holder.namespace.clone(), name })
}

/// The Datastore that `run` refers to or owns, if it exists.
pub fn datastore(pass: &Pass<'_>) -> Option<Arc<Datastore>> {
    stored(pass, &key(pass.run)?)
}

/// The Datastore behind `host`, an external address, if there is one.
pub fn behind(pass: &Pass<'_>, pods: &[Arc<Pod>], host: &str) -> Option<DatastoreKey> {
    datastore_at(host, &pass.run.holder.namespace, pods, |key| stored(pass, key).is_some())
}

pub fn servers<'a>(
    pods: &'a [Arc<Pod>],
    key: &'a DatastoreKey,
) -> impl Iterator<Item = &'a Arc<Pod>> + Clone {
    pods.iter().filter(|pod| {
        let label = |name| pod.labels().get(name).map(String::as_str);
        label(labels::COMPONENT) == Some(labels::SERVER)
            && label(labels::DATASTORE) == Some(&key.name)
            && pod.namespace().as_ref() == Some(&key.namespace)
    })
}

/// The pods of the server that `run` loads; none if they are not in this cluster.
pub fn of_run(pass: &Pass<'_>) -> Vec<Arc<Pod>> {
    let pods = pass.world.pods.state();
    let address = pass.run.spec.target.external().and_then(|it| host_and_port(&it.address));
    let key = key(pass.run).or_else(|| behind(pass, &pods, &address?.0));
    key.map(|key| servers(&pods, &key).cloned().collect()).unwrap_or_default()
}

/// The identity of the server of `run` by its pods alone; empty if they are not in this cluster.
pub fn identity(pass: &Pass<'_>) -> Identity {
    Identity::of(of_run(pass).iter(), None)
}

pub fn node_of(pod: &Pod) -> Option<String> {
    pod.spec.as_ref()?.node_name.clone()
}

/// The nodes that `pods` are on, each once.
pub fn nodes_of<'a>(pods: impl Iterator<Item = &'a Arc<Pod>>) -> Vec<String> {
    pods.filter_map(|pod| node_of(pod)).collect::<BTreeSet<_>>().into_iter().collect()
}
