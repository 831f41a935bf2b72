//! Metrics of the operator's own work, and their text form.

use prometheus::{
    HistogramOpts, HistogramVec, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry, TextEncoder,
};
use std::time::Duration;

/// Why metrics could not be set up or written.
#[derive(Debug, thiserror::Error)]
pub enum MetricsError {
    /// Registering or encoding failed.
    #[error("failed to set up or write metrics")]
    Prometheus(#[from] prometheus::Error),
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
    timeline_samples: IntCounterVec,
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
                "Requests to the apiserver by HTTP method, watches included.",
            ),
            &["method"],
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
        let timeline_samples = IntCounterVec::new(
            Opts::new(
                "dragstrip_remote_write_samples_total",
                "Samples of timelines that were answered for, by outcome: sent, repeated (there before) or dropped.",
            ),
            &["outcome"],
        )?;
        registry.register(Box::new(timeline_samples.clone()))?;
        Ok(Self { registry, reconciles, requests, in_flight, undecodable, timeline_samples })
    }

    /// Records one pass.
    pub fn reconciled(&self, controller: &str, outcome: Outcome, took: Duration) {
        self.reconciles.with_label_values(&[controller, outcome.label()]).observe(took.as_secs_f64());
    }

    /// Counts one request to the apiserver.
    pub fn requested(&self, method: &str) {
        self.requests.with_label_values(&[method]).inc();
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

    /// So many samples of a timeline had this outcome of remote write.
    pub fn timeline_samples(&self, outcome: &str, count: usize) {
        let count = u64::try_from(count).unwrap_or(u64::MAX);
        self.timeline_samples.with_label_values(&[outcome]).inc_by(count);
    }

    /// All metrics in Prometheus' text format.
    pub fn text(&self) -> Result<String, MetricsError> {
        Ok(TextEncoder::new().encode_to_string(&self.registry.gather())?)
    }
}
