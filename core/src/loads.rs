//! The load of runs as Jobs and pods show it, and load that nothing shows: a pod that was deleted
//! by force, or whose Node was, is gone before its container is. Pure.

use crate::{
    labels,
    lease::Holder,
    pods,
    run::{
        observe::identity::Identity,
        observe::stored_result::{identity, start_line},
    },
};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::{batch::v1::Job, core::v1::Pod};
use kube::ResourceExt;
use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::{Arc, Mutex, PoisonError},
};

pub fn job_ended(job: &Job) -> bool {
    job.status.iter().flat_map(|status| status.conditions.iter().flatten()).any(|condition| {
        condition.status == "True" && matches!(condition.type_.as_str(), "Complete" | "Failed")
    })
}

/// Whether an object belongs to the run with this uid, in its namespace: a later run of the same
/// name is another, and in other namespaces anybody may write labels.
pub fn is_of_run(object: &impl ResourceExt, namespace: &str, uid: &str) -> bool {
    let of_it = object.labels().get(labels::RUN_UID).is_some_and(|of| of == uid);
    of_it && object.namespace().is_some_and(|name| name == namespace)
}

/// The moment from which a client pod certainly sends no load: at once if it has ended; if it was
/// deleted but its node does not respond, once the bound of its load is over, counted from the
/// deletion, before which it must have started; never as long as it was not deleted.
pub fn silent_from(pod: &Pod) -> Option<Timestamp> {
    if pods::stopped(pod) {
        return Some(Timestamp::MIN);
    }
    let deleted = pod.metadata.deletion_timestamp.as_ref()?.0;
    let bound: i64 = pod.annotations().get(labels::LOAD_BOUND)?.parse().ok()?;
    deleted.checked_add(SignedDuration::from_secs(bound)).ok()
}

/// Whether `pods`, built for this `generation` of their Datastore, are those that `holder`
/// verified before its current load; `None` if no load of it runs.
pub fn same_under_load(
    jobs: &[Arc<Job>],
    holder: &Holder,
    pods: &[Arc<Pod>],
    generation: Option<i64>,
) -> Option<bool> {
    let loads = |job: &&Arc<Job>| {
        is_of_run(&***job, &holder.namespace, &holder.uid)
            && start_line(&job.metadata).is_some()
            && !job_ended(job)
    };
    let verified = identity(&jobs.iter().find(loads)?.metadata);
    let same = |verified: Identity| {
        let processes = verified.processes.iter().cloned().collect();
        verified.change_to(&Identity::of(pods.iter(), generation).with_processes(processes)).is_none()
    };
    Some(verified.is_some_and(same))
}

#[derive(Debug)]
struct Load {
    run: String,
    job: String,
    /// When its watchdogs end it at the latest.
    ends_at: Timestamp,
    pods: usize,
    /// Pods that the operator saw end, by uid.
    ended: HashSet<String>,
}

/// Loads that may still run, by the uid of the Job.
#[derive(Debug, Default)]
pub struct Loads(Mutex<HashMap<String, Load>>);

/// When the load of `job` is over at the latest; `None` before it is started.
fn ends_at(job: &Job) -> Option<Timestamp> {
    let nanoseconds: i128 = job.annotations().get(labels::LOAD_ENDS_AT)?.parse().ok()?;
    Timestamp::from_nanosecond(nanoseconds).ok()
}

impl Loads {
    pub fn note_job(&self, job: &Job, now: Timestamp) {
        let (Some(uid), Some(ends_at)) = (job.uid(), ends_at(job).filter(|ends_at| *ends_at > now)) else {
            return;
        };
        let pods = job.spec.as_ref().and_then(|spec| spec.completions).unwrap_or(1);
        let mut loads = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        loads.retain(|_, load| load.ends_at > now);
        let load = loads.entry(uid).or_insert_with(|| Load {
            run: job.labels().get(labels::RUN_UID).cloned().unwrap_or_default(),
            job: job.name_any(),
            ends_at,
            pods: usize::try_from(pods).unwrap_or(1),
            ended: HashSet::new(),
        });
        // A start line that no pod received in time is replaced.
        load.ends_at = ends_at;
    }

    /// Records `pod` as it is, or as it last was.
    pub fn note_pod(&self, pod: &Pod) {
        let owner = pod.owner_references().iter().find(|owner| owner.controller == Some(true));
        if let (Some(job), Some(uid), true) = (owner, pod.uid(), pods::stopped(pod)) {
            let mut loads = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            loads.entry(job.uid.clone()).and_modify(|load| {
                load.ended.insert(uid);
            });
        }
    }

