//! Local runs through the built program, with a real redis-server.
#![cfg(target_os = "linux")]
// A helper of a test is a test too, which clippy cannot see.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::Value;
use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};

/// A run of one phase with so many seconds of load.
fn manifest(seconds: u32) -> String {
    format!(
        "apiVersion: dragstrip.dev/v1alpha1
kind: Datastore
metadata: {{name: redis}}
spec: {{engine: Redis, threads: 1, maxMemory: 256Mi}}
---
apiVersion: dragstrip.dev/v1alpha1
kind: BenchmarkRun
metadata: {{name: sprint}}
spec:
  target: {{datastoreRef: {{name: redis}}}}
  phases:
  - name: write
    warmup: 0s
    loadgen: {{duration: {seconds}s, connectionsPerThread: 4, keyMaximum: 1000, ratio: \"1:0\"}}
"
    )
}

/// A place for a manifest and its results.
struct Place {
    directory: tempfile::TempDir,
}

impl Place {
    fn with(manifest: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("race.yaml"), manifest).unwrap();
        Self { directory }
    }

    fn results(&self) -> PathBuf {
        self.directory.path().join("results")
    }

    fn start(&self) -> Child {
        self.start_with(&[])
    }

    /// What another command prints in this place, and its exit code.
    fn command(&self, arguments: &[&str]) -> (String, Option<i32>) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dragstrip"));
        command.args(arguments).current_dir(self.directory.path()).env("KUBECONFIG", "/no/such/file");
        finished(&command.output().unwrap())
    }

    /// Starts it in this place with more arguments.
    fn start_with(&self, arguments: &[&str]) -> Child {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dragstrip"));
        command.args(["run", "--local", "-f", "race.yaml", "--output-directory", "results"]).args(arguments);
        // Nothing here may ask a cluster.
        command.env("KUBECONFIG", "/no/such/file").current_dir(self.directory.path()).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Makes a program of a shell's `text`.
    fn program(&self, name: &str, text: &str) {
        let path = self.directory.path().join(name);
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Whether a process of this name works here.
    fn runs(&self, name: &str) -> bool {
        self.processes().iter().any(|(_, found)| found.trim() == name)
    }

    /// The run with its status.
    fn run(&self) -> Value {
        serde_json::from_str(&fs::read_to_string(self.results().join("run.json")).unwrap()).unwrap()
    }

    fn result(&self, name: &str) -> Value {
        let path = self.results().join("results").join(format!("{name}.json"));
        serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
    }

    /// Processes that work in this place.
    fn processes(&self) -> Vec<(i32, String)> {
        let here = |process: &Path| {
            let directory = fs::read_link(process.join("cwd")).unwrap_or_default();
            directory.starts_with(self.results())
        };
        let entries = fs::read_dir("/proc").unwrap().flatten();
        let numbered =
            entries.filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path())));
        let all = numbered.filter(|(_, path)| here(path));
        all.map(|(id, path)| (id, fs::read_to_string(path.join("comm")).unwrap_or_default())).collect()
    }

    /// The server's process, once load runs.
    fn server_under_load(&self) -> Pid {
        let log = self.results().join("logs/sprint-write-1-0-output.log");
        wait_for("the load to run", || fs::read_to_string(&log).is_ok_and(|text| text.contains("1s  ")));
        let server = self.processes().into_iter().find(|(_, name)| name.trim() == "redis-server");
        Pid::from_raw(server.expect("no server runs").0)
    }

    fn is_left_alone(&self) {
        wait_for("all processes to be gone", || self.processes().is_empty());
    }
}

fn wait_for(what: &str, holds: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(40);
    while !holds() {
        assert!(Instant::now() < end, "waited too long for {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn interrupt(child: &Child) {
    kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), Signal::SIGINT).unwrap();
}

/// Both streams, and the exit code.
fn finished(output: &Output) -> (String, Option<i32>) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout) + &text(&output.stderr), output.status.code())
}

