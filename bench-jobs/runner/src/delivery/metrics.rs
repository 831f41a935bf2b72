//! The runner's metrics: what the tool reports, and what its container uses. Pure.

use crate::{
    delivery::{
        exposition::{Exposition, counter, gauge, label},
        state::Snapshot,
    },
    measuring::cgroup::Reading,
    tools::adapter,
};
use dragstrip_results::{
    protocol::{JobSpec, RunnerStage},
    usage::NetworkUsage,
};
use prometheus::proto::LabelPair;
use std::{collections::BTreeMap, time::Duration};

#[derive(Debug, Clone)]
pub struct Series {
    labels: Vec<LabelPair>,
    /// The planned length of the measured load, in seconds, if it is declared.
    planned: Option<f64>,
    warmup: f64,
    /// How long after the start line a tool with one stage still warms up.
    warms_up_for: Duration,
}

impl Series {
    /// The series of the client with this index.
    pub fn of(job: &JobSpec, client: u32) -> Self {
        let labels = vec![
            label("client", client.to_string()),
            label("phase", &job.phase),
            label("repetition", job.repetition.to_string()),
            label("run", &job.run),
        ];
        let stages = job.tool.stages();
        Self {
            labels,
            planned: job.tool.planned_seconds(),
            warmup: job.warmup_seconds.unwrap_or_default() * f64::from(stages),
            warms_up_for: if stages == 1 { adapter::measured_after(job) } else { Duration::ZERO },
        }
    }

    /// The stage as people see it: a warm-up after the start line is one too.
    fn stage(&self, snapshot: &Snapshot, elapsed: f64) -> RunnerStage {
        match snapshot.stage {
            RunnerStage::Running if elapsed < self.warms_up_for.as_secs_f64() => RunnerStage::WarmingUp,
            stage => stage,
        }
    }

    /// How much of the planned load is done, from 0 to 1: as the tool reports, else by the clock.
    fn progress(&self, snapshot: &Snapshot, elapsed: f64) -> Option<f64> {
        let by_clock = || {
            // The final length of the load is without its warm-up.
            let warmup = if snapshot.stage == RunnerStage::Running { self.warmup } else { 0.0 };
            self.planned.map(|planned| elapsed / (planned + warmup).max(1e-9))
        };
        snapshot.progress.ratio.or_else(by_clock).map(|ratio| ratio.clamp(0.0, 1.0))
    }

    fn labelled(&self, name: &str, value: &str) -> Vec<LabelPair> {
        [&self.labels[..], &[label(name, value)]].concat()
    }

    /// The page; `percentiles` are those of the tool's own latencies, in seconds, `cgroup` and
    /// `network` what the container has used since it began, if that can be read.
    pub fn page(
        &self,
        snapshot: &Snapshot,
        percentiles: &BTreeMap<String, f64>,
        cgroup: Option<&Reading>,
        network: Option<&NetworkUsage>,
        now_unix_nanos: i64,
    ) -> Result<String, prometheus::Error> {
        let mut page = Exposition::default();
        self.load(&mut page, snapshot, snapshot.elapsed_seconds(now_unix_nanos));
        page.metric(
            gauge(
                "dragstrip_runner_tool_latency_seconds",
                "Latency in the tool's last second, by its own account.",
            ),
            percentiles
                .iter()
                .map(|(percentile, seconds)| (self.labelled("percentile", percentile), *seconds)),
        );
        if let Some(reading) = cgroup {
            page.containers("runner", &[(self.labels.clone(), reading)]);
            let usage = &reading.usage;
            let cpu = counter("dragstrip_runner_cpu_seconds_total", "CPU time of the client's container.");
            let memory = gauge("dragstrip_runner_memory_bytes", "Memory of the client's container.");
            page.values(
                &self.labels,
                [(cpu, Some(usage.cpu_seconds)), (memory, Some(usage.memory_bytes as f64))],
            );
        }
        if let Some(network) = network {
            page.network("runner", &self.labels, network);
        }
        page.text()
    }

