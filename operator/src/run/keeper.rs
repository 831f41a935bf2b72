//! The keeper of turns: removes the Lease of a run that has ended or is gone,
//! once the last of its client pods has stopped. Nobody else gives a turn back
//! and nobody takes over a Lease, so a turn is never free while load still runs.

use super::turn::ended;
use crate::{
    cluster::{
        apply::delete,
        lease::{Holder, LeaseKey, holder_of},
        pods,
        world::Feeds,
    },
    context::Context,
    labels,
    process::{Parts, chain},
};
use dragstrip_crds::BenchmarkRun;
use futures::{Future, StreamExt};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::{coordination::v1::Lease, core::v1::Pod};
use kube::{
    Api, ResourceExt,
    api::ListParams,
    runtime::{
        Controller,
        controller::{Action, Config},
        reflector::{ObjectRef, Store},
    },
};
use std::{sync::Arc, time::Duration};

/// A look at a Lease that failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// Its holder could not be read.
    #[error("failed to read the run that holds Lease {1}")]
    ReadHolder(#[source] kube::Error, LeaseKey),
    /// The holder's pods could not be listed.
    #[error("failed to list the client pods of the run that held Lease {1}")]
    ListPods(#[source] kube::Error, LeaseKey),
    /// It could not be removed.
    #[error("failed to remove Lease {1}")]
    Remove(#[source] kube::Error, LeaseKey),
}

/// Leases looked at in the same moment.
const CONCURRENCY: u16 = 4;
/// A look without cause, in case an event was missed.
const SAFETY_NET: Duration = Duration::from_secs(600);

async fn still_runs(ctx: &Context, holder: &Holder) -> kube::Result<bool> {
    let runs: Api<BenchmarkRun> = Api::namespaced(ctx.client.clone(), &holder.namespace);
    let run = runs.get_opt(&holder.name).await?;
    Ok(run.is_some_and(|run| run.uid().as_deref() == Some(&holder.uid) && !ended(&run)))
}

/// The moment from which a client pod certainly sends no load: at once when it
/// has ended; when it was deleted but its node does not answer, once the bound
/// of its load is over, counted from the deletion, before which it must have
/// started; never as long as it was not deleted.
pub(super) fn silent_from(pod: &Pod) -> Option<Timestamp> {
    if pods::ended(pod) {
        return Some(Timestamp::MIN);
    }
    let deleted = pod.metadata.deletion_timestamp.as_ref()?.0;
    let bound: i64 = pod.annotations().get(labels::LOAD_BOUND)?.parse().ok()?;
    deleted.checked_add(SignedDuration::from_secs(bound)).ok()
}

/// When all client pods of `holder` are certainly silent: `None` when only an event can tell.
async fn silence(ctx: &Context, holder: &Holder) -> kube::Result<Option<Timestamp>> {
    let pods: Api<Pod> = Api::namespaced(ctx.client.clone(), &holder.namespace);
    let selector = format!("{}={},{}={}", labels::COMPONENT, labels::CLIENT, labels::RUN_UID, holder.uid);
    let list = pods.list(&ListParams::default().labels(&selector)).await?;
    Ok(list
        .items
        .iter()
        .map(silent_from)
        .try_fold(Timestamp::MIN, |latest, from| from.map(|from| latest.max(from))))
}

async fn reconcile(lease: Arc<Lease>, ctx: Arc<Context>) -> Result<Action, Error> {
    let Some(holder) = holder_of(&lease) else {
        return Ok(Action::await_change());
    };
    let key = || LeaseKey { namespace: lease.namespace().unwrap_or_default(), name: lease.name_any() };
    if still_runs(&ctx, &holder).await.map_err(|error| Error::ReadHolder(error, key()))? {
        return Ok(Action::requeue(SAFETY_NET));
    }
    let silence = silence(&ctx, &holder).await.map_err(|error| Error::ListPods(error, key()))?;
    let left = silence
        .map(|from| Duration::try_from(from.duration_since(Timestamp::now())).unwrap_or(Duration::ZERO));
    match left {
        Some(Duration::ZERO) => {
            delete(&ctx.client, &*lease).await.map_err(|error| Error::Remove(error, key()))?;
            Ok(Action::await_change())
        }
        Some(left) => Ok(Action::requeue(left + Duration::from_secs(1))),
        None => Ok(Action::requeue(SAFETY_NET)),
    }
}

// The controller hands over an Arc that this signature must take.
#[allow(clippy::needless_pass_by_value)]
fn on_error(_: Arc<Lease>, error: &Error, _: Arc<Context>) -> Action {
    tracing::warn!(error = %chain(error), "keeping turns failed");
    Action::requeue(Duration::from_secs(1))
}

/// The Leases held by the run called `namespace/name`, whatever its uid.
fn held_by(leases: &Store<Lease>, namespace: Option<&str>, name: &str) -> Vec<ObjectRef<Lease>> {
    let held = |lease: &Lease| {
        holder_of(lease)
            .is_some_and(|holder| Some(holder.namespace.as_str()) == namespace && holder.name == name)
    };
    leases.state().iter().filter(|lease| held(lease)).map(|lease| ObjectRef::from_obj(&**lease)).collect()
}

/// The controller. Runs until shutdown.
pub fn controller(ctx: Arc<Context>, feeds: &mut Feeds, parts: &Parts) -> impl Future<Output = ()> + use<> {
    let leases = ctx.world.leases.clone();
    let (for_runs, for_pods) = (leases.clone(), leases.clone());
    Controller::for_shared_stream(feeds.leases.subscribe(), leases)
        .with_config(Config::default().concurrency(CONCURRENCY))
        .watches_shared_stream(feeds.runs.subscribe(), move |run| {
            held_by(&for_runs, run.namespace().as_deref(), &run.name_any())
        })
        .watches_shared_stream(feeds.pods.subscribe(), move |pod| {
            let run = pod.labels().get(labels::RUN).cloned().unwrap_or_default();
            held_by(&for_pods, pod.namespace().as_deref(), &run)
        })
        .graceful_shutdown_on(parts.shutdown())
        .run(reconcile, on_error, ctx)
        .for_each(|result| {
            if let Err(error) = result {
                tracing::debug!(error = %chain(&error), "keeper of turns");
            }
            std::future::ready(())
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(value: serde_json::Value) -> Pod {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn a_turn_outlives_load_that_may_still_run() {
        let bound = serde_json::json!({"dragstrip.dev/load-ends-within-seconds": "75"});
        let running =
            pod(serde_json::json!({"metadata": {"annotations": bound}, "status": {"phase": "Running"}}));
        assert_eq!(silent_from(&running), None, "a pod that was not deleted may load");
        let ended =
            pod(serde_json::json!({"metadata": {"annotations": bound}, "status": {"phase": "Failed"}}));
        assert_eq!(silent_from(&ended), Some(Timestamp::MIN));
        let cut_off = pod(serde_json::json!({
            "metadata": {"annotations": bound, "deletionTimestamp": "2026-01-01T00:00:00Z"},
            "status": {"phase": "Running"}
        }));
        assert_eq!(silent_from(&cut_off), Some("2026-01-01T00:01:15Z".parse().unwrap()));
    }
}
