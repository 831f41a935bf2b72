//! Counters of the operator's own work.

use prometheus::{
    HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
    TextEncoder, core::Collector,
};
use std::time::Duration;

/// Why metrics could not be set up or written.
#[derive(Debug, thiserror::Error)]
pub enum MetricsError {
    #[error("failed to set up or write metrics")]
    Prometheus(#[from] prometheus::Error),
    #[error("failed to read the resources of the process")]
    Process(#[from] procfs::ProcError),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Done,
    /// It saw an older object than this process wrote, and decided nothing.
    Early,
    /// The object is invalid; the next reconcile follows its change.
    Invalid,
    Failed,
    /// A defect of the operator ended it; it will be retried.
    Panicked,
}

impl Outcome {
    fn label(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Early => "early",
            Self::Invalid => "invalid",
            Self::Failed => "failed",
            Self::Panicked => "panicked",
        }
    }
}

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

fn registered<M: Collector + Clone + 'static>(
    registry: &Registry,
    metric: prometheus::Result<M>,
) -> prometheus::Result<M> {
    let metric = metric?;
    registry.register(Box::new(metric.clone()))?;
    Ok(metric)
}

impl Metrics {
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

    pub fn reconciled(&self, controller: &str, outcome: Outcome, took: Duration) {
        self.reconciles.with_label_values(&[controller, outcome.label()]).observe(took.as_secs_f64());
    }

    /// Counts one request to the API server, and the status code of its response if it had one.
    pub fn requested(&self, method: &str, code: Option<u16>) {
        let class = code.map_or_else(|| "none".to_owned(), |code| format!("{}xx", code / 100));
        self.requests.with_label_values(&[method, &class]).inc();
    }

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

    pub fn text(&self) -> Result<String, MetricsError> {
        Ok(TextEncoder::new().encode_to_string(&self.registry.gather())?)
    }
}
