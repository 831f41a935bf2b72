//! Metrics of the operator's own work and of runs.

mod families;
mod history;
mod overview;
mod phases;
mod prices;
mod runs;
#[cfg(test)]
mod tests;
mod usage;
mod workload;

pub use history::History;
pub use prices::Prices;

use crate::cluster::world::World;
use dragstrip_core::nodes::facts;
use dragstrip_crds::BenchmarkRun;
use families::Families;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::{
    ResourceExt,
    runtime::reflector::{ObjectRef, Store},
};
use phases::Detail;
use prometheus::{
    HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
    TextEncoder, core::Collector,
};
use std::{sync::Arc, time::Duration};

/// Why metrics could not be set up or written.
#[derive(Debug, thiserror::Error)]
pub enum MetricsError {
    /// Registering or encoding failed.
    #[error("failed to set up or write metrics")]
    Prometheus(#[from] prometheus::Error),
    /// The resources of the process could not be read.
    #[error("failed to read the resources of the process")]
    Process(#[from] procfs::ProcError),
}

/// How a reconcile ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It completed.
    Done,
    /// The object is invalid; the next reconcile follows its change.
    Invalid,
    /// It failed and will be retried.
    Failed,
}

impl Outcome {
    fn label(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Invalid => "invalid",
            Self::Failed => "failed",
        }
    }
}

/// Shared counters.
#[derive(Clone)]
pub struct Metrics {
    registry: Registry,
    reconciles: HistogramVec,
    requests: IntCounterVec,
    in_flight: IntGauge,
    undecodable: IntGaugeVec,
    results_lost: IntCounter,
}

/// A request to the API server without a response yet.
pub struct InFlight(IntGauge);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// Adds `metric` to the registry.
fn registered<M: Collector + Clone + 'static>(
    registry: &Registry,
    metric: prometheus::Result<M>,
) -> prometheus::Result<M> {
    let metric = metric?;
    registry.register(Box::new(metric.clone()))?;
    Ok(metric)
}

impl Metrics {
    /// Registers all metrics.
    pub fn new() -> Result<Self, MetricsError> {
        let registry = Registry::new();
        let reconciles = HistogramOpts::new(
            "dragstrip_reconcile_duration_seconds",
            "Duration of reconciles by controller and outcome.",
        )
        // A pass costs a few API calls of some milliseconds each; seconds mean a struggling API server.
        .buckets(vec![0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0]);
        let requests = Opts::new(
            "dragstrip_api_requests_total",
            "Answered requests to the API server, including watches, by HTTP method and class of status code; code none if there was no response.",
        );
        let in_flight = IntGauge::new(
            "dragstrip_api_requests_in_flight",
            "Requests to the API server without a response yet.",
        );
        let undecodable = Opts::new(
            "dragstrip_undecodable_objects",
            "Objects that this version of the operator cannot decode and ignores, by kind.",
        );
        let results_lost = IntCounter::new(
            "dragstrip_results_lost_total",
            "Measurements whose result was lost with a client pod or its node.",
        );
        Ok(Self {
            reconciles: registered(&registry, HistogramVec::new(reconciles, &["controller", "outcome"]))?,
            requests: registered(&registry, IntCounterVec::new(requests, &["method", "code"]))?,
            in_flight: registered(&registry, in_flight)?,
            undecodable: registered(&registry, IntGaugeVec::new(undecodable, &["kind"]))?,
            results_lost: registered(&registry, results_lost)?,
            registry,
        })
    }

    /// Records one pass.
    pub fn reconciled(&self, controller: &str, outcome: Outcome, took: Duration) {
        self.reconciles.with_label_values(&[controller, outcome.label()]).observe(took.as_secs_f64());
    }

    /// Counts one request to the API server, and the status code of its response if it had one.
    pub fn requested(&self, method: &str, code: Option<u16>) {
        let class = code.map_or_else(|| "none".to_owned(), |code| format!("{}xx", code / 100));
        self.requests.with_label_values(&[method, &class]).inc();
    }

    /// Counts a measurement whose result was lost.
    pub fn result_lost(&self) {
        self.results_lost.inc();
    }

    /// Counts a request as in flight until the returned value is dropped.
    pub fn in_flight(&self) -> InFlight {
        self.in_flight.inc();
        InFlight(self.in_flight.clone())
    }

    /// Records how many objects of a kind cannot be decoded.
    pub fn undecodable(&self, kind: &str, count: usize) {
        self.undecodable.with_label_values(&[kind]).set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// These metrics in Prometheus' text format.
    pub(crate) fn text(&self) -> Result<String, MetricsError> {
        Ok(TextEncoder::new().encode_to_string(&self.registry.gather())?)
    }
}

/// Most bytes for finished runs, which are the same at most scrapes. With active runs and everything
/// else, the page stays below 2 MiB.
const MOST_OF_HISTORY: usize = 1_800_000;

/// The instance type of the node named `name`.
fn instance_type(nodes: &Store<Node>, name: &str) -> Option<String> {
    facts(&*nodes.get(&ObjectRef::new(name))?).instance_type
}

/// The page that Prometheus scrapes.
#[derive(Clone)]
pub struct Page {
    metrics: Metrics,
    world: World,
    prices: Arc<Prices>,
    /// The newest finished runs.
    pub history: Arc<History>,
}

impl Page {
    /// A page of the operator's own `metrics`, of the objects in `world`, and of the newest finished
    /// runs, at most `limit`.
    pub fn new(metrics: Metrics, world: World, prices: Prices, limit: usize) -> Self {
        let prices = Arc::new(prices);
        let (nodes, for_history) = (world.nodes.clone(), prices.clone());
        let render = move |run: &BenchmarkRun, detail| {
            runs::families(run, detail, &|name| instance_type(&nodes, name), &for_history)
        };
        Self { metrics, world, prices, history: Arc::new(History::new(limit, Box::new(render))) }
    }

    /// The page of an operator that does not lead: only its own process.
    pub fn of_process(&self) -> Result<String, MetricsError> {
        Ok(Families::text(&[&usage::families()?]) + &self.metrics.text()?)
    }

    /// The page at `now`, in Prometheus' text format.
    pub fn text(&self, now: Timestamp) -> Result<String, MetricsError> {
        let mut active = self.world.runs.state();
        let mut ended = self.history.shown();
        // Two watches report the end of a run: no run may be on the page twice, and a later run of the
        // same name counts instead of the earlier one.
        active.retain(|run| {
            !ended.iter().any(|one| one.has_name_of(run) && Some(&one.uid) == run.uid().as_ref())
        });
        ended.retain(|one| !active.iter().any(|run| one.has_name_of(run)));
        let states: Vec<_> = ended.iter().map(|run| run.state).collect();
        let (datastores, leases) = (self.world.datastores.state(), self.world.leases.state());
        let overview = overview::families(&states, &active, &datastores, &leases, now);
        let usage = usage::families()?;
        let instance_types = |name: &str| instance_type(&self.world.nodes, name);
        let render = |run| runs::families(run, Detail::Complete, &instance_types, &self.prices);
        let runs: Vec<Families> = active.iter().map(|run| render(run)).collect();
        let suites = overview::suites(&self.world.suites.state());
        let mut parts = vec![&overview, &usage, &suites];
        parts.extend(history::within(&ended, MOST_OF_HISTORY));
        parts.extend(&runs);
        Ok(Families::text(&parts) + &self.metrics.text()?)
    }
}
