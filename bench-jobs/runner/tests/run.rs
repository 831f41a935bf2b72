//! The complete runner: the real program against a real redis-server, with
//! our load generator, and with scripts in the shape of a tool that fails.

// A helper of a test is a test too, which clippy cannot see.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "topology/certificates.rs"]
mod certificates;
#[path = "support/redis.rs"]
mod redis;
#[path = "support/runner.rs"]
mod runner;
#[path = "support/servers.rs"]
mod servers;
#[path = "support/signing.rs"]
mod signing;

use certificates::Certificates;
use dragstrip_crds::run::{MemoryMoment, SUM};
use dragstrip_results::{
    protocol::{ClockOffset, RunnerStage},
    result::{FailureStep, Presence},
    signing::SigningKey,
};
use redis::{Redis, free_port, wait_for};
use runner::{PASSWORD, Pod, TOKEN, alive, job, loadgen, stand_in, start_in};
use serde_json::json;
use servers::{Encrypted, Shards};
use signing::operator;
use std::{
    fs,
    time::{Duration, Instant},
};

const SOON: Duration = Duration::from_millis(1300);

#[tokio::test]
async fn a_good_run_agrees_with_the_servers_own_counters() {
    let server = Redis::start(&["--requirepass", PASSWORD]).await;
    server.ask("SET leftover 1").unwrap();
    let mut job = job(server.port, &loadgen(2));
    job["flush"] = json!(true);
    job["target"]["runId"] = json!(server.run_id());
    let pod = Pod::new(&job).password(PASSWORD).at_the_line().await;
    assert!(server.ask("DBSIZE").unwrap().starts_with(":0"), "the server was not flushed");
    assert_eq!(pod.start(start_in(SOON), TOKEN).await.0, 200);
    let progress =
        wait_for("progress", async || pod.progress().await.filter(|state| state.operations > 0)).await;
    assert_eq!(progress.stage, RunnerStage::Running);
    let metrics = pod.metrics().await;
    let labels = r#"client="0",phase="phase",repetition="1",run="run""#;
    assert!(
        metrics.contains(&format!("dragstrip_runner_stage{{{labels},stage=\"running\"}} 1")),
        "{metrics}"
    );

    let finished = pod.finished().await;
    assert_eq!(finished.result.failure, None);
    assert_eq!(finished.code, Some(0));
    let record = finished.result.server.as_ref().unwrap();
    let after = record.after.as_ref().unwrap();
    for operation in &finished.result.operations {
        let calls = |counters: &dragstrip_results::observed::ServerCounters| {
            counters.commands.get(&operation.name.to_lowercase()).map_or(0, |counter| counter.calls)
        };
        assert!(operation.count > 100, "{operation:?}");
        assert_eq!(calls(after) - calls(&record.before), operation.count, "{}", operation.name);
    }
    let window = &finished.result.window;
    assert!(window.seconds > 1.5 && window.start_skew_seconds.abs() < 0.5, "{window:?}");
    assert!(finished.result.client.cpu_seconds > 0.0);
    assert!(finished.stdout.contains(" ops/s  "), "{}", finished.stdout);
    assert!(finished.termination.contains("\"operation\":\"GET\""));
}

#[tokio::test]
async fn the_memory_of_a_server_that_nobody_observes_is_read_by_its_first_client() {
    let server = Redis::start(&[]).await;
    let mut job = job(server.port, &loadgen(1));
    job["memory"] = json!({"settleSeconds": 1.5});
    let pod = Pod::new(&job).at_the_line().await;
    pod.start(start_in(SOON), TOKEN).await;
    let result = pod.finished().await.result;
    assert_eq!(result.failure, None);
    let rows: Vec<_> = result.memory.iter().map(|row| (row.moment, row.member.as_str())).collect();
    let member = result.memory[0].member.as_str();
    assert!(member.ends_with(&format!(":{}", server.port)), "{member}");
    let expected =
        [MemoryMoment::RightAfter, MemoryMoment::Settled].map(|moment| [(moment, member), (moment, SUM)]);
    assert_eq!(rows, expected.concat());
    for row in &result.memory {
        assert!(
            row.keys > Some(0) && row.used_bytes > Some(100_000) && row.bytes_per_key > Some(32.0),
            "{row:?}"
        );
        assert_eq!((row.cgroup_bytes, &row.unread), (None, &None), "its machine is out of sight: {row:?}");
    }
    assert!(result.memory[0].seconds < 1.0 && result.memory[2].seconds >= 1.5, "{:?}", result.memory);
}

