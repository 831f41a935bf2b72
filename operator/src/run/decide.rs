//! The heart of a run: from what is declared and what exists to the one next
//! step. Pure: the same input always gives the same step, and nothing that was
//! once written into the status is read back.

use super::{
    plan::{Outcome, Place, place},
    validate::{Attempt, ValidatedRun},
};
use crate::cluster::pods::Trouble;
use dragstrip_crds::{
    datastore::{SecretKeyReference, ServerProtocol},
    observed::ServerTruth,
    run::{FailureStatus, QueueStatus},
};
use dragstrip_results::{
    protocol::{JobMember, JobTls},
    result::PodFailure,
};
use jiff::{SignedDuration, Timestamp};

/// Time a runner has after its watchdog to write its result before it counts as lost.
pub const RESULT_GRACE: SignedDuration = SignedDuration::from_secs(30);

/// How clients encrypt their connections, and the Secrets they need for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetTls {
    /// What the runner is told.
    pub job: JobTls,
    /// Secret with ca.crt.
    pub authority_secret: Option<String>,
    /// Secret with the clients' tls.crt and tls.key.
    pub client_secret: Option<String>,
}

/// A target that clients can be sent to.
#[derive(Debug, Clone, PartialEq)]
pub struct ReadyTarget {
    /// The Datastore's name, or the external address.
    pub name: String,
    /// Host name or IP address.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// Whether it must be in cluster mode.
    pub cluster: bool,
    /// What it speaks.
    pub protocol: ServerProtocol,
    /// ACL user.
    pub username: Option<String>,
    /// Its password.
    pub auth: Option<SecretKeyReference>,
    /// Encrypted connections.
    pub tls: Option<TargetTls>,
    /// What the server says of itself; absent for external targets, whose runner
    /// asks, and for those that cannot be asked.
    pub truth: Option<ServerTruth>,
    /// Every server, where there are several.
    pub members: Vec<JobMember>,
    /// Nodes it runs on, in a fixed order; empty where they are not known.
    pub nodes: Vec<String>,
    /// Whether it is a Datastore, whose node clients must keep off.
    pub datastore: bool,
}

/// The target as it was found.
#[derive(Debug, Clone, PartialEq)]
pub enum TargetState {
    /// It was not looked at: an attempt is under way.
    NotConsulted,
    /// The Datastore named does not exist.
    Missing(String),
    /// The run's own Datastore is still to be made.
    ToBeMade,
    /// A Datastore that the run would have to make exists and belongs to somebody else.
    NameTaken(String),
    /// It exists and is not ready.
    NotReady {
        /// Whether it is the run's own.
        own: bool,
        /// Its condition's reason.
        reason: String,
        /// What is wrong.
        message: String,
    },
    /// The running server is not what was declared.
    Disagrees(String),
    /// It cannot serve what the phases ask of it.
    Unsuitable(String),
    /// Clients may come.
    Ready(Box<ReadyTarget>),
}

/// Whose turn it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Turn {
    /// This run's.
    Held,
    /// Nobody's.
    Free,
    /// Another run's.
    Busy(QueueStatus),
}

/// What is still there of a lost attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Remains {
    /// Whether its Job is there and is not being deleted.
    pub job: bool,
    /// From when on none of its pods sends load any more; `None` when only an event can tell.
    pub silent_from: Option<Timestamp>,
}

/// One attempt as it was found.
#[derive(Debug, Clone, PartialEq)]
pub enum AttemptState {
    /// Nothing exists for it.
    Absent,
    /// Its Job exists; not all pods are at the start line.
    Starting(Option<Trouble>),
    /// All pods wait at the start line.
    AtStartLine,
    /// The start line is fixed.
    Ordered {
        /// When it is or was.
        start: Timestamp,
        /// Whether a pod still has to be told.
        untold: bool,
    },
    /// The Job, or every pod of it, has ended; its result is not stored.
    Ended,
    /// The result is stored; with what went wrong, if anything did.
    Stored(Option<PodFailure>),
    /// It is stored that a client was lost.
    Lost {
        /// What happened.
        failure: PodFailure,
        /// What must be gone before the repetition is measured again.
        remains: Remains,
    },
}

/// All that a decision rests on.
#[derive(Debug, Clone, PartialEq)]
pub struct Observed {
    /// The target.
    pub target: TargetState,
    /// The turn; looked at only for a target that is ready.
    pub turn: Turn,
    /// Since when the clock of `timeout` runs: the first Job's creation, else
    /// the turn's, else the run's own.
    pub since: Timestamp,
    /// In the order of [`ValidatedRun::attempts`].
    pub attempts: Vec<AttemptState>,
}

