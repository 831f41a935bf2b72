//! Look-aside caches: a SET follows each GET that missed, and is counted apart.

use std::collections::BTreeSet;

use dragstrip_loadgen::counts::report::Report;
use dragstrip_results::result::Operation;

use crate::support::{RedisServer, Running, latencies, run, run_mix};
use nix::sys::signal::Signal;

const FILL: &str = "SET (miss)";

fn completed(server: &RedisServer, options: &str) -> Report {
    let ended = run(server.port, &format!("ratio=0:1 onMiss=Set {options}"));
    assert_eq!(ended.code, 0, "{ended:?}");
    ended.report()
}

fn row<'a>(report: &'a Report, name: &str) -> &'a Operation {
    report.operation(name).unwrap_or_else(|| panic!("no {name} in {:?}", report.operations))
}

/// Each miss has a SET, the server saw them all, and no figure of the GETs has them in it.
fn assert_filled(report: &Report, server: &RedisServer) {
    let (get, fill) = (row(report, "GET"), row(report, FILL));
    assert_eq!(Some(fill.count), get.misses, "a miss was not filled, or filled twice");
    assert_eq!((latencies(get), latencies(fill)), (get.count, fill.count));
    assert_eq!(server.answered(), report.commands);
    let rate = get.count as f64 / report.window_seconds;
    assert!((report.totals.operations_per_second / rate - 1.0).abs() < 1e-9, "{:?}", report.totals);
    assert_eq!(report.totals.count + report.totals.errors, report.totals.requests);
    let series = report.hit_series.as_ref().unwrap();
    let sums = (series.hits.iter().sum(), series.misses.iter().sum());
    assert_eq!((Some(sums.0), Some(sums.1)), (get.hits, get.misses));
}

#[test]
fn a_cold_cache_is_filled_with_each_key_that_was_missed() {
    let server = RedisServer::start(&[]);
    // Each connection reads its keys once, and once more.
    let options = "threads=2 connectionsPerThread=2 pipeline=5 keyPattern=Sequential keyMaximum=399 \
        requestsPerConnection=200 dataSize=100";
    let report = completed(&server, options);
    assert_filled(&report, &server);
    let get = row(&report, "GET");
    assert_eq!((get.count, get.hits, get.misses), (800, Some(400), Some(400)));
    assert!(server.ask(&["DBSIZE"]).starts_with(":400\r\n"), "{}", server.ask(&["DBSIZE"]));
    assert!(server.ask(&["STRLEN dragstrip-399"]).starts_with(":100\r\n"), "the value has another size");
    let fill = row(&report, FILL);
    assert!(fill.bytes > 400 * 100, "the values are not in the bytes: {fill:?}");
}

#[test]
fn a_cache_that_evicts_reads_what_it_still_has() {
    let server = RedisServer::start(&["--maxmemory", "4mb", "--maxmemory-policy", "allkeys-lru"]);
    // Some 3 MB are for keys of 600 bytes: one in twenty, but the popular ones.
    let options = "connectionsPerThread=8 pipeline=4 keyPattern=Zipfian keyMaximum=99999 dataSize=500 \
        warmup=1s duration=3s";
    let report = completed(&server, options);
    assert_filled(&report, &server);
    let get = row(&report, "GET");
    let ratio = get.hits.unwrap() as f64 / get.count as f64;
    assert!((0.35..0.9).contains(&ratio), "{:.1} % of the reads found their key", ratio * 100.0);
    assert!(report.warmup.as_ref().unwrap().operations[FILL] > 0, "{:?}", report.warmup);
    assert!(server.info("stats", "evicted_keys:") > 100, "nothing was evicted");
    let series = report.hit_series.as_ref().unwrap();
    assert!((3..=4).contains(&series.hits.len()), "{series:?}");
    println!("hit ratio {ratio:.3}, by the second {:?}", series.ratios().collect::<Vec<_>>());
}

#[test]
fn an_open_loop_keeps_its_schedule_and_fills_beside_it() {
    let server = RedisServer::start(&[]);
    let options =
        "connectionsPerThread=3 keyMaximum=9999 rate.operationsPerSecond=2000 duration=1s warmup=200ms";
    let report = completed(&server, options);
    assert_filled(&report, &server);
    let schedule = report.schedule.as_ref().unwrap();
    assert_eq!((schedule.scheduled, schedule.sent, schedule.answered), (2000, 2000, 2000));
    assert_eq!(schedule.unanswered, 0, "{schedule:?}");
    assert_eq!(report.due_per_second, [2000]);
    let get = row(&report, "GET");
    assert_eq!(get.count, 2000, "a fill took the place of a request");
    assert!(get.misses > Some(500), "{get:?}");
}

