//! The status of a Datastore. [`publish`] needs the client, the rest is pure.

use super::{
    fetch::Fetched,
    places,
    trouble::{ROLLING_OUT, SERVER_EXITS, unready},
};
use crate::cluster::{apply::apply_status, context::Context};
use dragstrip_core::{
    datastore::{
        engines,
        room::Room,
        shape::{Shape, service_domain},
        validate::ValidatedDatastore,
        verify,
    },
    labels::DATASTORE_MANAGER,
    lease::Holder,
    nodes,
};
use dragstrip_crds::{
    Datastore, DatastoreStatus,
    conditions::{
        self, Finding,
        types::{READY, VERIFIED},
    },
    datastore::MemberStatus,
};
use jiff::Timestamp;
use kube::ResourceExt;

/// Reason of Verified if the servers cannot be queried.
const NOT_VERIFIABLE: &str = "NotVerifiable";
/// Reason of Ready while servers are being joined.
const JOINING: &str = "Joining";
/// Reason of Ready while a running server does not answer.
const NOT_VERIFIED: &str = "NotVerified";
/// Reason of Ready while a run holds a server whose declaration has changed.
pub const CHANGE_WAITS: &str = "ChangeWaits";
/// Reason of Ready while objects of an earlier Datastore are being deleted.
pub const BEING_REMOVED: &str = "BeingRemoved";

/// Message about a server that was queried.
const AS_DECLARED: &str = "the server answers and matches its declaration";
/// Message about servers that cannot be queried.
const NOT_COMPARED: &str = "every member is ready; the declaration could not be compared";

/// Every difference between the declaration and the servers, or why one of them did not answer.
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

fn all_queried(datastore: &ValidatedDatastore, fetched: &Fetched) -> bool {
    let shape = Shape::of(&datastore.spec);
    match shape {
        Shape::Single | Shape::Members(_) => fetched.observed.len() == usize::from(shape.pods()),
        Shape::ClusterInOnePod(_) | Shape::ClusterSpread(_) | Shape::Replicated(_) => {
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
    if !all_queried(datastore, fetched) {
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

/// Why the servers are not joined; `None` if they are, or need not be.
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

/// Why a pass must follow soon without an event: pods are ready, but a server is silent or not joined.
pub fn unsettled(status: &DatastoreStatus) -> Option<&str> {
    let ready = conditions::find(&status.conditions, READY)?;
    [JOINING, NOT_VERIFIED].contains(&ready.reason.as_str()).then_some(&ready.message)
}

/// Every server, if there are several.
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
            // The observer reports the ranges in one text, separated by commas.
            slots: reported
                .and_then(|member| member.slots.as_deref())
                .map(|slots| slots.split(',').map(str::to_owned).collect())
                .unwrap_or_default(),
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
        Shape::ClusterInOnePod(servers) | Shape::ClusterSpread(servers)
            if index < usize::from(servers.shards) =>
        {
            "shard"
        }
        Shape::ClusterInOnePod(_) | Shape::ClusterSpread(_) => "replica",
        Shape::Replicated(_) if index > 0 => "replica",
        Shape::Replicated(_) | Shape::Single => "primary",
        Shape::Members(_) => "member",
    }
}

/// Whether two messages differ only in numbers, such as times and process ids.
fn alike(one: &str, other: &str) -> bool {
    let words = |text: &str| text.chars().filter(|c| !c.is_ascii_digit()).collect::<String>();
    words(one) == words(other)
}

/// `finding` with the message in the `old` status if the same server exits again with the same message
/// but other times, so that neither status nor events change with every attempt.
fn steady(finding: Finding, old: &DatastoreStatus) -> Finding {
    match conditions::find(&old.conditions, READY) {
        Some(reported)
            if [reported.reason.as_str(), finding.reason] == [SERVER_EXITS; 2]
                && alike(&reported.message, &finding.message) =>
        {
            Finding { message: reported.message.clone(), ..finding }
        }
        _ => finding,
    }
}

/// The note on a server without exclusive CPUs.
fn shared_cpus(datastore: &ValidatedDatastore, fetched: &Fetched) -> Option<String> {
    let template = &fetched.stateful_set.as_ref()?.spec.as_ref()?.template;
    let resources = template.spec.as_ref()?.containers.first()?.resources.as_ref()?;
    let (requested, limit) = (Room::of(resources.requests.as_ref()), Room::of(resources.limits.as_ref()));
    let reduced = datastore.spec.resources.is_none() && requested.cpus < limit.cpus;
    reduced.then(|| {
        format!(
            "requests {} of {} CPUs for each server, because no node had room for all of them beside its daemons: the server's CPUs are not exclusive",
            requested.cpus, limit.cpus
        )
    })
}

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

/// The finding while load runs, without a query to the server: why its pods are `unready`, or that they
/// are ready again with the `same` processes as when they were verified. `None` if only a query can
/// decide.
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

/// The finding while `holder` uses the server, which must not change.
pub fn waits(holder: &Holder) -> Finding {
    let message = format!(
        "run {} holds the server, which keeps its earlier declaration until the run has ended; the change follows then",
        holder.reference()
    );
    Finding::no(READY, CHANGE_WAITS, message)
}

/// The `old` status with `finding`, if the server was not queried.
pub fn with_finding(
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

/// Whether two statuses are the same, apart from the memory in use, which changes with every query.
fn same(old: &DatastoreStatus, new: &DatastoreStatus) -> bool {
    let mut new = new.clone();
    if let (Some(new), Some(old)) = (&mut new.observed, &old.observed) {
        new.used_memory_bytes = old.used_memory_bytes;
    }
    *old == new
}

/// Whether a change of Ready to `reason` becomes an event, and if so, whether that is a warning.
fn announced(reason: &str) -> Option<bool> {
    match reason {
        "NoPod" | "Starting" | BEING_REMOVED => None,
        "Ready" | NOT_VERIFIED | JOINING | ROLLING_OUT | CHANGE_WAITS => Some(false),
        _ => Some(true),
    }
}

/// Writes `status` if it differs from the `old` one and `datastore` has not changed meanwhile, and
/// publishes an event if Ready changed.
pub async fn publish(
    ctx: &Context,
    datastore: &Datastore,
    old: &DatastoreStatus,
    status: &DatastoreStatus,
) -> kube::Result<bool> {
    if same(old, status) {
        return Ok(true);
    }
    let written = apply_status(&ctx.client, &ctx.overlay, DATASTORE_MANAGER, datastore, status).await?;
    let (before, after) =
        (conditions::find(&old.conditions, READY), conditions::find(&status.conditions, READY));
    if written
        && let Some(after) = after
        && before.is_none_or(|before| (&before.reason, &before.message) != (&after.reason, &after.message))
        && let Some(warning) = announced(&after.reason)
    {
        ctx.announcer.publish(datastore, warning, &after.reason, &after.message).await;
    }
    Ok(written)
}

#[cfg(test)]
mod tests;
