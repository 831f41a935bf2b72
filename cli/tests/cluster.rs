//! The built program against an API server whose answers a test chooses.
// A helper of a test is a test too, which clippy cannot see.
#![allow(clippy::unwrap_used, clippy::unwrap_in_result)]

use serde_json::{Value, json};
use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
    thread,
};

/// Parts of paths, by kind.
const SUITES: &str = "/benchmarksuites";
const DATASTORES: &str = "/datastores";

/// The answer to a request such as `PATCH /apis/...`.
type Answers = dyn Fn(&str) -> (u16, Value) + Send + Sync;

struct Apiserver {
    requests: Arc<Mutex<Vec<String>>>,
    directory: tempfile::TempDir,
}

/// How the program ended.
struct Said {
    code: i32,
    stdout: String,
    stderr: String,
}

fn serve(stream: TcpStream, answers: &Answers, requests: &Mutex<Vec<String>>) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    let (mut line, mut length, mut request) = (String::new(), 0, String::new());
    while reader.read_line(&mut line)? > 2 {
        if request.is_empty() {
            request = line.split(' ').take(2).collect::<Vec<_>>().join(" ");
        }
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        line.clear();
    }
    reader.by_ref().take(length).read_to_end(&mut Vec::new())?;
    requests.lock().unwrap().push(request.clone());
    let (status, body) = answers(&request);
    let body = body.as_str().map_or_else(|| body.to_string(), str::to_owned);
    let head = format!("HTTP/1.1 {status} -\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
    reader.get_mut().write_all((head + &body).as_bytes())
}

impl Apiserver {
    fn answering(answers: impl Fn(&str) -> (u16, Value) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = format!("http://{}", listener.local_addr().unwrap());
        let directory = tempfile::tempdir().unwrap();
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "clusters": [{"name": "test", "cluster": {"server": server}}],
            "users": [{"name": "test", "user": {}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test", "namespace": "races"}}]
        });
        fs::write(directory.path().join("config"), config.to_string()).unwrap();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (answers, noted): (Arc<Answers>, _) = (Arc::new(answers), Arc::clone(&requests));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (answers, requests) = (Arc::clone(&answers), Arc::clone(&noted));
                // A client that has gone away needs no answer.
                thread::spawn(move || serve(stream, &*answers, &requests).ok());
            }
        });
        Self { requests, directory }
    }

    fn start(&self, arguments: &[&str], input: &str) -> Child {
        let mut child = Command::new(env!("CARGO_BIN_EXE_dragstrip"))
            .args(arguments)
            .current_dir(self.directory.path())
            .env("KUBECONFIG", self.directory.path().join("config"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        child
    }

    fn dragstrip(&self, arguments: &[&str], input: &str) -> Said {
        let output = self.start(arguments, input).wait_with_output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        let code = output.status.code().unwrap();
        Said { code, stdout: text(output.stdout), stderr: text(output.stderr) }
    }

    /// The requests that begin with `method`.
    fn requests(&self, method: &str) -> Vec<String> {
        let requests = self.requests.lock().unwrap();
        requests.iter().filter(|request| request.starts_with(method)).cloned().collect()
    }
}

fn refusal(code: u16, reason: &str, message: &str) -> (u16, Value) {
    let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure",
        "code": code, "reason": reason, "message": message});
    (code, status)
}

fn forbidden() -> (u16, Value) {
    refusal(403, "Forbidden", "you may not")
}

fn absent() -> (u16, Value) {
    refusal(404, "NotFound", "not there")
}

fn run(name: &str) -> Value {
    json!({
        "apiVersion": "dragstrip.dev/v1alpha1", "kind": "BenchmarkRun",
        "metadata": {"name": name, "namespace": "races"},
        "spec": {"target": {"datastoreRef": {"name": "redis"}},
                 "phases": [{"name": "read", "loadgen": {"duration": "5s"}}]}
    })
}

