//! Documents as suites and runs give them, made up: the same every time.

mod measured;

use dragstrip_crds::{
    run::{LimitedBy, Limiter, RunPhase, Verdict},
    thresholds::{ClaimState, MetricName, ThresholdStatus},
};
use dragstrip_report::document::{
    BaselineHead, Cell, Difference, Document, PhaseLimit, Row, RunRecord, Sample, VariantHead,
};
use dragstrip_results::statistics::spread;
use measured::{
    Chance, DIP, Measured, axis, compare, compare_with_others, curve, provenance, reason, rows, started,
    timeline,
};
use serde_json::json;

/// Text that a page must show and never run.
pub const HOSTILE: &str = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'&";

/// Every sample by the name of its page.
pub fn all() -> Vec<(&'static str, Document)> {
    vec![
        ("suite", suite()),
        ("matrix", matrix()),
        ("search", search()),
        ("memory", memory()),
        ("local", local()),
        ("hostile", hostile()),
        ("large", large()),
        ("empty", Document { title: "nothing yet".to_owned(), ..Document::default() }),
    ]
}

/// Four servers, one and two threads, pipelines of 1 and 10, three repetitions: 48 runs, of
/// which one is Invalid, two Degraded and one failed.
pub fn suite() -> Document {
    let servers = [("redis-6.2", 1.0), ("redis-7.0", 1.04), ("redis-8.0", 1.22), ("valkey-8", 1.37)];
    let mut chance = Chance(7);
    let mut document = Document {
        title: "redis-valkey-generations".to_owned(),
        axes: vec![axis("threads", &["1", "2"]), axis("pipeline", &["1", "10"])],
        notes: vec!["1 of 48 runs failed and is missing in its combination: redis-8.0 threads=2 pipeline=10 has two repetitions.".to_owned()],
        ..Document::default()
    };
    let mut measured = Vec::new();
    for repetition in 1..=3_u32 {
        for (server, speed) in servers {
            for (threads, pipeline) in [("1", "1"), ("1", "10"), ("2", "1"), ("2", "10")] {
                let cell = Cell {
                    variant: server.to_owned(),
                    values: vec![threads.to_owned(), pipeline.to_owned()],
                };
                let of_load =
                    if pipeline == "10" { 5.2 } else { 1.0 } * if threads == "2" { 1.55 } else { 1.0 };
                let speed = speed * of_load * (1.0 + 0.008 * chance.next());
                let index = document.runs.len();
                let (run, phases) = suite_run(index, &cell, repetition, speed, &mut chance);
                if run.verdict.is_some() {
                    measured.extend(phases);
                }
                document.runs.push(run);
            }
        }
    }
    document.rows = rows(&measured);
    compare(&mut document.rows, "redis-6.2");
    document.rows[3].samples[1].outlier = true;
    document.baseline = Some(suite_baseline());
    document.thresholds = suite_thresholds();
    document
}

fn suite_run(
    index: usize,
    cell: &Cell,
    repetition: u32,
    speed: f64,
    chance: &mut Chance,
) -> (RunRecord, Vec<Measured>) {
    let mut run = RunRecord {
        name: format!("redis-valkey-generations-{:05x}", index * 7_777 + 4_096),
        provenance: provenance(&cell.variant, 11 + index % 2),
        cell: cell.clone(),
        repetition,
        phase: RunPhase::Succeeded,
        verdict: Some(Verdict::Valid),
        started_at: started(u32::try_from(index).unwrap_or_default()),
        finished_at: started(u32::try_from(index + 1).unwrap_or_default()),
        ..RunRecord::default()
    };
    match index {
        13 => {
            (run.phase, run.verdict) = (RunPhase::Failed, Some(Verdict::Invalid));
            run.reasons = vec![reason(
                "read",
                "Evictions",
                Verdict::Invalid,
                "the server evicted 81,203 keys; none may be evicted",
            )];
        }
        20 | 41 => {
            run.verdict = Some(Verdict::Degraded);
            run.reasons = vec![reason("write", "NotSteady", Verdict::Degraded, DIP)];
        }
        27 => {
            run.phase = RunPhase::Failed;
            run.verdict = None;
            run.failure =
                Some("the client pod on ip-10-0-1-31 was evicted: the node was low on memory".to_owned());
            return (run, Vec::new());
        }
        _ => (),
    }
    let mut measured = Vec::new();
    for (phase, operation, factor) in [("write", "SET", 1.0), ("read", "GET", 1.12)] {
        let operations = 142_000.0 * speed * factor;
        let median = 400.0 / (operations / 1000.0).powf(0.8);
        let bad = run.reasons.iter().find(|reason| reason.phase == phase);
        let verdict = bad.map_or(Verdict::Valid, |reason| reason.reason.verdict);
        let (name, row) = (run.name.clone(), cell.clone());
        let one =
            Measured { run: name, repetition, cell: row, phase, operation, operations, median, verdict };
        measured.push(one);
        run.curves.push(curve(phase, operation, median, chance));
        run.timelines.push(timeline(
            phase,
            operations,
            60,
            [20, 41].contains(&index) && phase == "write",
            chance,
        ));
        let by = if cell.values[0] == "1" { Limiter::Server } else { Limiter::Client };
        let evidence = format!("{by} CPUs were busy to 98.7 %");
        run.limited_by.push(PhaseLimit {
            phase: phase.to_owned(),
            limited_by: LimitedBy { by, evidence },
            confirmation: None,
        });
    }
    (run, measured)
}

