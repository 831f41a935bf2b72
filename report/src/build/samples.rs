//! The measurements of one run: the complete run, or each of its repetitions. Pure.

use crate::{
    figures::{CACHE, MEMBER, SERVER_CPUS},
    input::Entry,
};
use dragstrip_crds::{
    measured::{BatchStatistics, Estimate, LatencySummary, Metric, Spread},
    run::{
        MemoryMoment, MemoryReading, OperationStatus, PhaseStatus, RepetitionStatus, RunPhase, SUM,
        TOOL_RATE, Verdict,
    },
    thresholds::MetricName,
};
use dragstrip_results::{
    hit_series::HitSeries,
    result::{FILL, RepetitionResult, TOTAL},
    statistics,
    thresholds::{errors, hit_ratio},
};
use kube::ResourceExt;

/// One figure, and the spread within what it was measured in.
#[derive(Debug, Clone)]
pub struct Figure {
    pub metric: String,
    pub unit: String,
    pub more_is_better: Option<bool>,
    pub value: f64,
    pub within: Option<Spread>,
}

#[derive(Debug, Clone)]
pub struct Measurement {
    pub phase: String,
    pub operation: String,
    pub run: String,
    pub repetition: u32,
    pub server: Option<String>,
    pub verdict: Option<Verdict>,
    pub figure: Figure,
}

type Figures = Vec<Figure>;

/// The tool whose own rate is another one than its count over the window.
const MEMTIER: &str = "memtier";
/// The most members of which each has its own figures of memory.
const FEW_MEMBERS: usize = 9;

fn figure(metric: MetricName, value: Option<f64>) -> Option<Figure> {
    other(&metric.to_string(), metric.unit(), Some(metric.more_is_better()), value)
}

fn other(metric: &str, unit: &str, more_is_better: Option<bool>, value: Option<f64>) -> Option<Figure> {
    let (metric, unit) = (metric.to_owned(), unit.to_owned());
    value.map(|value| Figure { metric, unit, more_is_better, value, within: None })
}

