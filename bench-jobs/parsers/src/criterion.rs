//! Criterion's results: the files that `cargo bench` leaves below
//! `$CRITERION_HOME` (`**/new/{benchmark,estimates,sample}.json`), or the lines
//! that `cargo criterion --message-format=json` prints.
//!
//! An operation is one element where the benchmark declares
//! `Throughput::Elements`, else one iteration. Rates are Criterion's own
//! estimate (the slope where it sampled linearly, else the mean), with the ends
//! of its confidence interval as metrics. A sample is the time of many
//! iterations together, so that no latency percentiles can be told.

mod files;
mod messages;

use crate::{
    outputs::{OutputError, Outputs, STANDARD_OUTPUT},
    parsed::{Metric, Operation, Parsed, ToolName, only_duration},
};
use dragstrip_crds::workload::{CriterionJsonParser, Merge};
use serde::Deserialize;

/// Largest relative difference between a mean and the same mean computed here:
/// rounding, and nothing else.
const ROUNDING: f64 = 1e-6;
/// Iterations beyond this are no number of iterations.
const MOST_ITERATIONS: f64 = 9_007_199_254_740_992.0;

/// Why Criterion's output gave no result.
#[derive(Debug, thiserror::Error)]
pub enum CriterionError {
    /// It is not there.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// There is no result below the directory.
    #[error(
        "there is no new/estimates.json below {directory:?} ({found}): set CRITERION_HOME to it when running cargo bench"
    )]
    NoBenchmark {
        /// The directory.
        directory: String,
        /// What is there instead.
        found: String,
    },
    /// One of a benchmark's files is missing.
    #[error("{0:?} is missing: the benchmark was ended early")]
    MissingFile(String),
    /// A file or line is not what Criterion writes.
    #[error("{place} is not what Criterion writes, or is cut short")]
    Json {
        /// Which file or line.
        place: String,
        /// What is wrong.
        source: serde_json::Error,
    },
    /// The figures of one benchmark contradict each other or are no numbers.
    #[error("{benchmark}: {problem}")]
    Figures {
        /// The benchmark.
        benchmark: String,
        /// What is wrong.
        problem: String,
    },
    /// The same benchmark twice.
    #[error("the benchmark {0:?} is there twice")]
    Twice(String),
}

/// Reads Criterion's directory, or standard output for `-`.
pub fn parse(options: &CriterionJsonParser, outputs: &Outputs) -> Result<Parsed, CriterionError> {
    let (benchmarks, incomplete) = if options.directory == STANDARD_OUTPUT {
        messages::read(outputs.stdout()?)?
    } else {
        (files::read(&options.directory, outputs)?, None)
    };
    let mut parsed = Parsed {
        tool: Some(ToolName { name: "criterion".to_owned(), version: None }),
        incomplete,
        ..Parsed::default()
    };
    for benchmark in &benchmarks {
        if parsed.operations.iter().any(|known| known.name == benchmark.name) {
            return Err(CriterionError::Twice(benchmark.name.clone()));
        }
        benchmark.check()?;
        parsed.operations.push(benchmark.operation());
        parsed.metrics.extend(benchmark.metrics());
    }
    parsed.seconds = only_duration(&parsed.operations);
    Ok(parsed)
}

/// An estimate of nanoseconds per iteration.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Estimate {
    low: f64,
    mid: f64,
    high: f64,
}

/// What one iteration processes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
struct PerIteration {
    elements: Option<u64>,
    bytes: Option<u64>,
}

/// One benchmark, whichever way it was told.
#[derive(Debug, Clone, PartialEq)]
struct Benchmark {
    name: String,
    /// What Criterion prints as time: the slope, or the mean.
    typical: Estimate,
    mean: f64,
    iterations: Vec<f64>,
    nanoseconds: Vec<f64>,
    per_iteration: PerIteration,
}

impl Benchmark {
    /// Refuses figures that cannot be those of one run: files of two runs side
    /// by side, or values cut short within a number.
    fn check(&self) -> Result<(), CriterionError> {
        let problem = |problem: String| CriterionError::Figures { benchmark: self.name.clone(), problem };
        if self.iterations.is_empty() || self.iterations.len() != self.nanoseconds.len() {
            return Err(problem(format!(
                "{} iteration counts and {} times are no sample",
                self.iterations.len(),
                self.nanoseconds.len()
            )));
        }
        let whole = |count: &f64| *count >= 1.0 && count.fract() == 0.0 && *count <= MOST_ITERATIONS;
        if !self.iterations.iter().all(whole) || self.total_iterations() > MOST_ITERATIONS {
            return Err(problem("an iteration count is no whole number from 1".to_owned()));
        }
        let Estimate { low, mid, high } = self.typical;
        let positive = |number: f64| number.is_finite() && number > 0.0;
        if !self.nanoseconds.iter().all(|time| positive(*time)) || ![low, mid, high].into_iter().all(positive)
        {
            return Err(problem("a time is no number above 0".to_owned()));
        }
        if low > high {
            return Err(problem(format!(
                "the confidence interval ends at {high} ns before it begins at {low} ns"
            )));
        }
        let ratios = self.nanoseconds.iter().zip(&self.iterations).map(|(time, count)| time / count);
        let mean = ratios.sum::<f64>() / self.iterations.len() as f64;
        if (mean - self.mean).abs() > ROUNDING * mean {
            return Err(problem(format!(
                "the sample's mean is {mean} ns, the estimate {} ns: they are not of one run",
                self.mean
            )));
        }
        Ok(())
    }

