//! What sample documents are made of.

use dragstrip_crds::{
    measured::{Estimate, Spread},
    run::{Disturbance, Interval, Verdict, VerdictReason},
    suite::ComparisonVerdict,
};
use dragstrip_report::document::{AxisHead, Cell, Comparison, Curve, PhaseReason, Row, Sample, Timeline};
use dragstrip_results::{latency_series::PercentileSeries, statistics::spread};
use std::collections::BTreeMap;

/// Chance that is the same every time, from -1 to 1.
pub struct Chance(pub u64);

impl Chance {
    /// The next one.
    pub fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as f64) / f64::from(1_u32 << 30) - 1.0
    }
}

/// An axis.
pub fn axis(name: &str, values: &[&str]) -> AxisHead {
    AxisHead { name: name.to_owned(), values: values.iter().map(|value| (*value).to_owned()).collect() }
}

/// What a run of a combination did in a phase.
pub struct Measured {
    pub run: String,
    pub repetition: u32,
    pub cell: Cell,
    pub phase: &'static str,
    pub operation: &'static str,
    pub operations: f64,
    pub median: f64,
    pub verdict: Verdict,
}

const METRICS: [(&str, &str, bool, f64); 8] = [
    ("OperationsPerSecond", "ops/s", true, 0.0),
    ("BytesPerSecond", "B/s", true, 0.0),
    ("MeanMilliseconds", "ms", false, 1.08),
    ("P50Milliseconds", "ms", false, 1.0),
    ("P90Milliseconds", "ms", false, 1.45),
    ("P99Milliseconds", "ms", false, 2.6),
    ("P999Milliseconds", "ms", false, 6.2),
    ("MaxMilliseconds", "ms", false, 31.0),
];

fn value_of(measured: &Measured, metric: &str, factor: f64) -> f64 {
    match metric {
        "OperationsPerSecond" => measured.operations,
        "BytesPerSecond" => measured.operations * 310.0,
        _ => measured.median * factor,
    }
}

/// A row for each combination, phase, operation and figure.
pub fn rows(measured: &[Measured]) -> Vec<Row> {
    let mut groups: Vec<Vec<&Measured>> = Vec::new();
    for one in measured {
        let same = |group: &Vec<&Measured>| {
            group[0].cell == one.cell && group[0].phase == one.phase && group[0].operation == one.operation
        };
        match groups.iter_mut().find(|group| same(group)) {
            Some(group) => group.push(one),
            None => groups.push(vec![one]),
        }
    }
    groups.iter().flat_map(|group| METRICS.iter().map(|metric| row(group, *metric))).collect()
}

fn row(group: &[&Measured], (metric, unit, more_is_better, factor): (&str, &str, bool, f64)) -> Row {
    let samples: Vec<Sample> = group
        .iter()
        .map(|one| Sample {
            run: one.run.clone(),
            repetition: one.repetition,
            server: Some(one.run.clone()),
            value: value_of(one, metric, factor),
            verdict: Some(one.verdict),
            outlier: false,
        })
        .collect();
    let valid: Vec<f64> = samples
        .iter()
        .filter(|sample| sample.verdict != Some(Verdict::Invalid))
        .map(|sample| sample.value)
        .collect();
    Row {
        cell: group[0].cell.clone(),
        phase: group[0].phase.to_owned(),
        operation: group[0].operation.to_owned(),
        metric: metric.to_owned(),
        unit: unit.to_owned(),
        more_is_better: Some(more_is_better),
        verdict: samples.iter().filter_map(|sample| sample.verdict).max(),
        spread: spread(&valid),
        samples,
        ..Row::default()
    }
}

/// Puts each row beside the baseline variant's.
pub fn compare(rows: &mut [Row], variant: &str) {
    let baselines: Vec<Row> = rows.iter().filter(|row| row.cell.variant == variant).cloned().collect();
    for row in rows.iter_mut().filter(|row| row.cell.variant != variant) {
        let same = |base: &&Row| {
            base.cell.values == row.cell.values
                && (&base.phase, &base.operation, &base.metric) == (&row.phase, &row.operation, &row.metric)
        };
        let Some((base, here)) = baselines.iter().find(same).and_then(|base| base.spread).zip(row.spread)
        else {
            continue;
        };
        row.comparison = Some(comparison(row, here, base));
    }
}

/// Puts each row beside what somebody else is made up to have measured: more or less of it, or
/// under other conditions.
pub fn compare_with_others(rows: &mut [Row]) {
    for (place, row) in rows.iter_mut().enumerate() {
        let Some(here) = row.spread else { continue };
        let factor = [0.7, 0.9, 1.0, 1.1, 1.6][place / 8 % 5];
        let found = comparison(row, here, Spread { mean: here.mean * factor, ..here });
        let other = place / 8 % 7 == 6;
        let verdict = if other { ComparisonVerdict::NotComparable } else { found.verdict };
        row.comparison = Some(Comparison { verdict, ..found });
    }
}

