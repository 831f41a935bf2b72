//! Reads published.csv: a published table that a report compares with. Pure.
//!
//! Columns are variant, one for each axis, phase, operation, metric and value, and optionally unit
//! and note. Lines `# name: value` above the head give the source and the conditions of the
//! measurement, by the names of facts such as `server.version`.

use crate::document::{AxisHead, Cell, Document, Facts, Row};
use dragstrip_crds::{near::did_you_mean, thresholds::MetricName};
use dragstrip_results::result::TOTAL;
use serde::Deserialize;
use std::collections::BTreeMap;

/// The names that a table may use.
#[derive(Debug, Clone, Default)]
pub struct Scope {
    /// Variants of the suite.
    pub variants: Vec<String>,
    /// Axes of the suite.
    pub axes: Vec<AxisHead>,
    /// Phases of the suite; if empty, any name.
    pub phases: Vec<String>,
}

/// A published table.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Table {
    /// Its figures, in the order of its lines.
    pub figures: Vec<Figure>,
    /// The lines above the head, by name such as server.version or source.
    pub facts: Facts,
    /// Number of lines about variants and values that the suite does not measure, which
    /// `# partial: true` allows.
    pub omitted: usize,
}

/// One published figure.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// The combination.
    pub cell: Cell,
    /// The phase.
    pub phase: String,
    /// The operation; TOTAL if the column is empty.
    pub operation: String,
    /// The metric.
    pub metric: String,
    /// The value, in the unit of the metric.
    pub value: f64,
    /// The unit in the table; may be empty.
    pub unit: String,
    /// The note in the table.
    pub note: Option<String>,
}

/// Why a table cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The head lacks a column, or has an unknown one: its columns, and those that it must have.
    #[error("the columns are {0}: use {1}, and optionally unit and note, separated by commas")]
    Columns(String, String),
    /// A value is not a number.
    #[error(
        "line {0}, column \"value\": {1:?} is not a number: write only digits, with a point before the fraction and without thousands separators, in the unit of the metric"
    )]
    Number(u64, String),
    /// A name is unknown: line, column, name, and similar names.
    #[error("line {0}, column {1:?}: {2:?} is unknown{3}")]
    Name(u64, String, String, String),
    /// The unit differs from the metric's: line, metric, its unit, and the unit in the table.
    #[error("line {0}, column \"unit\": the unit of {1} is {2}, not {3:?}: convert the value")]
    Unit(u64, String, &'static str, String),
    /// Two lines are about the same figure.
    #[error("line {0}: the same figure as in line {1} ({2})")]
    Duplicate(u64, u64, String),
    /// The text is not CSV, or a line does not match the head.
    #[error("not valid CSV; quote texts that contain commas")]
    Csv(#[from] csv::Error),
    /// The table has no figure.
    #[error("the table has no figure below its head")]
    Empty,
}

/// The columns of every table.
#[derive(Deserialize)]
struct Line {
    variant: String,
    phase: String,
    operation: String,
    metric: String,
    value: String,
    #[serde(default)]
    unit: String,
    note: Option<String>,
}

/// Read the table in `text`.
pub fn parse(text: &str, scope: &Scope) -> Result<Table, Error> {
    let text = text.trim_start_matches('\u{feff}');
    let mut facts = facts(text);
    let partial = facts.remove("partial").is_some_and(|value| value == "true");
    let mut reader =
        csv::ReaderBuilder::new().trim(csv::Trim::All).comment(Some(b'#')).from_reader(text.as_bytes());
    let head = reader.headers()?.clone();
    if head.is_empty() {
        return Err(Error::Empty);
    }
    check_head(&head, scope)?;
    let mut table = Table { facts, ..Table::default() };
    let mut lines: BTreeMap<String, u64> = BTreeMap::new();
    for record in reader.records() {
        let record = record?;
        let number = record.position().map_or(0, csv::Position::line);
        let line: Line = record.deserialize(Some(&head))?;
        let value = |axis: &AxisHead| {
            let place = head.iter().position(|column| column == axis.name);
            place.and_then(|place| record.get(place)).unwrap_or_default().to_owned()
        };
        let cell = Cell { variant: line.variant.clone(), values: scope.axes.iter().map(value).collect() };
        if let Err(error) = check_cell(number, &cell, scope) {
            if partial {
                table.omitted += 1;
                continue;
            }
            return Err(error);
        }
        let figure = figure(number, cell, line, scope)?;
        let what = figure.label(&scope.axes);
        if let Some(first) = lines.insert(what.clone(), number) {
            return Err(Error::Duplicate(number, first, what));
        }
        table.figures.push(figure);
    }
    if table.figures.is_empty() { Err(Error::Empty) } else { Ok(table) }
}

/// The facts above the head.
fn facts(text: &str) -> Facts {
    let lines = text.lines().take_while(|line| line.starts_with('#') || line.trim().is_empty());
    let pairs = lines.filter_map(|line| line.trim_start_matches('#').split_once(':'));
    pairs.map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned())).collect()
}

