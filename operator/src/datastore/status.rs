//! What a Datastore's status says. [`publish`] needs the client, the rest is pure.

use super::{
    fetch::Fetched,
    places,
    trouble::{ROLLING_OUT, SERVER_EXITS, unready},
};
use crate::context::Context;
use dragstrip_core::{
    datastore::{
        engines,
        room::Room,
        shape::{Shape, service_domain},
        validate::{Invalid, ValidatedDatastore},
        verify,
    },
    labels::DATASTORE_MANAGER,
    lease::Holder,
    nodes,
};
use dragstrip_crds::{
    Datastore, DatastoreStatus, conditions,
    conditions::Finding,
    conditions::types::{READY, VERIFIED},
    datastore::MemberStatus,
};
use jiff::Timestamp;
use kube::{
    Api, Resource, ResourceExt,
    api::{Patch, PatchParams},
};
use serde_json::json;

/// Reason of Verified when nothing can be asked.
const NOT_VERIFIABLE: &str = "NotVerifiable";
/// Reason of Ready while servers learn of each other.
const JOINING: &str = "Joining";
/// Reason of Ready when a server that is up could not be asked.
const NOT_VERIFIED: &str = "NotVerified";
/// Reason of Ready while a run holds a server that was declared anew.
pub const CHANGE_WAITS: &str = "ChangeWaits";
/// Reason of Ready while objects of a former Datastore are there.
pub const BEING_REMOVED: &str = "BeingRemoved";

/// Said of a server that was asked.
const AS_DECLARED: &str = "the server answers and matches its declaration";
/// Said of servers that cannot be asked.
const NOT_COMPARED: &str = "every member is ready; the declaration could not be compared";

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
        let message =
            "the server does not speak RESP, so the operator cannot compare it with its declaration";
        return Finding::unknown(VERIFIED, NOT_VERIFIABLE, message);
    }
    if !all_asked(datastore, fetched) {
        return Finding::unknown(VERIFIED, "NotObserved", "the server has not been queried yet");
    }
    match differences(datastore, fetched) {
        Err(error) => {
            Finding::unknown(VERIFIED, "ObserverSilent", format!("the server could not be queried: {error}"))
        }
        Ok(found) if found.is_empty() => {
            Finding::yes(VERIFIED, "AsDeclared", "the running server matches its declaration")
        }
        Ok(found) => Finding::no(VERIFIED, "NotAsDeclared", found.join("; ")),
    }
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
    if let Some(finding) = unready(datastore, fetched).or_else(|| unjoined(fetched)) {
        return finding;
    }
    match verified.status {
        Some(true) => Finding::yes(READY, "Ready", AS_DECLARED),
        Some(false) => Finding::no(READY, "NotAsDeclared", verified.message.clone()),
        None if verified.reason == NOT_VERIFIABLE => Finding::yes(READY, "Ready", NOT_COMPARED),
        None => Finding::no(READY, NOT_VERIFIED, verified.message.clone()),
    }
}

/// Whether another look is due soon because no event will bring one: all pods
/// are ready, and a server has yet to be asked or joined. The cause, for the log.
pub fn unsettled(status: &DatastoreStatus) -> Option<&str> {
    let ready = conditions::find(&status.conditions, READY)?;
    [JOINING, NOT_VERIFIED].contains(&ready.reason.as_str()).then_some(&ready.message)
}

/// Every server, where there are several.
fn members(datastore: &ValidatedDatastore, fetched: &Fetched) -> Vec<MemberStatus> {
    let shape = Shape::of(&datastore.spec);
    if shape.servers() == 1 {
        return Vec::new();
    }
    let joined = fetched.topology.as_ref().and_then(|topology| topology.as_ref().ok());
    let places = places::places(&datastore.spec, &fetched.pods);
    let member = |(index, place): (usize, places::Place)| {
        let reported = joined.and_then(|state| state.members.iter().find(|m| m.address == place.address));
        let truth = match shape {
            Shape::Members(_) => fetched.observed.get(index).and_then(|o| o.as_ref().ok()).map(|o| &o.server),
            _ => reported.and_then(|member| member.truth.as_ref()),
        };
        MemberStatus {
            role: reported.map_or_else(|| role(shape, index).to_owned(), |member| member.role.clone()),
            slots: reported.and_then(|member| member.slots.as_deref()).map(ranges).unwrap_or_default(),
            run_id: truth.map(|truth| truth.run_id.clone()).filter(|id| !id.is_empty()),
            address: place.address.to_string(),
            pod: place.pod,
            node: place.node,
        }
    };
    places.into_iter().enumerate().map(member).collect()
}

/// The ranges of slots that an observer tells in one text, with commas between them.
fn ranges(slots: &str) -> Vec<String> {
    slots.split(',').map(str::to_owned).collect()
}

fn role(shape: Shape, index: usize) -> &'static str {
    match shape {
        Shape::ShardsInOnePod(_) | Shape::ShardsSpread(_) => "shard",
        Shape::Replicated(_) if index > 0 => "replica",
        Shape::Replicated(_) | Shape::Single => "primary",
        Shape::Members(_) => "member",
    }
}

/// Whether two messages differ in numbers alone, such as times and process ids.
fn alike(one: &str, other: &str) -> bool {
    let words = |text: &str| text.chars().filter(|c| !c.is_ascii_digit()).collect::<String>();
    words(one) == words(other)
}

