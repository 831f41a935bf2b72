//! Tables as texts, for terminals and Markdown alike. Pure.

use super::{Phases, Pivot, cells, distinct, has_ratio, headline, phases, pivot, sign, told, varied};
use crate::{
    document::{Cell, Document, Row},
    figures::{figure, heading, interval, percent, spread},
};
use dragstrip_crds::{run::Verdict, suite::ComparisonVerdict, thresholds::MetricName};
use dragstrip_results::result::TOTAL;

/// In place of what was not measured.
const NOTHING: &str = "---";
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
        (None, Some(_)) => NOTHING.to_owned(),
    }
}

fn ratio(row: &Row) -> String {
    match &row.comparison {
        Some(found) if has_ratio(found) => interval(&found.ratio, found.interval_known),
        _ => NOTHING.to_owned(),
    }
}

/// What the measurements of no number that counts were.
fn struck(row: &Row, style: &Style) -> String {
    let values: Vec<String> =
        row.samples.iter().map(|sample| (style.struck)(&figure(&row.metric, sample.value))).collect();
    if values.is_empty() { NOTHING.to_owned() } else { values.join(" ") }
}

/// A figure with its interval.
fn value(row: Option<&Row>, style: &Style) -> String {
    match row {
        None => NOTHING.to_owned(),
        Some(row) => {
            row.spread.as_ref().map_or_else(|| struck(row, style), |found| spread(&row.metric, found))
        }
    }
}

/// A figure without its interval, and with a sign where it is Better or Worse.
fn brief(row: Option<&Row>, style: &Style) -> String {
    let Some(row) = row else { return NOTHING.to_owned() };
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
    /// Combinations with their operations.
    lines: Vec<(&'a Cell, &'a str)>,
    /// The metric with its interval and its comparison.
    headline: &'a str,
    /// Further metrics and their units.
    beside: Vec<(&'a str, &'a str)>,
}

/// The figures of each phase, a line for each combination and operation.
pub fn listings(document: &Document, style: &Style) -> Vec<Grid> {
    let rows = Phases::of(&document.rows);
    let of_phase = |phase| {
        let title = format!("{phase}: memory");
        let figures = figures(document, &rows, phase, style);
        let figures = figures.map(|shown| listing(document, &rows, &shown, phase, style));
        let memory = memory(document, phase).map(|shown| listing(document, &rows, &shown, &title, style));
        figures.into_iter().chain(memory)
    };
    phases(document).into_iter().flat_map(of_phase).collect()
}

fn figures<'a>(
    document: &'a Document,
    rows: &Phases<'a>,
    phase: &'a str,
    style: &Style,
) -> Option<Shown<'a>> {
    let headline = headline(document, phase)?;
    let of_cell = |cell| {
        let mut operations = rows.operations(cell, phase, headline);
        if operations.is_empty() {
            operations.push(NOTHING);
        }
        operations.into_iter().map(move |operation| (cell, operation))
    };
    let lines = cells(document).into_iter().flat_map(of_cell).collect();
    Some(Shown { phase, lines, headline, beside: beside(document, phase, headline, style) })
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
    let lines = cells(document).into_iter().map(|cell| (cell, TOTAL)).collect();
    Some(Shown { phase, lines, headline, beside })
}