fn check_head(head: &csv::StringRecord, scope: &Scope) -> Result<(), Error> {
    let axes = scope.axes.iter().map(|axis| axis.name.as_str());
    let needed: Vec<&str> =
        ["variant"].into_iter().chain(axes).chain(["phase", "operation", "metric", "value"]).collect();
    let columns = |names: &[&str]| {
        names.iter().filter(|name| head.iter().filter(|one| one == *name).count() == 1).count()
    };
    let optional = columns(&["unit", "note"]);
    if columns(&needed) == needed.len() && head.len() == needed.len() + optional {
        return Ok(());
    }
    Err(Error::Columns(head.iter().collect::<Vec<_>>().join(", "), needed.join(", ")))
}

fn check_name(line: u64, column: &str, found: &str, names: &[String]) -> Result<(), Error> {
    if names.iter().any(|name| name == found) {
        return Ok(());
    }
    let mut hint = did_you_mean(found, names.iter().map(String::as_str));
    if hint.is_empty() {
        hint = format!("; expected one of {}", names.join(", "));
    }
    Err(Error::Name(line, column.to_owned(), found.to_owned(), hint))
}

fn check_cell(line: u64, cell: &Cell, scope: &Scope) -> Result<(), Error> {
    check_name(line, "variant", &cell.variant, &scope.variants)?;
    let mut values = scope.axes.iter().zip(&cell.values);
    values.try_for_each(|(axis, value)| check_name(line, &axis.name, value, &axis.values))
}

fn figure(number: u64, cell: Cell, line: Line, scope: &Scope) -> Result<Figure, Error> {
    if !scope.phases.is_empty() {
        check_name(number, "phase", &line.phase, &scope.phases)?;
    }
    check_unit(number, &line.metric, &line.unit)?;
    let value = line.value.parse::<f64>().ok().filter(|value| value.is_finite() && *value >= 0.0);
    Ok(Figure {
        cell,
        phase: line.phase,
        operation: if line.operation.is_empty() { TOTAL.to_owned() } else { line.operation },
        metric: line.metric,
        value: value.ok_or(Error::Number(number, line.value))?,
        unit: line.unit,
        note: line.note.filter(|note| !note.is_empty()),
    })
}

/// Refuses another unit than that of a standard metric: nobody would notice a factor of a thousand.
/// The unit of a tool's own metric is checked when it is compared.
fn check_unit(line: u64, metric: &str, found: &str) -> Result<(), Error> {
    let Some(unit) = MetricName::named(metric).map(MetricName::unit) else { return Ok(()) };
    if found.is_empty() || found == unit {
        return Ok(());
    }
    let unit = if unit.is_empty() { "1" } else { unit };
    Err(Error::Unit(line, metric.to_owned(), unit, found.to_owned()))
}

impl Figure {
    fn label(&self, axes: &[AxisHead]) -> String {
        format!("{}, {} {} {}", self.cell.label(axes), self.phase, self.operation, self.metric)
    }

    /// Whether this is a tool's own metric in another unit than `row`.
    pub fn has_another_unit(&self, row: &Row) -> bool {
        let standard = MetricName::named(&self.metric).is_some();
        !standard && !self.unit.is_empty() && !row.unit.is_empty() && self.unit != row.unit
    }

    fn is_same_metric(&self, row: &Row) -> bool {
        (&self.cell, &self.phase, &self.metric) == (&row.cell, &row.phase, &row.metric)
    }
}

impl Table {
    /// The published figure of `row`; with `single`, its operation is the only one and has the
    /// figures of the total too.
    pub fn find(&self, row: &Row, single: bool) -> Option<&Figure> {
        let of = |operation: &str| {
            self.figures.iter().find(|figure| figure.is_same_metric(row) && figure.operation == operation)
        };
        of(&row.operation).or_else(|| of(TOTAL).filter(|_| single))
    }

    /// The source of the table, and the figures that have no counterpart in `document`.
    pub fn notes(&self, document: &Document) -> Vec<String> {
        let facts = self.facts.iter().map(|(name, value)| format!("published: {name}: {value}"));
        let is_measured = |figure: &Figure| {
            let same = |row: &Row| row.operation == figure.operation || figure.operation == TOTAL;
            document.rows.iter().any(|row| figure.is_same_metric(row) && same(row))
        };
        let missing: Vec<&Figure> = self.figures.iter().filter(|figure| !is_measured(figure)).collect();
        let example = missing.first().map(|figure| figure.label(&document.axes));
        let missing = example.map(|example| {
            format!("{} published figures have no measured counterpart, for example {example}", missing.len())
        });
        let omitted = (self.omitted > 0).then(|| {
            format!("{} published figures are about variants and values not measured here", self.omitted)
        });
        facts.chain(missing).chain(omitted).collect()
    }
}

#[cfg(test)]
mod tests;
