//! Sentences about runs and comparisons that several forms share. Pure.

use crate::{
    compare,
    document::{BaselineHead, Difference, Document, PhaseLimit, PhaseReason, Row, RunRecord, Timeline},
    figures::{heading, spread},
    select::{distinct, grouped, headline, phases, totals, variants, varied_axes, with_operation},
    tables::word,
};
use dragstrip_crds::{
    run::{Disturbance, Interval, RunPhase, Verdict, VerdictReason},
    suite::ComparisonVerdict,
    thresholds::MetricName,
    units::counted,
};
use std::collections::BTreeMap;

/// How a run ended, as far as its numbers are concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ending {
    Judged(Verdict),
    Unjudged,
    Failed,
    Cancelled,
    Unfinished,
}

impl Ending {
    /// A run with Invalid numbers has failed as well, and Invalid says more.
    pub fn of(run: &RunRecord) -> Self {
        match (run.phase, run.verdict) {
            (RunPhase::Failed, Some(Verdict::Invalid)) => Self::Judged(Verdict::Invalid),
            (RunPhase::Succeeded, Some(verdict)) => Self::Judged(verdict),
            (RunPhase::Succeeded, None) => Self::Unjudged,
            (RunPhase::Failed, _) => Self::Failed,
            (RunPhase::Cancelled, _) => Self::Cancelled,
            _ => Self::Unfinished,
        }
    }

    pub fn word(self) -> String {
        match self {
            Self::Judged(verdict) => verdict.to_string(),
            Self::Unjudged => "no verdict".to_owned(),
            Self::Failed => "Failed".to_owned(),
            Self::Cancelled => "Cancelled".to_owned(),
            Self::Unfinished => "not finished".to_owned(),
        }
    }
}

