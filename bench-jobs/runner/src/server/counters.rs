//! A server's counters, out of its INFO. Pure.

use crate::server::info::{Info, listed_number};
use dragstrip_results::observed::{CommandCounter, MainThreadTime, ServerCounters};
use std::collections::BTreeMap;

/// All counters of one INFO answer, of the process that `run_id` identifies.
pub fn read_counters(info: &Info, run_id: String) -> ServerCounters {
    ServerCounters {
        run_id,
        commands: commands(info),
        commands_processed: info.number("total_commands_processed"),
        errors: info.errors().cloned().unwrap_or_default(),
        counts_errors: counts_errors(info),
        evicted_keys: info.number("evicted_keys").unwrap_or_default(),
        expired_keys: info.number("expired_keys").unwrap_or_default(),
        keyspace_hits: info.number("keyspace_hits").unwrap_or_default(),
        keyspace_misses: info.number("keyspace_misses").unwrap_or_default(),
        connections_received: info.number("total_connections_received").unwrap_or_default(),
        main_thread: main_thread(info),
    }
}

/// What Valkey has reported since 9.1, because its main thread spins while it waits.
fn main_thread(info: &Info) -> Option<MainThreadTime> {
    let micros = |name| seconds_in_micros(info.text(name)?);
    let cpu_micros = micros("used_cpu_user_main_thread")?.checked_add(micros("used_cpu_sys_main_thread")?)?;
    Some(MainThreadTime { active_micros: micros("used_active_time_main_thread")?, cpu_micros })
}

/// Seconds with six digits after the point, as INFO has them.
fn seconds_in_micros(text: &str) -> Option<u64> {
    let (seconds, micros) = text.split_once('.').filter(|(_, micros)| micros.len() == 6)?;
    seconds.parse::<u64>().ok()?.checked_mul(1_000_000)?.checked_add(micros.parse().ok()?)
}

/// Whether the server counts its error replies, by their kind or by the command that failed.
fn counts_errors(info: &Info) -> bool {
    let failures = |(_, list): (&str, &str)| listed_number(list, "failed_calls").is_some();
    info.errors().is_some() || info.with_prefix("cmdstat_").any(failures)
}

fn commands(info: &Info) -> BTreeMap<String, CommandCounter> {
    info.with_prefix("cmdstat_")
        .map(|(command, list)| {
            let number = |name| listed_number(list, name).unwrap_or_default();
            let counter = CommandCounter {
                calls: number("calls"),
                failed: number("failed_calls"),
                rejected: number("rejected_calls"),
            };
            (command.to_lowercase(), counter)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dragonfly_counts_calls_only() {
        let text = include_str!("../../tests/fixtures/dragonfly/info_all_after_memtier_2t.txt");
        let counters = read_counters(&Info::parse(text), String::new());
        assert_eq!(counters.commands["set"], CommandCounter { calls: 239_331, failed: 0, rejected: 0 });
        assert_eq!(counters.commands["get"].calls, 121_436);
        assert_eq!(counters.commands_processed, Some(360_769));
        assert_eq!((counters.keyspace_hits, counters.keyspace_misses), (121_436, 0));
        assert!(counters.counts_errors, "its section of errors is there, and empty");
    }

    #[test]
    fn redis_reports_failures_and_refusals_too() {
        let info = Info::parse(
            "cmdstat_get:calls=5,usec=9,usec_per_call=1.80,rejected_calls=2,failed_calls=1\n\
             cmdstat_config|get:calls=1,usec=9,usec_per_call=9.00,rejected_calls=0,failed_calls=0\n\
             # Errorstats\nerrorstat_NOAUTH:count=2\nerrorstat_OOM:count=7",
        );
        let counters = read_counters(&info, String::new());
        assert_eq!(counters.commands["get"], CommandCounter { calls: 5, failed: 1, rejected: 2 });
        assert!(counters.commands.contains_key("config|get"));
        assert_eq!(counters.errors, BTreeMap::from([("NOAUTH".to_owned(), 2), ("OOM".to_owned(), 7)]));
    }

    #[test]
    fn dragonflys_errors_have_no_prefix_and_may_be_complete_sentences() {
        let counters = read_counters(
            &Info::parse(
                "# Stats\r\ntotal_connections_received:9\r\n\r\n# Errorstats\r\n-MOVED 7 10.0.0.1:6379:5\r\n\
                 syntax error:2\r\nOut of memory:1200\r\n\r\n# Keyspace\r\ndb0:keys=5\r\n",
            ),
            String::new(),
        );
        assert!(counters.counts_errors);
        let expected = [("-MOVED 7 10.0.0.1:6379", 5), ("syntax error", 2), ("Out of memory", 1200)];
        let expected = expected.map(|(kind, count)| (kind.to_owned(), count));
        assert_eq!((counters.errors, counters.connections_received), (BTreeMap::from(expected), 9));
    }

    #[test]
    fn valkey_reports_for_how_long_its_main_thread_had_work() {
        let text = "# CPU\r\nused_cpu_sys:9.000001\r\nused_cpu_sys_main_thread:3.000014\r\n\
                    used_cpu_user_main_thread:2.718281\r\n";
        let read = |active: &str| read_counters(&Info::parse(&format!("{text}{active}")), String::new());
        let expected = MainThreadTime { active_micros: 5_000_123, cpu_micros: 5_718_295 };
        assert_eq!(read("used_active_time_main_thread:5.000123").main_thread, Some(expected));
        assert_eq!(read("").main_thread, None, "Redis and older Valkeys do not");
    }

    #[test]
    fn a_server_without_statistics_has_none() {
        let counters = read_counters(&Info::parse("total_commands_processed:N/A"), String::new());
        assert_eq!(counters.commands_processed, None);
        assert!(counters.commands.is_empty() && !counters.counts_errors);
    }
}
