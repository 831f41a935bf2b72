//! What a run's status says. [`stored`] and [`publish`] need the client, the rest is pure:
//! derived on every pass from what exists.

use super::{
    decide::{Ending, ReadyTarget, Step, TargetState, Waiting},
    fetch::{Fetched, since},
    merge::TOTAL,
    plan, summary,
    validate::{Invalid, ValidatedRun},
};
use crate::{
    cluster::apply::{StatusWrite, apply_status},
    context::Context,
    labels::RUN_MANAGER,
};
use dragstrip_crds::{
    BenchmarkRun, BenchmarkRunStatus, conditions,
    conditions::Finding,
    conditions::types::{CLIENTS_READY, COMPLETE, PASSED, TARGET_READY},
    measured::LatencySummary,
    observed::ServerTruth,
    run::{FailureStatus, Headline, PhaseStatus, RetryStatus, RunPhase, TargetStatus},
    units::thousands,
};
use dragstrip_results::result::RepetitionResult;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{Api, ResourceExt};
use std::collections::BTreeMap;

/// Reason of a condition that only needs time.
const STARTING: &str = "Starting";

/// The status could not be carried on.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It could not be read.
    #[error("failed to read the status of the run")]
    Read(#[source] kube::Error),
    /// It could not be written.
    #[error("failed to write the status of the run")]
    Write(#[source] kube::Error),
}

fn phase(step: &Step) -> RunPhase {
    match step {
        Step::Wait(Waiting::TargetNotReady { own: true, .. }, _) | Step::MakeDatastore => {
            RunPhase::Provisioning
        }
        Step::Wait(Waiting::TargetMissing(_) | Waiting::TargetNotReady { own: false, .. }, _) => {
            RunPhase::Pending
        }
        Step::Wait(Waiting::Queue(_), _) | Step::TakeTurn => RunPhase::Queued,
        Step::Wait(Waiting::Clients { .. } | Waiting::Remains { .. }, _)
        | Step::CreateJob(_)
        | Step::RemoveLost(_) => RunPhase::Preparing,
        Step::Wait(Waiting::Load { .. }, _) | Step::GiveOrder(_) => RunPhase::Running,
        Step::Collect(_) => RunPhase::Collecting,
        Step::Finish(Ending::Succeeded) => RunPhase::Succeeded,
        Step::Finish(Ending::Failed(_)) => RunPhase::Failed,
        Step::Finish(Ending::Cancelled) => RunPhase::Cancelled,
    }
}

fn message(run: &ValidatedRun, step: &Step) -> String {
    let name = |index: &usize| {
        let attempt = &run.attempts[*index];
        let again = match attempt.measurement {
            1 => String::new(),
            measurement => format!(", measurement {measurement}"),
        };
        format!(
            "phase {}, repetition {} of {}{again}",
            attempt.phase, attempt.repetition, run.spec.repetitions
        )
    };
    match step {
        Step::Wait(Waiting::TargetMissing(message) | Waiting::TargetNotReady { message, .. }, _) => {
            message.clone()
        }
        Step::Wait(Waiting::Queue(queue), _) => {
            format!(
                "waits for {}, which holds Lease {}; position {} in the queue",
                queue.held_by, queue.lease, queue.position
            )
        }
        Step::Wait(Waiting::Clients { attempt, trouble: Some(trouble) }, _) => {
            format!(
                "{}: {} ({}); check spec.clients and the phase's image",
                name(attempt),
                trouble.message,
                trouble.reason
            )
        }
        Step::Wait(Waiting::Clients { attempt, trouble: None }, _) | Step::CreateJob(attempt) => {
            format!("{}: client pods are starting", name(attempt))
        }
        Step::Wait(Waiting::Load { attempt }, _) => format!("{}: load is running", name(attempt)),
        Step::Wait(Waiting::Remains { attempt }, _) => format!(
            "{}: a client pod or its node was lost; the repetition is measured again when its client pods are gone",
            name(attempt)
        ),
        Step::Finish(Ending::Succeeded) => format!("all {} measurements are stored", run.wanted()),
        Step::Finish(Ending::Failed(failure)) => match (&failure.phase, failure.repetition, &failure.pod) {
            (Some(phase), Some(repetition), Some(pod)) => {
                format!("phase {phase}, repetition {repetition}, pod {pod}: {}", failure.message)
            }
            _ => failure.message.clone(),
        },
        Step::Finish(Ending::Cancelled) => "stopped by spec.cancel".to_owned(),
        Step::MakeDatastore
        | Step::TakeTurn
        | Step::GiveOrder(_)
        | Step::Collect(_)
        | Step::RemoveLost(_) => String::new(),
    }
}

/// Reasons of a Datastore that is on its way: no cause for alarm.
const ON_ITS_WAY: [&str; 3] = ["Starting", "NoPod", "NotVerified"];

fn target_finding(step: &Step) -> Option<Finding> {
    Some(match step {
        Step::Wait(Waiting::TargetMissing(message), _) => {
            Finding::no(TARGET_READY, "NotFound", message.clone())
        }
        Step::Wait(Waiting::TargetNotReady { reason, message, .. }, _) => {
            let reason = if ON_ITS_WAY.contains(&reason.as_str()) { STARTING } else { "NotReady" };
            Finding::no(TARGET_READY, reason, message.clone())
        }
        Step::Finish(Ending::Failed(failure)) if failure.step == "Verification" => {
            Finding::no(TARGET_READY, "NotAsDeclared", failure.message.clone())
        }
        Step::Finish(Ending::Failed(failure)) if failure.step == "Unsuitable" => {
            Finding::no(TARGET_READY, "Unsuitable", failure.message.clone())
        }
        Step::Wait(Waiting::Queue(_) | Waiting::Clients { .. } | Waiting::Load { .. }, _)
        | Step::CreateJob(_) => Finding::yes(TARGET_READY, "Ready", "the target is there"),
        _ => return None,
    })
}

fn clients_finding(step: &Step) -> Option<Finding> {
    Some(match step {
        Step::Wait(Waiting::Clients { trouble: Some(trouble), .. }, _) => {
            Finding::no(CLIENTS_READY, "HeldUp", format!("{}: {}", trouble.reason, trouble.message))
        }
        Step::Wait(Waiting::Clients { trouble: None, .. }, _) | Step::CreateJob(_) => {
            Finding::no(CLIENTS_READY, STARTING, "client pods are starting")
        }
        Step::Wait(Waiting::Remains { .. }, _) => {
            Finding::no(CLIENTS_READY, "Lost", "a client pod or its node was lost")
        }
        Step::Wait(Waiting::Load { .. }, _) => {
            Finding::yes(CLIENTS_READY, "Started", "all client pods were at the start line")
        }
        _ => return None,
    })
}

fn end_findings(run: &ValidatedRun, step: &Step) -> [Finding; 2] {
    match step {
        Step::Finish(Ending::Succeeded) => [
            Finding::yes(COMPLETE, "Succeeded", "every phase was measured"),
            Finding::yes(PASSED, "Succeeded", "every phase was measured and every check passed"),
        ],
        Step::Finish(Ending::Failed(_)) => [
            Finding::yes(COMPLETE, "Failed", message(run, step)),
            Finding::no(PASSED, "Failed", message(run, step)),
        ],
        Step::Finish(Ending::Cancelled) => [
            Finding::yes(COMPLETE, "Cancelled", "stopped by spec.cancel"),
            Finding::no(PASSED, "Cancelled", "stopped by spec.cancel"),
        ],
        _ => [
            Finding::no(COMPLETE, "InProgress", "the run has not ended"),
            Finding::unknown(PASSED, "InProgress", "the run has not ended"),
        ],
    }
}

fn target_status(target: &ReadyTarget) -> TargetStatus {
    TargetStatus {
        name: target.name.clone(),
        address: Some(if target.host.contains(':') {
            format!("[{}]:{}", target.host, target.port)
        } else {
            format!("{}:{}", target.host, target.port)
        }),
        observed: target.truth.clone(),
        node: Some(target.nodes.join(", ")).filter(|nodes| !nodes.is_empty()),
        identity: None,
    }
}

/// The target's name before anything is known of it.
fn declared_target(run: &ValidatedRun) -> TargetStatus {
    let target = &run.spec.target;
    let name = match (&target.datastore_ref, &target.external) {
        (Some(reference), _) => reference.name.clone(),
        (None, Some(external)) => external.address.clone(),
        (None, None) => run.holder.name.clone(),
    };
    TargetStatus { name, ..TargetStatus::default() }
}

/// Throughput of a phase in one cell: of a tool that counts no operations its first own figure.
fn throughput(phase: &PhaseStatus) -> String {
    // Throughput is far below 2^63 and never negative: rounding is safe.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let rate = |mean: f64| thousands(mean.round() as u64);
    let total = phase.operations.iter().find(|operation| operation.operation == TOTAL);
    let figure = || phase.metrics.first().map(|metric| format!("{} {}", metric.name, metric.value));
    total
        .map(|total| rate(total.operations_per_second.mean))
        .or_else(figure)
        .unwrap_or_else(|| "-".to_owned())
}

fn p99(phase: &PhaseStatus) -> String {
    let total = phase.operations.iter().find(|operation| operation.operation == TOTAL);
    let known = total.map(|total| total.latency_milliseconds).filter(|all| *all != LatencySummary::default());
    known.map_or_else(|| "-".to_owned(), |latency| format!("{:.3}", latency.p99))
}

fn headline(phases: &[PhaseStatus]) -> Option<Headline> {
    let cells = |cell: fn(&PhaseStatus) -> String| phases.iter().map(cell).collect::<Vec<_>>().join(" / ");
    (!phases.is_empty())
        .then(|| Headline { operations_per_second: cells(throughput), p99_milliseconds: cells(p99) })
}

/// Repetitions that were lost and are measured again.
fn retries(run: &ValidatedRun, stored: &BTreeMap<String, RepetitionResult>) -> Vec<RetryStatus> {
    plan::retried(run, stored)
        .map(|(attempt, failure)| RetryStatus {
            repetition: attempt.repetition,
            phase: attempt.phase.clone(),
            measurement: attempt.measurement,
            reason: format!("pod {}: {}", failure.pod, failure.failure.message),
        })
        .collect()
}

/// Whether a step changes what people should read. The others lead to the next
/// look within milliseconds, and that tells.
pub fn worth_telling(step: &Step) -> bool {
    matches!(step, Step::Wait(..) | Step::Finish(_) | Step::CreateJob(_))
}

/// The server's own account as an external target's clients got it.
fn truth_from(stored: &BTreeMap<String, RepetitionResult>) -> Option<ServerTruth> {
    let servers = stored.values().flat_map(|result| &result.pods).filter_map(|pod| pod.server.as_ref());
    servers.map(|server| server.truth.clone()).next()
}

/// The target as far as it is known: looked at just now, else as last told.
fn target(run: &ValidatedRun, old: &BenchmarkRunStatus, fetched: &Fetched) -> TargetStatus {
    let mut target = match &fetched.target {
        TargetState::Ready(target) => target_status(target),
        _ => old.target.clone().unwrap_or_else(|| declared_target(run)),
    };
    target.observed = target.observed.or_else(|| truth_from(&fetched.stored));
    target
}

/// The status of `run` when the next step is `step`.
pub fn of_step(
    run: &ValidatedRun,
    old: &BenchmarkRunStatus,
    fetched: &Fetched,
    step: &Step,
    now: Timestamp,
) -> BenchmarkRunStatus {
    let done = plan::counted(run, &fetched.stored).count();
    let phases = summary::phases(run, &fetched.stored);
    let mut findings = Vec::from(end_findings(run, step));
    findings.extend(target_finding(step));
    findings.extend(clients_finding(step));
    let failure: Option<FailureStatus> = match step {
        Step::Finish(Ending::Failed(failure)) => Some(failure.clone()),
        _ => None,
    };
    BenchmarkRunStatus {
        observed_generation: Some(run.generation),
        phase: phase(step),
        message: Some(message(run, step)).filter(|message| !message.is_empty()),
        progress: Some(format!("{done}/{}", run.wanted())),
        started_at: (!fetched.jobs.is_empty())
            .then(|| Time(since(run, fetched)))
            .or_else(|| old.started_at.clone()),
        finished_at: matches!(step, Step::Finish(_)).then_some(Time(now)),
        clock: None,
        setback: None,
        queue: match step {
            Step::Wait(Waiting::Queue(queue), _) => Some(queue.clone()),
            _ => None,
        },
        target: Some(target(run, old, fetched)),
        headline: headline(&phases),
        phases,
        retries: retries(run, &fetched.stored),
        failure,
        conditions: conditions::upsert(&old.conditions, &findings, run.generation, now),
    }
}

/// The status of a run nothing can be made of.
pub fn of_invalid(run: &BenchmarkRun, invalid: &Invalid, now: Timestamp) -> BenchmarkRunStatus {
    let generation = run.metadata.generation.unwrap_or(0);
    let message = invalid.to_string();
    BenchmarkRunStatus {
        observed_generation: Some(generation),
        phase: RunPhase::Failed,
        message: Some(message.clone()),
        finished_at: Some(Time(now)),
        conditions: conditions::upsert(
            &[],
            &[Finding::yes(COMPLETE, "Invalid", message.clone()), Finding::no(PASSED, "Invalid", message)],
            generation,
            now,
        ),
        ..BenchmarkRunStatus::default()
    }
}

/// The event a change of status deserves: whether it warns, its reason, its note.
fn announcement(old: &BenchmarkRunStatus, new: &BenchmarkRunStatus) -> Option<(bool, &'static str, String)> {
    let note = new.message.clone().unwrap_or_default();
    let held_up = |status: &BenchmarkRunStatus| {
        [TARGET_READY, CLIENTS_READY].iter().any(|kind| {
            conditions::find(&status.conditions, kind)
                .is_some_and(|c| c.status == "False" && c.reason != STARTING)
        })
    };
    match new.phase {
        RunPhase::Succeeded => Some((false, "Succeeded", note)),
        RunPhase::Failed => Some((true, "Failed", note)),
        RunPhase::Cancelled => Some((false, "Cancelled", note)),
        _ if new.retries.len() > old.retries.len() => new.retries.last().map(|retry| {
            let note = format!(
                "repetition {}, phase {}, measurement {}: {}; the repetition is measured again",
                retry.repetition, retry.phase, retry.measurement, retry.reason
            );
            (true, "Retrying", note)
        }),
        _ if held_up(new) && (old.message != new.message) => Some((true, "HeldUp", note)),
        RunPhase::Queued if old.phase != RunPhase::Queued => Some((false, "Queued", note)),
        RunPhase::Running if old.phase != RunPhase::Running => Some((false, "Running", note)),
        _ => None,
    }
}

/// The status as it is stored; none when the run was deleted. The cache may not
/// have this controller's own last write yet, and what a status takes over from
/// the one before, such as the target's address, would be lost.
pub async fn stored(ctx: &Context, run: &BenchmarkRun) -> Result<Option<BenchmarkRunStatus>, Error> {
    let runs: Api<BenchmarkRun> = Api::namespaced(ctx.client.clone(), &run.namespace().unwrap_or_default());
    let found = runs.get_opt(&run.name_any()).await.map_err(Error::Read)?;
    Ok(found.filter(|found| found.uid() == run.uid()).map(|found| found.status.unwrap_or_default()))
}

/// Writes `status` if it says anything that `old` does not, and announces what
/// deserves it.
pub async fn publish(
    ctx: &Context,
    run: &BenchmarkRun,
    old: &BenchmarkRunStatus,
    status: &BenchmarkRunStatus,
) -> Result<(), Error> {
    if old == status {
        return Ok(());
    }
    let written = apply_status(&ctx.client, RUN_MANAGER, run, status).await.map_err(Error::Write)?;
    if written == StatusWrite::Done
        && let Some((warning, reason, note)) = announcement(old, status)
    {
        ctx.announcer.publish(run, warning, reason, "Reconcile", &note).await;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn phase_of(operations: &Value, metrics: &Value) -> PhaseStatus {
        serde_json::from_value(json!({
            "name": "p", "tool": "t", "operations": operations, "repetitions": [], "metrics": metrics
        }))
        .unwrap()
    }

    fn total(rate: f64, p99: f64) -> Value {
        json!([{
            "operation": "TOTAL", "count": 1, "operationsPerSecond": {"repetitions": 1, "mean": rate},
            "bytesPerSecond": 0.0, "errors": 0,
            "latencyMilliseconds": {"mean": p99, "p50": p99, "p90": p99, "p95": p99, "p99": p99,
                "p999": p99, "p9999": p99, "max": p99}
        }])
    }

    #[test]
    fn every_phase_has_a_cell_in_the_headline() {
        let own = json!([{"name": "ns/op", "value": 12.5}, {"name": "B/op", "value": 3.0}]);
        let phases = [
            phase_of(&total(1234.0, 0.5), &json!([])),
            phase_of(&total(50.0, 0.0), &json!([])),
            phase_of(&json!([]), &own),
            phase_of(&json!([]), &json!([])),
        ];
        let headline = headline(&phases).unwrap();
        assert_eq!(headline.operations_per_second, "1,234 / 50 / ns/op 12.5 / -");
        assert_eq!(headline.p99_milliseconds, "0.500 / - / - / -", "latencies left out are no zeroes");
    }

    #[test]
    fn each_retry_is_announced_once() {
        let old = BenchmarkRunStatus { phase: RunPhase::Running, ..BenchmarkRunStatus::default() };
        let retry = RetryStatus {
            repetition: 1,
            phase: "read".into(),
            measurement: 1,
            reason: "pod p: evicted".into(),
        };
        let new = BenchmarkRunStatus { retries: vec![retry], phase: RunPhase::Preparing, ..old.clone() };
        let (warning, reason, note) = announcement(&old, &new).unwrap();
        assert_eq!((warning, reason), (true, "Retrying"));
        assert!(note.starts_with("repetition 1, phase read, measurement 1: pod p: evicted"), "{note}");
        assert_eq!(announcement(&new, &new), None);
    }
}