#[tokio::test]
async fn an_order_counts_once_and_only_with_the_token() {
    let server = Redis::start(&[]).await;
    let pod = Pod::new(&job(server.port, &loadgen(1))).at_the_line().await;
    let command = start_in(SOON);
    assert_eq!(pod.start(command, "another token").await.0, 403);
    let (_, first) = pod.start(command, TOKEN).await;
    let (status, again) = pod.start(start_in(Duration::from_secs(500)), TOKEN).await;
    assert_eq!(status, 200);
    assert_eq!(first.unwrap().start_at_unix_nanos, Some(command.start_at_unix_nanos));
    assert_eq!(again.unwrap().start_at_unix_nanos, Some(command.start_at_unix_nanos));
    assert_eq!(pod.finished().await.result.failure, None);
}

#[tokio::test]
async fn a_runner_obeys_the_operator_alone() {
    let server = Redis::start(&[]).await;
    let stranger = SigningKey::read(&SigningKey::generate().unwrap()).unwrap();
    let pod = Pod::new(&job(server.port, &loadgen(1))).at_the_line().await;
    let command = start_in(SOON);
    let now = command.sent_at_unix_nanos / 1_000_000;
    for (signature, reason) in [
        (String::new(), "must be signed"),
        (pod.signature(&stranger, &command, now), "does not fit this pod's key"),
        (pod.signature(operator(), &command, now - 120_000), "set the clocks"),
    ] {
        let (status, message) = pod.start_signed(&command, TOKEN, &signature).await;
        assert!(status == 403 && message.contains(reason), "{status} {message}");
    }
    let state = pod.progress().await.expect("a query needs the token alone");
    assert_eq!(state.start_at_unix_nanos, None, "a refused command counted");
    assert_eq!(pod.start(command, TOKEN).await.0, 200);
    assert_eq!(pod.finished().await.result.failure, None);
}

#[tokio::test]
async fn a_name_that_leads_to_a_blocked_address_is_refused() {
    let server = Redis::start(&[]).await;
    let mut job = job(server.port, &loadgen(1));
    job["target"]["host"] = json!("localhost");
    job["target"]["blocked"] = json!(["127.0.0.0/8", "::1/128"]);
    let finished = Pod::new(&job).start().await.finished().await;
    let failure = finished.failure();
    assert_eq!(failure.step, FailureStep::Preflight);
    assert!(failure.message.contains("policy blocks"), "{}", failure.message);
}

#[tokio::test]
async fn two_runners_start_together() {
    let server = Redis::start(&[]).await;
    let mut job = job(server.port, &loadgen(1));
    job["clients"] = json!(2);
    let first = Pod::new(&job).at_the_line().await;
    let second = Pod::new(&job).variable("JOB_COMPLETION_INDEX", "1").at_the_line().await;
    let command = start_in(SOON);
    let answers = tokio::join!(first.start(command, TOKEN), second.start(command, TOKEN));
    assert_eq!((answers.0.0, answers.1.0), (200, 200));
    let (first, second) = tokio::join!(first.finished(), second.finished());
    assert_eq!((&first.result.failure, &second.result.failure), (&None, &None));
    let apart = first.result.window.start_skew_seconds - second.result.window.start_skew_seconds;
    // Two load generators on a machine that also runs the other tests.
    assert!(apart.abs() < 0.25, "{apart} s apart");
}

#[tokio::test]
async fn an_order_that_comes_too_late_is_refused_work() {
    let server = Redis::start(&[]).await;
    let pod = Pod::new(&job(server.port, &loadgen(1))).at_the_line().await;
    let mut command = start_in(Duration::ZERO);
    command.start_at_unix_nanos -= 1_000_000_000;
    pod.start(command, TOKEN).await;
    let finished = pod.finished().await;
    assert_eq!(finished.failure().step, FailureStep::StartLine);
    assert!(finished.failure().message.contains("after the start line"));
}