fn suite(name: &str) -> Value {
    json!({
        "apiVersion": "dragstrip.dev/v1alpha1", "kind": "BenchmarkSuite",
        "metadata": {"name": name, "namespace": "races"},
        "spec": {"schedule": "0 3 * * *",
                 "variants": [{"name": "redis", "target": {"datastoreRef": {"name": "redis"}}}],
                 "run": {"phases": [{"name": "read", "loadgen": {"duration": "5s"}}]}},
        "status": {"phase": "Scheduled", "lastRound": "nightly-29454660"}
    })
}

const DATASTORE: &str = "apiVersion: dragstrip.dev/v1alpha1
kind: Datastore
metadata: {name: redis}
spec: {engine: Redis, threads: 1}
---
";

/// Answers of an API server that has no object yet, and accepts all.
fn accepting(request: &str) -> (u16, Value) {
    match request {
        _ if request.starts_with("GET") => absent(),
        _ if request.contains(DATASTORES) => (
            200,
            json!({"apiVersion": "dragstrip.dev/v1alpha1", "kind": "Datastore",
                "metadata": {"name": "redis"}, "spec": {"engine": "Redis", "threads": 1}}),
        ),
        _ => (200, run("a")),
    }
}

#[test]
fn everything_is_applied_even_if_nobody_reads_the_output() {
    let apiserver = Apiserver::answering(accepting);
    let manifests = format!("{DATASTORE}{}\n---\n{}", run("a"), run("b"));
    let mut child = apiserver.start(&["run", "-f", "-"], &manifests);
    drop(child.stdout.take());
    child.wait().unwrap();
    assert_eq!(apiserver.requests("PATCH").len(), 3, "{:?}", apiserver.requests(""));
}

#[test]
fn an_object_in_another_namespace_names_it_and_is_refused_if_the_command_line_names_another() {
    let apiserver = Apiserver::answering(accepting);
    let manifest = DATASTORE.replace("name: redis", "name: redis, namespace: lab");
    let said = apiserver.dragstrip(&["run", "-f", "-"], &manifest);
    assert_eq!(said.stdout, "datastore/redis applied in namespace lab\n", "{}", said.stderr);
    let said = apiserver.dragstrip(&["run", "-f", "-", "-o", "json"], &manifest);
    let done: Value = serde_json::from_str(&said.stdout).unwrap();
    assert_eq!(done, json!([{"name": "datastore/redis", "namespace": "lab", "state": "applied"}]));
    let applied = apiserver.requests("PATCH").len();
    let said = apiserver.dragstrip(&["run", "-f", "-", "-n", "races"], &manifest);
    assert!(said.code == 2 && said.stderr.contains("leave one of the two out"), "{}", said.stderr);
    assert_eq!(apiserver.requests("PATCH").len(), applied, "and nothing is applied");
}

#[test]
fn fields_of_another_client_are_taken_over_only_with_force_conflicts() {
    let conflict = "Apply failed with 1 conflict: conflict with \"kubectl\": .spec.threads";
    let apiserver = Apiserver::answering(move |request| match request {
        _ if request.contains("force=true") => accepting(request),
        _ => refusal(409, "Conflict", conflict),
    });
    let said = apiserver.dragstrip(&["run", "-f", "-"], DATASTORE);
    assert_eq!(
        said.stderr,
        format!(
            "error: failed to apply datastore/redis, because another client has set its fields: take them over with --force-conflicts: {conflict}\n"
        )
    );
    let said = apiserver.dragstrip(&["run", "-f", "-", "--force-conflicts"], DATASTORE);
    assert_eq!((said.code, said.stdout.as_str()), (0, "datastore/redis applied\n"), "{}", said.stderr);
}

#[test]
fn a_run_is_found_by_its_name_without_the_right_to_see_suites() {
    let apiserver = Apiserver::answering(|request| match request {
        _ if request.contains(SUITES) => forbidden(),
        _ => (200, run("a")),
    });
    let said = apiserver.dragstrip(&["cancel", "a"], "");
    assert_eq!((said.code, said.stdout.as_str()), (0, "run/a is being cancelled\n"), "{}", said.stderr);
}