fn suite_baseline() -> BaselineHead {
    let difference = |fact: &str, baseline: &str, here: &str, varied| Difference {
        cell: None,
        fact: fact.to_owned(),
        baseline: baseline.to_owned(),
        here: here.to_owned(),
        varied,
    };
    BaselineHead {
        name: "redis-6.2".to_owned(),
        kind: "variant".to_owned(),
        differences: vec![
            difference("server.version", "6.2", "7.0, 8.0, 8", true),
            difference("server.node", "ip-10-0-1-11", "ip-10-0-1-12", false),
        ],
        method: "Intervals of ratios by Welch's t on logarithms, 95 %; noise of these nodes 1.0 %, from the spread of repetitions.".to_owned(),
        notes: Vec::new(),
        compared: 96,
    }
}

fn suite_thresholds() -> Vec<ThresholdStatus> {
    let status = |metric: MetricName, cell: &str, value, met, message: &str| ThresholdStatus {
        threshold: 0,
        metric: metric.to_string(),
        cell: Some(cell.to_owned()),
        phase: "read".to_owned(),
        operation: "GET".to_owned(),
        value: Some(value),
        met,
        state: None,
        message: message.to_owned(),
    };
    let operations = MetricName::OperationsPerSecond;
    let valkey = "valkey-8 threads=2 pipeline=10";
    let message = "1.37 of the baseline, at least 0.95 required";
    vec![
        status(operations, valkey, 1.37, true, message),
        status(
            operations,
            "redis-8.0 threads=1 pipeline=1",
            1.22,
            true,
            "1.22 of the baseline, at least 0.95 required",
        ),
        status(
            MetricName::P99Milliseconds,
            "redis-6.2 threads=1 pipeline=1",
            18.9,
            false,
            "18.9 ms, at most 15 ms required",
        ),
        ThresholdStatus {
            state: Some(ClaimState::Unclear),
            ..status(
                operations,
                valkey,
                1.47,
                false,
                "claim is unclear: valkey-8 threads=2 pipeline=10: read GET OperationsPerSecond is 1.47 [1.39, 1.55] times that of redis-8.0 threads=2 pipeline=10 (minimum 1.4): more repetitions narrow the interval",
            )
        },
    ]
}

/// Keys and values of five sizes each, but one that is missing, two phases, three repetitions,
/// compared with what somebody else measured.
pub fn matrix() -> Document {
    let sizes = ["8 B", "64 B", "512 B", "4 KiB", "32 KiB"];
    let mut chance = Chance(11);
    let mut measured = Vec::new();
    let mut document = Document {
        title: "rust-client-key-value-matrix".to_owned(),
        axes: vec![axis("key", &sizes), axis("value", &sizes)],
        ..Document::default()
    };
    for (down, key) in sizes.iter().enumerate() {
        for (across, value) in sizes.iter().enumerate().skip(usize::from(down == 0)) {
            for repetition in 1..=3 {
                let cell = Cell {
                    variant: "dragonfly".to_owned(),
                    values: vec![(*key).to_owned(), (*value).to_owned()],
                };
                let run = RunRecord {
                    name: format!("matrix-{down}{across}-{repetition}"),
                    cell: cell.clone(),
                    repetition,
                    phase: RunPhase::Succeeded,
                    verdict: Some(Verdict::Valid),
                    provenance: provenance("dragonfly-1.25", 11),
                    ..RunRecord::default()
                };
                for phase in ["set", "get"] {
                    let operations = 2.4e6
                        / (1.0 + (down as f64).powf(1.7) / 3.0 + (across as f64).powf(2.1) / 4.0)
                        * (1.0 + 0.01 * chance.next());
                    let (run, cell) = (run.name.clone(), cell.clone());
                    let verdict = if (down, across) == (4, 4) { Verdict::Invalid } else { Verdict::Valid };
                    measured.push(Measured {
                        run,
                        repetition,
                        cell,
                        phase,
                        operation: "TOTAL",
                        operations,
                        median: 3e5 / operations,
                        verdict,
                    });
                }
                document.runs.push(run);
            }
        }
    }
    document.rows = rows(&measured);
    compare_with_others(&mut document.rows);
    document.baseline = Some(BaselineHead {
        name: "others.csv".to_owned(),
        kind: "published".to_owned(),
        ..BaselineHead::default()
    });
    document
}

