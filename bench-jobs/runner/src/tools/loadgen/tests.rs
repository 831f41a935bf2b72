//! Tests of the load generator's adapter.

use super::{
    specification::{exact_share, specification},
    *,
};
use crate::tests::fixtures::{context, ended};
use crate::tools::adapter::Rejected;
use dragstrip_loadgen::{
    configuration::Configuration,
    counts::report::{ErrorReport, FailureKind, RunStatus, Totals},
    specification::Specification,
};
use dragstrip_results::{
    histogram::{self, Latencies},
    result::Operation,
};
use proptest::prelude::*;
use std::path::Path;

fn spec(options: &str) -> LoadgenSpec {
    serde_json::from_str(options).unwrap()
}

fn job(clients: u32) -> JobSpec {
    crate::tests::fixtures::job(clients, r#"{"loadgen": {"duration": "5s"}}"#)
}

/// A report of 3 GETs and 2 SETs, as the generator writes it.
fn report() -> Report {
    let operation = |name: &str, hits: Option<u64>, per_second: &[u64]| {
        let count = per_second.iter().sum();
        let mut histogram = histogram::empty().unwrap();
        (1..=count).for_each(|n| histogram.record(n * 100).unwrap());
        let latencies = Latencies::from_microseconds(histogram);
        Operation {
            name: name.into(),
            count,
            hits,
            misses: hits.map(|hits| count - hits),
            bytes: 30,
            latency_milliseconds: latencies.summary(),
            histogram: Some(latencies.encode().unwrap()),
            per_second: per_second.to_vec(),
            ..Operation::default()
        }
    };
    Report {
        version: "0.1.0".into(),
        status: RunStatus::Completed,
        started_at_unix_nanos: Some(1_790_000_000_001_000_000),
        window_seconds: 4.5,
        totals: Totals { count: 5, operations_per_second: 1.1, ..Totals::default() },
        operations: vec![operation("SET", None, &[1, 1]), operation("GET", Some(1), &[2, 1])],
        ..Report::default()
    }
}

fn directory_with(report: &Report) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join(REPORT_NAME), report.to_json().unwrap()).unwrap();
    directory
}

fn judged(report: &Report, ended: &Ended) -> Result<PodResult, Box<Rejected>> {
    let directory = directory_with(report);
    let adapter = LoadgenAdapter(spec(r#"{"duration": "5s", "pipeline": 4}"#));
    adapter.judge(&job(1), &context(0, directory.path()), ended)
}

fn refused(report: &Report, ended: &Ended) -> Failure {
    judged(report, ended).unwrap_err().failure
}

#[test]
fn our_own_programs_understand_every_specification() {
    for options in [
        r#"{"duration": "5s"}"#,
        r#"{"requestsPerConnection": 1000, "ratio": "1:0", "keyPattern": "Sequential", "resp3": true}"#,
        r#"{"duration": "1m30s", "keyPattern": "Zipfian", "zipfExponent": "1.2", "keyPrefix": "k:", "seed": 7}"#,
        r#"{"duration": "250ms", "keyPattern": "Gaussian", "threads": 2, "connectionsPerThread": 3}"#,
        r#"{"duration": "5s", "rate": {"operationsPerSecond": 100, "arrival": "Poisson"}}"#,
        r#"{"duration": "5s", "operations": [{"operation": "MsetExpireat", "keys": 3, "expiry": "9s"},
            {"operation": "Set", "expiry": "1m", "absoluteExpiry": true, "dataSize": 64}, {"operation": "Incr"},
            {"operation": "Mget", "keys": 2, "missing": true, "weight": 3}, {"operation": "Del"}, {"operation": "Exists"},
            {"operation": "Mset", "keys": 2}, {"operation": "Get"}, {"command": "ZADD __key__ 1 'a b'", "weight": 2}]}"#,
        r#"{"client": "Fred", "library": {"tasks": 5, "poolSize": 2, "totalRequests": 500, "assertExpected": true},
            "operations": [{"operation": "Incr"}]}"#,
        r#"{"duration": "5s", "client": "RedisRs", "ratio": "0:1", "library": {"connectionKind": "ConnectionManager"}}"#,
        r#"{"duration": "5s", "client": "Bb8Redis", "library": {}, "batch": {"items": 1000, "batchSize": 100,
            "parallelism": 4, "operation": "SetExpire", "expiry": "5m"}}"#,
    ] {
        let mut job = job(2);
        job.warmup_seconds = Some(0.25);
        let context = context(1, Path::new("/out"));
        let adapter = LoadgenAdapter(spec(options));
        assert_eq!(adapter.accept(&job, &context), Ok(()), "{options}");
        let launch = adapter.launch(&job, &context);
        assert_eq!(launch.program == CLIENTS_NAME, options.contains("library"), "{options}");
        assert_eq!(launch.arguments, ["run", "-"]);
        let configuration = understood(&launch).unwrap_or_else(|error| panic!("{options}: {error}"));
        assert_eq!(configuration.target(), "10.0.0.7:6379");
        assert_eq!(configuration.specification.start_at_unix_nanos, Some(1_790_000_000_000_000_000));
        assert_eq!(configuration.specification.report_file, Some("/out/loadgen.json".into()));
        assert_eq!(configuration.load(), &spec(options), "the declared load arrives as it is");
        assert_eq!(configuration.warmup, Duration::from_millis(250));
        assert_eq!((configuration.crowd.index, configuration.crowd.processes), (1, 2));
    }
}

