//! The built program against an apiserver that answers what a test wants.
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

/// The last part of a path that names no object of a kind.
const RUNS: &str = "/benchmarkruns";
const SUITES: &str = "/benchmarksuites";
const DATASTORES: &str = "/datastores";

/// What was asked, such as `PATCH /apis/...`, and what is answered.
type Answers = dyn Fn(&str) -> (u16, Value) + Send + Sync;

struct Apiserver {
    asked: Arc<Mutex<Vec<String>>>,
    directory: tempfile::TempDir,
}

/// How the program ended.
struct Said {
    code: i32,
    stdout: String,
    stderr: String,
}

fn serve(stream: TcpStream, answers: &Answers, asked: &Mutex<Vec<String>>) -> std::io::Result<()> {
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
    asked.lock().unwrap().push(request.clone());
    let (status, body) = answers(&request);
    let body = body.as_str().map_or_else(|| body.to_string(), str::to_owned);
    let head = format!("HTTP/1.1 {status} -\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
    reader.get_mut().write_all((head + &body).as_bytes())
}

impl Apiserver {
    fn that(answers: impl Fn(&str) -> (u16, Value) + Send + Sync + 'static) -> Self {
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
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (answers, noted): (Arc<Answers>, _) = (Arc::new(answers), Arc::clone(&asked));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (answers, asked) = (Arc::clone(&answers), Arc::clone(&noted));
                // Who has gone away needs no answer.
                thread::spawn(move || serve(stream, &*answers, &asked).ok());
            }
        });
        Self { asked, directory }
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
    fn asked(&self, method: &str) -> Vec<String> {
        let asked = self.asked.lock().unwrap();
        asked.iter().filter(|request| request.starts_with(method)).cloned().collect()
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

fn list(items: &[Value]) -> (u16, Value) {
    (200, json!({"apiVersion": "v1", "kind": "List", "metadata": {}, "items": items}))
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

/// One that has none of the runs yet, and takes what it is given.
fn taking(request: &str) -> (u16, Value) {
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
fn all_is_applied_though_nobody_reads_what_is_told() {
    let apiserver = Apiserver::that(taking);
    let manifests = format!("{DATASTORE}{}\n---\n{}", run("a"), run("b"));
    let mut child = apiserver.start(&["run", "-f", "-"], &manifests);
    drop(child.stdout.take());
    child.wait().unwrap();
    assert_eq!(apiserver.asked("PATCH").len(), 3, "{:?}", apiserver.asked(""));
}

#[test]
fn what_is_applied_elsewhere_names_its_namespace_and_is_refused_where_another_is_asked_for() {
    let apiserver = Apiserver::that(taking);
    let manifest = DATASTORE.replace("name: redis", "name: redis, namespace: lab");
    let said = apiserver.dragstrip(&["run", "-f", "-"], &manifest);
    assert_eq!(said.stdout, "datastore/redis applied in namespace lab\n", "{}", said.stderr);
    let said = apiserver.dragstrip(&["run", "-f", "-", "-o", "name"], &manifest);
    assert_eq!(said.stdout, "datastore/redis\n", "{}", said.stderr);
    let applied = apiserver.asked("PATCH").len();
    let said = apiserver.dragstrip(&["run", "-f", "-", "-n", "races"], &manifest);
    assert!(said.code == 2 && said.stderr.contains("leave one of the two out"), "{}", said.stderr);
    assert_eq!(apiserver.asked("PATCH").len(), applied, "and nothing is applied");
}

#[test]
fn fields_that_somebody_else_has_set_are_taken_over_when_that_is_asked_for() {
    let conflict = "Apply failed with 1 conflict: conflict with \"kubectl\": .spec.threads";
    let apiserver = Apiserver::that(move |request| match request {
        _ if request.contains("force=true") => taking(request),
        _ => refusal(409, "Conflict", conflict),
    });
    let said = apiserver.dragstrip(&["run", "-f", "-"], DATASTORE);
    assert_eq!(
        said.stderr,
        format!(
            "error: failed to apply datastore/redis, whose fields somebody else has set: take them over with --force-conflicts: {conflict}\n"
        )
    );
    let said = apiserver.dragstrip(&["run", "-f", "-", "--force-conflicts"], DATASTORE);
    assert_eq!((said.code, said.stdout.as_str()), (0, "datastore/redis applied\n"), "{}", said.stderr);
}

#[test]
fn a_kind_that_may_not_be_seen_is_left_out_of_everything_and_an_error_where_it_is_named() {
    let apiserver = Apiserver::that(|request| match request {
        _ if request.contains(SUITES) => forbidden(),
        _ if request.contains(RUNS) => list(&[run("a")]),
        _ => list(&[]),
    });
    let all = apiserver.dragstrip(&["get"], "");
    assert!(all.code == 0 && all.stdout.contains("\na  "), "{}{}", all.stdout, all.stderr);
    assert_eq!(all.stderr, "left out: failed to list benchmarksuites: you may not\n");
    let named = apiserver.dragstrip(&["get", "suites"], "");
    assert_eq!((named.code, named.stdout.as_str()), (2, ""));
    assert_eq!(named.stderr, "error: failed to list benchmarksuites: you may not\n");
}

#[test]
fn a_cluster_without_the_kinds_is_told_to_need_them() {
    let apiserver = Apiserver::that(|_| (404, json!("404 page not found")));
    let said = apiserver.dragstrip(&["get"], "");
    assert!(
        said.code == 2 && said.stderr.contains("its CustomResourceDefinitions are not installed"),
        "{}",
        said.stderr
    );
}

#[test]
fn one_run_as_json_is_that_run_and_several_objects_are_a_list() {
    let apiserver = Apiserver::that(|request| match request {
        _ if request.contains(RUNS) => list(&[run("a"), run("b")]),
        _ => list(&[]),
    });
    let json = |arguments: &[&str]| -> Value {
        let said = apiserver.dragstrip(arguments, "");
        serde_json::from_str(&said.stdout).unwrap_or_else(|error| panic!("{error}: {}", said.stderr))
    };
    assert_eq!(json(&["get", "run", "a", "-o", "json"])["metadata"]["name"], "a");
    let all = json(&["get", "-o", "json"]);
    assert_eq!((&all["kind"], all["items"].as_array().unwrap().len()), (&json!("List"), 2));
}

#[test]
fn a_run_is_found_by_its_name_where_suites_may_not_be_seen() {
    let apiserver = Apiserver::that(|request| match request {
        _ if request.contains(SUITES) => forbidden(),
        _ => (200, run("a")),
    });
    let said = apiserver.dragstrip(&["cancel", "a"], "");
    assert_eq!((said.code, said.stdout.as_str()), (0, "run/a is being cancelled\n"), "{}", said.stderr);
}

#[test]
fn what_was_cancelled_before_another_failed_is_told() {
    let apiserver = Apiserver::that(|request| match request {
        _ if request.contains(SUITES) => absent(),
        _ if request.starts_with("PATCH") && request.contains("/benchmarkruns/b") => forbidden(),
        _ if request.contains("/benchmarkruns/b") => (200, run("b")),
        _ => (200, run("a")),
    });
    let said = apiserver.dragstrip(&["cancel", "a", "b"], "");
    assert_eq!((said.code, said.stdout.as_str()), (2, "run/a is being cancelled\n"));
    assert_eq!(said.stderr, "error: failed to cancel run/b: you may not\n");
}

/// One in which `nightly` is a suite with a schedule, and `a` a run with a pod that waits.
fn waiting(request: &str) -> (u16, Value) {
    match request {
        _ if request.contains("/log") => refusal(400, "BadRequest", "container is waiting to start"),
        _ if request.contains("/pods") => list(&[json!({
            "metadata": {"name": "a-read-1", "labels": {}}, "spec": {"containers": [{"name": "client"}]}
        })]),
        _ if request.contains("/benchmarksuites/nightly") => (200, suite("nightly")),
        _ if request.contains("/benchmarkruns/a") => (200, run("a")),
        _ => absent(),
    }
}

#[test]
fn a_suite_with_a_schedule_is_not_waited_for() {
    let apiserver = Apiserver::that(waiting);
    let said = apiserver.dragstrip(&["follow", "suite/nightly"], "");
    assert_eq!((said.code, said.stdout.as_str()), (2, ""));
    assert_eq!(
        said.stderr,
        "error: suite/nightly makes rounds by its schedule and does not end itself: follow suite/nightly-29454660 (the last round)\n"
    );
}

#[test]
fn a_suite_is_told_to_have_neither_logs_nor_results_of_its_own() {
    let apiserver = Apiserver::that(waiting);
    for arguments in [&["logs", "suite/nightly"][..], &["report", "--results", "suite", "nightly"]] {
        let said = apiserver.dragstrip(arguments, "");
        assert_eq!((said.code, said.stdout.as_str()), (2, ""), "{arguments:?}");
        let words = "dragstrip get runs -l dragstrip.dev/suite=nightly lists";
        assert!(said.stderr.contains(words), "{arguments:?}: {}", said.stderr);
    }
}

#[test]
fn a_run_whose_pods_say_nothing_yet_has_nothing_to_be_printed() {
    let apiserver = Apiserver::that(waiting);
    let said = apiserver.dragstrip(&["logs", "a"], "");
    assert_eq!((said.code, said.stdout.as_str()), (1, ""));
    assert_eq!(
        said.stderr,
        "a-read-1/client: its log cannot be read: container is waiting to start\nnone of the pods has said anything that can be read yet: look again, or see kubectl describe pod\n"
    );
}

#[test]
fn results_are_written_to_the_file_that_is_named() {
    let apiserver = Apiserver::that(waiting);
    let said = apiserver.dragstrip(&["report", "--results", "a", "--output-file", "r.json"], "");
    assert_eq!((said.code, said.stdout.as_str()), (1, ""), "nothing was measured: {}", said.stderr);
    let written = fs::read_to_string(apiserver.directory.path().join("r.json")).unwrap();
    assert_eq!(written, "{\n  \"a\": []\n}\n");
}
