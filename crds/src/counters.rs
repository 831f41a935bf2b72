//! The server's own counters against the tools' counts. Pure.
//!
//! Compared per command where the engine keeps command statistics, by the total
//! of processed commands where it does not (looser: probes and handshakes are
//! in it), and not at all where it keeps neither (Garnet without metrics) or
//! for a cluster, whose nodes count apart. What could not be compared is seen in
//! the recorded counters. A runner compares for a single client; for several,
//! only the operator knows all counts.

use crate::{observed::ServerCounters, result::OperationResult, units::thousands};
use std::collections::BTreeMap;

/// Relative difference between two counts of the same thing that is let pass.
const TOLERANCE: f64 = 0.001;
/// The same where the server's count holds other commands too.
const TOTAL_TOLERANCE: f64 = 0.01;
/// Commands besides the load's that a total may hold: handshakes, probes, INFO.
const TOTAL_SLACK: u64 = 1000;

/// How the counts were compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Agreement {
    /// Command by command.
    PerCommand,
    /// By the total of processed commands.
    Total,
    /// The engine keeps no such counters.
    Unknown,
}

/// Two counts that should be the same and are not.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the server counted {} {what}, the tool {}: one of them is wrong, or somebody else uses the server", thousands(*server), thousands(*tool))]
pub struct Disagreement {
    what: String,
    server: u64,
    tool: u64,
}

/// Compares the tool's counts with the server's. The server may have answered
/// up to `in_flight` requests more than the tool saw replies of, when the load
/// was ended by the clock.
pub fn counters_agree(
    operations: &[OperationResult],
    in_flight: u64,
    before: &ServerCounters,
    after: &ServerCounters,
) -> Result<Agreement, Disagreement> {
    if !after.commands.is_empty() {
        for (command, tool) in by_command(operations) {
            let server = calls(after, &command).saturating_sub(calls(before, &command));
            let agree = within(server, tool, TOLERANCE, in_flight);
            agree.then_some(()).ok_or_else(|| Disagreement { what: command.to_uppercase(), server, tool })?;
        }
        return Ok(Agreement::PerCommand);
    }
    let (Some(first), Some(last)) = (before.commands_processed, after.commands_processed) else {
        return Ok(Agreement::Unknown);
    };
    let tool = operations.iter().map(|operation| operation.count + operation.errors).sum();
    let server = last.saturating_sub(first);
    if within(server, tool, TOTAL_TOLERANCE, in_flight + TOTAL_SLACK) {
        Ok(Agreement::Total)
    } else {
        Err(Disagreement { what: "commands".to_owned(), server, tool })
    }
}

/// Replies of all kinds by command, without those never used.
fn by_command(operations: &[OperationResult]) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for operation in operations {
        *counts.entry(operation.operation.to_lowercase()).or_default() += operation.count + operation.errors;
    }
    counts.retain(|_, count| *count > 0);
    counts
}

/// Runs of a command, and refusals before it ran: each answers a request.
fn calls(counters: &ServerCounters, command: &str) -> u64 {
    counters.commands.get(command).map_or(0, |counter| counter.calls + counter.rejected)
}

fn within(server: u64, tool: u64, tolerance: f64, more: u64) -> bool {
    let difference = tool as f64 * tolerance;
    let (server, tool) = (server as f64, tool as f64);
    server >= tool - difference && server <= tool + difference + more as f64
}