#[test]
fn what_was_cancelled_before_a_failure_is_printed() {
    let apiserver = Apiserver::answering(|request| match request {
        _ if request.contains(SUITES) => absent(),
        _ if request.starts_with("PATCH") && request.contains("/benchmarkruns/b") => forbidden(),
        _ if request.contains("/benchmarkruns/b") => (200, run("b")),
        _ => (200, run("a")),
    });
    let said = apiserver.dragstrip(&["cancel", "a", "b"], "");
    assert_eq!((said.code, said.stdout.as_str()), (2, "run/a is being cancelled\n"));
    assert_eq!(said.stderr, "error: failed to cancel run/b: you may not\n");
}

/// Answers of an API server in which `nightly` is a suite with a schedule, and `a` a run.
fn waiting(request: &str) -> (u16, Value) {
    match request {
        _ if request.contains("/benchmarksuites/nightly") => (200, suite("nightly")),
        _ if request.contains("/benchmarkruns/a") => (200, run("a")),
        _ => absent(),
    }
}

#[test]
fn a_suite_with_a_schedule_is_not_waited_for() {
    let apiserver = Apiserver::answering(waiting);
    let said = apiserver.dragstrip(&["follow", "suite/nightly"], "");
    assert_eq!((said.code, said.stdout.as_str()), (2, ""));
    assert_eq!(
        said.stderr,
        "error: suite/nightly starts rounds on a schedule and never ends: follow suite/nightly-29454660 (its last round)\n"
    );
}

#[test]
fn a_suite_has_no_results_of_its_own() {
    let apiserver = Apiserver::answering(waiting);
    let said = apiserver.dragstrip(&["report", "--results", "suite", "nightly"], "");
    assert_eq!((said.code, said.stdout.as_str()), (2, ""));
    let words = "kubectl get benchmarkruns -l dragstrip.dev/suite=nightly lists";
    assert!(said.stderr.contains(words), "{}", said.stderr);
}

#[test]
fn a_run_is_followed_to_its_end_and_a_deleted_one_has_no_result() {
    let condition = |kind: &str| {
        json!({"type": kind, "status": "True", "reason": "r", "message": "m",
        "lastTransitionTime": "2026-01-01T00:00:00Z"})
    };
    let polls = Mutex::new(0);
    let apiserver = Apiserver::answering(move |request| match request {
        _ if request.contains("/benchmarkruns/a") => {
            let mut polls = polls.lock().unwrap();
            *polls += 1;
            let mut run = run("a");
            let ended = if *polls > 2 { vec![condition("Complete"), condition("Passed")] } else { vec![] };
            run["status"] =
                json!({"phase": if *polls > 2 { "Succeeded" } else { "Running" }, "conditions": ended});
            (200, run)
        }
        _ if request.contains("/benchmarkruns/b") => {
            let mut polls = polls.lock().unwrap();
            *polls += 1;
            if *polls > 4 { absent() } else { (200, run("b")) }
        }
        _ => absent(),
    });
    let said = apiserver.dragstrip(&["follow", "run/a"], "");
    assert_eq!(said.code, 0, "{}{}", said.stdout, said.stderr);
    assert!(said.stderr.contains("a  Running") && said.stderr.contains("a  Succeeded"), "{}", said.stderr);
    let said = apiserver.dragstrip(&["follow", "run/b"], "");
    assert!(said.code == 2 && said.stderr.contains("b  Deleted"), "{}{}", said.stdout, said.stderr);
}

#[test]
fn results_are_written_to_the_file_that_is_named() {
    let apiserver = Apiserver::answering(waiting);
    let said = apiserver.dragstrip(&["report", "--results", "a", "--output-file", "r.json"], "");
    assert_eq!((said.code, said.stdout.as_str()), (1, ""), "nothing was measured: {}", said.stderr);
    let written = fs::read_to_string(apiserver.directory.path().join("r.json")).unwrap();
    assert_eq!(written, "{\n  \"a\": []\n}\n");
}
