//! Writes a run's status, and announces changes in the log and by events. Needs the client.

pub mod noise;
pub mod price;

use super::context::RunContext;
use crate::cluster::apply::apply_status;
use dragstrip_core::{labels::RUN_MANAGER, run::status::STARTING};
use dragstrip_crds::{
    BenchmarkRun, BenchmarkRunStatus, conditions,
    conditions::types::{CLIENTS_READY, TARGET_READY},
    run::{RunPhase, Verdict},
};
use kube::ResourceExt;

/// The event for a change of status: whether it warns, its reason, its note.
fn announcement(old: &BenchmarkRunStatus, new: &BenchmarkRunStatus) -> Option<(bool, &'static str, String)> {
    let note = new.message.clone().unwrap_or_default();
    let held_up = |status: &BenchmarkRunStatus| {
        [TARGET_READY, CLIENTS_READY].iter().any(|kind| {
            conditions::find(&status.conditions, kind)
                .is_some_and(|c| c.status == "False" && c.reason != STARTING)
        })
    };
    match new.phase {
        RunPhase::Succeeded if new.verdict == Some(Verdict::Degraded) => Some((true, "Degraded", note)),
        RunPhase::Succeeded => Some((false, "Succeeded", note)),
        RunPhase::Failed => Some((true, "Failed", note)),
        RunPhase::Cancelled => Some((false, "Cancelled", note)),
        // A status shows only so many.
        _ if new.retries.last() != old.retries.last() => new.retries.last().map(|retry| {
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

fn log(run: &BenchmarkRun, old: &BenchmarkRunStatus, status: &BenchmarkRunStatus) {
    if old.phase == status.phase && !status.conditions.is_empty() && !old.conditions.is_empty() {
        return;
    }
    let (name, namespace) = (run.name_any(), run.namespace());
    let (message, measured) =
        (status.message.as_deref(), status.progress.as_ref().map(|progress| progress.measured));
    tracing::info!(run = name, namespace, phase = %status.phase, measured, message, "run");
}

/// Writes `status` if it is new, and announces changes; `false` if the run changed or was deleted.
pub async fn publish(
    ctx: &RunContext,
    run: &BenchmarkRun,
    old: &BenchmarkRunStatus,
    status: &BenchmarkRunStatus,
) -> kube::Result<bool> {
    if old == status {
        return Ok(true);
    }
    let written = apply_status(&ctx.client, &ctx.overlay, RUN_MANAGER, run, status).await?;
    if written {
        log(run, old, status);
        if let Some((warning, reason, note)) = announcement(old, status) {
            ctx.announcer.publish(run, warning, reason, &note).await;
        }
    }
    Ok(written)
}

#[cfg(test)]
mod tests {
    use super::*;
    use dragstrip_crds::run::RetryStatus;

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
