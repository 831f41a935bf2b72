//! What `go test -bench` prints: `BenchmarkName-8  1000  123 ns/op  5 B/op`.
//!
//! Operations are named without `Benchmark`, and without `-8` where all have
//! the same; with the package in front where there are several packages. The
//! count is the number of iterations; ns/op is elapsed time over iterations,
//! which with `b.RunParallel` is not a latency, so the parser reports none. Every
//! pair of value and unit is a metric named by its unit. Several runs
//! (`-count`) are added up; their metrics are means.

use crate::{
    notation::{Notation, NumberError},
    parsed::{Parsed, Tool, metric_name, named},
    records::lines,
};
use dragstrip_crds::{measured::Metric, workload::Merge};
use dragstrip_results::result::Operation;

const PREFIX: &str = "Benchmark";
/// The unit of time per iteration.
const TIME: &str = "ns/op";

#[derive(Debug, thiserror::Error)]
pub enum GoBenchError {
    #[error("the Go test failed: {0:?}")]
    Failed(String),
    #[error(
        "{0:?} begins like a result of go test -bench and is not one: let the benchmark print nothing to standard output"
    )]
    Line(String),
    #[error("{benchmark}: {source}")]
    Number { benchmark: String, source: NumberError },
}

struct Run<'a> {
    package: &'a str,
    benchmark: &'a str,
    iterations: u64,
    figures: Vec<(f64, &'a str)>,
}

pub fn parse(stdout: &str) -> Result<Parsed, GoBenchError> {
    let lines = lines(stdout);
    let mut runs = Vec::new();
    let mut package = "";
    let mut passed = false;
    for line in lines.complete.lines().map(str::trim_end) {
        if let Some(name) = line.strip_prefix("pkg: ") {
            package = name;
        } else if is_failure(line) {
            return Err(GoBenchError::Failed(line.chars().take(200).collect()));
        } else if line == "PASS" || line.starts_with("ok  \t") {
            passed = true;
        } else if line.starts_with(PREFIX) && line.contains([' ', '\t']) {
            passed = false;
            runs.push(run(package, line)?);
        }
    }
    let unfinished =
        (!passed).then(|| "go test did not print PASS after its results: it was ended early".to_owned());
    let (operations, metrics) = joined(&runs);
    let seconds = if let [only] = operations.as_slice() { only.1 } else { None };
    Ok(Parsed {
        seconds,
        operations: operations.into_iter().map(|(operation, _)| operation).collect(),
        metrics,
        tool: Some(Tool::named("go test -bench")),
        incomplete: lines.incomplete().or(unfinished),
        ..Parsed::default()
    })
}

fn is_failure(line: &str) -> bool {
    line == "FAIL" || ["FAIL\t", "--- FAIL:", "panic: "].iter().any(|start| line.starts_with(start))
}

fn run<'a>(package: &'a str, line: &'a str) -> Result<Run<'a>, GoBenchError> {
    let strange = || GoBenchError::Line(line.chars().take(200).collect());
    let mut fields = line.split_whitespace();
    let benchmark = fields.next().ok_or_else(strange)?;
    let number = |text: &str| {
        Notation::PLAIN
            .number(text)
            .map_err(|source| GoBenchError::Number { benchmark: benchmark.to_owned(), source })
    };
    let iterations = fields.next().and_then(|text| text.parse().ok()).ok_or_else(strange)?;
    let rest: Vec<_> = fields.collect();
    if rest.is_empty() || !rest.len().is_multiple_of(2) || iterations == 0 {
        return Err(strange());
    }
    let mut figures: Vec<(f64, &str)> = Vec::new();
    for pair in rest.chunks_exact(2) {
        if figures.iter().any(|(_, unit)| *unit == pair[1]) {
            return Err(strange());
        }
        figures.push((number(pair[0])?, pair[1]));
    }
    Ok(Run { package, benchmark, iterations, figures })
}

/// Runs of the same benchmark, joined, with how many seconds they took.
fn joined(runs: &[Run]) -> (Vec<(Operation, Option<f64>)>, Vec<Metric>) {
    let several_packages = runs.iter().any(|run| run.package != runs[0].package);
    let suffix = common_suffix(runs);
    let mut keys: Vec<(&str, &str)> = Vec::new();
    for run in runs {
        if !keys.contains(&(run.package, run.benchmark)) {
            keys.push((run.package, run.benchmark));
        }
    }
    let mut operations = Vec::new();
    let mut metrics = Vec::new();
    for (package, benchmark) in keys {
        let same: Vec<_> =
            runs.iter().filter(|run| (run.package, run.benchmark) == (package, benchmark)).collect();
        let short = benchmark.strip_prefix(PREFIX).unwrap_or(benchmark);
        let short = short.strip_suffix(suffix).unwrap_or(short);
        let name = if several_packages { format!("{package}.{short}") } else { short.to_owned() };
        operations.push(operation(&name, &same));
        metrics.extend(figures(&name, &same));
    }
    (operations, metrics)
}

/// `-8`, if every benchmark ended with it: the number of CPUs, which go
/// leaves out when it is 1. With `-cpu 1,2` it distinguishes benchmarks.
fn common_suffix<'a>(runs: &[Run<'a>]) -> &'a str {
    let Some(first) = runs.first() else { return "" };
    let Some(position) = first.benchmark.rfind('-') else { return "" };
    let suffix = &first.benchmark[position..];
    let is_number = suffix.len() > 1 && suffix[1..].bytes().all(|byte| byte.is_ascii_digit());
    if is_number && runs.iter().all(|run| run.benchmark.ends_with(suffix)) { suffix } else { "" }
}

