//! The runner's page of metrics: what the tool tells while it runs, and what its
//! container uses. Pure.

use crate::{
    delivery::{
        exposition::{Exposition, Heading, Kind, Label},
        state::Snapshot,
    },
    measuring::cgroup::Reading,
};
use dragstrip_results::{
    protocol::{JobSpec, JobTool, RunnerStage},
    usage::NetworkUsage,
};
use std::collections::BTreeMap;

/// Whose numbers these are.
#[derive(Debug, Clone)]
pub struct Series {
    /// The labels of every metric.
    labels: Vec<Label>,
    /// The planned length of the measured load, in seconds, where it is known.
    planned: Option<f64>,
    /// The planned length of its warm-up.
    warmup: f64,
    /// How long after the start line the load is a warm-up, in seconds, as far as one begins there.
    warms_up_until: f64,
}

/// What the container has used since it began.
#[derive(Debug, Clone, Default)]
pub struct Own {
    /// CPU and memory; `None` where the cgroup cannot be read.
    pub cgroup: Option<Reading>,
    /// The pod's network.
    pub network: Option<NetworkUsage>,
}

impl Series {
    /// Of the client with this index.
    pub fn of(job: &JobSpec, client: u32) -> Self {
        let labels = vec![
            ("run", job.run.clone()),
            ("phase", job.phase.clone()),
            ("repetition", job.repetition.to_string()),
            ("client", client.to_string()),
        ];
        let warmup = job.warmup_seconds.unwrap_or_default() * f64::from(job.tool.stages());
        let warms_up_itself = match job.tool {
            JobTool::Loadgen(_) | JobTool::Bullmq(_) => job.tool.stages() == 1,
            JobTool::Memtier(_) | JobTool::Exec(_) => false,
        };
        let warms_up_until = if warms_up_itself { warmup } else { 0.0 };
        Self { labels, planned: job.tool.planned_seconds(), warmup, warms_up_until }
    }

    /// The stage as people see it: what is not measured yet is a warm-up, also of a tool that
    /// makes it after the start line.
    fn stage(&self, snapshot: &Snapshot, elapsed: f64) -> RunnerStage {
        match snapshot.stage {
            RunnerStage::Running if elapsed < self.warms_up_until => RunnerStage::WarmingUp,
            stage => stage,
        }
    }

    /// How much of the planned load is done, from 0 to 1: as the tool tells, else by the clock.
    fn progress(&self, snapshot: &Snapshot, elapsed: f64) -> Option<f64> {
        let by_clock = || {
            // The time that the load took in the end is without its warm-up.
            let warmup = if snapshot.stage == RunnerStage::Running { self.warmup } else { 0.0 };
            self.planned.map(|planned| elapsed / (planned + warmup).max(1e-9))
        };
        snapshot.progress.ratio.or_else(by_clock).map(|ratio| ratio.clamp(0.0, 1.0))
    }

    /// The page; `percentiles` are those of the tool's own latencies, in seconds.
    pub fn page(
        &self,
        snapshot: &Snapshot,
        percentiles: &BTreeMap<String, f64>,
        own: &Own,
        now_unix_nanos: i64,
    ) -> Result<String, prometheus::Error> {
        let mut page = Exposition::default();
        self.of_the_load(&mut page, snapshot, snapshot.elapsed_seconds(now_unix_nanos));
        let latencies = percentiles.iter().map(|(percentile, seconds)| {
            ([&self.labels[..], &[("percentile", percentile.clone())]].concat(), *seconds)
        });
        let help = "Latency in the tool's last second, by the tool's own account.";
        let heading = ("dragstrip_runner_tool_latency_seconds", Kind::Gauge, help);
        page.metric(heading, &latencies.collect::<Vec<_>>());
        if let Some(reading) = &own.cgroup {
            page.values(&self.labels, of_the_container(reading));
        }
        if let Some(network) = &own.network {
            page.values(&self.labels, of_the_network(network));
        }
        page.text()
    }

