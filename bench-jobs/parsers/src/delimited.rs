//! Tables with a header: any CSV whose columns the spec maps.
//!
//! Numbers are read in the declared notation and in no other. A number may be
//! followed by a unit: of times it is understood (`1.2ms`, and it beats the
//! declared unit), of rates only the usual spellings of "per second" are taken,
//! and of other figures it becomes the metric's unit, provided that all rows
//! have the same. `N/A`, `-`, `---` and blanks are no value.

use crate::{
    notation::{Notation, NotationError, NumberError},
    parsed::{LatencyReport, Metric, Operation, Parsed, PrintedLatency, only_duration},
    records::lines,
    time::{self, TimeError},
};
use dragstrip_crds::{
    units::Decimal,
    workload::{CsvColumn, CsvMeaning, CsvParser, TimeUnit},
};

/// What tools write where they have no value.
const NO_VALUE: [&str; 5] = ["", "-", "---", "N/A", "n/a"];
/// Units of a rate that mean operations per second and nothing else.
const PER_SECOND: [&str; 9] =
    ["", "/s", "ops/s", "ops/sec", "op/s", "req/s", "req/sec", "requests/sec", "requests/s"];
/// The name under which [`CsvMeaning::TimePerOperation`] is kept.
const TIME_PER_OPERATION: &str = "ns/op";

/// Why a table gave no result.
#[derive(Debug, thiserror::Error)]
pub enum CsvError {
    /// The declared separators make no notation.
    #[error(transparent)]
    Notation(#[from] NotationError),
    /// The delimiter is no single ASCII character.
    #[error("delimiter {0:?} must be one ASCII character that is no digit, letter, quote or end of a line")]
    Delimiter(String),
    /// Neither a column nor the spec names the operation.
    #[error("nothing names the operation: add a column with meaning Operation, or set operation")]
    NoOperation,
    /// Two columns have a meaning that only one can have.
    #[error("columns {first:?} and {second:?} mean the same")]
    SameMeaning {
        /// One header.
        first: String,
        /// The other.
        second: String,
    },
    /// A column's options do not go together.
    #[error("column {header:?} has the meaning {meaning:?} and so needs {needed}")]
    Option {
        /// Its header.
        header: String,
        /// Its meaning.
        meaning: CsvMeaning,
        /// What is missing.
        needed: &'static str,
    },
    /// Not CSV, or rows of different lengths.
    #[error("the table cannot be read")]
    Table(#[source] csv::Error),
    /// A quote was opened and not closed.
    #[error("a quoted field of the table has no end: the file is cut short, or set quoted: false")]
    Quote,
    /// There is no such column.
    #[error("the table has no column {header:?}; it has {found}")]
    NoColumn {
        /// The header that was asked for.
        header: String,
        /// Those that are there.
        found: String,
    },
    /// There are two such columns.
    #[error("the table has two columns {0:?}")]
    TwoColumns(String),
    /// Two rows of one operation.
    #[error(
        "line {line}: a second row of operation {operation:?}: what several rows of one operation mean is not known"
    )]
    Twice {
        /// Which line, from 1.
        line: u64,
        /// The operation.
        operation: String,
    },
    /// A row without the name of its operation.
    #[error("line {line}: column {header:?} names no operation")]
    NoName {
        /// Which line, from 1.
        line: u64,
        /// The column.
        header: String,
    },
    /// A cell is no number.
    #[error("line {line}, column {header:?}: {source}")]
    Number {
        /// Which line, from 1.
        line: u64,
        /// The column.
        header: String,
        /// What is wrong.
        source: NumberError,
    },
    /// A cell is no time.
    #[error("line {line}, column {header:?}: {source}")]
    Time {
        /// Which line, from 1.
        line: u64,
        /// The column.
        header: String,
        /// What is wrong.
        source: TimeError,
    },
    /// A cell has a unit that would have to be guessed.
    #[error("line {line}, column {header:?}: {cell:?} has the unit {unit:?}, but {expected}")]
    Unit {
        /// Which line, from 1.
        line: u64,
        /// The column.
        header: String,
        /// The cell.
        cell: String,
        /// Its unit.
        unit: String,
        /// What would be understood.
        expected: String,
    },
}

