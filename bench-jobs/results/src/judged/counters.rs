//! The server's own counters against the tools' counts. Pure.
//!
//! They are compared per command if the engine has command statistics, by the total
//! of processed commands if not (looser: probes and handshakes are in it), and not at all if it
//! has neither (Garnet without metrics). A cluster's nodes count separately: their sums are
//! compared. A runner compares for a single client; for several, only the operator knows all counts.

use super::{
    commands::{Account, Sent, introduces, runs_others},
    limits,
};
use crate::measured::observed::{CommandCounter, ServerCounters};
use dragstrip_crds::{units::thousands, workload::ToolSpec};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Agreement {
    PerCommand,
    /// By the total of processed commands.
    Total,
    /// The engine has no such counters, or the tools name no command.
    Unknown,
}

/// How the server's counts contradict the tools'.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Disagreement {
    #[error("the server counted {} {what}, the tool {}: one of them is wrong, or somebody else uses the server", thousands(*server), thousands(*tool))]
    Counts { what: String, server: u64, tool: u64 },
    #[error("the server answered {} {what} that no client of this run sent: keep other clients off the server", thousands(*count))]
    Foreign {
        /// The command that was sent most.
        what: String,
        count: u64,
    },
}

/// Whether what a client counted with `tool` may be compared with the server's own commands.
pub fn compared(tool: &ToolSpec) -> bool {
    match tool {
        ToolSpec::Loadgen(_) | ToolSpec::Memtier(_) | ToolSpec::Bullmq(_) => true,
        ToolSpec::Exec(spec) => spec.counter_check,
    }
}

/// Compares the commands that the tools say were answered with the server's own
/// counters. The server may have answered up to `in_flight` requests more than the
/// tools saw replies of, when the load was ended by the clock.
pub fn counters_agree(
    account: &Account,
    in_flight: u64,
    before: &ServerCounters,
    after: &ServerCounters,
) -> Result<Agreement, Disagreement> {
    let sent = account.sent();
    if sent.is_empty() {
        return Ok(Agreement::Unknown);
    }
    if !after.commands.is_empty() {
        for Sent { commands, count } in sent {
            let grown = |command: &String| calls(after, command).saturating_sub(calls(before, command));
            let server = commands.iter().map(grown).sum();
            if !within(server, *count, limits::COUNT_DIFFERENCE, in_flight) {
                let used = commands.iter().filter(|command| server == 0 || grown(command) > 0);
                let what = used.map(|command| command.to_uppercase()).collect::<Vec<_>>().join(" and ");
                return Err(Disagreement::Counts { what, server, tool: *count });
            }
        }
        foreign_commands(account, before, after)?;
        return Ok(Agreement::PerCommand);
    }
    // A total also contains what the tool does not count as a command.
    let known = account.others().next().is_none();
    let (Some(first), Some(last)) =
        (before.commands_processed.filter(|_| known), after.commands_processed.filter(|_| known))
    else {
        return Ok(Agreement::Unknown);
    };
    let tool = sent.iter().map(|sent| sent.count).sum();
    let server = last.saturating_sub(first);
    if within(server, tool, limits::TOTAL_DIFFERENCE, in_flight.saturating_add(limits::TOTAL_SLACK)) {
        Ok(Agreement::Total)
    } else {
        Err(Disagreement::Counts { what: "commands".to_owned(), server, tool })
    }
}

