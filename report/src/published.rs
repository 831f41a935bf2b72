//! published.csv: a table that somebody published, which a report compares with. Pure.
//!
//! Columns variant, one for each axis, phase, operation, metric and value, and optionally unit
//! and note. Lines `# name: value` in front of the head say under what conditions it was
//! measured, by the names of facts such as `server.version`, and where it is from.

use crate::{
    comparability::Facts,
    document::{AxisHead, Cell, Document, Row},
};
use dragstrip_crds::{
    near::{alike, near},
    thresholds::MetricName,
};
use dragstrip_results::result::TOTAL;
use std::collections::BTreeMap;

/// What a table may speak of.
#[derive(Debug, Clone, Default)]
pub struct Known {
    /// Names of the suite's variants.
    pub variants: Vec<String>,
    /// Its axes.
    pub axes: Vec<AxisHead>,
    /// Names of its phases; any when empty.
    pub phases: Vec<String>,
}

/// A published table.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Table {
    /// Its figures, in the order of its lines.
    pub figures: Vec<Figure>,
    /// What its head says, by name such as server.version or source.
    pub facts: Facts,
    /// Lines of variants and values that are not measured here, which `# partial: true` allows.
    pub left_out: usize,
}

/// One published figure.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// The combination.
    pub cell: Cell,
    /// The phase.
    pub phase: String,
    /// The operation; that of all together where the column is empty.
    pub operation: String,
    /// The metric.
    pub metric: String,
    /// The figure, in the metric's unit.
    pub value: f64,
    /// The unit that the table names; empty where it names none.
    pub unit: String,
    /// What the table says of it.
    pub note: Option<String>,
}

/// Why a table cannot be used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The head lacks a column.
    #[error("line {line}: column {column:?} is missing: the head has {found}{}", remedy(.hint))]
    MissingColumn {
        /// The head's line.
        line: u64,
        /// What is missing.
        column: String,
        /// What is there.
        found: String,
        /// A remedy, or nothing.
        hint: String,
    },
    /// The head has a column that is none.
    #[error("line {line}: column {column:?} is there twice, or unknown: allowed are {allowed}, each once")]
    UnknownColumn {
        /// The head's line.
        line: u64,
        /// The column.
        column: String,
        /// What may be there.
        allowed: String,
    },
    /// A line has too many or too few fields.
    #[error("line {line}: {found} fields under a head of {expected}{}", remedy(.hint))]
    Fields {
        /// The line.
        line: u64,
        /// How many it has.
        found: usize,
        /// How many the head has.
        expected: usize,
        /// A remedy, or nothing.
        hint: String,
    },
    /// A value is no number.
    #[error("line {line}, column {column:?}: {found:?} is not a number{}", remedy(.hint))]
    Number {
        /// The line.
        line: u64,
        /// The column.
        column: String,
        /// What is there.
        found: String,
        /// A remedy.
        hint: String,
    },
    /// A name is unknown.
    #[error("line {line}, column {column:?}: {found:?} is unknown{}", remedy(.hint))]
    Name {
        /// The line.
        line: u64,
        /// The column.
        column: String,
        /// What is there.
        found: String,
        /// What was perhaps meant.
        hint: String,
    },
    /// A unit is not the metric's.
    #[error(
        "line {line}, column \"unit\": {metric} is in {unit}, not in {found:?}: write the value in {unit}"
    )]
    Unit {
        /// The line.
        line: u64,
        /// The metric.
        metric: String,
        /// Its unit.
        unit: String,
        /// What is there.
        found: String,
    },
    /// Two lines are about the same figure.
    #[error("line {line}: the same figure as in line {first} ({what})")]
    Duplicate {
        /// The second line.
        line: u64,
        /// The first one.
        first: u64,
        /// The figure.
        what: String,
    },
    /// It is no CSV.
    #[error("not CSV: {0}")]
    Csv(String),
    /// There is no figure in it.
    #[error(
        "the table is empty: it needs a head with columns variant, phase, operation, metric, value and one for each axis, and lines of figures"
    )]
    Empty,
}

