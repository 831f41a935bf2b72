//! Loads that were started and may still run though nothing shows them: a pod that was deleted
//! by force, or whose Node was, is gone before its container is. Pure.

use crate::cluster::pods;
use dragstrip_core::labels;
use jiff::Timestamp;
use k8s_openapi::api::{batch::v1::Job, core::v1::Pod};
use kube::ResourceExt;
use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::{Mutex, PoisonError},
};

#[derive(Debug)]
struct Load {
    run: String,
    job: String,
    /// When its watchdogs have ended it at the latest.
    ends_at: Timestamp,
    pods: usize,
    /// Pods that were seen to have ended, by uid.
    ended: HashSet<String>,
}

/// By the uid of the Job; those whose watchdogs have ended them are left out.
#[derive(Debug, Default)]
pub struct Loads(Mutex<HashMap<String, Load>>);

/// When the load of `job` is over at the latest; `None` before it is started.
fn ends_at(job: &Job) -> Option<Timestamp> {
    let nanoseconds: i128 = job.annotations().get(labels::LOAD_ENDS_AT)?.parse().ok()?;
    Timestamp::from_nanosecond(nanoseconds).ok()
}

impl Loads {
    /// Takes note of `job` as it is.
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
        // A start line that nobody was told in time is replaced.
        load.ends_at = ends_at;
    }

    /// Takes note of `pod` as it is, or as it last was.
    pub fn note_pod(&self, pod: &Pod) {
        let maker = pod.owner_references().iter().find(|owner| owner.controller == Some(true));
        if let (Some(maker), Some(uid), true) = (maker, pod.uid(), pods::stopped(pod)) {
            let mut loads = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            loads.entry(maker.uid.clone()).and_modify(|load| {
                load.ended.insert(uid);
            });
        }
    }

    /// Takes note of the `jobs` and `pods` of the run with this uid, and tells by the names of
    /// its Jobs until when load of theirs may run unseen.
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
    fn a_pod_that_is_failed_for_want_of_its_node_has_not_ended_for_sure() {
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
}
