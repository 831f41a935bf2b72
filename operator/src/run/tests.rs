//! Steps of the controller against a mock API server: its calls in sequence, and what follows from
//! the answers.

use super::*;
pub(super) use crate::datastore::tests::Cluster;
use crate::datastore::tests::{Answer, Calls, body};
use crate::fixtures;
use decide::TargetState;
use dragstrip_core::run::turn::TurnCheck;
use dragstrip_core::run::{snapshot::Snapshot, stored_result::StoredResult, validate::ValidatedRun};
use dragstrip_crds::{BenchmarkRunStatus, run::TargetStatus};
use serde_json::{Value, json};

/// The context of a controller of this `cluster`, and the calls that it makes.
pub(super) fn context(cluster: Cluster, answer: Answer) -> (RunContext, Calls) {
    let (shared, calls) = crate::datastore::tests::context(cluster, answer);
    (RunContext::new((*shared).clone(), Arc::default()), calls)
}

fn deadline() -> Timestamp {
    Timestamp::now().saturating_add(jiff::SignedDuration::from_mins(30)).unwrap()
}

/// A run with phases write and read in the mock's namespace.
fn declared() -> BenchmarkRun {
    let mut run = fixtures::run(&["write", "read"], 1);
    run.metadata.namespace = Some("pits".into());
    run
}

fn valid() -> ValidatedRun {
    validate::validate(&declared()).unwrap()
}

/// What a pass found of a run that holds its turn, with stored results of these names.
fn found(stored: &[&str]) -> Fetched {
    let turn = TurnCheck {
        turn: decide::Turn::Held,
        missing: vec![],
        held: vec![],
        client_nodes: vec!["client".into()],
        no_node: None,
        wanted: vec![],
        unplaceable: None,
    };
    Fetched {
        snapshot: Snapshot {
            target: TargetState::Ready(Box::new(fixtures::target())),
            turn: turn.turn.clone(),
            holds: true,
            stored: stored.iter().map(|name| ((*name).to_owned(), StoredResult::default())).collect(),
            ..Snapshot::default()
        },
        turn: Some(turn),
        ..Fetched::default()
    }
}

fn names(calls: &Calls) -> Vec<String> {
    calls.lock().unwrap().iter().map(|(call, _)| call.clone()).collect()
}

/// The run as the apiserver has it.
fn stored_run(status: &Value) -> (u16, Value) {
    let metadata = json!({"name": "sprint", "namespace": "pits", "uid": "run-uid"});
    let run = json!({
        "apiVersion": "dragstrip.dev/v1alpha1", "kind": "BenchmarkRun", "metadata": metadata, "status": status
    });
    (200, run)
}

fn refusal() -> (u16, Value) {
    let message = "exceeded quota: small";
    let status = json!({
        "kind": "Status", "status": "Failure", "code": 403, "reason": "Forbidden", "message": message
    });
    (403, status)
}

fn empty_list(call: &str) -> Option<(u16, Value)> {
    matches!(call, "GET jobs" | "GET pods").then(|| (200, json!({"metadata": {}, "items": []})))
}

/// A Datastore under the run's name that this run owns.
fn own_datastore(uid: &str) -> Value {
    let owner = json!({"apiVersion": "v1", "kind": "BenchmarkRun", "name": "sprint", "uid": uid});
    json!({"metadata": {"name": "sprint", "namespace": "pits", "uid": "d", "ownerReferences": [owner]}})
}

async fn applied(ctx: &RunContext, fetched: &Fetched, step: &Step) -> Result<Applied, act::Error> {
    let (run, old) = (valid(), BenchmarkRunStatus::default());
    let pass = Pass { ctx, run: &run, old: &old };
    act::apply(&StepPass { pass, fetched, deadline: deadline() }, step).await
}