fn remedy(hint: &str) -> String {
    if hint.is_empty() { String::new() } else { format!(": {hint}") }
}

fn hint<'a>(name: &str, known: impl Iterator<Item = &'a str> + Clone) -> String {
    let near = near(name, known.clone());
    if near.is_empty() {
        format!("there are {}", known.collect::<Vec<_>>().join(", "))
    } else {
        format!("did you mean {}?", near.join(" or "))
    }
}

/// Where each column is.
struct Columns {
    line: u64,
    places: BTreeMap<String, usize>,
    count: usize,
}

impl Columns {
    fn of(head: &csv::StringRecord, known: &Known) -> Result<Self, Error> {
        let line = head.position().map_or(1, csv::Position::line);
        let names: Vec<&str> = head.iter().map(str::trim).collect();
        let axes = known.axes.iter().map(|axis| axis.name.as_str());
        let needed =
            || ["variant"].into_iter().chain(axes.clone()).chain(["phase", "operation", "metric", "value"]);
        let allowed: Vec<&str> = needed().chain(["unit", "note"]).collect();
        if let Some(column) = needed().find(|column| !names.contains(column)) {
            let semicolons = names.len() == 1 && names.iter().any(|name| name.contains(';'));
            let near = near(column, names.iter().copied().filter(|name| !allowed.contains(name)));
            let hint = match near.first() {
                _ if semicolons => "separate columns by commas, not by semicolons".to_owned(),
                Some(near) => format!("is it what is called {near:?}?"),
                None => String::new(),
            };
            return Err(Error::MissingColumn {
                line,
                column: column.to_owned(),
                found: names.join(", "),
                hint,
            });
        }
        let twice = |name: &&&str| names.iter().filter(|other| other == name).count() > 1;
        if let Some(column) = names.iter().find(|name| !allowed.contains(name) || twice(name)) {
            let column = (*column).to_owned();
            return Err(Error::UnknownColumn { line, column, allowed: allowed.join(", ") });
        }
        let places = names.iter().enumerate().map(|(place, name)| ((*name).to_owned(), place)).collect();
        Ok(Self { line, places, count: names.len() })
    }

    fn get<'a>(&self, record: &'a csv::StringRecord, column: &str) -> &'a str {
        self.places.get(column).and_then(|place| record.get(*place)).unwrap_or_default().trim()
    }
}

/// The facts in front of the head.
fn meta(text: &str) -> Facts {
    let lines = text.lines().take_while(|line| line.starts_with('#') || line.trim().is_empty());
    let pairs = lines.filter_map(|line| line.trim_start_matches('#').split_once(':'));
    pairs.map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned())).collect()
}

/// The table that `text` is.
pub fn parse(text: &str, known: &Known) -> Result<Table, Error> {
    let text = text.trim_start_matches('\u{feff}');
    let mut facts = meta(text);
    let partial = facts.remove("partial").is_some_and(|value| value == "true");
    let mut reader = csv::ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .comment(Some(b'#'))
        .from_reader(text.as_bytes());
    let mut records = reader.records();
    let head = records.next().ok_or(Error::Empty)?.map_err(|error| Error::Csv(error.to_string()))?;
    let columns = Columns::of(&head, known)?;
    let mut table = Table { facts, ..Table::default() };
    let mut lines: BTreeMap<String, u64> = BTreeMap::new();
    for record in records {
        let record = record.map_err(|error| Error::Csv(error.to_string()))?;
        let line = record.position().map_or(columns.line, csv::Position::line);
        if partial && is_elsewhere(&columns, &record, known) {
            table.left_out += 1;
            continue;
        }
        let figure = figure(&columns, &record, line, known)?;
        let what = format!(
            "{}, {} {} {}",
            figure.cell.label(&known.axes),
            figure.phase,
            figure.operation,
            figure.metric
        );
        if let Some(first) = lines.insert(what.clone(), line) {
            return Err(Error::Duplicate { line, first, what });
        }
        table.figures.push(figure);
    }
    if table.figures.is_empty() { Err(Error::Empty) } else { Ok(table) }
}