    fn load(&self, page: &mut Exposition, snapshot: &Snapshot, elapsed: f64) {
        let shown = self.stage(snapshot, elapsed);
        page.metric(
            gauge("dragstrip_runner_stage", "1 for the stage the runner is in."),
            STAGES.map(|(stage, name)| (self.labelled("stage", name), f64::from(u8::from(stage == shown)))),
        );
        let progress = &snapshot.progress;
        let number = |value: u64| value as f64;
        let values = [
            (
                counter("dragstrip_runner_operations_total", "Operations so far."),
                Some(number(progress.operations)),
            ),
            (counter("dragstrip_runner_errors_total", "Errors so far."), Some(number(progress.errors))),
            (
                counter("dragstrip_runner_bytes_total", "Bytes sent and received so far."),
                progress.bytes.map(number),
            ),
            (
                gauge("dragstrip_runner_connections", "Open connections of the tool."),
                progress.connections.map(number),
            ),
            (gauge("dragstrip_runner_elapsed_seconds", "Seconds since the load began."), Some(elapsed)),
            (
                gauge("dragstrip_runner_progress_ratio", "Share of the planned load that is done."),
                self.progress(snapshot, elapsed),
            ),
        ];
        page.values(&self.labels, values);
        if let Some(latencies) = &progress.latency {
            let help = "Latencies of the load so far.";
            page.histogram("dragstrip_runner_latency_seconds", help, &self.labels, latencies);
        }
    }
}

/// The stages by the names that they have in JSON.
const STAGES: [(RunnerStage, &str); 7] = [
    (RunnerStage::Preflight, "preflight"),
    (RunnerStage::Loading, "loading"),
    (RunnerStage::WarmingUp, "warmingUp"),
    (RunnerStage::AtStartLine, "atStartLine"),
    (RunnerStage::Armed, "armed"),
    (RunnerStage::Running, "running"),
    (RunnerStage::Finished, "finished"),
];