#[test]
fn a_race_without_a_cluster_ends_with_a_table_and_the_servers_own_count() {
    let place = Place::with(&manifest(2));
    let output = place.start().wait_with_output().unwrap();
    let (text, code) = finished(&output);
    assert_eq!(code, Some(0), "{text}");
    let table = String::from_utf8_lossy(&output.stdout);
    assert!(table.contains("Ops/s") && table.contains("SharedNode"), "{table}");
    assert!(text.contains("of the same machine") && text.contains("[1/1] write, repetition 1: "), "{text}");
    let run = place.run();
    assert_eq!(run["status"]["verdict"], "Degraded", "the shared machine is not in the verdict");
    let operation = &run["status"]["phases"][0]["operations"][0];
    assert_eq!(operation["operation"], "SET");
    let counted = operation["count"].as_u64().unwrap();
    let result = place.result("sprint-write-1");
    let server = &result["pods"][0]["server"];
    let sets = |look: &str| server[look]["commands"]["set"]["calls"].as_u64().unwrap_or_default();
    assert!(counted > 1000, "{counted} operations");
    assert_eq!(sets("after") - sets("before"), counted, "the server counted otherwise");
    let usage = &result["servers"][0]["usage"];
    assert!(usage["cpuSeconds"].as_f64().unwrap() > 0.0, "the server's CPU time is missing: {usage}");
    let memory = usage["cgroup"]["memoryBytes"].as_u64().unwrap();
    assert!(
        (1 << 20..1 << 30).contains(&memory),
        "{memory} bytes are too many or too few for a small server"
    );
    assert!(fs::read_to_string(place.results().join("table.txt")).unwrap().contains("Ops/s"));
    assert!(text.contains("(page: report.html)"), "{text}");
    let page = fs::read_to_string(place.results().join("report.html")).unwrap();
    assert!(page.contains("Latency by percentile"), "the page has no curves");
    assert_eq!(place.command(&["report", "results", "--format", "html"]), (page, Some(0)));
    let (refusal, code) = place.command(&["report", "results", "results/run.json"]);
    assert!(code == Some(2) && refusal.contains("is named twice"), "one result counted twice: {refusal}");
    fs::copy(place.results().join("run.json"), place.results().join("copy.json")).unwrap();
    let (report, code) = place.command(&["report", "results", "results/copy.json"]);
    assert!(code == Some(0) && report.contains("results/copy.json"), "{report}");
    for missing in ["./no-such-run", "no-such/run"] {
        let (refusal, code) = place.command(&["report", missing]);
        let words = format!("there is no file or directory {missing}");
        assert!(code == Some(2) && refusal.contains(&words), "{refusal}");
    }
    place.is_left_alone();
}

#[test]
fn a_server_that_is_killed_under_load_is_reported_with_its_last_lines() {
    let place = Place::with(&manifest(60));
    let started = Instant::now();
    let child = place.start();
    kill(place.server_under_load(), Signal::SIGKILL).unwrap();
    let (text, code) = finished(&child.wait_with_output().unwrap());
    assert_eq!(code, Some(1), "{text}");
    assert!(started.elapsed() < Duration::from_secs(45), "it hung for {:?}", started.elapsed());
    assert!(text.contains("the server redis ended unexpectedly (signal: 9"), "{text}");
    assert!(text.contains("Ready to accept connections"), "its last lines are missing:\n{text}");
    assert_eq!(place.run()["status"]["phase"], "Failed");
    place.is_left_alone();
}

#[test]
fn an_interrupted_run_keeps_what_it_has_and_leaves_nothing_running() {
    let place = Place::with(&manifest(60));
    let child = place.start();
    place.server_under_load();
    interrupt(&child);
    let (text, code) = finished(&child.wait_with_output().unwrap());
    assert_eq!(code, Some(1), "{text}");
    let run = place.run();
    assert_eq!(run["status"]["phase"], "Cancelled");
    assert_eq!(run["status"]["message"], "interrupted: 0 of 1 measurements are stored");
    let stored = place.result("sprint-write-1");
    assert_eq!(stored["failure"]["failure"]["step"], "Interrupted", "{stored}");
    place.is_left_alone();
}