/// One run that searched for the load at which the server is saturated.
pub fn search() -> Document {
    let mut chance = Chance(3);
    let cell = Cell { variant: "dragonfly".to_owned(), values: vec![] };
    let points = [8_u32, 16, 32, 64, 128, 256, 512, 1024].map(|connections| {
        let load = f64::from(connections);
        json!({
            "repetition": 1, "value": connections, "configMap": "",
            "operationsPerSecond": 1.45e6 * load / (load + 70.0),
            "latencyMilliseconds": {"p99": 0.21 + load / 900.0 + (load / 420.0).powi(2)}
        })
    });
    let found = json!({
        "phase": "search", "raise": "Connections", "points": points,
        "knee": {"value": 128, "low": 128, "high": 129, "operationsPerSecond": 9.4e5, "why": "Gain"}
    });
    let run = RunRecord {
        noise: None,
        name: "dragonfly-saturation".to_owned(),
        cell: cell.clone(),
        repetition: 1,
        phase: RunPhase::Succeeded,
        verdict: Some(Verdict::Degraded),
        reasons: vec![reason(
            "search",
            "ShortWindow",
            Verdict::Degraded,
            "each point was measured for 10 s, less than 30 s",
        )],
        limited_by: vec![PhaseLimit {
            phase: "search".to_owned(),
            limited_by: LimitedBy {
                by: Limiter::Server,
                evidence: "server CPUs were busy to 99.1 %".to_owned(),
            },
            confirmation: None,
        }],
        started_at: started(0),
        finished_at: started(3),
        provenance: provenance("dragonfly-1.25", 11),
        curves: vec![curve("search", "GET", 0.31, &mut chance), curve("search", "SET", 0.36, &mut chance)],
        timelines: vec![timeline("search", 1.1e6, 3600, false, &mut chance)],
        searches: serde_json::from_value(json!([found])).unwrap_or_default(),
        failure: None,
    };
    let measured = ["GET", "SET", "TOTAL"].map(|operation| Measured {
        run: run.name.clone(),
        repetition: 1,
        cell: cell.clone(),
        phase: "search",
        operation,
        operations: if operation == "TOTAL" { 1.1e6 } else { 0.55e6 },
        median: 0.31,
        verdict: Verdict::Degraded,
    });
    Document {
        title: "dragonfly-saturation".to_owned(),
        rows: rows(&measured),
        runs: vec![run],
        ..Document::default()
    }
}

/// Memory after load, and a minute later.
pub fn memory() -> Document {
    let mut document = Document { title: "memory-after-load".to_owned(), ..Document::default() };
    for (variant, factor) in [("redis-7.0", 1.0), ("valkey-8", 0.93), ("dragonfly", 0.71)] {
        let cell = Cell { variant: variant.to_owned(), values: vec![] };
        for (phase, more) in [("load", 1.0), ("load, 60 s later", 0.96)] {
            for (metric, bytes, unit) in [
                ("ServerUsedBytes", 1.31e9, "B"),
                ("ServerRssBytes", 1.52e9, "B"),
                ("ServerPeakBytes", 1.66e9, "B"),
                ("BytesPerKey", 131.0, "B"),
            ] {
                let values = [1.0, 1.004, 0.998].map(|each| bytes * factor * more * each);
                let sample = |(index, value): (usize, &f64)| Sample {
                    run: format!("{variant}-{}", index + 1),
                    repetition: u32::try_from(index + 1).unwrap_or_default(),
                    server: None,
                    value: *value,
                    verdict: Some(Verdict::Valid),
                    outlier: false,
                };
                document.rows.push(Row {
                    cell: cell.clone(),
                    phase: phase.to_owned(),
                    operation: "TOTAL".to_owned(),
                    metric: metric.to_owned(),
                    unit: unit.to_owned(),
                    more_is_better: Some(false),
                    samples: values.iter().enumerate().map(sample).collect(),
                    spread: spread(&values),
                    verdict: Some(Verdict::Valid),
                    ..Row::default()
                });
            }
        }
    }
    compare(&mut document.rows, "redis-7.0");
    document.baseline = Some(BaselineHead {
        name: "redis-7.0".to_owned(),
        kind: "variant".to_owned(),
        ..BaselineHead::default()
    });
    document
}