/// What a run waits for.
#[derive(Debug, Clone, PartialEq)]
pub enum Waiting {
    /// Its target to exist.
    TargetMissing(String),
    /// Its target to become ready.
    TargetNotReady {
        /// Whether it is the run's own.
        own: bool,
        /// The Datastore's reason.
        reason: String,
        /// What is wrong.
        message: String,
    },
    /// Other runs.
    Queue(QueueStatus),
    /// Client pods.
    Clients {
        /// Index of the attempt.
        attempt: usize,
        /// What holds them up.
        trouble: Option<Trouble>,
    },
    /// The load to end.
    Load {
        /// Index of the attempt.
        attempt: usize,
    },
    /// The pods of a lost attempt to be gone, before its repetition is measured again.
    Remains {
        /// Index of the lost attempt.
        attempt: usize,
    },
}

/// How a run ends.
#[derive(Debug, Clone, PartialEq)]
pub enum Ending {
    /// Everything was measured.
    Succeeded,
    /// There is no usable result.
    Failed(FailureStatus),
    /// It was told to stop.
    Cancelled,
}

/// The next step.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Nothing to do until something changes, or until this instant.
    Wait(Waiting, Option<Timestamp>),
    /// Make the run's own Datastore.
    MakeDatastore,
    /// Take the turn.
    TakeTurn,
    /// Create the Job of the attempt with this index.
    CreateJob(usize),
    /// Fix the start line of this attempt and tell its pods.
    GiveOrder(usize),
    /// Store the result of this attempt.
    Collect(usize),
    /// Delete the Job of the lost attempt with this index.
    RemoveLost(usize),
    /// End the run.
    Finish(Ending),
}

fn failed(attempt: Option<&Attempt>, step: &str, message: String) -> Step {
    Step::Finish(Ending::Failed(FailureStatus {
        phase: attempt.map(|a| a.phase.clone()),
        repetition: attempt.map(|a| a.repetition),
        pod: None,
        step: step.to_owned(),
        message,
        exit_code: None,
        last_lines: Vec::new(),
    }))
}

fn failed_in_pod(attempt: &Attempt, failure: &PodFailure) -> Step {
    Step::Finish(Ending::Failed(FailureStatus {
        phase: Some(attempt.phase.clone()),
        repetition: Some(attempt.repetition),
        pod: Some(failure.pod.clone()),
        step: format!("{:?}", failure.failure.step),
        message: failure.failure.message.clone(),
        exit_code: failure.failure.exit_code,
        last_lines: failure.failure.last_lines.clone(),
    }))
}

/// What a run was waiting for, for the message of its timeout.
fn describe(step: &Step) -> String {
    match step {
        Step::Wait(Waiting::TargetMissing(message) | Waiting::TargetNotReady { message, .. }, _) => {
            message.clone()
        }
        Step::Wait(Waiting::Clients { trouble: Some(trouble), .. }, _) => trouble.message.clone(),
        Step::Wait(Waiting::Clients { trouble: None, .. }, _) => "its client pods did not come up".to_owned(),
        Step::Wait(Waiting::Load { .. }, _) => "its load had not ended".to_owned(),
        Step::Wait(Waiting::Remains { .. }, _) | Step::RemoveLost(_) => {
            "client pods of a lost repetition were not gone".to_owned()
        }
        _ => "it was not done".to_owned(),
    }
}

/// Seconds after the start line at which the runner kills the tool.
pub fn watchdog_seconds(run: &ValidatedRun, attempt: &Attempt) -> f64 {
    attempt.tool.planned_seconds().map_or_else(
        || run.spec.timeout.seconds(),
        |planned| attempt.warmup_seconds.unwrap_or(0.0) + planned + attempt.tool.wind_down_seconds(),
    )
}

/// When the result of an attempt that started at `start` counts as lost.
fn lost_at(run: &ValidatedRun, attempt: &Attempt, start: Timestamp) -> Timestamp {
    let watchdog =
        SignedDuration::try_from_secs_f64(watchdog_seconds(run, attempt)).unwrap_or(SignedDuration::MAX);
    start.saturating_add(watchdog).and_then(|at| at.saturating_add(RESULT_GRACE)).unwrap_or(Timestamp::MAX)
}

fn outcome(state: &AttemptState) -> Outcome {
    match state {
        AttemptState::Stored(failure) => Outcome::of_failure(failure.as_ref()),
        AttemptState::Lost { .. } => Outcome::Lost,
        _ => Outcome::Open,
    }
}

/// The failure that ends the run. A lost repetition is told with how often it was measured.
fn failed_for_good(attempt: &Attempt, state: &AttemptState) -> Step {
    match state {
        AttemptState::Stored(Some(failure)) => failed_in_pod(attempt, failure),
        AttemptState::Lost { failure, .. } => {
            let mut failure = failure.clone();
            if attempt.measurement > 1 {
                let times = format!("; the repetition was measured {} times", attempt.measurement);
                failure.failure.message.push_str(&times);
            }
            failed_in_pod(attempt, &failure)
        }
        // No other state is a failure.
        _ => failed(Some(attempt), "Internal", "a failure without a reason".to_owned()),
    }
}