/// What several clients saw of one server as one look: before the load the
/// smallest of each count, after it the largest.
pub fn joined<'a>(
    looks: impl Iterator<Item = &'a ServerCounters>,
    choose: fn(u64, u64) -> u64,
) -> Option<ServerCounters> {
    looks.cloned().reduce(|mut joined, look| {
        for (command, counter) in look.commands {
            let entry = joined.commands.entry(command).or_insert(counter);
            entry.calls = choose(entry.calls, counter.calls);
            entry.failed = choose(entry.failed, counter.failed);
            entry.rejected = choose(entry.rejected, counter.rejected);
        }
        joined.commands_processed =
            joined.commands_processed.zip(look.commands_processed).map(|(a, b)| choose(a, b));
        joined
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{histogram::LatencySummary, observed::CommandCounter};

    fn operation(name: &str, count: u64, errors: u64) -> OperationResult {
        OperationResult {
            operation: name.into(),
            count,
            hits: None,
            misses: None,
            errors,
            bytes: 0,
            latency_milliseconds: LatencySummary::default(),
            histogram: None,
            per_second: Vec::new(),
            reported_operations_per_second: None,
        }
    }

    fn counters(commands: &[(&str, u64, u64)], processed: Option<u64>) -> ServerCounters {
        let commands = commands.iter().map(|(name, calls, rejected)| {
            ((*name).to_owned(), CommandCounter { calls: *calls, failed: 0, rejected: *rejected })
        });
        ServerCounters {
            commands: commands.collect(),
            commands_processed: processed,
            ..ServerCounters::default()
        }
    }

    #[test]
    fn per_command_counts_must_agree() {
        let before = counters(&[("set", 1_000, 0)], None);
        for (server, tool, in_flight, agree) in [
            (10_000, 10_000, 0, true),
            (10_010, 10_000, 0, true),
            (10_011, 10_000, 0, false),
            (9_990, 10_000, 0, true),
            (9_989, 10_000, 0, false),
            (10_060, 10_000, 50, true),
            (10_061, 10_000, 50, false),
            // In flight explains more on the server's side, never less.
            (9_980, 10_000, 50, false),
            (0, 10_000, 50, false),
        ] {
            let after = counters(&[("set", 1_000 + server, 0)], None);
            let verdict = counters_agree(&[operation("SET", tool, 0)], in_flight, &before, &after);
            assert_eq!(verdict.is_ok(), agree, "{server} {tool} {in_flight}: {verdict:?}");
        }
    }

    #[test]
    fn failed_and_refused_requests_are_requests() {
        let after = counters(&[("get", 900, 100), ("info", 3, 0)], None);
        let operations = [operation("GET", 800, 200), operation("SET", 0, 0)];
        let verdict = counters_agree(&operations, 0, &counters(&[], None), &after);
        assert_eq!(verdict, Ok(Agreement::PerCommand));
    }

    #[test]
    fn a_disagreement_shows_both_counts() {
        let after = counters(&[("get", 1_500, 0)], None);
        let error =
            counters_agree(&[operation("GET", 12_000, 0)], 0, &counters(&[], None), &after).unwrap_err();
        assert!(error.to_string().contains("the server counted 1,500 GET, the tool 12,000"), "{error}");
    }

    #[test]
    fn without_command_statistics_the_total_counts() {
        let operations = [operation("GET", 500_000, 0), operation("SET", 500_000, 0)];
        let verdict =
            |processed| counters_agree(&operations, 0, &counters(&[], Some(7)), &counters(&[], processed));
        assert_eq!(verdict(Some(1_000_500)), Ok(Agreement::Total));
        assert_eq!(verdict(Some(900_000)).unwrap_err().server, 899_993);
        assert_eq!(verdict(None), Ok(Agreement::Unknown));
    }

    #[test]
    fn looks_of_several_clients_span_the_whole_load() {
        let early = counters(&[("get", 10, 1)], Some(100));
        let late = counters(&[("get", 15, 1), ("set", 3, 0)], Some(120));
        let before = joined([&late, &early].into_iter(), u64::min).unwrap();
        assert_eq!((before.commands["get"].calls, before.commands_processed), (10, Some(100)));
        let after = joined([&early, &late].into_iter(), u64::max).unwrap();
        assert_eq!((after.commands["get"].calls, after.commands["set"].calls), (15, 3));
        assert_eq!(joined([].into_iter(), u64::max), None);
    }
}
