//! A server's counters, out of its INFO. Pure.

use crate::server::info::{Info, listed_number};
use dragstrip_results::observed::{CommandCounter, ServerCounters};
use std::collections::BTreeMap;

/// All counters of one INFO answer, of the process that `run_id` identifies.
pub fn read_counters(info: &Info, run_id: String) -> ServerCounters {
    ServerCounters {
        run_id,
        commands: commands(info),
        commands_processed: info.number("total_commands_processed"),
        errors: errors(info),
        evicted_keys: info.number("evicted_keys").unwrap_or_default(),
        expired_keys: info.number("expired_keys").unwrap_or_default(),
        keyspace_hits: info.number("keyspace_hits").unwrap_or_default(),
        keyspace_misses: info.number("keyspace_misses").unwrap_or_default(),
        connections_received: info.number("total_connections_received").unwrap_or_default(),
    }
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

/// Redis writes `errorstat_ERR:count=2`, Dragonfly `errorstat_ERR:2` or a complete
/// sentence, which may hold colons, in the place of ERR.
fn errors(info: &Info) -> BTreeMap<String, u64> {
    info.with_prefix("errorstat_")
        .filter_map(|(kind, value)| {
            let (more, count) =
                value.rsplit_once(':').map_or((None, value), |(more, count)| (Some(more), count));
            let kind = more.map_or_else(|| kind.to_owned(), |more| format!("{kind}:{more}"));
            Some((kind, listed_number(count, "count").or_else(|| count.parse().ok())?))
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
    }

    #[test]
    fn redis_reports_failures_and_refusals_too() {
        let info = Info::parse(
            "cmdstat_get:calls=5,usec=9,usec_per_call=1.80,rejected_calls=2,failed_calls=1\n\
             cmdstat_config|get:calls=1,usec=9,usec_per_call=9.00,rejected_calls=0,failed_calls=0\n\
             errorstat_NOAUTH:count=2\nerrorstat_OOM:7",
        );
        let counters = read_counters(&info, String::new());
        assert_eq!(counters.commands["get"], CommandCounter { calls: 5, failed: 1, rejected: 2 });
        assert!(counters.commands.contains_key("config|get"));
        assert_eq!(counters.errors, BTreeMap::from([("NOAUTH".to_owned(), 2), ("OOM".to_owned(), 7)]));
    }

    #[test]
    fn errors_may_be_complete_sentences() {
        let counters = read_counters(
            &Info::parse(
                "errorstat_-MOVED 7 10.0.0.1:6379:5\nerrorstat_syntax error:2\ntotal_connections_received:9",
            ),
            String::new(),
        );
        let expected = [("-MOVED 7 10.0.0.1:6379".to_owned(), 5), ("syntax error".to_owned(), 2)];
        assert_eq!((counters.errors, counters.connections_received), (BTreeMap::from(expected), 9));
    }

    #[test]
    fn a_server_without_statistics_has_none() {
        let counters = read_counters(&Info::parse("total_commands_processed:N/A"), String::new());
        assert_eq!(counters.commands_processed, None);
        assert!(counters.commands.is_empty());
    }
}
