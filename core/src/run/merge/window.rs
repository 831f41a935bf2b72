//! The time in which every client was active, and what falls into it. Pure.

use dragstrip_results::result::{Operation, PodResult};
use std::ops::Range;

/// The window in which all clients sent load, in seconds after the earliest start by the operator's clock.
pub struct Common {
    origin: i64,
    begin: f64,
    end: f64,
    last_start: f64,
    pods: usize,
}

/// Share of a pod's operations that lie between `begin` and `end`, in seconds
/// after its own start: counted from the operations of each second, of which
/// those that are cut count in proportion; from the mean rate without such counts.
fn share(per_second: &[u64], seconds: f64, begin: f64, end: f64) -> f64 {
    if begin <= 0.0 && end >= seconds {
        return 1.0;
    }
    let total: u64 = per_second.iter().sum();
    if total == 0 {
        return if seconds > 0.0 { (end - begin).max(0.0) / seconds } else { 0.0 };
    }
    let inside = |(second, count): (usize, &u64)| {
        let from = second as f64;
        // The last second is as long as the load still ran in it.
        let to = (from + 1.0).min(seconds);
        let part = if to > from {
            (end.min(to) - begin.max(from)).max(0.0) / (to - from)
        } else if end >= seconds {
            1.0
        } else {
            0.0
        };
        *count as f64 * part
    };
    per_second.iter().enumerate().map(inside).sum::<f64>() / total as f64
}

impl Common {
    /// The window of `results`. Pods whose load never began are not in it.
    pub fn of(results: &[PodResult]) -> Self {
        let active: Vec<&PodResult> = results.iter().filter(|pod| pod.window.seconds > 0.0).collect();
        let origin = active.iter().map(|pod| pod.started_unix_nanos()).min().unwrap_or(0);
        // Differences of pods of one repetition are seconds: exact as floats.
        let start = |pod: &PodResult| (pod.started_unix_nanos() - origin) as f64 / 1e9;
        let last_start = active.iter().map(|pod| start(pod)).fold(0.0, f64::max);
        let end = active.iter().map(|pod| start(pod) + pod.window.seconds).fold(f64::INFINITY, f64::min);
        let end = if end.is_finite() { end } else { 0.0 };
        Self { origin, begin: last_start, end: end.max(last_start), last_start, pods: active.len() }
    }

    pub fn seconds(&self) -> f64 {
        self.end - self.begin
    }

    /// From its begin to its end, in nanoseconds of Unix time by the operator's clock;
    /// `None` where there was no moment in which all sent load.
    pub fn unix_nanos(&self) -> Option<Range<i64>> {
        // Seconds of a load are far below the 292 years that fit.
        #[allow(clippy::cast_possible_truncation)]
        let at = |seconds: f64| self.origin.saturating_add((seconds * 1e9) as i64);
        (self.seconds() > 0.0).then(|| at(self.begin)..at(self.end))
    }

    /// From the first pod's start to the last one's.
    pub fn start_skew_seconds(&self) -> f64 {
        self.last_start
    }

    /// Whether several pods sent load, but never all at once.
    pub fn is_empty(&self) -> bool {
        self.pods > 1 && self.seconds() <= 0.0
    }

    /// Operations per second within the window, of `operation` of `pod`.
    pub fn rate(&self, pod: &PodResult, operation: &Operation) -> f64 {
        let width = self.seconds();
        if width <= 0.0 || pod.window.seconds <= 0.0 {
            return 0.0;
        }
        let start = (pod.started_unix_nanos() - self.origin) as f64 / 1e9;
        let per_second =
            if operation.per_second.is_empty() { &pod.per_second } else { &operation.per_second };
        let share = share(per_second, pod.window.seconds, self.begin - start, self.end - start);
        operation.count as f64 * share / width
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::pod_result;

    fn near(left: f64, right: f64) {
        assert!((left - right).abs() < 1e-6, "{left} is not {right}");
    }

    fn late(pod: &str, count: u64, seconds: f64, by_nanos: i64) -> PodResult {
        let mut result = pod_result(pod, count, seconds, 100);
        result.window.start_unix_nanos += by_nanos;
        result
    }

    #[test]
    fn the_common_window_is_where_all_were_active() {
        let common = Common::of(&[pod_result("a", 10, 2.0, 100), late("b", 10, 2.0, 500_000_000)]);
        near(common.begin, 0.5);
        near(common.end, 2.0);
        near(common.start_skew_seconds(), 0.5);
        assert!(!common.is_empty());
    }

    #[test]
    fn clock_offsets_are_taken_out() {
        let mut ahead = late("b", 10, 2.0, 3_000_000_000);
        ahead.window.clock_offset_seconds = 3.0;
        let common = Common::of(&[pod_result("a", 10, 2.0, 100), ahead]);
        near(common.start_skew_seconds(), 0.0);
        near(common.seconds(), 2.0);
    }

    #[test]
    fn the_window_is_in_the_operators_clock() {
        let mut ahead = late("b", 10, 2.0, 3_500_000_000);
        ahead.window.clock_offset_seconds = 3.0;
        let first = pod_result("a", 10, 2.0, 100);
        let start = first.window.start_unix_nanos;
        let window = Common::of(&[first, ahead]).unix_nanos();
        assert_eq!(window, Some(start + 500_000_000..start + 2_000_000_000));
        assert_eq!(Common::of(&[]).unix_nanos(), None);
    }

    #[test]
    fn loads_that_never_overlap_have_no_window() {
        let common = Common::of(&[pod_result("a", 10, 2.0, 100), late("b", 10, 2.0, 2_000_000_000)]);
        assert!(common.is_empty() && common.unix_nanos().is_none());
        let alone = Common::of(&[pod_result("a", 10, 2.0, 100)]);
        assert!(!alone.is_empty());
    }

    #[test]
    fn a_cut_second_counts_in_proportion() {
        // 10 in the first second, 20 in the second, 30 in the half second after it.
        let series = [10, 20, 30];
        near(share(&series, 2.5, 0.0, 2.5), 1.0);
        near(share(&series, 2.5, 0.0, 1.0), 10.0 / 60.0);
        near(share(&series, 2.5, 0.5, 1.5), (5.0 + 10.0) / 60.0);
        near(share(&series, 2.5, 2.25, 2.5), 15.0 / 60.0);
        near(share(&series, 2.0, 0.5, 2.0), 55.0 / 60.0);
    }

    #[test]
    fn without_a_series_the_mean_rate_counts() {
        near(share(&[], 4.0, 1.0, 2.0), 0.25);
        near(share(&[], 0.0, 0.0, 1.0), 1.0);
    }

    #[test]
    fn a_slow_end_outside_of_the_window_is_not_counted() {
        // Alone in its last second, a pod was quicker: that says nothing about all together.
        let mut long = pod_result("a", 400, 2.0, 100);
        long.operations[0].per_second = vec![100, 300];
        let short = pod_result("b", 100, 1.0, 100);
        let common = Common::of(&[long.clone(), short]);
        near(common.rate(&long, &long.operations[0]), 100.0);
    }
}
