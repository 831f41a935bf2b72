//! A suite to its plan, if every run of it may be made. Pure.

use super::{
    expand::{self, Plan, spec_of},
    rights::{Refused, Written},
};
use crate::policy::Policy;
use dragstrip_crds::BenchmarkSuite;

/// A suite that is not measured; the message names the field and the remedy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// It cannot be measured as declared.
    #[error(transparent)]
    Declared(#[from] expand::Invalid),
    /// One of its runs must not be made.
    #[error("the run of {cell} is refused: {why}")]
    Refused {
        /// Its combination.
        cell: String,
        /// Why.
        #[source]
        why: Refused,
    },
    /// The apiserver would not take its runs.
    #[error("{0}")]
    Rejected(String),
    /// Its report would not fit in the operator's memory.
    #[error(
        "{runs} runs: the report of so many needs about {needed_mebibytes} MiB of the operator's memory, which may take {limit_mebibytes}: leave values out, lower repetitions, make several suites, or raise resources.limits.memory of Dragstrip's chart"
    )]
    TooLarge {
        /// How many it has.
        runs: usize,
        /// What they need.
        needed_mebibytes: u64,
        /// What there is.
        limit_mebibytes: u64,
    },
    /// The schedule is none.
    #[error("spec.schedule: {0}")]
    Schedule(String),
}

const MIB: u64 = 1 << 20;
/// What the operator takes beside suites, with ten thousand runs that have ended (docs/scale.md).
const BESIDES_BYTES: u64 = 56 * MIB;
/// What each run of a suite takes when the report is made: 35 KiB with three phases, measured
/// with 1,000 and with 2,500 of them.
const REPORTED_RUN_BYTES: u64 = 40 << 10;

/// Whether the report of `plan` can be made with `limit` bytes of memory: an operator that is
/// killed for it would be started and killed again, and look after nothing any more.
pub fn fits(plan: &Plan, limit: u64) -> Result<(), Invalid> {
    let runs = plan.order.len();
    let needed = (runs as u64).saturating_mul(REPORTED_RUN_BYTES).saturating_add(BESIDES_BYTES);
    if needed <= limit {
        return Ok(());
    }
    Err(Invalid::TooLarge { runs, needed_mebibytes: needed.div_ceil(MIB), limit_mebibytes: limit / MIB })
}

/// What of `suite` is to be measured.
pub fn validate(suite: &BenchmarkSuite, policy: &Policy) -> Result<Plan, Invalid> {
    let plan = expand::plan(suite)?;
    let written = Written::of(&suite.spec);
    for cell in &plan.cells {
        let run = spec_of(suite, cell)?;
        let refused = |why| Invalid::Refused { cell: cell.words.clone(), why };
        written.check(policy, &run).map_err(refused)?;
    }
    Ok(plan)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::expand::{plan, tests::suite_of};
    use serde_json::{Value, json};

    #[test]
    fn a_suite_whose_report_would_end_the_operator_is_refused_before_it_begins() {
        let values: Vec<Value> = (1..=100).map(|value| json!({"value": value})).collect();
        let of = |repetitions: u32| {
            let axis = json!({"name": "pipeline", "paths": ["/phases/0/memtier/pipeline"], "values": values});
            let phase = json!({"name": "read", "memtier": {"testTime": "1s"}});
            plan(&suite_of(json!({
                "variants": [{"name": "v", "target": {"external": {"address": "10.0.0.1:6379"}}}],
                "run": {"phases": [phase]}, "axes": [axis], "repetitions": repetitions, "maxRuns": 10_000
            })))
            .unwrap()
        };
        assert_eq!(fits(&of(10), 128 << 20), Ok(()), "the default maxRuns fits the chart's limit");
        let told = fits(&of(20), 128 << 20).unwrap_err().to_string();
        assert!(told.starts_with("2000 runs: the report of so many needs about 135 MiB"), "{told}");
        assert!(told.contains("may take 128") && told.contains("resources.limits.memory"), "{told}");
    }
}