/// One run without a cluster, which has the title's name for its variant.
pub fn local() -> Document {
    let mut document = Document { title: "first-race".to_owned(), ..suite() };
    let variant = document.title.clone();
    let alone = |cell: &mut Cell| {
        let this = cell.variant == "redis-6.2" && cell.values == ["1", "1"];
        *cell = Cell { variant: variant.clone(), values: Vec::new() };
        this
    };
    document.rows.retain_mut(|row| alone(&mut row.cell));
    document.runs.retain_mut(|run| alone(&mut run.cell) && run.repetition == 1);
    let mut memory = memory().rows;
    memory.retain_mut(|row| row.cell.variant == "redis-7.0" && row.metric != "BytesPerKey");
    for row in &mut memory {
        row.cell.variant.clone_from(&variant);
    }
    document.rows.extend(memory);
    Document { axes: Vec::new(), thresholds: Vec::new(), baseline: None, ..document }
}

/// A suite all of whose texts are hostile.
pub fn hostile() -> Document {
    let mut document = suite();
    let hostile = || HOSTILE.to_owned();
    document.title = hostile();
    document.notes = vec![hostile()];
    document.variants = vec![VariantHead { name: hostile(), note: Some(hostile()) }];
    for axis in &mut document.axes {
        axis.name = hostile();
    }
    for row in &mut document.rows {
        row.cell.variant = format!("{}{HOSTILE}", row.cell.variant);
        (row.phase, row.operation, row.unit) = (hostile(), hostile(), hostile());
        if let Some(comparison) = &mut row.comparison {
            comparison.reason = hostile();
        }
        row.uncompared = Some(hostile());
    }
    for run in &mut document.runs {
        run.name = format!("{}{HOSTILE}", run.name);
        run.cell.variant = format!("{}{HOSTILE}", run.cell.variant);
        run.failure = Some(hostile());
        run.provenance = [(hostile(), hostile())].into();
        run.reasons = vec![reason(HOSTILE, HOSTILE, Verdict::Degraded, HOSTILE)];
        let found = json!({
            "phase": HOSTILE, "raise": "Connections",
            "points": [{"repetition": 1, "value": 1, "configMap": HOSTILE, "operationsPerSecond": 1.0,
                "latencyMilliseconds": {"p99": 1.0}}]
        });
        run.searches = serde_json::from_value(json!([found])).unwrap_or_default();
        for curve in &mut run.curves {
            (curve.phase, curve.operation) = (hostile(), hostile());
        }
        for timeline in &mut run.timelines {
            timeline.phase = hostile();
        }
    }
    for status in &mut document.thresholds {
        (status.cell, status.message) = (Some(hostile()), hostile());
    }
    document.baseline = Some(BaselineHead {
        name: hostile(),
        kind: hostile(),
        differences: vec![Difference {
            cell: None,
            fact: hostile(),
            baseline: hostile(),
            here: hostile(),
            varied: false,
        }],
        method: hostile(),
        notes: vec![hostile()],
        compared: 1,
    });
    document
}

/// A hundred combinations, 300 rows in the table of results, each with three repetitions.
pub fn large() -> Document {
    let names: Vec<String> = (1..=25).map(|index| (index * 4).to_string()).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut chance = Chance(5);
    let mut document = Document {
        title: "three-hundred-rows".to_owned(),
        axes: vec![axis("connections", &names)],
        ..Document::default()
    };
    let mut measured = Vec::new();
    for variant in ["dragonfly", "keydb", "redis", "valkey"] {
        for name in &names {
            for repetition in 1..=3 {
                let cell = Cell { variant: variant.to_owned(), values: vec![(*name).to_owned()] };
                let load: f64 = name.parse().unwrap_or(1.0);
                let operations = 9e5 * load / (load + 20.0) * (1.0 + 0.02 * chance.next());
                let run = format!("{variant}-{name}-{repetition}");
                for phase in ["write", "read", "mixed"] {
                    let (run, cell) = (run.clone(), cell.clone());
                    measured.push(Measured {
                        run,
                        repetition,
                        cell,
                        phase,
                        operation: "TOTAL",
                        operations,
                        median: 0.3,
                        verdict: Verdict::Valid,
                    });
                }
                let phases = ["write", "read", "mixed"];
                document.runs.push(RunRecord {
                    name: run,
                    cell,
                    repetition,
                    phase: RunPhase::Succeeded,
                    verdict: Some(Verdict::Valid),
                    provenance: provenance(variant, 11),
                    curves: phases.map(|phase| curve(phase, "TOTAL", 0.3, &mut chance)).to_vec(),
                    timelines: phases
                        .map(|phase| timeline(phase, operations, 120, false, &mut chance))
                        .to_vec(),
                    ..RunRecord::default()
                });
            }
        }
    }
    document.rows = rows(&measured);
    compare(&mut document.rows, "redis");
    document.baseline = Some(BaselineHead {
        name: "redis".to_owned(),
        kind: "variant".to_owned(),
        ..BaselineHead::default()
    });
    document
}