fn listing(document: &Document, rows: &Phases<'_>, shown: &Shown<'_>, title: &str, style: &Style) -> Grid {
    let Shown { phase, lines, headline: metric, beside } = shown;
    let axes = varied(document);
    let lines: Vec<Line<'_>> = lines
        .iter()
        .map(|(cell, operation)| Line {
            cell,
            operation,
            headline: rows.find(cell, phase, operation, metric),
        })
        .collect();
    let operations = distinct(lines.iter().map(|line| line.operation).filter(|name| *name != NOTHING));
    let several = operations.len() > 1;
    let compared = document.baseline.is_some();
    let steps = axes.is_empty() && !several && document.variants.len() > 2;
    let told: Vec<String> = lines.iter().map(|line| notes(document, line, style)).collect();
    let noted = told.iter().any(|text| !text.is_empty());
    let unit = document.rows.iter().find(|row| row.metric == *metric).map_or("", |row| row.unit.as_str());
    let mut header = vec!["Variant".to_owned()];
    header.extend(axes.iter().map(|(_, axis)| axis.name.clone()));
    header.extend(several.then(|| "Operation".to_owned()));
    let names = header.len();
    header.push(format!("{} ±95%", heading(metric, unit)));
    header.extend(beside.iter().map(|(metric, unit)| heading(metric, unit)));
    header.extend(steps.then(|| "vs. above".to_owned()));
    if compared {
        header.extend([ratio_heading(document), "Verdict".to_owned()]);
    }
    header.extend(noted.then(|| "Notes".to_owned()));
    let mut above: Option<&Row> = None;
    let mut told_lines = Vec::new();
    for (line, told) in lines.iter().zip(told) {
        let mut cells = vec![line.cell.variant.clone()];
        cells.extend(axes.iter().map(|(axis, _)| line.cell.values.get(*axis).cloned().unwrap_or_default()));
        cells.extend(several.then(|| line.operation.to_owned()));
        cells.push(value(line.headline, style));
        let find = |metric: &str| rows.find(line.cell, phase, line.operation, metric);
        cells.extend(beside.iter().map(|(metric, _)| brief(find(metric), style)));
        cells.extend(steps.then(|| step(above, line.headline)));
        above = line.headline.filter(|row| row.spread.is_some()).or(above);
        if compared {
            cells.extend([ratio, verdict].map(|of| line.headline.map_or_else(|| NOTHING.to_owned(), of)));
        }
        cells.extend(noted.then_some(told));
        told_lines.push(cells);
    }
    Grid { title: title.to_owned(), header, lines: told_lines, names }
}

/// What `row` adds to `above`; nothing where one of them was measured under other conditions.
fn step(above: Option<&Row>, row: Option<&Row>) -> String {
    let mean = |row: Option<&Row>| {
        let row = row.filter(|row| row.comparison.as_ref().is_none_or(has_ratio))?;
        Some(row.spread?.mean)
    };
    let pair = mean(row).zip(mean(above).filter(|above| *above > 0.0));
    pair.map_or_else(|| NOTHING.to_owned(), |(mean, above)| percent(mean / above))
}

fn notes(document: &Document, line: &Line<'_>, style: &Style) -> String {
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
        let difference = pivot.difference.then(|| match rows.as_slice() {
            [first, second] => step(*first, *second),
            _ => NOTHING.to_owned(),
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
    let lines = told(document).into_iter().map(|row| {
        let mut line = vec![row.cell.variant.clone()];
        line.extend(axes.iter().map(|(axis, _)| row.cell.values.get(*axis).cloned().unwrap_or_default()));
        line.extend([row.phase.clone(), row.operation.clone(), heading(&row.metric, &row.unit)]);
        line.extend(statistics(row));
        if compared {
            let told = row.comparison.as_ref().filter(|found| has_ratio(found));
            let difference = told.map_or(NOTHING.to_owned(), |it| percent(it.ratio.mid));
            line.extend([ratio(row), difference, verdict(row)]);
        }
        line.push(measurements(row, style));
        line
    });
    Grid { title: String::new(), header, lines: lines.collect(), names }
}

fn statistics(row: &Row) -> [String; 5] {
    let Some(spread) = &row.spread else {
        return ["0", NOTHING, NOTHING, NOTHING, NOTHING].map(str::to_owned);
    };
    let known =
        |value: Option<f64>| value.map_or_else(|| NOTHING.to_owned(), |value| figure(&row.metric, value));
    let variation = spread.coefficient_of_variation;
    [
        spread.repetitions.to_string(),
        figure(&row.metric, spread.mean),
        known(spread.standard_deviation),
        variation.map_or_else(|| NOTHING.to_owned(), |variation| format!("{:.1} %", variation * 100.0)),
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