#[tokio::test]
async fn a_wrong_password_is_reported_in_the_servers_words() {
    let server = Redis::start(&["--requirepass", "another-password"]).await;
    let finished = Pod::new(&job(server.port, &loadgen(1))).password(PASSWORD).run().await;
    let failure = finished.failure();
    assert_eq!(failure.step, FailureStep::Preflight);
    assert!(failure.message.contains("AUTH was refused: WRONGPASS invalid username-password"), "{failure:?}");
    let finished = Pod::new(&job(server.port, &loadgen(1))).run().await;
    assert!(
        finished.failure().message.contains("NOAUTH Authentication required"),
        "{:?}",
        finished.failure()
    );
}

#[tokio::test]
async fn a_refused_connection_is_reported_with_the_address() {
    let port = free_port();
    let finished = Pod::new(&job(port, &loadgen(1))).run().await;
    let failure = finished.failure();
    assert_eq!(failure.step, FailureStep::Preflight);
    assert!(failure.message.starts_with(&format!("127.0.0.1:{port}: no TCP connection: ")), "{failure:?}");
    assert!(failure.message.contains("refused"), "{failure:?}");
}

#[tokio::test]
async fn the_declared_cluster_mode_must_be_the_servers() {
    let server = Redis::start(&[]).await;
    let mut job = job(server.port, &loadgen(1));
    job["target"]["cluster"] = json!(true);
    let finished = Pod::new(&job).run().await;
    assert_eq!(finished.failure().step, FailureStep::Preflight);
    assert!(finished.failure().message.contains("declared cluster mode on, the server reports off"));
}

#[tokio::test]
async fn a_cluster_is_flushed_at_its_primaries() {
    let server = Redis::start(&["--cluster-enabled", "yes"]).await;
    server.ask("CLUSTER ADDSLOTSRANGE 0 16383").unwrap();
    wait_for("the cluster", async || {
        server.ask("CLUSTER INFO").filter(|info| info.contains("cluster_state:ok"))
    })
    .await;
    server.ask("SET leftover 1").unwrap();
    assert!(server.ask("DBSIZE").unwrap().starts_with(":1"), "the key was not written");
    let mut job = job(server.port, &loadgen(1));
    job["target"]["cluster"] = json!(true);
    job["flush"] = json!(true);
    let pod = Pod::new(&job).at_the_line().await;
    assert!(server.ask("DBSIZE").unwrap().starts_with(":0"), "the cluster was not flushed");
    pod.terminate();
    assert_eq!(pod.finished().await.failure().step, FailureStep::Interrupted);
}

#[tokio::test]
async fn a_restarted_server_is_another_one() {
    let mut server = Redis::start(&[]).await;
    let mut job = job(server.port, &loadgen(1));
    let verified = server.run_id();
    job["target"]["runId"] = json!(verified);
    server.restart().await;
    let finished = Pod::new(&job).run().await;
    let failure = finished.failure();
    assert_eq!(failure.step, FailureStep::Lost, "nothing was loaded: it can be measured again");
    let both = format!(
        "restarted or replaced before the load: verified was {verified}, now {} answers",
        server.run_id()
    );
    assert!(failure.message.contains(&both), "{failure:?}");
}

#[tokio::test]
async fn a_server_that_dies_under_load_is_the_reason() {
    let mut server = Redis::start(&[]).await;
    let pod = Pod::new(&job(server.port, &loadgen(20))).at_the_line().await;
    pod.start(start_in(SOON), TOKEN).await;
    wait_for("load", async || pod.progress().await.filter(|state| state.operations > 0)).await;
    server.stop();
    let finished = pod.finished().await;
    assert_eq!(finished.failure().step, FailureStep::ServerIdentity);
    assert!(finished.failure().message.contains("unreachable after the load"), "{:?}", finished.failure());
}

#[tokio::test]
async fn error_replies_spoil_a_run() {
    let server = Redis::start(&["--maxmemory", "1", "--maxmemory-policy", "noeviction"]).await;
    let pod = Pod::new(&job(server.port, &loadgen(1))).at_the_line().await;
    pod.start(start_in(SOON), TOKEN).await;
    let finished = pod.finished().await;
    assert_eq!(finished.failure().step, FailureStep::ErrorReplies);
    assert!(
        finished.failure().message.contains("the first: OOM command not allowed"),
        "{:?}",
        finished.failure()
    );
    assert!(finished.result.errors["OOM"] > 0);
}

