//! What was fetched, as what a decision rests on. Pure.

use super::{
    decide::{AttemptState, Observed, Remains, watchdog_seconds},
    fetch::{Fetched, since},
    keeper::silent_from,
    plan::Outcome,
    validate::{Attempt, ValidatedRun},
};
use crate::{
    cluster::{pods, warnings},
    labels,
};
use dragstrip_results::{
    protocol::{RunnerStage, RunnerState},
    result::PodFailure,
};
use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;

/// The start line written on a Job, or remembered with its result.
pub fn start_line(object: &impl ResourceExt) -> Option<Timestamp> {
    let nanos: i128 = object.annotations().get(labels::START_AT)?.parse().ok()?;
    Timestamp::from_nanosecond(nanos).ok()
}

fn not_told(state: &RunnerState) -> bool {
    use RunnerStage::{AtStartLine, Loading, Preflight, WarmingUp};
    matches!(state.stage, Preflight | Loading | WarmingUp | AtStartLine)
}

/// What is still there of a lost attempt. Its load is over at the latest when
/// its runners' watchdogs, counted from the start line, have ended it.
fn remains(run: &ValidatedRun, attempt: &Attempt, fetched: &Fetched) -> Remains {
    let start = fetched.remembered.get(&attempt.name).and_then(|remembered| remembered.start);
    let bound =
        SignedDuration::try_from_secs_f64(watchdog_seconds(run, attempt)).unwrap_or(SignedDuration::MAX);
    let watchdog = start.and_then(|start| start.checked_add(bound).ok());
    let silent = |pod| match (silent_from(pod), watchdog) {
        (Some(known), Some(watchdog)) => Some(known.min(watchdog)),
        (known, watchdog) => known.or(watchdog),
    };
    Remains {
        job: fetched.jobs.get(&attempt.name).is_some_and(|job| job.metadata.deletion_timestamp.is_none()),
        silent_from: fetched
            .pods_of(&attempt.name)
            .map(silent)
            .try_fold(Timestamp::MIN, |latest, from| from.map(|from| latest.max(from))),
    }
}

fn stored(
    run: &ValidatedRun,
    attempt: &Attempt,
    fetched: &Fetched,
    failure: Option<&PodFailure>,
) -> AttemptState {
    match failure {
        Some(failure) if Outcome::of_failure(Some(failure)) == Outcome::Lost => {
            AttemptState::Lost { failure: failure.clone(), remains: remains(run, attempt, fetched) }
        }
        other => AttemptState::Stored(other.cloned()),
    }
}

fn attempt_state(run: &ValidatedRun, attempt: &Attempt, fetched: &Fetched) -> AttemptState {
    if let Some(result) = fetched.stored.get(&attempt.name) {
        return stored(run, attempt, fetched, result.failure.as_ref());
    }
    let Some(job) = fetched.jobs.get(&attempt.name) else {
        return AttemptState::Absent;
    };
    if fetched.ended(run, attempt) {
        return AttemptState::Ended;
    }
    if let Some(start) = start_line(job) {
        return AttemptState::Ordered { start, untold: fetched.runners.values().any(not_told) };
    }
    let at_line = fetched.pods_of(&attempt.name).filter(|pod| pods::ready(pod)).count();
    if u32::try_from(at_line).is_ok_and(|count| count >= run.pods()) {
        return AttemptState::AtStartLine;
    }
    let explained = fetched.pods_of(&attempt.name).find_map(pods::trouble);
    let told = || fetched.pods_of(&attempt.name).find_map(|pod| warnings::trouble(pod, &fetched.warnings));
    AttemptState::Starting(explained.or_else(told))
}

