//! Tables as texts, for terminals and Markdown alike. Pure.

use super::{Pivot, Single, cells, distinct, find, headline, operations, phases, pivot, sign, varied};
use crate::{
    document::{Cell, Document, Row},
    figures::{figure, heading, interval, percent, spread},
};
use dragstrip_crds::{run::Verdict, suite::ComparisonVerdict, thresholds::MetricName};
use dragstrip_results::result::TOTAL;

/// The memory of all servers together.
const MEMORY: [MetricName; 3] =
    [MetricName::ServerRssBytes, MetricName::ServerPeakBytes, MetricName::ServerUsedBytes];

/// A table.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Grid {
    /// What it is of; may be empty.
    pub title: String,
    /// Headings.
    pub header: Vec<String>,
    /// Its lines, as wide as the headings.
    pub lines: Vec<Vec<String>>,
    /// How many columns at the left are names, the others figures.
    pub names: usize,
}

/// How a form writes what is special.
#[derive(Debug, Clone, Copy)]
pub struct Style {
    /// A figure that must not be used.
    pub struck: fn(&str) -> String,
    /// Latency metrics beside the headline.
    pub beside: &'static [MetricName],
    /// Whether notes of variants have room.
    pub notes: bool,
}

fn verdict(row: &Row) -> String {
    match (&row.comparison, &row.uncompared) {
        (Some(found), _) => match found.verdict {
            ComparisonVerdict::NotComparable => "≠ Not comparable".to_owned(),
            verdict => format!("{} {verdict}", sign(verdict)),
        },
        (None, None) => "baseline".to_owned(),
        (None, Some(_)) => "---".to_owned(),
    }
}

fn ratio(row: &Row) -> String {
    match &row.comparison {
        Some(found) if found.verdict != ComparisonVerdict::NotComparable => {
            interval(&found.ratio, found.interval_known)
        }
        _ => "---".to_owned(),
    }
}

/// What the measurements of no number that counts were.
fn struck(row: &Row, style: &Style) -> String {
    let values: Vec<String> =
        row.samples.iter().map(|sample| (style.struck)(&figure(&row.metric, sample.value))).collect();
    if values.is_empty() { "---".to_owned() } else { values.join(" ") }
}

/// A figure with its interval.
fn value(row: Option<&Row>, style: &Style) -> String {
    match row {
        None => "---".to_owned(),
        Some(row) => {
            row.spread.as_ref().map_or_else(|| struck(row, style), |found| spread(&row.metric, found))
        }
    }
}

/// A figure without its interval, and with a sign where it is Better or Worse.
fn brief(row: Option<&Row>, style: &Style) -> String {
    let Some(row) = row else { return "---".to_owned() };
    let Some(spread) = &row.spread else { return struck(row, style) };
    let found = row.comparison.as_ref().map(|found| found.verdict);
    let differs = found.filter(|it| matches!(it, ComparisonVerdict::Better | ComparisonVerdict::Worse));
    let sign = differs.map(|verdict| format!(" {}", sign(verdict))).unwrap_or_default();
    format!("{}{sign}", figure(&row.metric, spread.mean))
}

/// What must be known of a row's measurements.
fn marks(row: &Row) -> Vec<String> {
    let count = |what: &str, n: usize| (n > 0).then(|| format!("{n} {what}"));
    let of = |verdict: Verdict| row.samples.iter().filter(|sample| sample.verdict == Some(verdict)).count();
    let outliers = row.samples.iter().filter(|sample| sample.outlier).count();
    let all = !row.samples.is_empty() && row.samples.len() == of(Verdict::Invalid);
    let marks = [
        if all { Some("Invalid".to_owned()) } else { count("Invalid", of(Verdict::Invalid)) },
        (of(Verdict::Degraded) > 0).then(|| "Degraded".to_owned()),
        count("outlier", outliers),
    ];
    marks.into_iter().flatten().collect()
}

