//! Whether a repetition's numbers may be believed, and what limited them. Each check is
//! one pure function of what was recorded and of its limit; docs/verdicts.md says where
//! each limit comes from.

mod evidence;
mod limited;
mod links;
mod load;
mod machines;
pub mod placed;
mod spinning;
mod steady;

use super::limits;
use crate::result::{Check, CheckState, Failure, FailureStep, PodFailure, RepetitionResult};
use dragstrip_crds::{
    run::{CheckName, Level, Requirement, Verdict, VerdictReason},
    units::Decimal,
    workload::ToolSpec,
};
use evidence::{Evidence, Found, percent};

type Examine = fn(&Evidence, f64) -> Found;

/// The checks of one repetition with their limits, in the units of
/// [`Requirement::check`](dragstrip_crds::run::Requirement).
const CHECKS: [(CheckName, f64, Examine); 17] = [
    (CheckName::StartSkew, limits::START_SKEW_SECONDS, load::start_skew),
    (CheckName::ShortOverlap, limits::OVERLAP, load::short_overlap),
    (CheckName::ShortWindow, limits::WINDOW_SECONDS, load::short_window),
    (CheckName::NotSteady, limits::TREND, steady::not_steady),
    (CheckName::ReadsMiss, limits::FOUND, load::reads_miss),
    (CheckName::LittleLawViolated, limits::LITTLES_LAW, load::little_law),
    (CheckName::ScheduleLag, limits::SCHEDULE_LAG, load::schedule_lag),
    (CheckName::RateNotKept, limits::ANSWERED, load::rate_not_kept),
    (CheckName::ClientSaturated, limits::BUSY, machines::client_saturated),
    (CheckName::ClientThrottled, limits::THROTTLED, machines::client_throttled),
    (CheckName::ServerThrottled, limits::THROTTLED, machines::server_throttled),
    (CheckName::ServerPressure, limits::SERVER_PRESSURE, machines::server_pressure),
    (CheckName::Steal, limits::STEAL, machines::steal),
    (CheckName::ForeignLoad, limits::FOREIGN_LOAD, machines::foreign_load),
    (CheckName::MemoryPressure, limits::PAGE_FAULTS_PER_SECOND, machines::memory_pressure),
    (CheckName::SharedNode, 0.0, machines::shared_node),
    (CheckName::PlacementNotAsDeclared, 0.0, machines::placement),
];

/// The level and limit of `check`: as `requirements` have them, or the defaults.
fn strictness(requirements: &[Requirement], check: CheckName, default: f64) -> (Level, f64) {
    match requirements.iter().find(|requirement| requirement.check == check) {
        Some(declared) => (declared.level, declared.limit.as_ref().map_or(default, Decimal::value)),
        None => (Level::Warn, default),
    }
}

/// The level of a condition that is to hold; `None` if no requirement names it.
fn declared(requirements: &[Requirement], check: CheckName) -> Option<Level> {
    let declared = requirements.iter().find(|requirement| requirement.check == check)?;
    Some(declared.level).filter(|level| *level != Level::Ignore)
}

fn reason(level: Level, check: CheckName, message: String) -> VerdictReason {
    let verdict = if level == Level::Required { Verdict::Invalid } else { Verdict::Degraded };
    VerdictReason { reason: check.to_string(), verdict, message, intervals: Vec::new() }
}

/// The name of a failure in a verdict.
fn reason_of(step: FailureStep) -> String {
    let check = match step {
        FailureStep::ErrorReplies => CheckName::ErrorReplies,
        FailureStep::CounterCheck => CheckName::CountMismatch,
        FailureStep::ServerIdentity => CheckName::ServerRestarted,
        FailureStep::Eviction => CheckName::Evictions,
        FailureStep::Load => CheckName::MissingKeys,
        FailureStep::HitRatio => CheckName::LowHitRatio,
        FailureStep::Lost => return "ClientLost".to_owned(),
        FailureStep::Watchdog => return "ToolOverdue".to_owned(),
        FailureStep::Interrupted => return "Interrupted".to_owned(),
        other => return format!("{other:?}Failed"),
    };
    check.to_string()
}

