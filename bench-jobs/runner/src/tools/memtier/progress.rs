//! What memtier writes to stderr while it runs: how far it is, every error
//! reply, and the connection trouble that its exit code and its result file
//! both keep quiet about.

use crate::tools::adapter::Progress;
use dragstrip_crds::units::whole;
use dragstrip_parsers::memtier::replies::{count, error_reply, error_word};
use std::collections::BTreeMap;

/// Lines of a sort that are remembered.
const LINES: usize = 8;
const LINE_LENGTH: usize = 300;

/// Lines that report a broken or failed connection.
const TROUBLES: [&str; 6] = [
    "Connection error:",
    "connection dropped",
    "Connection timeout",
    "TLS connection error",
    "connect failed",
    "Failed to setup socket",
];
/// Lines that say nothing the others do not.
const ORDINARY: [&str; 13] = [
    "statsd: initialized",
    "[RUN ",
    "Json file ",
    "Writing ",
    "Saving JSON",
    "===",
    "---",
    "Maximum reconnection attempts",
    "Thread ",
    "Connection error, attempting",
    "Connection dropped, attempting",
    "Connection timeout, attempting",
    "Reconnection successful",
];

/// Everything worth remembering of one run's stderr.
#[derive(Debug, Clone, Default)]
pub struct Observed {
    /// Operations by the last progress line; error replies are among them.
    pub operations: u64,
    pub most_operations: u64,
    /// Progress lines since the number of operations last changed.
    pub idle_reports: u64,
    /// Whether the number of operations fell in a run: the tool dropped its numbers.
    pub fell_back: bool,
    /// Threads that were started over after their connections failed.
    pub restarts: u64,
    /// Error replies by their first word.
    pub error_replies: BTreeMap<String, u64>,
    pub first_error_reply: Option<String>,
    /// Connection trouble by the line that reported it.
    pub troubles: BTreeMap<String, u64>,
    /// Lines in which the tool says that something failed for good.
    pub complaints: Vec<String>,
    /// Other lines that belong to no undisturbed run.
    pub remarks: Vec<String>,
    run: u64,
    /// Bytes of the seconds so far, and the last of these: memtier prints the rate of each.
    bytes: f64,
    seconds: u64,
}

impl Observed {
    /// Reads one line, ended by CR or LF; returns the progress if the line reports it.
    pub fn take_in(&mut self, line: &str) -> Option<Progress> {
        let line = line.trim();
        if let Some(report) = Report::read(line) {
            self.advance(report.run, report.operations);
            return Some(Progress {
                operations: report.operations,
                errors: self.errors(),
                bytes: self.transferred(&report),
                connections: report.connections,
                ratio: report.percent.map(|percent| (percent / 100.0).clamp(0.0, 1.0)),
                latency: None,
            });
        }
        self.remember(line);
        None
    }

    pub fn errors(&self) -> u64 {
        self.error_replies.values().sum()
    }

    fn advance(&mut self, run: u64, operations: u64) {
        if run == self.run && operations < self.operations {
            self.fell_back = true;
        }
        let idle = run == self.run && operations == self.operations;
        self.idle_reports = if idle { self.idle_reports + 1 } else { 0 };
        self.run = run;
        self.operations = operations;
        self.most_operations = self.most_operations.max(operations);
    }

    /// Bytes so far, summed over seconds: the rates are rounded to three digits.
    fn transferred(&mut self, report: &Report) -> Option<u64> {
        let rate = report.bytes_per_second?;
        self.bytes += rate * report.seconds.saturating_sub(self.seconds) as f64;
        self.seconds = self.seconds.max(report.seconds);
        Some(whole(self.bytes))
    }

    fn remember(&mut self, line: &str) {
        if let Some(reply) = error_reply(line) {
            count(&mut self.error_replies, error_word(reply));
            self.first_error_reply.get_or_insert_with(|| cut(reply));
        } else if line.starts_with("Restarting thread ") {
            self.restarts += 1;
        } else if is_trouble(line) {
            count(&mut self.troubles, line.trim_end_matches('.'));
        } else if is_complaint(line) {
            keep(&mut self.complaints, line);
        } else if !line.is_empty() && !starts_with_any(line, &ORDINARY) {
            keep(&mut self.remarks, line);
        }
    }
}

/// The content of a progress line such as
/// `[RUN #1 10%,   1 secs]  2 threads  2 conns:  35878 ops,  35874 (avg: 35874) ops/sec, 1.49MB/sec (avg: ...`.
/// Early versions print no connections.
struct Report {
    run: u64,
    percent: Option<f64>,
    seconds: u64,
    connections: Option<u64>,
    operations: u64,
    bytes_per_second: Option<f64>,
}