/// Whether a line is of a variant or value that is not measured here.
fn is_elsewhere(columns: &Columns, record: &csv::StringRecord, known: &Known) -> bool {
    let variant = columns.get(record, "variant");
    let unknown = |axis: &AxisHead| !axis.values.iter().any(|value| value == columns.get(record, &axis.name));
    !known.variants.iter().any(|name| name == variant) || known.axes.iter().any(unknown)
}

fn figure(columns: &Columns, record: &csv::StringRecord, line: u64, known: &Known) -> Result<Figure, Error> {
    if record.len() != columns.count {
        return Err(Error::Fields {
            line,
            found: record.len(),
            expected: columns.count,
            hint: if record.len() > columns.count {
                "a comma within a value? Write decimals with a point and without thousands separators, and texts with commas in quotes".to_owned()
            } else {
                String::new()
            },
        });
    }
    let name = |column: &str, names: &[String]| {
        let found = columns.get(record, column).to_owned();
        if names.contains(&found) {
            return Ok(found);
        }
        let hint = hint(&found, names.iter().map(String::as_str));
        Err(Error::Name { line, column: column.to_owned(), found, hint })
    };
    let variant = name("variant", &known.variants)?;
    let values = known.axes.iter().map(|axis| name(&axis.name, &axis.values)).collect::<Result<_, _>>()?;
    let phase = if known.phases.is_empty() {
        columns.get(record, "phase").to_owned()
    } else {
        name("phase", &known.phases)?
    };
    let operation = Some(columns.get(record, "operation")).filter(|name| !name.is_empty()).unwrap_or(TOTAL);
    let metric = metric(columns.get(record, "metric"), line)?;
    let unit = columns.get(record, "unit").to_owned();
    judge_unit(&metric, &unit, line)?;
    Ok(Figure {
        cell: Cell { variant, values },
        phase,
        operation: operation.to_owned(),
        metric,
        value: number(columns.get(record, "value"), line)?,
        unit,
        note: Some(columns.get(record, "note").to_owned()).filter(|note| !note.is_empty()),
    })
}

/// A known metric, or a figure of the tool's own: whatever is not nearly a known one.
fn metric(name: &str, line: u64) -> Result<String, Error> {
    if MetricName::named(name).is_some() {
        return Ok(name.to_owned());
    }
    let all: Vec<String> = MetricName::ALL.iter().map(ToString::to_string).collect();
    let near = near(name, all.iter().map(String::as_str));
    let close = |known: &&str| alike(name, known) >= 0.7;
    let looks_known = name.is_empty()
        || near.iter().any(|known| known.eq_ignore_ascii_case(name))
        || near.first().is_some_and(close);
    if looks_known {
        let hint = hint(name, all.iter().map(String::as_str));
        return Err(Error::Name { line, column: "metric".to_owned(), found: name.to_owned(), hint });
    }
    Ok(name.to_owned())
}

/// Refuses a unit in which a known `metric` is not: a factor of a thousand would go unseen.
/// What rates count has many names; the unit of a tool's own figure is known when it is measured.
fn judge_unit(metric: &str, found: &str, line: u64) -> Result<(), Error> {
    let Some(unit) = MetricName::named(metric).map(MetricName::unit) else { return Ok(()) };
    let counts = ["ops/s", "items/s", "jobs/s", "requests/s", "req/s", "QPS"];
    if found.is_empty() || found == unit || (counts.contains(&unit) && counts.contains(&found)) {
        return Ok(());
    }
    let unit = if unit.is_empty() { "no unit" } else { unit };
    Err(Error::Unit { line, metric: metric.to_owned(), unit: unit.to_owned(), found: found.to_owned() })
}