/// The next step of `run` at `now`.
pub fn decide(run: &ValidatedRun, observed: &Observed, now: Timestamp) -> Step {
    // Told to stop: what was measured stays.
    if run.spec.cancel {
        return Step::Finish(Ending::Cancelled);
    }
    let current = match place(run, |index| outcome(&observed.attempts[index])) {
        // A failed repetition ends the run: only lost clients are measured again.
        Place::Failed(index) => return failed_for_good(&run.attempts[index], &observed.attempts[index]),
        Place::Done => return Step::Finish(Ending::Succeeded),
        Place::At(current) => current,
    };
    let deadline = observed.since.saturating_add(run.spec.timeout.signed()).unwrap_or(Timestamp::MAX);
    let step = match &observed.attempts[current] {
        // A result that exists is stored, however late it is.
        AttemptState::Ended => return Step::Collect(current),
        // None is coming: what there is, is stored as lost.
        AttemptState::Ordered { start, .. } if now >= lost_at(run, &run.attempts[current], *start) => {
            return Step::Collect(current);
        }
        AttemptState::Ordered { untold: true, .. } | AttemptState::AtStartLine => Step::GiveOrder(current),
        AttemptState::Ordered { start, untold: false } => {
            let until = lost_at(run, &run.attempts[current], *start).min(deadline);
            Step::Wait(Waiting::Load { attempt: current }, Some(until))
        }
        AttemptState::Starting(trouble) => {
            Step::Wait(Waiting::Clients { attempt: current, trouble: trouble.clone() }, Some(deadline))
        }
        AttemptState::Absent | AttemptState::Stored(_) | AttemptState::Lost { .. } => {
            before_again(observed, now, deadline)
                .unwrap_or_else(|| before_job(run, observed, current, deadline))
        }
    };
    // Waiting for other runs costs nobody anything and does not count, however
    // long it took; every other wait is bounded.
    let queued = matches!(step, Step::Wait(Waiting::Queue(_), _) | Step::TakeTurn);
    if now >= deadline && !queued {
        let message =
            format!("the run did not end within spec.timeout ({}): {}", run.spec.timeout, describe(&step));
        return failed(Some(&run.attempts[current]), "Timeout", message);
    }
    step
}

/// What must be done before another Job is made: the load of a lost attempt and
/// that of the next must never overlap.
fn before_again(observed: &Observed, now: Timestamp, deadline: Timestamp) -> Option<Step> {
    let lost = |(index, state): (usize, &AttemptState)| match state {
        AttemptState::Lost { remains, .. } => Some((index, *remains)),
        _ => None,
    };
    observed.attempts.iter().enumerate().filter_map(lost).find_map(|(attempt, remains)| {
        if remains.job {
            return Some(Step::RemoveLost(attempt));
        }
        let waits = remains.silent_from.is_none_or(|silent_from| now < silent_from);
        let until = remains.silent_from.map_or(deadline, |silent_from| silent_from.min(deadline));
        waits.then_some(Step::Wait(Waiting::Remains { attempt }, Some(until)))
    })
}

