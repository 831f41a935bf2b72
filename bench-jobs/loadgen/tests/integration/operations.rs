//! Every operation sends its command, and every command is counted.

use std::collections::BTreeMap;

use dragstrip_loadgen::counts::report::Report;

use crate::support::{RedisServer, latencies, run, run_mix};

fn completed(server: &RedisServer, options: &str, operations: &[&str]) -> Report {
    let ended = run_mix(server.port, options, operations);
    assert_eq!(ended.code, 0, "{ended:?}");
    ended.report()
}

fn found(report: &Report, name: &str) -> (u64, u64, u64) {
    let operation = report.operation(name).unwrap_or_else(|| panic!("no {name} in {:?}", report.operations));
    (operation.count, operation.hits.unwrap_or_default(), operation.misses.unwrap_or_default())
}

fn counts(pairs: &[(&str, u64)]) -> BTreeMap<String, u64> {
    pairs.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
}

#[test]
fn a_mix_keeps_its_weights_and_every_command_is_counted() {
    let server = RedisServer::start(&[]);
    let report = completed(
        &server,
        "connectionsPerThread=4 requestsPerConnection=240 pipeline=7 keyMaximum=99",
        &["Set weight=3 expiry=100s", "Set absoluteExpiry=true expiry=300s", "Get weight=4"],
    );
    assert_eq!(
        report.operations.iter().map(|operation| operation.count).collect::<Vec<_>>(),
        [360, 120, 480]
    );
    assert_eq!(report.operations[1].name, "SET#2");
    assert_eq!(report.commands, counts(&[("set", 480), ("get", 480)]));
    assert_eq!(server.answered(), report.commands);
    assert_eq!(report.specification.unwrap().loadgen.operations.len(), 3);
    let by_second: u64 = report.operations[2].per_second.iter().sum();
    assert_eq!(by_second, 480);
}

#[test]
fn commands_of_several_keys_count_their_hits_by_key() {
    let server = RedisServer::start(&[]);
    let keys = "connectionsPerThread=2 requestsPerConnection=50 keyPattern=Sequential keyMaximum=999";
    let written = completed(&server, keys, &["Mset keys=10"]);
    assert_eq!(found(&written, "MSET"), (100, 0, 0));
    assert!(server.ask(&["DBSIZE"]).starts_with(":1000\r\n"), "{}", server.ask(&["DBSIZE"]));
    let read = completed(
        &server,
        &format!("{keys} pipeline=5"),
        &[
            "Mget keys=10 weight=1",
            "Mget keys=3 missing=true",
            "Exists keys=5",
            "Exists missing=true",
            "Get missing=true",
        ],
    );
    assert_eq!(found(&read, "MGET"), (20, 200, 0));
    assert_eq!(found(&read, "MGET#2"), (20, 0, 60));
    assert_eq!(found(&read, "EXISTS"), (20, 100, 0));
    assert_eq!(found(&read, "EXISTS#2"), (20, 0, 20));
    assert_eq!(found(&read, "GET"), (20, 0, 20));
    let deleted = completed(&server, keys, &["Del keys=10"]);
    assert_eq!(found(&deleted, "DEL"), (100, 0, 0), "a DEL does not read");
    assert!(server.ask(&["DBSIZE"]).starts_with(":0\r\n"), "{}", server.ask(&["DBSIZE"]));
    assert_eq!(
        server.answered(),
        counts(&[("mset", 100), ("mget", 40), ("exists", 40), ("get", 20), ("del", 100), ("dbsize", 2)])
    );
}

#[test]
fn incr_counts_up_and_other_values_are_errors() {
    let server = RedisServer::start(&[]);
    let options = "connectionsPerThread=3 requestsPerConnection=100 pipeline=10 keyPrefix=n: keyMaximum=0";
    assert_eq!(found(&completed(&server, options, &["Incr"]), "INCR").0, 300);
    assert!(server.ask(&["GET n:0"]).contains("300"));
    server.ask(&["SET n:0 text"]);
    let ended = run_mix(server.port, options, &["Incr"]);
    assert_eq!(ended.code, 10, "{ended:?}");
    let report = ended.report();
    assert_eq!((report.errors[0].operation.as_str(), report.errors[0].kind.as_str()), ("INCR", "ERR"));
    assert_eq!(report.commands, counts(&[("incr", 300)]));
}

