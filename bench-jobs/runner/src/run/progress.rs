//! Progress for people: one line a second on the runner's own stdout.

use crate::tool::Progress;
use dragstrip_crds::units::thousands;

/// Least time between two lines, in seconds; tools report about once a second.
const INTERVAL_SECONDS: f64 = 0.9;

/// Makes the lines. Pure.
#[derive(Debug, Default)]
pub struct Printer {
    last: Option<(f64, u64)>,
}

impl Printer {
    /// The line for a progress report `elapsed` seconds after the start line,
    /// if it is time for one.
    pub fn line(&mut self, elapsed: f64, progress: &Progress) -> Option<String> {
        let (since, operations) = self.last.unwrap_or((0.0, 0));
        let interval = elapsed - since;
        if interval < INTERVAL_SECONDS {
            return None;
        }
        self.last = Some((elapsed, progress.operations));
        // Operations per second of at most 2^64 operations are no negative number.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let rate = (progress.operations.saturating_sub(operations) as f64 / interval) as u64;
        Some(format!(
            "{elapsed:.0}s  {} ops/s  {} ops  {} errors",
            thousands(rate),
            thousands(progress.operations),
            thousands(progress.errors)
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
}
