//! The lease cleaner: removes the Lease of a run that has ended, is gone or being deleted, or
//! released it, once none of its Jobs makes pods and the last of its client pods has stopped.
//! Nothing else removes a Lease under which something ran and nothing takes a Lease over, so a
//! Lease is never free while load still runs. Needs the client.

use super::context::RunContext;
use crate::{
    cluster::{lease, loads::is_of_run, world::Feeds},
    failure::{guard, passes, retry_later},
    shutdown::Shutdown,
};
use dragstrip_core::{
    labels,
    lease::{Holder, LeaseKey, given_back, holder_of},
};
use dragstrip_crds::BenchmarkRun;
use futures::{Future, StreamExt};
use jiff::Timestamp;
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

/// A step of a pass over a Lease that failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error("failed to read the run that holds Lease {1}")]
    ReadHolder(#[source] kube::Error, LeaseKey),
    #[error("failed to list the client pods of the run that held Lease {1}")]
    ListPods(#[source] kube::Error, LeaseKey),
    #[error("failed to remove Lease {1}")]
    Remove(#[source] kube::Error, LeaseKey),
}

const CONCURRENCY: u16 = 16;
/// Longest time between two passes over a Lease: an event may be missed, and other runs wait. As
/// long as the watches show that a run needs it, a pass costs no call.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// When a removed Lease is looked for once more: the API server may have refused with a conflict, and other
/// runs wait. A Lease that is gone costs no call.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// Whether the watch shows the run that holds a Lease as one that has not ended. One that is
/// being deleted takes no further step, however long somebody's finalizer keeps it.
fn is_seen_under_way(ctx: &RunContext, holder: &Holder) -> bool {
    let key = ObjectRef::<BenchmarkRun>::new(&holder.name).within(&holder.namespace);
    let found = ctx.world.runs.get(&key).filter(|run| run.metadata.deletion_timestamp.is_none());
    found.is_some_and(|run| run.uid().as_ref() == Some(&holder.uid))
}

/// When the load of `holder` is certainly over, as the watches show it.
fn seen_silence(ctx: &RunContext, holder: &Holder) -> Option<Timestamp> {
    let jobs = ctx.world.jobs.state_filter(|job| is_of_run(job, &holder.namespace, &holder.uid));
    let pods = ctx.world.pods.state_filter(|pod| is_of_run(pod, &holder.namespace, &holder.uid));
    let (jobs, pods) = (jobs.iter().map(Arc::as_ref), pods.iter().map(Arc::as_ref));
    ctx.loads.silence(holder, jobs, pods, Timestamp::now())
}

/// The same as the API server has it: a watch may lag.
async fn current_silence(ctx: &RunContext, holder: &Holder) -> kube::Result<Option<Timestamp>> {
    let own = ListParams::default().labels(&format!("{}={}", labels::RUN_UID, holder.uid));
    let jobs: Api<Job> = Api::namespaced(ctx.client.clone(), &holder.namespace);
    let pods: Api<Pod> = Api::namespaced(ctx.client.clone(), &holder.namespace);
    let (jobs, pods) = (jobs.list(&own).await?.items, pods.list(&own).await?.items);
    Ok(ctx.loads.silence(holder, jobs.iter(), pods.iter(), Timestamp::now()))
}

/// Whether load is over that may run until `silent`; otherwise when the next pass comes.
fn over(silent: Option<Timestamp>, now: Timestamp) -> Result<(), Action> {
    let left = silent.map(|from| Duration::try_from(from.duration_since(now)).unwrap_or(Duration::ZERO));
    match left {
        Some(Duration::ZERO) => Ok(()),
        Some(left) => Err(Action::requeue(left.saturating_add(Duration::from_secs(1)).min(LONGEST_WAIT))),
        None => Err(Action::requeue(LONGEST_WAIT)),
    }
}

async fn reconcile(lease: Arc<Lease>, ctx: Arc<RunContext>) -> Result<Action, Error> {
    // A run of another operator may hold a node's Lease; that operator removes it.
    let watched = |holder: &Holder| ctx.settings.scope().includes(&holder.namespace);
    let Some(holder) = holder_of(&lease).filter(watched) else {
        return Ok(Action::await_change());
    };
    let key = || LeaseKey::of(&lease);
    let given_back = given_back(&lease);
    if !given_back && is_seen_under_way(&ctx, &holder) {
        return Ok(Action::requeue(LONGEST_WAIT));
    }
    let now = Timestamp::now();
    if let Err(again) = over(seen_silence(&ctx, &holder), now) {
        return Ok(again);
    }
    // A run that the watch does not show has ended, or cannot be decoded.
    let under_way =
        !given_back && ctx.is_under_way(&holder).await.map_err(|error| Error::ReadHolder(error, key()))?;
    if under_way {
        return Ok(Action::requeue(LONGEST_WAIT));
    }
    let silent = current_silence(&ctx, &holder).await.map_err(|error| Error::ListPods(error, key()))?;
    ctx.retries.settled(&lease.uid().unwrap_or_default());
    if let Err(again) = over(silent, now) {
        return Ok(again);
    }
    let removed = lease::remove(&ctx.client, &ctx.overlay, &lease).await;
    removed.map_err(|error| Error::Remove(error, key()))?;
    tracing::debug!(lease = %key(), %holder, "a turn has ended");
    Ok(Action::requeue(LOOK_AGAIN))
}

async fn guarded(lease: Arc<Lease>, ctx: Arc<RunContext>) -> Result<Action, Error> {
    guard(&ctx, "turn", &*lease, reconcile(Arc::clone(&lease), Arc::clone(&ctx))).await
}

/// The Leases held by the run called `namespace/name`, whatever its uid.
fn held_by(leases: &Store<Lease>, namespace: Option<&str>, name: &str) -> Vec<ObjectRef<Lease>> {
    let held = |lease: &Lease| {
        holder_of(lease)
            .is_some_and(|holder| Some(holder.namespace.as_str()) == namespace && holder.name == name)
    };
    leases.state_filter(held).iter().map(|lease| ObjectRef::from_obj(&**lease)).collect()
}

/// The Leases held by the run that a Job or pod belongs to.
fn held_for(leases: &Store<Lease>, object: &impl ResourceExt) -> Vec<ObjectRef<Lease>> {
    let run = object.labels().get(labels::RUN);
    run.map(|run| held_by(leases, object.namespace().as_deref(), run)).unwrap_or_default()
}

/// The controller. Runs until shutdown.
pub fn controller(
    ctx: Arc<RunContext>,
    feeds: &mut Feeds,
    stop: &Shutdown,
) -> impl Future<Output = ()> + use<> {
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
        .run(guarded, |object, error, ctx| retry_later(&ctx.retries, &*object, error, LONGEST_WAIT), ctx)
        .for_each(passes("turns"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        cluster::{context::Context, world::World},
        datastore::tests::{Calls, Cluster, context, seen},
    };
    use jiff::SignedDuration;
    use serde_json::json;

    fn from<K: serde::de::DeserializeOwned>(value: serde_json::Value) -> K {
        serde_json::from_value(value).unwrap()
    }

    fn run_context(shared: Context) -> Arc<RunContext> {
        Arc::new(RunContext::new(shared, Arc::default()))
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

    /// The cleaner's action for the Lease and its calls, if the watches show `runs` and `pods`.
    async fn pass_over(runs: Vec<BenchmarkRun>, pods: Vec<Pod>) -> (Action, Vec<String>) {
        let none = |call: &str| {
            let list = json!({"metadata": {}, "items": []});
            matches!(call, "GET jobs" | "GET pods").then_some((200, list))
        };
        let (ctx, calls): (_, Calls) = context(Cluster::default(), none);
        let world = World { runs: seen(runs), pods: seen(pods), ..ctx.world.clone() };
        let ctx = run_context(Context { world, ..(*ctx).clone() });
        let action = reconcile(lease(), ctx).await.unwrap();
        let calls = calls.lock().unwrap().iter().map(|(call, _)| call.clone()).collect();
        (action, calls)
    }

    #[tokio::test]
    async fn a_lease_that_a_run_needs_gets_a_pass_every_minute_without_a_call() {
        let mut run = crate::fixtures::run(&["read"], 1);
        let metadata = json!({"namespace": "pits", "name": "sprint", "uid": "run-uid"});
        run.metadata = from(metadata);
        let every_minute = Action::requeue(Duration::from_secs(60));
        assert_eq!(pass_over(vec![run], vec![]).await, (every_minute.clone(), vec![]));
        let running = client_pod(&json!({"phase": "Running"}), None);
        assert_eq!(
            pass_over(vec![], vec![running]).await,
            (every_minute.clone(), vec![]),
            "its load continues"
        );
        let cut_off = client_pod(&json!({"phase": "Running"}), Some(Timestamp::now()));
        assert_eq!(
            pass_over(vec![], vec![cut_off]).await,
            (every_minute, vec![]),
            "its pod may be gone long before the hour in which its node need not respond"
        );
    }

    #[tokio::test]
    async fn a_lease_whose_run_is_gone_is_removed_and_gets_one_more_pass_soon() {
        let ended = client_pod(&json!({"phase": "Succeeded"}), None);
        let (action, calls) = pass_over(vec![], vec![ended]).await;
        let removal = ["GET benchmarkruns sprint", "GET jobs", "GET pods", "DELETE leases dragstrip-racer"];
        assert_eq!(calls, removal);
        assert_eq!(
            action,
            Action::requeue(Duration::from_secs(5)),
            "the event of its removal may be missed, or a conflict have prevented it"
        );
    }

    #[tokio::test]
    async fn a_run_that_is_being_deleted_holds_no_lease_whatever_finalizer_it_has() {
        let mut run = crate::fixtures::run(&["read"], 1);
        run.metadata = from(json!({
            "namespace": "pits", "name": "sprint", "uid": "run-uid",
            "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["example.com/keep"]
        }));
        let (_, calls) = pass_over(vec![run], vec![]).await;
        assert_eq!(calls.last().map(String::as_str), Some("DELETE leases dragstrip-racer"));
    }

    #[tokio::test]
    async fn a_lease_outlives_load_whose_pods_were_deleted_by_force() {
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
        let ctx = run_context(Context { world, ..(*ctx).clone() });
        reconcile(lease(), ctx.clone()).await.unwrap();
        assert_eq!(calls.lock().unwrap().len(), 0, "no request before the watchdogs have ended it");
        ctx.loads.note_pod(&from(json!({
            "metadata": {"uid": "pod", "ownerReferences": [
                {"apiVersion": "batch/v1", "kind": "Job", "name": "sprint-read-1", "uid": "job", "controller": true}
            ]},
            "status": {"phase": "Failed"}
        })));
        assert!(over(seen_silence(&ctx, &holder_of(&lease()).unwrap()), Timestamp::now()).is_ok());
    }
}
