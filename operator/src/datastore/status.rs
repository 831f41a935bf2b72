//! What a Datastore's status says. [`publish`] needs the client, the rest is pure.

use super::{
    engines,
    fetch::{Fetched, Observed},
    validate::{Invalid, ValidatedDatastore},
    verify,
};
use crate::{
    cluster::{apply::apply_status, nodes, pods},
    context::Context,
    labels::DATASTORE_MANAGER,
};
use dragstrip_crds::{
    Datastore, DatastoreStatus,
    conditions::{
        self, Finding,
        types::{READY, VERIFIED},
    },
};
use jiff::Timestamp;
use kube::ResourceExt;

/// Writing the status failed.
#[derive(Debug, thiserror::Error)]
#[error("failed to write the status of the datastore")]
pub struct Error(#[source] kube::Error);

fn verified(datastore: &ValidatedDatastore, observed: Option<&Observed>) -> Finding {
    match observed {
        None => Finding::unknown(VERIFIED, "NotObserved", "the server has not been asked yet"),
        Some(Err(error)) => {
            Finding::unknown(VERIFIED, "ObserverSilent", format!("the server could not be asked: {error}"))
        }
        Some(Ok(observation)) => {
            let found = verify::disagreements(&datastore.spec, &observation.server);
            if found.is_empty() {
                Finding::yes(VERIFIED, "AsDeclared", "the running server is what was declared")
            } else {
                Finding::no(VERIFIED, "NotAsDeclared", found.join("; "))
            }
        }
    }
}

fn ready(fetched: &Fetched, verified: &Finding) -> Finding {
    let Some(pod) = &fetched.pod else {
        return Finding::no(READY, "NoPod", "the server's pod has not been created yet");
    };
    if let Some(trouble) = pods::trouble(pod) {
        return Finding::no(READY, reason(&trouble.reason), trouble.message);
    }
    if !pods::ready(pod) {
        return Finding::no(READY, "Starting", format!("pod {} is starting", pod.name_any()));
    }
    match verified.status {
        Some(true) => Finding::yes(READY, "Ready", "the server answers and is what was declared"),
        Some(false) => Finding::no(READY, "NotAsDeclared", verified.message.clone()),
        None => Finding::no(READY, "NotVerified", verified.message.clone()),
    }
}

/// Condition reasons are constants: what Kubernetes may say is mapped to them.
fn reason(of_pod: &str) -> &'static str {
    match of_pod {
        "Unschedulable" => "Unschedulable",
        "ImageUnavailable" | "InvalidImageName" | "ErrImageNeverPull" => "ImageUnavailable",
        "CreateContainerConfigError" => "ConfigurationMissing",
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
    let verified = verified(datastore, fetched.observed.as_ref());
    let ready = ready(fetched, &verified);
    let observation = fetched.observed.as_ref().and_then(|observed| observed.as_ref().ok());
    let node = fetched.node().map(nodes::facts);
    DatastoreStatus {
        observed_generation: Some(datastore.generation),
        endpoint: Some(format!("{}.{}.svc:{}", datastore.name, datastore.namespace, datastore.spec.port)),
        observed: observation.map(|o| o.server.clone()),
        node: match (node, observation) {
            (Some(node), Some(observation)) => Some(node.with_host(&observation.host)),
            (node, _) => node,
        },
        pod: fetched.pod.as_ref().map(ResourceExt::name_any),
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
    apply_status(&ctx.client, DATASTORE_MANAGER, datastore, &status).await.map_err(Error)?;
    let (before, after) =
        (conditions::find(&old.conditions, READY), conditions::find(&status.conditions, READY));
    if let Some(after) = after
        && before.is_none_or(|before| (&before.reason, &before.message) != (&after.reason, &after.message))
    {
        let quiet = ["Ready", "Starting", "NoPod", "NotVerified"].contains(&after.reason.as_str());
        ctx.announcer.publish(datastore, !quiet, &after.reason, "Reconcile", &after.message).await;
    }
    Ok(())
}
