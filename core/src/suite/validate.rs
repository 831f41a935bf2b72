//! A suite to its plan, if every run of it may be made. Pure.

use super::{
    expand::{self, Plan},
    rights::Written,
};
use dragstrip_crds::BenchmarkSuite;

/// Why a suite is not measured; the message names the field and the remedy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    #[error(transparent)]
    Declared(#[from] expand::Invalid),
    #[error("{0}")]
    Rejected(String),
    /// Its report needs more memory than the operator may use.
    #[error("{0}")]
    TooLarge(String),
    #[error("spec.schedule: {0}")]
    Schedule(String),
}

const MIB: u64 = 1 << 20;
/// What the operator uses beside suites: docs/scale.md measures 41 MiB with ten thousand finished
/// runs, and the rest is for its other work.
const BESIDES_BYTES: u64 = 56 * MIB;
/// What each run of a suite needs when the report is made, one at a time: 35 KiB with three
/// phases, measured with 1,000 and with 2,500 of them.
const REPORTED_RUN_BYTES: u64 = 40 << 10;
/// What a finished run needs, packed until the report of its suite is made.
const PACKED_RUN_BYTES: u64 = 8 << 10;

/// Whether the report of `runs` can be made with `limit` bytes of memory beside suites under way,
/// which have `others` each. Without this check the kernel would kill the operator again after every
/// restart.
pub fn fits(runs: u64, others: &[u64], limit: u64) -> Result<(), Invalid> {
    let all_others: u64 = others.iter().sum();
    let most = others.iter().fold(runs, |most, one| most.max(*one));
    let packed = (runs + all_others - most).saturating_mul(PACKED_RUN_BYTES);
    let needed = most.saturating_mul(REPORTED_RUN_BYTES).saturating_add(packed).saturating_add(BESIDES_BYTES);
    if needed <= limit {
        return Ok(());
    }
    let beside =
        if all_others == 0 { String::new() } else { format!(" beside {all_others} of other suites") };
    Err(Invalid::TooLarge(format!(
        "{runs} runs{beside}: the report of so many needs about {} MiB of the operator's memory, which may take {}: leave values out, lower repetitions, make several suites, or raise resources.limits.memory of Dragstrip's chart",
        needed.div_ceil(MIB),
        limit / MIB
    )))
}

pub fn validate(suite: &BenchmarkSuite) -> Result<Plan, expand::Invalid> {
    let written = Written::of(&suite.spec);
    expand::plan(suite, &|run| written.check(run))
}

/// What the started `suite` measures. Nothing but its rights is checked again, for patches and axes.
pub fn validate_started(suite: &BenchmarkSuite) -> Plan {
    let written = Written::of(&suite.spec);
    expand::plan_of_started(suite, &|run| written.check(run))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{spec, suite_of};
    use serde_json::json;

    #[test]
    fn a_suite_whose_report_would_end_the_operator_is_refused_before_it_begins() {
        assert_eq!(fits(1000, &[], 128 << 20), Ok(()), "the default maxRuns fits the chart's limit");
        let reported = fits(2000, &[], 128 << 20).unwrap_err().to_string();
        assert!(reported.starts_with("2000 runs: the report of so many needs about 135 MiB"), "{reported}");
        assert!(
            reported.contains("may take 128") && reported.contains("resources.limits.memory"),
            "{reported}"
        );
    }

    #[test]
    fn what_other_suites_keep_until_their_reports_counts_and_reports_are_made_one_at_a_time() {
        assert_eq!(fits(1000, &[1000, 1000], 128 << 20), Ok(()), "one report at a time");
        let reported = fits(1000, &[1800, 1000], 128 << 20).unwrap_err().to_string();
        assert!(reported.starts_with("1000 runs beside 2800 of other suites: "), "{reported}");
    }

    #[test]
    fn a_suite_that_has_started_goes_on_by_the_rules_that_it_was_taken_by() {
        let mut declared = spec();
        declared["maxRuns"] = json!(1);
        let suite = suite_of(declared.clone());
        assert!(validate(&suite).is_err(), "it would not be taken now");
        let plan = validate_started(&suite);
        assert_eq!((plan.order.len(), plan.unmeasurable), (16, None), "an upgrade or a limit ended it");

        declared["axes"][1]["values"][1]["value"] = json!("ten");
        let plan = validate_started(&suite_of(declared.clone()));
        assert_eq!(plan.order.len(), 16, "what was measured of it must be found");
        let reported = plan.unmeasurable.expect("runs that cannot be read can be made").to_string();
        assert!(reported.contains("spec.phases[0].memtier.pipeline: is of type string"), "{reported}");

        declared["axes"][1]["values"] = json!([{"name": "theirs", "patches": [{"path": "/clients/pod/serviceAccountName", "value": "admin"}]}]);
        let reported = validate_started(&suite_of(declared)).unmeasurable.unwrap().to_string();
        assert!(reported.contains("serviceAccountName admin"), "rights are checked again: {reported}");
    }
}