/// One line of a listing: a combination and an operation.
struct Line<'a> {
    cell: &'a Cell,
    operation: &'a str,
    headline: Option<&'a Row>,
}

/// What a listing shows of a phase.
struct Shown<'a> {
    phase: &'a str,
    operations: Vec<&'a str>,
    /// The metric with its interval and its comparison.
    headline: &'a str,
    /// Further metrics and their units.
    beside: Vec<(&'a str, &'a str)>,
}

/// The figures of each phase, a line for each combination and operation.
pub fn listings(document: &Document, style: &Style) -> Vec<Grid> {
    let of_phase = |phase| {
        let figures = figures(document, phase, style).map(|shown| listing(document, &shown, phase, style));
        let memory = memory(document, phase);
        let memory = memory.map(|shown| listing(document, &shown, &format!("{phase}: memory"), style));
        figures.into_iter().chain(memory)
    };
    phases(document).into_iter().flat_map(of_phase).collect()
}

fn figures<'a>(document: &'a Document, phase: &'a str, style: &Style) -> Option<Shown<'a>> {
    let headline = headline(document, phase)?;
    let beside = beside(document, phase, headline, style);
    Some(Shown { phase, operations: operations(document, phase), headline, beside })
}

/// The servers' memory, where it is what was published: elsewhere it is told among all figures.
fn memory<'a>(document: &'a Document, phase: &'a str) -> Option<Shown<'a>> {
    document.baseline.as_ref().filter(|baseline| baseline.kind == "published")?;
    let wanted = MEMORY.map(|metric| metric.to_string());
    let rows = document.rows.iter().filter(|row| row.phase == phase && wanted.contains(&row.metric));
    let compared = rows.clone().find(|row| row.comparison.is_some())?;
    let all = distinct(rows.map(|row| (row.metric.as_str(), row.unit.as_str())));
    let headline = compared.metric.as_str();
    let beside = all.into_iter().filter(|(metric, _)| *metric != headline).collect();
    Some(Shown { phase, operations: vec![TOTAL], headline, beside })
}

fn listing(document: &Document, shown: &Shown<'_>, title: &str, style: &Style) -> Grid {
    let Shown { phase, operations, headline: metric, beside } = shown;
    let axes = varied(document);
    let pairs = cells(document).into_iter().flat_map(|cell| operations.iter().map(move |name| (cell, *name)));
    let lines: Vec<Line<'_>> = pairs
        .map(|(cell, operation)| Line {
            cell,
            operation,
            headline: find(document, cell, phase, operation, metric),
        })
        .collect();
    let compared = document.baseline.is_some();
    let steps = axes.is_empty() && operations.len() == 1 && document.variants.len() > 2;
    let told: Vec<String> = lines.iter().map(|line| told(document, line, style)).collect();
    let noted = told.iter().any(|text| !text.is_empty());
    let unit = document.rows.iter().find(|row| row.metric == *metric).map_or("", |row| row.unit.as_str());
    let mut header = vec!["Variant".to_owned()];
    header.extend(axes.iter().map(|(_, axis)| axis.name.clone()));
    header.extend((operations.len() > 1).then(|| "Operation".to_owned()));
    let names = header.len();
    header.push(format!("{} ±95%", heading(metric, unit)));
    header.extend(beside.iter().map(|(metric, unit)| heading(metric, unit)));
    header.extend(steps.then(|| "vs. above".to_owned()));
    if compared {
        header.extend([ratio_heading(document), "Verdict".to_owned()]);
    }
    header.extend(noted.then(|| "Notes".to_owned()));
    let mut above: Option<f64> = None;
    let mut rows = Vec::new();
    for (line, told) in lines.iter().zip(told) {
        let mut cells = vec![line.cell.variant.clone()];
        cells.extend(axes.iter().map(|(axis, _)| line.cell.values.get(*axis).cloned().unwrap_or_default()));
        cells.extend((operations.len() > 1).then(|| line.operation.to_owned()));
        cells.push(value(line.headline, style));
        cells.extend(
            beside
                .iter()
                .map(|(metric, _)| brief(find(document, line.cell, phase, line.operation, metric), style)),
        );
        let mean = line.headline.and_then(|row| Some(row.spread?.mean));
        cells.extend(steps.then(|| step(mean, above)));
        above = mean.or(above);
        if compared {
            cells.extend([ratio, verdict].map(|of| line.headline.map_or_else(|| "---".to_owned(), of)));
        }
        cells.extend(noted.then_some(told));
        rows.push(cells);
    }
    Grid { title: title.to_owned(), header, lines: rows, names }
}