fn mebibytes(metric: &str, bytes: Option<u64>) -> Option<Figure> {
    other(metric, "MiB", Some(false), bytes.map(|bytes| bytes as f64 / 1_048_576.0))
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
fn of_batches(batches: &BatchStatistics) -> impl Iterator<Item = Figure> {
    let of = |found: Option<Figure>, estimate: Estimate| {
        let within = Spread {
            repetitions: 1,
            mean: estimate.mid,
            standard_deviation: None,
            coefficient_of_variation: None,
            confidence95: Some((estimate.high - estimate.low) / 2.0),
        };
        found.map(|figure| Figure { within: Some(within), ..figure })
    };
    let (items, seconds) = (batches.elements_per_second, batches.seconds_per_batch);
    let payload = batches.mebibytes_per_second;
    let all = [
        of(figure(MetricName::ElementsPerSecond, Some(items.mid)), items),
        of(figure(MetricName::SecondsPerBatch, Some(seconds.mid)), seconds),
        of(other("payload", "MiB/s", Some(true), Some(payload.mid)), payload),
    ];
    all.into_iter().flatten()
}

fn of_tool(metrics: &[Metric]) -> impl Iterator<Item = Figure> {
    let unit = |metric: &Metric| metric.unit.clone().unwrap_or_default();
    metrics.iter().filter_map(move |metric| {
        other(&metric.name, &unit(metric), metric.more_is_better, Some(metric.value))
    })
}

/// The figures of an operation, of a run and of one repetition alike.
macro_rules! operation_figures {
    ($row:expr, $tool:expr, $rate:expr, $bytes:expr, $within:expr, $errors:expr) => {{
        let row = $row;
        let bytes = Some($bytes).filter(|bytes| *bytes > 0.0);
        let rate = figure(MetricName::OperationsPerSecond, $rate);
        let figures = [
            rate.map(|rate| Figure { within: $within, ..rate }),
            other(
                TOOL_RATE,
                "ops/s",
                Some(true),
                row.tool_operations_per_second.filter(|_| $tool == MEMTIER),
            ),
            figure(MetricName::BytesPerSecond, bytes),
            figure(MetricName::HitRatio, hit_ratio(row.hits, row.misses)),
            figure(MetricName::Errors, Some($errors)),
        ];
        figures.into_iter().flatten().chain(latencies(&row.latency_milliseconds)).collect::<Figures>()
    }};
}

/// The memory of all servers together: after the settle time, and then also right after the load.
fn of_memory(readings: &[MemoryReading]) -> Figures {
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
    let moment = if settled.is_some() { MemoryMoment::Settled } else { MemoryMoment::RightAfter };
    figures.into_iter().flatten().chain(of_members(readings, moment)).collect()
}

/// The memory of each of several servers, in the order in which the target lists them.
fn of_members(readings: &[MemoryReading], moment: MemoryMoment) -> Figures {
    let members: Vec<_> = readings.iter().filter(|one| one.member != SUM && one.moment == moment).collect();
    let figures = (1..).zip(&members).flat_map(|(number, one)| {
        let named = |what: &str, bytes| mebibytes(&format!("{MEMBER}{number} {what}"), bytes);
        [named("RSS", one.rss_bytes), named("peak", one.peak_bytes)]
    });
    let several = (2..=FEW_MEMBERS).contains(&members.len());
    figures.flatten().filter(|_| several).collect()
}

/// How a cache did whose reads missed.
fn of_cache(warm_hit_ratio: Option<f64>, evictions_per_second: Option<f64>) -> impl Iterator<Item = Figure> {
    let [warm, evictions] = CACHE;
    let evictions = other(evictions, "/s", None, evictions_per_second.filter(|_| warm_hit_ratio.is_some()));
    [other(warm, "", Some(true), warm_hit_ratio), evictions].into_iter().flatten()
}

fn mean(values: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    let known: Vec<f64> = values.flatten().collect();
    (!known.is_empty()).then(|| statistics::mean(&known))
}

fn of_phase(phase: &PhaseStatus) -> Figures {
    let mut memory = of_memory(&phase.memory);
    if let Some(counted) = phase.server_memory.as_ref().filter(|_| memory.is_empty()) {
        memory.extend(mebibytes("container memory", Some(counted.used_bytes)));
        memory.extend(mebibytes("container memory, peak", Some(counted.peak_bytes)));
    }
    let cost = phase.cost_per_million_operations_usd.unwrap_or_default();
    let dollars = |whose: &str, value: Option<f64>| {
        other(&format!("cost per million operations, {whose}"), "USD", Some(false), value)
    };
    let cost = [dollars("servers", cost.servers), dollars("servers and clients", cost.servers_and_clients)];
    let work = of_work(phase.operations_per_core_second, phase.server_cpus);
    let batches = work.chain(phase.batches.iter().flat_map(of_batches));
    let over = |pick: fn(&RepetitionStatus) -> Option<f64>| mean(phase.repetitions.iter().map(pick));
    let cache = of_cache(over(|row| row.warm_hit_ratio), over(|row| row.evictions_per_second));
    let own = of_tool(&phase.metrics).chain(cost.into_iter().flatten());
    batches.chain(memory).chain(cache).chain(own).collect()
}

/// What the servers did with their CPUs, and how many they used.
fn of_work(per_core_second: Option<f64>, cpus: Option<f64>) -> impl Iterator<Item = Figure> {
    let work = figure(MetricName::OperationsPerCoreSecond, per_core_second);
    work.into_iter().chain(other(SERVER_CPUS, "CPUs", None, cpus))
}

struct Collector<'a> {
    entry: &'a Entry,
    measurements: Vec<Measurement>,
}

impl<'a> Collector<'a> {
    fn new(entry: &'a Entry) -> Self {
        Self { entry, measurements: Vec::new() }
    }