    fn of_the_load(&self, page: &mut Exposition, snapshot: &Snapshot, elapsed: f64) {
        let shown = self.stage(snapshot, elapsed);
        let stages = STAGES.map(|stage| {
            let labels = [&self.labels[..], &[("stage", stage_name(stage).to_owned())]].concat();
            (labels, f64::from(u8::from(stage == shown)))
        });
        page.metric(("dragstrip_runner_stage", Kind::Gauge, "1 for the stage the runner is in."), &stages);
        let progress = &snapshot.progress;
        let number = |value: Option<u64>| value.map(|value| value as f64);
        let values: [(Heading<'_>, Option<f64>); 6] = [
            (
                ("dragstrip_runner_operations_total", Kind::Counter, "Operations so far."),
                number(Some(progress.operations)),
            ),
            (
                ("dragstrip_runner_errors_total", Kind::Counter, "Errors so far."),
                number(Some(progress.errors)),
            ),
            (
                ("dragstrip_runner_bytes_total", Kind::Counter, "Bytes sent and received so far."),
                number(progress.bytes),
            ),
            (
                ("dragstrip_runner_connections", Kind::Gauge, "Open connections of the tool."),
                number(progress.connections),
            ),
            (
                ("dragstrip_runner_elapsed_seconds", Kind::Gauge, "Seconds since the load began."),
                Some(elapsed),
            ),
            (
                ("dragstrip_runner_progress_ratio", Kind::Gauge, "Share of the planned load that is done."),
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

fn of_the_container(reading: &Reading) -> [(Heading<'_>, Option<f64>); 5] {
    let usage = &reading.usage;
    [
        (
            ("dragstrip_runner_cpu_seconds_total", Kind::Counter, "CPU time of the client's container."),
            Some(usage.cpu_seconds),
        ),
        (
            (
                "dragstrip_runner_throttled_seconds_total",
                Kind::Counter,
                "Time the container's CPU limit held it back.",
            ),
            Some(usage.throttled_seconds),
        ),
        (
            (
                "dragstrip_runner_throttled_periods_total",
                Kind::Counter,
                "Scheduling periods in which it was held back.",
            ),
            Some(usage.throttled_periods as f64),
        ),
        (
            ("dragstrip_runner_cpu_limit", Kind::Gauge, "CPU limit of the client's container, in CPUs."),
            reading.cpu_limit,
        ),
        (
            ("dragstrip_runner_memory_bytes", Kind::Gauge, "Memory of the client's container."),
            Some(usage.memory_bytes as f64),
        ),
    ]
}

fn of_the_network(network: &NetworkUsage) -> [(Heading<'_>, Option<f64>); 3] {
    [
        (
            (
                "dragstrip_runner_network_receive_bytes_total",
                Kind::Counter,
                "Bytes that the pod received, loopback apart.",
            ),
            Some(network.received_bytes as f64),
        ),
        (
            (
                "dragstrip_runner_network_transmit_bytes_total",
                Kind::Counter,
                "Bytes that the pod sent, loopback apart.",
            ),
            Some(network.sent_bytes as f64),
        ),
        (
            (
                "dragstrip_runner_network_retransmitted_segments_total",
                Kind::Counter,
                "TCP segments that the pod sent again.",
            ),
            Some(network.retransmitted_segments as f64),
        ),
    ]
}

const STAGES: [RunnerStage; 7] = [
    RunnerStage::Preflight,
    RunnerStage::Loading,
    RunnerStage::WarmingUp,
    RunnerStage::AtStartLine,
    RunnerStage::Armed,
    RunnerStage::Running,
    RunnerStage::Finished,
];

/// A stage's name in answers and metrics.
pub fn stage_name(stage: RunnerStage) -> &'static str {
    match stage {
        RunnerStage::Preflight => "preflight",
        RunnerStage::Loading => "loading",
        RunnerStage::WarmingUp => "warmingUp",
        RunnerStage::AtStartLine => "atStartLine",
        RunnerStage::Armed => "armed",
        RunnerStage::Running => "running",
        RunnerStage::Finished => "finished",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{delivery::state::Shared, tests::fixtures::job, tools::adapter::Progress};
    use dragstrip_results::{live::LatencyCounts, observed::CgroupUsage};

    const LABELS: &str = r#"client="0",phase="phase",repetition="1",run="run""#;

    fn page(progress: &Progress, percentiles: &BTreeMap<String, f64>, own: &Own) -> String {
        let shared = Shared::default();
        shared.note_progress(*progress);
        let series = Series::of(&job(1, r#"{"memtier": {"testTime": "5s"}}"#), 0);
        series.page(&shared.snapshot(), percentiles, own, 0).unwrap()
    }

    #[test]
    fn the_page_names_the_stage_and_the_counts() {
        let progress = Progress { operations: 12, errors: 3, ..Progress::default() };
        let page = page(&progress, &BTreeMap::new(), &Own::default());
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
            assert!(!page.contains(absent), "{absent} is told, though nobody knows it: {page}");
        }
    }

    #[test]
    fn a_warm_up_after_the_start_line_is_told_as_one() {
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
    fn what_is_known_of_load_and_container_is_told() {
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
        let own = Own {
            cgroup: Some(Reading { usage, cpu_limit: Some(1.5), ..Reading::default() }),
            network: Some(NetworkUsage { retransmitted_segments: 4, ..NetworkUsage::default() }),
        };
        let page = page(&progress, &[("99.9".to_owned(), 0.002)].into(), &own);
        for line in [
            format!("dragstrip_runner_bytes_total{{{LABELS}}} 99\n"),
            format!("dragstrip_runner_connections{{{LABELS}}} 50\n"),
            format!("dragstrip_runner_progress_ratio{{{LABELS}}} 1\n"),
            format!("dragstrip_runner_latency_seconds_bucket{{{LABELS},le=\"0.00008\"}} 7\n"),
            "dragstrip_runner_tool_latency_seconds{client=\"0\",percentile=\"99.9\",phase=\"phase\",repetition=\"1\",run=\"run\"} 0.002\n".to_owned(),
            format!("dragstrip_runner_cpu_seconds_total{{{LABELS}}} 2.5\n"),
            format!("dragstrip_runner_cpu_limit{{{LABELS}}} 1.5\n"),
            format!("dragstrip_runner_memory_bytes{{{LABELS}}} 77\n"),
            format!("dragstrip_runner_network_retransmitted_segments_total{{{LABELS}}} 4\n"),
        ] {
            assert!(page.contains(&line), "{line} is not in {page}");
        }
    }

    #[test]
    fn progress_goes_by_the_clock_where_the_tool_tells_none() {
        let mut job = job(1, r#"{"loadgen": {"duration": "6s"}}"#);
        job.warmup_seconds = Some(2.0);
        let series = Series::of(&job, 0);
        let shared = Shared::default();
        shared.enter(RunnerStage::Running);
        let running = series.progress(&shared.snapshot(), 4.0).unwrap();
        assert!((running - 0.5).abs() < 1e-9, "the warm-up is a part of the plan: {running}");
        shared.finish(Progress::default(), 6.0);
        let over = series.progress(&shared.snapshot(), 6.0).unwrap();
        assert!((over - 1.0).abs() < 1e-9, "{over}");
        let unbounded = Series::of(&job_by_requests(), 0);
        assert_eq!(unbounded.progress(&shared.snapshot(), 6.0), None);
    }

    fn job_by_requests() -> JobSpec {
        job(1, r#"{"memtier": {"requestsPerConnection": 100}}"#)
    }
}
