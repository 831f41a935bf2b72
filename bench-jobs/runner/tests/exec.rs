//! The runner with another tool: the real redis-benchmark against a real
//! redis-server, and scripts that print what a tool would.

// A helper of a test is a test too, which clippy cannot see.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, dead_code)]

#[path = "support/redis.rs"]
mod redis;
#[path = "support/runner.rs"]
mod runner;
#[path = "support/signing.rs"]
mod signing;

use dragstrip_results::result::{FailureStep, Operation};
use redis::Redis;
use runner::{Finished, PASSWORD, Pod, TOKEN, job, start_in};
use serde_json::{Value, json};
use std::time::Duration;

const SOON: Duration = Duration::from_millis(1300);
const CONNECT: [&str; 7] = ["-h", "${HOST}", "-p", "${PORT}", "-c", "5", "--csv"];

/// redis-benchmark with these arguments, its counts compared with the server's.
fn redis_benchmark(arguments: &[&str]) -> Value {
    let arguments = [&CONNECT[..], arguments].concat();
    json!({"exec": {
        "image": "i", "command": ["redis-benchmark"], "args": arguments,
        "parser": {"redisBenchmarkCsv": {"requests": 2000}}, "counterCheck": true,
    }})
}

async fn run(pod: Pod) -> Finished {
    let pod = pod.at_the_line().await;
    pod.start(start_in(SOON), TOKEN).await;
    pod.finished().await
}

async fn against(server: &Redis, tool: &Value) -> Finished {
    run(Pod::new(&job(server.port, tool))).await
}

#[tokio::test]
async fn every_test_of_redis_benchmark_has_its_own_rate_and_is_what_the_server_counted() {
    let server = Redis::start(&[]).await;
    let tool = redis_benchmark(&["-n", "2000", "-t", "ping,set,get,mset,lrange"]);
    let result = against(&server, &tool).await.result;
    assert_eq!(result.failure, None);
    let own = |row: &Operation| row.operations_per_second.is_some_and(|rate| rate > 0.0);
    assert!(result.operations.len() > 6 && result.operations.iter().all(own), "{:?}", result.operations);
    let range = result.operations.iter().find(|row| row.name.starts_with("LRANGE_100")).unwrap();
    assert_eq!((range.count, range.commands.as_slice()), (2000, &["lrange".to_owned()][..]));
    assert_eq!(range.latency_milliseconds.p999, None, "the tool prints no p99.9");
    let after = result.server.unwrap().after.unwrap();
    assert_eq!((after.commands["mset"].calls, after.commands["lrange"].calls), (2000, 8000));
}

#[tokio::test]
async fn another_count_than_the_servers_is_an_alarm() {
    let server = Redis::start(&[]).await;
    let failure = against(&server, &redis_benchmark(&["-n", "3000", "-t", "mset"])).await.failure().clone();
    assert_eq!(failure.step, FailureStep::CounterCheck);
    assert!(failure.message.contains("counted 3,000 MSET, the tool 2,000"), "{failure:?}");
}

#[tokio::test]
async fn error_replies_that_a_tool_counts_as_operations_fail_the_phase() {
    let server = Redis::start(&[]).await;
    server.ask("SET text abc").unwrap();
    // redis-benchmark gives up at the first error; this one counts what it sent.
    let script = "redis-cli -h $0 -p $1 -r 500 INCR text >/dev/null; echo 'ran 500'";
    let tool = json!({"exec": {
        "image": "i", "command": ["sh", "-c", script, "${HOST}", "${PORT}"],
        "parser": {"regex": {"lines": [{"pattern": "^ran (?<count>\\d+)", "operation": "INCR"}]}},
    }});
    let failure = against(&server, &tool).await.failure().clone();
    assert_eq!(failure.step, FailureStep::ErrorReplies);
    assert!(failure.message.contains("500 requests with errors (500 ERR)"), "{failure:?}");
}