/// A server that exits again and again says the same with other times in it: what
/// was told of it stays, so that neither status nor events change with every try.
fn steady(finding: Finding, old: &DatastoreStatus) -> Finding {
    let reported =
        conditions::find(&old.conditions, READY).filter(|reported| reported.reason == SERVER_EXITS);
    match reported {
        Some(reported) if finding.reason == SERVER_EXITS && alike(&reported.message, &finding.message) => {
            Finding { message: reported.message.clone(), ..finding }
        }
        _ => finding,
    }
}

/// What is told of a server that was not given CPUs of its own.
fn shared_cpus(datastore: &ValidatedDatastore, fetched: &Fetched) -> Option<String> {
    let template = &fetched.stateful_set.as_ref()?.spec.as_ref()?.template;
    let resources = template.spec.as_ref()?.containers.first()?.resources.as_ref()?;
    let (requested, limit) = (Room::of(resources.requests.as_ref()), Room::of(resources.limits.as_ref()));
    let reduced = datastore.spec.resources.is_none() && requested.cpus < limit.cpus;
    reduced.then(|| {
        format!(
            "requests {} of {} CPUs for each server, because no node was there with room for all of them beside its daemons: its CPUs are not its own alone",
            requested.cpus, limit.cpus
        )
    })
}

/// The status of a valid datastore.
pub fn of_valid(
    datastore: &ValidatedDatastore,
    old: &DatastoreStatus,
    fetched: &Fetched,
    now: Timestamp,
) -> DatastoreStatus {
    let verified = verified(datastore, fetched);
    let ready = steady(ready(datastore, fetched, &verified), old);
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
        notes: engines::rules(datastore.spec.engine)
            .notes(&datastore.spec)
            .into_iter()
            .chain(shared_cpus(datastore, fetched))
            .collect(),
        conditions: conditions::upsert(&old.conditions, &[ready, verified], datastore.generation, now),
    }
}

/// What is told while load runs, where that needs no question to the server: why its pods are
/// `unready`, or that they are ready again and `same` as when they were verified. `None` where
/// only the server can tell.
pub fn under_load(
    unready: Option<Finding>,
    same: bool,
    old: &DatastoreStatus,
    generation: i64,
) -> Option<Finding> {
    if let Some(finding) = unready {
        return Some(steady(finding, old));
    }
    let verified = conditions::find(&old.conditions, VERIFIED)
        .filter(|verified| same && verified.observed_generation == Some(generation))?;
    match (verified.status.as_str(), verified.reason.as_str()) {
        ("True", _) => Some(Finding::yes(READY, "Ready", AS_DECLARED)),
        (_, NOT_VERIFIABLE) => Some(Finding::yes(READY, "Ready", NOT_COMPARED)),
        _ => None,
    }
}

/// A datastore that cannot be built.
pub fn invalid(invalid: &Invalid) -> Finding {
    Finding::no(READY, invalid.reason, invalid.to_string())
}

/// A datastore whose server must stay as it is while `holder` uses it.
pub fn waits(holder: &Holder) -> Finding {
    let message = format!(
        "run {} holds the server, which keeps its earlier declaration until the run has ended; the change follows then",
        holder.reference()
    );
    Finding::no(READY, CHANGE_WAITS, message)
}

/// The status of a datastore whose server was not looked at: the rest is as it was.
pub fn of_finding(
    datastore: &Datastore,
    old: &DatastoreStatus,
    finding: Finding,
    now: Timestamp,
) -> DatastoreStatus {
    let generation = datastore.metadata.generation.unwrap_or(0);
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

/// Writes `status`, if `datastore` is still what was looked at: what is added to a
/// stale status would set its times and events anew.
async fn write(ctx: &Context, datastore: &Datastore, status: &DatastoreStatus) -> kube::Result<()> {
    let namespace = datastore.namespace().unwrap_or_default();
    let api: Api<Datastore> = Api::namespaced(ctx.client.clone(), &namespace);
    let body = json!({
        "apiVersion": Datastore::api_version(&()),
        "kind": Datastore::kind(&()),
        "metadata": {"uid": datastore.uid(), "resourceVersion": datastore.resource_version()},
        "status": status,
    });
    let parameters = PatchParams::apply(DATASTORE_MANAGER).force();
    match api.patch_status(&datastore.name_any(), &parameters, &Patch::Apply(&body)).await {
        // Nobody will read the status of what was deleted.
        Err(kube::Error::Api(refusal)) if refusal.is_not_found() => Ok(()),
        answer => answer.map(drop),
    }
}

/// What is told by the condition alone, and what is told as an ordinary event.
fn announced(reason: &str) -> Option<bool> {
    match reason {
        "NoPod" | "Starting" | BEING_REMOVED => None,
        "Ready" | NOT_VERIFIED | JOINING | ROLLING_OUT | CHANGE_WAITS => Some(false),
        _ => Some(true),
    }
}

/// Writes `status` if it says anything new, and announces when readiness changed.
pub async fn publish(ctx: &Context, datastore: &Datastore, status: DatastoreStatus) -> Result<(), Error> {
    let old = datastore.status.clone().unwrap_or_default();
    if same(&old, &status) {
        return Ok(());
    }
    write(ctx, datastore, &status).await.map_err(Error)?;
    let (before, after) =
        (conditions::find(&old.conditions, READY), conditions::find(&status.conditions, READY));
    if let Some(after) = after
        && before.is_none_or(|before| (&before.reason, &before.message) != (&after.reason, &after.message))
        && let Some(warning) = announced(&after.reason)
    {
        ctx.announcer.publish(datastore, warning, &after.reason, "Reconcile", &after.message).await;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
