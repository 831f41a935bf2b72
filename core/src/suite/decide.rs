//! The next step of a suite: a table of what is declared and how far its runs are. Pure.

use super::expand::Plan;
use dragstrip_crds::{BenchmarkSuiteSpec, suite::OnRunFailure};

/// How far one of the runs is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Child {
    /// It does not exist: not created yet, or deleted.
    Missing,
    UnderWay {
        cancelled: bool,
    },
    Ended {
        /// Whether it has no usable numbers.
        failed: bool,
    },
    /// It was cancelled with its suite, which does not count as a failure.
    Cancelled,
}

/// The part of the declaration that decides what is next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Declared {
    pub parallelism: usize,
    pub on_failure: OnRunFailure,
    pub suspend: bool,
    pub cancel: bool,
    /// Whether no further run can be created.
    pub unmeasurable: bool,
}

impl Declared {
    /// What `spec` declares, which has this `plan`.
    pub fn of(spec: &BenchmarkSuiteSpec, plan: &Plan) -> Self {
        Self {
            parallelism: usize::try_from(spec.parallelism).unwrap_or(1).max(1),
            on_failure: spec.on_failure,
            suspend: spec.suspend,
            cancel: spec.cancel,
            unmeasurable: plan.unmeasurable.is_some(),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    Completed,
    /// A run failed, and the suite stops on failure.
    Stopped,
    /// `spec.cancel` stopped it.
    Cancelled,
    Unmeasurable,
}

/// The next step. Runs are named by their places in the plan's order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    Make(Vec<usize>),
    Cancel(Vec<usize>),
    Wait,
    /// Wait for the runs under way, which are the last ones.
    Stopping,
    Suspended,
    Finish(Ending),
}

fn places(children: &[Child], wanted: impl Fn(Child) -> bool) -> Vec<usize> {
    children.iter().enumerate().filter(|(_, child)| wanted(**child)).map(|(place, _)| place).collect()
}

/// The next step of a suite whose runs, in the order of the plan, are `children`.
pub fn decide(declared: Declared, children: &[Child]) -> Step {
    let under_way = children.iter().filter(|child| matches!(child, Child::UnderWay { .. })).count();
    let mut missing = places(children, |child| child == Child::Missing);
    let failed = children.contains(&Child::Ended { failed: true });
    // Nothing is left to stop: the suite is complete, whatever is declared.
    if children.iter().all(|child| matches!(child, Child::Ended { .. })) {
        return Step::Finish(Ending::Completed);
    }
    if declared.cancel {
        let unstopped = places(children, |child| child == Child::UnderWay { cancelled: false });
        return match (unstopped.is_empty(), under_way) {
            (false, _) => Step::Cancel(unstopped),
            (true, 0) => Step::Finish(Ending::Cancelled),
            (true, _) => Step::Stopping,
        };
    }
    if missing.is_empty() {
        return Step::Wait;
    }
    if declared.unmeasurable || failed && declared.on_failure == OnRunFailure::Stop {
        let ending = if declared.unmeasurable { Ending::Unmeasurable } else { Ending::Stopped };
        return if under_way == 0 { Step::Finish(ending) } else { Step::Stopping };
    }
    if declared.suspend {
        return Step::Suspended;
    }
    missing.truncate(declared.parallelism.saturating_sub(under_way));
    if missing.is_empty() { Step::Wait } else { Step::Make(missing) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MISSING: Child = Child::Missing;
    const RUNS: Child = Child::UnderWay { cancelled: false };
    const STOPS: Child = Child::UnderWay { cancelled: true };
    const GOOD: Child = Child::Ended { failed: false };
    const BAD: Child = Child::Ended { failed: true };
    const PLAIN: Declared = Declared {
        parallelism: 1,
        on_failure: OnRunFailure::Continue,
        suspend: false,
        cancel: false,
        unmeasurable: false,
    };

    #[test]
    fn runs_are_made_in_order_as_many_as_may_be_under_way() {
        assert_eq!(decide(PLAIN, &[MISSING, MISSING]), Step::Make(vec![0]));
        assert_eq!(decide(PLAIN, &[RUNS, MISSING]), Step::Wait);
        assert_eq!(decide(PLAIN, &[GOOD, MISSING]), Step::Make(vec![1]), "what is done is not repeated");
        assert_eq!(
            decide(PLAIN, &[MISSING, GOOD]),
            Step::Make(vec![0]),
            "one that was deleted is made again"
        );
        let three = Declared { parallelism: 3, ..PLAIN };
        assert_eq!(decide(three, &[GOOD, RUNS, MISSING, MISSING, MISSING]), Step::Make(vec![2, 3]));
        assert_eq!(decide(PLAIN, &[GOOD, RUNS]), Step::Wait);
        assert_eq!(decide(PLAIN, &[GOOD, BAD]), Step::Finish(Ending::Completed));
    }

    #[test]
    fn a_run_that_failed_stops_the_others_where_that_is_declared() {
        let stop = Declared { on_failure: OnRunFailure::Stop, ..PLAIN };
        assert_eq!(decide(PLAIN, &[BAD, MISSING]), Step::Make(vec![1]));
        assert_eq!(decide(stop, &[BAD, MISSING]), Step::Finish(Ending::Stopped));
        assert_eq!(decide(stop, &[BAD, RUNS, MISSING]), Step::Stopping, "what is under way ends");
        assert_eq!(decide(stop, &[GOOD, BAD]), Step::Finish(Ending::Completed), "nothing is left to stop");
    }

    #[test]
    fn a_suspended_suite_makes_no_run_and_ends_when_none_is_missing() {
        let suspended = Declared { suspend: true, ..PLAIN };
        assert_eq!(decide(suspended, &[RUNS, MISSING]), Step::Suspended);
        assert_eq!(decide(suspended, &[GOOD, MISSING]), Step::Suspended);
        assert_eq!(decide(suspended, &[GOOD, GOOD]), Step::Finish(Ending::Completed));
    }

    #[test]
    fn a_cancelled_suite_stops_its_runs_and_ends_after_them() {
        let cancelled = Declared { cancel: true, suspend: true, ..PLAIN };
        assert_eq!(decide(cancelled, &[GOOD, RUNS, STOPS, MISSING]), Step::Cancel(vec![1]));
        assert_eq!(decide(cancelled, &[GOOD, STOPS, MISSING]), Step::Stopping);
        assert_eq!(decide(cancelled, &[GOOD, BAD, MISSING]), Step::Finish(Ending::Cancelled));
        assert_eq!(decide(cancelled, &[MISSING]), Step::Finish(Ending::Cancelled));
        assert_eq!(decide(cancelled, &[GOOD, Child::Cancelled]), Step::Finish(Ending::Cancelled));
        assert_eq!(
            decide(cancelled, &[GOOD, BAD]),
            Step::Finish(Ending::Completed),
            "it came too late: all runs had ended"
        );
    }

    #[test]
    fn a_suite_that_can_create_no_further_run_ends_with_its_results_and_can_be_cancelled() {
        let unmeasurable = Declared { unmeasurable: true, ..PLAIN };
        assert_eq!(decide(unmeasurable, &[GOOD, RUNS, MISSING]), Step::Stopping, "what is under way ends");
        assert_eq!(decide(unmeasurable, &[GOOD, MISSING]), Step::Finish(Ending::Unmeasurable));
        assert_eq!(decide(unmeasurable, &[GOOD, GOOD]), Step::Finish(Ending::Completed));
        let cancelled = Declared { cancel: true, ..unmeasurable };
        assert_eq!(decide(cancelled, &[GOOD, RUNS, MISSING]), Step::Cancel(vec![1]));
    }
}