#[tokio::test]
async fn a_cache_smaller_than_its_keys_is_filled_and_agrees_with_the_servers_counters() {
    let server = Redis::start(&["--maxmemory", "4mb", "--maxmemory-policy", "allkeys-lru"]).await;
    let mut tool = loadgen(3);
    tool["loadgen"]["ratio"] = json!("0:1");
    tool["loadgen"]["onMiss"] = json!("Set");
    tool["loadgen"]["keyMaximum"] = json!(99_999);
    tool["loadgen"]["keyPattern"] = json!("Zipfian");
    // A thousand keys fill it, which a busy machine writes in a second too.
    tool["loadgen"]["dataSize"] = json!(3000);
    let mut job = job(server.port, &tool);
    (job["allowEviction"], job["warmupSeconds"]) = (json!(true), json!(1.0));
    let pod = Pod::new(&job).at_the_line().await;
    pod.start(start_in(SOON), TOKEN).await;
    let result = pod.finished().await.result;
    assert_eq!((&result.failure, &result.notes), (&None, &Vec::new()));
    let row = |name: &str| result.operations.iter().find(|row| row.name == name).unwrap();
    let (get, fill) = (row("GET"), row("SET (miss)"));
    assert_eq!(Some(fill.count), get.misses, "a miss was not filled");
    let ratio = get.hits.unwrap() as f64 / get.count as f64;
    assert!((0.2..0.9).contains(&ratio), "{:.1} % of the reads found their key", ratio * 100.0);
    assert_eq!(result.per_second.iter().sum::<u64>(), get.count, "the seconds have more than the GETs");
    let series = result.hit_series.as_ref().unwrap();
    assert_eq!((Some(series.hits.iter().sum()), Some(series.misses.iter().sum())), (get.hits, get.misses));
    let server = result.server.as_ref().unwrap();
    let evicted = server.after.as_ref().unwrap().evicted_keys - server.before.evicted_keys;
    assert!(evicted > 100, "{evicted} keys were evicted");
}

#[tokio::test]
async fn a_second_client_is_found_by_the_counters() {
    let server = Redis::start(&[]).await;
    let pod = Pod::new(&job(server.port, &loadgen(2))).at_the_line().await;
    pod.start(start_in(SOON), TOKEN).await;
    wait_for("load", async || pod.progress().await.filter(|state| state.operations > 0)).await;
    server.ask(&"GET stranger\r\n".repeat(200_000)).unwrap();
    let finished = pod.finished().await;
    assert_eq!(finished.failure().step, FailureStep::CounterCheck, "{:?}", finished.failure());
    assert!(finished.failure().message.contains("GET, the tool"), "{:?}", finished.failure());
}

#[tokio::test]
async fn after_sigterm_the_numbers_are_stored_and_no_tool_is_left() {
    let server = Redis::start(&[]).await;
    let pod = Pod::new(&job(server.port, &loadgen(60))).at_the_line().await;
    pod.start(start_in(SOON), TOKEN).await;
    wait_for("load", async || pod.progress().await.filter(|state| state.operations > 0)).await;
    let stopped = Instant::now();
    pod.terminate();
    let finished = pod.finished().await;
    assert!(stopped.elapsed() < Duration::from_secs(10));
    assert_eq!(finished.failure().step, FailureStep::Interrupted);
    assert!(finished.result.operations.iter().all(|operation| operation.count > 0));
    wait_for("the tool to be gone", async || {
        server.ask("CLIENT LIST").filter(|list| list.matches("id=").count() == 1)
    })
    .await;
}

#[tokio::test]
async fn sigterm_before_the_line_ends_the_runner_at_once() {
    let server = Redis::start(&[]).await;
    let waiting = Pod::new(&job(server.port, &loadgen(1))).at_the_line().await;
    let armed = Pod::new(&job(server.port, &loadgen(1))).at_the_line().await;
    armed.start(start_in(Duration::from_secs(600)), TOKEN).await;
    for pod in [waiting, armed] {
        let stopped = Instant::now();
        pod.terminate();
        let finished = pod.finished().await;
        assert!(stopped.elapsed() < Duration::from_secs(3));
        assert_eq!(finished.failure().step, FailureStep::Interrupted);
        assert!(finished.failure().message.contains("before the load began"));
    }
}