fn operation(name: &str, runs: &[&Run]) -> (Operation, Option<f64>) {
    let count = runs.iter().fold(0_u64, |sum, run| sum.saturating_add(run.iterations));
    let seconds: Option<f64> =
        runs.iter().map(|run| Some(figure(run, TIME)? * run.iterations as f64 / 1e9)).sum();
    let seconds = seconds.filter(|seconds| *seconds > 0.0);
    let rate = seconds.map(|seconds| count as f64 / seconds);
    let rates = Operation { operations_per_second: rate, tool_operations_per_second: rate, ..named(name) };
    (Operation { count, ..rates }, seconds)
}

fn figure(run: &Run, unit: &str) -> Option<f64> {
    run.figures.iter().find(|(_, known)| *known == unit).map(|(value, _)| *value)
}

fn figures(name: &str, runs: &[&Run]) -> Vec<Metric> {
    let mut units: Vec<&str> = Vec::new();
    for (_, unit) in runs.iter().flat_map(|run| &run.figures) {
        if !units.contains(unit) {
            units.push(unit);
        }
    }
    units
        .into_iter()
        .map(|unit| {
            let samples: Vec<f64> = runs.iter().filter_map(|run| figure(run, unit)).collect();
            let rate = unit.ends_with("/s") || unit.ends_with("/sec");
            // Less time, memory and work for each operation is better; other units are the benchmark's own.
            let per_operation = unit.ends_with("/op").then_some(false);
            Metric {
                name: metric_name(Some(name), unit),
                value: samples.iter().sum::<f64>() / samples.len() as f64,
                unit: Some(unit.to_owned()),
                // Rates add up over clients, everything per operation does not.
                merge: if rate { Merge::Sum } else { Merge::Mean },
                more_is_better: rate.then_some(true).or(per_operation),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(parsed: &Parsed) -> Vec<&str> {
        parsed.operations.iter().map(|operation| operation.name.as_str()).collect()
    }

    #[test]
    fn several_runs_are_added_up() {
        let parsed =
            parse("BenchmarkSet-8 \t1000\t200.0 ns/op\nBenchmarkSet-8 \t3000\t100.0 ns/op\nPASS\n").unwrap();
        let set = &parsed.operations[0];
        assert_eq!((set.name.as_str(), set.count), ("Set", 4000));
        // 4000 iterations in 1000 × 200 ns + 3000 × 100 ns = 500 µs.
        assert!((set.operations_per_second.unwrap() - 8e6).abs() < 1e-3, "{set:?}");
        assert_eq!(parsed.metrics[0].value.to_string(), "150");
        assert_eq!(parsed.incomplete, None);
    }

    #[test]
    fn the_number_of_cpus_stays_if_it_distinguishes_benchmarks() {
        let line = |name: &str| format!("Benchmark{name} 10 5 ns/op\n");
        assert_eq!(names(&parse(&(line("A/x-1-8") + &line("B-8"))).unwrap()), ["A/x-1", "B"]);
        assert_eq!(names(&parse(&(line("A-4") + &line("A-8"))).unwrap()), ["A-4", "A-8"]);
        assert_eq!(names(&parse(&(line("A") + &line("A-2"))).unwrap()), ["A", "A-2"]);
    }

    #[test]
    fn packages_are_named_where_there_are_several() {
        let parsed =
            parse("pkg: x/a\nBenchmarkSet 10 5 ns/op\nPASS\npkg: x/b\nBenchmarkSet 10 7 ns/op\nPASS\n")
                .unwrap();
        assert_eq!(names(&parsed), ["x/a.Set", "x/b.Set"]);
    }

    #[test]
    fn a_run_without_pass_is_incomplete() {
        assert!(parse("BenchmarkSet 10 5 ns/op\n").unwrap().incomplete.is_some());
        let cut = parse("BenchmarkSet 10 5 ns/op\nBenchmarkGet 10 12").unwrap();
        assert_eq!((names(&cut), cut.incomplete.is_some()), (vec!["Set"], true));
    }

    #[test]
    fn failures_and_mixed_output_are_errors() {
        for stdout in [
            "BenchmarkSet 10 5 ns/op\n--- FAIL: BenchmarkGet\nFAIL\n",
            "BenchmarkSet 10 5 ns/op\nFAIL\tx/a\t0.1s\n",
            "panic: oh\n",
            "BenchmarkSet-8 hello\n",
            "BenchmarkSet-8 10 5 ns/op 7\n",
            "BenchmarkSet-8 10 5 ns/op 7 ns/op\n",
            "BenchmarkSet-8 10 NaN ns/op\n",
            "BenchmarkSet-8 0 5 ns/op\n",
        ] {
            assert!(parse(stdout).is_err(), "read {stdout:?}");
        }
    }

    #[test]
    fn a_name_alone_on_its_line_is_an_announcement() {
        assert_eq!(names(&parse("BenchmarkSet\nBenchmarkSet-2 10 5 ns/op\nPASS\n").unwrap()), ["Set"]);
    }
}
