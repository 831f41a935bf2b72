//! The measurements of one run: itself as one, or each of its repetitions. Pure.

use super::Entry;
use dragstrip_crds::{
    measured::{BatchStatistics, Estimate, LatencySummary, Metric, Spread},
    run::{
        MemoryMoment, MemoryReading, OperationStatus, PhaseStatus, RepetitionStatus, RunPhase, SUM, Verdict,
    },
    thresholds::MetricName,
};
use dragstrip_results::{
    result::{RepetitionResult, TOTAL},
    thresholds::{errors, hit_ratio},
};
use kube::ResourceExt;

/// A figure's name, unit and direction.
#[derive(Debug, Clone, PartialEq)]
pub struct Named {
    pub metric: String,
    pub unit: String,
    pub more_is_better: Option<bool>,
}

impl Named {
    fn known(metric: MetricName) -> Self {
        Self {
            metric: metric.to_string(),
            unit: metric.unit().to_owned(),
            more_is_better: Some(metric.more_is_better()),
        }
    }

    fn of_tool(metric: &Metric) -> Self {
        Self {
            metric: metric.name.clone(),
            unit: metric.unit.clone().unwrap_or_default(),
            more_is_better: None,
        }
    }
}

/// One measurement of one figure.
#[derive(Debug, Clone)]
pub struct Measurement {
    pub phase: String,
    pub operation: String,
    pub named: Named,
    pub run: String,
    pub repetition: u32,
    pub verdict: Option<Verdict>,
    pub value: f64,
    /// How it spread within the run, where that is all that is known of it.
    pub within: Option<Spread>,
}

/// One figure, and how it spread within what it was measured in, where that is known.
struct Figure {
    named: Named,
    value: f64,
    within: Option<Spread>,
}

type Figures = Vec<Figure>;

fn figure(metric: MetricName, value: Option<f64>) -> Option<Figure> {
    value.map(|value| Figure { named: Named::known(metric), value, within: None })
}

fn latencies(latency: &LatencySummary) -> impl Iterator<Item = Figure> {
    let all = [
        (MetricName::MeanMilliseconds, latency.mean),
        (MetricName::P50Milliseconds, latency.p50),
        (MetricName::P90Milliseconds, latency.p90),
        (MetricName::P95Milliseconds, latency.p95),
        (MetricName::P99Milliseconds, latency.p99),
        (MetricName::P999Milliseconds, latency.p999),
        (MetricName::P9999Milliseconds, latency.p9999),
        (MetricName::MaxMilliseconds, latency.max),
    ];
    all.into_iter().filter_map(|(metric, value)| figure(metric, value))
}

/// Timed batches have an interval of their own, over the batches of one measurement.
fn batches(batches: Option<&BatchStatistics>) -> impl Iterator<Item = Figure> {
    let payload =
        Named { metric: "payload".to_owned(), unit: "MiB/s".to_owned(), more_is_better: Some(true) };
    let of = |named: Named, pick: fn(&BatchStatistics) -> Estimate| {
        batches.map(pick).map(|estimate| Figure {
            named,
            value: estimate.mid,
            within: Some(Spread {
                repetitions: 1,
                mean: estimate.mid,
                standard_deviation: None,
                coefficient_of_variation: None,
                confidence95: Some((estimate.high - estimate.low) / 2.0),
            }),
        })
    };
    let all = [
        of(Named::known(MetricName::ElementsPerSecond), |batches| batches.elements_per_second),
        of(Named::known(MetricName::SecondsPerBatch), |batches| batches.seconds_per_batch),
        of(payload, |batches| batches.mebibytes_per_second),
    ];
    all.into_iter().flatten()
}

fn of_tool(metrics: &[Metric]) -> impl Iterator<Item = Figure> {
    metrics.iter().map(|metric| Figure { named: Named::of_tool(metric), value: metric.value, within: None })
}

/// The figures of an operation, of a run and of one repetition alike.
macro_rules! operation_figures {
    ($row:expr, $rate:expr, $within:expr) => {{
        let row = $row;
        let bytes = Some(row.bytes_per_second).filter(|bytes| *bytes > 0.0);
        let rate = figure(MetricName::OperationsPerSecond, Some($rate));
        let known = [
            rate.map(|rate| Figure { within: $within, ..rate }),
            figure(MetricName::BytesPerSecond, bytes),
            figure(MetricName::HitRatio, hit_ratio(row.hits, row.misses)),
            figure(MetricName::Errors, Some(row.errors as f64)),
        ];
        known.into_iter().flatten().chain(latencies(&row.latency_milliseconds)).collect::<Figures>()
    }};
}