/// Judges `result`, which `tool` measured under `requirements`: fills in its verdict,
/// reasons, checks and what limited it, and fails it where a Required check found something or could not
/// be made.
pub fn judge(result: &mut RepetitionResult, tool: &ToolSpec, requirements: &[Requirement]) {
    if let Some(failure) = &result.failure {
        let message = failure.failure.message.clone();
        let reason = reason_of(failure.failure.step);
        let verdict = Verdict::Invalid;
        result.reasons = vec![VerdictReason { reason, verdict, message, intervals: Vec::new() }];
        result.verdict = Some(Verdict::Invalid);
        return;
    }
    let (mut checks, mut reasons) = (Vec::new(), Vec::new());
    let evidence = Evidence { result, tool };
    for (name, default, examine) in CHECKS {
        let (level, limit) = strictness(requirements, name, default);
        if level == Level::Ignore {
            continue;
        }
        let (state, why) = match examine(&evidence, limit) {
            Found::Pointless => continue,
            Found::Good => (CheckState::Passed, None),
            Found::NotMade(why) if level == Level::Required => {
                reasons.push(reason(level, name, format!("the check could not be made: {why}")));
                continue;
            }
            Found::NotMade(why) => (CheckState::NotMade, Some(why.to_owned())),
            Found::Bad(message) => {
                reasons.push(reason(level, name, message));
                continue;
            }
            Found::BadDuring(message, intervals) => {
                reasons.push(VerdictReason { intervals, ..reason(level, name, message) });
                continue;
            }
        };
        checks.push(Check { name: name.to_string(), state, why });
    }
    for placed in placed::of_result(result) {
        let Some(level) = declared(requirements, placed.check) else { continue };
        let name = placed.check.to_string();
        match placed.holds {
            Some(true) => checks.push(Check { name, state: CheckState::Passed, why: None }),
            None if level == Level::Warn => {
                checks.push(Check { name, state: CheckState::NotMade, why: Some(placed.message) });
            }
            _ => {
                let found = reason(level, placed.check, placed.message);
                reasons.push(VerdictReason { reason: format!("Not{name}"), ..found });
            }
        }
    }
    let limited_by = limited::by(&evidence);
    result.checks.extend(checks);
    result.limited_by = Some(limited_by);
    result.verdict = Some(worst(&reasons));
    result.failure = required(&reasons).map(|failure| PodFailure { pod: String::new(), failure });
    result.reasons = reasons;
}

pub fn worst(reasons: &[VerdictReason]) -> Verdict {
    reasons.iter().map(|reason| reason.verdict).max().unwrap_or(Verdict::Valid)
}

/// The failure that the first Required check among `reasons` is.
pub fn required(reasons: &[VerdictReason]) -> Option<Failure> {
    let broken = reasons.iter().find(|reason| reason.verdict == Verdict::Invalid)?;
    let message =
        format!("{}: {} (spec.requirements makes this check Required)", broken.reason, broken.message);
    Some(Failure::new(FailureStep::Requirement, message))
}

/// What the spread of `repetitions` and its coefficient of variation say, if anything.
pub fn high_variance(
    repetitions: u32,
    coefficient_of_variation: Option<f64>,
    requirements: &[Requirement],
) -> Option<VerdictReason> {
    let (level, limit) = strictness(requirements, CheckName::HighVariance, limits::VARIANCE);
    let variation = coefficient_of_variation.filter(|_| repetitions >= limits::LEAST_REPETITIONS)?;
    (level != Level::Ignore && variation > limit).then(|| {
        let message = format!(
            "throughput of {repetitions} repetitions varies by {} (limit {}): their mean says little",
            percent(variation),
            percent(limit)
        );
        reason(level, CheckName::HighVariance, message)
    })
}

#[cfg(test)]
mod tests;
