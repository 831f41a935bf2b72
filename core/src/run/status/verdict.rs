//! What the verdicts of results come to for their run. Pure.

use super::figures::Figures;
use crate::run::decide::step::{Ending, REQUIREMENT, Step};
use dragstrip_crds::run::{CheckName, FailureStatus, PhaseStatus, Verdict};
use dragstrip_report::distinct;

/// The name of what failed a run outside of its measurements.
fn failed_for(failure: &FailureStatus) -> String {
    match failure.step.as_str() {
        "Verification" => "NotAsDeclared".to_owned(),
        "Placement" => CheckName::PlacementNotAsDeclared.to_string(),
        "ServerChanged" => CheckName::ServerRestarted.to_string(),
        step => step.to_owned(),
    }
}

/// Whether the run's numbers may be believed, and the reasons by name, each once.
pub(super) fn verdict(figures: &Figures, step: &Step) -> (Option<Verdict>, Vec<String>) {
    let of_phases = figures.phases.iter().flat_map(|phase| &phase.reasons);
    let other = match step {
        // A Required check is among the reasons of its phase or result.
        Step::Finish(Ending::Failed(failure))
            if failure.step != REQUIREMENT && figures.refused.is_empty() =>
        {
            Some(failed_for(failure))
        }
        _ => None,
    };
    let names = of_phases.chain(&figures.refused).map(|reason| reason.reason.clone()).chain(other);
    let verdict = match step {
        Step::Finish(Ending::Failed(_)) => Some(Verdict::Invalid),
        Step::Finish(Ending::Succeeded) => figures.phases.iter().filter_map(|phase| phase.verdict).max(),
        _ => None,
    };
    (verdict, if verdict.is_some() { distinct(names) } else { Vec::new() })
}

/// What the verdict's reasons say, phase by phase, for people.
pub(super) fn reported(phases: &[PhaseStatus]) -> String {
    let of_phase = |phase: &PhaseStatus| {
        let each = phase.reasons.iter().map(|reason| format!("{}: {}", reason.reason, reason.message));
        let each: Vec<String> = each.collect();
        (!each.is_empty()).then(|| format!("{}: {}", phase.name, each.join("; ")))
    };
    phases.iter().filter_map(of_phase).collect::<Vec<_>>().join(". ")
}

#[cfg(test)]
mod tests {
    use super::{
        super::figures::{Results, refused},
        *,
    };
    use crate::{
        fixtures::{lost, pod_result, run},
        run::{
            merge::merge,
            summary::{phases, required},
            validate::{ValidatedRun, validate},
        },
    };
    use dragstrip_crds::run::VerdictReason;
    use dragstrip_results::result::{FailureStep, RepetitionResult};
    use std::collections::BTreeMap;

    fn reason(name: &str) -> VerdictReason {
        let message = format!("{name} was seen");
        VerdictReason { reason: name.into(), verdict: Verdict::Degraded, message, intervals: Vec::new() }
    }

    /// A run of three repetitions with these rates and reasons.
    fn of(rates: [u64; 3], reasons: &[&str], requirements: &str) -> (ValidatedRun, Results) {
        let mut declared = run(&["read"], 3);
        declared.spec.max_retries = 0;
        declared.spec.requirements = serde_json::from_str(requirements).unwrap();
        let run = validate(&declared).unwrap();
        let stored = run.attempts.iter().zip(rates).map(|(attempt, rate)| {
            let mut result = merge(attempt, 1, vec![pod_result("p", rate, 1.0, 100)]);
            result.verdict = Some(Verdict::Degraded);
            result.reasons = reasons.iter().copied().map(reason).collect();
            (attempt.name.clone(), result)
        });
        let stored = stored.collect();
        (run, stored)
    }

    fn figures(run: &ValidatedRun, results: &Results) -> Figures {
        Figures { phases: phases(run, results), refused: refused(run, results), ..Figures::default() }
    }

    const WELL: Step = Step::Finish(Ending::Succeeded);

    #[test]
    fn each_reason_of_a_run_is_listed_once_and_the_spread_of_repetitions_is_one() {
        let (run, results) = of([1000, 1000, 1000], &["Steal", "ForeignLoad"], "[]");
        let (judged, names) = verdict(&figures(&run, &results), &WELL);
        assert_eq!((judged, names), (Some(Verdict::Degraded), vec!["Steal".into(), "ForeignLoad".into()]));
        let (run, results) = of([1000, 1200, 1400], &[], "[]");
        let phases = phases(&run, &results);
        assert_eq!(phases[0].verdict, Some(Verdict::Degraded));
        assert!(
            reported(&phases).starts_with("read: HighVariance: throughput of 3"),
            "{}",
            reported(&phases)
        );
    }

    #[test]
    fn repetitions_that_differ_more_than_a_required_check_allows_fail_the_run() {
        let strict = r#"[{"check": "HighVariance", "level": "Required"}]"#;
        let (run, results) = of([1000, 1200, 1400], &[], strict);
        let Some(Step::Finish(Ending::Failed(failure))) = required(&run, &results) else {
            panic!("a spread of 17 % passed");
        };
        assert_eq!((failure.step.as_str(), failure.phase.as_deref()), ("Requirement", Some("read")));
        let (judged, names) = verdict(&figures(&run, &results), &Step::Finish(Ending::Failed(failure)));
        assert_eq!((judged, names), (Some(Verdict::Invalid), vec!["HighVariance".to_owned()]));
    }

    #[test]
    fn a_failed_run_is_invalid_for_its_failed_results_and_not_for_those_measured_again() {
        let run = validate(&run(&["read"], 1)).unwrap();
        let failed = |attempt: usize, step: FailureStep| -> (String, RepetitionResult) {
            let attempt = &run.attempts[attempt];
            let mut pod = lost("p");
            pod.failure.as_mut().unwrap().step = step;
            let mut result = merge(attempt, 1, vec![pod]);
            dragstrip_results::verdict::judge(&mut result, &attempt.tool, &[]);
            (attempt.name.clone(), result)
        };
        let results: BTreeMap<_, _> =
            [failed(0, FailureStep::Lost), failed(1, FailureStep::ErrorReplies)].into();
        let failure = serde_json::from_str(r#"{"step": "ErrorReplies", "message": "m"}"#).unwrap();
        let (judged, names) = verdict(&figures(&run, &results), &Step::Finish(Ending::Failed(failure)));
        assert_eq!((judged, names), (Some(Verdict::Invalid), vec!["ErrorReplies".to_owned()]));
    }

    #[test]
    fn a_run_that_failed_before_its_load_is_invalid_for_that() {
        let nothing = Figures::default();
        for (step, name) in [
            ("Verification", "NotAsDeclared"),
            ("Placement", "PlacementNotAsDeclared"),
            ("Timeout", "Timeout"),
        ] {
            let failure = serde_json::from_value(serde_json::json!({"step": step, "message": "m"})).unwrap();
            let (judged, names) = verdict(&nothing, &Step::Finish(Ending::Failed(failure)));
            assert_eq!((judged, names), (Some(Verdict::Invalid), vec![name.to_owned()]));
        }
        assert_eq!(
            verdict(&nothing, &Step::Finish(Ending::Cancelled)).0,
            None,
            "an unfinished run has no verdict"
        );
    }
}
