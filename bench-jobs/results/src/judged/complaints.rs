//! What a server itself counts besides calls: requests that it answered
//! with errors, and keys that it evicted. A tool may count both as operations. Pure.

use super::{commands::introduces, limits};
use crate::measured::observed::ServerCounters;
use std::collections::BTreeMap;

/// Error replies that are not a failure: a client follows the redirection, or sends the script.
const EXPECTED: [&str; 3] = ["MOVED", "ASK", "NOSCRIPT"];
/// Error replies that a client's introduction may cause: a command or protocol that the server does not know,
/// in the words of Redis, Valkey and KeyDB, and of Dragonfly (`COMMAND DOCS Not Implemented`, to redis-cli).
const UNKNOWN: [&str; 5] = ["ERR", "NOPROTO", "unknown_cmd", "Unknown", "COMMAND"];

/// Error replies that a server gave while a load ran.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ErrorReplies {
    /// How many there were.
    pub count: u64,
    /// The same by their first word, if the server reports it; the words that clients expect are left out.
    pub kinds: BTreeMap<String, u64>,
}

/// The error replies between two readings of a server that were answers to load.
///
/// If the server reports for each command how often it failed, the commands by which clients
/// introduce themselves are left out; if it reports only errors, a few of those that an introduction may
/// cause are left out for each connection.
pub fn error_replies(before: &ServerCounters, after: &ServerCounters) -> ErrorReplies {
    let count = |counters: &ServerCounters, kind: &str| counters.errors.get(kind).copied().unwrap_or(0);
    let growth = after.errors.iter().map(|(kind, grown)| (kind, grown.saturating_sub(count(before, kind))));
    let (expected, kinds): (BTreeMap<_, _>, BTreeMap<_, _>) = growth
        .filter(|(_, count)| *count > 0)
        .map(|(kind, count)| (kind.clone(), count))
        .partition(|(kind, _)| EXPECTED.contains(&first_word(kind)));
    let (introductions, load): (Vec<_>, Vec<_>) = after
        .commands
        .keys()
        .map(|command| (command, failures(after, command).saturating_sub(failures(before, command))))
        .partition(|(command, _)| introduces(command));
    let sum = |failed: Vec<(&String, u64)>| failed.into_iter().map(|(_, count)| count).sum::<u64>();
    let attributed = sum(load).saturating_sub(expected.values().sum());
    let others = kinds.values().sum::<u64>().saturating_sub(attributed + sum(introductions));
    let connections = after.connections_received.saturating_sub(before.connections_received);
    let unknown = kinds.iter().filter(|(kind, _)| UNKNOWN.contains(&first_word(kind)));
    let refused = unknown.map(|(_, count)| count).sum::<u64>().min(others);
    let forgiven = refused <= connections.saturating_mul(limits::REFUSED_PER_CONNECTION);
    let count = attributed + if forgiven { others - refused } else { others };
    ErrorReplies { count, kinds: if count > 0 { kinds } else { BTreeMap::new() } }
}

/// Keys evicted between two readings of a server.
pub fn evicted_keys(before: &ServerCounters, after: &ServerCounters) -> u64 {
    after.evicted_keys.saturating_sub(before.evicted_keys)
}

/// Dragonfly counts by complete sentences: `-MOVED 5 10.0.0.1`.
fn first_word(kind: &str) -> &str {
    kind.trim_start_matches('-').split_whitespace().next().unwrap_or_default()
}

fn failures(counters: &ServerCounters, command: &str) -> u64 {
    counters.commands.get(command).map_or(0, |counter| counter.failed + counter.rejected)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measured::observed::CommandCounter;

    fn look(failed: &[(&str, u64, u64)], errors: &[(&str, u64)], connections: u64) -> ServerCounters {
        let commands = failed.iter().map(|(name, failed, rejected)| {
            ((*name).to_owned(), CommandCounter { calls: 1000, failed: *failed, rejected: *rejected })
        });
        ServerCounters {
            commands: commands.collect(),
            errors: errors.iter().map(|(kind, count)| ((*kind).to_owned(), *count)).collect(),
            connections_received: connections,
            ..ServerCounters::default()
        }
    }

    #[test]
    fn only_errors_that_answer_load_are_counted() {
        type Row<'a> = (&'a str, &'a [(&'a str, u64, u64)], &'a [(&'a str, u64)], u64);
        let table: [Row<'_>; 12] = [
            ("nothing happened", &[("get", 1, 2)], &[("ERR", 10)], 0),
            ("a command failed", &[("get", 4, 2)], &[("ERR", 10), ("WRONGTYPE", 3)], 3),
            ("a command was refused", &[("get", 1, 7)], &[("ERR", 10), ("OOM", 5)], 5),
            (
                "a client sent a command that its server does not know",
                &[("client|setinfo", 9, 0)],
                &[("ERR", 19)],
                0,
            ),
            ("an old server without kinds", &[("get", 2, 2)], &[], 1),
            ("a new server without commands: three connections", &[], &[("ERR", 22)], 0),
            ("a command that the server does not know", &[], &[("ERR", 23)], 13),
            ("slots were found, and scripts sent", &[("get", 3, 5)], &[("MOVED", 2), ("NOSCRIPT", 3)], 0),
            ("a full Dragonfly: three connections", &[], &[("ERR", 10), ("Out of memory", 6)], 6),
            ("Dragonfly does not know how clients introduce themselves", &[], &[("unknown_cmd", 6)], 0),
            ("redis-cli introduces itself", &[], &[("ERR", 10), ("COMMAND DOCS Not Implemented", 1)], 0),
            ("Dragonfly's sentences", &[], &[("-MOVED 5 10.0.0.1", 99), ("syntax error", 50)], 50),
        ];
        let before = look(&[("get", 1, 2)], &[("ERR", 10)], 5);
        for (sentence, failed, errors, expected) in table {
            let found = error_replies(&before, &look(failed, errors, 8));
            assert_eq!(found.count, expected, "{sentence}: {found:?}");
        }
        let kinds = error_replies(&before, &look(&[("get", 1, 7)], &[("OOM", 5), ("ASK", 1)], 8)).kinds;
        assert_eq!(kinds, BTreeMap::from([("OOM".to_owned(), 5)]), "without those that clients expect");
    }
}
