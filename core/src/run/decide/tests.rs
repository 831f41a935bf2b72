use super::*;
use crate::{
    fixtures::{run, searching, target},
    run::{plan::timing::watchdog_seconds, search::settle, validate::validate},
};
use dragstrip_crds::run::{FailureStatus, QueueStatus, RunReference, SetbackStatus};
use dragstrip_results::{
    result::{Failure, FailureStep, PodFailure},
    search::SearchPoint,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::json;
use std::sync::Arc;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_000_000 + seconds).unwrap()
}

fn two_phases() -> ValidatedRun {
    let mut once = run(&["write", "read"], 1);
    once.spec.max_retries = 0;
    validate(&once).unwrap()
}

fn ready() -> TargetState {
    TargetState::Ready(Box::new(target()))
}

/// With a ready target, the turn held, and half an hour left.
fn with(attempts: Vec<AttemptState>) -> Observed {
    Observed {
        target: ready(),
        turn: Turn::Held,
        holds: false,
        deadline: at(1800),
        setback: None,
        settling: None,
        server_changed: None,
        misplaced: None,
        target_gone: None,
        spec_changed: None,
        ended: None,
        damaged: Vec::new(),
        attempts,
    }
}

fn observed(first: AttemptState, second: AttemptState) -> Observed {
    with(vec![first, second])
}

fn busy(holds: bool) -> Turn {
    Turn::Busy { queue: queue(), holds }
}

fn starting_since(seconds: i64, trouble: Option<Trouble>) -> AttemptState {
    AttemptState::Starting { trouble, since: at(seconds) }
}

fn missing_secret() -> Trouble {
    Trouble { reason: "FailedMount".into(), message: "secret pit-tls not found".into() }
}

fn queue() -> QueueStatus {
    let holder = RunReference { namespace: "races".into(), name: "first".into() };
    QueueStatus { position: 1, lease: "races/dragstrip-redis".into(), holder, lacks: Vec::new() }
}

fn failure() -> PodFailure {
    PodFailure {
        pod: "sprint-write-1-0".into(),
        failure: Failure {
            step: FailureStep::ErrorReplies,
            message: "12 replies were OOM errors".into(),
            exit_code: Some(0),
            signal: None,
            last_lines: vec!["last words".into()],
        },
    }
}

fn done() -> AttemptState {
    AttemptState::Stored(None)
}

#[test]
fn what_comes_after_a_phase_waits_for_the_reading_after_its_settle_time() {
    let run = two_phases();
    let settling = || Observed { settling: Some((0, at(60))), ..observed(done(), AttemptState::Absent) };
    let waits = Step::Wait(Waiting::Settling(0), Some(at(60)));
    assert_eq!(
        decide(&run, &settling(), at(59)),
        waits,
        "the next phase would use the memory that is to settle"
    );
    // An operator that was away meanwhile reads it late, and says when.
    assert_eq!(decide(&run, &settling(), at(60)), Step::ReadMemory(0));
    assert_eq!(decide(&run, &settling(), at(5000)), Step::ReadMemory(0), "what is due is not given up");
    let last = || Observed { settling: Some((1, at(60))), ..observed(done(), done()) };
    assert_eq!(
        decide(&run, &last(), at(0)),
        Step::Wait(Waiting::Settling(1), Some(at(60))),
        "the last phase has a settle time too"
    );
    let short = Observed { deadline: at(30), ..settling() };
    let Step::Finish(Ending::Failed(failure)) = decide(&run, &short, at(30)) else {
        panic!("the settle time is part of the run's time")
    };
    assert!(failure.step == "Timeout" && failure.message.contains("had not settled"), "{}", failure.message);
    let mut cancelled = two_phases();
    cancelled.spec.cancel = true;
    assert_eq!(decide(&cancelled, &settling(), at(0)), Step::Finish(Ending::Cancelled));
}