#[test]
fn expiries_are_absolute_and_batches_of_commands_are_one_operation() {
    let server = RedisServer::start(&[]);
    let options =
        "connectionsPerThread=2 requestsPerConnection=20 pipeline=3 keyPattern=Sequential keyMaximum=199";
    let report = completed(&server, options, &["MsetExpireat keys=5 expiry=300s"]);
    let batch = report.operation("MSET+EXPIREAT").unwrap();
    assert_eq!((batch.count, report.totals.requests, latencies(batch)), (40, 40, 40));
    assert_eq!(report.commands, counts(&[("mset", 40), ("expireat", 200)]));
    assert_eq!(server.answered(), report.commands);
    let keyspace = server.ask(&["INFO keyspace"]);
    assert!(keyspace.contains("keys=200,expires=200"), "{keyspace}");
    completed(
        &server,
        "requestsPerConnection=1 connectionsPerThread=1 keyPrefix=x keyMaximum=0",
        &["Set absoluteExpiry=true expiry=900s"],
    );
    let seconds: u64 =
        server.ask(&["TTL x0"]).trim_start_matches(':').lines().next().unwrap().parse().unwrap();
    assert!((880..=900).contains(&seconds), "{seconds}");
}

#[test]
fn templates_are_sent_as_written_and_told_apart() {
    let server = RedisServer::start(&[]);
    let report = completed(
        &server,
        "connectionsPerThread=1 requestsPerConnection=40 keyPrefix=h: keyMaximum=0 dataSize=5",
        &[
            "command HSET __key__ 'a field' __data__",
            "weight=2 command hset __key__ other \"v=__data__;\"",
            "command LPUSH list:__key__ __data__",
        ],
    );
    assert_eq!(
        report.operations.iter().map(|operation| operation.name.as_str()).collect::<Vec<_>>(),
        ["HSET", "HSET#2", "LPUSH"]
    );
    assert_eq!(report.commands, counts(&[("hset", 30), ("lpush", 10)]));
    assert_eq!(server.answered(), report.commands);
    let stored = server.ask(&["HGET h:0 \"a field\"", "HGET h:0 other", "LLEN list:h:0"]);
    assert!(stored.starts_with("$5\r\nxxxxx\r\n$8\r\nv=xxxxx;\r\n:10\r\n"), "{stored}");
}

#[test]
fn large_values_arrive_whole_and_are_not_copied_for_each_connection() {
    const SIZE: u64 = 48 * 1024 * 1024;
    let server = RedisServer::start(&[]);
    let options =
        "connectionsPerThread=8 requestsPerConnection=1 keyPattern=Sequential keyPrefix=big keyMaximum=7";
    let ended = run_mix(server.port, options, &[&format!("Set dataSize={SIZE}")]);
    assert_eq!(ended.code, 0, "{ended:?}");
    let set = ended.report().operation("SET").unwrap().clone();
    assert_eq!(set.count, 8);
    assert!(set.bytes > 8 * SIZE && set.bytes < 8 * SIZE + 1000, "{}", set.bytes);
    assert!(server.ask(&["STRLEN big0", "STRLEN big7"]).starts_with(&format!(":{SIZE}\r\n:{SIZE}\r\n")));
    let peak = ended.peak_bytes;
    assert!(peak < 3 * SIZE, "eight connections with values of {SIZE} bytes took {peak} bytes of memory");
    let read = completed(&server, options, &["Get"]);
    assert_eq!(found(&read, "GET"), (8, 8, 0));
}

#[test]
fn verification_counts_keys_and_says_when_some_are_missing() {
    let server = RedisServer::start(&[]);
    let keys = "keyPrefix=v: keyMinimum=5 keyMaximum=504";
    let load = format!("{keys} task=WriteKeys");
    assert_eq!(run(server.port, &load).code, 0);
    let complete = run(server.port, &format!("{keys} threads=2 task=VerifyKeys"));
    assert_eq!(complete.code, 0, "{complete:?}");
    let verified = complete.report().verified.unwrap();
    assert_eq!((verified.expected, verified.found), (500, 500));
    server.ask(&["DEL v:5 v:504 v:77"]);
    let partial = run(server.port, &format!("{keys} task=VerifyKeys"));
    assert_eq!(partial.code, 13, "{partial:?}");
    let verified = partial.report().verified.unwrap();
    assert_eq!((verified.expected, verified.found), (500, 497));
    assert!(partial.stderr.contains("error: only 497 of 500 keys exist"), "{}", partial.stderr);
    assert_eq!(server.calls("exists"), 1000);
}