/// The outcome of `step`, and its calls.
async fn carried_out(answer: Answer, fetched: &Fetched, step: Step) -> (Option<Step>, Vec<String>) {
    let (ctx, calls) = context(Cluster::default(), answer);
    let (run, old) = (valid(), BenchmarkRunStatus::default());
    let at = StepPass { pass: Pass { ctx: &ctx, run: &run, old: &old }, fetched, deadline: deadline() };
    let (step, _) = carry_out(&at, step, Timestamp::now()).await.unwrap();
    let calls = names(&calls);
    (step, calls)
}

#[tokio::test]
async fn a_job_that_is_refused_between_two_phases_ends_the_run_under_its_turn() {
    let refuses: Answer = |call| match call {
        "GET benchmarkruns sprint" => Some(stored_run(&json!({}))),
        "POST jobs" => Some(refusal()),
        _ => empty_list(call),
    };
    let (step, calls) = carried_out(refuses, &found(&["sprint-write-1"]), Step::CreateJob(1)).await;
    let Some(Step::Finish(Ending::Failed(failure))) = step else {
        panic!("others would flush its data: {step:?}")
    };
    assert!(failure.message.contains("exceeded quota: small"), "{}", failure.message);
    assert_eq!(calls, ["GET benchmarkruns sprint", "GET configmaps sprint-read-1", "GET pods", "POST jobs"]);
    let (step, _) = carried_out(refuses, &found(&[]), Step::CreateJob(0)).await;
    assert!(matches!(step, Some(Step::StandBack { .. })), "at first nothing is lost: {step:?}");
}

#[tokio::test]
async fn no_job_is_created_under_a_lease_that_another_operator_released() {
    let answer: Answer = |call| match call {
        "GET benchmarkruns sprint" => Some(stored_run(&json!({}))),
        "GET leases held" | "GET leases released" => Some((
            200,
            json!({
                "metadata": {"annotations": if call.ends_with("released") { json!({labels::GIVEN_BACK: "true"}) } else { json!({}) }},
                "spec": {"holderIdentity": "pits/sprint/run-uid"},
            }),
        )),
        "POST jobs" => Some(refusal()),
        _ => empty_list(call),
    };
    let calls_with = async |leases: &[&str]| {
        let key = |name: &&str| LeaseKey { namespace: "pits".into(), name: (*name).to_owned() };
        let mut fetched = found(&[]);
        fetched.turn.as_mut().unwrap().held = leases.iter().map(key).collect();
        carried_out(answer, &fetched, Step::CreateJob(0)).await.1
    };
    assert!(calls_with(&["held"]).await.contains(&"POST jobs".to_owned()), "the turn is the run's");
    for lost in [["held", "released"], ["held", "removed"]] {
        let calls = calls_with(&lost).await;
        assert!(!calls.contains(&"POST jobs".to_owned()), "two runs would load one server: {calls:?}");
    }
}

#[tokio::test]
async fn nothing_is_created_for_a_run_that_changed_since_the_pass_began() {
    let changed: Answer = |call| {
        let (code, mut run) = stored_run(&json!({}));
        run["metadata"]["resourceVersion"] = json!("8");
        (call == "GET benchmarkruns sprint").then_some((code, run))
    };
    for (version, posts) in [("7", false), ("8", true)] {
        let fetched = Fetched { version: Some(version.to_owned()), ..found(&[]) };
        let (ctx, calls) = context(Cluster::default(), changed);
        // The mock has no more answers.
        let _ = applied(&ctx, &fetched, &Step::CreateJob(0)).await;
        let goes_on = names(&calls).len() > 1;
        assert_eq!(goes_on, posts, "another operator cancelled or started it: {:?}", names(&calls));
    }
}

#[tokio::test]
async fn nothing_is_created_for_a_run_that_has_ended_whatever_a_watch_shows() {
    let ended: Answer = |call| {
        let status = json!({"finishedAt": "2026-01-01T00:00:00Z"});
        (call == "GET benchmarkruns sprint").then(|| stored_run(&status))
    };
    for step in [Step::MakeDatastore, Step::TakeTurn, Step::CreateJob(0)] {
        let (_, calls) = carried_out(ended, &found(&[]), step.clone()).await;
        assert_eq!(calls, ["GET benchmarkruns sprint"], "{step:?}");
    }
    let (_, calls) = carried_out(|_| None, &found(&[]), Step::CreateJob(0)).await;
    assert_eq!(calls, ["GET benchmarkruns sprint"], "it is gone");
}

