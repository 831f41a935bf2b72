//! Spec to [`ValidatedDatastore`]: checks what the API server's rules cannot express. Pure.

use super::{
    engines::{self, MIB, max_memory},
    resources::{needed_memory, not_exclusive, of_server, unreadable},
    shape::Shape,
};
use crate::{
    datastore::room::{Room, most_cpus},
    nodes::affine as affine_to,
};
use dragstrip_crds::{Datastore, DatastoreSpec, Engine, datastore::CustomPort};
use dragstrip_results::protocol::OBSERVER_PORT;
use k8s_openapi::api::core::v1::{Node, ResourceRequirements};
use kube::ResourceExt;
use std::{borrow::Borrow, collections::BTreeMap, iter};

/// Why nothing can be built from a declaration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Invalid {
    pub reason: &'static str,
    /// Names the field and the remedy.
    message: String,
}

fn invalid(reason: &'static str, message: String) -> Invalid {
    Invalid { reason, message }
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
    pub resources: ResourceRequirements,
}

fn check_memory(spec: &DatastoreSpec, resources: &ResourceRequirements) -> Result<(), Invalid> {
    let limit = resources.limits.as_ref().and_then(|limits| limits.get("memory"));
    let Some((text, limit)) = limit.and_then(|limit| Some((&limit.0, Room::number(limit)?))) else {
        return Ok(());
    };
    let needed = needed_memory(spec);
    // A custom server may do anything with maxMemory.
    if spec.engine == Engine::Custom || limit >= needed as f64 {
        return Ok(());
    }
    let data = max_memory(spec).div_ceil(MIB);
    Err(invalid(
        "InvalidMemory",
        format!(
            "spec.resources.limits.memory is {text}, but maxMemory ({data} MiB) and what {} itself needs make {} MiB: set the limit to {1}Mi or more, or lower spec.maxMemory",
            spec.engine,
            needed.div_ceil(MIB)
        ),
    ))
}

/// Checks that exclusive CPUs are whole, and no fewer than threads.
fn check_cpus(spec: &DatastoreSpec) -> Result<(), Invalid> {
    let Some(resources) = spec.resources.as_ref().filter(|_| spec.cpu.exclusive) else { return Ok(()) };
    let declared =
        [&resources.limits, &resources.requests].into_iter().flatten().find_map(|it| it.get("cpu"));
    let too_few = || {
        let cpus = declared.and_then(Room::number).filter(|cpus| *cpus < f64::from(spec.threads))?;
        Some(format!(
            "spec.resources: {cpus} CPUs for {0} threads, each of which needs one of its own with spec.cpu.exclusive: raise cpu to {0} or more, or lower spec.threads",
            spec.threads
        ))
    };
    let problem = not_exclusive(resources, "spec.resources").or_else(too_few);
    problem.map_or(Ok(()), |problem| Err(invalid("InvalidCpus", problem)))
}

/// Checks that ports and their names differ: all containers of a pod share its address.
fn check_ports(spec: &DatastoreSpec) -> Result<(), Invalid> {
    let is_port = |argument: &&String| matches!(argument.split(['=', ' ']).next(), Some("--port" | "-port"));
    if let Some(argument) = spec.extra_args.iter().find(is_port).filter(|_| spec.custom.is_none()) {
        let message = format!("spec.extraArgs holds {argument}: declare the port in spec.port instead");
        return Err(invalid("InvalidPorts", message));
    }
    let observer = (i32::from(OBSERVER_PORT), "", "the observer's port".to_owned());
    let servers = Shape::of(spec).ports(spec);
    let servers = servers.map(|port| (i32::from(port), "spec.port", "a server's port".to_owned()));
    let further = || spec.custom.iter().flat_map(|custom| &custom.ports);
    let named = further().map(|it| (it.port, "spec.custom.ports", format!("the port {}", it.name)));
    let mut owners = BTreeMap::new();
    for (port, field, owner) in iter::once(observer).chain(servers).chain(named) {
        if let Some(other) = owners.insert(port, owner.clone()) {
            let message = format!("{field}: {owner} is {port}, which is {other}: choose another");
            return Err(invalid("InvalidPorts", message));
        }
    }
    match further().find(|port| ["resp", "server", "observer"].contains(&port.name.as_str())) {
        Some(CustomPort { name, .. }) => {
            let message = format!("spec.custom.ports: the name {name} is taken: choose another");
            Err(invalid("InvalidPorts", message))
        }
        None => Ok(()),
    }
}

/// The declaration with defaults. Only the default requests depend on `nodes`, which may be none.
pub fn complete<N: Borrow<Node>>(datastore: &Datastore, nodes: &[N]) -> Result<ValidatedDatastore, Invalid> {
    let incomplete = |part| invalid("Incomplete", format!("the object has no {part}"));
    let spec = datastore.spec.clone();
    let affine: Vec<&Node> =
        nodes.iter().map(Borrow::borrow).filter(|node| affine_to(node, &spec.pod)).collect();
    Ok(ValidatedDatastore {
        name: datastore.name_any(),
        namespace: datastore.namespace().ok_or_else(|| incomplete("namespace"))?,
        uid: datastore.uid().ok_or_else(|| incomplete("uid"))?,
        generation: datastore.metadata.generation.unwrap_or(0),
        image: engines::image(&spec),
        resources: of_server(&spec, most_cpus(&affine, &spec.placement)),
        spec,
    })
}

/// Checks the complete declaration against its engine.
pub fn validate<N: Borrow<Node>>(datastore: &Datastore, nodes: &[N]) -> Result<ValidatedDatastore, Invalid> {
    let spec = &datastore.spec;
    if let Some(complaint) = engines::rules(spec.engine).refuse(spec) {
        return Err(invalid("InvalidForEngine", complaint));
    }
    if let Some(problem) = unreadable(spec.resources.as_ref(), "spec.resources") {
        return Err(invalid("InvalidResources", problem));
    }
    check_ports(spec)?;
    check_cpus(spec)?;
    let validated = complete(datastore, nodes)?;
    check_memory(spec, &validated.resources)?;
    Ok(validated)
}