fn step(mean: Option<f64>, above: Option<f64>) -> String {
    let pair = mean.zip(above).filter(|(_, above)| *above > 0.0);
    pair.map_or_else(|| "---".to_owned(), |(mean, above)| percent(mean / above))
}

fn told(document: &Document, line: &Line<'_>, style: &Style) -> String {
    let variant = document.variants.iter().find(|known| known.name == line.cell.variant);
    let note = variant.and_then(|known| known.note.clone());
    let more = limit(document, line).into_iter().chain(note).filter(|_| style.notes);
    line.headline.map(marks).unwrap_or_default().into_iter().chain(more).collect::<Vec<_>>().join(", ")
}

/// What limited the runs of a line: each limit that one of them met.
fn limit(document: &Document, line: &Line<'_>) -> Option<String> {
    let phase = &line.headline?.phase;
    let runs = document.runs.iter().filter(|run| run.cell == *line.cell);
    let limits = runs.flat_map(|run| &run.limited_by).filter(|limit| limit.phase == *phase);
    let limits = distinct(limits.map(|limit| limit.limited_by.by));
    let names: Vec<String> = limits.iter().map(ToString::to_string).collect();
    (!names.is_empty()).then(|| format!("limited by {}", names.join(" or ")))
}

/// The metrics beside the headline: of a phase with throughput those of the style, of others
/// the next few.
fn beside<'a>(document: &'a Document, phase: &str, headline: &str, style: &Style) -> Vec<(&'a str, &'a str)> {
    let rows = document.rows.iter().filter(|row| row.phase == phase && row.metric != headline);
    let all = distinct(rows.map(|row| (row.metric.as_str(), row.unit.as_str())));
    if MetricName::named(headline).is_none() {
        return all.into_iter().take(4).collect();
    }
    let wanted: Vec<String> = style.beside.iter().map(ToString::to_string).collect();
    all.into_iter().filter(|(metric, _)| wanted.iter().any(|name| name == metric)).collect()
}

fn ratio_heading(document: &Document) -> String {
    match &document.baseline {
        Some(baseline) if baseline.kind == "published" => "ratio to published".to_owned(),
        Some(baseline) if baseline.name.chars().count() <= 12 => format!("× {}", baseline.name),
        _ => "× baseline".to_owned(),
    }
}

/// The matrices as tables.
pub fn pivots(document: &Document, style: &Style) -> Vec<Grid> {
    pivot::pivots(document).iter().map(|pivot| pivot_grid(pivot, style)).collect()
}