fn of_operation(row: &OperationStatus) -> Figures {
    let rate = row.operations_per_second;
    let mut figures = operation_figures!(row, rate.mean, Some(rate));
    let of_errors = |figure: &&mut Figure| figure.named == Named::known(MetricName::Errors);
    figures.iter_mut().filter(of_errors).for_each(|figure| figure.value = errors(row));
    figures
}

/// The memory of all servers together: as thresholds mean it when it had settled, and where
/// it has, right after the load too.
fn of_memory(readings: &[MemoryReading]) -> Vec<Figure> {
    let at = |moment| readings.iter().find(move |one| one.member == SUM && one.moment == moment);
    let (settled, right_after) = (at(MemoryMoment::Settled), at(MemoryMoment::RightAfter));
    let bytes = |value: Option<u64>| value.map(|value| value as f64);
    let mut figures: Vec<Option<Figure>> = Vec::new();
    if let Some(reading) = settled.or(right_after) {
        figures.extend([
            figure(MetricName::ServerUsedBytes, bytes(reading.used_bytes)),
            figure(MetricName::ServerRssBytes, bytes(reading.rss_bytes)),
            figure(MetricName::ServerPeakBytes, bytes(reading.peak_bytes)),
            figure(MetricName::BytesPerKey, reading.bytes_per_key),
            mebibytes("container memory", reading.cgroup_bytes),
            mebibytes("container memory, peak", reading.cgroup_peak_bytes),
        ]);
    }
    if let Some(reading) = right_after.filter(|_| settled.is_some()) {
        figures.extend([
            mebibytes("used right after", reading.used_bytes),
            mebibytes("RSS right after", reading.rss_bytes),
            mebibytes("container memory right after", reading.cgroup_bytes),
        ]);
    }
    figures.into_iter().flatten().collect()
}

fn mebibytes(metric: &str, bytes: Option<u64>) -> Option<Figure> {
    let named = Named { metric: metric.to_owned(), unit: "MiB".to_owned(), more_is_better: Some(false) };
    bytes.map(|bytes| Figure { named, value: bytes as f64 / 1_048_576.0, within: None })
}

fn of_phase(phase: &PhaseStatus) -> Figures {
    let mut memory = of_memory(&phase.memory);
    if let Some(counted) = phase.server_memory.as_ref().filter(|_| memory.is_empty()) {
        memory.extend(mebibytes("container memory", Some(counted.used_bytes)));
        memory.extend(mebibytes("container memory, peak", Some(counted.peak_bytes)));
    }
    let dollars = |whose: &str, value: Option<f64>| {
        let metric = format!("cost per million operations, {whose}");
        let named = Named { metric, unit: "USD".to_owned(), more_is_better: Some(false) };
        value.map(|value| Figure { named, value, within: None })
    };
    let cost = phase.cost_per_million_operations_usd.unwrap_or_default();
    let cost = [dollars("servers", cost.servers), dollars("servers and clients", cost.servers_and_clients)];
    let known = batches(phase.batches.as_ref()).chain(memory);
    known.chain(of_tool(&phase.metrics)).chain(cost.into_iter().flatten()).collect()
}

fn ended_badly(phase: RunPhase) -> bool {
    matches!(phase, RunPhase::Failed | RunPhase::Cancelled)
}

/// Invalid where the whole run is, whatever its parts are.
fn judged(entry: &Entry, part: Option<Verdict>) -> Option<Verdict> {
    let status = entry.run.status.as_ref();
    let run = status.and_then(|status| status.verdict);
    let failed = status.is_some_and(|status| run.is_none() && ended_badly(status.phase));
    if failed || run == Some(Verdict::Invalid) { Some(Verdict::Invalid) } else { part }
}

struct Collector<'a> {
    entry: &'a Entry,
    found: Vec<Measurement>,
}

