//! Options that say how requests follow each other.

use clap::{Args, ValueEnum};

use std::time::Duration;

use super::{ArgumentError, any_duration};
use crate::workload::schedule::{Arrival, Schedule};

/// Highest rate, far above what one machine can send.
const MAXIMUM_RATE: f64 = 1e9;

/// How requests follow each other.
#[derive(Debug, Args)]
pub struct PacingArguments {
    /// Open loop: operations per second of all --clients together, each sent at its own time whatever
    /// is still unanswered; latency counts from the intended time. The rate is divided evenly over
    /// all of them and their connections.
    #[arg(long, value_name = "OPERATIONS")]
    pub rate: Option<f64>,
    /// Intended times of an open loop: an even grid, or gaps as of many independent users.
    #[arg(long, value_enum, default_value_t = ArrivalName::Fixed, requires = "rate")]
    pub arrival: ArrivalName,
    /// How long the answers of an open loop are awaited after its last intended time. What is
    /// unanswered then counts with the time it has waited.
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = any_duration, requires = "rate")]
    pub drain: Duration,
}

/// Values of `--arrival`.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub enum ArrivalName {
    /// Equal intervals; connections are staggered.
    Fixed,
    /// Exponentially distributed intervals, drawn with --seed.
    Poisson,
}

impl PacingArguments {
    pub(super) fn schedule(&self, pipeline: u32) -> Result<Option<Schedule>, ArgumentError> {
        let Some(operations_per_second) = self.rate else { return Ok(None) };
        if !(operations_per_second > 0.0 && operations_per_second <= MAXIMUM_RATE) {
            return Err(ArgumentError::OutOfRange { option: "rate", expected: "above 0 and at most 1e9" });
        }
        if pipeline != 1 {
            return Err(ArgumentError::PipelinedRate);
        }
        let arrival = match self.arrival {
            ArrivalName::Fixed => Arrival::Fixed,
            ArrivalName::Poisson => Arrival::Poisson,
        };
        Ok(Some(Schedule { operations_per_second, arrival }))
    }
}
