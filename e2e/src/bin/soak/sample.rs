//! What the operator uses: from its own metrics, from the API server's, and from /proc where that is this machine's.

use anyhow::{Context, Result, ensure};
use dragstrip_e2e::{faults, operator, processes};
use kube::{Client, ResourceExt};
use std::{collections::BTreeMap, time::Instant};

/// What is sampled, and by how much its level may grow in an hour: a share of it, and an amount.
pub const GAUGES: [(&str, f64, f64); 6] = [
    ("memory (MiB)", 0.03, 0.0),
    ("open files", 0.0, 1.0),
    ("threads", 0.0, 1.0),
    ("tokio tasks", 0.0, 2.0),
    ("watches of its kinds", 0.0, 1.0),
    ("calls per second", 0.1, 0.0),
];

/// A sample.
#[derive(Debug, Clone)]
pub struct Sample {
    pub at: Instant,
    /// By gauge, in the sequence of [`GAUGES`]; absent if it cannot be read.
    pub values: [Option<f64>; 5],
    /// Calls to the API server so far.
    pub calls: f64,
}

/// Samples one process of the operator.
pub struct Sampler {
    client: Client,
    uid: String,
    started: f64,
}

/// Series of a page of metrics by name and labels.
fn series(page: &str) -> BTreeMap<&str, f64> {
    let samples = page.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.rsplit_once(' '));
    samples.filter_map(|(series, value)| Some((series, value.parse().ok()?))).collect()
}

async fn page(client: &Client) -> Result<String> {
    let token = operator::token(client, operator::NAMESPACE, "dragstrip-metrics").await?;
    let (status, page) = operator::metrics(client, Some(&token)).await?;
    ensure!(status == 200, "no metrics of the operator: {status}");
    Ok(page)
}

impl Sampler {
    /// A sampler of the operator that is there now.
    pub async fn new(client: Client) -> Result<Self> {
        let uid = operator::await_ready(&client, None).await?.uid().unwrap_or_default();
        let page = page(&client).await?;
        let started = series(&page).get("process_start_time_seconds").copied();
        Ok(Self { client, uid, started: started.context("no start of the process")? })
    }

    /// Threads of the operator's process.
    fn threads(&self) -> Option<f64> {
        let found = processes::of_pod(&self.uid).ok().filter(|_| faults::local())?;
        let operator = found.into_iter().find(|process| process.is("dragstrip-opera"))?;
        Some(operator.threads.len() as f64)
    }

    /// Watches of Dragstrip's kinds that the API server serves.
    async fn watches(&self) -> Result<f64> {
        let request = http::Request::get("/metrics").body(Vec::new())?;
        let page = self.client.request_text(request).await?;
        let ours = |name: &str| {
            name.starts_with("apiserver_longrunning_requests{")
                && name.contains("group=\"dragstrip.dev\"")
                && name.contains("verb=\"WATCH\"")
        };
        Ok(series(&page).iter().filter(|(name, _)| ours(name)).map(|(_, count)| count).sum())
    }

    /// A sample; an error if the operator was restarted.
    pub async fn sample(&self) -> Result<Sample> {
        let page = page(&self.client).await?;
        let series = series(&page);
        let of = |name: &str| series.get(name).copied();
        let started = of("process_start_time_seconds");
        ensure!(started == Some(self.started), "the operator was restarted: it started at {started:?}");
        let calls = series.iter().filter(|(name, _)| name.starts_with("dragstrip_api_requests_total{"));
        let memory = of("process_resident_memory_bytes").map(|bytes| bytes / f64::from(1 << 20));
        Ok(Sample {
            at: Instant::now(),
            calls: calls.map(|(_, count)| count).sum(),
            values: [
                memory,
                of("process_open_fds"),
                self.threads(),
                of("dragstrip_tokio_tasks"),
                self.watches().await.ok(),
            ],
        })
    }
}