#[test]
fn children_do_not_outlive_a_program_that_is_killed() {
    let place = Place::with(&manifest(60));
    let mut child = place.start();
    place.server_under_load();
    child.kill().unwrap();
    child.wait().unwrap();
    place.is_left_alone();
}

#[test]
fn what_a_wrapper_started_does_not_outlive_a_program_that_is_killed() {
    let place = Place::with(&manifest(60));
    // A shell that stays, beside what has left its process group.
    place.program("wrapper", "setsid sleep 100 &\nredis-server \"$@\"\necho ended");
    let mut child = place.start_with(&["--server-binary", "Redis=./wrapper"]);
    place.server_under_load();
    assert!(place.runs("sleep"), "the wrapper started nothing");
    child.kill().unwrap();
    child.wait().unwrap();
    place.is_left_alone();
}

#[test]
fn a_second_interrupt_ends_at_once_what_does_not_end_by_itself() {
    let place = Place::with(&manifest(60));
    place.program("stubborn", "trap '' TERM\nredis-server \"$@\"\nsleep 100");
    let child = place.start_with(&["--server-binary", "Redis=./stubborn"]);
    place.server_under_load();
    interrupt(&child);
    wait_for("the server to end", || !place.runs("redis-server"));
    let interrupted = Instant::now();
    interrupt(&child);
    let (text, code) = finished(&child.wait_with_output().unwrap());
    assert_eq!(code, Some(130), "{text}");
    assert!(interrupted.elapsed() < Duration::from_secs(5), "it took {:?}", interrupted.elapsed());
    place.is_left_alone();
}

#[test]
fn a_run_that_is_interrupted_while_its_server_starts_has_ended() {
    let place = Place::with(&manifest(2));
    place.program("silent", "exec sleep 100");
    let child = place.start_with(&["--server-binary", "Redis=./silent"]);
    wait_for("the server to start", || place.runs("sleep"));
    interrupt(&child);
    let (text, code) = finished(&child.wait_with_output().unwrap());
    assert_eq!(code, Some(1), "{text}");
    assert_eq!(place.run()["status"]["phase"], "Cancelled", "{text}");
    assert!(text.contains("interrupted: 0 of 1 measurements are stored"), "{text}");
    place.is_left_alone();
}

#[test]
fn a_reader_that_goes_away_does_not_end_the_run() {
    let place = Place::with(&manifest(1));
    let mut child = place.start();
    drop(child.stdout.take());
    let (text, code) = finished(&child.wait_with_output().unwrap());
    assert_eq!(code, Some(0), "{text}");
    assert_eq!(place.run()["status"]["phase"], "Succeeded", "{text}");
}

#[test]
fn a_directory_has_one_run() {
    let place = Place::with(&manifest(60));
    let first = place.start();
    place.server_under_load();
    let (text, code) = finished(&place.start().wait_with_output().unwrap());
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("already contains results: use another --output-directory"), "{text}");
    interrupt(&first);
    let (text, code) = finished(&first.wait_with_output().unwrap());
    assert_eq!((code, &place.run()["status"]["phase"]), (Some(1), &"Cancelled".into()), "{text}");
}

#[test]
fn a_relative_tool_is_the_one_that_was_found() {
    let exec = "exec: {image: i, command: [./bench], parser: {regex: {lines: [\
        {pattern: '^(?<count>[0-9]+) GET at (?<operationsPerSecond>[0-9]+)', operation: GET}]}}}";
    let text = manifest(1);
    let (before, _) = text.split_once("loadgen:").unwrap();
    let before = before.replace("    warmup: 0s\n", "");
    let place = Place::with(&format!("{before}{exec}\n"));
    place.program("bench", "sleep 1\necho 1000 GET at 1000");
    let (text, _) = finished(&place.start().wait_with_output().unwrap());
    let result = place.result("sprint-write-1");
    assert_eq!(result["operations"][0]["count"], 1000, "{text}");
}

