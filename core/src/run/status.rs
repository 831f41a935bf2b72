//! A run's status, derived on every pass from what exists. Pure.

mod bounds;
mod comparability;
mod figures;
mod findings;
mod glance;
mod message;
mod verdict;

use super::{
    decide::step::{Ending, Step, Waiting},
    observe::{identity::Identity, snapshot::Snapshot, stored_result::StoredResult, target::TargetState},
    plan::{self, clock},
    validate::attempt::{Invalid, ValidatedRun},
};
use crate::trouble::NO_PLACE;
use bounds::{bounded, fit};
use comparability::{comparability, provenance};
use dragstrip_crds::{
    BenchmarkRun, BenchmarkRunStatus, conditions,
    conditions::Finding,
    conditions::types::{COMPLETE, PASSED},
    run::{
        PhaseStatus, Progress, RetryStatus, RunPhase, SetbackStatus, StartedStatus, TargetStatus, Verdict,
    },
    thresholds::ThresholdStatus,
};
use dragstrip_results::thresholds::{evaluate, missed};
use figures::Figures;
pub use figures::Results;
pub use findings::STARTING;
use findings::{clients_finding, end_findings, placed_findings, target_finding};
use glance::headline;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use message::{phase_and_message, with_setback};
use std::collections::BTreeMap;

/// Longest time between two tries, in seconds.
const LONGEST_SETBACK: i64 = 300;
/// Longest time if the clients have no place: the try acquires nothing, and a node may be added at any time.
const LONGEST_WITHOUT_PLACE: i64 = 30;

/// Why the run cannot take its turn after this step, and until when.
fn setback(old: &BenchmarkRunStatus, step: &Step, now: Timestamp) -> Option<SetbackStatus> {
    match step {
        Step::StandBack { trouble, .. } => {
            let count = old.setback.as_ref().map_or(0, |setback| setback.count).saturating_add(1);
            let longest = if trouble.reason == NO_PLACE { LONGEST_WITHOUT_PLACE } else { LONGEST_SETBACK };
            let wait = 5_i64.saturating_mul(1 << (count - 1).clamp(0, 10)).min(longest);
            Some(SetbackStatus {
                reason: trouble.reason.clone(),
                message: trouble.message.clone(),
                count,
                retry_at: Time(now.saturating_add(SignedDuration::from_secs(wait)).unwrap_or(now)),
            })
        }
        // Clients have started, or the run has ended.
        Step::Wait(Waiting::Load(_), _) | Step::Finish(_) => None,
        _ => old.setback.clone(),
    }
}

