//! One number of a tool's output and the field that it fills, for the parsers whose fields a
//! manifest declares: csv, regex and json. Pure.

use crate::{
    notation::{Notation, NumberError},
    parsed::{LatencyReport, Operation, PrintedLatency},
    time::{self, TimeError},
};
use dragstrip_crds::workload::TimeUnit;

/// Units of a rate that mean operations per second and nothing else.
const PER_SECOND: [&str; 9] =
    ["", "/s", "ops/s", "ops/sec", "op/s", "req/s", "req/sec", "requests/sec", "requests/s"];

/// Why a text cannot fill its field.
#[derive(Debug, thiserror::Error, Clone, PartialEq, Eq)]
pub enum FigureError {
    /// Not a number.
    #[error(transparent)]
    Number(#[from] NumberError),
    /// Not a time.
    #[error(transparent)]
    Time(#[from] TimeError),
    /// A rate whose unit would have to be guessed.
    #[error("{text:?} has the unit {unit:?}, but a rate has no unit or one of{}", PER_SECOND.join(" "))]
    Rate {
        /// The rate.
        text: String,
        /// Its unit.
        unit: String,
    },
}

/// What a number says of an operation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Field {
    Count,
    OperationsPerSecond,
    Errors,
    Hits,
    Misses,
    Bytes,
    Seconds,
    MeanLatency,
    MinimumLatency,
    MaximumLatency,
    Percentile(f64),
}

/// A number as the tool wrote it, and how to read it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Figure<'a> {
    pub(crate) text: &'a str,
    pub(crate) notation: Notation,
    /// The unit of a time that names none.
    pub(crate) unit: TimeUnit,
}

impl<'a> Figure<'a> {
    pub(crate) fn count(&self) -> Result<u64, FigureError> {
        Ok(self.notation.count(self.text)?)
    }

    pub(crate) fn time(&self, target: TimeUnit) -> Result<f64, FigureError> {
        Ok(time::read(self.text, self.notation, self.unit, target)?)
    }

    /// A number and the unit behind it.
    pub(crate) fn with_unit(&self) -> Result<(f64, &'a str), FigureError> {
        let text = self.text.trim();
        let (number, unit) = text.split_at(self.notation.length(text));
        // "1.5 - 1.7" and "474 (*13)" hold two numbers, and which is meant is unknown.
        let number = if unit.contains(|c: char| c.is_ascii_digit()) { text } else { number };
        Ok((self.notation.number(number)?, unit.trim()))
    }

    fn rate(&self) -> Result<f64, FigureError> {
        let (rate, unit) = self.with_unit()?;
        if !PER_SECOND.contains(&unit) {
            return Err(FigureError::Rate { text: self.text.to_owned(), unit: unit.to_owned() });
        }
        if rate < 0.0 { Err(NumberError::Negative(self.text.to_owned()).into()) } else { Ok(rate) }
    }
}

/// An operation while its fields are filled.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    pub(crate) operation: Operation,
    pub(crate) latency: Option<PrintedLatency>,
}

impl Draft {
    pub(crate) fn named(name: &str) -> Self {
        Self { operation: Operation::named(name), latency: None }
    }

    /// Fills `field`; `false` if it was filled before.
    pub(crate) fn store(&mut self, field: Field, figure: &Figure) -> Result<bool, FigureError> {
        let operation = &mut self.operation;
        Ok(match field {
            Field::Count => operation.count.replace(figure.count()?).is_none(),
            Field::Errors => operation.errors.replace(figure.count()?).is_none(),
            Field::Hits => operation.hits.replace(figure.count()?).is_none(),
            Field::Misses => operation.misses.replace(figure.count()?).is_none(),
            Field::Bytes => operation.bytes.replace(figure.count()?).is_none(),
            Field::OperationsPerSecond => operation.operations_per_second.replace(figure.rate()?).is_none(),
            Field::Seconds => operation.seconds.replace(figure.time(TimeUnit::Seconds)?).is_none(),
            Field::MeanLatency | Field::MinimumLatency | Field::MaximumLatency | Field::Percentile(_) => {
                let milliseconds = figure.time(TimeUnit::Milliseconds)?;
                let latency = self.latency.get_or_insert_default();
                match field {
                    Field::MeanLatency => latency.mean.replace(milliseconds).is_none(),
                    Field::MinimumLatency => latency.minimum.replace(milliseconds).is_none(),
                    Field::Percentile(percent) => latency.add_percentile(percent, milliseconds),
                    _ => latency.maximum.replace(milliseconds).is_none(),
                }
            }
        })
    }

    pub(crate) fn finish(self) -> Operation {
        Operation { latency: self.latency.map(LatencyReport::Printed), ..self.operation }
    }
}

/// The position of the draft called `name`, which is added if it is new.
pub(crate) fn position(drafts: &mut Vec<Draft>, name: &str) -> usize {
    drafts.iter().position(|draft| draft.operation.name == name).unwrap_or_else(|| {
        drafts.push(Draft::named(name));
        drafts.len() - 1
    })
}