/// Whether the options make sense by themselves.
pub fn check(options: &CsvParser) -> Result<(), CsvError> {
    Table::new(options).map(|_| ())
}

/// Reads a table.
pub fn parse(options: &CsvParser, text: &str) -> Result<Parsed, CsvError> {
    let table = Table::new(options)?;
    let lines = lines(text);
    if options.quoted && !lines.whole.matches('"').count().is_multiple_of(2) {
        return Err(CsvError::Quote);
    }
    let mut reader = csv::ReaderBuilder::new()
        .delimiter(table.delimiter)
        .quoting(options.quoted)
        .trim(csv::Trim::All)
        .from_reader(lines.whole.as_bytes());
    let positions = positions(options, reader.headers().map_err(CsvError::Table)?)?;
    let mut parsed = Parsed { incomplete: lines.incomplete(), ..Parsed::default() };
    for record in reader.records() {
        let record = record.map_err(CsvError::Table)?;
        let line = record.position().map_or(0, csv::Position::line);
        let cells: Vec<_> =
            options.columns.iter().zip(positions.iter().map(|position| &record[*position])).collect();
        table.row(line, &cells, &mut parsed)?;
    }
    parsed.seconds = only_duration(&parsed.operations);
    Ok(parsed)
}

/// Where the columns are.
fn positions(options: &CsvParser, headers: &csv::StringRecord) -> Result<Vec<usize>, CsvError> {
    // Spreadsheets put a byte order mark in front of the first header.
    let headers: Vec<_> = headers.iter().map(|header| header.trim_start_matches('\u{feff}')).collect();
    let position = |column: &CsvColumn| {
        let mut found = headers.iter().enumerate().filter(|(_, header)| **header == column.header);
        match (found.next(), found.next()) {
            (Some((position, _)), None) => Ok(position),
            (Some(_), Some(_)) => Err(CsvError::TwoColumns(column.header.clone())),
            (None, _) => Err(CsvError::NoColumn { header: column.header.clone(), found: shown(&headers) }),
        }
    };
    options.columns.iter().map(position).collect()
}

fn shown(headers: &[&str]) -> String {
    let mut text: String = headers.join(", ").chars().take(300).collect();
    if text.is_empty() {
        text.push_str("none");
    }
    text
}

/// The checked options.
struct Table<'a> {
    options: &'a CsvParser,
    notation: Notation,
    delimiter: u8,
}

impl<'a> Table<'a> {
    fn new(options: &'a CsvParser) -> Result<Self, CsvError> {
        let notation = Notation::new(&options.decimal_separator, options.thousands_separator.as_deref())?;
        let delimiter = match *options.delimiter.as_bytes() {
            [byte] if byte.is_ascii() && !byte.is_ascii_alphanumeric() && !b"\"\r\n".contains(&byte) => byte,
            _ => return Err(CsvError::Delimiter(options.delimiter.clone())),
        };
        for (position, column) in options.columns.iter().enumerate() {
            check_column(column)?;
            let twin = options.columns[..position].iter().find(|other| same_meaning(column, other));
            if let Some(twin) = twin {
                return Err(CsvError::SameMeaning {
                    first: twin.header.clone(),
                    second: column.header.clone(),
                });
            }
        }
        let named = options.columns.iter().any(|column| column.meaning == CsvMeaning::Operation);
        if !named && options.operation.is_none() {
            return Err(CsvError::NoOperation);
        }
        Ok(Self { options, notation, delimiter })
    }

