//! Tests of the adapter of other people's tools.

use super::*;
use crate::tests::fixtures::{context, ended, job};
use crate::tools::adapter::Rejected;
use dragstrip_crds::measured::LatencySummary;
use dragstrip_parsers::Capture;
use dragstrip_results::result::Operation;
use std::path::Path;

const REGEX: &str = r#"{"exec": {"image": "i", "command": ["/bin/bench", "-h", "${HOST}"], "args": ["${PORT}"],
    "env": [{"name": "TARGET", "value": "tcp://${ADDRESS}"}, {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}],
    "parser": {"regex": {"lines": [{"pattern": "^ran (?P<count>\\d+) in (?P<seconds>[0-9.]+) s, p99 (?P<p99>[0-9.]+)", "operation": "RUN"}]}}}}"#;

fn adapter(json: &str) -> (ExecAdapter, JobSpec) {
    let job = job(1, json);
    let dragstrip_crds::workload::ToolSpec::Exec(spec) = &job.tool else { panic!("another tool") };
    (ExecAdapter(spec.clone()), job)
}

fn judged(stdout: &str, code: i32) -> Result<PodResult, Box<Rejected>> {
    let directory = tempfile::tempdir().unwrap();
    let (adapter, job) = adapter(REGEX);
    let ended = Ended { stdout: Capture::complete(stdout), ..ended(Some(code), None) };
    adapter.judge(&job, &context(0, directory.path()), &ended)
}

#[test]
fn the_target_is_put_into_command_and_environment() {
    let (adapter, job) = adapter(REGEX);
    let launch = adapter.launch(&job, &context(0, Path::new("/out")));
    assert_eq!(
        (launch.program.as_str(), launch.arguments.as_slice()),
        ("/bin/bench", ["-h", "db", "6379"].map(str::to_owned).as_slice())
    );
    let variable = |name: &str| {
        launch.environment.iter().find(|(variable, _)| variable == name).map(|(_, value)| value.as_str())
    };
    assert_eq!(variable("TARGET"), Some("tcp://db:6379"));
    assert_eq!(variable("DRAGSTRIP_OUTPUT"), Some("/out"));
    assert_eq!(variable("DRAGSTRIP_PASSWORD"), Some("hush"));
    assert_eq!(variable("KEY"), None, "the kubelet has put it in");
}

#[test]
fn the_parsers_figures_become_the_result() {
    let measured = judged("ran 5000 in 2.5 s, p99 1.25\n", 0).unwrap();
    let [run] = measured.operations.as_slice() else { panic!("{measured:?}") };
    assert_eq!((run.name.as_str(), run.count, run.histogram.as_ref()), ("RUN", 5000, None));
    let printed = LatencySummary { p99: Some(1.25), ..LatencySummary::default() };
    assert_eq!(run.latency_milliseconds, printed, "a percentile that was not printed is not 0");
    let Window { start_unix_nanos, seconds, .. } = measured.window;
    assert_eq!(
        start_unix_nanos, 1_790_000_000_000_000_000,
        "without a start of its own the line is the start"
    );
    assert!((seconds - 2.5).abs() < 1e-9);
    assert_eq!(measured.tool.name, "bench");
}

#[test]
fn an_exit_code_other_than_0_is_a_failure() {
    let rejected = judged("ran 5000 in 2.5 s, p99 1.25\n", 1).unwrap_err();
    assert_eq!((rejected.failure.step, rejected.failure.exit_code), (FailureStep::Tool, Some(1)));
    assert!(rejected.failure.message.contains("ended with exit code 1"), "{:?}", rejected.failure);
    assert!(rejected.partial.is_some(), "what could be read is stored for people");
}

#[test]
fn output_without_the_figures_is_refused_with_the_tools_last_words() {
    let rejected = judged("nothing of the kind\n", 0).unwrap_err();
    assert_eq!(rejected.failure.step, FailureStep::Output);
    assert_eq!(rejected.failure.last_lines, ["the last line"]);
}

#[test]
fn output_that_was_cut_off_is_not_a_result() {
    let rejected = judged("ran 5000 in 2.5 s, p99 1.25\nran 60", 0).unwrap_err();
    assert_eq!(rejected.failure.step, FailureStep::Output);
    let message = &rejected.failure.message;
    assert!(message.contains("incomplete") && message.contains("ran 60"), "{message}");
    assert_eq!(rejected.partial.map(|partial| partial.operations[0].count), Some(5000), "stored for people");
}