/// The step before a Job may be created: target first, then the turn.
fn before_job(run: &ValidatedRun, observed: &Observed, current: usize, deadline: Timestamp) -> Step {
    match (&observed.target, &observed.turn) {
        (TargetState::Missing(message), _) => {
            Step::Wait(Waiting::TargetMissing(message.clone()), Some(deadline))
        }
        (TargetState::NotReady { own, reason, message }, _) => Step::Wait(
            Waiting::TargetNotReady { own: *own, reason: reason.clone(), message: message.clone() },
            Some(deadline),
        ),
        (TargetState::ToBeMade, _) => Step::MakeDatastore,
        (TargetState::NameTaken(message), _) => {
            failed(Some(&run.attempts[current]), "Provisioning", message.clone())
        }
        // Declared is not what runs: no load is sent.
        (TargetState::Disagrees(message), _) => {
            failed(Some(&run.attempts[current]), "Verification", message.clone())
        }
        (TargetState::Unsuitable(message), _) => {
            failed(Some(&run.attempts[current]), "Unsuitable", message.clone())
        }
        (TargetState::NotConsulted | TargetState::Ready(_), Turn::Busy(queue)) => {
            Step::Wait(Waiting::Queue(queue.clone()), None)
        }
        (TargetState::NotConsulted | TargetState::Ready(_), Turn::Free) => Step::TakeTurn,
        (TargetState::NotConsulted | TargetState::Ready(_), Turn::Held) => Step::CreateJob(current),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::{
        fixtures::{run, target},
        validate::validate,
    };
    use dragstrip_results::result::{Failure, FailureStep};

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

    fn observed(first: AttemptState, second: AttemptState) -> Observed {
        Observed { target: ready(), turn: Turn::Held, since: at(0), attempts: vec![first, second] }
    }

    fn queue() -> QueueStatus {
        QueueStatus { position: 1, lease: "races/dragstrip-redis".into(), held_by: "races/first".into() }
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
    fn a_run_that_goes_well_takes_these_steps_in_order() {
        use AttemptState::{Absent, AtStartLine, Ended, Ordered, Starting};
        let table: Vec<(&str, Observed, Step)> = vec![
            (
                "its own datastore is made first",
                Observed { target: TargetState::ToBeMade, turn: Turn::Free, ..observed(Absent, Absent) },
                Step::MakeDatastore,
            ),
            (
                "a free turn is taken",
                Observed { turn: Turn::Free, ..observed(Absent, Absent) },
                Step::TakeTurn,
            ),
            ("the first job is created with the turn held", observed(Absent, Absent), Step::CreateJob(0)),
            ("pods at the line get the order", observed(AtStartLine, Absent), Step::GiveOrder(0)),
            (
                "a pod that was not told is told again",
                observed(Ordered { start: at(1), untold: true }, Absent),
                Step::GiveOrder(0),
            ),
            ("an ended job is collected", observed(Ended, Absent), Step::Collect(0)),
            ("the second phase follows the first", observed(done(), Absent), Step::CreateJob(1)),
            (
                "its pods start",
                observed(done(), Starting(None)),
                Step::Wait(Waiting::Clients { attempt: 1, trouble: None }, Some(at(1800))),
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
            decide(&two_phases(), &Observed { turn: Turn::Busy(queue()), ..absent() }, at(1)),
            Step::Wait(Waiting::Queue(queue()), None)
        );
        let running = observed(AttemptState::Ordered { start: at(5), untold: false }, AttemptState::Absent);
        // 4 s of load, 15 s of watchdog, 30 s for the result.
        assert_eq!(
            decide(&two_phases(), &running, at(6)),
            Step::Wait(Waiting::Load { attempt: 0 }, Some(at(5 + 4 + 15 + 30)))
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
        let queued =
            Observed { turn: Turn::Busy(queue()), ..observed(AttemptState::Absent, AttemptState::Absent) };
        assert_eq!(decide(&two_phases(), &queued, at(99_999)), Step::Wait(Waiting::Queue(queue()), None));
        let next = Observed { turn: Turn::Free, ..observed(AttemptState::Absent, AttemptState::Absent) };
        assert_eq!(
            decide(&two_phases(), &next, at(99_999)),
            Step::TakeTurn,
            "its turn came after a long wait"
        );
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
        let ordered = observed(AttemptState::Ordered { start: at(5), untold: false }, AttemptState::Absent);
        assert_eq!(decide(&two_phases(), &ordered, at(5 + 4 + 15 + 30)), Step::Collect(0));
    }

    fn lost(job: bool, silent_from: Option<Timestamp>) -> AttemptState {
        let mut failure = failure();
        failure.failure.step = FailureStep::Lost;
        failure.failure.message = "a client pod or its node is lost".into();
        AttemptState::Lost { failure, remains: Remains { job, silent_from } }
    }

    fn gone() -> AttemptState {
        lost(false, Some(Timestamp::MIN))
    }

    /// One repetition of write and read, which may be measured twice.
    fn twice(attempts: [AttemptState; 4]) -> Step {
        let run = validate(&run(&["write", "read"], 1)).unwrap();
        let observed =
            Observed { target: ready(), turn: Turn::Held, since: at(0), attempts: attempts.into() };
        decide(&run, &observed, at(10))
    }

    #[test]
    fn a_lost_repetition_is_measured_again_when_nothing_of_it_can_load() {
        use AttemptState::{Absent, Ended};
        let wait = |until| Step::Wait(Waiting::Remains { attempt: 1 }, Some(until));
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

    #[test]
    fn the_watchdog_counts_the_warm_up() {
        let mut run = two_phases();
        assert!((watchdog_seconds(&run, &run.attempts[0]) - 19.0).abs() < 1e-9);
        run.attempts[0].warmup_seconds = Some(2.0);
        assert!((watchdog_seconds(&run, &run.attempts[0]) - 21.0).abs() < 1e-9);
    }

    #[test]
    fn cancel_beats_everything_but_stored_results_stay() {
        let mut cancelled = two_phases();
        cancelled.spec.cancel = true;
        for state in [AttemptState::Absent, AttemptState::AtStartLine, AttemptState::Ended] {
            assert_eq!(
                decide(&cancelled, &observed(done(), state), at(1)),
                Step::Finish(Ending::Cancelled),
                "cancel was ignored"
            );
        }
    }
}