#[tokio::test]
async fn a_tool_that_hangs_is_killed_with_its_children() {
    let server = Redis::start(&[]).await;
    let mut job = job(server.port, &stand_in());
    job["watchdogSeconds"] = json!(1.0);
    let script = "sleep 600 & echo $! > child; trap '' TERM INT; while true; do sleep 1; done";
    let pod = Pod::new(&job).script(script).at_the_line().await;
    pod.start(start_in(SOON), TOKEN).await;
    let note = pod.path("output/child");
    let child =
        wait_for("the script", async || fs::read_to_string(&note).ok().filter(|id| !id.is_empty())).await;
    assert!(alive(&child));
    let finished = pod.finished().await;
    let failure = finished.failure();
    assert_eq!((failure.step, failure.signal), (FailureStep::Watchdog, Some(9)));
    assert!(failure.message.contains("memtier was still running after"), "{failure:?}");
    assert!(!alive(&child), "the tool's child lives on");
}

#[tokio::test]
async fn a_tool_gets_its_own_stop_signal() {
    let server = Redis::start(&[]).await;
    let script = "trap 'echo stopped nicely; exit 0' INT; trap 'echo stopped wrongly' TERM; echo > up; \
                  while true; do sleep 0.1; done";
    let pod = Pod::new(&job(server.port, &stand_in())).script(script).at_the_line().await;
    pod.start(start_in(SOON), TOKEN).await;
    let up = pod.path("output/up");
    wait_for("the script", async || up.exists().then_some(())).await;
    pod.terminate();
    let finished = pod.finished().await;
    let failure = finished.failure();
    assert_eq!((failure.step, failure.exit_code), (FailureStep::Interrupted, Some(0)));
    assert!(failure.last_lines.contains(&"stopped nicely".to_owned()), "{failure:?}");
}

#[tokio::test]
async fn a_good_exit_without_a_result_is_a_failure() {
    let server = Redis::start(&[]).await;
    let pod = Pod::new(&job(server.port, &stand_in())).script("exit 0").at_the_line().await;
    pod.start(start_in(SOON), TOKEN).await;
    let finished = pod.finished().await;
    assert!(
        matches!(finished.failure().step, FailureStep::Output | FailureStep::Tool),
        "{:?}",
        finished.failure()
    );
    assert!(finished.result.operations.is_empty());
}

#[tokio::test]
async fn a_flood_of_output_is_bounded_and_clean() {
    let server = Redis::start(&["--requirepass", PASSWORD]).await;
    let script = format!(
        "yes 'noise with {PASSWORD} in it' | head -c 30000000 >&2; yes '{PASSWORD}' | head -c 5000000; \
         echo 'the end {PASSWORD}' >&2; exit 1"
    );
    let pod = Pod::new(&job(server.port, &stand_in())).password(PASSWORD).script(&script).at_the_line().await;
    pod.start(start_in(SOON), TOKEN).await;
    let finished = pod.finished().await;
    assert!(finished.failure().last_lines.len() <= 40);
    assert!(finished.stdout.len() < 100_000, "{} bytes of log", finished.stdout.len());
}

#[tokio::test]
async fn a_tool_that_is_not_there_is_a_failed_launch() {
    let server = Redis::start(&[]).await;
    let finished = Pod::new(&job(server.port, &stand_in())).variable("PATH", "/nowhere").run().await;
    assert_eq!(finished.failure().step, FailureStep::Launch);
    assert!(
        finished.failure().message.contains("cannot start memtier_benchmark"),
        "{:?}",
        finished.failure()
    );
}

#[tokio::test]
async fn an_unreadable_job_is_a_result_too() {
    let finished = Pod::new(&json!({"run": "of another version"})).run().await;
    assert_eq!(finished.failure().step, FailureStep::Job);
    assert!(finished.failure().message.contains("DRAGSTRIP_JOB does not hold a job"));
    assert_eq!(finished.result.pod, "pod-0");
}