#[test]
fn rates_without_counts_stay_rates() {
    let measured = measured(
        Parsed {
            operations: vec![Operation {
                name: "SET".into(),
                operations_per_second: Some(7.5),
                tool_operations_per_second: Some(7.5),
                ..Operation::default()
            }],
            ..Parsed::default()
        },
        ToolRecord::default(),
        &context(0, Path::new("/out")),
        true,
    );
    let set = &measured.operations[0];
    assert_eq!((set.count, set.operations_per_second), (0, Some(7.5)));
    assert_eq!(set.tool_operations_per_second, Some(7.5));
    assert!(measured.window.seconds <= 0.0, "then the process's own time is the window");
}

/// What a tool's standard output and files come to.
fn read(parser: &str, stdout: &str, files: &[(&str, &[u8])]) -> PodResult {
    let directory = tempfile::tempdir().unwrap();
    for (name, bytes) in files {
        std::fs::write(directory.path().join(name), bytes).unwrap();
    }
    let (adapter, job) = adapter(&format!(
        r#"{{"exec": {{"image": "i", "command": ["x"], "parser": {parser}, "counterCheck": true}}}}"#
    ));
    let ended = Ended { stdout: Capture::complete(stdout), ..ended(Some(0), None) };
    adapter.judge(&job, &context(0, directory.path()), &ended).unwrap()
}

#[test]
fn operations_that_ran_one_after_the_other_have_the_tools_rates_and_no_sum() {
    let seven = "\"SET\",\"26810.00\"\n\"GET\",\"28490.00\"\n";
    let measured = read(r#"{"redisBenchmarkCsv": {"requests": 20000}}"#, seven, &[]);
    let rates: Vec<_> = measured.operations.iter().map(|row| row.operations_per_second).collect();
    assert_eq!(rates, [Some(26810.0), Some(28490.0)]);
    assert_eq!(measured.tool.reported_operations_per_second, None, "a sum of both would not be a rate");
    let timed = "ran GET 100 in 2 s\nran PUT 300 in 3 s\n";
    let lines = r#"{"regex": {"lines": [{"pattern": "^ran (?<operation>\\S+) (?<count>\\d+) in (?<seconds>\\S+ s)"}]}}"#;
    let rates: Vec<_> =
        read(lines, timed, &[]).operations.iter().map(|row| row.operations_per_second).collect();
    assert_eq!(rates, [Some(50.0), Some(100.0)], "each over its own duration");
}

#[test]
fn memtiers_duration_is_not_a_window() {
    let recorded =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/memtier/2.3.0/d2_mixed_time/out.json");
    let bytes = std::fs::read(recorded).unwrap();
    let measured = read(r#"{"memtierJson": {"file": "m.json"}}"#, "", &[("m.json", &bytes)]);
    assert!(measured.window.seconds <= 0.0, "the runner's own is right");
    assert!(measured.tool.connections > 0, "{:?}", measured.tool);
    let own =
        |row: &Operation| row.operations_per_second.is_some() || row.tool_operations_per_second.is_none();
    assert!(
        !measured.operations.iter().any(own),
        "memtier's rates are for comparison: {:?}",
        measured.operations
    );
    assert_eq!(measured.operations[0].commands, ["set", "setex", "setrange"]);
}

#[test]
fn the_tools_last_line_is_in_the_message() {
    let rejected = judged("ran 5000 in 2.5 s, p99 1.25\n", 1).unwrap_err();
    assert!(rejected.failure.message.ends_with("; its last line: the last line"), "{:?}", rejected.failure);
}

#[test]
fn a_line_about_an_error_is_in_the_message_whatever_the_tool_prints_after_it() {
    let lines = ["Error from server: OOM command not allowed", "\"test\",\"rps\"", ""];
    let ended = Ended { last_lines: lines.map(str::to_owned).to_vec(), ..ended(Some(1), None) };
    let message = with_last_line("exit code 1".to_owned(), &ended);
    assert_eq!(message, "exit code 1; its last error: Error from server: OOM command not allowed");
}

#[test]
fn a_parser_that_makes_no_sense_is_refused_before_the_load() {
    let (adapter, job) = adapter(
        r#"{"exec": {"image": "i", "command": ["x"], "parser": {"regex": {"lines": [{"pattern": "("}]}}}}"#,
    );
    let message = adapter.accept(&job, &context(0, Path::new("/out"))).unwrap_err();
    assert!(message.starts_with("exec.parser: regex: "), "{message}");
}