    /// Records the `jobs` and `pods` of the run with this uid, and returns, by the names of its
    /// Jobs, until when their load may run unseen.
    pub fn unseen<'a>(
        &self,
        run: &str,
        jobs: impl Iterator<Item = &'a Job>,
        pods: impl Iterator<Item = &'a Pod>,
        now: Timestamp,
    ) -> BTreeMap<String, Timestamp> {
        jobs.for_each(|job| self.note_job(job, now));
        pods.for_each(|pod| self.note_pod(pod));
        let loads = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let open = loads.values().filter(|load| load.run == run && load.ended.len() < load.pods);
        open.map(|load| (load.job.clone(), load.ends_at)).collect()
    }

    /// When all `pods` of `holder`, and those that are gone but were not seen to end, are certainly
    /// silent and none of its `jobs` makes another pod: `None` if only an event can show it.
    pub fn silence<'a>(
        &self,
        holder: &Holder,
        mut jobs: impl Iterator<Item = &'a Job> + Clone,
        mut pods: impl Iterator<Item = &'a Pod> + Clone,
        now: Timestamp,
    ) -> Option<Timestamp> {
        let unseen = self.unseen(&holder.uid, jobs.clone(), pods.clone(), now);
        let makes_pods = |job: &Job| job.metadata.deletion_timestamp.is_none() && !job_ended(job);
        if jobs.any(makes_pods) {
            return None;
        }
        let unseen = unseen.into_values().fold(Timestamp::MIN, Timestamp::max);
        pods.try_fold(unseen, |latest, pod| silent_from(pod).map(|from| latest.max(from)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn job(ends_at: Option<i64>) -> Job {
        let ends_at = ends_at.map(|second| at(second).as_nanosecond().to_string());
        serde_json::from_value(json!({
            "metadata": {"uid": "job", "name": "sprint-read-1", "labels": {labels::RUN_UID: "run"},
                "annotations": {labels::LOAD_ENDS_AT: ends_at.unwrap_or_default()}},
            "spec": {"completions": 2, "template": {}}
        }))
        .unwrap()
    }

    fn pod(uid: &str, status: Value) -> Pod {
        serde_json::from_value(json!({
            "metadata": {"uid": uid, "ownerReferences": [
                {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "job", "controller": true}
            ]},
            "status": status
        }))
        .unwrap()
    }

    fn of(loads: &Loads, run: &str) -> Option<Timestamp> {
        let mut unseen = loads.unseen(run, std::iter::empty(), std::iter::empty(), at(0));
        unseen.remove("sprint-read-1")
    }

    /// Until when load may run unseen after the pods of a Job with two were seen like this.
    fn unseen(seen: &[Pod]) -> Option<Timestamp> {
        let loads = Loads::default();
        loads.note_job(&job(None), at(0));
        assert_eq!(of(&loads, "run"), None, "nothing was started");
        loads.note_job(&job(Some(75)), at(0));
        for pod in seen {
            loads.note_pod(pod);
        }
        assert_eq!(of(&loads, "another"), None);
        of(&loads, "run")
    }

    #[test]
    fn what_another_namespace_labels_as_a_runs_own_is_not() {
        let pod = |namespace: &str, uid: &str| -> Pod {
            let metadata = json!({"name": "p", "namespace": namespace, "labels": {labels::RUN_UID: uid}});
            serde_json::from_value(json!({"metadata": metadata})).unwrap()
        };
        assert!(is_of_run(&pod("races", "run-uid"), "races", "run-uid"));
        assert!(!is_of_run(&pod("races", "former-uid"), "races", "run-uid"));
        assert!(!is_of_run(&pod("elsewhere", "run-uid"), "races", "run-uid"), "it would hold the run's turn");
    }

    #[test]
    fn the_load_of_a_pod_that_was_not_seen_to_end_lasts_until_its_watchdog() {
        let (running, failed) = (json!({"phase": "Running"}), json!({"phase": "Failed"}));
        assert_eq!(unseen(&[]), Some(at(75)));
        assert_eq!(
            unseen(&[pod("a", failed.clone()), pod("b", running)]),
            Some(at(75)),
            "b was deleted by force"
        );
        assert_eq!(
            unseen(&[pod("a", failed.clone()), pod("a", failed.clone())]),
            Some(at(75)),
            "a pod counts once"
        );
        assert_eq!(unseen(&[pod("a", failed.clone()), pod("b", failed)]), None);
    }

    #[test]
    fn a_pod_that_failed_because_its_node_is_gone_may_still_load() {
        let collected = json!({"phase": "Failed", "conditions": [
            {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByPodGC"}
        ]});
        assert_eq!(unseen(&[pod("a", collected.clone()), pod("b", collected)]), Some(at(75)));
    }

    #[test]
    fn a_load_that_its_watchdogs_have_ended_is_forgotten() {
        let loads = Loads::default();
        loads.note_job(&job(Some(75)), at(76));
        assert_eq!(of(&loads, "run"), None);
    }

    #[test]
    fn a_pod_is_silent_when_it_ended_or_some_time_after_its_deletion() {
        let pod = |mut metadata: Value, phase: &str| -> Pod {
            metadata["annotations"] = json!({"dragstrip.dev/load-ends-within-seconds": "75"});
            serde_json::from_value(json!({"metadata": metadata, "status": {"phase": phase}})).unwrap()
        };
        let deleted = json!({"deletionTimestamp": "2026-01-01T00:00:00Z"});
        assert_eq!(silent_from(&pod(json!({}), "Running")), None, "a pod that was not deleted may load");
        assert_eq!(silent_from(&pod(json!({}), "Failed")), Some(Timestamp::MIN));
        assert_eq!(silent_from(&pod(deleted, "Running")), Some("2026-01-01T00:01:15Z".parse().unwrap()));
    }

    #[test]
    fn a_lease_outlives_a_job_that_may_still_make_pods() {
        let holder = Holder { namespace: "pits".into(), name: "sprint".into(), uid: "run-uid".into() };
        let silent = |jobs: &[Job]| Loads::default().silence(&holder, jobs.iter(), [].iter(), at(0));
        let from = |value| serde_json::from_value::<Job>(value).unwrap();
        let active = from(json!({"metadata": {}, "status": {"active": 1}}));
        assert_eq!(silent(&[active]), None, "its pods may not have been made yet");
        let going = from(json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}));
        let over = json!({"metadata": {}, "status": {"conditions": [{"type": "Failed", "status": "True"}]}});
        assert_eq!(silent(&[going, from(over)]), Some(Timestamp::MIN));
    }
}
