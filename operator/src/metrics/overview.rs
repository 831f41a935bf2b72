//! The operator's own state as metrics: numbers of runs, Datastores and Leases, and stuck runs. Pure.

use super::families::{Families, Metric, labels};
use dragstrip_core::{
    lease::{given_back, holder_of},
    run::clock::deadline,
};
use dragstrip_crds::{
    BenchmarkRun, BenchmarkSuite, Datastore,
    conditions::{
        self,
        types::{PASSED, READY},
    },
    run::RunPhase,
};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::Lease;
use kube::ResourceExt;
use std::sync::Arc;

const RUNS: Metric =
    Metric("dragstrip_runs", "Runs by state, including the finished runs whose metrics are shown.");
const DATASTORES: Metric = Metric("dragstrip_datastores", "Datastores by readiness.");
const LEASES: Metric = Metric("dragstrip_leases_held", "Leases of Datastores and nodes that runs hold.");
const QUEUE: Metric = Metric("dragstrip_queue_length", "Runs that wait for other runs.");
const STUCK: Metric =
    Metric("dragstrip_run_stuck", "1 for a run that continues 5 minutes after its timeout.");

const SUITE_PROGRESS: Metric =
    Metric("dragstrip_suite_progress_ratio", "Share of finished runs of a running suite, from 0 to 1.");
const SUITE_PASSED: Metric = Metric(
    "dragstrip_suite_passed",
    "1 for a suite with a schedule whose last round passed, 0 for one whose last round did not.",
);

/// How long a run may continue after its timeout.
const PATIENCE: SignedDuration = SignedDuration::from_mins(5);

const STATES: [RunPhase; 9] = [
    RunPhase::Pending,
    RunPhase::Provisioning,
    RunPhase::Queued,
    RunPhase::Preparing,
    RunPhase::Running,
    RunPhase::Collecting,
    RunPhase::Succeeded,
    RunPhase::Failed,
    RunPhase::Cancelled,
];

fn state(run: &BenchmarkRun) -> RunPhase {
    run.status.as_ref().map(|status| status.phase).unwrap_or_default()
}

/// Whether `run` continues although its timeout should have ended it.
fn stuck(run: &BenchmarkRun, now: Timestamp) -> bool {
    let Some(created) = &run.metadata.creation_timestamp else { return false };
    let clock = run.status.as_ref().and_then(|status| status.clock.as_ref());
    let ends = deadline(clock, created.0, run.spec.timeout.signed(), now);
    ends.saturating_add(PATIENCE).is_ok_and(|latest| latest < now)
}

/// Running suites, and the last round of suites with a schedule.
pub fn suites(suites: &[Arc<BenchmarkSuite>]) -> Families {
    let mut page = Families::default();
    for suite in suites {
        let base = labels(
            "",
            &[("namespace", &suite.namespace().unwrap_or_default()), ("suite", &suite.name_any())],
        );
        let status = suite.status.clone().unwrap_or_default();
        let progress = status.progress.filter(|progress| progress.total > 0);
        let share = progress.map(|progress| f64::from(progress.done) / f64::from(progress.total));
        page.add(&SUITE_PROGRESS, &base, &[], share);
        let passed = conditions::find(&status.conditions, PASSED).filter(|passed| passed.status != "Unknown");
        page.add(&SUITE_PASSED, &base, &[], passed.map(|passed| f64::from(passed.status == "True")));
    }
    page
}

/// The operator's own state. `ended` has the states of the finished runs that are shown.
pub fn families(
    ended: &[RunPhase],
    active: &[Arc<BenchmarkRun>],
    datastores: &[Arc<Datastore>],
    leases: &[Arc<Lease>],
    now: Timestamp,
) -> Families {
    let mut page = Families::default();
    let states: Vec<RunPhase> = active.iter().map(|run| state(run)).chain(ended.iter().copied()).collect();
    let count = |wanted: RunPhase| states.iter().filter(|state| **state == wanted).count() as f64;
    for state in STATES {
        page.add(&RUNS, "", &[("state", &state.to_string())], count(state));
    }
    page.add(&QUEUE, "", &[], count(RunPhase::Queued));
    let is_ready = |datastore: &&Arc<Datastore>| {
        let status = datastore.status.as_ref();
        status.is_some_and(|s| conditions::holds(&s.conditions, READY, datastore.metadata.generation))
    };
    let ready = datastores.iter().filter(is_ready).count();
    page.add(&DATASTORES, "", &[("ready", "true")], ready as f64);
    page.add(&DATASTORES, "", &[("ready", "false")], (datastores.len() - ready) as f64);
    let held = leases.iter().filter(|lease| holder_of(lease).is_some() && !given_back(lease));
    page.add(&LEASES, "", &[], held.count() as f64);
    for run in active.iter().filter(|run| stuck(run, now)) {
        let own = [("namespace", &*run.namespace().unwrap_or_default()), ("run", &*run.name_any())];
        page.add(&STUCK, &labels("", &own), &[], 1.0);
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn run(name: &str, status: serde_json::Value) -> Arc<BenchmarkRun> {
        let run = json!({
            "apiVersion": "dragstrip.dev/v1alpha1", "kind": "BenchmarkRun",
            "metadata": {"name": name, "namespace": "races", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"target": {"datastoreRef": {"name": "redis"}}, "phases": [], "timeout": "10m"},
            "status": status
        });
        Arc::new(serde_json::from_value(run).unwrap())
    }

    #[test]
    fn a_run_is_stuck_when_its_timeout_has_not_ended_it() {
        let clock = |since: Option<&str>| json!({"clock": {"usedSeconds": 60, "runningSince": since}});
        let queued = run("queued", clock(None));
        let runs = run("runs", clock(Some("2026-01-01T01:00:00Z")));
        let at = |time: &str| format!("2026-01-01T{time}Z").parse().unwrap();
        assert!(!stuck(&queued, at("23:00:00")), "the clock stops while a run waits for others");
        assert!(!stuck(&runs, at("01:13:00")), "its end may take a moment");
        assert!(stuck(&runs, at("01:14:01")), "9 minutes were left at 1:00, and 5 more have passed");
        assert!(stuck(&run("untouched", json!({})), at("00:15:01")), "no pass has written its status");
    }

    #[test]
    fn every_state_has_a_number_and_released_leases_are_not_held() {
        let lease = |annotations: serde_json::Value, holder: &str| -> Arc<Lease> {
            let lease = json!({"metadata": {"annotations": annotations}, "spec": {"holderIdentity": holder}});
            Arc::new(serde_json::from_value(lease).unwrap())
        };
        let leases = [
            lease(json!({}), "races/first/u"),
            lease(json!({"dragstrip.dev/given-back": "true"}), "races/first/u"),
            lease(json!({}), "kube-scheduler"),
        ];
        let runs = [run("a", json!({"phase": "Queued"})), run("b", json!({"phase": "Running"}))];
        let now = "2026-01-01T00:00:00Z".parse().unwrap();
        let text = Families::text(&[&families(&[RunPhase::Succeeded], &runs, &[], &leases, now)]);
        for line in [
            "dragstrip_runs{state=\"Queued\"} 1",
            "dragstrip_runs{state=\"Succeeded\"} 1",
            "dragstrip_runs{state=\"Failed\"} 0",
            "dragstrip_queue_length 1",
            "dragstrip_leases_held 1",
            "dragstrip_datastores{ready=\"false\"} 0",
        ] {
            assert!(text.lines().any(|one| one == line), "no line {line:?} in\n{text}");
        }
        assert!(!text.contains("stuck"), "no run is stuck:\n{text}");
    }
}
