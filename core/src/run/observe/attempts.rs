//! The state of each attempt of a run, from what was fetched. Pure.

use super::fetched::Fetched;
use crate::{
    labels,
    loads::silent_from,
    pods::{self, CLIENT_CONTAINER},
    run::{
        decide::{AttemptState, Preparation, Remains},
        observe::snapshot::state_of_stored,
        observe::stored_result::{annotation, start_line},
        plan::timing::watchdog_seconds,
        validate::{Attempt, ValidatedRun},
    },
    trouble::Trouble,
    warnings,
};
use dragstrip_crds::BenchmarkRunStatus;
use dragstrip_results::protocol::RunnerStage;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Event, Pod};
use std::sync::Arc;

/// The remedy for a quota on limits: only the clients' containers have none by default.
const CLIENT_LIMITS: &str =
    "; declare what the client may use in spec.clients.resources.limits, such as {cpu: \"4\", memory: 2Gi}";

/// When a `pod` of `attempt` can load no more, if that is known. Its runner's watchdog, counted from the start
/// line, ends its load at the latest.
pub fn client_silent_from(
    run: &ValidatedRun,
    attempt: &Attempt,
    fetched: &Fetched,
    pod: &Pod,
) -> Option<Timestamp> {
    let start = fetched.snapshot.stored.get(&attempt.name).and_then(|stored| stored.start);
    let bound =
        SignedDuration::try_from_secs_f64(watchdog_seconds(run, attempt)).unwrap_or(SignedDuration::MAX);
    let watchdog = start.and_then(|start| start.checked_add(bound).ok());
    silent_from(pod).into_iter().chain(watchdog).min()
}

/// What remains of an attempt that is over or lost.
fn remains(run: &ValidatedRun, attempt: &Attempt, fetched: &Fetched) -> Remains {
    let unseen = fetched.unseen.get(&attempt.name).copied().unwrap_or(Timestamp::MIN);
    Remains {
        job: fetched.jobs.get(&attempt.name).is_some_and(|job| job.metadata.deletion_timestamp.is_none()),
        silent_from: fetched
            .pods_of(&attempt.name)
            .map(|pod| client_silent_from(run, attempt, fetched, pod))
            .try_fold(unseen, |latest, from| from.map(|from| latest.max(from))),
    }
}

/// Whether the load of `attempt` was started according to `old`: its Job may be gone.
pub fn was_started(old: &BenchmarkRunStatus, attempt: &Attempt) -> bool {
    old.started.as_ref().is_some_and(|started| started.job == attempt.name)
}

fn without_job(
    run: &ValidatedRun,
    attempt: &Attempt,
    old: &BenchmarkRunStatus,
    fetched: &Fetched,
) -> AttemptState {
    // An attempt that may have loaded the server is never silently measured again.
    if was_started(old, attempt) {
        return AttemptState::Ended;
    }
    match remains(run, attempt, fetched).silent_from {
        Some(from) if from == Timestamp::MIN => AttemptState::Absent,
        silent_from => AttemptState::Left { silent_from },
    }
}

fn attempt_state(
    run: &ValidatedRun,
    attempt: &Attempt,
    old: &BenchmarkRunStatus,
    fetched: &Fetched,
) -> AttemptState {
    if let Some(stored) = fetched.snapshot.stored.get(&attempt.name) {
        return state_of_stored(stored.failure.as_ref(), || remains(run, attempt, fetched));
    }
    let Some(job) = fetched.jobs.get(&attempt.name) else {
        return without_job(run, attempt, old, fetched);
    };
    if fetched.ended(attempt) {
        return AttemptState::Ended;
    }
    if job.metadata.deletion_timestamp.is_some() {
        return AttemptState::Leaving;
    }
    if let Some(start) = start_line(&job.metadata) {
        return AttemptState::Started { start, receipt: fetched.receipt(attempt) };
    }
    if annotation(&job.metadata, labels::SPEC_HASH).is_some_and(|hash| hash != run.spec_hash) {
        return AttemptState::Outdated;
    }
    let created = job.metadata.creation_timestamp.as_ref().map_or(run.created, |time| time.0);
    if all(attempt, fetched, is_at_start_line) || report_start_line(attempt, fetched) {
        return AttemptState::AtStartLine { unreachable_since: fetched.unreachable_since };
    }
    if are_preparing(attempt, fetched) {
        return AttemptState::Preparing(Preparation::of(fetched.runners.values()));
    }
    AttemptState::Starting { trouble: trouble(attempt, fetched), since: since(attempt, fetched, created) }
}