/// Each of `all` that appears, with its number.
fn counts<T: Ord>(all: impl Iterator<Item = T>, word: impl Fn(T) -> String) -> Option<String> {
    let mut counts = BTreeMap::new();
    for one in all {
        *counts.entry(one).or_insert(0_usize) += 1;
    }
    let parts: Vec<String> = counts.into_iter().map(|(one, n)| format!("{n} {}", word(one))).collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// The number of runs by ending, of thresholds met, and of comparisons by verdict: of throughput, or of
/// the metrics that phases declare as their headline.
pub fn summary(document: &Document) -> String {
    let endings = counts(document.runs.iter().map(Ending::of), Ending::word);
    let endings = endings.map(|endings| format!(" ({endings})")).unwrap_or_default();
    let met = document.thresholds.iter().filter(|row| row.met).count();
    let thresholds = match document.thresholds.len() {
        0 => String::new(),
        all => format!("; {met} of {all} thresholds met"),
    };
    let of_phase = |phase| {
        let metric = document.headlines.get(phase).map_or("OperationsPerSecond", String::as_str);
        totals(document, metric).into_iter().filter(move |row| row.phase == phase)
    };
    let compared = phases(document).into_iter().flat_map(of_phase);
    let compared = compared.filter_map(|row| Some(row.comparison.as_ref()?.verdict));
    let what = if document.headlines.is_empty() { "throughput" } else { "headlines" };
    let compared = counts(compared, word).map(|verdicts| format!("; {what}: {verdicts}"));
    let runs = counted(document.runs.len() as u64, "run");
    format!("{runs}{endings}{thresholds}{}", compared.unwrap_or_default())
}

pub fn baseline_name(baseline: &BaselineHead) -> String {
    match baseline.kind.as_str() {
        "published" => format!("the published table {}", baseline.name),
        "above" => "the variant above".to_owned(),
        kind => format!("the {kind} {}", baseline.name),
    }
}

/// What the figures are compared with, if anything.
pub fn baseline_names(document: &Document) -> Option<String> {
    let names: Vec<String> = document.baselines().map(baseline_name).collect();
    (!names.is_empty()).then(|| names.join(" and "))
}

/// The methods of the comparisons, each once.
pub fn methods(document: &Document) -> Vec<String> {
    distinct(document.baselines().map(|baseline| baseline.method.clone()))
}

pub fn difference(difference: &Difference) -> String {
    let whose = difference.cell.as_ref().map(|cell| {
        let names = std::iter::once(&cell.variant).chain(&cell.values).cloned();
        format!("{}: ", names.collect::<Vec<_>>().join(" "))
    });
    let undeclared = if difference.varied { "" } else { ", although no variant or axis declares it" };
    format!(
        "{}{} is {} instead of {}{undeclared}",
        whose.unwrap_or_default(),
        difference.fact,
        difference.here,
        difference.baseline
    )
}

/// Each reason of `run` once, behind the phases that have it.
pub fn reasons(run: &RunRecord) -> Vec<String> {
    let alike = grouped(&run.reasons, |found| &found.reason.message);
    let line = |(message, found): (&String, Vec<&PhaseReason>)| {
        let phases: Vec<&str> = found.iter().map(|found| found.phase.as_str()).collect();
        format!("{}: {message}", phases.join(", "))
    };
    alike.into_iter().map(line).collect()
}

/// Why a run is not Valid, in one line, also on behalf of `more` similar runs.
pub fn trouble(document: &Document, run: &RunRecord, more: usize) -> Option<String> {
    let verdict = match Ending::of(run) {
        Ending::Judged(Verdict::Valid) | Ending::Unjudged | Ending::Unfinished => return None,
        Ending::Judged(verdict) => format!(", {verdict}"),
        Ending::Failed | Ending::Cancelled => String::new(),
    };
    let all: Vec<String> = run.failure.iter().cloned().chain(reasons(run)).collect();
    let why = if all.is_empty() { String::new() } else { format!(": {}", all.join("; ")) };
    let others = if more == 0 { String::new() } else { format!(" and {more} more like it") };
    Some(format!("{}{others}: {}{verdict}{why}", document.describe(run), run.phase))
}

/// Why runs are not Valid. Runs that are Degraded or cancelled for the same reasons share a line:
/// on a machine that clients and servers share, all of them are.
pub fn troubles(document: &Document) -> Vec<String> {
    let groups = grouped(&document.runs, |run| {
        let ending = Ending::of(run);
        let shared =
            run.failure.is_none() && matches!(ending, Ending::Judged(Verdict::Degraded) | Ending::Cancelled);
        let name = Some(&run.name).filter(|_| !shared);
        let reasons = run.reasons.iter().map(|found| (&found.phase, &found.reason.reason));
        (ending.word(), name, reasons.collect::<Vec<_>>())
    });
    groups.into_iter().filter_map(|(_, runs)| trouble(document, runs.first()?, runs.len() - 1)).collect()
}

/// More lines about leaders would repeat the tables.
const MOST_LEADERS: usize = 8;
const MOST_NAMES: usize = 4;

/// The figures that readers ask for first, as they call them.
const NOUNS: [(MetricName, &str); 4] = [
    (MetricName::OperationsPerSecond, "throughput"),
    (MetricName::P99Milliseconds, "p99 latency"),
    (MetricName::BytesPerKey, "memory per key"),
    (MetricName::ServerUsedBytes, "memory"),
];

/// What the comparison found of each variant: the differences that remain among all, and of throughput
/// also that none is shown.
fn differences_found(document: &Document) -> Vec<String> {
    let of_variant = |variant: &str| {
        let parts =
            NOUNS.iter().filter_map(|(metric, noun)| difference_found(document, variant, *metric, noun));
        let parts: Vec<String> = parts.collect();
        (!parts.is_empty()).then(|| format!("{variant}: {}", parts.join("; ")))
    };
    variants(document).into_iter().filter_map(of_variant).collect()
}

/// The same of one metric, in all phases and at all values of the axes together.
fn difference_found(document: &Document, variant: &str, metric: MetricName, noun: &str) -> Option<String> {
    let rows = totals(document, &metric.to_string()).into_iter().filter(|row| row.cell.variant == variant);
    let compared = rows.filter_map(|row| row.comparison.as_ref());
    let compared: Vec<_> =
        compared.filter(|found| found.verdict != ComparisonVerdict::NotComparable).collect();
    let called = compared.iter().filter(|found| {
        let differs = matches!(found.verdict, ComparisonVerdict::Better | ComparisonVerdict::Worse);
        differs && found.holds_among_all != Some(false)
    });
    let (more, less): (Vec<f64>, Vec<f64>) =
        called.map(|found| (found.ratio.mid - 1.0) * 100.0).partition(|change| *change > 0.0);
    let part = |(changes, word): (Vec<f64>, &str)| {
        let sizes = || changes.iter().map(|change| change.abs());
        let (least, most) = (sizes().reduce(f64::min)?, sizes().reduce(f64::max)?);
        let [least, most] =
            [least, most].map(|size| if size < 9.95 { format!("{size:.1}") } else { format!("{size:.0}") });
        let range = if least == most { least } else { format!("{least} to {most}") };
        let of = match compared.len() {
            all if all > changes.len() => format!(" in {} of {all} comparisons", changes.len()),
            _ => String::new(),
        };
        Some(format!("{range} % {word} {noun}{of}"))
    };
    let parts: Vec<String> = [(more, "more"), (less, "less")].into_iter().filter_map(part).collect();
    let nothing = metric == MetricName::OperationsPerSecond && parts.is_empty() && !compared.is_empty();
    match parts.as_slice() {
        [] => nothing.then(|| format!("{noun}: no difference shown")),
        parts => Some(parts.join(", ")),
    }
}

/// What was found, in few lines: the differences from the baseline, and unless these say it, which variant
/// is best.
pub fn findings(document: &Document) -> Vec<String> {
    let differences = differences_found(document);
    let two = variants(document).len() == 2 && document.baseline.is_some();
    let leaders = if two && !differences.is_empty() { Vec::new() } else { leaders(document) };
    differences.into_iter().chain(leaders).collect()
}

/// Which variant is best, for each phase and combination of axis values: one only where the comparison
/// with each other one calls it, else those that cannot be distinguished.
fn leaders(document: &Document) -> Vec<String> {
    let of_phase = |phase| {
        let metric = headline(document, phase).map(|(metric, _)| metric);
        let rows = metric.into_iter().flat_map(|metric| totals(document, metric));
        let rows = rows.filter(move |row| row.phase == phase);
        grouped(rows, |row| (&row.operation, &row.cell.values)).into_iter().map(|(_, rows)| rows)
    };
    let groups = phases(document).into_iter().flat_map(of_phase);
    let lines = groups.filter_map(|rows| leading(document, &rows)).collect();
    first(lines, MOST_LEADERS, "combinations: see the tables")
}

fn leading(document: &Document, rows: &[&Row]) -> Option<String> {
    let found = compare::leaders(document, rows)?;
    let best = found.first.first()?;
    let axes = varied_axes(document).into_iter();
    let values =
        axes.filter_map(|(place, axis)| Some(format!(", {}={}", axis.name, best.cell.values.get(place)?)));
    let label = with_operation(&best.phase, &best.operation) + &values.collect::<String>();
    let unit = heading(&best.metric, &best.unit);
    let figure = |row: &Row| row.spread.map_or_else(String::new, |mean| spread(&row.metric, &mean));
    let is_rate =
        [MetricName::OperationsPerSecond, MetricName::ElementsPerSecond].map(|name| name.to_string());
    let word = if is_rate.contains(&best.metric) { "fastest" } else { "best" };
    let (first, of) = (&found.first, found.of);
    if first.len() == 1 {
        return Some(format!(
            "{label}: {} is the {word} of {of}: {} {unit}",
            best.cell.variant,
            figure(best)
        ));
    }
    if first.iter().all(|row| row.spread.is_some_and(|mean| mean.repetitions == 1)) {
        return Some(format!("{label}: no clear {word} of {of}: measure each at least 3 times"));
    }
    let names = first.iter().take(MOST_NAMES).map(|row| format!("{} ({})", row.cell.variant, figure(row)));
    let names = names.collect::<Vec<_>>().join(", ");
    let more = match first.len().saturating_sub(MOST_NAMES) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    Some(format!("{label}: no clear {word} of {of} by {unit}: {names}{more} are not distinguishable"))
}

/// More lines about single runs would hide what else a text says.
const MOST_LINES: usize = 12;

/// The first of `lines`, at `most` so many, and how many more there are of `what`.
fn first(mut lines: Vec<String>, most: usize, what: &str) -> Vec<String> {
    let more = lines.len().saturating_sub(most);
    lines.truncate(most);
    lines.extend((more > 0).then(|| format!("{more} more {what}")));
    lines
}

/// What points with twice the connections showed, run by run.
pub fn confirmations(document: &Document) -> Vec<String> {
    let of_run = |run: &RunRecord| {
        let line = |limit: &PhaseLimit| {
            Some(format!("{}, {}: {}", document.describe(run), limit.phase, limit.confirmation.as_ref()?))
        };
        run.limited_by.iter().filter_map(line).collect::<Vec<_>>()
    };
    first(document.runs.iter().flat_map(of_run).collect(), MOST_LINES, "points: the JSON report has them")
}

/// Each finding about a part of a repetition's time, in one line.
pub fn unsteady(document: &Document) -> Vec<String> {
    let of_run = |run: &RunRecord| {
        let findings = run
            .timelines
            .iter()
            .flat_map(|timeline| timeline.findings.iter().map(move |found| (timeline, found)));
        let line = |(timeline, found): (&Timeline, &VerdictReason)| {
            let several = run.timelines.iter().filter(|other| other.phase == timeline.phase).count() > 1;
            let repetition = several.then(|| format!(", repetition {}", timeline.repetition));
            let (phase, repetition) = (&timeline.phase, repetition.unwrap_or_default());
            let when = intervals(&found.intervals);
            format!("{}, {phase}{repetition}, {when}: {}", document.describe(run), found.message)
        };
        findings.map(line).collect::<Vec<_>>()
    };
    first(document.runs.iter().flat_map(of_run).collect(), MOST_LINES, "findings: the JSON report has them")
}

/// What happened and when, such as `stall from 3 s to 4 s and 7 s to 10 s`.
pub fn intervals(all: &[Interval]) -> String {
    let name = all.first().map_or("", |first| match first.disturbance {
        Disturbance::Stall => "stall",
        Disturbance::ColdStart => "cold start",
        Disturbance::OtherLevel => "another level",
        Disturbance::Trend => "trend",
    });
    let seconds = all.iter().map(|one| format!("{} s to {} s", one.from_second, one.to_second));
    format!("{name} from {}", seconds.collect::<Vec<_>>().join(" and "))
}