#[tokio::test]
async fn the_clock_needs_the_token() {
    let server = Redis::start(&[]).await;
    let pod = Pod::new(&job(server.port, &loadgen(1))).at_the_line().await;
    assert_eq!(pod.clock("another token").await, Err(403));
    let (before, reading) = (start_in(Duration::ZERO), pod.clock(TOKEN).await.unwrap());
    let after = start_in(Duration::ZERO);
    assert!((before.sent_at_unix_nanos..=after.sent_at_unix_nanos).contains(&reading.unix_nanos));
}

#[tokio::test]
async fn a_measured_clock_offset_moves_the_line() {
    let server = Redis::start(&[]).await;
    let pod = Pod::new(&job(server.port, &loadgen(1))).at_the_line().await;
    // The operator's clock is an hour ahead of this pod's.
    let hour = 3_600_000_000_000;
    let mut command = start_in(SOON);
    command.start_at_unix_nanos += hour;
    command.sent_at_unix_nanos += hour;
    command.clock = ClockOffset { offset_nanos: -hour, uncertainty_nanos: 2_000_000 };
    assert_eq!(pod.start(command, TOKEN).await.0, 200);
    let finished = pod.finished().await;
    assert_eq!(finished.result.failure, None);
    let window = &finished.result.window;
    assert!((window.clock_offset_seconds + 3600.0).abs() < 1e-6, "{window:?}");
    assert!((window.clock_uncertainty_seconds - 0.002).abs() < 1e-9, "{window:?}");
    assert!(window.start_skew_seconds.abs() < 0.5, "{window:?}");
}

/// An exec job whose tool is a shell script.
fn exec(script: &str) -> serde_json::Value {
    json!({"exec": {
        "image": "any", "command": ["/bin/sh", "-c", script, "tool", "${ADDRESS}"], "duration": "5s",
        "parser": {"regex": {"lines": [{"pattern": "^did (?P<count>\\d+) in (?P<seconds>[0-9.]+)", "operation": "ECHO"}]}},
    }})
}

#[tokio::test]
async fn any_tool_may_load_anything_that_takes_connections() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut job =
        job(listener.local_addr().unwrap().port(), &exec("echo to $1 >&2; sleep 0.2; echo did 50 in 0.2"));
    job["target"]["protocol"] = json!("Tcp");
    let pod = Pod::new(&job).at_the_line().await;
    pod.start(start_in(SOON), TOKEN).await;
    let finished = pod.finished().await;
    assert_eq!(finished.result.failure, None);
    assert_eq!(finished.result.server, None, "no server can be queried");
    assert_eq!(finished.result.operations[0].count, 50);
    assert!((finished.result.window.seconds - 0.2).abs() < 1e-9, "{:?}", finished.result.window);
}

