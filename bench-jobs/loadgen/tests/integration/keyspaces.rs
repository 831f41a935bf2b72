//! Keyspaces of several types in one load: each operation has its own keys, sizes and lifetimes, and its own row.

use std::collections::BTreeSet;

use dragstrip_loadgen::counts::report::Report;

use crate::support::{RedisServer, run, run_mix};

/// Two connections write each key once: 5 rounds of 37 requests.
const FILL: &str = "connectionsPerThread=2 requestsPerConnection=185 keyPattern=Sequential pipeline=4";
const KEYSPACES: [&str; 5] = [
    "keyPrefix=session: keyMaximum=99 weight=10 dataSize=50 dataSizeMaximum=80 expiry=60s expiryMaximum=90s \
     command HSET __key__ user 7 data __data__",
    "keyPrefix=player: keyMaximum=49 weight=5 command ZADD board 5 __key__",
    "keyPrefix=queue: keyMaximum=9 dataSize=9 command LPUSH __key__ __data__",
    "keyPrefix=log: keyMaximum=9 command XADD __key__ * line __data__",
    "Set keyPrefix=page: keyMaximum=199 weight=20 dataSize=1000 dataSizeMaximum=8000",
];

fn filled(server: &RedisServer) -> Report {
    let ended = run_mix(server.port, FILL, &KEYSPACES);
    assert_eq!(ended.code, 0, "{ended:?}");
    ended.report()
}

fn number(server: &RedisServer, command: &str) -> u64 {
    let answer = server.ask(&[command]);
    let number = answer.lines().next().and_then(|line| line.strip_prefix(':')?.parse().ok());
    number.unwrap_or_else(|| panic!("{command}: {answer}"))
}

#[test]
fn each_keyspace_is_written_by_its_own_command_and_counted_by_itself() {
    let server = RedisServer::start(&[]);
    let report = filled(&server);
    let rows: Vec<_> =
        report.operations.iter().map(|row| (row.name.as_str(), row.count, row.errors)).collect();
    let expected = [
        ("HSET session:*", 100, 0),
        ("ZADD player:*", 50, 0),
        ("LPUSH queue:*", 10, 0),
        ("XADD log:*", 10, 0),
        ("SET page:*", 200, 0),
    ];
    assert_eq!(rows, expected);
    assert_eq!(report.commands["expire"], 100, "{:?}", report.commands);
    assert_eq!(server.answered(), report.commands);
    for (command, count) in [
        ("DBSIZE", 100 + 1 + 10 + 10 + 200),
        ("ZCARD board", 50),
        ("HLEN session:99", 2),
        ("LLEN queue:3", 1),
        ("XLEN log:9", 1),
        ("EXISTS page:0 page:199 session:0", 3),
    ] {
        assert_eq!(number(&server, command), count, "{command}");
    }
    assert!(server.ask(&["TTL page:5"]).starts_with(":-1\r\n"), "a page has the lifetime of a session");
}

#[test]
fn sizes_and_lifetimes_are_those_of_each_keyspace() {
    let server = RedisServer::start(&[]);
    filled(&server);
    let of = |command: fn(u64) -> String| -> BTreeSet<u64> {
        (0..100).map(|key| number(&server, &command(key))).collect()
    };
    let pages = of(|key| format!("STRLEN page:{key}"));
    let sessions = of(|key| format!("HSTRLEN session:{key} data"));
    let lives = of(|key| format!("TTL session:{key}"));
    for (what, found, least, most) in
        [("pages", pages, 1000, 8000), ("sessions", sessions, 50, 80), ("lifetimes", lives, 50, 90)]
    {
        assert!(found.iter().all(|one| (least..=most).contains(one)), "{what}: {found:?}");
        assert!(found.len() > 10, "{what} are all alike: {found:?}");
    }
}

#[test]
fn reads_of_two_keyspaces_have_each_their_own_hits() {
    let server = RedisServer::start(&[]);
    filled(&server);
    let options = "connectionsPerThread=2 requestsPerConnection=60 pipeline=5";
    let reads = [
        "Get keyPrefix=page: keyMaximum=199 keyPattern=Zipfian",
        "Get keyPrefix=absent: keyMaximum=9",
        "Mget keys=2 keyPrefix=page: keyMaximum=199",
        "keyPrefix=session: keyMaximum=99 command HGETALL __key__",
        "command ZREVRANGE board 0 9 WITHSCORES",
    ];
    let ended = run_mix(server.port, options, &reads);
    assert_eq!(ended.code, 0, "{ended:?}");
    let report = ended.report();
    let rows: Vec<_> =
        report.operations.iter().map(|row| (row.name.as_str(), row.hits, row.misses)).collect();
    let expected = [
        ("GET page:*", Some(24), Some(0)),
        ("GET absent:*", Some(0), Some(24)),
        ("MGET page:*", Some(48), Some(0)),
        ("HGETALL session:*", None, None),
        ("ZREVRANGE", None, None),
    ];
    assert_eq!(rows, expected);
    let series = report.hit_series.as_ref().unwrap();
    assert_eq!((series.hits.iter().sum::<u64>(), series.misses.iter().sum::<u64>()), (72, 24));
    assert_eq!(report.specification.unwrap().loadgen.operations[0].key_prefix.as_deref(), Some("page:"));
}

#[test]
fn values_of_an_open_loop_are_as_compressible_as_declared() {
    let server = RedisServer::start(&[]);
    let options = "connectionsPerThread=2 ratio=1:0 keyPattern=Sequential keyPrefix=v keyMaximum=9 dataSize=2000 \
        compressibility=\"0.5\" rate.operationsPerSecond=500 duration=200ms";
    let ended = run(server.port, options);
    assert_eq!(ended.code, 0, "{ended:?}");
    for key in 0..10 {
        let repeated = server.ask(&[&format!("GETRANGE v{key} 1000 -1")]);
        assert!(repeated.contains(&format!("\r\n{}\r\n", "x".repeat(1000))), "{repeated}");
    }
    let digest = |key: u64| {
        let script = "return redis.sha1hex(redis.call('getrange',KEYS[1],0,999))";
        server.ask(&[&format!("EVAL \"{script}\" 1 v{key}")])
    };
    let random: BTreeSet<String> = (0..10).map(digest).collect();
    assert_eq!(random.len(), 10, "values share their random bytes: {random:?}");
}