/// Finds commands that no client of the run sent, if they are more than those by which
/// clients introduce themselves and observers look. Scripts and operations without a command
/// send commands that no client counts.
fn foreign_commands(
    account: &Account,
    before: &ServerCounters,
    after: &ServerCounters,
) -> Result<(), Disagreement> {
    let ours: Vec<&String> = account.sent().iter().flat_map(|sent| &sent.commands).collect();
    if account.others().next().is_some() || ours.iter().any(|name| runs_others(name)) {
        return Ok(());
    }
    let sent = |name: &str| ours.iter().any(|command| is_part_of(name, command));
    // A primary deletes what expired or was evicted at its replicas too.
    let removed = |look: &ServerCounters| look.expired_keys + look.evicted_keys;
    let replicated = |name: &str| ["del", "unlink"].contains(&name) && removed(after) > removed(before);
    let names = after.commands.keys().filter(|name| !sent(name) && !introduces(name) && !replicated(name));
    let grown = |name: &String| {
        let count = |look: &ServerCounters| look.commands.get(name).map_or(0, |it| it.calls + it.rejected);
        count(after).saturating_sub(count(before))
    };
    let foreign: Vec<(u64, &String)> = names.map(|name| (grown(name), name)).collect();
    let count: u64 = foreign.iter().map(|(count, _)| count).sum();
    let load: u64 = account.sent().iter().map(|sent| sent.count).sum();
    let most = (load as f64 * limits::FOREIGN_COMMANDS).max(limits::TOTAL_SLACK as f64);
    match foreign.into_iter().max() {
        Some((_, name)) if count as f64 > most => {
            let what = format!("commands, mostly {},", name.to_uppercase());
            Err(Disagreement::Foreign { what, count })
        }
        _ => Ok(()),
    }
}

/// Runs of a command, and refusals before it ran: each answers a request. Some servers
/// count `memory|usage`, some `memory`.
fn calls(counters: &ServerCounters, command: &str) -> u64 {
    let counted = counters.commands.iter().filter(|(name, _)| is_part_of(name, command));
    counted.map(|(_, counter)| counter.calls + counter.rejected).sum()
}

/// Whether a server's counter called `name` counts uses of `command`.
fn is_part_of(name: &str, command: &str) -> bool {
    name.strip_prefix(command).is_some_and(|rest| rest.is_empty() || rest.starts_with('|'))
}

fn within(server: u64, tool: u64, tolerance: f64, more: u64) -> bool {
    let difference = tool as f64 * tolerance;
    let (server, tool) = (server as f64, tool as f64);
    server >= tool - difference && server <= tool + difference + more as f64
}

