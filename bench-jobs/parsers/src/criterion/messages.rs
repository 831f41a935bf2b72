//! The lines of `cargo criterion --message-format=json`.

use super::{Benchmark, CriterionError, Estimate, PerIteration};
use crate::records::lines;
use serde::Deserialize;

/// The kind of line that holds a result.
const COMPLETE: &str = "benchmark-complete";

#[derive(Deserialize)]
struct Reason {
    reason: String,
}

#[derive(Deserialize)]
struct Complete {
    id: String,
    iteration_count: Vec<f64>,
    measured_values: Vec<f64>,
    unit: String,
    #[serde(default)]
    throughput: Vec<Throughput>,
    typical: Figure,
    mean: Figure,
}

#[derive(Deserialize)]
struct Throughput {
    per_iteration: u64,
    unit: String,
}

#[derive(Deserialize)]
struct Figure {
    estimate: f64,
    lower_bound: f64,
    upper_bound: f64,
    unit: String,
}

/// Every benchmark of which there is a line, and why there may be more.
pub(super) fn read(stdout: &str) -> Result<(Vec<Benchmark>, Option<String>), CriterionError> {
    let lines = lines(stdout);
    let mut benchmarks = Vec::new();
    for (number, line) in lines.whole.lines().enumerate().filter(|(_, line)| line.starts_with('{')) {
        let json = |source| CriterionError::Json { place: format!("line {}", number + 1), source };
        let Reason { reason } = serde_json::from_str(line).map_err(json)?;
        if reason == COMPLETE {
            let complete = serde_json::from_str(line).map_err(json)?;
            benchmarks.push(benchmark(complete)?);
        }
    }
    Ok((benchmarks, lines.incomplete()))
}

fn benchmark(complete: Complete) -> Result<Benchmark, CriterionError> {
    let units = [&complete.unit, &complete.typical.unit, &complete.mean.unit];
    if let Some(unit) = units.into_iter().find(|unit| *unit != "ns") {
        return Err(CriterionError::Figures {
            benchmark: complete.id,
            problem: format!("it was measured in {unit:?} and not in time (ns)"),
        });
    }
    let amount = |unit: &str| {
        complete.throughput.iter().find(|amount| amount.unit == unit).map(|amount| amount.per_iteration)
    };
    Ok(Benchmark {
        per_iteration: PerIteration { elements: amount("elements"), bytes: amount("bytes") },
        name: complete.id,
        typical: Estimate {
            low: complete.typical.lower_bound,
            mid: complete.typical.estimate,
            high: complete.typical.upper_bound,
        },
        mean: complete.mean.estimate,
        iterations: complete.iteration_count,
        nanoseconds: complete.measured_values,
    })
}
