//! What a Datastore's status says. [`publish`] needs the client, the rest is pure.

use super::{
    engines,
    fetch::{Fetched, all_ready},
    shape::{self, Shape, service_domain},
    validate::{Invalid, ValidatedDatastore},
    verify,
};
use crate::{
    cluster::{
        apply::{StatusWrite, apply_status},
        nodes, pods, warnings,
    },
    context::Context,
    labels::DATASTORE_MANAGER,
};
use dragstrip_crds::{
    Datastore, DatastoreStatus, conditions,
    conditions::Finding,
    conditions::types::{READY, VERIFIED},
    datastore::MemberStatus,
};
use jiff::Timestamp;
use kube::ResourceExt;

/// Reason of Verified when nothing can be asked.
const NOT_VERIFIABLE: &str = "NotVerifiable";
/// Reason of Ready while servers learn of each other.
const JOINING: &str = "Joining";

/// Writing the status failed.
#[derive(Debug, thiserror::Error)]
#[error("failed to write the status of the datastore")]
pub struct Error(#[source] kube::Error);

/// Every difference between declaration and truth over all servers, or why one
/// of them could not be asked.
fn differences(datastore: &ValidatedDatastore, fetched: &Fetched) -> Result<Vec<String>, String> {
    let spec = &datastore.spec;
    if let Some(topology) = &fetched.topology {
        let members = &topology.as_ref().map_err(Clone::clone)?.members;
        if let Some(silent) = members.iter().find(|member| member.truth.is_none()) {
            return Err(format!("{} did not answer", silent.address));
        }
        return Ok(members.iter().flat_map(|member| verify::member_disagreements(spec, member)).collect());
    }
    let mut found = Vec::new();
    for observed in &fetched.observed {
        let observation = observed.as_ref().map_err(Clone::clone)?;
        found.extend(verify::disagreements(spec, &observation.server));
    }
    Ok(found)
}

/// Whether as many observers and servers were asked as there are.
fn all_asked(datastore: &ValidatedDatastore, fetched: &Fetched) -> bool {
    match Shape::of(&datastore.spec) {
        Shape::Single => fetched.observed.len() == 1,
        Shape::Members(members) => fetched.observed.len() == usize::from(members),
        Shape::ShardsInOnePod(_) | Shape::ShardsSpread(_) | Shape::Replicated(_) => {
            fetched.topology.is_some()
        }
    }
}

fn verified(datastore: &ValidatedDatastore, fetched: &Fetched) -> Finding {
    if !engines::speaks_resp(&datastore.spec) {
        let message = "the server does not speak RESP: what it is cannot be read back and compared";
        return Finding::unknown(VERIFIED, NOT_VERIFIABLE, message);
    }
    if !all_asked(datastore, fetched) {
        return Finding::unknown(VERIFIED, "NotObserved", "the server has not been asked yet");
    }
    match differences(datastore, fetched) {
        Err(error) => {
            Finding::unknown(VERIFIED, "ObserverSilent", format!("the server could not be asked: {error}"))
        }
        Ok(found) if found.is_empty() => {
            Finding::yes(VERIFIED, "AsDeclared", "the running server is what was declared")
        }
        Ok(found) => Finding::no(VERIFIED, "NotAsDeclared", found.join("; ")),
    }
}

/// What keeps the pods from being ready; `None` when all of them are.
fn unready(shape: Shape, fetched: &Fetched) -> Option<Finding> {
    if fetched.pods.is_empty() {
        return Some(Finding::no(READY, "NoPod", "the server's pod has not been created yet"));
    }
    let trouble = |pod| pods::trouble(pod).or_else(|| warnings::trouble(pod, &fetched.warnings));
    if let Some(trouble) = fetched.pods.iter().find_map(trouble) {
        return Some(Finding::no(READY, reason(&trouble.reason), trouble.message));
    }
    if all_ready(shape, &fetched.pods) {
        return None;
    }
    let message = match fetched.pods.iter().find(|pod| !pods::ready(pod)) {
        Some(pod) => format!("pod {} is starting", pod.name_any()),
        None => format!("{} of {} pods have been created", fetched.pods.len(), shape.pods()),
    };
    Some(Finding::no(READY, "Starting", message))
}

/// What keeps the servers from being joined; `None` when they are, or need not be.
fn unjoined(fetched: &Fetched) -> Option<Finding> {
    match fetched.topology.as_ref()? {
        Ok(state) if state.complete => None,
        Ok(state) => {
            Some(Finding::no(READY, JOINING, format!("the servers are being joined: {}", state.message)))
        }
        Err(error) => Some(Finding::no(READY, JOINING, format!("the servers could not be joined: {error}"))),
    }
}

fn ready(datastore: &ValidatedDatastore, fetched: &Fetched, verified: &Finding) -> Finding {
    if let Some(finding) = unready(Shape::of(&datastore.spec), fetched).or_else(|| unjoined(fetched)) {
        return finding;
    }
    match verified.status {
        Some(true) => Finding::yes(READY, "Ready", "the server answers and is what was declared"),
        Some(false) => Finding::no(READY, "NotAsDeclared", verified.message.clone()),
        None if verified.reason == NOT_VERIFIABLE => {
            Finding::yes(READY, "Ready", "every member is ready; nothing could be compared")
        }
        None => Finding::no(READY, "NotVerified", verified.message.clone()),
    }
}

/// Whether another look is due soon because no event will bring one: all pods
/// are ready, and a server has yet to be asked or joined.
pub fn unsettled(status: &DatastoreStatus, shape: Shape, fetched: &Fetched) -> bool {
    let condition = |kind| conditions::find(&status.conditions, kind);
    let unknown = condition(VERIFIED).is_none_or(|c| c.status == "Unknown" && c.reason != NOT_VERIFIABLE);
    let joining = condition(READY).is_none_or(|c| c.reason == JOINING);
    all_ready(shape, &fetched.pods) && (unknown || joining)
}

/// Every server, where there are several.
fn members(datastore: &ValidatedDatastore, fetched: &Fetched) -> Vec<MemberStatus> {
    let shape = Shape::of(&datastore.spec);
    if shape.servers() == 1 {
        return Vec::new();
    }
    let joined = fetched.topology.as_ref().and_then(|topology| topology.as_ref().ok());
    let places = shape::places(&datastore.spec, &fetched.pods);
    let member = |(index, place): (usize, shape::Place)| {
        let told = joined.and_then(|state| state.members.iter().find(|m| m.address == place.address));
        let truth = match shape {
            Shape::Members(_) => fetched.observed.get(index).and_then(|o| o.as_ref().ok()).map(|o| &o.server),
            _ => told.and_then(|member| member.truth.as_ref()),
        };
        MemberStatus {
            role: told.map_or_else(|| role(shape, index).to_owned(), |member| member.role.clone()),
            slots: told.and_then(|member| member.slots.clone()),
            run_id: truth.map(|truth| truth.run_id.clone()).filter(|id| !id.is_empty()),
            address: place.address.to_string(),
            pod: place.pod,
            node: place.node,
        }
    };
    places.into_iter().enumerate().map(member).collect()
}

fn role(shape: Shape, index: usize) -> &'static str {
    match shape {
        Shape::ShardsInOnePod(_) | Shape::ShardsSpread(_) => "shard",
        Shape::Replicated(_) if index > 0 => "replica",
        Shape::Replicated(_) | Shape::Single => "primary",
        Shape::Members(_) => "member",
    }
}