impl Report {
    fn read(line: &str) -> Option<Self> {
        let after_run = line.strip_prefix("[RUN #")?;
        let (run, after_number) = after_run.split_once(' ')?;
        let (time, after_time) = after_number.split_once("secs]")?;
        let (percent, seconds) = time.split_once("%,").unwrap_or(("", time));
        let (clients, after_clients) = after_time.split_once(':')?;
        let (operations, after_operations) = after_clients.split_once(" ops,")?;
        let rate = after_operations.split_once(" ops/sec,").map_or("", |(_, rest)| rest);
        Some(Self {
            run: run.parse().ok()?,
            percent: percent.trim().parse().ok().filter(|percent: &f64| percent.is_finite()),
            seconds: seconds.trim().parse().unwrap_or_default(),
            connections: connections(clients),
            operations: operations.trim().parse().ok()?,
            bytes_per_second: rate.trim().split_once("/sec").and_then(|(rate, _)| bytes(rate)),
        })
    }
}

/// Connections of all threads that are at work: `2 threads  50 conns 4 conn errors`.
fn connections(clients: &str) -> Option<u64> {
    let words: Vec<&str> = clients.split_whitespace().collect();
    let [threads, "threads", each, "conns", ..] = words.as_slice() else { return None };
    threads.parse::<u64>().ok()?.checked_mul(each.parse().ok()?)
}

/// Bytes of `1.49MB`.
fn bytes(text: &str) -> Option<f64> {
    let units = [("KB", 1024.0), ("MB", 1024.0 * 1024.0), ("GB", 1024.0 * 1024.0 * 1024.0)];
    let (number, unit) = units.iter().find_map(|(name, unit)| Some((text.strip_suffix(name)?, unit)))?;
    number.parse::<f64>().ok().map(|number| number * unit).filter(|bytes| bytes.is_finite() && *bytes >= 0.0)
}

fn is_trouble(line: &str) -> bool {
    // "Connection timeout, attempting reconnection" follows the line that counts.
    starts_with_any(line, &TROUBLES) && !line.contains(", attempting ")
}

fn is_complaint(line: &str) -> bool {
    line.starts_with("error:") || line.contains(": error:") || line.ends_with("failed.")
}

fn starts_with_any(line: &str, prefixes: &[&str]) -> bool {
    prefixes.iter().any(|prefix| line.starts_with(prefix))
}

/// Every connection complains alike; once is enough.
fn keep(lines: &mut Vec<String>, line: &str) {
    let line = cut(line);
    if lines.len() < LINES && !lines.contains(&line) {
        lines.push(line);
    }
}