pub fn count(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

/// Repetitions that were lost and are measured again.
fn retries(run: &ValidatedRun, stored: &BTreeMap<String, StoredResult>) -> Vec<RetryStatus> {
    plan::retried(run, stored)
        .map(|(attempt, failure)| RetryStatus {
            repetition: attempt.repetition,
            phase: attempt.phase.clone(),
            measurement: attempt.measurement,
            reason: format!("pod {}: {}", failure.pod, failure.failure.message),
        })
        .collect()
}

/// Whether a step changes what people should read: after any other, the next pass follows at once.
pub fn worth_reporting(step: &Step) -> bool {
    matches!(step, Step::Wait(..) | Step::Finish(_) | Step::CreateJob(_) | Step::StandBack { .. })
}

/// The status to write before the failure in `step` ends the run: the old one with the failure.
/// Any other end is decided again, whatever was cleaned up.
pub fn recorded(old: &BenchmarkRunStatus, step: &Step) -> Option<BenchmarkRunStatus> {
    match step {
        Step::Finish(Ending::Failed(failure)) if old.failure.is_none() => {
            Some(bounded(BenchmarkRunStatus { failure: Some(failure.clone()), ..old.clone() }))
        }
        _ => None,
    }
}

fn shown_results(phase: &PhaseStatus) -> usize {
    let search = phase.search.as_ref().map(|search| search.points.len() + search.rates.len());
    search.unwrap_or(phase.repetitions.len())
}

/// Whether to read the complete results, because the status is to show more of them:
/// at the end, after each phase of the first repetition, and after each
/// further repetition. To read them all after each phase of many repetitions would cost
/// more every time.
pub fn shows_figures(run: &ValidatedRun, old: &BenchmarkRunStatus, snapshot: &Snapshot, step: &Step) -> bool {
    let shown: usize = old.phases.iter().map(shown_results).sum();
    let due = match step {
        Step::CreateJob(index) => {
            let attempt = &run.attempts[*index];
            attempt.repetition == 1 || run.begins_measurement(*index)
        }
        Step::Finish(_) => true,
        _ => false,
    };
    // The message at the end says what was checked, from the results.
    let judged = matches!(step, Step::Finish(Ending::Succeeded | Ending::Failed(_)));
    judged && !snapshot.stored.is_empty() || due && plan::done(run, &snapshot.stored) != shown
}

/// The target as it was just observed, else as the status had it, else as it is declared.
fn target(
    run: &ValidatedRun,
    old: &BenchmarkRunStatus,
    snapshot: &Snapshot,
    figures: &Figures,
) -> TargetStatus {
    let external = run.spec.target.external();
    let declared = || TargetStatus {
        name: run.spec.target.name(&run.holder.name).to_owned(),
        ..TargetStatus::default()
    };
    let mut target = match &snapshot.target {
        TargetState::Ready(target) => {
            let brackets = if target.host.contains(':') { ["[", "]"] } else { ["", ""] };
            TargetStatus {
                name: target.name.clone(),
                address: Some(format!(
                    "{}{}{}:{}",
                    brackets[0], target.host, brackets[1], target.connection.port
                )),
                observed: target.truth.clone(),
                // The servers behind an address cannot be counted.
                servers: external.is_none().then(|| count(target.members.len()).max(1)),
                nodes: target.nodes.clone(),
                identity: target.identity.as_ref().and_then(Identity::digest),
            }
        }
        _ => old.target.clone().unwrap_or_else(declared),
    };
    target.observed = target.observed.or_else(|| figures.observed.clone());
    target
}

/// When the first load began, or will begin.
fn started(old: &BenchmarkRunStatus, snapshot: &Snapshot) -> Option<Time> {
    let stored = snapshot.stored.values().filter_map(|stored| stored.start);
    let first = snapshot.jobs.values().filter_map(|job| job.start).chain(stored).min();
    old.started_at.clone().or(first.map(Time))
}

/// The measurement that started last and is not stored.
fn started_measurement(
    run: &ValidatedRun,
    old: &BenchmarkRunStatus,
    snapshot: &Snapshot,
    step: &Step,
) -> Option<StartedStatus> {
    match step {
        Step::Wait(Waiting::Load(attempt), _) => {
            let job = &run.attempts[*attempt].name;
            let start = snapshot.jobs.get(job)?.start?;
            // The API server stores whole seconds: a fraction would be written at every pass.
            let second = Timestamp::from_second(start.as_second()).unwrap_or(start);
            Some(StartedStatus { job: job.clone(), start_at: Time(second) })
        }
        Step::Finish(_) => None,
        _ => old.started.clone().filter(|started| !snapshot.stored.contains_key(&started.job)),
    }
}

/// How the figures compare with the thresholds, once nothing more is measured.
fn bounds(
    run: &ValidatedRun,
    figures: &Figures,
    old: &BenchmarkRunStatus,
    step: &Step,
) -> Vec<ThresholdStatus> {
    if !matches!(step, Step::Finish(_)) {
        return old.thresholds.clone();
    }
    let declared: Vec<&str> = run.spec.phases.iter().map(|phase| phase.name.as_str()).collect();
    evaluate(&run.spec.thresholds, &declared, &figures.phases)
}

/// The status of `run` before `step`, with the figures of `results` where they were read.
pub fn of_step(
    run: &ValidatedRun,
    old: &BenchmarkRunStatus,
    snapshot: &Snapshot,
    results: Option<&Results>,
    step: &Step,
    now: Timestamp,
) -> BenchmarkRunStatus {
    let figures = Figures::of(run, old, results);
    let (phase, text) = phase_and_message(run, &snapshot.stored, step);
    let thresholds = bounds(run, &figures, old, step);
    let mut findings = Vec::from(end_findings(&text, &figures, &thresholds, step));
    findings.extend(placed_findings(&figures.placed, &snapshot.placed));
    findings.extend(target_finding(step));
    findings.extend(clients_finding(step));
    let (failure, queue) = match step {
        Step::Finish(Ending::Failed(failure)) => (Some(failure.clone()), None),
        Step::Wait(Waiting::Queue(queue), _) => (None, Some(queue.clone())),
        _ => (None, None),
    };
    let setback = setback(old, step, now);
    let reported = matches!(step, Step::StandBack { .. } | Step::Wait(Waiting::Setback(_), _));
    let mut text = with_setback(text, setback.as_ref().filter(|_| !reported));
    let (verdict, reasons) = verdict::verdict(&figures, step);
    if verdict == Some(Verdict::Degraded) {
        text = format!("{text}; Degraded: {}", reasons.join(", "));
    }
    if let Some(missed) = missed(&thresholds).filter(|_| phase == RunPhase::Succeeded) {
        text = format!("{text}; threshold not met: {missed}");
    }
    let target = target(run, old, snapshot, &figures);
    let record = results.filter(|results| !results.is_empty());
    let comparability = record.map(|results| comparability(run, results, &target, &figures));
    let provenance = record.map(|results| provenance(run, results));
    let headline = headline(&run.spec, &figures.phases);
    bounded(BenchmarkRunStatus {
        observed_generation: Some(run.generation),
        phase,
        message: Some(text).filter(|text| !text.is_empty()),
        progress: Some(Progress {
            measured: count(plan::done(run, &snapshot.stored)),
            total: count(plan::wanted(run, &snapshot.stored)),
        }),
        started_at: started(old, snapshot),
        started: started_measurement(run, old, snapshot, step),
        finished_at: matches!(step, Step::Finish(_)).then_some(Time(now)),
        clock: Some(clock::advance(old.clock.as_ref(), run.created, phase == RunPhase::Queued, now)),
        setback,
        queue,
        target: Some(target),
        verdict,
        reasons,
        // The operator adds it at the end.
        noise: None,
        headline,
        default_warmup_seconds: run.default_warmups.clone(),
        thresholds,
        provenance: provenance.or_else(|| old.provenance.clone()),
        comparability: comparability.or_else(|| old.comparability.clone()),
        phases: fit(figures.phases, &run.spec),
        nodes: figures.nodes,
        retries: retries(run, &snapshot.stored),
        failure,
        conditions: conditions::upsert(&old.conditions, &findings, run.generation, now),
    })
}

/// The status of a run that cannot be measured.
pub fn of_invalid(
    run: &BenchmarkRun,
    old: &BenchmarkRunStatus,
    invalid: &Invalid,
    now: Timestamp,
) -> BenchmarkRunStatus {
    let generation = run.metadata.generation.unwrap_or(0);
    let message = invalid.to_string();
    bounded(BenchmarkRunStatus {
        observed_generation: Some(generation),
        phase: RunPhase::Failed,
        message: Some(message.clone()),
        finished_at: Some(Time(now)),
        verdict: Some(Verdict::Invalid),
        reasons: vec!["SpecInvalid".to_owned()],
        // Earlier results stay.
        conditions: conditions::upsert(
            &old.conditions,
            &[Finding::yes(COMPLETE, "Invalid", message.clone()), Finding::no(PASSED, "Invalid", message)],
            generation,
            now,
        ),
        queue: None,
        ..old.clone()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{run::snapshot::JobFacts, trouble::Trouble};
    use dragstrip_crds::run::FailureStatus;
    use serde_json::json;

    fn failure_of(message: &str) -> FailureStatus {
        serde_json::from_value(json!({"step": "Internal", "message": message})).unwrap()
    }

    #[test]
    fn a_setback_is_shown_until_it_is_overcome() {
        let setback = SetbackStatus {
            reason: "FailedMount".into(),
            message: "secret pit-tls not found".into(),
            count: 2,
            retry_at: Time(Timestamp::UNIX_EPOCH),
        };
        let queued = with_setback("waits for races/other".into(), Some(&setback));
        assert_eq!(queued, "waits for races/other; retries after secret pit-tls not found (FailedMount)");
        let same = with_setback("pod p: secret pit-tls not found (FailedMount)".into(), Some(&setback));
        assert_eq!(same, "pod p: secret pit-tls not found (FailedMount); retried after 2 setbacks");
        assert_eq!(with_setback("load is running".into(), None), "load is running");
    }

    #[test]
    fn a_run_without_a_place_tries_again_every_half_minute_and_others_rarely() {
        let setback_after = |reason: &str| {
            let trouble = Trouble { reason: reason.into(), message: "m".into() };
            let step = Step::StandBack { attempt: None, trouble };
            let mut status = BenchmarkRunStatus::default();
            for _ in 0..9 {
                status.setback = setback(&status, &step, Timestamp::UNIX_EPOCH);
            }
            status.setback.unwrap().retry_at.0.as_second()
        };
        assert_eq!(setback_after(NO_PLACE), 30, "a node that was added would stay unused");
        assert_eq!(setback_after("FailedMount"), 300, "each try holds up others");
    }

    #[test]
    fn a_failure_is_written_down_once_before_anything_is_cleared_up() {
        let failure = FailureStatus { step: "ServerChanged".into(), ..failure_of("the server was replaced") };
        let failed = Step::Finish(Ending::Failed(failure.clone()));
        let old = BenchmarkRunStatus { phase: RunPhase::Running, ..BenchmarkRunStatus::default() };
        let first = recorded(&old, &failed).unwrap();
        assert_eq!((first.failure.as_ref(), first.phase), (Some(&failure), RunPhase::Running));
        assert_eq!(first.finished_at, None, "nobody would look at it again");
        assert_eq!(recorded(&first, &failed), None, "it would never end");
        assert_eq!(recorded(&old, &Step::Finish(Ending::Cancelled)), None);
    }

    #[test]
    fn a_measurement_is_remembered_from_its_order_until_it_is_stored() {
        let run = crate::run::validate::validate(&crate::fixtures::run(&["write", "read"], 1)).unwrap();
        let name = || "sprint-write-1".to_owned();
        let start = Timestamp::from_second(1_800_000_000).unwrap();
        let job = JobFacts { start: Some(start + SignedDuration::from_nanos(1)), ..JobFacts::default() };
        let loads = Snapshot { jobs: [(name(), job)].into(), ..Snapshot::default() };
        let load = Step::Wait(Waiting::Load(0), None);
        let reported = started_measurement(&run, &BenchmarkRunStatus::default(), &loads, &load);
        assert_eq!(reported, Some(StartedStatus { job: name(), start_at: Time(start) }));
        let old = BenchmarkRunStatus { started: reported.clone(), ..BenchmarkRunStatus::default() };
        let collecting = Step::Wait(Waiting::Log { attempt: 0, why: String::new() }, None);
        assert_eq!(
            started_measurement(&run, &old, &Snapshot::default(), &collecting),
            reported,
            "its Job may be gone"
        );
        let stored = Snapshot { stored: [(name(), StoredResult::default())].into(), ..Snapshot::default() };
        assert_eq!(started_measurement(&run, &old, &stored, &Step::CreateJob(1)), None);
    }
}