/// Condition reasons are constants: what Kubernetes may say is mapped to them.
fn reason(of_pod: &str) -> &'static str {
    match of_pod {
        "Unschedulable" => "Unschedulable",
        "ImageUnavailable" | "InvalidImageName" | "ErrImageNeverPull" => "ImageUnavailable",
        "CreateContainerConfigError" | "FailedMount" | "FailedAttachVolume" => "ConfigurationMissing",
        "CrashLoopBackOff" => "ServerExits",
        _ => "PodHeldUp",
    }
}

/// The status of a valid datastore.
pub fn of_valid(
    datastore: &ValidatedDatastore,
    old: &DatastoreStatus,
    fetched: &Fetched,
    now: Timestamp,
) -> DatastoreStatus {
    let verified = verified(datastore, fetched);
    let ready = ready(datastore, fetched, &verified);
    let node = fetched.node().map(nodes::facts);
    let domain = service_domain(&datastore.name, &datastore.namespace);
    DatastoreStatus {
        observed_generation: Some(datastore.generation),
        endpoint: Some(format!("{domain}:{}", datastore.spec.port)),
        observed: fetched.truth().cloned(),
        node: match (node, fetched.observation()) {
            (Some(node), Some(observation)) => Some(node.with_host(&observation.host)),
            (node, _) => node,
        },
        pod: fetched.pod().map(ResourceExt::name_any),
        members: members(datastore, fetched),
        notes: engines::rules(datastore.spec.engine).notes(&datastore.spec),
        conditions: conditions::upsert(&old.conditions, &[ready, verified], datastore.generation, now),
    }
}

/// The status of a datastore that cannot be built.
pub fn of_invalid(
    datastore: &Datastore,
    old: &DatastoreStatus,
    invalid: &Invalid,
    now: Timestamp,
) -> DatastoreStatus {
    let generation = datastore.metadata.generation.unwrap_or(0);
    let finding = Finding::no(READY, invalid.reason(), invalid.to_string());
    DatastoreStatus {
        observed_generation: Some(generation),
        conditions: conditions::upsert(&old.conditions, &[finding], generation, now),
        ..old.clone()
    }
}

/// Whether two statuses say the same. Memory in use changes with every look
/// and alone is no reason to write.
fn same(old: &DatastoreStatus, new: &DatastoreStatus) -> bool {
    let mut new = new.clone();
    if let (Some(new), Some(old)) = (&mut new.observed, &old.observed) {
        new.used_memory_bytes = old.used_memory_bytes;
    }
    *old == new
}

/// Writes `status` if it says anything new, and announces when readiness changed.
pub async fn publish(ctx: &Context, datastore: &Datastore, status: DatastoreStatus) -> Result<(), Error> {
    let old = datastore.status.clone().unwrap_or_default();
    if same(&old, &status) {
        return Ok(());
    }
    let written = apply_status(&ctx.client, DATASTORE_MANAGER, datastore, &status).await.map_err(Error)?;
    if written == StatusWrite::ObjectGone {
        return Ok(());
    }
    let (before, after) =
        (conditions::find(&old.conditions, READY), conditions::find(&status.conditions, READY));
    if let Some(after) = after
        && before.is_none_or(|before| (&before.reason, &before.message) != (&after.reason, &after.message))
    {
        let quiet = ["Ready", "Starting", "NoPod", "NotVerified", JOINING].contains(&after.reason.as_str());
        ctx.announcer.publish(datastore, !quiet, &after.reason, "Reconcile", &after.message).await;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