fn cut(line: &str) -> String {
    line.chars().take(LINE_LENGTH).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn observed(lines: &[&str]) -> Observed {
        let mut observed = Observed::default();
        for line in lines {
            observed.take_in(line);
        }
        observed
    }

    #[test]
    fn progress_is_read_from_the_lines_of_both_versions() {
        for line in [
            "[RUN #1 10%,   1 secs]  2 threads:       35878 ops,   35874 (avg:   35874) ops/sec, 1.49MB/sec",
            "[RUN #1 10%,   1 secs]  2 threads  2 conns:       35878 ops,   35874 (avg:   35874) ops/sec, 1.49MB/sec",
            "[RUN #1 33%,   1 secs]  2 threads  2 conns 4 conn errors:       35878 ops,   22617 (avg:   37858) ops/sec",
            "[RUN #1 150%,   7 secs]  0 threads  2 conns:       35878 ops,       0 (avg:    5833) ops/sec, -nan (avg:  0.69) msec",
        ] {
            let progress = Observed::default().take_in(line).unwrap();
            assert_eq!((progress.operations, progress.errors), (35878, 0), "{line}");
        }
    }

    #[test]
    fn progress_has_bytes_connections_and_how_much_is_done() {
        let line = |percent: u64, seconds: u64, rate: &str| {
            format!(
                "[RUN #1 {percent}%, {seconds:3} secs]  2 threads 50 conns:       35878 ops,   35874 (avg:   35874) ops/sec, {rate}/sec (avg: 1.49MB/sec),  0.11 (avg:  0.11) msec latency"
            )
        };
        let mut seen = Observed::default();
        let fields = |progress: Progress| (progress.bytes, progress.connections, progress.ratio);
        assert_eq!(
            fields(seen.take_in(&line(10, 1, "1.50MB")).unwrap()),
            (Some(1_572_864), Some(100), Some(0.1))
        );
        assert_eq!(
            fields(seen.take_in(&line(30, 3, "1.00KB")).unwrap()),
            (Some(1_574_912), Some(100), Some(0.3))
        );
        assert_eq!(
            fields(seen.take_in(&line(120, 3, "1.00GB")).unwrap()),
            (Some(1_574_912), Some(100), Some(1.0))
        );
        let early =
            "[RUN #1 10%,   1 secs]  2 threads:       35878 ops,   35874 (avg:   35874) ops/sec, -nan/sec";
        assert_eq!(fields(Observed::default().take_in(early).unwrap()), (None, None, Some(0.1)));
    }

    #[test]
    fn other_lines_report_no_progress() {
        for line in
            ["", "[RUN #1] Launching threads now...", "[RUN #1 10%, 1 secs] 2 threads: many ops,", "[RUN #"]
        {
            assert_eq!(Observed::default().take_in(line), None, "{line}");
        }
    }

    #[test]
    fn error_replies_are_counted_by_their_first_word() {
        let seen = observed(&[
            "server 127.0.0.1:7001 handle error response: -MOVED 9148 127.0.0.1:7102",
            "server 127.0.0.1:7001 handle error response: -OOM command not allowed",
            "server 127.0.0.1:7001 handle error response: -MOVED 8414 127.0.0.1:7102",
            "server 127.0.0.1:7001 handle error response: ",
        ]);
        let kinds: Vec<_> = seen.error_replies.iter().map(|(kind, count)| (kind.as_str(), *count)).collect();
        assert_eq!(kinds, [("MOVED", 2), ("OOM", 1), ("OTHER", 1)]);
        assert_eq!(seen.first_error_reply.as_deref(), Some("-MOVED 9148 127.0.0.1:7102"));
    }

    #[test]
    fn ever_new_kinds_of_errors_do_not_fill_the_memory() {
        let mut seen = Observed::default();
        for number in 0..10_000 {
            seen.take_in(&format!("server a:1 handle error response: -KIND{number} x"));
            seen.take_in(&format!("error: complaint {number}"));
            seen.take_in(&format!("remark {number} {}", "x".repeat(10_000)));
        }
        assert_eq!(seen.errors(), 10_000, "every error must be counted");
        assert!(seen.error_replies.len() < 100, "{} kinds", seen.error_replies.len());
        assert_eq!((seen.complaints.len(), seen.remarks.len()), (LINES, LINES));
        assert!(seen.remarks.iter().all(|remark| remark.chars().count() <= LINE_LENGTH));
    }

    #[test]
    fn operations_that_fall_within_a_run_mean_a_silent_restart() {
        let line =
            |run: u64, operations: u64| format!("[RUN #{run} 10%, 1 secs] 2 threads: {operations} ops, 1");
        assert!(observed(&[&line(1, 100), &line(1, 0)]).fell_back);
        assert!(
            !observed(&[&line(1, 100), &line(1, 100), &line(2, 0)]).fell_back,
            "a second run starts at 0"
        );
    }

    #[test]
    fn idle_reports_are_those_since_the_last_operation() {
        let line = |operations: u64| format!("[RUN #1 10%, 1 secs] 2 threads: {operations} ops, 1");
        let seen = observed(&[&line(5), &line(9), &line(9), &line(9)]);
        assert_eq!((seen.idle_reports, seen.operations), (2, 9));
    }

    #[test]
    fn trouble_is_distinguished_from_its_consequences() {
        let seen = observed(&[
            "Connection error: Connection refused",
            "Connection error, attempting reconnection 1/2 in 1.00 seconds...",
            "Maximum reconnection attempts (0) exceeded for Connection error, triggering thread restart.",
            "Thread 0 finished due to connection failures, requesting restart.",
            "Restarting thread 0 (restart #1)...",
            "Thread 0 restarted successfully.",
            "connection dropped.",
        ]);
        assert_eq!(
            seen.troubles.keys().collect::<Vec<_>>(),
            ["Connection error: Connection refused", "connection dropped"]
        );
        assert_eq!(seen.restarts, 1);
        assert!(seen.complaints.is_empty() && seen.remarks.is_empty(), "{seen:?}");
    }

    proptest! {
        #[test]
        fn no_line_makes_it_panic(lines in prop::collection::vec("(\\[RUN #)?\\PC{0,60}( secs\\])?(:)?[0-9]{0,30}( ops,)?", 0..20)) {
            let mut seen = Observed::default();
            for line in &lines {
                seen.take_in(line);
            }
        }
    }
}