#[test]
fn a_run_that_goes_well_takes_these_steps_in_order() {
    use AttemptState::{Absent, AtStartLine, Ended, Started};
    let table: Vec<(&str, Observed, Step)> = vec![
        (
            "its own datastore is made first",
            Observed { target: TargetState::ToBeMade, turn: Turn::Free, ..observed(Absent, Absent) },
            Step::MakeDatastore,
        ),
        ("a free turn is taken", Observed { turn: Turn::Free, ..observed(Absent, Absent) }, Step::TakeTurn),
        ("the first job is created with the turn held", observed(Absent, Absent), Step::CreateJob(0)),
        (
            "pods at the line get the start command",
            observed(AtStartLine { unreachable_since: None }, Absent),
            Step::SendStart(0),
        ),
        (
            "a pod without the start command gets it again",
            observed(Started { start: at(1), receipt: Receipt::Partial }, Absent),
            Step::SendStart(0),
        ),
        ("an ended job is collected", observed(Ended, Absent), Step::Collect(0)),
        ("the second phase follows the first", observed(done(), Absent), Step::CreateJob(1)),
        (
            "its pods start",
            observed(done(), starting_since(0, None)),
            Step::Wait(Waiting::Clients { attempt: 1, trouble: None }, Some(at(300))),
        ),
        ("everything stored is success", observed(done(), done()), Step::Finish(Ending::Succeeded)),
    ];
    for (sentence, observed, expected) in table {
        assert_eq!(decide(&two_phases(), &observed, at(2)), expected, "{sentence}");
    }
}

#[test]
fn a_run_waits_where_it_must() {
    let missing = TargetState::Missing("no Datastore named redis".into());
    let absent = || observed(AttemptState::Absent, AttemptState::Absent);
    assert_eq!(
        decide(&two_phases(), &Observed { target: missing, ..absent() }, at(1)),
        Step::Wait(Waiting::TargetMissing("no Datastore named redis".into()), Some(at(1800)))
    );
    assert_eq!(
        decide(&two_phases(), &Observed { turn: busy(false), ..absent() }, at(1)),
        Step::Wait(Waiting::Queue(queue()), None)
    );
    let running =
        observed(AttemptState::Started { start: at(5), receipt: Receipt::Complete }, AttemptState::Absent);
    // 1 s of warm-up, 4 s of load, 15 s of watchdog, 30 s for the result.
    assert_eq!(
        decide(&two_phases(), &running, at(6)),
        Step::Wait(Waiting::Load(0), Some(at(5 + 1 + 4 + 15 + 30)))
    );
}

fn ending(step: Step) -> FailureStatus {
    match step {
        Step::Finish(Ending::Failed(failure)) => failure,
        other => panic!("the run did not fail: {other:?}"),
    }
}

#[test]
fn a_stored_failure_ends_the_run_with_the_pod_the_exit_code_and_the_last_lines() {
    let found = ending(decide(
        &two_phases(),
        &observed(AttemptState::Stored(Some(failure())), AttemptState::Absent),
        at(9),
    ));
    assert_eq!(found.phase.as_deref(), Some("write"));
    assert_eq!(found.pod.as_deref(), Some("sprint-write-1-0"));
    assert_eq!((found.step.as_str(), found.exit_code), ("ErrorReplies", Some(0)));
    assert_eq!(found.last_lines, ["last words"]);
    let unmeasured =
        "; not measured after that: read (set onFailure: Continue on phase write to measure them)";
    assert!(found.message.ends_with(unmeasured), "{}", found.message);
}

#[test]
fn a_server_that_is_not_what_was_declared_gets_no_load() {
    let disagrees = TargetState::Disagrees("threads: declared 2, the server runs 1".into());
    let found = ending(decide(
        &two_phases(),
        &Observed { target: disagrees, ..observed(AttemptState::Absent, AttemptState::Absent) },
        at(1),
    ));
    assert_eq!(found.step, "Verification");
    assert_eq!(found.message, "threads: declared 2, the server runs 1");
}

#[test]
fn a_run_that_waits_longer_than_its_timeout_fails_and_says_what_for() {
    let missing = TargetState::Missing("no Datastore named redis".into());
    let found = ending(decide(
        &two_phases(),
        &Observed { target: missing, ..observed(AttemptState::Absent, AttemptState::Absent) },
        at(1800),
    ));
    assert_eq!(found.message, "the run did not end within spec.timeout (30m): no Datastore named redis");
}

#[test]
fn time_in_the_queue_does_not_count() {
    let queued = Observed { turn: busy(false), ..observed(AttemptState::Absent, AttemptState::Absent) };
    assert_eq!(decide(&two_phases(), &queued, at(99_999)), Step::Wait(Waiting::Queue(queue()), None));
    let next = Observed { turn: Turn::Free, ..observed(AttemptState::Absent, AttemptState::Absent) };
    assert_eq!(decide(&two_phases(), &next, at(99_999)), Step::TakeTurn, "its turn came after a long wait");
}