    fn row(&self, line: u64, cells: &[(&CsvColumn, &str)], parsed: &mut Parsed) -> Result<(), CsvError> {
        let name = self.name(line, cells)?;
        if parsed.operations.iter().any(|known| known.name == name)
            || parsed.metrics.iter().any(|known| known.operation.as_deref() == Some(name))
        {
            return Err(CsvError::Twice { line, operation: name.to_owned() });
        }
        let mut row = Row { operation: Operation::named(name), ..Row::default() };
        for (column, cell) in cells.iter().filter(|(_, cell)| !NO_VALUE.contains(cell)) {
            self.cell(line, column, cell, &mut row)?;
        }
        same_units(line, &row.metrics, parsed, cells)?;
        row.finish(line, parsed);
        Ok(())
    }

    fn name<'c>(&'c self, line: u64, cells: &[(&CsvColumn, &'c str)]) -> Result<&'c str, CsvError> {
        let column = cells.iter().find(|(column, _)| column.meaning == CsvMeaning::Operation);
        match (column, &self.options.operation) {
            (Some((column, "")), _) => Err(CsvError::NoName { line, header: column.header.clone() }),
            (Some((_, name)), _) => Ok(name),
            (None, Some(name)) => Ok(name),
            (None, None) => Err(CsvError::NoOperation),
        }
    }

    fn cell(&self, line: u64, column: &CsvColumn, cell: &str, row: &mut Row) -> Result<(), CsvError> {
        let time = |target| {
            time::read(cell, self.notation, column.unit, target).map_err(|source| CsvError::Time {
                line,
                header: column.header.clone(),
                source,
            })
        };
        match column.meaning {
            CsvMeaning::Operation => {}
            CsvMeaning::Count => row.operation.count = Some(self.count(line, column, cell)?),
            CsvMeaning::Errors => row.operation.errors = Some(self.count(line, column, cell)?),
            CsvMeaning::OperationsPerSecond => {
                row.operation.operations_per_second = Some(self.rate(line, column, cell)?);
            }
            CsvMeaning::Duration => row.operation.seconds = Some(time(TimeUnit::Seconds)?),
            CsvMeaning::TimePerOperation => {
                let value = time(TimeUnit::Nanoseconds)?;
                row.metric(TIME_PER_OPERATION, value, TIME_PER_OPERATION, column);
            }
            CsvMeaning::MeanLatency => row.latency().mean = Some(time(TimeUnit::Milliseconds)?),
            CsvMeaning::MaximumLatency => row.latency().maximum = Some(time(TimeUnit::Milliseconds)?),
            CsvMeaning::LatencyPercentile => {
                let milliseconds = time(TimeUnit::Milliseconds)?;
                // Twins were refused before, so that none is there yet.
                row.latency().add_percentile(percent(column).unwrap_or_default(), milliseconds);
            }
            CsvMeaning::Metric => {
                let (value, unit) = self.figure(line, column, cell)?;
                row.metric(column.metric.as_deref().unwrap_or_default(), value, unit, column);
            }
        }
        Ok(())
    }

    fn count(&self, line: u64, column: &CsvColumn, cell: &str) -> Result<u64, CsvError> {
        self.notation.count(cell).map_err(|source| number_error(line, column, source))
    }

    fn rate(&self, line: u64, column: &CsvColumn, cell: &str) -> Result<f64, CsvError> {
        let (rate, unit) = self.figure(line, column, cell)?;
        if !PER_SECOND.contains(&unit) {
            let expected =
                format!("a rate is understood without a unit or with one of{}", PER_SECOND.join(" "));
            return Err(unit_error(line, column, cell, unit, expected));
        }
        if rate < 0.0 {
            return Err(number_error(line, column, NumberError::NotANumber(cell.to_owned())));
        }
        Ok(rate)
    }

    /// A number and the unit behind it.
    fn figure<'c>(&self, line: u64, column: &CsvColumn, cell: &'c str) -> Result<(f64, &'c str), CsvError> {
        let (number, unit) = cell.split_at(self.notation.length(cell));
        // "1.5 - 1.7" and "474 (*13)" hold two numbers, and which is meant is not known.
        let number = if unit.contains(|c: char| c.is_ascii_digit()) { cell } else { number };
        let value = self.notation.number(number).map_err(|source| number_error(line, column, source))?;
        Ok((value, unit.trim()))
    }
}

/// A metric must have one unit in all rows: 900 MiB and 1.2 GiB are no column of numbers.
fn same_units(
    line: u64,
    metrics: &[Metric],
    parsed: &Parsed,
    cells: &[(&CsvColumn, &str)],
) -> Result<(), CsvError> {
    for metric in metrics {
        let other =
            parsed.metrics.iter().find(|other| other.name == metric.name && other.unit != metric.unit);
        if let Some(other) = other
            && let Some((column, cell)) =
                cells.iter().find(|(column, _)| column.metric.as_deref() == Some(metric.name.as_str()))
        {
            let expected = format!("a row before has {:?}", other.unit.as_deref().unwrap_or_default());
            let unit = metric.unit.as_deref().unwrap_or_default();
            return Err(unit_error(line, column, cell, unit, expected));
        }
    }
    Ok(())
}

/// What a row gave so far.
#[derive(Default)]
struct Row {
    operation: Operation,
    latency: Option<PrintedLatency>,
    metrics: Vec<Metric>,
}

impl Row {
    fn latency(&mut self) -> &mut PrintedLatency {
        self.latency.get_or_insert_default()
    }