fn pivot_grid(pivot: &Pivot<'_>, style: &Style) -> Grid {
    let unit = |row: &&Row| heading(&row.metric, &row.unit);
    let of_column = |column: usize| {
        pivot.lines.iter().find_map(|(_, rows)| rows.get(column).copied().flatten()).as_ref().map(unit)
    };
    let column = |(place, name): (usize, &String)| match of_column(place).filter(|_| pivot.metric.is_empty())
    {
        Some(unit) => format!("{name} ({unit})"),
        None => name.clone(),
    };
    let unit = (0..pivot.columns.len()).find_map(of_column).filter(|_| !pivot.metric.is_empty());
    let title = [Some(pivot.title.clone()).filter(|title| !title.is_empty()), unit];
    let mut header = vec![format!("{} \\ {}", pivot.corner, pivot.across)];
    header.extend(pivot.columns.iter().enumerate().map(column));
    header.extend(pivot.difference.then(|| "Difference".to_owned()));
    let line = |(name, rows): &(String, Vec<Option<&Row>>)| {
        let figures = rows.iter().map(|row| brief(*row, style));
        let means: Vec<Option<f64>> = rows.iter().map(|row| Some(row.as_ref()?.spread?.mean)).collect();
        let difference = pivot.difference.then(|| match means.as_slice() {
            [first, second] => step(*second, *first),
            _ => "---".to_owned(),
        });
        std::iter::once(name.clone()).chain(figures).chain(difference).collect()
    };
    Grid {
        title: title.into_iter().flatten().collect::<Vec<_>>().join(": "),
        header,
        lines: pivot.lines.iter().map(line).collect(),
        names: 1,
    }
}

/// Every figure, one line each; what the total of a single operation repeats is left out.
pub fn all_figures(document: &Document, style: &Style) -> Grid {
    let axes = varied(document);
    let mut header = vec!["Variant".to_owned()];
    header.extend(axes.iter().map(|(_, axis)| axis.name.clone()));
    header.extend(["Phase", "Operation", "Metric"].map(str::to_owned));
    let names = header.len();
    header.extend(["n", "Mean", "Stdev", "CV", "±95%"].map(str::to_owned));
    let compared = document.baseline.is_some();
    if compared {
        header.extend([ratio_heading(document), "Difference".to_owned(), "Verdict".to_owned()]);
    }
    header.push("Measurements".to_owned());
    let single = Single::of(&document.rows);
    let told = document.rows.iter().filter(|row| !single.is_twin(row));
    let lines = told.map(|row| {
        let mut line = vec![row.cell.variant.clone()];
        line.extend(axes.iter().map(|(axis, _)| row.cell.values.get(*axis).cloned().unwrap_or_default()));
        line.extend([row.phase.clone(), row.operation.clone(), heading(&row.metric, &row.unit)]);
        line.extend(statistics(row));
        if compared {
            let told = row.comparison.as_ref().filter(|it| it.verdict != ComparisonVerdict::NotComparable);
            let difference = told.map_or("---".to_owned(), |it| percent(it.ratio.mid));
            line.extend([ratio(row), difference, verdict(row)]);
        }
        line.push(measurements(row, style));
        line
    });
    Grid { title: String::new(), header, lines: lines.collect(), names }
}

fn statistics(row: &Row) -> [String; 5] {
    let Some(spread) = &row.spread else {
        return ["0", "---", "---", "---", "---"].map(str::to_owned);
    };
    let known =
        |value: Option<f64>| value.map_or_else(|| "---".to_owned(), |value| figure(&row.metric, value));
    let variation = spread.coefficient_of_variation;
    [
        spread.repetitions.to_string(),
        figure(&row.metric, spread.mean),
        known(spread.standard_deviation),
        variation.map_or_else(|| "---".to_owned(), |variation| format!("{:.1} %", variation * 100.0)),
        known(spread.confidence95),
    ]
}

/// Each measurement: struck out where it is Invalid, marked where it is Degraded or far off.
fn measurements(row: &Row, style: &Style) -> String {
    let one = |sample: &crate::document::Sample| {
        let value = figure(&row.metric, sample.value);
        match (sample.verdict, sample.outlier) {
            (Some(Verdict::Invalid), _) => (style.struck)(&value),
            (_, true) => format!("{value} (outlier)"),
            (Some(Verdict::Degraded), false) => format!("{value} (Degraded)"),
            _ => value,
        }
    };
    row.samples.iter().map(one).collect::<Vec<_>>().join("; ")
}