impl Collector<'_> {
    fn add(
        &mut self,
        phase: &str,
        operation: &str,
        repetition: u32,
        verdict: Option<Verdict>,
        figures: Figures,
    ) {
        let verdict = judged(self.entry, verdict);
        let run = self.entry.run.name_any();
        let measured = figures.into_iter().filter(|figure| figure.value.is_finite());
        self.found.extend(measured.map(|figure| Measurement {
            phase: phase.to_owned(),
            operation: operation.to_owned(),
            named: figure.named,
            run: run.clone(),
            repetition,
            verdict,
            value: figure.value,
            within: figure.within,
        }));
    }

    fn has(&self, phase: &str, operation: &str, metric: &str) -> bool {
        let same = |one: &Measurement| {
            one.phase == phase && one.operation == operation && one.named.metric == metric
        };
        self.found.iter().any(same)
    }
}

fn phases(entry: &Entry) -> &[PhaseStatus] {
    entry.run.status.as_ref().map_or(&[], |status| &status.phases)
}

/// The run as one measurement of everything that its status has.
pub fn of_run(entry: &Entry) -> Vec<Measurement> {
    if !entry.run.status.as_ref().is_some_and(|status| status.phase.finished()) {
        return Vec::new();
    }
    let mut all = Collector { entry, found: Vec::new() };
    for phase in phases(entry) {
        for row in &phase.operations {
            all.add(&phase.name, &row.operation, entry.repetition, phase.verdict, of_operation(row));
        }
        all.add(&phase.name, TOTAL, entry.repetition, phase.verdict, of_phase(phase));
    }
    // How repetitions within one run spread is not how runs do.
    all.found.iter_mut().for_each(|one| one.within = None);
    all.found
}

fn of_result(all: &mut Collector<'_>, result: &RepetitionResult) {
    let verdict = if result.failure.is_some() { Some(Verdict::Invalid) } else { result.verdict };
    let (phase, repetition) = (&result.phase, result.repetition);
    for row in &result.operations {
        let figures = operation_figures!(row, row.operations_per_second, None);
        all.add(phase, &row.operation, repetition, verdict, figures);
    }
    let of_phase =
        batches(result.batches.as_ref()).chain(of_memory(&result.memory)).chain(of_tool(&result.metrics));
    all.add(phase, TOTAL, repetition, verdict, of_phase.collect());
}

/// What the status alone tells of single repetitions: figures of all operations together,
/// which are those of the only one.
fn of_repetition(all: &mut Collector<'_>, phase: &PhaseStatus, row: &RepetitionStatus) {
    let figures = || -> Figures {
        let known = [
            figure(MetricName::OperationsPerSecond, row.operations_per_second),
            figure(MetricName::P99Milliseconds, row.p99_milliseconds),
            figure(MetricName::HitRatio, row.hit_ratio),
        ];
        known.into_iter().flatten().collect()
    };
    let only = phase.operations.len() <= 2;
    let means = |operation: &&OperationStatus| only || operation.operation == TOTAL;
    for operation in phase.operations.iter().filter(means) {
        all.add(&phase.name, &operation.operation, row.repetition, row.verdict, figures());
    }
}

/// Each repetition as a measurement; what is known of the run as a whole alone is one.
pub fn of_repetitions(entry: &Entry) -> Vec<Measurement> {
    let mut all = Collector { entry, found: Vec::new() };
    let mut results: Vec<&RepetitionResult> =
        entry.results.iter().filter(|result| result.point.is_none()).collect();
    results.sort_by_key(|result| result.repetition);
    for result in &results {
        of_result(&mut all, result);
    }
    for phase in phases(entry) {
        if !results.iter().any(|result| result.phase == phase.name) {
            phase.repetitions.iter().for_each(|row| of_repetition(&mut all, phase, row));
        }
        let mut rest = Collector { entry, found: Vec::new() };
        for row in &phase.operations {
            rest.add(&phase.name, &row.operation, 1, phase.verdict, of_operation(row));
        }
        rest.add(&phase.name, TOTAL, 1, phase.verdict, of_phase(phase));
        let unknown = |one: &Measurement| !all.has(&one.phase, &one.operation, &one.named.metric);
        let unknown: Vec<Measurement> = rest.found.into_iter().filter(unknown).collect();
        all.found.extend(unknown);
    }
    all.found
}