fn comparison(row: &Row, here: Spread, base: Spread) -> Comparison {
    let ratio = here.mean / base.mean;
    let half =
        ratio * (here.confidence95.unwrap_or(0.0) / here.mean + base.confidence95.unwrap_or(0.0) / base.mean);
    let (low, high) = (ratio - half, ratio + half);
    let more = row.more_is_better != Some(false);
    let verdict = match () {
        () if low > 1.01 => {
            if more {
                ComparisonVerdict::Better
            } else {
                ComparisonVerdict::Worse
            }
        }
        () if high < 0.99 => {
            if more {
                ComparisonVerdict::Worse
            } else {
                ComparisonVerdict::Better
            }
        }
        () if low > 0.9 && high < 1.1 => ComparisonVerdict::Same,
        () => ComparisonVerdict::Unclear,
    };
    Comparison {
        baseline: base.mean,
        baseline_samples: base.repetitions,
        ratio: Estimate { low, mid: ratio, high },
        difference: Estimate { low: 0.0, mid: here.mean - base.mean, high: 0.0 },
        interval_known: true,
        detectable: Some(0.02),
        margin: 0.01,
        chance: Some(0.003),
        holds_among_all: matches!(verdict, ComparisonVerdict::Better | ComparisonVerdict::Worse)
            .then_some(true),
        verdict,
        reason: format!(
            "The interval of the ratio is {low:.2} to {high:.2}; these nodes differ by 1 % from run to run."
        ),
    }
}

/// Latency by percentile around a median in milliseconds.
pub fn curve(phase: &str, operation: &str, median: f64, chance: &mut Chance) -> Curve {
    let heavy = 0.11 + 0.05 * chance.next();
    let points = (0..60).map(|step| {
        let nines = f64::from(step) / 13.0;
        let percentile = 100.0 - 100.0 / 10_f64.powf(nines);
        let tail = 0.75 + 0.25 * nines + heavy * nines.powi(3);
        (percentile, (median * tail * (1.0 + 0.01 * chance.next())).max(0.01))
    });
    Curve { phase: phase.to_owned(), operation: operation.to_owned(), points: points.collect() }
}

/// The finding of a timeline that dips.
pub const DIP: &str = "throughput was 55 % lower from 22 s to 26 s of 60 s than in the rest (limit 10 %): warm up longer, or look for what changed";

/// Throughput around its mean; it may dip for four seconds.
pub fn timeline(phase: &str, operations: f64, seconds: u32, dip: bool, chance: &mut Chance) -> Timeline {
    let second = |second: u32| {
        let dipped = if dip && (22..26).contains(&second) { 0.45 } else { 1.0 };
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let operations = (operations * dipped * (1.0 + 0.025 * chance.next())) as u64;
        operations
    };
    let operations = (0..seconds).map(second).collect();
    let dip = dip.then(|| VerdictReason {
        reason: "NotSteady".to_owned(),
        verdict: Verdict::Degraded,
        message: DIP.to_owned(),
        intervals: vec![Interval { disturbance: Disturbance::OtherLevel, from_second: 22, to_second: 26 }],
    });
    let p99 = dip.is_some().then(|| {
        let milliseconds = (0..seconds).map(|second| match second {
            24 => None,
            22..26 => Some(7.3 + 0.4 * chance.next()),
            _ => Some(1.3 + 0.05 * chance.next()),
        });
        PercentileSeries { seconds: 1, milliseconds: milliseconds.collect() }
    });
    let findings = dip.into_iter().collect();
    Timeline { phase: phase.to_owned(), repetition: 1, operations, p99, hits: None, findings }
}

/// Under what conditions a variant was measured.
pub fn provenance(variant: &str, node: usize) -> BTreeMap<String, String> {
    let facts = [
        ("client.image", "redislabs/memtier_benchmark@sha256:7b3c52d4d0c1f1a3b9c2".to_owned()),
        ("client.node", "ip-10-0-1-31.eu-central-1.compute.internal".to_owned()),
        ("client.cpuModel", "Intel(R) Xeon(R) Platinum 8375C CPU @ 2.90GHz, 64 CPUs".to_owned()),
        ("server.image", format!("{variant}@sha256:{:064x}", variant.bytes().map(u64::from).sum::<u64>() * 0x0100_0000_01b3)),
        ("server.version", variant.rsplit('-').next().unwrap_or_default().to_owned()),
        ("server.kernel", "6.1.102-111.182.amzn2023.x86_64".to_owned()),
        ("server.cpuModel", "Intel(R) Xeon(R) Platinum 8375C CPU @ 2.90GHz, 16 CPUs".to_owned()),
        ("server.node", format!("ip-10-0-1-{node}.eu-central-1.compute.internal")),
        ("placement.zone", "eu-central-1a".to_owned()),
        ("placement.group", "dragstrip-cluster".to_owned()),
        ("run.specHash", format!("{:016x}", 0x9e37_79b9_7f4a_u64 * variant.bytes().map(u64::from).sum::<u64>())),
        ("memtier.commandLine", "memtier_benchmark --threads=8 --clients=50 --test-time=60 --ratio=1:0 --data-size=256 --hide-histogram".to_owned()),
    ];
    facts.into_iter().map(|(fact, value)| (fact.to_owned(), value)).collect()
}

/// Why a phase is not Valid.
pub fn reason(phase: &str, name: &str, verdict: Verdict, message: &str) -> PhaseReason {
    let (reason, message) = (name.to_owned(), message.to_owned());
    let reason = VerdictReason { reason, verdict, message, intervals: Vec::new() };
    PhaseReason { phase: phase.to_owned(), reason }
}

/// When the run of a place in the order started.
pub fn started(minute: u32) -> Option<jiff::Timestamp> {
    jiff::Timestamp::from_second(1_763_800_000 + i64::from(minute) * 150).ok()
}