/// Whether `test` is true of as many pods of `attempt` as it has clients.
fn all(attempt: &Attempt, fetched: &Fetched, test: fn(&Pod) -> bool) -> bool {
    let count = fetched.pods_of(&attempt.name).filter(|pod| test(pod)).count();
    u32::try_from(count).is_ok_and(|count| count >= attempt.pods)
}

/// Whether all clients of `attempt` run, and not all are at the start line.
pub fn are_preparing(attempt: &Attempt, fetched: &Fetched) -> bool {
    all(attempt, fetched, |pod| pods::runs(pod, CLIENT_CONTAINER)) && !all(attempt, fetched, is_at_start_line)
}

/// Whether all runners report that they are at the start line: the kubelet shows it up to a second later.
fn report_start_line(attempt: &Attempt, fetched: &Fetched) -> bool {
    let stages = fetched.runners.values().map(|runner| runner.stage);
    let count = stages.filter(|stage| *stage == RunnerStage::AtStartLine).count();
    u32::try_from(count).is_ok_and(|count| count >= attempt.pods)
}

/// A client's startup probe succeeds at the start line. Clients of an operator before this one may have a
/// readiness probe instead, and start as soon as they run.
fn is_at_start_line(pod: &Pod) -> bool {
    let containers = || pod.spec.iter().flat_map(|spec| &spec.containers);
    let is_older = containers().any(|it| it.name == CLIENT_CONTAINER && it.readiness_probe.is_some());
    if is_older { pods::ready(pod) } else { pods::has_started(pod, CLIENT_CONTAINER) }
}

/// The states of all attempts, in sequence.
pub fn states(run: &ValidatedRun, old: &BenchmarkRunStatus, fetched: &Fetched) -> Vec<AttemptState> {
    run.attempts.iter().map(|attempt| attempt_state(run, attempt, old, fetched)).collect()
}

/// Since when something holds up the clients of `attempt`, whose Job was `created` then: a node may
/// have come late, and until then there was no trouble.
fn since(attempt: &Attempt, fetched: &Fetched, created: Timestamp) -> Timestamp {
    let pods = || fetched.pods_of(&attempt.name);
    let first = |event: &Event| {
        let (first, only) = (event.first_timestamp.as_ref(), event.event_time.as_ref());
        first.map(|time| time.0).or(only.map(|time| time.0))
    };
    let warned = |pod| {
        let about = fetched
            .warnings
            .iter()
            .filter(move |event| warnings::trouble(pod, &[Arc::clone(event)]).is_some());
        about.filter_map(|event| first(event)).min()
    };
    pods().filter_map(scheduled).chain(pods().filter_map(warned).min()).fold(created, Timestamp::max)
}

/// When `pod` got its node.
fn scheduled(pod: &Pod) -> Option<Timestamp> {
    let mut conditions = pod.status.as_ref()?.conditions.iter().flatten();
    let scheduled = conditions.find(|one| one.type_ == "PodScheduled" && one.status == "True")?;
    Some(scheduled.last_transition_time.as_ref()?.0)
}

