//! Progress for people: one line a second on the runner's own stdout.

use crate::tools::adapter::Progress;
use dragstrip_crds::units::{thousands, whole};
use dragstrip_results::live::LatencyCounts;

/// Least time between two lines, in seconds; tools report about once a second.
const INTERVAL_SECONDS: f64 = 0.9;

/// Makes the lines. Pure.
#[derive(Debug, Default)]
pub struct Printer {
    last: Option<(f64, u64)>,
    latencies: LatencyCounts,
}

impl Printer {
    /// The progress line `elapsed` seconds after the start line, if one is due.
    pub fn line(&mut self, elapsed: f64, progress: &Progress) -> Option<String> {
        let (since, operations) = self.last.unwrap_or((0.0, 0));
        let interval = elapsed - since;
        if interval < INTERVAL_SECONDS {
            return None;
        }
        self.last = Some((elapsed, progress.operations));
        let rate = whole(progress.operations.saturating_sub(operations) as f64 / interval);
        let p99 = progress.latency.and_then(|now| {
            let p99 = now.since(&self.latencies).quantile_seconds(0.99);
            self.latencies = now;
            p99.map(|seconds| format!("  p99 {:.3} ms", seconds * 1e3))
        });
        Some(format!(
            "{elapsed:.0}s  {} ops/s  {} ops  {} errors{}",
            thousands(rate),
            thousands(progress.operations),
            thousands(progress.errors),
            p99.unwrap_or_default()
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_a_second_with_the_rate_since_the_last() {
        let mut printer = Printer::default();
        let at = |operations| Progress { operations, ..Progress::default() };
        assert_eq!(printer.line(0.2, &at(5)), None);
        assert_eq!(printer.line(1.0, &at(60_000)).unwrap(), "1s  60,000 ops/s  60,000 ops  0 errors");
        assert_eq!(printer.line(1.5, &at(90_000)), None);
        assert_eq!(printer.line(3.0, &at(180_000)).unwrap(), "3s  60,000 ops/s  180,000 ops  0 errors");
    }
    #[test]
    fn a_tool_that_reports_latencies_has_their_p99_since_the_last_line() {
        let mut printer = Printer::default();
        let mut latency = LatencyCounts::default();
        latency.counts[4] = 100;
        let progress = Progress { operations: 100, latency: Some(latency), ..Progress::default() };
        let line = printer.line(1.0, &progress).unwrap();
        assert!(line.ends_with("0 errors  p99 0.125 ms"), "{line}");
        let same = printer.line(2.0, &progress).unwrap();
        assert!(same.ends_with("0 errors"), "nothing came since: {same}");
    }
}
