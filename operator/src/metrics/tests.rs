//! The metrics of runs, checked with Prometheus' own tools.

use super::{
    MOST_OF_HISTORY,
    families::Families,
    history::{Shown, within},
    phases::Detail,
    prices::Prices,
    runs,
};
use dragstrip_crds::BenchmarkRun;
use serde_json::{Value, json};
use std::{
    io::Write as _,
    process::{Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

fn latency(milliseconds: f64) -> Value {
    json!({"mean": milliseconds, "p50": milliseconds, "p90": 2.0 * milliseconds, "p95": 2.5 * milliseconds,
        "p99": 3.0 * milliseconds, "p999": 4.0 * milliseconds, "p9999": 5.0 * milliseconds, "max": 9.0})
}

fn operation(name: &str, rate: f64) -> Value {
    json!({
        "operation": name, "count": 3_000_000, "errors": 2, "bytesPerSecond": 1e6, "hits": 90, "misses": 10,
        "operationsPerSecond": {"repetitions": 3, "mean": rate, "standardDeviation": 10.0,
            "coefficientOfVariation": 0.01, "confidence95": 25.0},
        "latencyMilliseconds": latency(0.25)
    })
}

fn phase(name: &str) -> Value {
    let repetition = |repetition: u32| {
        json!({"repetition": repetition, "configMap": "c", "windowSeconds": 60.0, "operationsPerSecond": 1e5,
            "clientCpus": 3.5, "hitRatio": 0.9})
    };
    json!({
        "name": name, "tool": {"name": "memtier", "version": "2.3.0"},
        "operations": [operation("SET", 1e4), operation("GET", 9e4), operation("TOTAL", 1e5)],
        "repetitions": [repetition(1), repetition(2), repetition(3)],
        "verdict": "Degraded", "limitedBy": {"by": "Server", "evidence": "its CPUs"},
        "reasons": [{"reason": "Steal", "verdict": "Degraded", "message": "2%"},
            {"reason": "HighVariance", "verdict": "Invalid", "message": "9%"}],
        "serverMemory": {"usedBytes": 1000, "peakBytes": 2000},
    })
}

/// A run of three phases with three repetitions each, the last of which is a search.
fn finished(number: usize) -> BenchmarkRun {
    let memtier = json!({"threads": 4, "connectionsPerThread": 50, "testTime": "60s", "ratio": "1:9"});
    let point = |repetition: u32, value: u64, p99: f64| {
        json!({"repetition": repetition, "value": value, "operationsPerSecond": 1000 * value + u64::from(repetition),
            "latencyMilliseconds": {"p99": p99}, "configMap": "c"})
    };
    let mut search = phase("knee");
    search["search"] = json!({
        "raise": "Connections", "points": [point(1, 1, 0.5), point(1, 2, 0.75), point(2, 2, 0.25)],
        "knee": {"value": 2, "low": 2, "high": 3, "operationsPerSecond": 2000.0, "why": "P99"}
    });
    let status = json!({
        "phase": "Succeeded", "verdict": "Degraded", "startedAt": "2026-01-01T00:00:00Z",
        "finishedAt": "2026-01-01T00:10:00Z", "progress": {"measured": 3, "total": 4},
        "target": {"name": "redis", "servers": 2, "nodes": ["server-a", "server-b"], "observed": {
            "engine": "Redis", "version": "7.0.15", "threads": 8, "clusterEnabled": false, "loading": false,
            "runId": "x", "usedMemoryBytes": 1, "maxMemoryBytes": 67_108_864}},
        "nodes": [{"name": "client-a", "instanceType": "c7i.16xlarge", "serves": false, "loads": true},
            {"name": "server-a", "instanceType": "c7i.2xlarge", "serves": true, "loads": false}],
        "noise": {"figures": [{"phase": "read", "metric": "OperationsPerSecond", "betweenRepetitions": 0.02,
            "starts": 1, "repetitions": 5}], "foundBy": {"namespace": "races", "name": "n"}, "measuredAt": "2026-01-01T00:00:00Z"},
        "phases": [phase("write"), phase("read"), search],
    });
    serde_json::from_value(json!({
        "apiVersion": "dragstrip.dev/v1alpha1", "kind": "BenchmarkRun",
        "metadata": {"name": format!("run-{number}"), "namespace": "races", "uid": "u",
            "labels": {"dragstrip.dev/suite": "nightly"},
            "annotations": {"dragstrip.dev/cell-in-words": "redis threads=8, 2 of 3"}},
        "spec": {"target": {"datastoreRef": {"name": "redis"}}, "clients": {"pods": 2}, "repetitions": 3, "phases": [
            {"name": "write", "memtier": memtier}, {"name": "read", "memtier": memtier},
            {"name": "knee", "memtier": memtier, "search": {"raise": "Connections", "to": 64, "until": {"p99": "1ms"}}},
        ]},
        "status": status
    }))
    .unwrap()
}

fn rendered_as(run: &BenchmarkRun, detail: Detail) -> Families {
    let instance_types = |node: &str| (node == "server-b").then(|| "c7i.2xlarge".to_owned());
    runs::families(run, detail, &instance_types, &Prices::with("").unwrap())
}

fn rendered(run: &BenchmarkRun) -> Families {
    rendered_as(run, Detail::Complete)
}

fn assert_lines(text: &str, expected: &[&str]) {
    for line in expected {
        assert!(text.lines().any(|one| one == *line), "no line\n  {line}\nin\n{text}");
    }
}

#[test]
fn a_finished_run_shows_what_it_measured_and_where() {
    let text = Families::text(&[&rendered(&finished(1))]);
    assert_lines(
        &text,
        &[
            "dragstrip_run_info{namespace=\"races\",run=\"run-1\",target=\"redis\",engine=\"Redis\",engine_version=\"7.0.15\",threads=\"8\",instances=\"2\",server_instance_type=\"c7i.2xlarge\",client_instance_type=\"c7i.16xlarge\",server_node=\"server-a\",client_node=\"client-a\",suite=\"nightly\",combination=\"redis threads=8\"} 1",
            "dragstrip_run_state{namespace=\"races\",run=\"run-1\",state=\"Succeeded\"} 1",
            "dragstrip_run_verdict{namespace=\"races\",run=\"run-1\",verdict=\"Degraded\"} 1",
            "dragstrip_run_progress_ratio{namespace=\"races\",run=\"run-1\"} 0.75",
            "dragstrip_run_start_timestamp_seconds{namespace=\"races\",run=\"run-1\"} 1767225600",
            "dragstrip_run_end_timestamp_seconds{namespace=\"races\",run=\"run-1\"} 1767226200",
            "dragstrip_run_server_max_memory_bytes{namespace=\"races\",run=\"run-1\"} 67108864",
            "dragstrip_run_noise_ratio{namespace=\"races\",run=\"run-1\"} 0.02",
        ],
    );
    assert_eq!(text.matches("dragstrip_run_state{").count(), 1, "only the state it is in");
}

#[test]
fn a_phase_shows_its_figures_in_base_units() {
    let text = Families::text(&[&rendered(&finished(1))]);
    let of = |rest: &str| format!("{{namespace=\"races\",run=\"run-1\",phase=\"read\"{rest}");
    let lines = [
        (
            "dragstrip_run_phase_info",
            ",index=\"1\",tool=\"memtier\",tool_version=\"2.3.0\",mode=\"\",workload=\"SET 10%, GET 90%, 32 B\",pipeline=\"1\",connections=\"400\",client_pods=\"2\"} 1",
        ),
        ("dragstrip_run_phase_verdict", ",verdict=\"Degraded\"} 1"),
        ("dragstrip_run_phase_reason", ",check=\"Steal\",level=\"Warn\"} 1"),
        ("dragstrip_run_phase_reason", ",check=\"HighVariance\",level=\"Required\"} 1"),
        ("dragstrip_run_phase_limited_by", ",limiter=\"Server\"} 1"),
        ("dragstrip_run_operations_per_second", ",operation=\"TOTAL\"} 100000"),
        ("dragstrip_run_operations_per_second_interval", ",operation=\"TOTAL\",bound=\"lower\"} 99975"),
        ("dragstrip_run_operations_per_second_interval", ",operation=\"TOTAL\",bound=\"upper\"} 100025"),
        ("dragstrip_run_repetition_operations_per_second", ",repetition=\"3\"} 100000"),
        ("dragstrip_run_latency_seconds", ",operation=\"GET\",percentile=\"99.9\"} 0.001"),
        ("dragstrip_run_latency_seconds", ",operation=\"GET\",percentile=\"100\"} 0.009"),
        ("dragstrip_run_latency_mean_seconds", ",operation=\"GET\"} 0.00025"),
        ("dragstrip_run_operations", ",operation=\"SET\"} 3000000"),
        ("dragstrip_run_errors", ",operation=\"SET\"} 2"),
        ("dragstrip_run_bytes_per_second", ",operation=\"SET\"} 1000000"),
        ("dragstrip_run_hit_ratio", "} 0.9"),
        ("dragstrip_run_client_cpus", "} 3.5"),
        ("dragstrip_run_server_memory_bytes", ",kind=\"used\"} 1000"),
        ("dragstrip_run_server_memory_bytes", ",kind=\"peak\"} 2000"),
    ];
    let lines: Vec<String> = lines.iter().map(|(name, rest)| format!("{name}{}", of(rest))).collect();
    assert_lines(&text, &lines.iter().map(String::as_str).collect::<Vec<_>>());
    let cost = text.lines().find_map(|line| {
        line.strip_prefix("dragstrip_run_cost_dollars_per_million_operations")?.strip_prefix(&of("} "))
    });
    let cost: f64 = cost.unwrap().parse().unwrap();
    // Two nodes of 0.357 dollars an hour, at 360 million operations an hour.
    assert!((cost - 2.0 * 0.357 / 360.0).abs() < 1e-12, "both nodes cost: {cost}");
}

#[test]
fn a_search_shows_each_value_once_and_the_phase_is_that_of_the_value_found() {
    let text = Families::text(&[&rendered(&finished(1))]);
    let of = |name: &str, rest: &str| {
        format!("dragstrip_run_{name}{{namespace=\"races\",run=\"run-1\",phase=\"knee\",{rest}")
    };
    let lines = [
        of("search_operations_per_second", "raise=\"Connections\",value=\"2\"} 2001.5"),
        of("search_latency_seconds", "raise=\"Connections\",value=\"2\",percentile=\"99\"} 0.00075"),
        of("search_knee", "raise=\"Connections\"} 2"),
    ];
    assert_lines(&text, &lines.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(text.contains("phase=\"knee\",index=\"2\"") && text.contains("connections=\"16\""), "{text}");
}

#[test]
fn a_run_that_has_not_begun_shows_what_it_declares() {
    let mut run = finished(1);
    run.status = None;
    let text = Families::text(&[&rendered(&run)]);
    assert!(text.contains("target=\"redis\",engine=\"\"") && text.contains("server_node=\"\""), "{text}");
    assert!(
        text.contains("dragstrip_run_state{namespace=\"races\",run=\"run-1\",state=\"Pending\"} 1"),
        "{text}"
    );
    assert!(text.contains("phase=\"read\",index=\"1\",tool=\"memtier\",tool_version=\"\""), "{text}");
    assert!(!text.contains("_per_second"), "it has no figures yet:\n{text}");
}

#[test]
fn no_series_appears_twice() {
    let text = Families::text(&[&rendered(&finished(0)), &rendered(&finished(1))]);
    let mut series: Vec<&str> = text
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| Some(line.rsplit_once(' ')?.0))
        .collect();
    let all = series.len();
    series.sort_unstable();
    series.dedup();
    assert_eq!(series.len(), all, "Prometheus would refuse the page");
}

#[test]
fn promtool_finds_nothing_wrong_with_the_page() {
    let metrics = super::Metrics::new().unwrap();
    metrics.reconciled("run", super::Outcome::Done, Duration::from_millis(3));
    metrics.requested("GET", Some(200));
    metrics.undecodable("Datastore", 1);
    let now = "2026-01-01T00:00:00Z".parse().unwrap();
    let mut pending = finished(9);
    pending.status = None;
    pending.metadata.creation_timestamp =
        Some(serde_json::from_value(json!("2020-01-01T00:00:00Z")).unwrap());
    let overview = super::overview::families(&[], &[Arc::new(pending)], &[], &[], now);
    let runs: Vec<Families> = (0..3).map(|number| rendered(&finished(number))).collect();
    let parts = [&overview, &super::usage::families().unwrap(), &runs[0], &runs[1], &runs[2]];
    let text = Families::text(&parts) + &metrics.text().unwrap();
    let promtool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut promtool = promtool.expect("promtool cannot be started: install prometheus (make tools does)");
    promtool.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = promtool.wait_with_output().unwrap();
    let printed = [output.stdout, output.stderr].concat();
    assert!(output.status.success() && printed.is_empty(), "promtool: {}", String::from_utf8_lossy(&printed));
}

fn shown(number: usize) -> Shown {
    let run = finished(number);
    Shown {
        namespace: "races".into(),
        name: format!("run-{number}"),
        uid: "u".into(),
        state: dragstrip_crds::run::RunPhase::Succeeded,
        complete: Arc::new(rendered_as(&run, Detail::Complete)),
        totals: Arc::new(rendered_as(&run, Detail::Totals)),
    }
}

#[test]
fn older_runs_show_only_their_totals_if_the_page_grows_too_large() {
    let runs = [shown(1), shown(2), shown(3)];
    let (complete, totals) = (runs[0].complete.len(), runs[0].totals.len());
    let lengths = |most| within(&runs, most).map(Families::len).collect::<Vec<_>>();
    assert_eq!(lengths(3 * complete), [complete; 3]);
    assert_eq!(lengths(3 * complete - 1), [totals, complete, complete], "the newest stay complete");
    assert_eq!(lengths(0), [totals; 3], "no run is left out");
    let text = Families::text(&[&runs[0].totals]);
    assert!(text.contains("operation=\"TOTAL\"") && !text.contains("operation=\"GET\""), "{text}");
}

#[test]
fn two_hundred_finished_runs_are_shown_at_once_and_within_two_mebibytes() {
    let runs: Vec<Shown> = (0..200).map(shown).collect();
    let begun = Instant::now();
    let text = Families::text(&within(&runs, MOST_OF_HISTORY).collect::<Vec<_>>());
    let took = begun.elapsed();
    let complete = runs.iter().map(|run| run.complete.len()).sum::<usize>();
    println!("{} KiB in {took:?}; all complete {} KiB", text.len() / 1024, complete / 1024);
    assert!(text.len() < 2 << 20, "the page has {} bytes", text.len());
    // The goal of 50 ms is that of an optimised build on a quiet machine.
    assert!(took < Duration::from_millis(500), "it took {took:?}");
}