#[tokio::test]
async fn a_secret_of_a_tool_appears_nowhere() {
    let server = Redis::start(&[]).await;
    let mut tool = exec("echo key $API_KEY >&2; echo did 1 in 1; exit 1");
    tool["exec"]["env"] =
        json!([{"name": "API_KEY", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]);
    let pod = Pod::new(&job(server.port, &tool)).variable("API_KEY", PASSWORD).at_the_line().await;
    pod.start(start_in(SOON), TOKEN).await;
    let finished = pod.finished().await;
    assert_eq!(finished.failure().step, FailureStep::Tool);
    assert!(finished.failure().last_lines.contains(&"key [redacted]".to_owned()), "{:?}", finished.failure());
}

#[tokio::test]
async fn a_memtier_whose_results_are_not_understood_is_refused_before_the_load() {
    let server = Redis::start(&[]).await;
    let tool = json!({"memtier": {"testTime": "5s"}});
    let finished = Pod::new(&job(server.port, &tool)).script_of_version("1.3.0", "exit 0").run().await;
    assert_eq!(finished.failure().step, FailureStep::Preflight);
    let expected = "the image's memtier_benchmark has version 1.3.0";
    assert!(finished.failure().message.contains(expected), "{:?}", finished.failure());
}

#[tokio::test]
async fn an_option_that_memtier_lacks_is_in_the_failure() {
    let server = Redis::start(&[]).await;
    let tool = json!({"memtier": {"testTime": "5s", "rateLimit": 100}});
    let script = "echo \"memtier_benchmark: unrecognized option '--rate-limiting'\" >&2; exit 2";
    let pod = Pod::new(&job(server.port, &tool)).script_of_version("2.0.0", script).at_the_line().await;
    pod.start(start_in(SOON), TOKEN).await;
    let finished = pod.finished().await;
    assert_eq!(finished.failure().step, FailureStep::Tool);
    let message = &finished.failure().message;
    assert!(message.contains("refused its arguments") && message.contains("--rate-limiting"), "{message}");
}

#[tokio::test]
async fn a_warm_up_that_fails_is_reported_before_the_line() {
    let server = Redis::start(&[]).await;
    let mut job = job(server.port, &stand_in());
    job["warmupSeconds"] = json!(0.5);
    let finished = Pod::new(&job).script("echo $* >&2; exit 2").run().await;
    let failure = finished.failure();
    assert_eq!((failure.step, failure.exit_code), (FailureStep::Warmup, Some(2)));
    assert!(failure.last_lines.iter().any(|line| line.contains("--test-time 1 ")), "{failure:?}");
}

#[tokio::test]
async fn an_encrypted_server_is_reached_with_certificates_and_a_user() {
    let certificates = Certificates::new("db.example");
    let port = free_port();
    let server = Encrypted::start(port, &certificates);
    let mut job = job(port, &exec("echo did 1 in 1"));
    job["target"]["username"] = json!("bench");
    job["target"]["tls"] = json!({"serverName": "db.example", "authority": true, "clientCertificate": true, "insecureSkipVerify": false});
    let pod = |job: &serde_json::Value| {
        Pod::new(job)
            .password(PASSWORD)
            .argument("--authority-directory", &certificates.of("client"))
            .argument("--client-certificate-directory", &certificates.of("client"))
    };
    let runner = pod(&job).at_the_line().await;
    runner.start(start_in(SOON), TOKEN).await;
    let finished = runner.finished().await;
    assert_eq!(finished.result.failure, None, "{:?}", finished.result.failure);
    assert!(finished.result.server.is_some());
    job["target"]["tls"]["serverName"] = json!("another.example");
    let finished = pod(&job).run().await;
    assert!(finished.failure().message.contains("be valid for another.example"), "{:?}", finished.failure());
    drop(server);
}

#[tokio::test]
async fn every_shard_is_verified_and_counted() {
    let cluster = Shards::start(3).await;
    let mut job = job(cluster.servers[0].port, &exec("echo did 1 in 1"));
    job["target"]["cluster"] = json!(true);
    job["target"]["members"] = cluster.members();
    let pod = Pod::new(&job).at_the_line().await;
    pod.start(start_in(SOON), TOKEN).await;
    let finished = pod.finished().await;
    assert_eq!(finished.result.failure, None);
    let record = finished.result.server.as_ref().unwrap();
    assert_eq!(record.shards.len(), 3);
    let calls = |counters: &dragstrip_results::observed::ServerCounters| counters.commands["info"].calls;
    let shards: u64 = record.shards.iter().map(|shard| calls(&shard.before)).sum();
    assert_eq!(calls(&record.before), shards, "the sum is that of the shards");

    // The runner queries the shards of an external cluster.
    job["target"]["members"] = json!([]);
    let pod = Pod::new(&job).at_the_line().await;
    pod.start(start_in(SOON), TOKEN).await;
    assert_eq!(pod.finished().await.result.server.unwrap().shards.len(), 3);

    job["target"]["members"] = cluster.members();
    job["target"]["members"][2]["runId"] = json!("of yesterday");
    let failure = Pod::new(&job).run().await.failure().clone();
    assert!(failure.message.contains("verified was of yesterday"), "{failure:?}");
}

#[tokio::test]
async fn a_cluster_with_a_hole_is_refused() {
    let cluster = Shards::start(3).await;
    cluster.servers[1].ask("CLUSTER DELSLOTS 8000").unwrap();
    let mut job = job(cluster.servers[1].port, &exec("echo did 1 in 1"));
    job["target"]["cluster"] = json!(true);
    let failure = Pod::new(&job).run().await.failure().clone();
    assert_eq!(failure.step, FailureStep::Preflight);
    assert!(failure.message.contains("of 16384 slots"), "{failure:?}");
}

#[tokio::test]
async fn keys_are_there_before_the_line_and_the_warm_up_is_in_no_figure() {
    let server = Redis::start(&[]).await;
    let mut job = job(server.port, &loadgen(1));
    job["load"] = json!({"keyMaximum": 1000, "dataSize": 64});
    job["warmupSeconds"] = json!(0.5);
    let pod = Pod::new(&job).at_the_line().await;
    assert_eq!(server.ask("DBSIZE").unwrap().lines().next(), Some(":1001"));
    pod.start(start_in(SOON), TOKEN).await;
    let finished = pod.finished().await;
    assert_eq!(finished.result.failure, None);
    assert_eq!(finished.result.load, Some(Presence { expected: 1001, found: 1001 }));
    let warm = finished.result.warmup["GET"];
    let get = finished.result.operations.iter().find(|operation| operation.name == "GET").unwrap();
    assert!(warm > 0 && get.hits == Some(get.count), "{warm} {get:?}");
    assert_eq!(finished.result.commands["get"], warm + get.count, "the server counts the warm-up too");
    let window = &finished.result.window;
    assert!((window.seconds - 1.0).abs() < 0.5 && window.start_skew_seconds.abs() < 0.5, "{window:?}");
}

#[tokio::test]
async fn a_runner_reports_how_many_keys_it_has_written_and_counted() {
    let server = Redis::start(&[]).await;
    let mut job = job(server.port, &loadgen(1));
    // Each second has a figure, and no server takes so many keys in two.
    job["load"] = json!({"keyMaximum": 3_999_999, "dataSize": 1});
    let pod = Pod::new(&job).start().await;
    let first = wait_for("a figure", async || pod.progress().await?.prepared_ratio).await;
    let next = wait_for("the next figure", async || {
        pod.progress().await?.prepared_ratio.filter(|ratio| *ratio > first)
    })
    .await;
    assert!(first > 0.0 && next <= 1.0, "{first} {next}");
    let state = pod.progress().await.unwrap();
    assert!(
        state.prepared_ratio.is_none_or(|ratio| ratio >= next),
        "it fell while keys are counted: {state:?}"
    );
    pod.terminate();
    pod.finished().await;
}

#[tokio::test]
async fn keys_that_do_not_stay_fail_the_load_with_both_figures() {
    let server = Redis::start(&["--maxmemory", "4mb", "--maxmemory-policy", "allkeys-random"]).await;
    let mut job = job(server.port, &loadgen(1));
    job["load"] = json!({"keyMaximum": 49_999, "dataSize": 200});
    let failure = Pod::new(&job).run().await.failure().clone();
    assert_eq!(failure.step, FailureStep::Load);
    assert!(failure.message.starts_with("50,000 keys were written, but only "), "{failure:?}");
    job["allowEviction"] = json!(true);
    let pod = Pod::new(&job).at_the_line().await;
    pod.start(start_in(SOON), TOKEN).await;
    let result = pod.finished().await.result;
    assert_eq!(result.failure, None, "a cache is smaller than its data");
    let Presence { expected, found } = result.load.unwrap();
    assert!(expected == 50_000 && found > 0 && found < expected, "{found} of {expected}");
}

#[tokio::test]
async fn no_client_writes_before_the_target_is_empty() {
    let server = Redis::start(&[]).await;
    server.ask("SET leftover 1").unwrap();
    let mut job = job(server.port, &loadgen(1));
    job["clients"] = json!(2);
    job["flush"] = json!(true);
    job["load"] = json!({"keyMaximum": 999});
    let second = Pod::new(&job).variable("JOB_COMPLETION_INDEX", "1").start().await;
    let probe = tokio::time::timeout(SOON, second.ready()).await;
    assert!(probe.is_err(), "a probe waits as long as the client does");
    assert!(server.ask("EXISTS leftover").unwrap().starts_with(":1"), "only the first client empties");
    let first = Pod::new(&job).at_the_line().await;
    second.ready().await;
    assert!(server.ask("EXISTS leftover").unwrap().starts_with(":0"), "the target was not emptied");
    let command = start_in(SOON);
    tokio::join!(first.start(command, TOKEN), second.start(command, TOKEN));
    let (first, second) = tokio::join!(first.finished(), second.finished());
    assert_eq!((&first.result.failure, &second.result.failure), (&None, &None));
    assert_eq!(
        server.ask("DBSIZE").unwrap().lines().next(),
        Some(":1001"),
        "1000 keys and the load's key 1000"
    );
}