/// The view of `fetched` that [`decide`](super::decide::decide) takes.
pub fn view(run: &ValidatedRun, fetched: &Fetched) -> Observed {
    Observed {
        target: fetched.target.clone(),
        turn: fetched.turn(),
        since: since(run, fetched),
        attempts: run.attempts.iter().map(|attempt| attempt_state(run, attempt, fetched)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::{
        decide::TargetState,
        fetch::Remembered,
        fixtures::{lost, pod_result, run},
        merge::merge,
        validate::validate,
    };
    use k8s_openapi::api::{batch::v1::Job, core::v1::Pod};
    use serde_json::{Value, json};
    use std::collections::BTreeMap;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).unwrap()
    }

    fn nothing() -> Fetched {
        Fetched {
            target: TargetState::NotConsulted,
            turn: None,
            jobs: BTreeMap::new(),
            pods: Vec::new(),
            runners: BTreeMap::new(),
            warnings: Vec::new(),
            stored: BTreeMap::new(),
            remembered: BTreeMap::new(),
        }
    }

    fn two_clients() -> ValidatedRun {
        let mut two = run(&["read"], 1);
        two.spec.clients.pods = 2;
        validate(&two).unwrap()
    }

    fn job(metadata: Value, status: Value) -> Job {
        let mut job: Job = serde_json::from_value(json!({"metadata": metadata, "status": status})).unwrap();
        job.metadata.name = Some("sprint-read-1".into());
        job
    }

    fn running() -> Job {
        job(json!({}), json!({"active": 2}))
    }

    fn ordered() -> Job {
        job(
            json!({"annotations": {labels::START_AT: at(0).as_nanosecond().to_string()}}),
            json!({"active": 2}),
        )
    }

    fn pod(name: &str, metadata: Value, status: Value) -> Pod {
        let mut pod: Pod = serde_json::from_value(
            json!({"metadata": metadata, "spec": {"nodeName": "n", "containers": []}, "status": status}),
        )
        .unwrap();
        pod.metadata.name = Some(name.to_owned());
        pod.metadata.uid = Some(name.to_owned());
        pod.labels_mut().insert("batch.kubernetes.io/job-name".into(), "sprint-read-1".into());
        pod
    }

    fn of_phase(name: &str, phase: &str) -> Pod {
        pod(name, json!({}), json!({"phase": phase}))
    }

    fn state(job: Job, pods: Vec<Pod>) -> AttemptState {
        let run = two_clients();
        let fetched = Fetched { jobs: [("sprint-read-1".to_owned(), job)].into(), pods, ..nothing() };
        attempt_state(&run, &run.attempts[0], &fetched)
    }

    #[test]
    fn an_attempt_has_ended_with_its_job_or_with_all_its_pods() {
        let over = |phases: [&str; 2]| vec![of_phase("a", phases[0]), of_phase("b", phases[1])];
        let failed = job(json!({}), json!({"conditions": [{"type": "Failed", "status": "True"}]}));
        assert_eq!(state(failed, vec![]), AttemptState::Ended, "the Job says so");
        // After an outage of the apiserver the Job controller may need 40 s to notice.
        assert_eq!(state(ordered(), over(["Succeeded", "Succeeded"])), AttemptState::Ended);
        assert_eq!(state(ordered(), over(["Succeeded", "Failed"])), AttemptState::Ended);
        let loading = AttemptState::Ordered { start: at(0), untold: false };
        assert_eq!(state(ordered(), over(["Succeeded", "Running"])), loading, "one pod still loads");
        assert_eq!(state(ordered(), vec![of_phase("a", "Succeeded")]), loading, "one pod is not there");
        assert_eq!(state(running(), vec![]), AttemptState::Starting(None), "no pod was made yet");
    }

    #[test]
    fn pods_are_at_the_start_line_when_all_are_ready() {
        let ready = |name| {
            pod(
                name,
                json!({}),
                json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}),
            )
        };
        assert_eq!(state(running(), vec![ready("a"), ready("b")]), AttemptState::AtStartLine);
        let one = state(running(), vec![ready("a"), of_phase("b", "Pending")]);
        assert_eq!(one, AttemptState::Starting(None));
    }

    #[test]
    fn a_runner_before_the_line_was_not_told() {
        let run = two_clients();
        for (stage, untold) in [
            (RunnerStage::Loading, true),
            (RunnerStage::AtStartLine, true),
            (RunnerStage::Armed, false),
            (RunnerStage::Running, false),
        ] {
            let runner = RunnerState {
                stage,
                start_at_unix_nanos: None,
                elapsed_seconds: 0.0,
                operations: 0,
                errors: 0,
            };
            let fetched = Fetched {
                jobs: [("sprint-read-1".to_owned(), ordered())].into(),
                runners: [("a".to_owned(), runner)].into(),
                ..nothing()
            };
            let expected = AttemptState::Ordered { start: at(0), untold };
            assert_eq!(attempt_state(&run, &run.attempts[0], &fetched), expected, "{stage:?}");
        }
    }

    #[test]
    fn a_warning_about_a_pod_tells_what_its_status_does_not() {
        let run = two_clients();
        let event = serde_json::from_value(json!({
            "metadata": {}, "involvedObject": {"uid": "a"}, "reason": "FailedMount", "message": "secret not found"
        }));
        let fetched = Fetched {
            jobs: [("sprint-read-1".to_owned(), running())].into(),
            pods: vec![of_phase("a", "Pending")],
            warnings: vec![event.unwrap()],
            ..nothing()
        };
        let AttemptState::Starting(Some(trouble)) = attempt_state(&run, &run.attempts[0], &fetched) else {
            panic!("the missing Secret was not told");
        };
        assert!(trouble.message.contains("secret not found"), "{}", trouble.message);
    }

    fn what_remains(job: Option<Job>, pods: Vec<Pod>, start: Option<Timestamp>) -> Remains {
        let run = two_clients();
        let attempt = &run.attempts[0];
        let result = merge(attempt, 2, vec![pod_result("a", 10, 1.0, 100), lost("b")]);
        let fetched = Fetched {
            jobs: job.map(|job| ("sprint-read-1".to_owned(), job)).into_iter().collect(),
            pods,
            stored: [(attempt.name.clone(), result)].into(),
            remembered: [(attempt.name.clone(), Remembered { created: Some(at(-9)), start })].into(),
            ..nothing()
        };
        assert_eq!(since(&run, &fetched), at(-9), "a removed Job's time counts");
        match attempt_state(&run, attempt, &fetched) {
            AttemptState::Lost { remains, .. } => remains,
            other => panic!("not lost: {other:?}"),
        }
    }

    #[test]
    fn what_is_left_of_a_lost_attempt_is_its_job_then_pods_that_may_still_load() {
        let gone = Remains { job: false, silent_from: Some(Timestamp::MIN) };
        assert_eq!(what_remains(None, vec![of_phase("a", "Succeeded")], None), gone);
        assert!(what_remains(Some(running()), vec![], None).job);
        let deleting = job(json!({"deletionTimestamp": at(0).to_string()}), json!({}));
        assert!(!what_remains(Some(deleting), vec![], None).job, "it is being deleted already");
        let cut_off = || of_phase("b", "Running");
        assert_eq!(what_remains(None, vec![cut_off()], None).silent_from, None, "it may load for ever");
        // 4 s of load and 15 s for the watchdog.
        assert_eq!(what_remains(None, vec![cut_off()], Some(at(0))).silent_from, Some(at(19)));
    }
}
