//! The complete runner with the real memtier_benchmark against a real
//! redis-server: recordings hide what the tool refuses. The program is the one
//! that `DRAGSTRIP_TEST_MEMTIER` names, else the one on PATH; without either the
//! tests say that they did not run.

// A helper of a test is a test too, which clippy cannot see.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
// The helpers serve other tests too.
#![allow(dead_code)]

#[path = "topology/certificates.rs"]
mod certificates;
#[path = "support/memtier.rs"]
mod real;
#[path = "support/redis.rs"]
mod redis;
#[path = "support/runner.rs"]
mod runner;
#[path = "support/servers.rs"]
mod servers;
#[path = "support/signing.rs"]
mod signing;

use certificates::Certificates;
use dragstrip_results::result::FailureStep;
use futures::future::join_all;
use real::{pod, program as memtier};
use redis::{Redis, free_port, wait_for};
use runner::{Finished, PASSWORD, Pod, TOKEN, job, loadgen, start_in};
use serde_json::{Value, json};
use servers::{Encrypted, Shards};
use std::{fs, path::Path, time::Duration};

const SOON: Duration = Duration::from_millis(700);

/// A memtier phase of one second with these fields over the usual ones.
fn phase(fields: &Value) -> Value {
    let mut spec = json!({"threads": 2, "connectionsPerThread": 2, "keyMaximum": 999});
    spec.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    if spec.get("requestsPerConnection").is_none() && spec.get("testTime").is_none() {
        spec["testTime"] = json!("1s");
    }
    json!({"memtier": spec})
}

/// Runs a phase from the line to its end.
async fn measured(pod: Pod) -> Finished {
    let pod = pod.at_the_line().await;
    pod.start(start_in(SOON), TOKEN).await;
    pod.finished().await
}

/// Runs a phase with these fields against a server of its own.
async fn ran(program: &Path, fields: &Value) -> Finished {
    let server = Redis::start(&[]).await;
    measured(pod(program, &job(server.port, &phase(fields)))).await
}

