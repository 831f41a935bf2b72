//! The keeper of turns: removes the Lease of a run that has ended, is gone or about to be, or
//! has given it back, once none of its Jobs makes pods and the last of its client pods
//! has stopped. Nobody else removes a turn under which something ran and nobody takes
//! over a Lease, so a turn is never free while load still runs.

mod loads;

use super::fetch::{is_of_run, job_ended};
use crate::{
    cluster::{finished::FinishedRun, lease, pods, world::Feeds},
    context::Context,
    failure::{passes, retry_later},
    shutdown::Shutdown,
};
use dragstrip_core::{
    labels,
    lease::{Holder, LeaseKey, given_back, holder_of},
};
pub use loads::Loads;

use dragstrip_crds::BenchmarkRun;
use futures::{Future, StreamExt};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::{batch::v1::Job, coordination::v1::Lease, core::v1::Pod};
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
    #[error("failed to read the run that holds Lease {1}")]
    ReadHolder(#[source] kube::Error, LeaseKey),
    #[error("failed to list the client pods of the run that held Lease {1}")]
    ListPods(#[source] kube::Error, LeaseKey),
    #[error("failed to remove Lease {1}")]
    Remove(#[source] kube::Error, LeaseKey),
}

/// Leases looked at in the same moment.
const CONCURRENCY: u16 = 16;
/// Longest time before a Lease is looked at again, with or without a cause: an event may be
/// missed, and others wait. As long as the watches tell that it is needed a look costs no call.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// Whether the watch knows the run that holds a Lease as one that has not ended. One that is
/// being deleted takes no further step, however long somebody's finalizer keeps it.
fn is_under_way(ctx: &Context, holder: &Holder) -> bool {
    let key = ObjectRef::<BenchmarkRun>::new(&holder.name).within(&holder.namespace);
    let found = ctx.world.runs.get(&key).filter(|run| run.metadata.deletion_timestamp.is_none());
    found.is_some_and(|run| run.uid().as_ref() == Some(&holder.uid))
}

/// Whether the run has not ended as the apiserver has it. One that the watch does not know
/// has ended, or cannot be decoded.
async fn not_ended(ctx: &Context, holder: &Holder) -> kube::Result<bool> {
    let runs: Api<FinishedRun> = Api::namespaced(ctx.client.clone(), &holder.namespace);
    let run = runs.get_opt(&holder.name).await?;
    let run = run.filter(|run| run.metadata.deletion_timestamp.is_none() && run.finished_at().is_none());
    Ok(run.is_some_and(|run| run.uid().as_ref() == Some(&holder.uid)))
}

/// The moment from which a client pod certainly sends no load: at once when it
/// has ended; when it was deleted but its node does not answer, once the bound
/// of its load is over, counted from the deletion, before which it must have
/// started; never as long as it was not deleted.
pub(super) fn silent_from(pod: &Pod) -> Option<Timestamp> {
    if pods::stopped(pod) {
        return Some(Timestamp::MIN);
    }
    let deleted = pod.metadata.deletion_timestamp.as_ref()?.0;
    let bound: i64 = pod.annotations().get(labels::LOAD_BOUND)?.parse().ok()?;
    deleted.checked_add(SignedDuration::from_secs(bound)).ok()
}

/// When all `pods` are certainly silent and none of `jobs` makes another: `None` when
/// only an event can tell.
fn silence<'a>(
    jobs: impl IntoIterator<Item = &'a Job>,
    pods: impl IntoIterator<Item = &'a Pod>,
) -> Option<Timestamp> {
    let makes_pods = |job: &Job| job.metadata.deletion_timestamp.is_none() && !job_ended(job);
    if jobs.into_iter().any(makes_pods) {
        return None;
    }
    let silent = pods.into_iter().map(silent_from);
    silent.into_iter().try_fold(Timestamp::MIN, |latest, from| from.map(|from| latest.max(from)))
}

/// [`silence`] of what is there, and of pods that are gone and were not seen to end.
fn with_unseen<'a>(
    ctx: &Context,
    holder: &Holder,
    jobs: impl Iterator<Item = &'a Job> + Clone,
    pods: impl Iterator<Item = &'a Pod> + Clone,
) -> Option<Timestamp> {
    let unseen = ctx.loads.unseen(&holder.uid, jobs.clone(), pods.clone(), Timestamp::now());
    Some(unseen.into_values().fold(silence(jobs, pods)?, Timestamp::max))
}