    fn metric(&mut self, name: &str, value: f64, unit: &str, column: &CsvColumn) {
        self.metrics.push(Metric {
            operation: Some(self.operation.name.clone()),
            name: name.to_owned(),
            value,
            unit: Some(unit.to_owned()).filter(|unit| !unit.is_empty()),
            samples: Vec::new(),
            merge: column.merge,
        });
    }

    fn finish(mut self, line: u64, parsed: &mut Parsed) {
        // What a tool skipped it lists with zeros, which are no measurement.
        let nothing_done =
            [self.operation.count.map(|count| count as f64), self.operation.operations_per_second]
                .into_iter()
                .flatten()
                .collect::<Vec<_>>();
        if !nothing_done.is_empty()
            && nothing_done.iter().all(|figure| *figure <= 0.0)
            && self.latency.is_none()
        {
            parsed.remarks.push(format!(
                "line {line}: {:?} was left out, its count or rate is 0 and it has no latency",
                self.operation.name
            ));
            return;
        }
        self.operation.latency = self.latency.map(LatencyReport::Printed);
        if !self.operation.is_bare() {
            parsed.operations.push(self.operation);
        }
        parsed.metrics.append(&mut self.metrics);
    }
}

fn check_column(column: &CsvColumn) -> Result<(), CsvError> {
    let needed = match column.meaning {
        CsvMeaning::LatencyPercentile if column.percentile.is_none() => "percentile",
        CsvMeaning::Metric if column.metric.is_none() => "metric",
        _ => return Ok(()),
    };
    Err(CsvError::Option { header: column.header.clone(), meaning: column.meaning, needed })
}

fn percent(column: &CsvColumn) -> Option<f64> {
    column.percentile.as_ref().map(Decimal::value)
}

fn same_meaning(one: &CsvColumn, other: &CsvColumn) -> bool {
    one.meaning == other.meaning && percent(one) == percent(other) && one.metric == other.metric
}

fn number_error(line: u64, column: &CsvColumn, source: NumberError) -> CsvError {
    CsvError::Number { line, header: column.header.clone(), source }
}

fn unit_error(line: u64, column: &CsvColumn, cell: &str, unit: &str, expected: String) -> CsvError {
    CsvError::Unit {
        line,
        header: column.header.clone(),
        cell: cell.to_owned(),
        unit: unit.to_owned(),
        expected,
    }
}

#[cfg(test)]
mod tests;