#[test]
fn written_keys_have_the_lifetime_of_the_load() {
    let server = RedisServer::start(&[]);
    let options =
        "connectionsPerThread=2 requestsPerConnection=200 keyMaximum=999 expiry=60s expiryMaximum=90s";
    let report = completed(&server, options);
    assert_filled(&report, &server);
    let life = |_| -> u64 {
        let key = server.ask(&["RANDOMKEY"]);
        let answer = server.ask(&[&format!("TTL {}", key.lines().nth(1).unwrap())]);
        let life = answer.lines().next().and_then(|line| line.strip_prefix(':')?.parse().ok());
        life.unwrap_or_else(|| panic!("{key}: {answer}"))
    };
    let lives: BTreeSet<u64> = (0..40).map(life).collect();
    assert!(lives.iter().all(|life| (50..=90).contains(life)), "keys live for {lives:?} seconds");
    assert!(lives.len() > 5, "all keys expire at once: {lives:?}");
}

#[test]
fn only_gets_of_a_mix_are_followed() {
    let server = RedisServer::start(&[]);
    let options = "connectionsPerThread=2 requestsPerConnection=300 keyMaximum=9999 pipeline=3 onMiss=Set";
    let ended = run_mix(server.port, options, &["Get weight=2", "Mget keys=2", "Exists"]);
    assert_eq!(ended.code, 0, "{ended:?}");
    let report = ended.report();
    assert_eq!(Some(row(&report, FILL).count), row(&report, "GET").misses);
    assert!(row(&report, "MGET").misses > Some(0), "{report:?}");
    assert_eq!(server.answered(), report.commands);
    let names: Vec<_> = report.operations.iter().map(|operation| operation.name.as_str()).collect();
    assert_eq!(names, ["GET", "MGET", "EXISTS", FILL]);
}

#[test]
fn a_full_server_that_refuses_the_sets_fails_the_run() {
    let server = RedisServer::start(&["--maxmemory", "3mb", "--maxmemory-policy", "noeviction"]);
    let options = "ratio=0:1 onMiss=Set requestsPerConnection=500 connectionsPerThread=4 keyMaximum=99999 dataSize=9000";
    let ended = run(server.port, options);
    assert_eq!(ended.code, 10, "{ended:?}");
    let report = ended.report();
    let (get, fill) = (row(&report, "GET"), row(&report, FILL));
    assert!(fill.errors > 0 && get.errors == 0, "{fill:?}");
    assert_eq!(Some(fill.count + fill.errors), get.misses);
    assert_eq!((report.errors[0].operation.as_str(), report.errors[0].kind.as_str()), (FILL, "OOM"));
}

#[test]
fn a_load_that_is_stopped_has_a_set_for_each_miss_but_those_in_flight() {
    let server = RedisServer::start(&[]);
    let options = "ratio=0:1 onMiss=Set connectionsPerThread=4 pipeline=2 duration=60s progressInterval=50ms \
        keyMaximum=99999999";
    let mut running = Running::start(server.port, options, None);
    running.until_loading();
    running.signal(Signal::SIGTERM);
    let ended = running.wait();
    assert_eq!(ended.code, 143, "{ended:?}");
    let report = ended.report();
    let left = row(&report, "GET").misses.unwrap() - row(&report, FILL).count;
    assert_eq!(left, 0, "each batch ends with the SETs of its misses");
    assert_eq!(server.answered(), report.commands);
}

#[test]
fn replies_that_never_come_are_not_counted_as_filled() {
    let server = RedisServer::start(&[]);
    let options = "ratio=0:1 onMiss=Set connectionsPerThread=4 rate.operationsPerSecond=1000 duration=2s drain=200ms \
        keyMaximum=99999999 progressInterval=50ms";
    let mut running = Running::start(server.port, options, None);
    running.until_loading();
    server.signal(Signal::SIGSTOP);
    let ended = running.wait();
    server.signal(Signal::SIGCONT);
    let report = ended.report();
    let (get, fill) = (row(&report, "GET"), row(&report, FILL));
    let schedule = report.schedule.as_ref().unwrap();
    assert_eq!(schedule.answered, get.count, "fills are in the schedule");
    let unanswered = get.misses.unwrap() - fill.count;
    assert!(schedule.unanswered > 0, "the server answered all: {schedule:?}");
    assert_eq!(latencies(fill), fill.count + unanswered, "the wait of a SET in flight is in its latency");
}