/// [`silence`] as the watches see it.
fn seen_silence(ctx: &Context, holder: &Holder) -> Option<Timestamp> {
    let jobs = ctx.world.jobs.state_filter(|job| is_of_run(job, &holder.namespace, &holder.uid));
    let pods = ctx.world.pods.state_filter(|pod| is_of_run(pod, &holder.namespace, &holder.uid));
    with_unseen(ctx, holder, jobs.iter().map(Arc::as_ref), pods.iter().map(Arc::as_ref))
}

/// [`silence`] as the apiserver has it: a watch may be behind.
async fn silent_since(ctx: &Context, holder: &Holder) -> kube::Result<Option<Timestamp>> {
    let own = ListParams::default().labels(&format!("{}={}", labels::RUN_UID, holder.uid));
    let jobs: Api<Job> = Api::namespaced(ctx.client.clone(), &holder.namespace);
    let pods: Api<Pod> = Api::namespaced(ctx.client.clone(), &holder.namespace);
    let (jobs, pods) = (jobs.list(&own).await?.items, pods.list(&own).await?.items);
    Ok(with_unseen(ctx, holder, jobs.iter(), pods.iter()))
}

/// Whether load is over that may run until `silent`; otherwise when to look again.
fn over(silent: Option<Timestamp>, now: Timestamp) -> Result<(), Action> {
    let left = silent.map(|from| Duration::try_from(from.duration_since(now)).unwrap_or(Duration::ZERO));
    match left {
        Some(Duration::ZERO) => Ok(()),
        Some(left) => Err(Action::requeue(left.saturating_add(Duration::from_secs(1)).min(LONGEST_WAIT))),
        None => Err(Action::requeue(LONGEST_WAIT)),
    }
}

async fn reconcile(lease: Arc<Lease>, ctx: Arc<Context>) -> Result<Action, Error> {
    // A node's Lease may be held by a run of another operator, which keeps it.
    let watched = |holder: &Holder| ctx.settings.scope.includes(&holder.namespace);
    let Some(holder) = holder_of(&lease).filter(watched) else {
        return Ok(Action::await_change());
    };
    let key = || LeaseKey::of(&lease);
    let given_back = given_back(&lease);
    if !given_back && is_under_way(&ctx, &holder) {
        return Ok(Action::requeue(LONGEST_WAIT));
    }
    let now = Timestamp::now();
    if let Err(again) = over(seen_silence(&ctx, &holder), now) {
        return Ok(again);
    }
    if !given_back && not_ended(&ctx, &holder).await.map_err(|error| Error::ReadHolder(error, key()))? {
        return Ok(Action::requeue(LONGEST_WAIT));
    }
    let silent = silent_since(&ctx, &holder).await.map_err(|error| Error::ListPods(error, key()))?;
    ctx.retries.settled(&lease.uid().unwrap_or_default());
    if let Err(again) = over(silent, now) {
        return Ok(again);
    }
    let removed = lease::remove(&ctx.client, &ctx.overlay, &lease).await;
    removed.map_err(|error| Error::Remove(error, key()))?;
    tracing::debug!(lease = %key(), %holder, "a turn has ended");
    Ok(Action::requeue(LONGEST_WAIT))
}

// The controller hands over an Arc that this signature must take.
#[allow(clippy::needless_pass_by_value)]
fn on_error(lease: Arc<Lease>, error: &Error, ctx: Arc<Context>) -> Action {
    retry_later(&ctx.retries, &*lease, error, LONGEST_WAIT)
}

