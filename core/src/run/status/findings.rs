//! A run's conditions, from its next step and what was measured. Pure.

use super::{figures::Figures, verdict};
use crate::run::decide::step::{Ending, Step, Waiting};
use dragstrip_crds::{
    conditions::{
        Finding,
        types::{CLIENTS_READY, COMPLETE, PASSED, TARGET_READY},
    },
    run::CheckName,
    thresholds::ThresholdStatus,
};
use dragstrip_results::{thresholds::missed, verdict::placed::Placed};

/// Reason of a condition that only needs time.
pub const STARTING: &str = "Starting";

/// Reason of a run whose figures are good and not good enough.
const THRESHOLD_MISSED: &str = "ThresholdMissed";

/// Reasons of a Datastore that is on its way: no cause for alarm.
const ON_ITS_WAY: [&str; 6] =
    ["Starting", "NoPod", "NotVerified", "RollingOut", "ChangeWaits", "BeingRemoved"];

pub(super) fn target_finding(step: &Step) -> Option<Finding> {
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
        Step::Wait(
            Waiting::Queue(_) | Waiting::Clients { .. } | Waiting::Preparation(..) | Waiting::Load(_),
            _,
        )
        | Step::CreateJob(_)
        | Step::Finish(Ending::Succeeded) => Finding::yes(TARGET_READY, "Ready", "the target is ready"),
        _ => return None,
    })
}

pub(super) fn clients_finding(step: &Step) -> Option<Finding> {
    Some(match step {
        Step::Wait(Waiting::Clients { trouble: Some(trouble), .. }, _) | Step::StandBack { trouble, .. } => {
            Finding::no(CLIENTS_READY, "HeldUp", format!("{}: {}", trouble.reason, trouble.message))
        }
        Step::Wait(Waiting::Setback(setback), _) => {
            Finding::no(CLIENTS_READY, "HeldUp", format!("{}: {}", setback.reason, setback.message))
        }
        Step::Wait(Waiting::Clients { trouble: None, .. } | Waiting::Preparation(..), _)
        | Step::CreateJob(_) => Finding::no(CLIENTS_READY, STARTING, "client pods are starting"),
        Step::Wait(Waiting::Remains(_), _) => {
            Finding::no(CLIENTS_READY, "Lost", "a client pod or its node was lost")
        }
        Step::Wait(Waiting::Load(_), _) => {
            Finding::yes(CLIENTS_READY, "Started", "all client pods were at the start line")
        }
        _ => return None,
    })
}

pub(super) fn end_findings(
    text: &str,
    figures: &Figures,
    thresholds: &[ThresholdStatus],
    step: &Step,
) -> [Finding; 2] {
    match step {
        Step::Finish(Ending::Succeeded) => [
            Finding::yes(COMPLETE, "Succeeded", "every phase was measured"),
            match (missed(thresholds), verdict::reported(&figures.phases)) {
                (Some(missed), _) => Finding::no(PASSED, THRESHOLD_MISSED, missed),
                (None, reported) if reported.is_empty() => {
                    Finding::yes(PASSED, "Succeeded", figures.checks.clone())
                }
                (None, reported) => {
                    Finding::yes(PASSED, "Degraded", format!("Degraded. {reported}. {}", figures.checks))
                }
            },
        ],
        Step::Finish(Ending::Failed(_)) => [
            Finding::yes(COMPLETE, "Failed", text.to_owned()),
            Finding::no(PASSED, "Failed", text.to_owned()),
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

/// Conditions of where servers and clients are: as `measured`, else as observed before the load.
pub(super) fn placed_findings(measured: &[Placed], before: &[Placed]) -> Vec<Finding> {
    let known = |one: &&Placed| measured.iter().all(|other| other.check != one.check);
    let finding = |one: &Placed| {
        let (_, kind) = CheckName::CONDITIONS.into_iter().find(|(check, _)| *check == one.check)?;
        Some(Finding { kind, status: one.holds, reason: one.reason, message: one.message.clone() })
    };
    measured.iter().chain(before.iter().filter(known)).filter_map(finding).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(met: bool, message: &str) -> ThresholdStatus {
        serde_json::from_value(serde_json::json!({
            "threshold": 0, "metric": "P99Milliseconds", "phase": "read", "operation": "GET", "met": met,
            "message": message
        }))
        .unwrap()
    }

    fn passed(thresholds: &[ThresholdStatus], step: &Step) -> (Option<bool>, &'static str, String) {
        let [_, passed] = end_findings("text", &Figures::default(), thresholds, step);
        (passed.status, passed.reason, passed.message)
    }

    #[test]
    fn a_missed_threshold_fails_a_run_that_was_measured_well_and_is_named() {
        let good = Step::Finish(Ending::Succeeded);
        let missed = "read GET P99Milliseconds 1.31 is above maximum 1.2";
        let rows = [row(true, "read GET P99Milliseconds 1 meets maximum 1.2"), row(false, missed)];
        assert_eq!(passed(&rows, &good), (Some(false), "ThresholdMissed", missed.to_owned()));
        assert_eq!(passed(&rows[..1], &good).0, Some(true));
        assert_eq!(passed(&rows, &Step::Finish(Ending::Cancelled)).1, "Cancelled");
        assert_eq!(passed(&[], &Step::TakeTurn).0, None, "nobody knows yet");
    }
}