fn number(found: &str, line: u64) -> Result<f64, Error> {
    let plain = found.chars().all(|c| c.is_ascii_digit() || matches!(c, '.' | '-' | '+' | 'e' | 'E'));
    if let Some(value) = found.parse::<f64>().ok().filter(|value| plain && value.is_finite() && *value >= 0.0)
    {
        return Ok(value);
    }
    let separators = [',', ' ', '\'', '_', '\u{a0}', '\u{202f}'];
    let digits: String = found.chars().filter(|c| !separators.contains(c)).collect();
    let one_comma = found.matches(',').count() == 1 && !found.contains('.');
    // As 1.597,30 is written where the comma is before the fraction.
    let numeric = found.chars().all(|c| c.is_ascii_digit() || matches!(c, '.' | ','));
    let comma_last = numeric && found.matches(',').count() == 1 && found.rfind('.') < found.rfind(',');
    let after = found.rsplit(',').next().map_or(0, str::len);
    let hint = match digits.parse::<f64>() {
        Ok(_) if one_comma && after == 3 => {
            format!(
                "write {digits} if the comma separates thousands, and {} if it is a decimal comma",
                found.replace(',', ".")
            )
        }
        Ok(value) if value < 0.0 => "no figure is below 0".to_owned(),
        Ok(_) if one_comma => format!("a decimal comma? Write {}", found.replace(',', ".")),
        Err(_) | Ok(_) if comma_last => {
            format!("a decimal comma? Write {}", found.replace('.', "").replace(',', "."))
        }
        Ok(_) => format!("write it without thousands separators: {digits}"),
        Err(_) => "write digits alone, with a point before the fraction, in the metric's unit".to_owned(),
    };
    Err(Error::Number { line, column: "value".to_owned(), found: found.to_owned(), hint })
}

impl Figure {
    /// Whether it is of a tool's own metric, and not in the unit of `row`.
    pub fn is_in_another_unit(&self, row: &Row) -> bool {
        let known = MetricName::named(&self.metric).is_some();
        !known && !self.unit.is_empty() && !row.unit.is_empty() && self.unit != row.unit
    }
}

impl Table {
    /// The published figure of `row`; `only` says that its operation is the phase's only one,
    /// which is all of them together.
    pub fn find(&self, row: &Row, only: bool) -> Option<&Figure> {
        let of = |operation: &str| {
            let same = |figure: &&Figure| {
                figure.cell == row.cell
                    && figure.phase == row.phase
                    && figure.metric == row.metric
                    && figure.operation == operation
            };
            self.figures.iter().find(same)
        };
        of(&row.operation).or_else(|| if only { of(TOTAL) } else { None })
    }

    /// Where the table is from, and which of its figures `document` does not have.
    pub fn notes(&self, document: &Document) -> Vec<String> {
        let conditions = self.facts.iter().map(|(name, value)| format!("published: {name}: {value}"));
        let measured = |figure: &Figure| {
            document.rows.iter().any(|row| {
                row.cell == figure.cell
                    && row.phase == figure.phase
                    && row.metric == figure.metric
                    && (row.operation == figure.operation || figure.operation == TOTAL)
            })
        };
        let missing: Vec<&Figure> = self.figures.iter().filter(|figure| !measured(figure)).collect();
        let example = missing.first().map(|figure| {
            let label = figure.cell.label(&document.axes);
            format!("{label}, {} {} {}", figure.phase, figure.operation, figure.metric)
        });
        let missing = example.map(|example| {
            format!(
                "{} published figures have no measured counterpart, such as that of {example}",
                missing.len()
            )
        });
        let left_out = (self.left_out > 0).then(|| {
            format!("{} published figures are of variants and values not measured here", self.left_out)
        });
        conditions.chain(missing).chain(left_out).collect()
    }
}

#[cfg(test)]
mod tests;