#[test]
fn a_result_that_is_there_is_stored_even_after_the_timeout() {
    assert_eq!(
        decide(&two_phases(), &observed(AttemptState::Ended, AttemptState::Absent), at(99_999)),
        Step::Collect(0)
    );
}

#[test]
fn a_result_that_never_comes_is_stored_as_lost() {
    let started =
        observed(AttemptState::Started { start: at(5), receipt: Receipt::Complete }, AttemptState::Absent);
    assert_eq!(decide(&two_phases(), &started, at(5 + 1 + 4 + 15 + 30)), Step::Collect(0));
}

fn lost(job: bool, silent_from: Option<Timestamp>) -> AttemptState {
    let mut failure = failure();
    failure.failure.step = FailureStep::Lost;
    failure.failure.message = "the measurement is lost".into();
    AttemptState::Lost { failure, remains: Remains { job, silent_from } }
}

fn gone() -> AttemptState {
    lost(false, Some(Timestamp::MIN))
}

/// One repetition of write and read, which may be measured twice.
fn twice(attempts: [AttemptState; 4]) -> Step {
    let run = validate(&run(&["write", "read"], 1)).unwrap();
    decide(&run, &with(attempts.into()), at(10))
}

#[test]
fn a_lost_repetition_is_measured_again_when_nothing_of_it_can_load() {
    use AttemptState::{Absent, Ended};
    let wait = |until| Step::Wait(Waiting::Remains(1), Some(until));
    let table = [
        ("its Job goes first", lost(true, None), Absent, Step::RemoveLost(1)),
        ("a pod that may load is awaited", lost(false, None), Absent, wait(at(1800))),
        ("until its load is bounded", lost(false, Some(at(50))), Absent, wait(at(50))),
        ("then all phases follow again", lost(false, Some(at(10))), Absent, Step::CreateJob(2)),
        ("with nothing left at once", gone(), Absent, Step::CreateJob(2)),
        ("the second measurement ends like any other", gone(), Ended, Step::Collect(2)),
    ];
    for (sentence, read, again, expected) in table {
        assert_eq!(twice([done(), read, again, Absent]), expected, "{sentence}");
    }
    assert_eq!(twice([done(), gone(), done(), Absent]), Step::CreateJob(3));
    assert_eq!(twice([done(), gone(), done(), done()]), Step::Finish(Ending::Succeeded));
}

#[test]
fn a_second_loss_and_any_other_failure_end_the_run() {
    let second = ending(twice([done(), gone(), gone(), AttemptState::Absent]));
    assert_eq!((second.step.as_str(), second.phase.as_deref()), ("Lost", Some("write")));
    assert!(second.message.ends_with("the repetition was measured 2 times"), "{}", second.message);
    let other = AttemptState::Stored(Some(failure()));
    let found = ending(twice([done(), gone(), other, AttemptState::Absent]));
    assert_eq!(found.step, "ErrorReplies");
    let found = ending(twice([
        AttemptState::Stored(Some(failure())),
        AttemptState::Absent,
        AttemptState::Absent,
        AttemptState::Absent,
    ]));
    assert_eq!(found.step, "ErrorReplies", "it must not be measured again");
}

#[test]
fn a_target_that_cannot_serve_the_phases_fails_the_run_before_load() {
    let unsuitable = TargetState::Unsuitable("Datastore etcd cannot serve this run".into());
    let found = ending(decide(
        &two_phases(),
        &Observed { target: unsuitable, ..observed(AttemptState::Absent, AttemptState::Absent) },
        at(1),
    ));
    assert_eq!(found.step, "Unsuitable");
}

fn warm_up(run: &mut ValidatedRun, period: &str) {
    let declared = Arc::make_mut(&mut run.attempts[0].declared);
    declared.warmup = Some(serde_json::from_value(json!(period)).unwrap());
}

#[test]
fn the_watchdog_counts_the_warm_up() {
    let mut run = two_phases();
    assert!((watchdog_seconds(&run, &run.attempts[0]) - 20.0).abs() < 1e-9, "the default is 1 s");
    warm_up(&mut run, "0s");
    assert!((watchdog_seconds(&run, &run.attempts[0]) - 19.0).abs() < 1e-9);
    warm_up(&mut run, "2s");
    assert!((watchdog_seconds(&run, &run.attempts[0]) - 21.0).abs() < 1e-9);
    let published = json!({"bullmq": {"duration": "4s", "mode": "Published", "writers": 1, "readers": 1}});
    run.attempts[0].tool = Arc::new(serde_json::from_value(published).unwrap());
    let once = watchdog_seconds(&run, &run.attempts[0]);
    warm_up(&mut run, "3s");
    let longer = watchdog_seconds(&run, &run.attempts[0]) - once;
    assert!((longer - 2.0).abs() < 1e-9, "the readers of a published phase warm up too: {longer}");
}

