//! Spec to [`ValidatedDatastore`]: what the apiserver's rules cannot say is
//! checked here. Pure.

use super::{
    engines::{self, MIB, max_memory, threads},
    shape::Shape,
};
use crate::cluster::nodes;
use dragstrip_crds::{Datastore, DatastoreSpec};
use dragstrip_results::protocol::OBSERVER_PORT;
use k8s_openapi::{
    api::core::v1::{Node, ResourceRequirements},
    apimachinery::pkg::api::resource::Quantity,
};
use kube::ResourceExt;
use std::collections::{BTreeMap, BTreeSet};

/// A declaration nothing can be built from; the message names field and remedy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// The engine refuses the combination.
    #[error("{0}")]
    Engine(String),
    /// No node has so many CPUs.
    #[error(
        "spec.threads is {threads} but the largest node selected by spec.placement ({placement}) has {cpus} CPUs: use at most {cpus} threads or select a larger node"
    )]
    ThreadsExceedNode {
        /// Declared threads.
        threads: i32,
        /// CPUs of the largest node.
        cpus: i32,
        /// The node selector.
        placement: String,
    },
    /// No node has CPUs for all shards of a pod.
    #[error(
        "spec.cluster: {shards} shards of {threads} threads need {needed} CPUs on one node, but the largest node selected by spec.placement ({placement}) has {cpus}: use fewer shards, placement Spread, a larger node, or declare spec.resources of each shard"
    )]
    ShardsExceedNode {
        /// Declared shards.
        shards: u16,
        /// Declared threads of each.
        threads: i32,
        /// CPUs that they need together.
        needed: i32,
        /// CPUs of the largest node.
        cpus: i32,
        /// The node selector.
        placement: String,
    },
    /// Two things would listen on one port, or have one name.
    #[error("{0}")]
    Ports(String),
    /// No node has the labels.
    #[error("no node matches spec.placement.nodeSelector ({0}): label a node or correct the selector")]
    NoNode(String),
    /// The object has no uid or namespace, which only happens before it is stored.
    #[error("the object has no {0}")]
    Incomplete(&'static str),
}

impl Invalid {
    /// Reason of the condition.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Engine(_) => "InvalidForEngine",
            Self::ThreadsExceedNode { .. } => "ThreadsExceedNode",
            Self::ShardsExceedNode { .. } => "ShardsExceedNode",
            Self::Ports(_) => "InvalidPorts",
            Self::NoNode(_) => "NoMatchingNode",
            Self::Incomplete(_) => "Incomplete",
        }
    }
}

/// A Datastore that can be built without further doubt.
#[derive(Debug, Clone)]
pub struct ValidatedDatastore {
    /// Its name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// Its uid, which is also the observer's token.
    pub uid: String,
    /// Its generation.
    pub generation: i64,
    /// The declaration.
    pub spec: DatastoreSpec,
    /// Image to run.
    pub image: String,
    /// Resources of the server container.
    pub resources: ResourceRequirements,
}

/// Requests equal to limits, whole CPUs: what a static CPU manager asks for.
fn default_resources(spec: &DatastoreSpec) -> ResourceRequirements {
    let memory =
        (max_memory(spec) + engines::rules(spec.engine).memory_overhead(threads(spec))).div_ceil(MIB);
    let amounts: BTreeMap<String, Quantity> = [
        ("cpu".to_owned(), Quantity(spec.threads.to_string())),
        ("memory".to_owned(), Quantity(format!("{memory}Mi"))),
    ]
    .into();
    ResourceRequirements {
        requests: Some(amounts.clone()),
        limits: Some(amounts),
        ..ResourceRequirements::default()
    }
}

fn check_nodes(spec: &DatastoreSpec, known: &[Node]) -> Result<(), Invalid> {
    let placement = nodes::describe(&spec.placement);
    let Some(cpus) = nodes::most_cpus(known, &spec.placement) else {
        return Err(Invalid::NoNode(placement));
    };
    if cpus < spec.threads {
        return Err(Invalid::ThreadsExceedNode { threads: spec.threads, cpus, placement });
    }
    let shards = Shape::of(spec).servers_per_pod();
    let needed = spec.threads.saturating_mul(i32::from(shards));
    if shards > 1 && spec.resources.is_none() && cpus < needed {
        let threads = spec.threads;
        return Err(Invalid::ShardsExceedNode { shards, threads, needed, cpus, placement });
    }
    Ok(())
}

/// All containers of a pod share its address, and all ports of a Service their names.
fn check_ports(spec: &DatastoreSpec) -> Result<(), Invalid> {
    let observer = engines::speaks_resp(spec).then_some(i32::from(OBSERVER_PORT));
    let mut taken: BTreeMap<i32, String> =
        observer.map(|port| (port, "the observer's port".to_owned())).into_iter().collect();
    for port in Shape::of(spec).ports(spec).map(i32::from) {
        if let Some(owner) = taken.insert(port, "a server's port".to_owned()) {
            return Err(Invalid::Ports(format!(
                "spec.port: a server would listen on {port}, which is {owner}: choose another"
            )));
        }
    }
    let reserved = ["resp", "server", "observer"];
    let mut names: BTreeSet<&str> = reserved.into();
    for further in spec.custom.iter().flat_map(|custom| &custom.ports) {
        let (name, port) = (&further.name, further.port);
        if let Some(owner) = taken.insert(port, format!("the port {name}")) {
            return Err(Invalid::Ports(format!(
                "spec.custom.ports: {name} is {port}, which is {owner}: choose another"
            )));
        }
        if !names.insert(name) {
            return Err(Invalid::Ports(format!(
                "spec.custom.ports: the name {name} is taken: choose another"
            )));
        }
    }
    Ok(())
}

/// Checks the whole declaration against its engine and the cluster's nodes.
pub fn validate(datastore: &Datastore, known_nodes: &[Node]) -> Result<ValidatedDatastore, Invalid> {
    let spec = datastore.spec.clone();
    let rules = engines::rules(spec.engine);
    if let Some(complaint) = rules.refuse(&spec) {
        return Err(Invalid::Engine(complaint));
    }
    check_ports(&spec)?;
    check_nodes(&spec, known_nodes)?;
    Ok(ValidatedDatastore {
        name: datastore.name_any(),
        namespace: datastore.namespace().ok_or(Invalid::Incomplete("namespace"))?,
        uid: datastore.uid().ok_or(Invalid::Incomplete("uid"))?,
        generation: datastore.metadata.generation.unwrap_or(0),
        image: spec.image.clone().unwrap_or_else(|| rules.default_image(spec.version.as_deref())),
        resources: spec.resources.clone().unwrap_or_else(|| default_resources(&spec)),
        spec,
    })
}
