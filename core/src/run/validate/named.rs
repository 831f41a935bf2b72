//! What thresholds and the headline name must be there. Pure.

use super::Invalid;
use dragstrip_crds::{BenchmarkRunSpec, near::near, run::PhaseSpec, thresholds::RelativeTo};
use dragstrip_results::result::TOTAL;

/// `given` is none of `known`: in words, with what may have been meant.
fn unknown(what: &str, given: &str, known: &[&str]) -> String {
    let near = near(given, known.iter().copied());
    let all = known.join(", ");
    if near.is_empty() {
        return format!("{what} {given:?} does not exist: there are {all}");
    }
    format!("{what} {given:?} does not exist: did you mean {}? There are {all}", near.join(" or "))
}

/// The operations that `phase` will have, where its declaration tells all of them.
fn operations(phase: &PhaseSpec) -> Option<Vec<&'static str>> {
    let memtier = phase.memtier.as_ref().filter(|it| it.commands.is_empty() && it.extra_args.is_empty());
    let loadgen = phase.loadgen.as_ref().filter(|it| it.operations.is_empty() && it.batch.is_none());
    let ratio = memtier.map(|it| &it.ratio).or(loadgen.map(|it| &it.ratio))?;
    let (sets, gets) = ratio.split_once(':')?;
    let sent = [(sets, "SET"), (gets, "GET")].into_iter().filter(|(share, _)| *share != "0");
    Some(sent.map(|(_, name)| name).chain([TOTAL]).collect())
}

/// Checks that every threshold of `spec`, and its headline, can be about something.
pub fn check(spec: &BenchmarkRunSpec) -> Result<(), Invalid> {
    let phases: Vec<&str> = spec.phases.iter().map(|phase| phase.name.as_str()).collect();
    let refuse = |text: String| Err(Invalid::Unsuitable(text));
    if let Some(name) = spec.headline.as_deref().filter(|name| !phases.contains(name)) {
        return refuse(unknown("headline: the phase", name, &phases));
    }
    for (index, threshold) in spec.thresholds.iter().enumerate() {
        if threshold.relative_to != RelativeTo::Nothing {
            return refuse(format!(
                "thresholds[{index}].relativeTo: a run has no baseline: leave it out, or make a BenchmarkSuite with a baseline"
            ));
        }
        if let Some(name) = threshold.phase.as_deref().filter(|name| !phases.contains(name)) {
            return refuse(unknown(&format!("thresholds[{index}].phase: the phase"), name, &phases));
        }
        let Some(operation) = threshold.operation.as_deref() else { continue };
        let about = |phase: &&PhaseSpec| threshold.phase.as_ref().is_none_or(|name| *name == phase.name);
        let known: Option<Vec<Vec<&str>>> = spec.phases.iter().filter(about).map(operations).collect();
        // A tool that is free in its operations may have it: the end tells.
        let Some(known) = known else { continue };
        let mut known = known.concat();
        known.sort_unstable();
        known.dedup();
        if !known.contains(&operation) {
            return refuse(unknown(
                &format!("thresholds[{index}].operation: the operation"),
                operation,
                &known,
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::run;
    use serde_json::{Value, json};

    fn refusal(change: impl FnOnce(&mut BenchmarkRunSpec)) -> String {
        let mut run = run(&["write", "read"], 1);
        change(&mut run.spec);
        check(&run.spec).err().map(|error| error.to_string()).unwrap_or_default()
    }

    fn with(threshold: Value) -> String {
        refusal(|spec| spec.thresholds = vec![serde_json::from_value(threshold).unwrap()])
    }

    #[test]
    fn what_a_threshold_or_the_headline_misspells_is_told_with_what_may_be_meant() {
        let reported = refusal(|spec| spec.headline = Some("raed".into()));
        assert!(
            reported.contains(r#"headline: the phase "raed" does not exist: did you mean read?"#),
            "{reported}"
        );
        let reported = with(json!({"metric": "Errors", "phase": "wirte", "maximum": "0"}));
        assert!(
            reported.contains("thresholds[0].phase") && reported.contains("did you mean write?"),
            "{reported}"
        );
        let reported = with(json!({"metric": "Errors", "operation": "get", "maximum": "0"}));
        assert!(reported.contains("did you mean GET?"), "{reported}");
        let reported = with(json!({"metric": "Errors", "operation": "ZADD", "maximum": "0"}));
        assert!(reported.contains("does not exist: there are GET, "), "{reported}");
        let reported = with(json!({"metric": "Errors", "relativeTo": "Baseline", "maximum": "1"}));
        assert!(reported.contains("BenchmarkSuite with a baseline"), "{reported}");
    }

    #[test]
    fn what_a_tool_may_have_is_not_refused() {
        assert_eq!(with(json!({"metric": "P99Milliseconds", "operation": "TOTAL", "maximum": "1"})), "");
        let reported = refusal(|spec| {
            let threshold = json!({"metric": "Errors", "phase": "read", "operation": "HGET", "maximum": "0"});
            spec.thresholds = vec![serde_json::from_value(threshold).unwrap()];
            let loadgen = json!({"duration": "4s", "operations": [{"command": "HGET __key__ f"}]});
            spec.phases[1].loadgen = Some(serde_json::from_value(loadgen).unwrap());
        });
        assert_eq!(reported, "", "only its author knows what the command is called in the result");
    }
}