    fn phases(&self) -> &'a [PhaseStatus] {
        self.entry.run.status.as_ref().map_or(&[], |status| &status.phases)
    }

    /// Every part of an Invalid run is Invalid, but not what was measured before a run was cancelled.
    fn verdict(&self, part: Option<Verdict>) -> Option<Verdict> {
        let invalid = self.entry.run.status.as_ref().is_some_and(|status| match status.phase {
            RunPhase::Cancelled => false,
            RunPhase::Failed => status.verdict.is_none_or(|verdict| verdict == Verdict::Invalid),
            _ => status.verdict == Some(Verdict::Invalid),
        });
        if invalid { Some(Verdict::Invalid) } else { part }
    }

    fn add(
        &mut self,
        phase: &str,
        operation: &str,
        repetition: u32,
        verdict: Option<Verdict>,
        figures: Figures,
    ) {
        let verdict = self.verdict(verdict);
        let run = self.entry.run.name_any();
        let target = self.entry.run.status.as_ref().and_then(|status| status.target.as_ref());
        let server = target.and_then(|target| target.identity.clone());
        // A cache that misses more writes more after misses: that is neither better nor worse.
        let fills = [MetricName::OperationsPerSecond, MetricName::BytesPerSecond].map(|it| it.to_string());
        let directed = |figure: Figure| {
            let directionless = operation == FILL && fills.contains(&figure.metric);
            let more_is_better = figure.more_is_better.filter(|_| !directionless);
            Figure { more_is_better, ..figure }
        };
        let measured = figures.into_iter().filter(|figure| figure.value.is_finite()).map(directed);
        self.measurements.extend(measured.map(|figure| Measurement {
            phase: phase.to_owned(),
            operation: operation.to_owned(),
            run: run.clone(),
            repetition,
            server: server.clone(),
            verdict,
            figure,
        }));
    }

    fn add_phase(&mut self, phase: &PhaseStatus, repetition: u32) {
        for row in &phase.operations {
            let rate = row.operations_per_second;
            let figures = operation_figures!(
                row,
                phase.tool.name,
                Some(rate.mean),
                row.bytes_per_second,
                Some(rate),
                errors(row)
            );
            self.add(&phase.name, &row.operation, repetition, phase.verdict, figures);
        }
        self.add(&phase.name, TOTAL, repetition, phase.verdict, of_phase(phase));
    }

    fn add_result(&mut self, result: &RepetitionResult) {
        let verdict = if result.failure.is_some() { Some(Verdict::Invalid) } else { result.verdict };
        let (phase, repetition) = (&result.phase, result.repetition);
        let tool = result.pods.first().map_or("", |pod| pod.tool.name.as_str());
        for row in &result.operations {
            let (rate, bytes) = (row.operations_per_second, row.bytes_per_second());
            let figures = operation_figures!(row, tool, rate, bytes, None, row.errors as f64);
            self.add(phase, &row.name, repetition, verdict, figures);
        }
        let work = of_work(result.operations_per_core_second(), result.server_cpus());
        let batches = work.chain(result.batches.iter().flat_map(of_batches));
        let warm = result.hit_series.as_ref().and_then(HitSeries::warm_ratio);
        let cache = of_cache(warm, result.evictions_per_second);
        let figures = batches.chain(of_memory(&result.memory)).chain(cache).chain(of_tool(&result.metrics));
        self.add(phase, TOTAL, repetition, verdict, figures.collect());
    }

    /// What the status has of a repetition: figures of the total, or of the single operation.
    fn add_repetition(&mut self, phase: &PhaseStatus, row: &RepetitionStatus) {
        let single = phase.operations.len() <= 2;
        let is_total = |operation: &&OperationStatus| single || operation.operation == TOTAL;
        for operation in phase.operations.iter().filter(is_total) {
            let figures = [
                figure(MetricName::OperationsPerSecond, row.operations_per_second),
                figure(MetricName::P99Milliseconds, row.p99_milliseconds),
                figure(MetricName::HitRatio, row.hit_ratio),
            ];
            let figures = figures.into_iter().flatten().collect();
            self.add(&phase.name, &operation.operation, row.repetition, row.verdict, figures);
        }
    }

    fn has(&self, one: &Measurement) -> bool {
        self.measurements.iter().any(|other| {
            (&other.phase, &other.operation, &other.figure.metric)
                == (&one.phase, &one.operation, &one.figure.metric)
        })
    }
}

pub fn of_run(entry: &Entry) -> Vec<Measurement> {
    let mut all = Collector::new(entry);
    if entry.run.status.as_ref().is_some_and(|status| status.phase.finished()) {
        all.phases().iter().for_each(|phase| all.add_phase(phase, entry.repetition));
    }
    // The spread of repetitions within one run is not the spread of runs.
    all.measurements.iter_mut().for_each(|one| one.figure.within = None);
    all.measurements
}

/// Each repetition as a measurement; a figure that only the complete run has is a single one.
pub fn of_repetitions(entry: &Entry) -> Vec<Measurement> {
    let mut all = Collector::new(entry);
    let results = entry.measured();
    for result in &results {
        all.add_result(result);
    }
    for phase in all.phases() {
        if !results.iter().any(|result| result.phase == phase.name) {
            phase.repetitions.iter().for_each(|row| all.add_repetition(phase, row));
        }
        let mut run = Collector::new(entry);
        run.add_phase(phase, 1);
        let (_, others) = run.measurements.into_iter().partition::<Vec<_>, _>(|one| all.has(one));
        all.measurements.extend(others);
    }
    all.measurements
}
