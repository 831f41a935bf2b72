//! What runner and observer show while a load runs: the real programs against a real
//! redis-server, and Debian's promtool over their pages.

// A helper of a test is a test too, which clippy cannot see.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, dead_code)]

#[path = "support/memtier.rs"]
mod memtier;
#[path = "support/observer.rs"]
mod observer;
#[path = "support/redis.rs"]
mod redis;
#[path = "support/runner.rs"]
mod runner;
#[path = "support/signing.rs"]
mod signing;

use dragstrip_results::result::LOG_MARKER;
use futures::future::join_all;
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use observer::Observer;
use redis::{Redis, wait_for};
use runner::{Pod, Runner, TOKEN, job, loadgen, start_in};
use serde_json::{Value, json};
use std::{
    fs,
    io::Write as _,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

const SOON: Duration = Duration::from_millis(1300);

/// What promtool says against a page: names, units, types, and what Prometheus would not parse.
fn assert_well_formed(page: &str) {
    let promtool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut promtool = promtool.expect("these tests need promtool on PATH (Debian: prometheus)");
    promtool.stdin.take().unwrap().write_all(page.as_bytes()).unwrap();
    let output = promtool.wait_with_output().unwrap();
    assert!(output.status.success(), "promtool: {}\n{page}", String::from_utf8_lossy(&output.stderr));
    let mut series: Vec<_> = page.lines().filter(|line| !line.starts_with('#')).collect();
    series.sort_unstable();
    for pair in series.windows(2) {
        let name = |line: &str| line.rsplit_once(' ').unwrap().0.to_owned();
        assert_ne!(name(pair[0]), name(pair[1]), "a series is on the page twice");
    }
}

/// The value of the only series of this name, whose labels contain `label`.
fn value(page: &str, name: &str, label: &str) -> Option<f64> {
    let series = |line: &&str| line.split(['{', ' ']).next() == Some(name) && line.contains(label);
    page.lines().find(series).map(|line| line.rsplit_once(' ').unwrap().1.parse().unwrap())
}

fn scraped(page: &str, name: &str) -> f64 {
    value(page, name, "").unwrap_or_else(|| panic!("there is no {name} in {page}"))
}

/// A runner whose load runs, and which may stay so long for a last scrape.
async fn running(mut pod: Pod, job: &mut Value, linger: f64) -> Runner {
    job["lingerSeconds"] = json!(linger);
    pod = pod.variable("DRAGSTRIP_JOB", &job.to_string());
    let runner = pod.at_the_line().await;
    assert_eq!(runner.start(start_in(SOON), TOKEN).await.0, 200);
    wait_for("the load to run", async || {
        runner.progress().await.filter(|state| state.operations > 0).map(|_| ())
    })
    .await;
    runner
}

async fn delivered(runner: &Runner) {
    let stdout = runner.path("stdout");
    let delivered = async || fs::read_to_string(&stdout).unwrap().contains(LOG_MARKER).then_some(());
    wait_for("the result", delivered).await;
}

fn signal(process: i32, signal: Signal) {
    kill(Pid::from_raw(process), signal).unwrap();
}

#[tokio::test]
async fn a_load_is_seen_while_it_runs_and_its_end_before_the_runner_goes() {
    let server = Redis::start(&[]).await;
    let mut job = job(server.port, &loadgen(3));
    let runner = running(Pod::new(&job), &mut job, 10.0).await;
    let page = wait_for("latencies", async || {
        let page = runner.metrics().await;
        page.contains("dragstrip_runner_latency_seconds_count").then_some(page)
    })
    .await;
    assert_well_formed(&page);
    let count = scraped(&page, "dragstrip_runner_latency_seconds_count");
    assert!(count > 0.0 && count <= scraped(&page, "dragstrip_runner_operations_total"), "{page}");
    assert_eq!(scraped(&page, "dragstrip_runner_connections").to_string(), "4");
    assert!(scraped(&page, "dragstrip_runner_bytes_total") > count, "{page}");
    let done = scraped(&page, "dragstrip_runner_progress_ratio");
    assert!(done > 0.2 && done < 1.0, "{done}");
    assert!(scraped(&page, "dragstrip_runner_network_transmit_bytes_total") >= 0.0);

    delivered(&runner).await;
    let page = runner.metrics().await;
    assert_well_formed(&page);
    let begun = Instant::now();
    let finished = runner.finished().await;
    assert!(begun.elapsed() < Duration::from_secs(5), "it stays on after the scrape of its end");
    let total: u64 = finished.result.operations.iter().map(|operation| operation.count).sum();
    let bytes: u64 = finished.result.operations.iter().map(|operation| operation.bytes).sum();
    assert_eq!(value(&page, "dragstrip_runner_stage", "stage=\"finished\""), Some(1.0), "{page}");
    for (name, expected) in [
        ("dragstrip_runner_operations_total", total),
        ("dragstrip_runner_latency_seconds_count", total),
        ("dragstrip_runner_bytes_total", bytes),
    ] {
        assert_eq!(
            scraped(&page, name).to_string(),
            expected.to_string(),
            "{name}: the last scrape shows all"
        );
    }
    let done = scraped(&page, "dragstrip_runner_progress_ratio");
    assert!(done > 0.9 && done <= 1.0, "{done}");
}

#[tokio::test]
async fn a_runner_that_stays_for_a_scrape_ends_on_sigterm() {
    let server = Redis::start(&[]).await;
    let mut job = job(server.port, &loadgen(3));
    let runner = running(Pod::new(&job), &mut job, 10.0).await;
    runner.metrics().await;
    delivered(&runner).await;
    runner.terminate();
    let begun = Instant::now();
    let finished = runner.finished().await;
    assert!(begun.elapsed() < Duration::from_secs(5), "SIGTERM does not end the wait for a scrape");
    assert_eq!(finished.result.failure, None, "the result was delivered before");
}

#[tokio::test]
async fn a_runner_that_nobody_scrapes_goes_at_once() {
    let server = Redis::start(&[]).await;
    let mut job = job(server.port, &loadgen(3));
    let runner = running(Pod::new(&job), &mut job, 10.0).await;
    delivered(&runner).await;
    let begun = Instant::now();
    runner.finished().await;
    assert!(begun.elapsed() < Duration::from_secs(5), "it waits for a scrape that was never to come");
}

#[tokio::test]
async fn memtier_sends_its_percentiles_while_it_runs() {
    let Some(program) = memtier::program("memtier_sends_its_percentiles_while_it_runs") else { return };
    let server = Redis::start(&[]).await;
    let tool =
        json!({"memtier": {"threads": 2, "connectionsPerThread": 3, "keyMaximum": 999, "testTime": "4s"}});
    let mut job = job(server.port, &tool);
    let runner = running(memtier::pod(&program, &job), &mut job, 10.0).await;
    let page = wait_for("percentiles", async || {
        let page = runner.metrics().await;
        page.contains("percentile=\"99.99\"").then_some(page)
    })
    .await;
    assert_well_formed(&page);
    let latency = |percentile: &str| {
        let label = format!("percentile=\"{percentile}\"");
        value(&page, "dragstrip_runner_tool_latency_seconds", &label).unwrap()
    };
    assert!(latency("50") > 1e-6 && latency("50") <= latency("99") && latency("99.99") < 4.0, "{page}");
    assert_eq!(scraped(&page, "dragstrip_runner_connections").to_string(), "6");
    assert!(scraped(&page, "dragstrip_runner_bytes_total") > 1000.0, "{page}");
    let done = scraped(&page, "dragstrip_runner_progress_ratio");
    assert!(done > 0.0 && done <= 1.0, "{done}");
    delivered(&runner).await;
    let end = runner.metrics().await;
    let operations = |page: &str| scraped(page, "dragstrip_runner_operations_total");
    assert!(operations(&end) >= operations(&page), "a counter fell: {page} {end}");
    let finished = runner.finished().await;
    assert_eq!(finished.result.failure, None);
    let arguments = finished.result.tool.arguments.join(" ");
    assert!(!arguments.contains("statsd") && finished.result.notes.is_empty(), "{:?}", finished.result);
}

#[tokio::test]
async fn the_observers_page_is_complete_and_made_once_a_second() {
    let server = Redis::start(&[]).await;
    let observer = Observer::start(server.port, "");
    let (status, page) = observer.get("/metrics", "").await;
    assert_eq!(status, 200);
    assert_well_formed(&page);
    let label = "engine=\"Redis\"";
    assert_eq!(value(&page, "dragstrip_server_up", label), Some(1.0), "{page}");
    let thread = value(&page, "dragstrip_server_thread_cpu_seconds_total", "thread=\"redis-server\"");
    assert!(thread.is_some_and(|seconds| seconds > 0.0), "{page}");
    assert!(value(&page, "dragstrip_server_network_receive_bytes_total", label).is_some(), "{page}");
    let took = value(&page, "dragstrip_observer_scrape_duration_seconds", label).unwrap();
    assert!(took > 0.0 && took < 2.0, "{took}");

    server.ask("CONFIG RESETSTAT");
    let begun = Instant::now();
    let pages = join_all((0..30).map(|_| observer.get("/metrics", ""))).await;
    let made = 2.0 + begun.elapsed().as_secs_f64() / 0.9;
    assert!(pages.iter().all(|(status, _)| *status == 200));
    let counted = server.ask("INFO commandstats").unwrap();
    let queries = counted
        .split("cmdstat_info:calls=")
        .nth(1)
        .map_or(0.0, |rest| rest.split(',').next().unwrap().parse().unwrap());
    assert!(queries <= made, "{queries} queries for 30 scrapes: {counted}");
}

#[tokio::test]
async fn a_server_that_stands_still_gets_one_query_at_a_time_and_stays_what_it_was() {
    let server = Redis::start(&[]).await;
    let observer = Observer::start(server.port, "");
    let info = server.ask("INFO server").unwrap();
    let process = info.lines().find_map(|line| line.strip_prefix("process_id:")).unwrap().parse().unwrap();
    assert!(observer.get("/metrics", "").await.1.contains("dragstrip_server_up{engine=\"Redis\"} 1\n"));
    signal(process, Signal::SIGSTOP);
    wait_for("the page of before to be too old", async || {
        let begun = Instant::now();
        let pages = join_all((0..8).map(|_| observer.get("/metrics", ""))).await;
        let took = begun.elapsed();
        assert!(took < Duration::from_secs(8), "eight scrapers wait {took:?}, one after the other");
        let down = |page: &(u16, String)| page.1.contains("dragstrip_server_up{engine=\"Redis\"} 0\n");
        pages.iter().all(down).then_some(())
    })
    .await;
    signal(process, Signal::SIGCONT);
    wait_for("the server to answer again", async || {
        observer
            .get("/metrics", "")
            .await
            .1
            .contains("dragstrip_server_up{engine=\"Redis\"} 1\n")
            .then_some(())
    })
    .await;
}
