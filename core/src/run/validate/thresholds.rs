//! Rules over thresholds. Pure.

use dragstrip_crds::{BenchmarkRunSpec, near::did_you_mean, run::PhaseSpec, workload::ToolSpec};
use dragstrip_results::result::{FILL, TOTAL};

/// The operations that `phase` will have, if its declaration names all of them.
fn operations(phase: &PhaseSpec) -> Option<Vec<&'static str>> {
    let ratio = match &phase.tool {
        ToolSpec::Memtier(spec) if spec.commands.is_empty() && spec.extra_args.is_empty() => &spec.ratio,
        ToolSpec::Loadgen(spec) if spec.operations.is_empty() && spec.batch.is_none() => &spec.ratio,
        _ => return None,
    };
    let (sets, gets) = ratio.split_once(':')?;
    let sent = [(sets, "SET"), (gets, "GET")].into_iter().filter(|(share, _)| *share != "0");
    let fills = matches!(&phase.tool, ToolSpec::Loadgen(spec) if spec.on_miss.is_some());
    Some(sent.map(|(_, name)| name).chain(fills.then_some(FILL)).chain([TOTAL]).collect())
}

/// Why a threshold of `spec` can never hold: no phase that it is about has its operation.
pub fn problem(spec: &BenchmarkRunSpec) -> Option<String> {
    spec.thresholds.iter().enumerate().find_map(|(index, threshold)| {
        let operation = threshold.operation.as_deref()?;
        let about = |phase: &&PhaseSpec| threshold.phase.as_ref().is_none_or(|name| *name == phase.name);
        // The operations of some tools are known only after the run.
        let mut known =
            spec.phases.iter().filter(about).map(operations).collect::<Option<Vec<_>>>()?.concat();
        known.sort_unstable();
        known.dedup();
        (!known.contains(&operation)).then(|| {
            format!(
                "thresholds[{index}].operation: the operation {operation:?} does not exist: there are {}{}",
                known.join(", "),
                did_you_mean(operation, known.iter().copied())
            )
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::run;
    use serde_json::{Value, json};

    fn refusal(change: impl FnOnce(&mut BenchmarkRunSpec)) -> String {
        let mut run = run(&["write", "read"], 1);
        change(&mut run.spec);
        problem(&run.spec).unwrap_or_default()
    }

    fn with(threshold: Value) -> String {
        refusal(|spec| spec.thresholds = vec![serde_json::from_value(threshold).unwrap()])
    }

    #[test]
    fn a_misspelt_operation_is_refused_with_the_name_that_it_may_have_meant() {
        let reported = with(json!({"metric": "Errors", "operation": "get", "maximum": "0"}));
        assert!(reported.contains("did you mean GET?"), "{reported}");
        let reported = with(json!({"metric": "Errors", "operation": "ZADD", "maximum": "0"}));
        assert!(reported.contains("does not exist: there are GET, "), "{reported}");
    }

    #[test]
    fn what_a_tool_may_have_is_not_refused() {
        assert_eq!(with(json!({"metric": "P99Milliseconds", "operation": "TOTAL", "maximum": "1"})), "");
        let reported = refusal(|spec| {
            let threshold = json!({"metric": "Errors", "phase": "read", "operation": "HGET", "maximum": "0"});
            spec.thresholds = vec![serde_json::from_value(threshold).unwrap()];
            let loadgen = json!({"duration": "4s", "operations": [{"command": "HGET __key__ f"}]});
            spec.phases[1].tool = ToolSpec::Loadgen(serde_json::from_value(loadgen).unwrap());
        });
        assert_eq!(reported, "", "only its author knows what the command is called in the result");
    }
}