#[test]
fn cancel_beats_everything_but_what_has_ended_is_stored_first() {
    let mut cancelled = two_phases();
    cancelled.spec.cancel = true;
    for state in [AttemptState::Absent, AttemptState::AtStartLine { unreachable_since: None }] {
        let damaged = Observed { damaged: vec!["ConfigMap x is damaged".into()], ..observed(done(), state) };
        let step = decide(&cancelled, &damaged, at(1));
        assert_eq!(step, Step::Finish(Ending::Cancelled), "cancel was ignored");
    }
    assert_eq!(decide(&cancelled, &observed(done(), AttemptState::Ended), at(1)), Step::Collect(1));
}

#[test]
fn clients_that_cannot_start_give_the_turn_back_after_a_minute() {
    let held_up = |now| {
        let state = starting_since(0, Some(missing_secret()));
        decide(&two_phases(), &observed(state, AttemptState::Absent), at(now))
    };
    let waiting = Waiting::Clients { attempt: 0, trouble: Some(missing_secret()) };
    assert_eq!(held_up(59), Step::Wait(waiting, Some(at(60))));
    assert_eq!(held_up(60), Step::StandBack { attempt: Some(0), trouble: missing_secret() });
}

#[test]
fn a_later_try_is_shorter() {
    let setback = SetbackStatus { reason: "x".into(), message: "y".into(), count: 1, retry_at: Time(at(-1)) };
    let again = |now| {
        let state = starting_since(0, Some(missing_secret()));
        let observed = Observed { setback: Some(setback.clone()), ..observed(state, AttemptState::Absent) };
        decide(&two_phases(), &observed, at(now))
    };
    assert!(matches!(again(19), Step::Wait(Waiting::Clients { .. }, Some(_))));
    assert!(matches!(again(20), Step::StandBack { .. }), "others wait for as long as it tries");
}

#[test]
fn a_node_that_may_be_made_and_an_image_that_may_be_large_get_more_time() {
    let unschedulable = Trouble { reason: "Unschedulable".into(), message: "0/4 nodes".into() };
    for trouble in [Some(unschedulable), None] {
        let at_second = |now| {
            let state = starting_since(0, trouble.clone());
            decide(&two_phases(), &observed(state, AttemptState::Absent), at(now))
        };
        assert!(matches!(at_second(299), Step::Wait(..)), "{trouble:?}");
        assert!(matches!(at_second(300), Step::StandBack { .. }), "{trouble:?}");
    }
}