#[tokio::test]
async fn no_job_is_created_beside_a_client_that_the_watch_does_not_show() {
    fn pods(job: &str) -> (u16, Value) {
        let owner =
            json!({"apiVersion": "batch/v1", "kind": "Job", "name": job, "uid": "j", "controller": true});
        let metadata = json!({"name": "sprint-write-1-0", "ownerReferences": [owner]});
        (200, json!({"metadata": {}, "items": [{"metadata": metadata, "status": {"phase": "Running"}}]}))
    }
    let of_the_run: Answer = |call| match call {
        "GET benchmarkruns sprint" => Some(stored_run(&json!({}))),
        "GET pods" => Some(pods("sprint-write-1")),
        _ => None,
    };
    let (_, calls) = carried_out(of_the_run, &found(&[]), Step::CreateJob(0)).await;
    assert!(!calls.contains(&"POST jobs".to_owned()), "two clients would load one server: {calls:?}");
    let cut_off: Answer = |call| match call {
        "GET benchmarkruns sprint" => Some(stored_run(&json!({}))),
        "GET pods" => {
            let (code, mut list) = pods("sprint-write-1");
            list["items"][0]["metadata"]["deletionTimestamp"] = json!(Timestamp::now());
            Some((code, list))
        }
        "POST jobs" => Some(refusal()),
        _ => None,
    };
    for (start, waits) in [(Timestamp::now(), true), (Timestamp::UNIX_EPOCH, false)] {
        let mut fetched = found(&["sprint-write-1"]);
        fetched.snapshot.stored.get_mut("sprint-write-1").unwrap().start = Some(start);
        let (_, calls) = carried_out(cut_off, &fetched, Step::CreateJob(1)).await;
        let posts = calls.contains(&"POST jobs".to_owned());
        assert_eq!(posts, !waits, "started at {start}, its watchdog ended its load or did not: {calls:?}");
    }
    let of_a_stranger: Answer = |call| match call {
        "GET benchmarkruns sprint" => Some(stored_run(&json!({}))),
        "GET pods" => Some(pods("other")),
        "POST jobs" => Some(refusal()),
        _ => None,
    };
    let (_, calls) = carried_out(of_a_stranger, &found(&[]), Step::CreateJob(0)).await;
    assert!(calls.contains(&"POST jobs".to_owned()), "a label of a stranger's pod stops the run: {calls:?}");
}

#[tokio::test]
async fn no_turn_is_released_whose_result_another_operator_stored() {
    let stored: Answer = |call| {
        let owner = json!({"apiVersion": "v1", "kind": "BenchmarkRun", "name": "sprint", "uid": "run-uid"});
        let result = json!({"metadata": {"name": "sprint-write-1", "ownerReferences": [owner]}});
        (call == "GET configmaps sprint-write-1").then_some((200, result))
    };
    let trouble = dragstrip_core::trouble::Trouble {
        reason: "NotStarted".into(),
        message: "its client pods did not start".into(),
    };
    for step in [Step::ReturnTurn, Step::StandBack { attempt: Some(0), trouble }] {
        let (reported, calls) = carried_out(stored, &found(&[]), step).await;
        assert_eq!(calls, ["GET configmaps sprint-write-1"], "a turn that is in use ends");
        assert_eq!(reported, None, "the status would show a setback of a run that goes on");
    }
}

#[tokio::test]
async fn a_measurement_whose_job_was_deleted_is_stored_as_lost() {
    let (ctx, calls) = context(Cluster::default(), empty_list);
    let applied = applied(&ctx, &found(&[]), &Step::Collect(0)).await.unwrap();
    assert_eq!(applied, Applied::Progressed);
    let marks = &body(&calls, "POST configmaps")["metadata"]["annotations"];
    assert_eq!(marks["dragstrip.dev/outcome"], "Lost");
    let failure = marks["dragstrip.dev/failure"].as_str().unwrap();
    assert!(failure.contains("its Job sprint-write-1 was deleted"), "{failure}");
}