/// Several counters as one, with the first `run_id`: of several servers the sum of each count, of
/// what several clients read from one server the smallest before the load, the largest after it.
pub fn joined<'a>(
    counters: impl IntoIterator<Item = &'a ServerCounters>,
    join: fn(u64, u64) -> u64,
) -> Option<ServerCounters> {
    counters.into_iter().cloned().reduce(|mut joined, next| {
        for (command, counter) in next.commands {
            let both = |known: &mut CommandCounter| {
                known.calls = join(known.calls, counter.calls);
                known.failed = join(known.failed, counter.failed);
                known.rejected = join(known.rejected, counter.rejected);
            };
            joined.commands.entry(command).and_modify(both).or_insert(counter);
        }
        for (kind, count) in next.errors {
            joined.errors.entry(kind).and_modify(|known| *known = join(*known, count)).or_insert(count);
        }
        let processed = joined.commands_processed.zip(next.commands_processed);
        ServerCounters {
            counts_errors: joined.counts_errors && next.counts_errors,
            commands_processed: processed.map(|(known, more)| join(known, more)),
            evicted_keys: join(joined.evicted_keys, next.evicted_keys),
            expired_keys: join(joined.expired_keys, next.expired_keys),
            keyspace_hits: join(joined.keyspace_hits, next.keyspace_hits),
            keyspace_misses: join(joined.keyspace_misses, next.keyspace_misses),
            connections_received: join(joined.connections_received, next.connections_received),
            main_thread: None,
            ..joined
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::{Operation, PodResult};
    use std::collections::BTreeMap;

    fn used(commands: &[(&str, u64)]) -> Account {
        let mut result = result(&[]);
        result.commands = commands.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
        Account::of(&result)
    }

    fn result(operations: &[(&str, u64, u64)]) -> PodResult {
        let operation = |(name, count, errors): &(&str, u64, u64)| Operation {
            name: (*name).to_owned(),
            commands: crate::judged::commands::named(name).into_iter().collect(),
            count: *count,
            errors: *errors,
            ..Operation::default()
        };
        PodResult { operations: operations.iter().map(operation).collect(), ..PodResult::default() }
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
    fn what_may_be_in_flight_is_known() {
        let mut result = result(&[]);
        (result.tool.connections, result.tool.pipeline) = (20, 4);
        let tool = |json: &str| -> ToolSpec { serde_json::from_str(json).unwrap() };
        let timed = tool(r#"{"memtier": {"testTime": "5s"}}"#);
        assert_eq!(result.in_flight(&timed), 80);
        let counted = tool(r#"{"memtier": {"requestsPerConnection": 5}}"#);
        assert_eq!(result.in_flight(&counted), 0, "all replies are awaited");
        let theirs = tool(r#"{"exec": {"image": "i", "command": ["x"], "parser": {"goBench": {}}}}"#);
        assert_eq!(result.in_flight(&theirs), 80, "another tool's options are not known");
        assert_eq!(crate::result::in_flight(20, 4, 8), 640, "a connection to each shard");
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
            let verdict = counters_agree(&used(&[("set", tool)]), in_flight, &before, &after);
            assert_eq!(verdict.is_ok(), agree, "{server} {tool} {in_flight}: {verdict:?}");
        }
    }

    #[test]
    fn commands_that_no_client_sent_are_somebody_elses() {
        let verdict = |tool: &[(&str, u64)], server: &[(&str, u64)]| {
            let counted: Vec<_> = server.iter().map(|(name, calls)| (*name, *calls, 0)).collect();
            counters_agree(&used(tool), 0, &counters(&[], None), &counters(&counted, None))
        };
        let load = ("get", 1_000_000);
        let message = verdict(&[load], &[load, ("hget", 50_000), ("hset", 9)]).unwrap_err().to_string();
        assert!(
            message.contains("50,009 commands, mostly HGET, that no client of this run sent"),
            "{message}"
        );
        assert!(verdict(&[load], &[load, ("hget", 10_000)]).is_ok(), "1 % of the load");
        assert!(
            verdict(&[("get", 50)], &[("get", 50), ("replconf", 900)]).is_ok(),
            "what belongs to the server"
        );
        assert!(verdict(&[load], &[load, ("client|setinfo", 90_000)]).is_ok(), "introductions");
        let mut expired = counters(&[("get", 1_000_000, 0), ("del", 50_000, 0)], None);
        expired.expired_keys = 50_000;
        let ours = used(&[load]);
        assert!(counters_agree(&ours, 0, &counters(&[], None), &expired).is_ok(), "deletions at replicas");
        let script = ("evalsha", 1_000_000);
        assert!(verdict(&[script], &[script, ("hset", 9_000_000)]).is_ok(), "a script's own commands");
    }

    #[test]
    fn failed_and_refused_requests_are_requests() {
        let after = counters(&[("get", 900, 100), ("info", 3, 0)], None);
        let commands = Account::of(&result(&[("GET", 800, 200), ("SET", 0, 0)]));
        let verdict = counters_agree(&commands, 0, &counters(&[], None), &after);
        assert_eq!(verdict, Ok(Agreement::PerCommand));
    }

    #[test]
    fn what_the_tool_says_of_its_commands_stands_above_its_operations() {
        let mut result = result(&[("MSET+EXPIREAT", 10, 0), ("GET", 5, 0)]);
        result.commands =
            [("mset", 12), ("expireat", 120), ("get", 6), ("del", 0)].map(|(n, c)| (n.to_owned(), c)).into();
        let account = Account::of(&result);
        let after = counters(&[("mset", 12, 0), ("expireat", 120, 0), ("get", 6, 0)], None);
        assert!(counters_agree(&account, 0, &counters(&[], None), &after).is_ok());
        let after = counters(&[("mset", 12, 0), ("expireat", 100, 0), ("get", 6, 0)], None);
        let error = counters_agree(&account, 0, &counters(&[], None), &after).unwrap_err();
        assert!(error.to_string().contains("the server counted 100 EXPIREAT, the tool 120"), "{error}");
    }

    #[test]
    fn an_operation_may_be_any_of_several_commands_or_none() {
        let mut result =
            result(&[("SET", 30, 0), ("MEMORY", 9, 0), ("add-job", 700, 0), ("LRANGE_100 (first)", 4, 0)]);
        result.operations[0].commands = ["set", "setex", "setrange"].map(str::to_owned).to_vec();
        let account = Account::of(&result);
        let after =
            counters(&[("set", 10, 0), ("setex", 20, 0), ("memory|usage", 9, 0), ("lrange", 4, 0)], None);
        let verdict = counters_agree(&account, 0, &counters(&[], None), &after);
        assert_eq!(verdict, Ok(Agreement::PerCommand));
        let fewer = counters(&[("set", 1, 0), ("setex", 20, 0), ("memory", 9, 0), ("lrange", 4, 0)], None);
        let error = counters_agree(&account, 0, &counters(&[], None), &fewer).unwrap_err().to_string();
        assert!(error.contains("the server counted 21 SET and SETEX, the tool 30"), "{error}");
        let total = |processed| counters(&[], Some(processed));
        let verdict = counters_agree(&account, 0, &total(0), &total(900_000));
        assert_eq!(verdict, Ok(Agreement::Unknown), "a total holds the jobs' commands too");
        let jobs = Account::of(&self::result(&[("add-job", 700, 0)]));
        assert_eq!(counters_agree(&jobs, 0, &counters(&[], None), &after), Ok(Agreement::Unknown));
    }

    #[test]
    fn a_disagreement_shows_both_counts() {
        let after = counters(&[("get", 1_500, 0)], None);
        let error = counters_agree(&used(&[("get", 12_000)]), 0, &counters(&[], None), &after).unwrap_err();
        assert!(error.to_string().contains("the server counted 1,500 GET, the tool 12,000"), "{error}");
    }

    #[test]
    fn without_command_statistics_the_total_counts() {
        let commands = used(&[("get", 500_000), ("set", 500_000)]);
        let verdict =
            |processed| counters_agree(&commands, 0, &counters(&[], Some(7)), &counters(&[], processed));
        assert_eq!(verdict(Some(1_000_500)), Ok(Agreement::Total));
        let Err(Disagreement::Counts { server, .. }) = verdict(Some(900_000)) else { panic!("they agree") };
        assert_eq!(server, 899_993);
        assert_eq!(verdict(None), Ok(Agreement::Unknown));
    }

    #[test]
    fn shards_are_summed_command_by_command() {
        let mut first = counters(&[("get", 10, 1)], Some(100));
        first.run_id = "a".into();
        first.errors = BTreeMap::from([("OOM".to_owned(), 2)]);
        let mut second = counters(&[("get", 15, 1), ("set", 3, 0)], Some(20));
        second.errors = BTreeMap::from([("OOM".to_owned(), 1), ("ERR".to_owned(), 5)]);
        second.evicted_keys = 4;
        let summed = |servers: [&ServerCounters; 2]| joined(servers, |a, b| a + b).unwrap();
        let sum = summed([&first, &second]);
        assert_eq!((sum.commands["get"].calls, sum.commands["get"].rejected), (25, 2));
        assert_eq!((sum.commands["set"].calls, sum.commands_processed), (3, Some(120)));
        assert_eq!((sum.errors["OOM"], sum.errors["ERR"], sum.evicted_keys), (3, 5, 4));
        assert_eq!(sum.run_id, "a");
        // A shard without the count makes the total unknown, not smaller.
        assert_eq!(summed([&first, &counters(&[], None)]).commands_processed, None);
    }

    #[test]
    fn looks_of_several_clients_span_the_whole_load() {
        let early = counters(&[("get", 10, 1)], Some(100));
        let late = counters(&[("get", 15, 1), ("set", 3, 0)], Some(120));
        let before = joined([&late, &early], u64::min).unwrap();
        assert_eq!((before.commands["get"].calls, before.commands_processed), (10, Some(100)));
        let after = joined([&early, &late], u64::max).unwrap();
        assert_eq!((after.commands["get"].calls, after.commands["set"].calls), (15, 3));
        assert_eq!(joined([], u64::max), None);
    }
}