/// The Leases held by the run called `namespace/name`, whatever its uid.
fn held_by(leases: &Store<Lease>, namespace: Option<&str>, name: &str) -> Vec<ObjectRef<Lease>> {
    let held = |lease: &Lease| {
        holder_of(lease)
            .is_some_and(|holder| Some(holder.namespace.as_str()) == namespace && holder.name == name)
    };
    leases.state().iter().filter(|lease| held(lease)).map(|lease| ObjectRef::from_obj(&**lease)).collect()
}

/// The Leases held by the run that a Job or pod belongs to.
fn held_for(leases: &Store<Lease>, object: &impl ResourceExt) -> Vec<ObjectRef<Lease>> {
    let run = object.labels().get(labels::RUN);
    run.map(|run| held_by(leases, object.namespace().as_deref(), run)).unwrap_or_default()
}

/// The controller. Runs until shutdown.
pub fn controller(ctx: Arc<Context>, feeds: &mut Feeds, stop: &Shutdown) -> impl Future<Output = ()> + use<> {
    let leases = ctx.world.leases.clone();
    let (for_runs, for_jobs, for_pods) = (leases.clone(), leases.clone(), leases.clone());
    let (of_jobs, of_pods) = (ctx.loads.clone(), ctx.loads.clone());

    Controller::for_shared_stream(feeds.leases.subscribe(), leases)
        .with_config(Config::default().concurrency(CONCURRENCY))
        .watches_shared_stream(feeds.runs.subscribe(), move |run| {
            held_by(&for_runs, run.namespace().as_deref(), &run.name_any())
        })
        .watches_shared_stream(feeds.jobs.subscribe(), move |job| {
            of_jobs.note_job(&job, Timestamp::now());
            held_for(&for_jobs, &*job)
        })
        .watches_shared_stream(feeds.pods.subscribe(), move |pod| {
            of_pods.note_pod(&pod);
            held_for(&for_pods, &*pod)
        })
        .graceful_shutdown_on(stop.clone())
        .run(reconcile, on_error, ctx)
        .for_each(passes("turns"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        cluster::world::World,
        datastore::tests::{Calls, Cluster, context, seen},
    };
    use serde_json::json;

    fn from<K: serde::de::DeserializeOwned>(value: serde_json::Value) -> K {
        serde_json::from_value(value).unwrap()
    }

    fn lease() -> Arc<Lease> {
        Arc::new(from(json!({
            "metadata": {"namespace": "pits", "name": "dragstrip-racer", "uid": "lease-uid"},
            "spec": {"holderIdentity": "pits/sprint/run-uid"}
        })))
    }

    fn client_pod(status: &serde_json::Value, deleted: Option<Timestamp>) -> Pod {
        from(json!({
            "metadata": {
                "namespace": "pits", "name": "sprint-read-1-0", "deletionTimestamp": deleted,
                "labels": {labels::RUN_UID: "run-uid"}, "annotations": {labels::LOAD_BOUND: "3600"}
            },
            "status": status
        }))
    }

    /// What the keeper does about the Lease, and what it asks, where the watches tell of `runs` and `pods`.
    async fn look(runs: Vec<BenchmarkRun>, pods: Vec<Pod>) -> (Action, Vec<String>) {
        let none = |call: &str| {
            let list = json!({"metadata": {}, "items": []});
            matches!(call, "GET jobs" | "GET pods").then_some((200, list))
        };
        let (ctx, calls): (_, Calls) = context(Cluster::default(), none);
        let world = World { runs: seen(runs), pods: seen(pods), ..ctx.world.clone() };
        let ctx = Arc::new(Context { world, ..(*ctx).clone() });
        let action = reconcile(lease(), ctx).await.unwrap();
        let calls = calls.lock().unwrap().iter().map(|(call, _)| call.clone()).collect();
        (action, calls)
    }

    #[tokio::test]
    async fn a_turn_that_is_still_needed_is_looked_at_every_minute_and_costs_no_call() {
        let mut run = crate::fixtures::run(&["read"], 1);
        let metadata = json!({"namespace": "pits", "name": "sprint", "uid": "run-uid"});
        run.metadata = from(metadata);
        let every_minute = Action::requeue(Duration::from_secs(60));
        assert_eq!(look(vec![run], vec![]).await, (every_minute.clone(), vec![]));
        let running = client_pod(&json!({"phase": "Running"}), None);
        assert_eq!(look(vec![], vec![running]).await, (every_minute.clone(), vec![]), "its load goes on");
        let cut_off = client_pod(&json!({"phase": "Running"}), Some(Timestamp::now()));
        assert_eq!(
            look(vec![], vec![cut_off]).await,
            (every_minute, vec![]),
            "its pod may be gone long before the hour for which its node need not answer"
        );
    }

    #[tokio::test]
    async fn a_turn_whose_run_has_gone_ends_and_is_looked_at_once_more() {
        let ended = client_pod(&json!({"phase": "Succeeded"}), None);
        let (action, calls) = look(vec![], vec![ended]).await;
        let removal = ["GET benchmarkruns sprint", "GET jobs", "GET pods", "DELETE leases dragstrip-racer"];
        assert_eq!(calls, removal);
        assert_eq!(action, Action::requeue(Duration::from_secs(60)), "its removal may go unheard of");
    }

    #[tokio::test]
    async fn a_run_that_is_being_deleted_keeps_no_turn_whatever_finalizer_it_has() {
        let mut run = crate::fixtures::run(&["read"], 1);
        run.metadata = from(json!({
            "namespace": "pits", "name": "sprint", "uid": "run-uid",
            "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["example.com/keep"]
        }));
        let (_, calls) = look(vec![run], vec![]).await;
        assert_eq!(calls.last().map(String::as_str), Some("DELETE leases dragstrip-racer"));
    }

    #[tokio::test]
    async fn a_turn_outlives_load_whose_pods_were_deleted_by_force() {
        let (ctx, calls) = context(Cluster::default(), |_| None);
        let ends_at = Timestamp::now() + SignedDuration::from_secs(30);
        let failed: Job = from(json!({
            "metadata": {
                "namespace": "pits", "name": "sprint-read-1", "uid": "job", "labels": {labels::RUN_UID: "run-uid"},
                "annotations": {labels::LOAD_ENDS_AT: ends_at.as_nanosecond().to_string()}
            },
            "status": {"conditions": [{"type": "Failed", "status": "True"}]}
        }));
        let world = World { jobs: seen(vec![failed]), ..ctx.world.clone() };
        let ctx = Arc::new(Context { world, ..(*ctx).clone() });
        reconcile(lease(), ctx.clone()).await.unwrap();
        assert_eq!(calls.lock().unwrap().len(), 0, "nothing is asked before the watchdogs have ended it");
        ctx.loads.note_pod(&from(json!({
            "metadata": {"uid": "pod", "ownerReferences": [
                {"apiVersion": "batch/v1", "kind": "Job", "name": "sprint-read-1", "uid": "job", "controller": true}
            ]},
            "status": {"phase": "Failed"}
        })));
        assert!(over(seen_silence(&ctx, &holder_of(&lease()).unwrap()), Timestamp::now()).is_ok());
    }

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

    #[test]
    fn a_turn_outlives_a_job_that_may_still_make_pods() {
        let job = |value: serde_json::Value| -> Job { serde_json::from_value(value).unwrap() };
        let active = job(serde_json::json!({"metadata": {}, "status": {"active": 1}}));
        assert_eq!(silence([&active], []), None, "its pods may not have been made yet");
        let going = job(serde_json::json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}));
        let over = job(serde_json::json!({
            "metadata": {}, "status": {"conditions": [{"type": "Failed", "status": "True"}]}
        }));
        assert_eq!(silence([&going, &over], []), Some(Timestamp::MIN));
    }
}
