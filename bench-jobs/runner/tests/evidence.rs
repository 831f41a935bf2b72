//! What a client and a server used while a load ran: the real programs beside a real
//! redis-server, and beside a process of many threads.

// A helper of a test is a test too, which clippy cannot see.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, dead_code)]

#[path = "support/observer.rs"]
mod observer;
#[path = "support/redis.rs"]
mod redis;
#[path = "support/runner.rs"]
mod runner;
#[path = "support/signing.rs"]
mod signing;

use dragstrip_results::{
    protocol::ClockReading,
    usage::{ContainerUsage, ServerUsage},
};
use observer::Observer;
use redis::{Redis, free_port, wait_for};
use runner::{Pod, TOKEN, job, loadgen, start_in};
use serde_json::{Value, json};
use std::{
    net::TcpListener,
    process::{Command, Stdio},
    time::{Duration, SystemTime},
};
use tokio::time::sleep;

const SOON: Duration = Duration::from_millis(1300);

async fn client_of(job: &Value) -> ContainerUsage {
    let pod = Pod::new(job).at_the_line().await;
    assert_eq!(pod.start(start_in(SOON), TOKEN).await.0, 200);
    let finished = pod.finished().await;
    assert_eq!(finished.result.failure, None);
    finished.result.client
}

#[tokio::test]
async fn a_load_generator_reports_its_threads_and_the_network_is_measured_beside_it() {
    let server = Redis::start(&[]).await;
    // The kernel answers for it: it accepts nothing.
    let observer = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut tool = loadgen(2);
    tool["loadgen"]["threads"] = json!(2);
    let mut job = job(server.port, &tool);
    job["target"]["observers"] = json!([observer.local_addr().unwrap()]);
    job["warmupSeconds"] = json!(1.0);
    let client = client_of(&job).await;
    let mut names: Vec<_> = client.threads.iter().map(|thread| thread.name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["loadgen 0", "loadgen 1"]);
    assert!(client.threads.iter().all(|thread| (0.05..2.5).contains(&thread.cpu_seconds)), "{client:?}");
    assert!((1.5..3.0).contains(&client.seconds), "the warm-up does not count: {client:?}");
    let host = client.host.unwrap();
    assert!(host.cpus > 0 && host.busy_seconds > 0.1, "{host:?}");
    assert!(client.network.unwrap().sent_segments > 1000);
    let round_trip = client.round_trip.unwrap();
    assert!((4..=11).contains(&round_trip.samples) && round_trip.failed == 0, "{round_trip:?}");
    assert!((0.001..50.0).contains(&round_trip.median_milliseconds), "{round_trip:?}");
}

#[tokio::test]
async fn the_threads_of_any_other_tool_are_sampled() {
    let server = Redis::start(&[]).await;
    let script = "i=0; while [ $i -lt 500000 ]; do i=$((i + 1)); done; echo did 50 in 2";
    let tool = json!({"exec": {
        "image": "none", "command": ["sh", "-c", script], "duration": "5s",
        "parser": {"regex": {"lines": [{"pattern": "^did (?P<count>\\d+) in (?P<seconds>[0-9.]+)", "operation": "SPIN"}]}},
    }});
    let client = client_of(&job(server.port, &tool)).await;
    let shell = client.threads.iter().find(|thread| thread.name == "sh").unwrap();
    assert!((0.05..5.0).contains(&shell.cpu_seconds), "{client:?}");
    assert_eq!(client.round_trip, None, "there is no observer");
}

fn now() -> i64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    i64::try_from(now.as_nanos()).unwrap()
}

async fn sample(observer: &Observer, measurement: &str, seconds: u64) {
    let command = json!({"token": measurement, "seconds": seconds});
    assert_eq!(observer.post("/v1/usage", observer::TOKEN, &command).await.0, 200);
}

/// The answer to what was used from then until now. It ends the sampling.
async fn usage_since(observer: &Observer, measurement: &str, from: i64) -> Result<Vec<ServerUsage>, String> {
    usage_in(observer, measurement, from, now()).await
}

async fn usage_in(
    observer: &Observer,
    measurement: &str,
    from: i64,
    to: i64,
) -> Result<Vec<ServerUsage>, String> {
    let query = format!("token={measurement}&fromUnixNanos={from}&toUnixNanos={to}");
    let (status, text) = observer.get(&format!("/v1/usage?{query}"), observer::TOKEN).await;
    if status == 200 {
        return Ok(serde_json::from_str(&text).unwrap());
    }
    assert_eq!(status, 409, "{text}");
    Err(text)
}

/// How often the server was sampled. Asks for a window long before all samples: an answer
/// would end the sampling.
async fn samples_taken(observer: &Observer, measurement: &str) -> usize {
    let error = usage_in(observer, measurement, 0, 1).await.unwrap_err();
    let count = error.trim_end().strip_prefix("no two samples lie in the window, or around it: there are ");
    count.unwrap_or_else(|| panic!("{error}")).parse().unwrap()
}

/// Waits for two more samples of the server.
async fn until_sampled(observer: &Observer, measurement: &str) {
    let before = samples_taken(observer, measurement).await;
    wait_for("two samples", async || {
        (samples_taken(observer, measurement).await >= before + 2).then_some(())
    })
    .await;
}

/// Loads the server until the value is dropped.
struct Load(std::process::Child);

