//! The counts of a run agree exactly with those of the server.

use dragstrip_loadgen::counts::report::{Report, RunStatus};
use dragstrip_results::live::LatencyCounts;

use crate::support::{RedisServer, Running, latencies, run, run_mix};

fn completed(server: &RedisServer, options: &str) -> Report {
    let ended = run(server.port, options);
    assert_eq!(ended.code, 0, "{ended:?}");
    let report = ended.report();
    assert_eq!(report.status, RunStatus::Completed);
    report
}

fn assert_consistent(report: &Report) {
    for operation in &report.operations {
        let name = &operation.name;
        assert_eq!(latencies(operation), operation.count, "{name}");
        assert_eq!(operation.per_second.iter().sum::<u64>(), operation.count, "{name}");
        assert!(operation.histogram.as_ref().unwrap().0.starts_with("HISTF"));
    }
    assert_eq!(report.totals.count + report.totals.errors, report.totals.requests);
}

#[test]
fn counts_agree_with_the_server_for_every_pattern() {
    let server = RedisServer::start(&[]);
    let mut expected = (0, 0, 0, 0);
    for pattern in ["Uniform", "Sequential", "Gaussian", "Zipfian"] {
        let report = completed(
            &server,
            &format!(
                "threads=2 connectionsPerThread=3 ratio=1:3 pipeline=7 requestsPerConnection=101 \
                 keyMaximum=300 keyPattern={pattern}"
            ),
        );
        assert_consistent(&report);
        assert_eq!(report.totals.requests, 2 * 3 * 101);
        let (set, get) = (report.operation("SET").unwrap(), report.operation("GET").unwrap());
        let (hits, misses) = (get.hits.unwrap(), get.misses.unwrap());
        assert_eq!(hits + misses, get.count);
        expected = (expected.0 + set.count, expected.1 + get.count, expected.2 + hits, expected.3 + misses);
    }
    assert_eq!((server.calls("set"), server.calls("get")), (expected.0, expected.1));
    assert_eq!(server.info("stats", "keyspace_hits:"), expected.2);
    assert_eq!(server.info("stats", "keyspace_misses:"), expected.3);
    assert!(expected.2 > 0 && expected.3 > 0, "{expected:?}");
}

#[test]
fn progress_lines_have_latencies_and_bytes_of_the_measured_part_on_request() {
    let server = RedisServer::start(&[]);
    let options = "threads=2 connectionsPerThread=3 warmup=300ms duration=900ms progressInterval=200ms";
    let ended = run(server.port, &format!("{options} progressDetail=true"));
    let report = ended.report();
    let lines: Vec<&str> = ended.stderr.lines().filter(|line| line.starts_with("progress ")).collect();
    let field = |line: &str, name: &str| -> String {
        let value = line.split(' ').find_map(|field| field.strip_prefix(name)?.strip_prefix('='));
        value.unwrap_or_else(|| panic!("no {name} in {line}")).to_owned()
    };
    let counts = |line: &&str| {
        LatencyCounts::read(&field(line, "latency_seconds"), &field(line, "latency_counts")).unwrap()
    };
    let last = lines.last().expect("there are progress lines");
    assert_eq!(field(last, "connections"), "6");
    let (printed, all) = (counts(last), report.totals.count);
    assert!(printed.count() > all / 3 && printed.count() <= all, "{} of {all}", printed.count());
    // A detail is a moment older than its line, and never younger.
    assert!(printed.count() <= field(last, "operations").parse().unwrap(), "{last}");
    assert!(field(last, "bytes").parse::<u64>().unwrap() > printed.count() * 20, "{last}");
    let mean = printed.seconds / printed.count() as f64;
    assert!(mean > 1e-6 && mean < 0.9, "a mean latency of {mean} s: {last}");
    let each: Vec<u64> = lines
        .iter()
        .filter(|line| line.contains("latency_counts="))
        .map(|line| counts(line).count())
        .collect();
    assert!(each.is_sorted() && each.len() > 2, "a counter only grows: {each:?}");
    let plain = run(server.port, options);
    assert!(
        !plain.stderr.contains("latency_counts"),
        "the specification does not declare it: {}",
        plain.stderr
    );
}

#[test]
fn a_sequential_pass_covers_every_key_exactly_once() {
    let server = RedisServer::start(&[]);
    let keys = "threads=2 connectionsPerThread=3 pipeline=10 keyPrefix=pass: keyMinimum=17 keyMaximum=1023";
    let written = completed(&server, &format!("{keys} task=WriteKeys"));
    assert_eq!(written.operation("SET").unwrap().count, 1007);
    assert!(server.ask(&["DBSIZE"]).starts_with(":1007\r\n"));
    assert!(server.ask(&["EXISTS pass:17 pass:1023 pass:16 pass:1024"]).starts_with(":2\r\n"));
    let read =
        completed(&server, &format!("{keys} keyPattern=Sequential ratio=0:1 requestsPerConnection=167"));
    let get = read.operation("GET").unwrap();
    // Some connections begin their second pass.
    assert_eq!((get.hits, get.misses), (Some(1002), Some(0)));
    assert_eq!(read.operations.len(), 1);
}