/// The trouble that holds up the clients of `attempt`: by a pod's own status, by events about a
/// pod, or why no pod was created.
fn trouble(attempt: &Attempt, fetched: &Fetched) -> Option<Trouble> {
    let pods = || fetched.pods_of(&attempt.name);
    let reported = || pods().find_map(|pod| warnings::trouble(pod, &fetched.warnings));
    let refused = || {
        let refused = warnings::refusal(fetched.jobs.get(&attempt.name)?.as_ref(), &fetched.warnings)?;
        let limits_missing = ["must specify", "limits."].iter().all(|text| refused.message.contains(text));
        let remedy = if limits_missing { CLIENT_LIMITS } else { "" };
        Some(Trouble { message: format!("{}{remedy}", refused.message), ..refused })
    };
    let found = pods().find_map(pods::trouble).or_else(reported).or_else(refused)?;
    let no_node = fetched.jobs.get(&attempt.name).and_then(|job| annotation(&job.metadata, labels::NO_NODE));
    Some(match no_node.filter(|_| found.reason == "Unschedulable") {
        Some(why) => Trouble { message: format!("{why} ({})", found.message), ..found },
        None => found,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{lost, run};
    use crate::run::{decide::Receipt, snapshot::Snapshot, stored_result::StoredResult, validate::validate};
    use dragstrip_crds::run::StartedStatus;
    use dragstrip_results::{protocol::RunnerState, result::PodFailure};
    use k8s_openapi::api::batch::v1::Job;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::{OwnerReference, Time};
    use serde_json::{Value, json};

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).unwrap()
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

    fn started() -> Job {
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
        pod.metadata.owner_references = Some(vec![OwnerReference {
            kind: "Job".into(),
            name: "sprint-read-1".into(),
            controller: Some(true),
            ..OwnerReference::default()
        }]);
        pod
    }

    fn of_phase(name: &str, phase: &str) -> Pod {
        pod(name, json!({}), json!({"phase": phase}))
    }

    fn shared(pods: Vec<Pod>) -> Vec<Arc<Pod>> {
        pods.into_iter().map(Arc::new).collect()
    }

    /// Made when the run was.
    fn starting() -> AttemptState {
        AttemptState::Starting { trouble: None, since: two_clients().created }
    }

    fn state(job: Job, pods: Vec<Pod>) -> AttemptState {
        let run = two_clients();
        let fetched = Fetched {
            jobs: [("sprint-read-1".to_owned(), Arc::new(job))].into(),
            pods: shared(pods),
            ..Fetched::default()
        };
        attempt_state(&run, &run.attempts[0], &BenchmarkRunStatus::default(), &fetched)
    }

    #[test]
    fn an_attempt_has_ended_with_its_job_or_with_all_its_pods() {
        let over = |phases: [&str; 2]| vec![of_phase("a", phases[0]), of_phase("b", phases[1])];
        let failed = job(json!({}), json!({"conditions": [{"type": "Failed", "status": "True"}]}));
        assert_eq!(state(failed, vec![]), AttemptState::Ended, "the Job says so");
        // After an outage of the apiserver the Job controller may need 40 s to notice.
        assert_eq!(state(started(), over(["Succeeded", "Succeeded"])), AttemptState::Ended);
        assert_eq!(state(started(), over(["Succeeded", "Failed"])), AttemptState::Ended);
        let loading = AttemptState::Started { start: at(0), receipt: Receipt::Unknown };
        assert_eq!(state(started(), over(["Succeeded", "Running"])), loading, "one pod still loads");
        assert_eq!(state(started(), vec![of_phase("a", "Succeeded")]), loading, "one pod is not there");
        assert_eq!(state(running(), vec![]), starting(), "no pod was made yet");
    }

    /// A pod whose client is at the start line or before it, and runs or does not. The kubelet shows it as
    /// ready later.
    fn client(name: &str, started: bool, running: bool) -> Pod {
        let state = if running { json!({"running": {}}) } else { json!({"waiting": {}}) };
        let container = json!({
            "name": CLIENT_CONTAINER, "image": "i", "imageID": "", "ready": false, "restartCount": 0,
            "started": started, "state": state
        });
        let conditions = json!([{"type": "Ready", "status": "False"}]);
        let status = json!({"phase": "Running", "containerStatuses": [container], "conditions": conditions});
        pod(name, json!({}), status)
    }

    #[test]
    fn pods_are_at_the_start_line_once_the_startup_probes_of_all_have_succeeded() {
        let at_line = |name| client(name, true, true);
        assert_eq!(
            state(running(), vec![at_line("a"), at_line("b")]),
            AttemptState::AtStartLine { unreachable_since: None }
        );
        assert_eq!(state(running(), vec![at_line("a"), of_phase("b", "Pending")]), starting());
    }

    #[test]
    fn clients_that_run_before_the_start_line_have_started_however_long_they_prepare() {
        let prepares = AttemptState::Preparing(Preparation::default());
        assert_eq!(state(running(), vec![client("a", false, true), client("b", true, true)]), prepares);
        assert_eq!(state(running(), vec![client("a", false, true), client("b", false, false)]), starting());
        // Without a startup probe, Kubernetes shows a container that runs as started.
        let older = |name| {
            let mut pod = client(name, true, true);
            let container = json!({"name": CLIENT_CONTAINER, "readinessProbe": {"httpGet": {"port": 1}}});
            pod.spec = serde_json::from_value(json!({"containers": [container]})).unwrap();
            pod
        };
        assert_eq!(
            state(running(), vec![older("a"), older("b")]),
            prepares,
            "an operator before this one created them"
        );
    }

    #[test]
    fn runners_that_report_the_start_line_need_not_wait_for_the_kubelet_to_show_it() {
        let with = |stages: &[RunnerStage]| {
            let run = two_clients();
            let runner = |stage: &RunnerStage| RunnerState { stage: *stage, ..RunnerState::default() };
            let fetched = Fetched {
                jobs: [("sprint-read-1".to_owned(), Arc::new(running()))].into(),
                pods: shared(vec![client("a", false, true), client("b", false, true)]),
                runners: ["a", "b"].map(str::to_owned).into_iter().zip(stages.iter().map(runner)).collect(),
                ..Fetched::default()
            };
            attempt_state(&run, &run.attempts[0], &BenchmarkRunStatus::default(), &fetched)
        };
        let (line, loading) = (RunnerStage::AtStartLine, RunnerStage::Loading);
        assert_eq!(with(&[line, line]), AttemptState::AtStartLine { unreachable_since: None });
        for incomplete in [&[line, loading][..], &[line], &[]] {
            let found = with(incomplete);
            assert!(matches!(found, AttemptState::Preparing(_)), "{incomplete:?}: {found:?}");
        }
    }

    /// The state of a started attempt of two pods whose runners are in these stages; `None` does not
    /// respond.
    fn received(stages: [Option<RunnerStage>; 2]) -> Receipt {
        let run = two_clients();
        let runner = |(pod, stage): (&str, Option<RunnerStage>)| {
            let stage = stage?;
            Some((pod.to_owned(), RunnerState { stage, ..RunnerState::default() }))
        };
        let fetched = Fetched {
            jobs: [("sprint-read-1".to_owned(), Arc::new(started()))].into(),
            pods: shared(vec![of_phase("a", "Running"), of_phase("b", "Running")]),
            runners: ["a", "b"].into_iter().zip(stages).filter_map(runner).collect(),
            ..Fetched::default()
        };
        match attempt_state(&run, &run.attempts[0], &BenchmarkRunStatus::default(), &fetched) {
            AttemptState::Started { start, receipt } if start == at(0) => receipt,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn which_runners_have_the_start_command_follows_from_their_stages() {
        use RunnerStage::{Armed, AtStartLine, Loading, Running};
        for (one, other, expected) in [
            (Some(Armed), Some(Running), Receipt::Complete),
            (Some(Running), Some(AtStartLine), Receipt::Partial),
            (Some(AtStartLine), Some(Loading), Receipt::Missing),
            (Some(Running), None, Receipt::Unknown),
            (Some(AtStartLine), None, Receipt::Unknown),
            (None, None, Receipt::Unknown),
        ] {
            assert_eq!(received([one, other]), expected, "{one:?} and {other:?}");
        }
    }

    #[test]
    fn a_warning_about_a_pod_adds_what_its_status_lacks() {
        let run = two_clients();
        let event = serde_json::from_value(json!({
            "metadata": {}, "involvedObject": {"uid": "a"}, "reason": "FailedMount", "message": "secret not found"
        }));
        let fetched = Fetched {
            jobs: [("sprint-read-1".to_owned(), Arc::new(running()))].into(),
            pods: shared(vec![of_phase("a", "Pending")]),
            warnings: vec![Arc::new(event.unwrap())],
            ..Fetched::default()
        };
        let AttemptState::Starting { trouble: Some(trouble), .. } =
            attempt_state(&run, &run.attempts[0], &BenchmarkRunStatus::default(), &fetched)
        else {
            panic!("the missing Secret was not reported");
        };
        assert!(trouble.message.contains("secret not found"), "{}", trouble.message);
    }

    #[test]
    fn patience_counts_from_the_first_sign_of_trouble_and_not_from_a_wait_for_a_node() {
        let run = two_clients();
        let since = |warned: Option<i64>| {
            let status = json!({"phase": "Pending", "conditions": [
                {"type": "PodScheduled", "status": "True", "lastTransitionTime": at(90).to_string()}
            ]});
            let warning = |first: i64| {
                let event = json!({
                    "metadata": {}, "involvedObject": {"uid": "a"}, "reason": "FailedMount", "message": "no answer",
                    "firstTimestamp": at(first).to_string(), "lastTimestamp": at(first + 30).to_string()
                });
                Arc::new(serde_json::from_value(event).unwrap())
            };
            let made = job(json!({"creationTimestamp": at(0).to_string()}), json!({"active": 2}));
            let fetched = Fetched {
                jobs: [("sprint-read-1".to_owned(), Arc::new(made))].into(),
                pods: shared(vec![pod("a", json!({}), status)]),
                warnings: warned.into_iter().map(warning).collect(),
                ..Fetched::default()
            };
            match attempt_state(&run, &run.attempts[0], &BenchmarkRunStatus::default(), &fetched) {
                AttemptState::Starting { since, .. } => since,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(since(None), at(90), "its node came late");
        assert_eq!(since(Some(95)), at(95), "one failed mount would end its turn at once");
        assert_eq!(since(Some(240)), at(240), "a large image came first");
    }

    #[test]
    fn a_quota_on_limits_is_reported_with_the_field_to_set() {
        let refused = |message: &str| {
            let run = two_clients();
            let mut made = running();
            made.metadata.uid = Some("j".into());
            let event = serde_json::from_value(json!({
                "metadata": {}, "involvedObject": {"uid": "j"}, "reason": "FailedCreate", "message": message
            }));
            let fetched = Fetched {
                jobs: [("sprint-read-1".to_owned(), Arc::new(made))].into(),
                warnings: vec![Arc::new(event.unwrap())],
                ..Fetched::default()
            };
            match attempt_state(&run, &run.attempts[0], &BenchmarkRunStatus::default(), &fetched) {
                AttemptState::Starting { trouble: Some(trouble), .. } => trouble.message,
                other => panic!("the refusal was not reported: {other:?}"),
            }
        };
        let message = "pods \"p\" is forbidden: failed quota: small: must specify limits.cpu for: client; limits.memory for: client";
        let reported = refused(message);
        assert!(
            reported.contains(message) && reported.contains("spec.clients.resources.limits"),
            "{reported}"
        );
        let reported = refused(
            "pods \"p\" is forbidden: exceeded quota: small, used: limits.cpu=2, limited: limits.cpu=2",
        );
        assert!(!reported.contains("spec.clients"), "{reported}");
    }

    fn what_remains(job: Option<Job>, pods: Vec<Pod>, start: Option<Timestamp>) -> Remains {
        let run = two_clients();
        let attempt = &run.attempts[0];
        let failure = lost("b").failure.map(|failure| PodFailure { pod: "b".into(), failure });
        let stored = StoredResult { failure, start, ..StoredResult::default() };
        let fetched = Fetched {
            jobs: job.map(|job| ("sprint-read-1".to_owned(), Arc::new(job))).into_iter().collect(),
            pods: shared(pods),
            snapshot: Snapshot { stored: [(attempt.name.clone(), stored)].into(), ..Snapshot::default() },
            ..Fetched::default()
        };
        match attempt_state(&run, attempt, &BenchmarkRunStatus::default(), &fetched) {
            AttemptState::Lost { remains, .. } => remains,
            other => panic!("not lost: {other:?}"),
        }
    }

    #[test]
    fn a_lost_attempt_leaves_its_job_and_then_pods_that_may_still_load() {
        let gone = Remains { job: false, silent_from: Some(Timestamp::MIN) };
        assert_eq!(what_remains(None, vec![of_phase("a", "Succeeded")], None), gone);
        assert!(what_remains(Some(running()), vec![], None).job);
        let deleting = job(json!({"deletionTimestamp": at(0).to_string()}), json!({}));
        assert!(!what_remains(Some(deleting), vec![], None).job, "it is being deleted already");
        let cut_off = || of_phase("b", "Running");
        assert_eq!(what_remains(None, vec![cut_off()], None).silent_from, None, "it may load forever");
        // 1 s of warm-up, 4 s of load and 15 s for the watchdog.
        assert_eq!(what_remains(None, vec![cut_off()], Some(at(0))).silent_from, Some(at(20)));
    }

    #[test]
    fn a_job_of_another_spec_is_outdated_and_one_that_goes_is_awaited() {
        let other = job(json!({"annotations": {labels::SPEC_HASH: "other"}}), json!({}));
        assert_eq!(state(other, vec![]), AttemptState::Outdated);
        let own = json!({"annotations": {labels::SPEC_HASH: two_clients().spec_hash}});
        assert_eq!(state(job(own, json!({})), vec![]), starting());
        let going = job(json!({"deletionTimestamp": at(0).to_string()}), json!({}));
        assert_eq!(state(going, vec![]), AttemptState::Leaving);
    }

    #[test]
    fn a_job_that_is_gone_is_lost_after_its_start_and_its_pods_are_awaited_before() {
        let run = two_clients();
        let gone = |pods: Vec<Pod>, started: Option<&str>| {
            let started = started.map(|job| StartedStatus { job: job.to_owned(), start_at: Time(at(0)) });
            let old = BenchmarkRunStatus { started, ..BenchmarkRunStatus::default() };
            let fetched = Fetched { pods: shared(pods), ..Fetched::default() };
            attempt_state(&run, &run.attempts[0], &old, &fetched)
        };
        assert_eq!(
            gone(vec![], Some("sprint-read-1")),
            AttemptState::Ended,
            "it would silently be measured again"
        );
        assert_eq!(
            gone(vec![], Some("sprint-write-1")),
            AttemptState::Absent,
            "that was another measurement"
        );
        assert_eq!(gone(vec![], None), AttemptState::Absent);
        assert_eq!(gone(vec![of_phase("a", "Failed")], None), AttemptState::Absent, "it has ended");
        let writes = gone(vec![of_phase("a", "Running")], None);
        assert_eq!(writes, AttemptState::Left { silent_from: None }, "it may still write keys");
        let bound = json!({
            "deletionTimestamp": at(0).to_string(), "annotations": {labels::LOAD_BOUND: "75"}
        });
        let cut_off = gone(vec![pod("a", bound, json!({"phase": "Running"}))], None);
        assert_eq!(cut_off, AttemptState::Left { silent_from: Some(at(75)) });
    }

    #[test]
    fn load_that_runs_unseen_delays_only_its_own_job() {
        let run = two_clients();
        let unseen_of = |job: &str| {
            let fetched = Fetched { unseen: [(job.to_owned(), at(75))].into(), ..Fetched::default() };
            attempt_state(&run, &run.attempts[0], &BenchmarkRunStatus::default(), &fetched)
        };
        assert_eq!(unseen_of("sprint-read-1"), AttemptState::Left { silent_from: Some(at(75)) });
        assert_eq!(
            unseen_of("sprint-write-1"),
            AttemptState::Absent,
            "a phase that is over waits for nothing"
        );
    }
}
