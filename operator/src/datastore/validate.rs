//! Spec to [`ValidatedDatastore`]: what the apiserver's rules cannot say is
//! checked here. Pure.

use super::engines::{self, MIB, max_memory, threads};
use crate::cluster::nodes;
use dragstrip_crds::{Datastore, DatastoreSpec};
use k8s_openapi::{
    api::core::v1::{Node, ResourceRequirements},
    apimachinery::pkg::api::resource::Quantity,
};
use kube::ResourceExt;
use std::collections::BTreeMap;

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
    match nodes::most_cpus(known, &spec.placement) {
        None => Err(Invalid::NoNode(placement)),
        Some(cpus) if cpus < spec.threads => {
            Err(Invalid::ThreadsExceedNode { threads: spec.threads, cpus, placement })
        }
        Some(_) => Ok(()),
    }
}

/// Checks the whole declaration against its engine and the cluster's nodes.
pub fn validate(datastore: &Datastore, known_nodes: &[Node]) -> Result<ValidatedDatastore, Invalid> {
    let spec = datastore.spec.clone();
    let rules = engines::rules(spec.engine);
    if let Some(complaint) = rules.refuse(&spec) {
        return Err(Invalid::Engine(complaint));
    }
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