    fn total_iterations(&self) -> f64 {
        self.iterations.iter().sum()
    }

    /// Operations of one iteration.
    fn operations(&self) -> u64 {
        self.per_iteration.elements.unwrap_or(1)
    }

    // Checked to be whole and at most 2^53.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    fn operation(&self) -> Operation {
        Operation {
            count: (self.total_iterations() as u64).checked_mul(self.operations()),
            operations_per_second: Some(self.operations() as f64 * 1e9 / self.typical.mid),
            seconds: Some(self.nanoseconds.iter().sum::<f64>() / 1e9),
            ..Operation::named(self.name.as_str())
        }
    }

    fn metrics(&self) -> Vec<Metric> {
        let Estimate { low, mid, high } = self.typical;
        let times = [("timePerIterationLow", low), ("timePerIteration", mid), ("timePerIterationHigh", high)];
        let mut metrics: Vec<_> =
            times.into_iter().map(|(name, value)| self.metric(name, value, "ns", Merge::Mean)).collect();
        let rates = [(self.per_iteration.elements, "elements"), (self.per_iteration.bytes, "bytes")];
        for (amount, what) in rates {
            let Some(amount) = amount else { continue };
            // The longest time gives the lowest rate.
            for (end, time) in [("Low", high), ("", mid), ("High", low)] {
                let value = amount as f64 * 1e9 / time;
                metrics.push(self.metric(
                    &format!("{what}PerSecond{end}"),
                    value,
                    &format!("{what}/s"),
                    Merge::Sum,
                ));
            }
        }
        metrics
    }

    fn metric(&self, name: &str, value: f64, unit: &str, merge: Merge) -> Metric {
        Metric {
            operation: Some(self.name.clone()),
            name: name.to_owned(),
            value,
            unit: Some(unit.to_owned()),
            samples: Vec::new(),
            merge,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn benchmark() -> Benchmark {
        Benchmark {
            name: "g/f".to_owned(),
            typical: Estimate { low: 90.0, mid: 100.0, high: 125.0 },
            mean: 100.0,
            iterations: vec![10.0, 20.0],
            nanoseconds: vec![900.0, 2200.0],
            per_iteration: PerIteration { elements: Some(1000), bytes: None },
        }
    }

    #[test]
    fn elements_are_the_operations_where_they_are_declared() {
        let operation = benchmark().operation();
        assert_eq!((operation.count, operation.operations_per_second), (Some(30_000), Some(1e10)));
        assert_eq!(operation.latency, None, "a sample is no latency");
        let iterations = Benchmark { per_iteration: PerIteration::default(), ..benchmark() };
        assert_eq!(iterations.operation().count, Some(30));
    }

    #[test]
    fn the_ends_of_the_interval_change_places_for_rates() {
        let metrics = benchmark().metrics();
        let value = |name: &str| metrics.iter().find(|metric| metric.name == name).unwrap().value;
        assert!((value("elementsPerSecondLow") - 8e9).abs() < 1.0);
        assert!(value("elementsPerSecondLow") < value("elementsPerSecond"));
        assert!(value("elementsPerSecond") < value("elementsPerSecondHigh"));
    }

    #[test]
    fn figures_that_contradict_each_other_are_refused() {
        benchmark().check().unwrap();
        for (what, wrong) in [
            ("another run's mean", Benchmark { mean: 101.0, ..benchmark() }),
            ("fewer times", Benchmark { nanoseconds: vec![900.0], ..benchmark() }),
            ("half an iteration", Benchmark { iterations: vec![10.5, 20.0], ..benchmark() }),
            ("no sample", Benchmark { iterations: vec![], nanoseconds: vec![], ..benchmark() }),
            ("a time of 0", Benchmark { nanoseconds: vec![0.0, 2200.0], ..benchmark() }),
            (
                "an estimate of 0",
                Benchmark { typical: Estimate { low: 0.0, mid: 0.0, high: 0.0 }, ..benchmark() },
            ),
        ] {
            assert!(wrong.check().is_err(), "{what} was taken");
        }
    }
}