#[test]
fn resp3_nulls_are_misses_and_every_connection_says_hello() {
    let server = RedisServer::start(&[]);
    let report = completed(
        &server,
        "resp3=true connectionsPerThread=4 ratio=1:4 pipeline=5 requestsPerConnection=200 keyMaximum=99",
    );
    assert_consistent(&report);
    let get = report.operation("GET").unwrap();
    assert_eq!(Some(server.info("stats", "keyspace_misses:")), get.misses);
    assert!(get.misses > Some(0) && get.hits > Some(0));
    assert_eq!(server.calls("hello"), 4);
    assert!(report.specification.unwrap().loadgen.resp3);
}

#[test]
fn bytes_are_exact_even_when_batches_exceed_the_socket_buffers() {
    let server = RedisServer::start(&[]);
    let report = completed(
        &server,
        "connectionsPerThread=2 ratio=1:1 pipeline=20 requestsPerConnection=60 dataSize=400000 \
         keyPrefix=k keyMinimum=5 keyMaximum=5",
    );
    assert_consistent(&report);
    let (set, get) = (report.operation("SET").unwrap(), report.operation("GET").unwrap());
    assert_eq!((set.count, get.count), (60, 60));
    let framed_value = "$400000\r\n".len() + 400_000 + "\r\n".len();
    let written = 60 * ("*3\r\n$3\r\nSET\r\n$2\r\nk5\r\n".len() + framed_value) as u64;
    assert_eq!(set.bytes, written + 60 * 5);
    let queries = 60 * "*2\r\n$3\r\nGET\r\n$2\r\nk5\r\n".len() as u64;
    let replies = get.hits.unwrap() * framed_value as u64 + get.misses.unwrap() * 5;
    assert_eq!(get.bytes, queries + replies);
}

#[test]
fn expiries_reach_the_server() {
    let server = RedisServer::start(&[]);
    let ended = run_mix(server.port, "requestsPerConnection=10 keyMaximum=50", &["Set expiry=100s"]);
    assert_eq!(ended.code, 0, "{ended:?}");
    let keyspace = server.ask(&["INFO keyspace"]);
    let (keys, after) = keyspace.split_once("keys=").unwrap().1.split_once(",expires=").unwrap();
    assert_eq!(after.split(',').next().unwrap(), keys, "{keyspace}");
}

#[test]
fn replies_of_the_wrong_type_are_errors_by_kind() {
    let server = RedisServer::start(&[]);
    server.ask(&["LPUSH k:1 a", "LPUSH k:2 a"]);
    let ended = run(
        server.port,
        "connectionsPerThread=2 ratio=0:1 pipeline=10 requestsPerConnection=105 keyPrefix=k: keyMinimum=1 keyMaximum=2",
    );
    assert_eq!(ended.code, 10, "{ended:?}");
    let report = ended.report();
    assert_eq!(report.status, RunStatus::Completed);
    let get = report.operation("GET").unwrap();
    assert_eq!((get.count, get.errors, get.hits, get.misses), (0, 210, Some(0), Some(0)));
    assert_eq!(latencies(get), 0);
    assert_eq!((report.errors[0].kind.as_str(), report.errors[0].count), ("WRONGTYPE", 210));
    assert!(report.errors[0].first_message.starts_with("WRONGTYPE Operation against a key"));
    assert!(report.totals.operations_per_second.abs() < f64::EPSILON);
}

#[test]
fn a_full_server_is_counted_as_oom() {
    let server = RedisServer::start(&["--maxmemory", "4mb", "--maxmemory-policy", "noeviction"]);
    let ended = run(
        server.port,
        "connectionsPerThread=2 ratio=1:0 pipeline=5 requestsPerConnection=500 dataSize=10000 keyMaximum=9999",
    );
    assert_eq!(ended.code, 10, "{ended:?}");
    let report = ended.report();
    let set = report.operation("SET").unwrap();
    assert!(set.count > 0 && set.errors > 0, "{set:?}");
    assert_eq!(set.count + set.errors, 1000);
    assert_eq!(report.errors.len(), 1);
    assert_eq!(server.info("errorstats", "errorstat_OOM:count="), set.errors);
    assert_eq!((report.errors[0].kind.as_str(), report.errors[0].count), ("OOM", set.errors));
    assert!(report.errors[0].first_message.starts_with("OOM "), "{:?}", report.errors);
    assert_eq!(ended.stdout, "", "the report is in its file");
}

#[test]
fn requests_without_the_wanted_password_are_errors() {
    let server = RedisServer::start(&["--requirepass", "sesame"]);
    let ended = run(server.port, "ratio=1:1 requestsPerConnection=10");
    assert_eq!(ended.code, 10, "{ended:?}");
    let report = ended.report();
    assert_eq!(report.totals.count, 0);
    assert_eq!(report.errors.iter().map(|error| error.count).sum::<u64>(), 200);
    assert!(report.errors.iter().all(|error| error.kind == "NOAUTH"));
}

#[test]
fn passwords_work_and_appear_nowhere() {
    let server = RedisServer::start(&["--requirepass", "open-sesame"]);
    server.ask(&["AUTH open-sesame", "ACL SETUSER loader on >barrel-of-oil ~* +@all"]);
    let options = "requestsPerConnection=5 resp3=true server.username=loader";
    let by_user = Running::start(server.port, options, Some("barrel-of-oil")).wait();
    let by_default = Running::start(server.port, "requestsPerConnection=5", Some("open-sesame")).wait();
    for ended in [by_user, by_default] {
        assert_eq!(ended.code, 0, "{ended:?}");
        assert!(ended.report().specification.is_some());
        let everything = format!("{ended:?}");
        assert!(!everything.contains("open-sesame") && !everything.contains("barrel-of-oil"), "{everything}");
    }
}
