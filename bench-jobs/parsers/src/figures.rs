//! One number of a tool's output and the field that it fills, for the parsers whose fields a
//! manifest declares: csv, regex and json. Pure.

use crate::{
    notation::{Notation, NumberError},
    parsed::named,
    time::{self, TimeError},
};
use dragstrip_crds::workload::TimeUnit;
use dragstrip_results::result::Operation;

/// Units of a rate that mean operations per second and nothing else.
const PER_SECOND: [&str; 9] =
    ["", "/s", "ops/s", "ops/sec", "op/s", "req/s", "req/sec", "requests/sec", "requests/s"];

#[derive(Debug, thiserror::Error, Clone, PartialEq, Eq)]
pub enum FigureError {
    #[error(transparent)]
    Number(#[from] NumberError),
    #[error(transparent)]
    Time(#[from] TimeError),
    #[error("{text:?} has the unit {unit:?}, but a rate has no unit or one of{}", PER_SECOND.join(" "))]
    Rate { text: String, unit: String },
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
    /// Duration of its own measurement.
    seconds: Option<f64>,
    pub(crate) filled: Vec<Field>,
}

impl Draft {
    pub(crate) fn named(name: &str) -> Self {
        Self { operation: named(name), ..Self::default() }
    }

    /// Fills `field`; `false` if it was filled before.
    pub(crate) fn store(&mut self, field: Field, figure: &Figure) -> Result<bool, FigureError> {
        let operation = &mut self.operation;
        let latency = &mut operation.latency_milliseconds;
        match field {
            Field::Count => operation.count = figure.count()?,
            Field::Errors => operation.errors = figure.count()?,
            Field::Hits => operation.hits = Some(figure.count()?),
            Field::Misses => operation.misses = Some(figure.count()?),
            Field::Bytes => operation.bytes = figure.count()?,
            Field::OperationsPerSecond => operation.tool_operations_per_second = Some(figure.rate()?),
            Field::Seconds => self.seconds = Some(figure.time(TimeUnit::Seconds)?),
            Field::MeanLatency => latency.mean = Some(figure.time(TimeUnit::Milliseconds)?),
            Field::MaximumLatency => latency.max = Some(figure.time(TimeUnit::Milliseconds)?),
            Field::Percentile(percent) => {
                let milliseconds = figure.time(TimeUnit::Milliseconds)?;
                // Percentiles that a result has no field for are read and left out.
                if let Some(place) = latency.percentile_mut(percent) {
                    *place = Some(milliseconds);
                }
            }
        }
        let fresh = !self.filled.contains(&field);
        self.filled.push(field);
        Ok(fresh)
    }

    /// The operation with the tool's rate, or that over its own duration, as its own: nothing says
    /// that it ran at the same time as the others.
    fn finish(self) -> Operation {
        let seconds = self.seconds.filter(|seconds| *seconds > 0.0 && self.filled.contains(&Field::Count));
        let over = seconds.map(|seconds| self.operation.count as f64 / seconds);
        let own = self.operation.tool_operations_per_second.or(over);
        Operation { operations_per_second: own, ..self.operation }
    }
}

/// The operations, and the duration of the only one, which is that of everything.
pub(crate) fn finish(drafts: Vec<Draft>) -> (Vec<Operation>, Option<f64>) {
    let seconds = if let [only] = drafts.as_slice() { only.seconds } else { None };
    (drafts.into_iter().map(Draft::finish).collect(), seconds)
}

/// The position of the draft called `name`, which is added if it is new.
pub(crate) fn position(drafts: &mut Vec<Draft>, name: &str) -> usize {
    drafts.iter().position(|draft| draft.operation.name == name).unwrap_or_else(|| {
        drafts.push(Draft::named(name));
        drafts.len() - 1
    })
}