#[tokio::test]
async fn evicted_keys_fail_the_phase_unless_it_allows_them() {
    let server = Redis::start(&["--maxmemory", "3mb", "--maxmemory-policy", "allkeys-random"]).await;
    let tool = redis_benchmark(&["-n", "2000", "-t", "set", "-r", "100000000", "-d", "4000"]);
    let failure = against(&server, &tool).await.failure().clone();
    assert_eq!(failure.step, FailureStep::Eviction);
    assert!(failure.message.contains("allowEviction: true"), "{failure:?}");
    let mut allowed = job(server.port, &tool);
    allowed["allowEviction"] = json!(true);
    assert_eq!(run(Pod::new(&allowed)).await.result.failure, None);
}

#[tokio::test]
async fn redis_benchmark_takes_a_password_in_its_arguments_and_nothing_shows_it() {
    let server = Redis::start(&["--requirepass", PASSWORD]).await;
    let tool = redis_benchmark(&["-a", "${PASSWORD}", "-n", "2000", "-t", "set"]);
    let finished = run(Pod::new(&job(server.port, &tool)).password(PASSWORD)).await;
    assert_eq!(finished.result.failure, None);
    assert!(finished.result.tool.arguments.contains(&"[redacted]".to_owned()), "{:?}", finished.result.tool);
}

#[tokio::test]
async fn redis_benchmark_without_csv_says_to_add_it() {
    let server = Redis::start(&[]).await;
    let mut tool = redis_benchmark(&["-n", "2000", "-t", "set"]);
    tool["exec"]["args"].as_array_mut().unwrap().retain(|argument| argument != "--csv");
    let failure = against(&server, &tool).await.failure().clone();
    assert_eq!(failure.step, FailureStep::Output);
    assert!(failure.message.contains("add --csv to its arguments"), "{failure:?}");
}

#[tokio::test]
async fn a_password_that_is_a_number_changes_no_number() {
    let server = Redis::start(&["--requirepass", "77"]).await;
    let script = "echo \"ran ${DRAGSTRIP_PASSWORD}70 in 7.75 s, p99 1.775\"; echo said $1 >&2; exit $2";
    let of = |code: &str| {
        json!({"exec": {
            "image": "i", "command": ["sh", "-c", script, "sh", "${PASSWORD}", code],
            "parser": {"regex": {"lines": [{"pattern": "^ran (?<count>\\d+) in (?<seconds>\\S+ s), p99 (?<p99>\\S+)",
                "operation": "RUN"}]}},
        }})
    };
    let good = run(Pod::new(&job(server.port, &of("0"))).password("77")).await;
    assert_eq!(good.result.failure, None);
    let row = &good.result.operations[0];
    assert_eq!(
        (row.count, row.latency_milliseconds.p99),
        (7770, Some(1.775)),
        "a secret was cut out of a number"
    );
    assert_eq!(good.result.tool.arguments[3], "[redacted]", "{:?}", good.result.tool.arguments);
    let bad = run(Pod::new(&job(server.port, &of("9"))).password("77")).await;
    let message = &bad.failure().message;
    assert!(
        message.contains("exit code 9") && message.ends_with("its last line: said [redacted]"),
        "{message}"
    );
}

#[tokio::test]
async fn a_tool_of_the_same_user_reaches_neither_the_runners_log_nor_its_job() {
    let server = Redis::start(&[]).await;
    // The tool's own entries are open: what fails below fails because of the runner.
    let script = "ls /proc/$$/fd >/dev/null && cat /proc/$$/environ >/dev/null || exit 7
        ! ls /proc/$PPID/fd >/dev/null || exit 8
        ! cat /proc/$PPID/environ >/dev/null || exit 9
        (echo 'DRAGSTRIP-RESULT {}' >/proc/$PPID/fd/1) || echo 'ran 500'";
    let tool = json!({"exec": {
        "image": "i", "command": ["sh", "-c", script],
        "parser": {"regex": {"lines": [{"pattern": "^ran (?<count>\\d+)", "operation": "GET"}]}},
    }});
    let finished = run(Pod::unprivileged(&job(server.port, &tool))).await;
    assert_eq!(finished.result.failure, None, "8 is the runner's output, 9 its environment");
}