impl Load {
    fn on(server: &Redis) -> Self {
        let port = server.port.to_string();
        let arguments = ["-p", &port, "-n", "100000000", "-c", "4", "-P", "16", "-t", "get", "-q"];
        let load = Command::new("redis-benchmark").args(arguments).stdout(Stdio::null()).spawn();
        Self(load.unwrap())
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test]
async fn an_observer_reports_what_a_servers_threads_used_in_a_window() {
    let server = Redis::start(&["--io-threads", "4"]).await;
    let observer = Observer::start(server.port, "");
    sample(&observer, "run/read-1", 60).await;
    until_sampled(&observer, "run/read-1").await;
    let load = Load::on(&server);
    let from = now();
    sleep(Duration::from_secs(2)).await;
    // A second command, as of an operator that died in between, loses nothing.
    sample(&observer, "run/read-1", 60).await;
    let to = now();
    // If a busy machine left a window without samples, those around it count.
    until_sampled(&observer, "run/read-1").await;
    let used = usage_in(&observer, "run/read-1", from, to).await.unwrap();
    drop(load);
    let [ServerUsage { server: name, usage, .. }] = &used[..] else { panic!("not one server: {used:?}") };
    assert_eq!(*name, server.port.to_string());
    let window = f64::from(u32::try_from((to - from) / 1_000_000).unwrap()) / 1e3;
    assert!((0.5 * window..=2.0 * window).contains(&usage.seconds), "{window} s: {usage:?}");
    let main = usage.threads.iter().find(|thread| thread.name == "redis-server").unwrap();
    // On a machine that others use too the server waits for a CPU.
    let busy = main.cpu_seconds + main.waiting_seconds;
    assert!(busy > 0.1 * usage.seconds && main.cpu_seconds <= usage.seconds, "{usage:?}");
    assert!(usage.host.as_ref().unwrap().busy_seconds >= main.cpu_seconds, "{usage:?}");
    assert!(usage.network.as_ref().unwrap().sent_segments > 100 && usage.cpu_seconds > 0.0, "{usage:?}");
    let again = usage_in(&observer, "run/read-1", from, to).await.unwrap();
    assert_eq!(again[0].usage.seconds.to_bits(), usage.seconds.to_bits(), "reading ends the measurement");
}

#[tokio::test]
async fn usage_needs_the_token_and_is_of_one_measurement() {
    let server = Redis::start(&[]).await;
    let observer = Observer::start(server.port, "");
    let command = json!({"token": "mine", "seconds": 60});
    assert_eq!(observer.post("/v1/usage", "another token", &command).await.0, 403);
    let window = "/v1/usage?token=mine&fromUnixNanos=0&toUnixNanos=1";
    assert_eq!(observer.get(window, "another token").await.0, 403);
    let error = usage_since(&observer, "mine", now()).await.unwrap_err();
    assert!(error.contains("got no command for it, or was restarted since"), "{error}");
    sample(&observer, "mine", 60).await;
    let error = usage_in(&observer, "mine", 0, 1).await.unwrap_err();
    assert!(error.contains("no two samples lie in the window"), "{error}");
    sample(&observer, "another", 60).await;
    assert!(usage_since(&observer, "mine", now()).await.unwrap_err().contains("got no command for it"));
}

#[tokio::test]
async fn an_observer_reports_its_clock() {
    let observer = Observer::start(free_port(), "");
    assert_eq!(observer.get("/v1/clock", "another token").await.0, 403);
    let before = now();
    let (_, text) = observer.get("/v1/clock", observer::TOKEN).await;
    let reading: ClockReading = serde_json::from_str(&text).unwrap();
    assert!((before..=now()).contains(&reading.unix_nanos), "{text}");
}

#[tokio::test]
async fn a_server_that_was_restarted_in_the_window_is_reported() {
    let mut server = Redis::start(&[]).await;
    let observer = Observer::start(server.port, "");
    sample(&observer, "run", 60).await;
    let from = now();
    until_sampled(&observer, "run").await;
    server.restart().await;
    until_sampled(&observer, "run").await;
    let error = usage_since(&observer, "run", from).await.unwrap_err();
    assert!(error.contains(&format!("the server on port {} was restarted", server.port)), "{error}");
}

/// Its share of a core over some seconds.
async fn share_of(observer: &Observer, length: Duration) -> f64 {
    let before = observer.cpu_seconds();
    sleep(length).await;
    (observer.cpu_seconds() - before) / length.as_secs_f64()
}

#[tokio::test]
async fn sampling_a_server_of_48_threads_takes_less_than_half_a_percent_of_a_core() {
    let server = Redis::start(&["--io-threads", "48"]).await;
    let observer = Observer::start(server.port, "");
    let length = Duration::from_secs(4);
    let from = now();
    sample(&observer, "run", 60).await;
    // The observer searches for the server once, and a pod has fewer processes than this machine.
    until_sampled(&observer, "run").await;
    let share = share_of(&observer, length).await;
    eprintln!("{:.2} % of a core", share * 100.0);
    assert!(share < 0.005, "{:.2} % of a core", share * 100.0);
    usage_since(&observer, "run", from).await.unwrap();
    let idle = share_of(&observer, length).await;
    assert!(idle < 0.0005, "nothing queries it any more, and it takes {:.3} % of a core", idle * 100.0);
}
