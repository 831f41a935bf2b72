//! Metrics: of the operator's own work, and of the runs that it knows.

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
use dragstrip_core::nodes;
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
    TextEncoder,
};
use std::{collections::HashMap, sync::Arc, time::Duration};

/// Why metrics could not be set up or written.
#[derive(Debug, thiserror::Error)]
pub enum MetricsError {
    /// Registering or encoding failed.
    #[error("failed to set up or write metrics")]
    Prometheus(#[from] prometheus::Error),
    /// The process could not be looked at.
    #[error("failed to read what the process uses")]
    Process(#[from] usage::ProcError),
}

/// How a reconcile ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It did what there was to do.
    Done,
    /// The object is invalid; nothing is retried until it changes.
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

/// A request to the apiserver that is not answered yet.
pub struct InFlight(IntGauge);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl Metrics {
    /// Registers everything.
    pub fn new() -> Result<Self, MetricsError> {
        let registry = Registry::new();
        let reconciles = HistogramVec::new(
            HistogramOpts::new(
                "dragstrip_reconcile_duration_seconds",
                "Duration of reconciles by controller and outcome.",
            )
            // A pass costs a few API calls of some milliseconds each; seconds mean a struggling apiserver.
            .buckets(vec![0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0]),
            &["controller", "outcome"],
        )?;
        registry.register(Box::new(reconciles.clone()))?;
        let requests = IntCounterVec::new(
            Opts::new(
                "dragstrip_api_requests_total",
                "Answered requests to the apiserver, watches included, by HTTP method and class of status code; code none without an answer.",
            ),
            &["method", "code"],
        )?;
        registry.register(Box::new(requests.clone()))?;
        let in_flight = IntGauge::new(
            "dragstrip_api_requests_in_flight",
            "Requests to the apiserver that are not answered yet.",
        )?;
        registry.register(Box::new(in_flight.clone()))?;
        let undecodable = IntGaugeVec::new(
            Opts::new(
                "dragstrip_undecodable_objects",
                "Objects that this version cannot read and leaves alone, by kind.",
            ),
            &["kind"],
        )?;
        registry.register(Box::new(undecodable.clone()))?;
        let results_lost = IntCounter::new(
            "dragstrip_results_lost_total",
            "Measurements whose result was lost with a client pod or its node.",
        )?;
        registry.register(Box::new(results_lost.clone()))?;
        Ok(Self { registry, reconciles, requests, in_flight, undecodable, results_lost })
    }

    /// Records one pass.
    pub fn reconciled(&self, controller: &str, outcome: Outcome, took: Duration) {
        self.reconciles.with_label_values(&[controller, outcome.label()]).observe(took.as_secs_f64());
    }

    /// Counts one request to the apiserver, and the status code of its answer if it had one.
    pub fn requested(&self, method: &str, code: Option<u16>) {
        let class = code.map_or_else(|| "none".to_owned(), |code| format!("{}xx", code / 100));
        self.requests.with_label_values(&[method, &class]).inc();
    }

    /// Counts a measurement whose result was lost.
    pub fn result_lost(&self) {
        self.results_lost.inc();
    }

    /// Counts a request as under way until the answer is dropped.
    pub fn in_flight(&self) -> InFlight {
        self.in_flight.inc();
        InFlight(self.in_flight.clone())
    }

    /// So many objects of a kind cannot be decoded.
    pub fn undecodable(&self, kind: &str, count: usize) {
        self.undecodable.with_label_values(&[kind]).set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// These metrics in Prometheus' text format.
    pub(crate) fn text(&self) -> Result<String, MetricsError> {
        Ok(TextEncoder::new().encode_to_string(&self.registry.gather())?)
    }
}

/// Most bytes that tell of runs that have ended, of which most scrapes bring nothing new;
/// with runs under way and all else the page stays below 2 MiB.
const MOST_OF_HISTORY: usize = 1_800_000;

/// Looks an instance type up in what is known of nodes.
fn instance_type(known: &Store<Node>, name: &str) -> Option<String> {
    nodes::facts(&*known.get(&ObjectRef::new(name))?).instance_type
}

/// Everything that the operator tells Prometheus.
#[derive(Clone)]
pub struct Page {
    metrics: Metrics,
    world: World,
    prices: Arc<Prices>,
    /// The runs that ended last.
    pub history: Arc<History>,
}

impl Page {
    /// Of the operator's own `metrics`, of what is in the `world`, and of the `most` runs
    /// that ended last.
    pub fn new(metrics: Metrics, world: World, prices: Prices, most: usize) -> Self {
        let prices = Arc::new(prices);
        let (known, for_history) = (world.nodes.clone(), prices.clone());
        let render = move |run: &BenchmarkRun, detail| {
            runs::families(run, detail, &|name| instance_type(&known, name), &for_history)
        };
        Self { metrics, world, prices, history: Arc::new(History::new(most, Box::new(render))) }
    }

    /// What an operator tells that does no work: of its own process alone.
    pub fn of_process(&self) -> Result<String, MetricsError> {
        Ok(Families::text(&[&usage::families()?]) + &self.metrics.text()?)
    }

    /// The page at `now`, in Prometheus' text format.
    pub fn text(&self, now: Timestamp) -> Result<String, MetricsError> {
        let mut under_way = self.world.runs.state();
        let mut ended = self.history.shown();
        // A run's end is told by two watches: no run may be there twice, and a later run of
        // the same name is the one that is meant.
        let known: HashMap<_, _> =
            ended.iter().map(|run| ((run.namespace.clone(), run.name.clone()), run.uid.clone())).collect();
        under_way.retain(|run| {
            known.get(&(run.namespace().unwrap_or_default(), run.name_any())) != run.uid().as_ref()
        });
        ended.retain(|ended| {
            !under_way
                .iter()
                .any(|run| run.name_any() == ended.name && run.namespace().as_ref() == Some(&ended.namespace))
        });
        let states: Vec<_> = ended.iter().map(|run| run.state).collect();
        let (datastores, leases) = (self.world.datastores.state(), self.world.leases.state());
        let overview = overview::families(&states, &under_way, &datastores, &leases, now);
        let usage = usage::families()?;
        let known = |name: &str| instance_type(&self.world.nodes, name);
        let runs: Vec<Families> =
            under_way.iter().map(|run| runs::families(run, Detail::Whole, &known, &self.prices)).collect();
        let suites = overview::suites(&self.world.suites.state());
        let mut parts = vec![&overview, &usage, &suites];
        parts.extend(history::within(&ended, MOST_OF_HISTORY));
        parts.extend(&runs);
        Ok(Families::text(&parts) + &self.metrics.text()?)
    }
}