/// Runs every phase, some at a time, and reports which have no result.
async fn all_give_results(program: &Path, phases: Vec<Value>) {
    let mut failures = Vec::new();
    for some in phases.chunks(4) {
        for (fields, finished) in
            join_all(some.iter().map(async |fields| (fields, ran(program, fields).await))).await
        {
            let count: u64 = finished.result.operations.iter().map(|operation| operation.count).sum();
            if finished.result.failure.is_some() || count < 50 {
                failures.push(format!("{fields}: {count} operations, {:?}", finished.result.failure));
            }
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

#[tokio::test]
async fn the_real_tool_takes_every_field() {
    let Some(program) = memtier("every field of memtier") else { return };
    let phases = vec![
        json!({}),
        json!({"ratio": "1:0", "keyMinimum": 1, "keyPrefix": "k:", "pipeline": 10, "extraArgs": ["--random-data"]}),
        json!({"requestsPerConnection": 500, "keyPattern": "P:P", "distinctClientSeed": true}),
        json!({"dataSizeRange": "16-1024", "keyPattern": "S:S", "extraArgs": ["--reconnect-interval=50"]}),
        json!({"dataSizeList": "32:9,64:1", "keyPattern": "Z:Z", "extraArgs": ["--key-zipf-exp=4.99"], "protocol": "Resp3"}),
        json!({"keyPattern": "G:G", "extraArgs": ["--key-stddev=50.5", "--key-median=500"], "protocol": "Resp2"}),
        json!({"rateLimit": 500, "dataSize": 100, "protocol": "Redis"}),
        json!({"commands": [{"command": "SET __key__ __data__", "keyPattern": "P"}, {"command": "GET __key__", "ratio": 3, "keyPattern": "P"}]}),
        json!({"commands": [{"command": "LPUSH list __data__"}, {"command": "HSET __key__ f \"a b\"", "keyPattern": "Z"}], "extraArgs": ["--key-zipf-exp=0.5"]}),
    ];
    all_give_results(&program, phases).await;
}

#[tokio::test]
async fn what_extra_args_may_hold_leaves_the_real_tools_result_readable() {
    let Some(program) = memtier("further options of memtier") else { return };
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str| directory.path().join(name).display().to_string();
    fs::write(file("monitor"), "1700000000.1 [0 1.2.3.4:5] \"SET\" \"k\" \"v\"\n").unwrap();
    let get = json!([{"command": "GET __key__"}]);
    let scan = json!([{"command": "SCAN 0 COUNT 10"}]);
    let monitor = json!([{"command": "__monitor_line1__"}]);
    let lines = json!([{"command": "SET a __data__"}, {"command": "SET b __data__"}]);
    let phases = vec![
        json!({"extraArgs": ["--select-db=1", "--connection-timeout=5", "--show-config", "--randomize"]}),
        json!({"extraArgs": ["--statsd-host=127.0.0.1", "--statsd-port=1", "--statsd-prefix=p", "--statsd-run-label=l", "--graphite-port=1"]}),
        json!({"extraArgs": ["--clients-start=1", "--clients-step=1", "--step-duration=1"], "testTime": "3s"}),
        json!({"extraArgs": ["--thread-conn-start-min-jitter-micros=1", "--thread-conn-start-max-jitter-micros=900"]}),
        json!({"extraArgs": [format!("--client-stats={}", file("c")), format!("--hdr-file-prefix={}", file("h"))]}),
        json!({"extraArgs": ["--data-size-pattern=S"], "dataSizeRange": "1-100", "keyPattern": "S:S"}),
        json!({"extraArgs": ["--wait-ratio=1:1", "--num-slaves=0-1", "--wait-timeout=1-2"], "ratio": "1:1"}),
        json!({"extraArgs": ["--debug"], "rateLimit": 100}),
        // What these send the server counts under other names.
        json!({"extraArgs": ["--data-offset=4"], "ratio": "1:1"}),
        json!({"extraArgs": ["--expiry-range=10-20"], "ratio": "1:1"}),
        json!({"extraArgs": ["--command-stats-breakdown=line"], "commands": lines}),
        json!({"extraArgs": ["--scan-incremental-iteration", "--scan-incremental-max-iterations=5"], "commands": scan}),
        json!({"extraArgs": [format!("--monitor-input={}", file("monitor")), "--monitor-pattern=R"], "commands": monitor}),
        json!({"extraArgs": ["--randomize"], "commands": get}),
    ];
    all_give_results(&program, phases).await;
}

/// What the published commands measure, with fewer threads and requests.
#[tokio::test]
async fn the_published_commands_are_measured() {
    let Some(program) = memtier("published memtier commands") else { return };
    let write = json!({"connectionsPerThread": 20, "requestsPerConnection": 100, "ratio": "1:0", "distinctClientSeed": true});
    let read = json!({"connectionsPerThread": 20, "requestsPerConnection": 100, "ratio": "0:1", "distinctClientSeed": true});
    let pipelined = json!({"connectionsPerThread": 5, "requestsPerConnection": 400, "ratio": "0:1", "pipeline": 10, "distinctClientSeed": true});
    let server = Redis::start(&[]).await;
    for (fields, command, requests) in
        [(write, "SET", 4_000), (read, "GET", 4_000), (pipelined, "GET", 4_000)]
    {
        let finished = measured(pod(&program, &job(server.port, &phase(&fields)))).await;
        assert_eq!(finished.result.failure, None, "{fields}");
        let operation = &finished.result.operations[0];
        assert_eq!((operation.name.as_str(), operation.count), (command, requests), "{fields}");
    }
}

#[tokio::test]
async fn keys_that_our_own_generator_wrote_are_found() {
    let Some(program) = memtier("memtier on loadgen's keys") else { return };
    let server = Redis::start(&[]).await;
    let mut write = loadgen(1);
    write["loadgen"] = json!({"requestsPerConnection": 1000, "ratio": "1:0", "keyPattern": "Sequential",
        "keyPrefix": "memtier-", "keyMaximum": 999, "connectionsPerThread": 4});
    assert_eq!(measured(Pod::new(&job(server.port, &write))).await.result.failure, None);
    let read = job(server.port, &phase(&json!({"ratio": "0:1"})));
    let result = measured(pod(&program, &read)).await.result;
    let get = result.operations.iter().find(|operation| operation.name == "GET").unwrap();
    assert!(get.count > 0 && get.hits == Some(get.count), "{get:?}");
}

#[tokio::test]
async fn the_real_tool_speaks_tls_as_the_target_declares() {
    let Some(program) = memtier("memtier over TLS") else { return };
    let certificates = Certificates::new("db.example");
    let port = free_port();
    let server = Encrypted::start(port, &certificates);
    let mut job = job(port, &phase(&json!({"extraArgs": ["--tls-protocols=TLSv1.2,TLSv1.3"]})));
    job["target"]["username"] = json!("bench");
    job["target"]["tls"] = json!({"serverName": "db.example", "authority": true, "clientCertificate": true, "insecureSkipVerify": false});
    let pod = pod(&program, &job)
        .password(PASSWORD)
        .argument("--authority-directory", &certificates.of("client"))
        .argument("--client-certificate-directory", &certificates.of("client"));
    assert_eq!(measured(pod).await.result.failure, None);
    drop(server);
}

#[tokio::test]
async fn a_cluster_is_loaded_by_the_real_tool() {
    let Some(program) = memtier("memtier on a cluster") else { return };
    let cluster = Shards::start(3).await;
    let mut job = job(cluster.servers[0].port, &phase(&json!({"ratio": "1:1"})));
    job["target"]["cluster"] = json!(true);
    job["target"]["members"] = cluster.members();
    let finished = measured(pod(&program, &job)).await;
    assert_eq!(finished.result.failure, None);
}

#[tokio::test]
async fn the_real_tool_prints_its_version() {
    let Some(program) = memtier("the version of memtier") else { return };
    let finished = ran(&program, &json!({"requestsPerConnection": 10})).await;
    let version = finished.result.tool.version.expect("no version was read");
    assert!(version.split('.').count() == 3, "{version}");
}

#[tokio::test]
async fn a_password_and_a_prefix_of_any_characters_are_no_obstacle_to_the_real_tool() {
    let Some(program) = memtier("quotation marks in a password") else { return };
    let (password, typed) = (r#"pa"ss\word"#, r#"pa\"ss\\word"#);
    let server = Redis::start(&[]).await;
    server.ask(&format!("ACL SETUSER bench on \">{typed}\" ~* +@all")).unwrap();
    let mut job = job(server.port, &phase(&json!({"keyPrefix": "k\"e\\y:"})));
    job["target"]["username"] = json!("bench");
    let finished = measured(pod(&program, &job).password(password)).await;
    assert_eq!(finished.result.failure, None);
    for text in [finished.stdout, finished.termination] {
        assert!(!text.contains("ss\\word") && !text.contains("ss\\\\word"), "the password is in {text}");
    }
}

/// A phase that is ended two seconds after its line, with what is done to the
/// server under load.
async fn overdue(program: &Path, meanwhile: impl FnOnce(&mut Redis)) -> Finished {
    let mut server = Redis::start(&[]).await;
    let mut job = job(server.port, &phase(&json!({"testTime": "60s"})));
    job["watchdogSeconds"] = json!(2.0);
    let pod = pod(program, &job).at_the_line().await;
    pod.start(start_in(SOON), TOKEN).await;
    wait_for("load", async || pod.progress().await.filter(|state| state.operations > 0)).await;
    meanwhile(&mut server);
    pod.finished().await
}

#[tokio::test]
async fn the_numbers_of_a_tool_that_does_not_end_in_time_are_stored() {
    let Some(program) = memtier("the watchdog") else { return };
    let finished = overdue(&program, |_| ()).await;
    let failure = finished.failure();
    assert_eq!((failure.step, failure.exit_code), (FailureStep::Watchdog, Some(0)), "{failure:?}");
    assert!(failure.message.starts_with("memtier was still running after "), "{failure:?}");
    assert!(finished.result.operations.iter().all(|operation| operation.count > 0));
    assert!(!finished.result.operations.is_empty(), "what was measured is lost");
}

#[tokio::test]
async fn connections_that_drop_are_reported_although_the_time_was_up() {
    let Some(program) = memtier("dropped connections") else { return };
    let finished = overdue(&program, |server| {
        server.ask("CLIENT KILL TYPE normal SKIPME yes").unwrap();
    })
    .await;
    let failure = finished.failure();
    assert_eq!(failure.step, FailureStep::Watchdog);
    assert!(failure.message.contains("reset by peer") || failure.message.contains("dropped"), "{failure:?}");
}

#[tokio::test]
async fn a_server_that_is_gone_is_reported_although_the_time_was_up() {
    let Some(program) = memtier("a server that dies") else { return };
    let finished = overdue(&program, Redis::stop).await;
    let failure = finished.failure();
    assert_eq!(failure.step, FailureStep::ServerIdentity, "{failure:?}");
    assert!(failure.message.contains("the server is unreachable after the load"), "{failure:?}");
}

/// Four connections of 200 requests each at 500 a second: 0.4 s of load, which
/// memtier takes a full second to end, run by a script that does `before` first.
async fn behind_a_script(program: &Path, before: &str) -> Finished {
    let server = Redis::start(&[]).await;
    let job = job(server.port, &phase(&json!({"requestsPerConnection": 200, "rateLimit": 500})));
    let script = format!("{before}\n'{}' \"$@\"\nexit $?", program.display());
    let finished = measured(Pod::new(&job).script(&script)).await;
    assert_eq!(finished.result.failure, None);
    finished
}

#[tokio::test]
async fn a_script_around_the_tool_does_not_change_the_window() {
    let Some(program) = memtier("a script around memtier") else { return };
    let window = behind_a_script(&program, ":").await.result.window;
    assert!((0.3..0.7).contains(&window.seconds), "{window:?}");
}

#[tokio::test]
async fn the_window_begins_with_the_load_and_not_before_the_tool_exists() {
    let Some(program) = memtier("the window's begin") else { return };
    let window = behind_a_script(&program, "sleep 0.5").await.result.window;
    assert!(window.start_skew_seconds > 0.5, "{window:?}");
    assert!((0.3..0.7).contains(&window.seconds), "{window:?}");
}
