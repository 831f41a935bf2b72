//! The progress lines in the logs of client pods: one a second. Pure.

/// What one pod does at a moment, or several together.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Live {
    /// Seconds since the start line.
    pub elapsed_seconds: u64,
    pub operations_per_second: f64,
    /// In the last second, if the tool prints it.
    pub p99_milliseconds: Option<f64>,
}

/// Reads a line such as `12s  60,000 ops/s  720,000 ops  0 errors  p99 0.500 ms`.
pub fn read(line: &str) -> Option<Live> {
    let mut parts = line.split("  ");
    let elapsed = parts.next()?.strip_suffix('s')?.parse().ok()?;
    let rate = parts.next()?.strip_suffix(" ops/s")?.replace(',', "").parse().ok()?;
    let p99 = parts.find_map(|part| part.strip_prefix("p99 ")?.strip_suffix(" ms")?.parse().ok());
    Some(Live { elapsed_seconds: elapsed, operations_per_second: rate, p99_milliseconds: p99 })
}

/// All pods together: the sum of their rates, and the worst of their latencies.
pub fn together<'a>(pods: impl Iterator<Item = &'a Live>) -> Live {
    pods.fold(Live::default(), |sum, one| Live {
        elapsed_seconds: sum.elapsed_seconds.max(one.elapsed_seconds),
        operations_per_second: sum.operations_per_second + one.operations_per_second,
        p99_milliseconds: match (sum.p99_milliseconds, one.p99_milliseconds) {
            (Some(a), Some(b)) => Some(a.max(b)),
            (a, b) => a.or(b),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_of_runners_are_read_with_and_without_latency() {
        let plain = read("12s  60,000 ops/s  720,000 ops  0 errors").unwrap();
        assert_eq!((plain.elapsed_seconds, plain.p99_milliseconds), (12, None));
        assert!((plain.operations_per_second - 60_000.0).abs() < 0.1, "{plain:?}");
        let timed = read("1s  5 ops/s  5 ops  0 errors  p99 0.500 ms").unwrap();
        assert_eq!(timed.p99_milliseconds, Some(0.5));
        for other in ["", "listening on 0.0.0.0:9181", "dragstrip-result: {}", "many  words  here"] {
            assert_eq!(read(other), None, "{other:?} is not progress");
        }
    }

    #[test]
    fn pods_together_are_as_fast_as_their_sum_and_as_slow_as_the_slowest() {
        let one = |rate, p99| Live { elapsed_seconds: 3, operations_per_second: rate, p99_milliseconds: p99 };
        let both = together([one(10.0, Some(0.5)), one(5.0, Some(0.25))].iter());
        assert_eq!(both, one(15.0, Some(0.5)));
        assert_eq!(together([one(10.0, None)].iter()), one(10.0, None));
    }
}
