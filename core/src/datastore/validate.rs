//! Spec to [`ValidatedDatastore`]: what the apiserver's rules cannot say is
//! checked here. Pure.

use super::{
    engines::{self, MIB, max_memory},
    resources::{needed_memory, not_exclusive, of_server},
    shape::Shape,
};
use crate::{
    datastore::room::{Room, most_cpus},
    nodes::affine as affine_to,
};
use dragstrip_crds::{Datastore, DatastoreSpec};
use dragstrip_results::protocol::OBSERVER_PORT;
use k8s_openapi::api::core::v1::{Node, ResourceRequirements};
use kube::ResourceExt;
use std::{
    borrow::Borrow,
    collections::{BTreeMap, BTreeSet},
};

/// A declaration nothing can be built from; the message names field and remedy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    #[error("{0}")]
    Engine(String),
    #[error("{0}")]
    Memory(String),
    #[error("{0}")]
    Cpus(String),
    #[error("{0}")]
    Ports(String),
    #[error("the object has no {0}")]
    Incomplete(&'static str),
}

impl Invalid {
    /// Reason of the condition.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Engine(_) => "InvalidForEngine",
            Self::Memory(_) => "InvalidMemory",
            Self::Cpus(_) => "InvalidCpus",
            Self::Ports(_) => "InvalidPorts",
            Self::Incomplete(_) => "Incomplete",
        }
    }
}

/// A Datastore that can be built without further doubt.
#[derive(Debug, Clone)]
pub struct ValidatedDatastore {
    pub name: String,
    pub namespace: String,
    /// Its uid, which is also the observer's token.
    pub uid: String,
    pub generation: i64,
    pub spec: DatastoreSpec,
    pub image: String,
    /// Resources of the server container.
    pub resources: ResourceRequirements,
}

fn check_memory(spec: &DatastoreSpec, resources: &ResourceRequirements) -> Result<(), Invalid> {
    let limit = resources.limits.as_ref().and_then(|limits| limits.get("memory"));
    let Some((text, limit)) = limit.and_then(|limit| Some((&limit.0, Room::number(limit)?))) else {
        return Ok(());
    };
    let needed = needed_memory(spec);
    // What another server does with maxMemory is not known.
    if !engines::rules(spec.engine).known() || limit >= needed as f64 {
        return Ok(());
    }
    let data = max_memory(spec).div_ceil(MIB);
    Err(Invalid::Memory(format!(
        "spec.resources.limits.memory is {text}, but maxMemory ({data} MiB) and what {} itself needs make {} MiB: set the limit to {1}Mi or more, or lower spec.maxMemory",
        spec.engine,
        needed.div_ceil(MIB)
    )))
}

/// CPUs of its own are whole, and no fewer than threads.
fn check_cpus(spec: &DatastoreSpec) -> Result<(), Invalid> {
    let Some(resources) = spec.resources.as_ref().filter(|_| spec.cpu.exclusive) else { return Ok(()) };
    if let Some(problem) = not_exclusive(resources, "spec.resources") {
        return Err(Invalid::Cpus(problem));
    }
    let declared =
        [&resources.limits, &resources.requests].into_iter().flatten().find_map(|it| it.get("cpu"));
    match declared.and_then(Room::number) {
        Some(cpus) if cpus < f64::from(spec.threads) => Err(Invalid::Cpus(format!(
            "spec.resources: {cpus} CPUs for {0} threads, each of which needs one of its own with spec.cpu.exclusive: raise cpu to {0} or more, or lower spec.threads",
            spec.threads
        ))),
        _ => Ok(()),
    }
}

/// All containers of a pod share its address, and all ports of a Service their names.
fn check_ports(spec: &DatastoreSpec) -> Result<(), Invalid> {
    let mut taken = BTreeMap::from([(i32::from(OBSERVER_PORT), "the observer's port".to_owned())]);
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

/// The declaration with what it leaves out. Of the nodes that there are only the
/// default of what the server requests depends: none of them must exist yet.
pub fn complete<N: Borrow<Node>>(datastore: &Datastore, nodes: &[N]) -> Result<ValidatedDatastore, Invalid> {
    let spec = datastore.spec.clone();
    let rules = engines::rules(spec.engine);
    let affine: Vec<&Node> =
        nodes.iter().map(Borrow::borrow).filter(|node| affine_to(node, &spec.pod)).collect();
    Ok(ValidatedDatastore {
        name: datastore.name_any(),
        namespace: datastore.namespace().ok_or(Invalid::Incomplete("namespace"))?,
        uid: datastore.uid().ok_or(Invalid::Incomplete("uid"))?,
        generation: datastore.metadata.generation.unwrap_or(0),
        image: spec.image.clone().unwrap_or_else(|| rules.default_image(spec.version.as_deref())),
        resources: of_server(&spec, most_cpus(&affine, &spec.placement)),
        spec,
    })
}

/// Checks the whole declaration against its engine.
pub fn validate<N: Borrow<Node>>(datastore: &Datastore, nodes: &[N]) -> Result<ValidatedDatastore, Invalid> {
    let spec = &datastore.spec;
    if let Some(complaint) = engines::rules(spec.engine).refuse(spec) {
        return Err(Invalid::Engine(complaint));
    }
    check_ports(spec)?;
    check_cpus(spec)?;
    let validated = complete(datastore, nodes)?;
    check_memory(spec, &validated.resources)?;
    Ok(validated)
}