pub fn stage_name(stage: RunnerStage) -> &'static str {
    STAGES.iter().find(|(listed, _)| *listed == stage).map_or("", |(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{delivery::state::Shared, tests::fixtures::job, tools::adapter::Progress};
    use dragstrip_results::{live::LatencyCounts, observed::CgroupUsage};

    const LABELS: &str = r#"client="0",phase="phase",repetition="1",run="run""#;

    fn page(
        progress: &Progress,
        percentiles: &BTreeMap<String, f64>,
        cgroup: Option<&Reading>,
        network: Option<&NetworkUsage>,
    ) -> String {
        let shared = Shared::default();
        shared.note_progress(progress);
        let series = Series::of(&job(1, r#"{"memtier": {"testTime": "5s"}}"#), 0);
        series.page(&shared.snapshot(), percentiles, cgroup, network, 0).unwrap()
    }

    #[test]
    fn every_stage_has_its_json_name() {
        for (stage, name) in STAGES {
            assert_eq!(serde_json::to_value(stage).unwrap(), name);
        }
    }

    #[test]
    fn the_page_names_the_stage_and_the_counts() {
        let progress = Progress { operations: 12, errors: 3, ..Progress::default() };
        let page = page(&progress, &BTreeMap::new(), None, None);
        for line in [
            format!("dragstrip_runner_stage{{{LABELS},stage=\"preflight\"}} 1\n"),
            format!("dragstrip_runner_stage{{{LABELS},stage=\"running\"}} 0\n"),
            format!("dragstrip_runner_operations_total{{{LABELS}}} 12\n"),
            format!("dragstrip_runner_errors_total{{{LABELS}}} 3\n"),
            format!("dragstrip_runner_progress_ratio{{{LABELS}}} 0\n"),
        ] {
            assert!(page.contains(&line), "{line} is not in {page}");
        }
        for absent in ["bytes", "connections", "latency", "cpu", "network"] {
            assert!(!page.contains(absent), "{absent} is on the page, though nothing reports it: {page}");
        }
    }

    #[test]
    fn a_warm_up_after_the_start_line_is_shown_as_one() {
        let stage = |tool: &str, elapsed: f64| {
            let job = JobSpec { warmup_seconds: Some(2.0), ..job(1, tool) };
            let running = Snapshot { stage: RunnerStage::Running, ..Shared::default().snapshot() };
            Series::of(&job, 0).stage(&running, elapsed)
        };
        let loadgen = r#"{"loadgen": {"duration": "5s"}}"#;
        assert_eq!(stage(loadgen, 1.9), RunnerStage::WarmingUp);
        assert_eq!(stage(loadgen, 2.0), RunnerStage::Running);
        let memtier = r#"{"memtier": {"testTime": "5s"}}"#;
        assert_eq!(stage(memtier, 0.1), RunnerStage::Running, "it warmed up before the line");
    }

    #[test]
    fn the_page_shows_load_container_and_network() {
        let mut latency = LatencyCounts::default();
        latency.counts[3] = 7;
        let progress = Progress {
            bytes: Some(99),
            connections: Some(50),
            ratio: Some(1.3),
            latency: Some(latency),
            ..Progress::default()
        };
        let usage = CgroupUsage { cpu_seconds: 2.5, memory_bytes: 77, ..CgroupUsage::default() };
        let reading = Reading { usage, cpu_limit: Some(1.5), ..Reading::default() };
        let network = NetworkUsage { retransmitted_segments: 4, ..NetworkUsage::default() };
        let percentiles = [("99.9".to_owned(), 0.002)].into();
        let page = page(&progress, &percentiles, Some(&reading), Some(&network));
        for line in [
            format!("dragstrip_runner_bytes_total{{{LABELS}}} 99\n"),
            format!("dragstrip_runner_connections{{{LABELS}}} 50\n"),
            format!("dragstrip_runner_progress_ratio{{{LABELS}}} 1\n"),
            format!("dragstrip_runner_latency_seconds_bucket{{{LABELS},le=\"0.00008\"}} 7\n"),
            "dragstrip_runner_tool_latency_seconds{client=\"0\",phase=\"phase\",repetition=\"1\",run=\"run\",percentile=\"99.9\"} 0.002\n".to_owned(),
            format!("dragstrip_runner_cpu_seconds_total{{{LABELS}}} 2.5\n"),
            format!("dragstrip_runner_cpu_limit{{{LABELS}}} 1.5\n"),
            format!("dragstrip_runner_memory_bytes{{{LABELS}}} 77\n"),
            format!("dragstrip_runner_network_retransmitted_segments_total{{{LABELS}}} 4\n"),
        ] {
            assert!(page.contains(&line), "{line} is not in {page}");
        }
    }

    #[test]
    fn progress_goes_by_the_clock_where_the_tool_reports_none() {
        let mut job = job(1, r#"{"loadgen": {"duration": "6s"}}"#);
        job.warmup_seconds = Some(2.0);
        let series = Series::of(&job, 0);
        let shared = Shared::default();
        shared.enter(RunnerStage::Running);
        let running = series.progress(&shared.snapshot(), 4.0).unwrap();
        assert!((running - 0.5).abs() < 1e-9, "the warm-up is a part of the plan: {running}");
        shared.finish(&Progress::default(), 6.0);
        let over = series.progress(&shared.snapshot(), 6.0).unwrap();
        assert!((over - 1.0).abs() < 1e-9, "{over}");
        let unbounded = Series::of(&job_by_requests(), 0);
        assert_eq!(unbounded.progress(&shared.snapshot(), 6.0), None);
    }

    fn job_by_requests() -> JobSpec {
        job(1, r#"{"memtier": {"requestsPerConnection": 100}}"#)
    }
}