#[test]
fn a_node_that_pods_of_the_phase_before_are_leaving_is_not_a_trouble_yet() {
    let unschedulable = Trouble { reason: "Unschedulable".into(), message: "0/4 nodes".into() };
    let at_second = |now| {
        let state = starting_since(0, Some(unschedulable.clone()));
        match decide(&two_phases(), &observed(done(), state), at(now)) {
            Step::Wait(Waiting::Clients { trouble, .. }, until) => (trouble.is_some(), until),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(at_second(1), (false, Some(at(4))));
    assert_eq!(at_second(4), (true, Some(at(300))));
}

#[test]
fn keys_and_warm_ups_take_as_long_as_they_take_and_the_status_shows_how_far_they_are() {
    use dragstrip_results::protocol::{RunnerStage, RunnerState};
    let runner = |stage, ratio| RunnerState { stage, prepared_ratio: ratio, ..RunnerState::default() };
    let preparation = Preparation::of(
        [
            runner(RunnerStage::AtStartLine, None),
            runner(RunnerStage::Loading, Some(0.437)),
            runner(RunnerStage::Loading, Some(0.9)),
        ]
        .iter(),
    );
    assert_eq!(preparation, Preparation { stage: Some(RunnerStage::Loading), percent: Some(43) });
    let run = two_phases();
    for first in [true, false] {
        let (index, state) = (usize::from(!first), AttemptState::Preparing(preparation));
        let found = if first { observed(state, AttemptState::Absent) } else { observed(done(), state) };
        let waiting = Waiting::Preparation(index, preparation);
        assert_eq!(
            decide(&run, &found, at(301)),
            Step::Wait(waiting, Some(at(311))),
            "it was deleted at 300 s"
        );
        let found = ending(decide(&run, &found, at(1800)));
        assert_eq!(found.step, "Timeout", "nothing else bounds it");
    }
    let step = Step::Wait(Waiting::Preparation(0, preparation), None);
    let status = crate::run::status::of_step(
        &run,
        &dragstrip_crds::BenchmarkRunStatus::default(),
        &crate::run::snapshot::Snapshot::default(),
        None,
        &step,
        at(0),
    );
    let message = status.message.unwrap_or_default();
    assert!(message.contains("write and count the keys of load: 43 % done"), "{message}");
}

#[test]
fn a_turn_is_not_given_back_between_the_phases_of_a_repetition() {
    let state = starting_since(0, Some(missing_secret()));
    let found = ending(decide(&two_phases(), &observed(done(), state), at(60)));
    assert_eq!(found.step, "Clients");
    assert!(found.message.contains("secret pit-tls not found"), "{}", found.message);
}

#[test]
fn what_is_refused_between_the_phases_of_a_repetition_ends_the_run_and_keeps_its_turn_until_then() {
    let refused = || Trouble { reason: "Refused".into(), message: "exceeded quota: one-job".into() };
    let run = validate(&run(&["write", "read"], 2)).unwrap();
    let stored =
        |names: &[&str]| names.iter().map(|name| ((*name).to_owned(), StoredResult::default())).collect();
    for (sentence, stored) in
        [("at first", stored(&[])), ("before a repetition", stored(&["sprint-write-1", "sprint-read-1"]))]
    {
        let step = hindered(&run, &stored, refused());
        assert!(matches!(step, Step::StandBack { .. }), "{sentence} nothing is lost: {step:?}");
    }
    let found = ending(hindered(&run, &stored(&["sprint-write-1"]), refused()));
    assert_eq!(
        (found.step.as_str(), found.phase.as_deref()),
        ("Clients", Some("read")),
        "others would flush"
    );
    assert!(found.message.contains("exceeded quota: one-job"), "{}", found.message);
}

#[test]
fn a_run_whose_runners_are_unreachable_releases_its_turn() {
    let at_line = |unreachable_since, now| {
        let state = AttemptState::AtStartLine { unreachable_since };
        decide(&two_phases(), &observed(state, AttemptState::Absent), at(now))
    };
    let Step::StandBack { trouble, .. } = at_line(Some(at(0)), 60) else {
        panic!("the turn was not released");
    };
    assert!(trouble.message.contains("NetworkPolicy"), "{}", trouble.message);
    assert_eq!(at_line(Some(at(0)), 59), Step::SendStart(0));
    assert_eq!(at_line(None, 1000), Step::SendStart(0), "only the operator was away, and no runner");
}

#[test]
fn after_a_setback_the_run_waits_before_it_asks_for_its_turn_again() {
    let setback = SetbackStatus {
        reason: "FailedMount".into(),
        message: "secret pit-tls not found".into(),
        count: 1,
        retry_at: Time(at(10)),
    };
    let set_back = Observed {
        setback: Some(setback.clone()),
        turn: Turn::Free,
        ..observed(AttemptState::Absent, AttemptState::Absent)
    };
    assert_eq!(decide(&two_phases(), &set_back, at(9)), Step::Wait(Waiting::Setback(setback), Some(at(10))));
    assert_eq!(decide(&two_phases(), &set_back, at(10)), Step::TakeTurn);
}

#[test]
fn a_queued_run_holds_nothing_that_others_could_use() {
    let absent = |turn| Observed { turn, ..observed(AttemptState::Absent, AttemptState::Absent) };
    assert_eq!(decide(&two_phases(), &absent(busy(true)), at(1)), Step::ReturnTurn);
    assert_eq!(decide(&two_phases(), &absent(Turn::Returning), at(1)), Step::Wait(Waiting::Return, None));
    let begun = Observed { turn: busy(true), ..observed(done(), AttemptState::Absent) };
    assert_eq!(
        decide(&two_phases(), &begun, at(1)),
        Step::Wait(Waiting::Queue(queue()), None),
        "what a run that has begun holds keeps others off its data"
    );
    let again = vec![done(), gone(), AttemptState::Absent, AttemptState::Absent];
    let again = Observed { turn: busy(true), ..with(again) };
    let run = validate(&run(&["write", "read"], 1)).unwrap();
    assert_eq!(decide(&run, &again, at(1)), Step::ReturnTurn, "two runs would wait for each other for ever");
}

#[test]
fn a_target_that_became_unready_gets_its_turn_back() {
    let changes = TargetState::NotReady { own: false, reason: "ChangeWaits".into(), message: "waits".into() };
    let waiting = |holds| Observed {
        target: changes.clone(),
        turn: Turn::Free,
        holds,
        ..observed(AttemptState::Absent, AttemptState::Absent)
    };
    assert_eq!(
        decide(&two_phases(), &waiting(true), at(1)),
        Step::ReturnTurn,
        "each would wait for the other"
    );
    assert!(matches!(
        decide(&two_phases(), &waiting(false), at(1)),
        Step::Wait(Waiting::TargetNotReady { .. }, _)
    ));
}

#[test]
fn another_server_than_the_first_ends_the_run() {
    let changed = |first, second| Observed {
        server_changed: Some("pods: at first redis-0 a, now redis-0 b".into()),
        ..observed(first, second)
    };
    for step in [
        decide(&two_phases(), &changed(done(), AttemptState::Absent), at(1)),
        decide(&two_phases(), &changed(done(), done()), at(1)),
    ] {
        let found = ending(step);
        assert_eq!(found.step, "ServerChanged");
        assert!(found.message.contains("at first redis-0 a, now redis-0 b"), "{}", found.message);
    }
}

#[test]
fn the_message_names_a_datastore_that_was_deleted_in_mid_run() {
    let gone = Some("Datastore redis was deleted while the run was under way".to_owned());
    let missing = Observed {
        target: TargetState::Missing("there is no Datastore named redis".into()),
        target_gone: gone.clone(),
        ..observed(done(), AttemptState::Absent)
    };
    assert_eq!(ending(decide(&two_phases(), &missing, at(1))).step, "TargetDeleted");
    let failed = AttemptState::Stored(Some(failure()));
    let broken = Observed { target_gone: gone, ..observed(failed, AttemptState::Absent) };
    let found = ending(decide(&two_phases(), &broken, at(1)));
    assert!(found.message.starts_with("Datastore redis was deleted"), "{}", found.message);
    let own = Observed { target: TargetState::ToBeMade, ..observed(done(), AttemptState::Absent) };
    assert_eq!(ending(decide(&two_phases(), &own, at(1))).step, "TargetDeleted", "it must not be made anew");
}

#[test]
fn a_condition_that_must_hold_and_does_not_ends_the_run_before_its_load() {
    let misplaced = |first| Observed {
        misplaced: Some("SameZone: client-1 in z2".into()),
        ..observed(first, AttemptState::Absent)
    };
    for before in [
        AttemptState::Absent,
        starting_since(0, None),
        AttemptState::Preparing(Preparation::default()),
        AttemptState::AtStartLine { unreachable_since: None },
    ] {
        let found = ending(decide(&two_phases(), &misplaced(before.clone()), at(1)));
        assert_eq!((found.step.as_str(), found.phase.as_deref()), ("Placement", Some("write")), "{before:?}");
        assert!(found.message.contains("client-1 in z2"), "{}", found.message);
    }
    let loads = AttemptState::Started { start: at(0), receipt: Receipt::Complete };
    let step = decide(&two_phases(), &misplaced(loads), at(1));
    assert!(matches!(step, Step::Wait(Waiting::Load(_), _)), "what loads already is measured: {step:?}");
    let queued = Observed { turn: busy(false), ..misplaced(AttemptState::Absent) };
    let step = decide(&two_phases(), &queued, at(1));
    assert!(matches!(step, Step::Wait(Waiting::Queue(_), _)), "{step:?}");
}

#[test]
fn a_damaged_result_ends_the_run_with_its_name() {
    let damaged = Observed {
        damaged: vec!["the result in ConfigMap sprint-write-1 is damaged".into()],
        ..observed(AttemptState::Absent, AttemptState::Absent)
    };
    let found = ending(decide(&two_phases(), &damaged, at(1)));
    assert_eq!(found.step, "StoredResult");
    assert!(found.message.contains("sprint-write-1"), "{}", found.message);
}

#[test]
fn a_result_that_cannot_be_stored_ends_the_run_after_a_while_and_a_cancelled_run_at_once() {
    let mut run = two_phases();
    let why = "configmaps \"sprint-read-1\" is forbidden: exceeded quota: small";
    let Step::Wait(Waiting::Log { attempt: 1, why: reported }, Some(until)) =
        not_stored(&run, 1, why, Some(at(60)), at(1800), at(30))
    else {
        panic!("it was not tried again");
    };
    assert_eq!((reported.as_str(), until), (why, at(60)));
    let ends = |run: &ValidatedRun, until, now| ending(not_stored(run, 1, why, until, at(1800), at(now)));
    for found in [ends(&run, None, 330), ends(&run, Some(at(1860)), 1800)] {
        assert_eq!((found.step.as_str(), found.phase.as_deref()), ("StoredResult", Some("read")));
        assert!(found.message.contains("exceeded quota: small"), "{}", found.message);
    }
    run.spec.cancel = true;
    assert_eq!(ends(&run, Some(at(60)), 30).step, "StoredResult", "the run would not stop");
}

#[test]
fn measurements_of_two_specs_are_never_one_result() {
    let changed = Observed {
        spec_changed: Some("sprint-write-1".into()),
        ..observed(done(), AttemptState::Started { start: at(0), receipt: Receipt::Complete })
    };
    let found = ending(decide(&two_phases(), &changed, at(1)));
    assert_eq!(found.step, "SpecChanged");
    assert!(found.message.starts_with("sprint-write-1 was measured with another spec"), "{}", found.message);
}

#[test]
fn a_failure_that_was_recorded_ends_the_run_whatever_is_found_afterwards() {
    let changed = Observed {
        server_changed: Some("pods: at first redis-0 a, now redis-0 b".into()),
        ..observed(done(), AttemptState::Absent)
    };
    let first = ending(decide(&two_phases(), &changed, at(1)));
    // Its own Datastore was removed, and its status could not be written.
    let cleared = Observed {
        target: TargetState::ToBeMade,
        ended: Some(first.clone()),
        ..observed(done(), AttemptState::Absent)
    };
    assert_eq!(ending(decide(&two_phases(), &cleared, at(2))), first, "TargetDeleted is not why it failed");
}

#[test]
fn pods_that_missed_the_start_command_lose_the_repetition_and_do_not_fail_the_run() {
    let partly_received =
        observed(AttemptState::Started { start: at(0), receipt: Receipt::Partial }, AttemptState::Absent);
    assert_eq!(decide(&two_phases(), &partly_received, at(1)), Step::SendStart(0));
    assert_eq!(decide(&two_phases(), &partly_received, at(2)), Step::Collect(0), "others load already");
}

#[test]
fn a_start_line_that_no_pod_received_costs_no_repetition() {
    let missed =
        observed(AttemptState::Started { start: at(0), receipt: Receipt::Missing }, AttemptState::Absent);
    // The operator may have died after it wrote the line, and came back after the load would have ended.
    for now in [0, 1, 2, 3, 1000] {
        assert_eq!(decide(&two_phases(), &missed, at(now)), Step::SendStart(0), "{now} s after the line");
    }
}

#[test]
fn a_runner_that_did_not_respond_is_queried_again_until_its_result_counts_as_lost() {
    let silent =
        observed(AttemptState::Started { start: at(0), receipt: Receipt::Unknown }, AttemptState::Absent);
    let step = |now| decide(&two_phases(), &silent, at(now));
    assert_eq!(step(1), Step::SendStart(0), "it can still load together with the others");
    assert_eq!(step(2), Step::Wait(Waiting::Load(0), Some(at(7))), "it may load already");
    assert_eq!(step(49), Step::Wait(Waiting::Load(0), Some(at(50))));
    assert_eq!(step(50), Step::Collect(0));
}

#[test]
fn a_job_of_an_edited_spec_is_made_anew() {
    let outdated = observed(AttemptState::Outdated, AttemptState::Absent);
    assert_eq!(decide(&two_phases(), &outdated, at(1)), Step::RemoveOutdated(0));
    let leaving = observed(AttemptState::Leaving, AttemptState::Absent);
    assert!(matches!(decide(&two_phases(), &leaving, at(1)), Step::Wait(Waiting::Leaving(_), _)));
    let left = |silent_from, now| {
        decide(&two_phases(), &observed(AttemptState::Left { silent_from }, AttemptState::Absent), at(now))
    };
    let awaits = |until| Step::Wait(Waiting::Leaving(0), Some(at(until)));
    assert_eq!(left(None, 1), awaits(1800), "the former pods may still write");
    assert_eq!(left(Some(at(75)), 74), awaits(75));
    assert_eq!(left(Some(at(75)), 75), Step::CreateJob(0));
}

#[test]
fn a_server_that_does_not_answer_gives_the_turn_back() {
    let silent =
        TargetState::NotReady { own: false, reason: "ObserverSilent".into(), message: "no answer".into() };
    let held = Observed { target: silent, ..observed(AttemptState::Absent, AttemptState::Absent) };
    assert!(matches!(decide(&two_phases(), &held, at(1)), Step::StandBack { attempt: None, .. }));
}

/// One repetition of write and a search of three values at most, with these states of
/// write and the search's points, the others absent, when `stored` is stored.
fn in_search(states: &[AttemptState], stored: &BTreeMap<String, StoredResult>, cancel: bool) -> Step {
    let search = serde_json::json!({"raise": "Connections", "to": 4, "until": {"p99": "1ms"}});
    let mut run = searching(search, 1);
    run.spec.max_retries = 0;
    run.spec.cancel = cancel;
    let mut run = validate(&run).unwrap();
    settle(&mut run, stored, &BTreeMap::new());
    let mut attempts = vec![AttemptState::Absent; run.attempts.len()];
    attempts[..states.len()].clone_from_slice(states);
    decide(&run, &with(attempts), at(400))
}

/// What is stored of the first points: their values, and their p99 in milliseconds.
fn stored_points(points: &[(u64, f64)]) -> BTreeMap<String, StoredResult> {
    let point = |(index, (value, p99)): (usize, &(u64, f64))| {
        let point = SearchPoint {
            value: *value,
            share: None,
            operations_per_second: 1.0,
            p99_milliseconds: Some(*p99),
            server_cpus: None,
            followed: true,
        };
        (
            format!("sprint-knee-1p{}", index + 1),
            StoredResult { point: Some(point), ..StoredResult::default() },
        )
    };
    let write = ("sprint-write-1".to_owned(), StoredResult::default());
    points.iter().enumerate().map(point).chain([write]).collect()
}

#[test]
fn a_search_takes_one_step_after_the_other_and_ends_where_its_figures_end_it() {
    use AttemptState::{Absent, Ended};
    let table = [
        ("the first value", vec![done()], vec![], Step::CreateJob(1)),
        ("is collected", vec![done(), Ended], vec![], Step::Collect(1)),
        ("a good one is doubled", vec![done(); 2], vec![(1, 0.5)], Step::CreateJob(2)),
        ("a bad one is measured again", vec![done(); 3], vec![(1, 0.5), (2, 2.0)], Step::CreateJob(3)),
        (
            "so is the good one beside it",
            vec![done(); 4],
            vec![(1, 0.5), (2, 2.0), (2, 2.0)],
            Step::CreateJob(4),
        ),
        (
            "that ends the search",
            vec![done(); 5],
            vec![(1, 0.5), (2, 2.0), (2, 2.0), (1, 0.5)],
            Step::Finish(Ending::Succeeded),
        ),
        (
            "to is measured",
            vec![done(), done(), done(), Absent],
            vec![(1, 0.5), (2, 0.6)],
            Step::CreateJob(3),
        ),
        ("and again", vec![done(); 4], vec![(1, 0.5), (2, 0.6), (4, 0.7)], Step::CreateJob(4)),
        (
            "to ends the search",
            vec![done(); 5],
            vec![(1, 0.5), (2, 0.6), (4, 0.7), (4, 0.7)],
            Step::Finish(Ending::Succeeded),
        ),
    ];
    for (sentence, states, p99, expected) in table {
        assert_eq!(in_search(&states, &stored_points(&p99), false), expected, "{sentence}");
    }
}

#[test]
fn a_search_that_is_cancelled_keeps_what_it_has() {
    let stored = stored_points(&[(1, 0.5)]);
    let cancelled = in_search(&[done(), done()], &stored, true);
    assert_eq!(cancelled, Step::Finish(Ending::Cancelled));
    let ended = in_search(&[done(), done(), AttemptState::Ended], &stored, true);
    assert_eq!(ended, Step::Collect(2), "what was measured stays");
}

#[test]
fn clients_that_cannot_start_within_a_search_end_it_since_others_would_change_the_data() {
    let stuck = starting_since(0, None);
    let found = ending(in_search(&[done(), done(), stuck], &stored_points(&[(1, 0.5)]), false));
    assert!(found.message.contains("earlier phases or points of the repetition"), "{}", found.message);
}