#[test]
fn what_cannot_run_is_refused_at_once_with_the_remedy() {
    let refused = |manifest: &str| {
        let started = Instant::now();
        let place = Place::with(manifest);
        let (text, code) = finished(&place.start().wait_with_output().unwrap());
        assert_eq!(code, Some(2), "{text}");
        assert!(started.elapsed() < Duration::from_secs(5), "it took {:?}", started.elapsed());
        assert!(!place.results().exists(), "something was begun");
        text
    };
    let text = refused(&manifest(2).replace("connectionsPerThread", "conectionsPerThread"));
    assert!(
        text.contains("conectionsPerThread") && text.contains("did you mean connectionsPerThread"),
        "{text}"
    );
    assert!(text.contains("race.yaml: error: BenchmarkRun sprint: spec.phases[0].loadgen."), "{text}");
    let text = refused(&manifest(2).replace("engine: Redis", "engine: KeyDB"));
    assert!(text.contains("keydb-server, which is not on PATH"), "{text}");
}

#[test]
fn a_suite_is_run_once_in_a_directory_and_leaves_its_reports() {
    let place = Place::with(
        "apiVersion: dragstrip.dev/v1alpha1
kind: BenchmarkSuite
metadata: {name: pipelines}
spec:
  variants:
  - name: redis
    target: {datastore: {engine: Redis, threads: 1, maxMemory: 256Mi}}
  axes:
  - name: pipeline
    paths: [/phases/0/loadgen/pipeline]
    values: [{value: 1}, {value: 8}]
  repetitions: 1
  run:
    phases:
    - name: write
      loadgen: {duration: 1s, connectionsPerThread: 4, keyMaximum: 1000, ratio: \"1:0\"}
",
    );
    let (text, code) = finished(&place.start().wait_with_output().unwrap());
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("run 2 of 2: ") && text.contains("pipeline"), "{text}");
    for report in ["report.html", "report.txt", "report.md", "report.csv", "report.json", "junit.xml"] {
        assert!(place.results().join(report).exists(), "{report} is missing");
    }
    let stored = fs::read_to_string(place.results().join("report.txt")).unwrap();
    assert_eq!(place.command(&["report", "results"]), (stored, Some(0)));
    let (text, code) = finished(&place.start().wait_with_output().unwrap());
    assert!(code == Some(2) && text.contains("already contains runs: use another"), "{text}");
    place.is_left_alone();
}

/// Two variants: one whose server dies at once, and one that is sound.
const HALF_BROKEN: &str = "apiVersion: dragstrip.dev/v1alpha1
kind: BenchmarkSuite
metadata: {name: halves}
spec:
  variants:
  - name: broken
    target: {datastore: {engine: Redis, threads: 1, maxMemory: 256Mi, extraArgs: [--no-such-option, \"1\"]}}
  - name: sound
    target: {datastore: {engine: Redis, threads: 1, maxMemory: 256Mi}}
  repetitions: 1
  run:
    phases:
    - name: write
      loadgen: {duration: 1s, connectionsPerThread: 4, keyMaximum: 1000, ratio: \"1:0\"}
";

#[test]
fn a_suite_goes_on_after_a_server_that_dies() {
    let place = Place::with(HALF_BROKEN);
    let (text, code) = finished(&place.start().wait_with_output().unwrap());
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("ended unexpectedly") && text.contains("no-such-option"), "{text}");
    assert!(text.contains("[1/1] write, repetition 1: "), "the sound one was not measured: {text}");
    assert!(place.results().join("report.json").exists(), "there is no report: {text}");
    place.is_left_alone();
}
