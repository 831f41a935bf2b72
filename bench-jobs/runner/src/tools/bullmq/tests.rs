//! Tests of the BullMQ job's adapter, on reports that the job wrote.

use super::*;
use crate::tests::fixtures::{context, ended, job};
use crate::tools::adapter::Rejected;
use dragstrip_loadgen::wire::tls::TlsOptions;
use dragstrip_results::result::WorkerRecord;
use std::path::Path;

const COMPLETED: &str = include_str!("../../../tests/fixtures/bullmq/completed.json");
const INTERRUPTED: &str = include_str!("../../../tests/fixtures/bullmq/interrupted.json");
const UNREACHABLE: &str = include_str!("../../../tests/fixtures/bullmq/unreachable.json");
const ERROR_REPLIES: &str = include_str!("../../../tests/fixtures/bullmq/error-replies.json");
const QUEUE_CHECK: &str = include_str!("../../../tests/fixtures/bullmq/queue-check.json");

fn adapter(options: &str) -> BullmqAdapter {
    BullmqAdapter(serde_json::from_str(options).unwrap())
}

fn bullmq_job(clients: u32) -> JobSpec {
    job(clients, r#"{"bullmq": {"duration": "5s"}}"#)
}

fn judged(report: &str, code: i32) -> Result<PodResult, Box<Rejected>> {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join(REPORT_NAME), report).unwrap();
    let adapter = adapter(r#"{"duration": "5s", "concurrency": 4}"#);
    adapter.judge(&bullmq_job(1), &context(0, directory.path()), &ended(Some(code), None))
}

fn refused(report: &str, code: i32) -> Failure {
    judged(report, code).unwrap_err().failure
}

/// The completed report with one number of its JSON replaced.
fn altered(pointer: &str, value: serde_json::Value) -> String {
    let mut report: serde_json::Value = serde_json::from_str(COMPLETED).unwrap();
    *report.pointer_mut(pointer).unwrap() = value;
    report.to_string()
}

fn count(measured: &PodResult, operation: &str) -> u64 {
    measured.operations.iter().find(|it| it.name == operation).unwrap().count
}

#[test]
fn the_published_command_line_is_one_to_one() {
    let spec = r#"{"mode": "Published", "writers": 16, "queues": 8, "duration": "30s", "readers": 0}"#;
    let launch = adapter(spec).launch(&bullmq_job(1), &context(0, Path::new("/out")));
    for expected in [
        "--host=10.0.0.7",
        "--port=6379",
        "--writers=16",
        "--readers=0",
        "--queues=8",
        "--duration=30000ms",
        "--mode=published",
        "--reader-concurrency=1",
        "--queue-name={queue%d}",
        "--start-at-unix-nanos=1790000000000000000",
        "--json-out-file=/out/bullmq.json",
    ] {
        assert!(launch.arguments.iter().any(|it| it == expected), "{expected} of {:?}", launch.arguments);
    }
    let own = ["--concurrency", "--bulk", "--payload-bytes"];
    for absent in ["--cluster", "--tls", "--shared-queues", "--username"].into_iter().chain(own) {
        assert!(!launch.arguments.iter().any(|it| it.starts_with(absent)), "{:?}", launch.arguments);
    }
    assert_eq!(launch.lead, Duration::from_secs(9), "sixteen threads take their time to load");
}

#[test]
fn the_target_decides_on_cluster_user_and_encryption() {
    let mut job = bullmq_job(3);
    job.target.cluster = true;
    job.target.username = Some("bench".into());
    job.warmup_seconds = Some(2.0);
    let mut context = context(1, Path::new("/out"));
    context.tls = Some(TlsOptions {
        ca_file: Some("/ca.crt".into()),
        certificate_file: Some("/tls.crt".into()),
        key_file: Some("/tls.key".into()),
        server_name: Some("db.example".into()),
        insecure: false,
    });
    let launch = adapter(r#"{"duration": "5s", "payloadBytes": 64}"#).launch(&job, &context);
    for expected in [
        "--cluster",
        "--username=bench",
        "--tls",
        "--tls-ca-file=/ca.crt",
        "--tls-cert-file=/tls.crt",
        "--tls-key-file=/tls.key",
        "--tls-server-name=db.example",
        "--warmup=2.000s",
        "--shared-queues",
        "--payload-bytes=64",
        "--cleanup-timeout=18.000s",
    ] {
        assert!(launch.arguments.iter().any(|it| it == expected), "{expected} of {:?}", launch.arguments);
    }
}

#[test]
fn the_fast_mode_has_its_own_jobs_and_readers_a_concurrency_of_their_own() {
    let spec = r#"{"duration": "5s", "readers": 1, "concurrency": 64, "readerConcurrency": 7, "bulk": 5}"#;
    let launch = adapter(spec).launch(&bullmq_job(1), &context(0, Path::new("/out")));
    for expected in
        ["--mode=fast", "--concurrency=64", "--reader-concurrency=7", "--bulk=5", "--payload-bytes=32"]
    {
        assert!(launch.arguments.iter().any(|it| it == expected), "{expected} of {:?}", launch.arguments);
    }
}

#[test]
fn readers_after_the_writers_leave_less_time_for_the_cleanup() {
    let spec = r#"{"duration": "5s", "readers": 1, "mode": "Published"}"#;
    let launch = adapter(spec).launch(&bullmq_job(1), &context(0, Path::new("/out")));
    let cleanup = "--cleanup-timeout=15.000s";
    assert!(launch.arguments.iter().any(|it| it == cleanup), "30 s - 2 x 5 s - 5 s: {:?}", launch.arguments);
}

#[test]
fn the_password_is_in_the_environment_alone() {
    let launch = adapter(r#"{"duration": "5s"}"#).launch(&bullmq_job(1), &context(0, Path::new("/out")));
    assert_eq!(
        launch.environment,
        [("DRAGSTRIP_PASSWORD", "hush"), ("DRAGSTRIP_PROGRESS_DETAIL", "true")]
            .map(|(n, v)| (n.to_owned(), v.to_owned()))
    );
    assert!(launch.arguments.iter().all(|argument| !argument.contains("hush")));
    assert_eq!(launch.stop_signal, Signal::SIGTERM);
}

#[test]
fn progress_lines_are_distinguished_from_others() {
    let mut adapter = adapter(r#"{"duration": "5s"}"#);
    let line = "progress elapsed_seconds=0.965 operations=3074 operations_per_second=3038 errors=2";
    assert_eq!(
        adapter.stderr_line(line),
        Some(Progress { operations: 3074, errors: 2, ..Progress::default() })
    );
    assert_eq!(adapter.stderr_line("error: no progress operations=1 errors=1"), None);
    assert_eq!(adapter.stderr_line("progress nothing"), None);
}

#[test]
fn a_complete_report_is_a_measurement() {
    let measured = judged(COMPLETED, 0).unwrap();
    let Window { start_unix_nanos: started, seconds, .. } = measured.window;
    assert!(started > 1_700_000_000_000_000_000 && seconds > 1.0, "{started} {seconds}");
    let (added, processed) = (count(&measured, "ADD"), count(&measured, "PROCESS"));
    assert!(added > 100 && processed > 100, "{added} {processed}");
    assert_eq!(measured.per_second, [0; 0], "two things have no sum");
    assert_eq!(measured.tool.mode.as_deref(), Some("Fast"));
    let add = &measured.operations[0];
    let latencies = Latencies::decode(add.histogram.as_ref().unwrap()).unwrap();
    assert_eq!(latencies.count(), added, "the histogram that Node.js wrote is read here");
    assert!(add.latency_milliseconds.p50.is_some_and(|p50| p50 > 0.0) && add.bytes > added * 300, "{add:?}");
    let queues = measured.queues.unwrap();
    assert_eq!(queues.expected, queues.found);
    assert_eq!(queues.found, added + measured.warmup["ADD"]);
    let roles: Vec<_> = measured.workers.iter().map(|it| (it.role.as_str(), it.index)).collect();
    assert_eq!(roles, [("writer", 0), ("writer", 1), ("reader", 0)]);
    let busy = |it: &WorkerRecord| it.cpu_seconds > 0.0 && it.event_loop_utilization > 0.0;
    assert!(measured.workers.iter().all(busy), "{:?}", measured.workers);
    let names: Vec<_> = measured.metrics.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["nominalAddJobsPerSecond", "nominalProcessJobsPerSecond"]);
    assert!((measured.metrics[0].value - added as f64 / 1.2).abs() < 1e-6);
    assert!(measured.tool.version.unwrap().contains("bullmq 6."));
    assert_eq!((measured.tool.connections, measured.tool.pipeline), (8, 4));
}

#[test]
fn rates_are_per_second_of_each_operations_load_and_have_no_total() {
    let report: serde_json::Value = serde_json::from_str(COMPLETED).unwrap();
    let measured = judged(COMPLETED, 0).unwrap();
    for (operation, report) in measured.operations.iter().zip(report["operations"].as_array().unwrap()) {
        let rate = operation.count as f64 / report["windowSeconds"].as_f64().unwrap();
        let own = operation.operations_per_second.unwrap();
        assert!((own - rate).abs() < 1e-6, "{}: {own} is not {rate}", operation.name);
    }
    let tool = measured.tool;
    assert_eq!(tool.reported_operations_per_second, None, "adds and processed jobs are two things");
}

#[test]
fn a_lonely_operation_has_the_pods_window_and_the_tools_rate() {
    let mut report: serde_json::Value = serde_json::from_str(COMPLETED).unwrap();
    report["operations"].as_array_mut().unwrap().truncate(1);
    let measured = judged(&report.to_string(), 0).unwrap();
    let [add] = measured.operations.as_slice() else { panic!("{:?}", measured.operations) };
    assert_eq!(add.operations_per_second, None);
    assert_eq!(measured.per_second, add.per_second);
    assert!(measured.tool.reported_operations_per_second.is_some_and(|rate| rate > 0.0));
}

#[test]
fn notes_name_the_parts_of_a_latency_and_the_keys_that_are_left() {
    let measured = judged(&altered("/notes", serde_json::json!(["keys are left"])), 0).unwrap();
    let [left, add, process] = measured.notes.as_slice() else { panic!("{:?}", measured.notes) };
    assert_eq!(left, "keys are left", "a slow cleanup is not a failure");
    assert!(add.starts_with("the latency of ADD is the time from the call of Queue.add"), "{add}");
    assert!(process.starts_with("the latency of PROCESS is the time from the hand-over"), "{process}");
}

#[test]
fn histograms_of_node_and_of_rust_merge_exactly() {
    let measured = judged(COMPLETED, 0).unwrap();
    let decode = |n: usize| Latencies::decode(measured.operations[n].histogram.as_ref().unwrap()).unwrap();
    let mut own = Latencies::decode(&decode(0).encode().unwrap()).unwrap();
    assert_eq!(own, decode(0));
    own.add(&decode(1)).unwrap();
    assert_eq!(own.count(), decode(0).count() + decode(1).count());
}

#[test]
fn the_jobs_own_failures_are_reported_word_by_word() {
    let unreachable = refused(UNREACHABLE, 4);
    assert_eq!(unreachable.step, FailureStep::Tool);
    assert!(unreachable.message.contains("ECONNREFUSED"), "{}", unreachable.message);
    let errors = refused(ERROR_REPLIES, 10);
    assert_eq!(errors.step, FailureStep::ErrorReplies);
    assert!(errors.message.contains("OOM to ADD"), "{}", errors.message);
    let vanished = refused(QUEUE_CHECK, 14);
    assert_eq!(vanished.step, FailureStep::CounterCheck);
    assert!(vanished.message.contains("jobs, but"), "{}", vanished.message);
}

#[test]
fn the_numbers_of_an_interrupted_report_are_stored() {
    let rejected = judged(INTERRUPTED, 143).unwrap_err();
    assert_eq!(rejected.failure.step, FailureStep::Interrupted);
    assert!(rejected.failure.message.ends_with("SIGTERM"), "{}", rejected.failure.message);
    assert!(count(&rejected.partial.unwrap(), "ADD") > 0);
}

#[test]
fn error_kinds_are_counted() {
    let partial = judged(ERROR_REPLIES, 10).unwrap_err().partial.unwrap();
    assert_eq!(partial.errors["OOM"], partial.operations[0].errors);
}

#[test]
fn contradictions_are_refused_with_both_figures() {
    for (pointer, account) in [
        ("/operations/0/count", "latencies"),
        ("/perSecond/0/ADD", "seconds"),
        ("/workers/0/operations", "workers"),
    ] {
        let failure = refused(&altered(pointer, 7.into()), 0);
        assert_eq!(failure.step, FailureStep::Output);
        assert!(failure.message.contains(account), "{pointer}: {}", failure.message);
    }
    let failure = refused(&altered("/startedAtUnixNanos", "noon".into()), 0);
    assert!(failure.message.contains("startedAtUnixNanos is \"noon\""), "{}", failure.message);
}

#[test]
fn a_bad_end_or_an_unknown_status_is_not_a_measurement() {
    assert_eq!(refused(COMPLETED, 11).step, FailureStep::Tool);
    assert_eq!(refused(&altered("/status", "paused".into()), 0).step, FailureStep::Output);
}

#[test]
fn a_missing_or_cut_report_is_a_failure_with_the_exit() {
    let directory = tempfile::tempdir().unwrap();
    let adapter = adapter(r#"{"duration": "5s"}"#);
    let judge = |code, signal| {
        let context = context(0, directory.path());
        adapter.judge(&bullmq_job(1), &context, &ended(code, signal)).unwrap_err().failure
    };
    assert_eq!(judge(Some(0), None).step, FailureStep::Output);
    let refusal = judge(Some(2), None);
    assert_eq!((refusal.step, refusal.exit_code), (FailureStep::Tool, Some(2)));
    assert_eq!(refusal.last_lines, ["the last line"]);
    assert!(judge(None, Some(9)).message.contains("ended by signal 9"));
    for cut in [1, COMPLETED.len() / 2, COMPLETED.len() - 3] {
        assert!(refused(&COMPLETED[..cut], 0).message.contains("cannot read"), "cut at {cut}");
    }
}