/// What the program makes of its standard input.
fn understood(launch: &Launch) -> Result<Configuration, Box<dyn std::error::Error>> {
    let document: Specification = serde_json::from_str(launch.input.as_deref().unwrap())?;
    if launch.program == CLIENTS_NAME {
        return Ok(dragstrip_clients::read(document, None)?.0);
    }
    Ok(Configuration::of_raw_client(document, None)?)
}

#[test]
fn a_library_that_cannot_do_what_is_declared_is_refused_with_the_remedy() {
    let refusal = |options: &str| {
        let adapter = LoadgenAdapter(spec(options));
        adapter.accept(&job(1), &context(0, Path::new("/out"))).unwrap_err()
    };
    let mixed = refusal(r#"{"duration": "5s", "client": "Fred", "library": {}, "ratio": "1:10"}"#);
    assert!(mixed.contains("ratio 1:10 mixes") && mixed.contains("1:0 or 0:1"), "{mixed}");
    let batch = refusal(
        r#"{"duration": "5s", "client": "Fred", "library": {}, "operations": [{"operation": "Mset"}]}"#,
    );
    assert!(batch.contains("loadgen.batch"), "{batch}");
    let replicas = refusal(r#"{"duration": "5s", "replicaReads": true}"#);
    assert!(replicas.contains("loadgen.replicaReads needs a target in cluster mode"), "{replicas}");
    let rate = refusal(r#"{"duration": "5s", "rate": {"operationsPerSecond": 9}, "pipeline": 2}"#);
    assert!(rate.contains("leave loadgen.pipeline at 1"), "{rate}");
}

#[test]
fn the_target_has_credentials_and_certificates() {
    use dragstrip_loadgen::wire::tls::TlsOptions;
    let mut job = job(1);
    job.target.username = Some("bench".into());
    job.target.cluster = true;
    job.warmup_seconds = Some(1.5);
    let tls = TlsOptions {
        ca_file: Some("/a/ca.crt".into()),
        certificate_file: Some("/c/tls.crt".into()),
        key_file: Some("/c/tls.key".into()),
        server_name: Some("db.svc".into()),
        insecure: false,
    };
    let context = LaunchContext { tls: Some(tls), ..context(0, Path::new("/out")) };
    let raw = specification(&spec(r#"{"duration": "5s"}"#), &job, &context);
    assert_eq!((raw.server.username.as_deref(), raw.server.cluster), (Some("bench"), true));
    let tls = raw.server.tls.unwrap();
    assert_eq!((tls.server_name.as_deref(), tls.ca_file), (Some("db.svc"), Some("/a/ca.crt".into())));
    assert_eq!(tls.certificate_file, Some("/c/tls.crt".into()));
    assert_eq!((tls.key_file, tls.insecure), (Some("/c/tls.key".into()), false));
    assert_eq!(
        (raw.server.host.as_str(), raw.warmup.map(|it| it.duration())),
        ("10.0.0.7", Some(Duration::from_millis(1500)))
    );
    let library = spec(r#"{"duration": "5s", "client": "RedisRs", "library": {}, "ratio": "1:0"}"#);
    let by_host = specification(&library, &job, &context).server;
    assert_eq!((by_host.host.as_str(), by_host.tls.unwrap().server_name), ("db", None));
    assert!(
        specification::accept(&library, &job, &context).unwrap_err().contains("only the client library Fred")
    );
}

#[test]
fn the_other_parts_of_a_report_are_stored() {
    let directory = tempfile::tempdir().unwrap();
    let mut json: serde_json::Value = serde_json::from_str(&report().to_json().unwrap()).unwrap();
    json["commands"] = serde_json::json!({"set": 12, "get": 13});
    json["warmup"] = serde_json::json!({"seconds": 1.0, "operations": {"SET": 10}});
    json["schedule"] = serde_json::json!({"kind": "fixed", "operationsPerSecond": 7.0, "scheduled": 7, "sent": 6,
        "answered": 5, "unanswered": 2, "lagMilliseconds": {}});
    fs::write(directory.path().join(REPORT_NAME), json.to_string()).unwrap();
    let adapter = LoadgenAdapter(spec(r#"{"duration": "5s"}"#));
    let measured = adapter.judge(&job(1), &context(0, directory.path()), &ended(Some(0), None)).unwrap();
    assert_eq!((measured.commands["set"], measured.warmup["SET"]), (12, 10));
    assert_eq!(measured.schedule.map(|schedule| schedule.unanswered), Some(2));
}

#[test]
fn the_password_is_in_the_environment_alone() {
    let adapter = LoadgenAdapter(spec(r#"{"duration": "5s"}"#));
    let launch = adapter.launch(&job(1), &context(0, Path::new("/out")));
    assert_eq!(launch.environment, [("DRAGSTRIP_PASSWORD".to_owned(), "hush".to_owned())]);
    assert!(!launch.input.unwrap().contains("hush"));
    assert_eq!(launch.stop_signal, Signal::SIGTERM);
}

proptest! {
    #[test]
    fn shares_cover_every_key_once(minimum in 0i64..1_000_000, keys in 1i64..10_000, clients in 1u32..50) {
        let maximum = minimum + keys - 1;
        prop_assume!(keys >= i64::from(clients));
        let mut next = minimum;
        for index in 0..clients {
            let (first, last) = exact_share(minimum, maximum, index, clients).unwrap();
            prop_assert_eq!(first, next);
            prop_assert!(last >= first);
            next = last + 1;
        }
        prop_assert_eq!(next, maximum + 1);
    }
}

#[test]
fn progress_lines_are_recognised() {
    let mut adapter = LoadgenAdapter(spec(r#"{"duration": "5s"}"#));
    let line = "progress elapsed_seconds=3.000 operations=457120 operations_per_second=152345 errors=2";
    assert_eq!(
        adapter.stderr_line(line),
        Some(Progress { operations: 457_120, errors: 2, ..Progress::default() })
    );
    assert_eq!(adapter.stderr_line("error: progress was made operations=1 errors=1"), None);
    assert_eq!(adapter.stderr_line("progress nothing"), None);
    let counts = ["0"; 24].join(",");
    let detail = format!("{line} bytes=99 connections=50 latency_seconds=1.5 latency_counts=7,{counts}");
    let progress = adapter.stderr_line(&detail).unwrap();
    assert_eq!((progress.operations, progress.bytes, progress.connections), (457_120, Some(99), Some(50)));
    assert_eq!(progress.latency.map(|latency| latency.count()), Some(7));
    let cut = adapter.stderr_line(&format!("{line} latency_seconds=1.5 latency_counts=7,1")).unwrap();
    assert_eq!(cut.latency, None, "another tool's buckets are not latencies");
}

#[test]
fn progress_goes_by_the_requests_where_they_end_the_load() {
    let declared = r#"{"requestsPerConnection": 100, "threads": 2, "connectionsPerThread": 5}"#;
    let ratio = LoadgenAdapter(spec(declared)).stderr_line("progress operations=250 errors=0").unwrap().ratio;
    assert!(ratio.is_some_and(|ratio| (ratio - 0.25).abs() < 1e-9), "{ratio:?}");
}

#[test]
fn a_complete_report_is_a_measurement() {
    let measured = judged(&report(), &ended(Some(0), None)).unwrap();
    let Window { start_unix_nanos, seconds, .. } = measured.window;
    assert_eq!((start_unix_nanos, seconds), (1_790_000_000_001_000_000, 4.5));
    assert_eq!(measured.per_second, [3, 2]);
    assert_eq!((measured.tool.connections, measured.tool.pipeline), (20, 4));
    let [set, get] = measured.operations.as_slice() else { panic!("not two operations") };
    assert_eq!((set.count, set.hits, set.bytes), (2, None, 30));
    assert_eq!(
        (set.per_second.as_slice(), get.per_second.as_slice()),
        ([1, 1].as_slice(), [2, 1].as_slice())
    );
    assert_eq!((get.count, get.hits, get.misses), (3, Some(1), Some(2)));
    assert!((get.latency_milliseconds.max.unwrap() - 0.3).abs() < 0.001, "{:?}", get.latency_milliseconds);
}

#[test]
fn a_missing_or_damaged_report_is_a_failure_with_the_exit() {
    let directory = tempfile::tempdir().unwrap();
    let adapter = LoadgenAdapter(spec(r#"{"duration": "5s"}"#));
    let judge =
        |ended: &Ended| adapter.judge(&job(1), &context(0, directory.path()), ended).unwrap_err().failure;
    assert_eq!(judge(&ended(Some(0), None)).step, FailureStep::Output);
    let refused = judge(&ended(Some(2), None));
    assert_eq!((refused.step, refused.exit_code), (FailureStep::Tool, Some(2)));
    assert_eq!(refused.last_lines, ["the last line"]);
    assert!(judge(&ended(None, Some(9))).message.contains("ended by signal 9"));
    fs::write(directory.path().join(REPORT_NAME), "{\"tool\":").unwrap();
    assert!(judge(&ended(Some(0), None)).message.contains("cannot be read"));
}

#[test]
fn the_generators_own_failure_is_quoted() {
    let failure = dragstrip_loadgen::counts::report::Failure {
        kind: FailureKind::ConnectionLost,
        message: "10.0.0.7:6379 closed the connection".into(),
    };
    let report = Report { status: RunStatus::Failed, failure: Some(failure), ..report() };
    let refused = refused(&report, &ended(Some(7), None));
    assert_eq!(
        (refused.step, refused.message.as_str()),
        (FailureStep::Tool, "10.0.0.7:6379 closed the connection")
    );
}

#[test]
fn error_replies_are_counted_by_kind_with_the_first() {
    let error = ErrorReport {
        operation: "SET".into(),
        kind: "OOM".into(),
        count: 1_200,
        first_message: "OOM command not allowed".into(),
    };
    let totals = Totals { errors: 1_200, ..report().totals };
    let report = Report { errors: vec![error], totals, ..report() };
    let refused = refused(&report, &ended(Some(10), None));
    assert_eq!(refused.step, FailureStep::ErrorReplies);
    assert!(refused.message.contains("1,200 OOM to SET"), "{}", refused.message);
    assert!(refused.message.ends_with("the first: OOM command not allowed"), "{}", refused.message);
}

#[test]
fn the_numbers_of_an_interrupted_report_are_stored() {
    let report = Report { status: RunStatus::Interrupted, interrupted: Some("SIGTERM".into()), ..report() };
    let rejected = judged(&report, &ended(Some(143), None)).unwrap_err();
    assert_eq!(rejected.failure.step, FailureStep::Interrupted);
    assert_eq!(rejected.partial.unwrap().operations.len(), 2);
}

#[test]
fn a_complete_report_of_a_bad_exit_is_a_failure() {
    assert_eq!(refused(&report(), &ended(Some(11), None)).step, FailureStep::Tool);
}

#[test]
fn a_report_without_schedules_and_batches_reads_as_nothing() {
    let report = Report::from_json(r#"{"tool": "x", "totals": {}}"#).unwrap();
    assert_eq!((report.schedule, report.warmup, report.batches), (None, None, None));
    assert_eq!((report.verified, report.commands.len()), (None, 0));
}

#[test]
fn schedules_and_batches_are_read() {
    let report = Report::from_json(
        r#"{"commands": {"mset": 3}, "warmup": {"seconds": 1.5, "operations": {"GET": 9}},
            "schedule": {"kind": "poisson", "operationsPerSecond": 100, "scheduled": 5, "sent": 5,
                         "answered": 4, "unanswered": 1, "lagMilliseconds": {"p50": 1000}},
            "batches": {"items": 10, "batchSize": 5, "bytesPerItem": 100, "iterations": 7,
                        "secondsPerBatch": {"low": 1, "mid": 2, "high": 3},
                        "elementsPerSecond": {"low": 1, "mid": 2, "high": 3},
                        "mebibytesPerSecond": {"low": 1, "mid": 2, "high": 3}},
            "verified": {"expected": 10, "found": 9}}"#,
    )
    .unwrap();
    assert_eq!((report.commands["mset"], report.warmup.unwrap().operations["GET"]), (3, 9));
    let schedule = report.schedule.unwrap();
    assert_eq!((schedule.kind.as_str(), schedule.scheduled), ("poisson", 5));
    assert_eq!((schedule.answered, schedule.unanswered), (4, 1));
    assert!((schedule.lag_milliseconds.p50.unwrap() - 1_000.0).abs() < 1.0, "{schedule:?}");
    let batches = report.batches.unwrap();
    assert!((batches.iterations, batches.seconds_per_batch.high > 2.9) == (7, true), "{batches:?}");
    let verified = report.verified.unwrap();
    assert_eq!((verified.expected, verified.found), (10, 9));
}
