//! Tables with a header: any CSV whose columns the manifest maps.
//!
//! A number may be followed by a unit: the unit of a time beats the declared one (`1.2ms`), a
//! rate takes only the usual spellings of "per second", and the unit of another figure becomes
//! the metric's, provided that all rows have the same. `N/A`, `-`, `---` and blanks are no value.

use crate::{
    figures::{Draft, Field, Figure, FigureError, finish},
    notation::Notation,
    parsed::{Parsed, metric_name},
    records::lines,
};
use dragstrip_crds::{
    measured::{LatencySummary, Metric},
    units::Decimal,
    workload::{CsvColumn, CsvMeaning, CsvParser, TimeUnit},
};

/// What tools write where they have no value.
const NO_VALUE: [&str; 5] = ["", "-", "---", "N/A", "n/a"];
/// The name of the metric that [`CsvMeaning::TimePerOperation`] becomes.
const TIME_PER_OPERATION: &str = "ns/op";

#[derive(Debug, thiserror::Error)]
pub enum CsvError {
    #[error("no operation name: add a column with meaning Operation, or set operation")]
    NoOperation,
    #[error("columns {first:?} and {second:?} mean the same")]
    SameMeaning { first: String, second: String },
    /// Not CSV, or rows of different lengths.
    #[error("cannot read the table")]
    Table(#[source] csv::Error),
    #[error("a quoted field of the table has no end: the file is cut short")]
    Quote,
    #[error("the table has no column {header:?}; it has {found}")]
    NoColumn { header: String, found: String },
    #[error("the table has two columns {0:?}")]
    TwoColumns(String),
    #[error("line {line}: a second row of operation {operation:?}; each operation may have one")]
    Twice { line: u64, operation: String },
    #[error("line {line}: column {header:?} names no operation")]
    NoName { line: u64, header: String },
    #[error("line {line}, column {header:?}: {source}")]
    Cell { line: u64, header: String, source: FigureError },
    #[error("line {line}: {metric} is in {unit:?}, but in {expected:?} in a row before")]
    Unit { line: u64, metric: String, unit: String, expected: String },
}

/// Checks that the options make sense by themselves.
pub fn check(options: &CsvParser) -> Result<(), CsvError> {
    for (position, column) in options.columns.iter().enumerate() {
        if let Some(twin) = options.columns[..position].iter().find(|other| same_meaning(column, other)) {
            return Err(CsvError::SameMeaning { first: twin.header.clone(), second: column.header.clone() });
        }
    }
    let named = options.columns.iter().any(|column| column.meaning == CsvMeaning::Operation);
    if named || options.operation.is_some() { Ok(()) } else { Err(CsvError::NoOperation) }
}

fn percent(column: &CsvColumn) -> Option<f64> {
    column.percentile.as_ref().map(Decimal::value)
}

fn same_meaning(one: &CsvColumn, other: &CsvColumn) -> bool {
    one.meaning == other.meaning && percent(one) == percent(other) && one.metric == other.metric
}

pub fn parse(options: &CsvParser, text: &str) -> Result<Parsed, CsvError> {
    check(options)?;
    let lines = lines(text);
    if !lines.complete.matches('"').count().is_multiple_of(2) {
        return Err(CsvError::Quote);
    }
    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(lines.complete.as_bytes());
    let positions = positions(options, reader.headers().map_err(CsvError::Table)?)?;
    let mut table = Table::default();
    for record in reader.records() {
        let record = record.map_err(CsvError::Table)?;
        let number = record.position().map_or(0, csv::Position::line);
        let cells: Vec<_> =
            options.columns.iter().zip(positions.iter().map(|position| &record[*position])).collect();
        table.add(options, &cells, number)?;
    }
    let (operations, seconds) = finish(table.drafts);
    let metrics = table.metrics.into_iter().map(|(_, metric)| metric).collect();
    Ok(Parsed { operations, metrics, seconds, incomplete: lines.incomplete(), ..Parsed::default() })
}

fn positions(options: &CsvParser, headers: &csv::StringRecord) -> Result<Vec<usize>, CsvError> {
    // Spreadsheets put a byte order mark in front of the first header.
    let headers: Vec<_> = headers.iter().map(|header| header.trim_start_matches('\u{feff}')).collect();
    let position = |column: &CsvColumn| {
        let mut found = headers.iter().enumerate().filter(|(_, header)| **header == column.header);
        match (found.next(), found.next()) {
            (Some((position, _)), None) => Ok(position),
            (Some(_), Some(_)) => Err(CsvError::TwoColumns(column.header.clone())),
            (None, _) => {
                let found = headers.join(", ").chars().take(300).collect();
                Err(CsvError::NoColumn { header: column.header.clone(), found })
            }
        }
    };
    options.columns.iter().map(position).collect()
}

#[derive(Default)]
struct Table<'a> {
    /// Operations that have a row.
    names: Vec<String>,
    drafts: Vec<Draft>,
    /// Metrics, with their column's name for them.
    metrics: Vec<(&'a str, Metric)>,
}

impl<'a> Table<'a> {
    fn add(
        &mut self,
        options: &'a CsvParser,
        cells: &[(&'a CsvColumn, &str)],
        line: u64,
    ) -> Result<(), CsvError> {
        let name = name(options, cells, line)?;
        if self.names.iter().any(|other| other == name) {
            return Err(CsvError::Twice { line, operation: name.to_owned() });
        }
        let mut draft = Draft::named(name);
        let mut metrics = Vec::new();
        for (column, cell) in cells.iter().filter(|(_, cell)| !NO_VALUE.contains(cell)) {
            let failed = |source| CsvError::Cell { line, header: column.header.clone(), source };
            let figure = Figure { text: cell, notation: Notation::PLAIN, unit: column.unit };
            if let Some(field) = field(column) {
                draft.store(field, &figure).map_err(failed)?;
            } else if column.meaning != CsvMeaning::Operation {
                let metric = metric(name, column, &figure).map_err(failed)?;
                self.same_unit(line, &metric)?;
                metrics.push(metric);
            }
        }
        if was_skipped(&draft) {
            return Ok(());
        }
        self.names.push(name.to_owned());
        if !draft.filled.is_empty() {
            self.drafts.push(draft);
        }
        self.metrics.append(&mut metrics);
        Ok(())
    }

    /// 900 MiB and 1.2 GiB do not make a column of numbers.
    fn same_unit(&self, line: u64, (name, metric): &(&str, Metric)) -> Result<(), CsvError> {
        let other = self.metrics.iter().find(|(other, before)| other == name && before.unit != metric.unit);
        let Some((_, other)) = other else { return Ok(()) };
        let text = |metric: &Metric| metric.unit.clone().unwrap_or_default();
        let (metric_name, unit, expected) = ((*name).to_owned(), text(metric), text(other));
        Err(CsvError::Unit { line, metric: metric_name, unit, expected })
    }
}

fn name<'a>(options: &'a CsvParser, cells: &[(&CsvColumn, &'a str)], line: u64) -> Result<&'a str, CsvError> {
    let column = cells.iter().find(|(column, _)| column.meaning == CsvMeaning::Operation);
    match (column, &options.operation) {
        (Some((column, "")), _) => Err(CsvError::NoName { line, header: column.header.clone() }),
        (Some((_, name)), _) => Ok(name),
        (None, Some(name)) => Ok(name),
        (None, None) => Err(CsvError::NoOperation),
    }
}

/// The field of the operation that a column fills; `None` if it fills none.
fn field(column: &CsvColumn) -> Option<Field> {
    Some(match column.meaning {
        CsvMeaning::Count => Field::Count,
        CsvMeaning::Errors => Field::Errors,
        CsvMeaning::OperationsPerSecond => Field::OperationsPerSecond,
        CsvMeaning::Duration => Field::Seconds,
        CsvMeaning::MeanLatency => Field::MeanLatency,
        CsvMeaning::MaximumLatency => Field::MaximumLatency,
        CsvMeaning::LatencyPercentile => Field::Percentile(percent(column)?),
        CsvMeaning::Operation | CsvMeaning::TimePerOperation | CsvMeaning::Metric => return None,
    })
}

/// The figure in a cell, and its column's name for it.
fn metric<'a>(
    operation: &str,
    column: &'a CsvColumn,
    figure: &Figure,
) -> Result<(&'a str, Metric), FigureError> {
    let (name, (value, unit)) = match column.meaning {
        CsvMeaning::TimePerOperation => {
            (TIME_PER_OPERATION, (figure.time(TimeUnit::Nanoseconds)?, TIME_PER_OPERATION))
        }
        _ => (column.metric.as_deref().unwrap_or_default(), figure.with_unit()?),
    };
    let unit = Some(unit.to_owned()).filter(|unit| !unit.is_empty()).or_else(|| column.metric_unit.clone());
    let less = (column.meaning == CsvMeaning::TimePerOperation).then_some(false);
    let metric = Metric {
        name: metric_name(Some(operation), name),
        value,
        unit,
        merge: column.merge,
        more_is_better: column.more_is_better.or(less),
    };
    Ok((name, metric))
}

/// Tools list what they skipped with zeros, which are not a measurement.
fn was_skipped(draft: &Draft) -> bool {
    let Draft { operation, filled, .. } = draft;
    let counted = filled.contains(&Field::Count);
    let rate = operation.tool_operations_per_second;
    let nothing_done = operation.count == 0 && rate.is_none_or(|rate| rate <= 0.0);
    let no_latency = operation.latency_milliseconds == LatencySummary::default();
    no_latency && nothing_done && (counted || rate.is_some())
}

#[cfg(test)]
mod tests;