#[tokio::test]
async fn a_job_that_only_the_watch_lacks_is_not_lost() {
    let there: Answer = |call| {
        let owner = json!({"apiVersion": "v1", "kind": "BenchmarkRun", "name": "sprint", "uid": "run-uid"});
        let job = json!({"metadata": {"name": "sprint-write-1", "ownerReferences": [owner]}});
        (call == "GET jobs sprint-write-1").then_some((200, job)).or_else(|| empty_list(call))
    };
    let (ctx, calls) = context(Cluster::default(), there);
    let applied = applied(&ctx, &found(&[]), &Step::Collect(0)).await.unwrap();
    assert_eq!(applied, Applied::Awaited);
    assert!(!names(&calls).contains(&"POST configmaps".to_owned()), "{calls:?}");
}

#[tokio::test]
async fn a_result_that_is_refused_is_reported_and_not_retried_at_once() {
    let refuses: Answer = |call| (call == "POST configmaps").then(refusal).or_else(|| empty_list(call));
    let (ctx, calls) = context(Cluster::default(), refuses);
    let store = async || applied(&ctx, &found(&[]), &Step::Collect(0)).await.unwrap();
    let waits = |applied| match applied {
        Applied::Instead(Step::Wait(Waiting::Log { why, .. }, Some(_))) => why,
        other => panic!("the refusal was not reported: {other:?}"),
    };
    assert_eq!(waits(store().await), "exceeded quota: small");
    let before = names(&calls).len();
    waits(store().await);
    assert_eq!(names(&calls).len(), before, "each event would bring another attempt");
}

#[tokio::test]
async fn the_runs_own_datastore_is_deleted_with_it_though_no_watch_shows_it_yet() {
    let own: Answer = |call| match call {
        "GET datastores sprint" => Some((200, own_datastore("run-uid"))),
        _ => empty_list(call),
    };
    let strange: Answer = |call| match call {
        "GET datastores sprint" => Some((200, own_datastore("other"))),
        _ => empty_list(call),
    };
    for (answer, removed) in [(own, true), (strange, false)] {
        let (ctx, calls) = context(Cluster::default(), answer);
        act::clear_up(&ctx, &declared()).await.unwrap();
        let removes = names(&calls).contains(&"DELETE datastores sprint".to_owned());
        assert_eq!(removes, removed, "{calls:?}");
    }
}

#[tokio::test]
async fn a_run_whose_first_status_was_lost_finds_its_target_while_its_clients_are_there() {
    let job = json!({"metadata": {
        "name": "sprint-write-1", "namespace": "pits", "uid": "job", "labels": {labels::RUN_UID: "run-uid"},
    }});
    let (shared, _) = crate::datastore::tests::context(Cluster::default(), |_| {
        Some((200, json!({"metadata": {}, "items": []})))
    });
    let mut shared = (*shared).clone();
    shared.world.jobs = crate::datastore::tests::seen(vec![serde_json::from_value(job).unwrap()]);
    let ctx = RunContext::new(shared, Arc::default());
    let mut run = declared();
    run.spec.target = serde_json::from_value(json!({"external": {"address": "192.0.2.1:6379"}})).unwrap();
    let target = async |old: &BenchmarkRunStatus| {
        let mut run = validate::validate(&run).unwrap();
        fetch::fetch(&ctx, &mut run, old).await.unwrap().snapshot.target
    };
    let TargetState::Ready(found) = target(&BenchmarkRunStatus::default()).await else {
        panic!("its status would never have the address")
    };
    assert_eq!(found.host, "192.0.2.1");
    let known = TargetStatus { address: Some("192.0.2.1:6379".into()), ..TargetStatus::default() };
    let known = target(&BenchmarkRunStatus { target: Some(known), ..BenchmarkRunStatus::default() }).await;
    assert_eq!(known, TargetState::NotConsulted, "nobody reads the target again while clients load it");
}
