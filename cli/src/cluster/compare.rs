//! `dragstrip compare`: compares two runs, suites, reports or published tables. Needs the
//! client for those in a cluster, and reads files.

use super::{
    client::{Cluster, Given},
    gather::{self, Source},
};
use crate::output::{errors::Outcome, format, print};
use clap::Args;
use dragstrip_crds::{
    run::{RunPhase, Verdict},
    suite::{ComparisonVerdict, Margin},
    thresholds::MetricName,
};
use dragstrip_report::{
    BaselineInput, Input, Rules, build,
    document::{Comparison, Document, Row, RunRecord},
};
use dragstrip_results::thresholds::hides;
use std::{path::Path, process::ExitCode};

#[derive(Debug, Clone, Args)]
pub struct Options {
    /// Compare with this baseline: a run or suite (NAME, run/NAME, suite/NAME), the directory of a
    /// local run or suite, a file with a BenchmarkRun or a report as JSON, or a published table (.csv).
    #[arg(value_name = "BASELINE")]
    pub baseline: String,
    /// Compare this run, suite, directory or file with the baseline.
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Compare even what was measured under different conditions.
    #[arg(long)]
    pub force: bool,
    /// Call differences of METRIC up to this SHARE of the baseline Same, such as
    /// P99Milliseconds=0.1. Defaults to the suite's margins.
    #[arg(long, value_name = "METRIC=SHARE", value_parser = margin)]
    pub margin: Vec<Margin>,
    #[command(flatten)]
    pub output: format::Options,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{0} is named twice: name two different sides")]
    Same(String),
    #[error("{0} is a published table, which can only be the baseline: name it first")]
    Table(String),
}

async fn source(cluster: Option<&Cluster>, side: &str) -> Outcome<Source> {
    let Some(cluster) = cluster.filter(|_| !gather::is_path(side)) else {
        return Ok(gather::file(Path::new(side))?);
    };
    let subject = cluster.subject(&Given::parse(side, None)?).await?;
    Ok(Source::Measured(Box::new(gather::subjects(cluster, vec![subject]).await?)))
}

fn margin(text: &str) -> Result<Margin, String> {
    let parts = text.split_once('=');
    let (metric, share) = parts.ok_or("use METRIC=SHARE, such as P99Milliseconds=0.1")?;
    let metric = serde_json::from_value(metric.into()).map_err(|error| {
        let error = error.to_string();
        let names = error.split_once("expected ").map_or("", |(_, names)| names).replace('`', "");
        format!("there is no metric {metric:?}: use {names}")
    })?;
    let share = share.parse().map_err(|error| format!("{share}: {error}"))?;
    Ok(Margin { metric, share })
}

/// The rules of a suite with those of the command line, which come first.
fn with(suite: Rules, given: &Rules) -> Rules {
    let margins = given.margins.iter().cloned().chain(suite.margins).collect();
    Rules { margins, anyway: suite.anyway || given.anyway, ..suite }
}

/// Whether `input` has runs alone, not those of a suite.
fn side_by_side(input: &Input) -> bool {
    input.axes.is_empty() && input.variants.is_empty()
}

/// Names two runs of one name by the command line: they would be one combination.
fn labelled(there: (Input, &str), here: (Input, &str)) -> (Input, Input) {
    let same = there.0.title == here.0.title;
    let label = |(mut input, given): (Input, &str)| {
        if same {
            given.clone_into(&mut input.title);
        }
        for entry in &mut input.entries {
            entry.cell.variant.clone_from(&input.title);
        }
        input
    };
    (label(there), label(here))
}

/// The comparison of `here` with `there`, which is called `name`.
fn compared(there: Source, here: Source, (name, other): (&str, &str), rules: &Rules) -> Outcome<Document> {
    match (there, here) {
        (_, Source::Published(_)) => Err(Error::Table(other.to_owned()).into()),
        (Source::Measured(there), Source::Measured(here)) if side_by_side(&there) && side_by_side(&here) => {
            let (there, here) = labelled((*there, name), (*here, other));
            let title = format!("{} and {}", there.title, here.title);
            let baselines = vec![BaselineInput::Run(there.title)];
            let entries = there.entries.into_iter().chain(here.entries).collect();
            Ok(build(Input { title, entries, baselines, rules: rules.clone(), ..Input::default() }))
        }
        (Source::Published(text), Source::Measured(mut here)) => {
            here.baselines = vec![gather::published(&here, name, &text)?];
            here.rules = with(here.rules, rules);
            Ok(build(*here))
        }
        (Source::Published(text), Source::Made(here)) => {
            let mut here = uncompared(*here);
            let declared =
                Input { variants: here.variants.clone(), axes: here.axes.clone(), ..Input::default() };
            let table = gather::published(&declared, name, &text)?;
            let rules = with(here.rules.clone(), rules);
            dragstrip_report::compare(&mut here, &Vec::new(), &table, &rules);
            Ok(here)
        }
        (there, here) => {
            let (entries, own) = match &here {
                Source::Measured(input) => (input.entries.clone(), input.rules.clone()),
                Source::Made(document) => (Vec::new(), document.rules.clone()),
                Source::Published(_) => (Vec::new(), Rules::default()),
            };
            let mut here = made(here);
            let there = made(there);
            let kind = if there.axes.is_empty() && there.runs.len() == 1 { "run" } else { "suite" };
            let baseline = BaselineInput::Report { kind: kind.to_owned(), document: Box::new(there) };
            dragstrip_report::compare(&mut here, &entries, &baseline, &with(own, rules));
            Ok(here)
        }
    }
}

/// The report of `source` without its own baseline.
pub fn made(source: Source) -> Document {
    match source {
        Source::Measured(input) => build(Input { baselines: Vec::new(), thresholds: Vec::new(), ..*input }),
        Source::Made(document) => uncompared(*document),
        Source::Published(_) => Document::default(),
    }
}

fn uncompared(mut document: Document) -> Document {
    (document.baseline, document.other_baselines) = (None, Vec::new());
    document.thresholds.clear();
    for row in &mut document.rows {
        (row.comparison, row.uncompared, row.other_comparisons) = (None, None, Vec::new());
    }
    document
}

/// Runs that have no result, or one that must not be used.
fn failed(document: &Document) -> impl Iterator<Item = &RunRecord> {
    let bad = |run: &&RunRecord| {
        matches!(run.phase, RunPhase::Failed | RunPhase::Cancelled) || run.verdict == Some(Verdict::Invalid)
    };
    document.runs.iter().filter(bad)
}

/// Whether the comparison could show anything, such as that throughput halved.
fn is_compared(row: &Row, comparison: &Comparison) -> bool {
    let constant = comparison.difference.low == 0.0 && comparison.difference.high == 0.0;
    let is_throughput = row.metric == MetricName::OperationsPerSecond.to_string();
    let blind = is_throughput && hides(&comparison.ratio, 1.0, 0.5);
    comparison.verdict != ComparisonVerdict::NotComparable
        && (comparison.interval_known || constant)
        && !blind
}

/// 0 if nothing is worse, 1 if something is or a run failed, 2 if a figure could not be compared. Some of
/// many equal figures are Worse by chance: only those count that hold after the correction for that.
fn exit_code(document: &Document) -> u8 {
    let all = || document.rows.iter().filter_map(|row| row.comparison.as_ref());
    let worse = |it: &Comparison| {
        it.verdict == ComparisonVerdict::Worse && it.holds_among_all.unwrap_or(it.chance.is_none())
    };
    if all().any(worse) || failed(document).next().is_some() {
        return 1;
    }
    let mut rows = document.rows.iter().filter_map(|row| Some((row, row.comparison.as_ref()?))).peekable();
    let compared = rows.peek().is_some() && rows.all(|(row, it)| is_compared(row, it));
    if compared { 0 } else { 2 }
}

pub async fn compare(cluster: Option<&Cluster>, options: &Options) -> Outcome<ExitCode> {
    let (name, other) = (options.baseline.as_str(), options.name.as_str());
    let same_file =
        gather::is_path(name) && gather::is_path(other) && gather::refuse_twice([name, other]).is_err();
    if name == other || same_file {
        return Err(Error::Same(other.to_owned()).into());
    }
    let margins = options.margin.clone();
    let rules = Rules { margins, anyway: options.force, in_blocks: false };
    let (there, here) = (source(cluster, name).await?, source(cluster, other).await?);
    let document = compared(there, here, (name, other), &rules)?;
    format::write(&format::render(&document, options.output.format), options.output.output_file.as_deref())?;
    for run in failed(&document) {
        let why = run.failure.as_deref().unwrap_or("its numbers must not be used");
        print::warn(&format!("run {} is {}: {why}", run.name, run.phase));
    }
    Ok(ExitCode::from(exit_code(&document)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A run of one phase with this throughput in three repetitions.
    fn run(name: &str, rates: [f64; 3]) -> Source {
        run_on("c7i.2xlarge", name, rates)
    }

    fn by_force(anyway: bool) -> Rules {
        Rules { anyway, ..Rules::default() }
    }

    /// The same, with its clients on this type of machine.
    fn run_on(machine: &str, name: &str, rates: [f64; 3]) -> Source {
        let repetition = |(index, rate): (usize, &f64)| {
            json!({"repetition": index + 1, "configMap": "c", "windowSeconds": 5.0, "clientCpus": 1.0,
                   "operationsPerSecond": rate, "verdict": "Valid"})
        };
        let mean = rates.iter().sum::<f64>() / 3.0;
        let text = json!({
            "apiVersion": "dragstrip.dev/v1alpha1", "kind": "BenchmarkRun", "metadata": {"name": name},
            "spec": {"target": {"datastoreRef": {"name": "redis"}}, "repetitions": 3,
                     "phases": [{"name": "read", "loadgen": {"duration": "5s"}}]},
            "status": {"phase": "Succeeded", "verdict": "Valid", "target": {"name": "redis", "identity": "one"},
                "comparability": {"key": "k", "facts": [{"name": "machine.client.instanceType", "value": machine}]},
                "phases": [{
                "name": "read", "tool": {"name": "loadgen"}, "verdict": "Valid",
                "operations": [{"operation": "GET", "count": 1, "operationsPerSecond": {"mean": mean, "repetitions": 3},
                    "bytesPerSecond": 0.0, "errors": 0, "latencyMilliseconds": {}}],
                "repetitions": rates.iter().enumerate().map(repetition).collect::<Vec<_>>()}]}
        });
        let file = tempfile::NamedTempFile::with_suffix(".json").unwrap();
        std::fs::write(file.path(), text.to_string()).unwrap();
        gather::file(file.path()).unwrap()
    }

    #[test]
    fn two_runs_are_compared_whatever_their_form() {
        let (fast, slow) = ([100.0, 101.0, 99.0], [50.0, 51.0, 49.0]);
        let report = |source: Source| Source::Made(Box::new(made(source)));
        for (there, here) in [
            (run("a", fast), run("b", slow)),
            (report(run("a", fast)), report(run("b", slow))),
            (report(run("a", fast)), run("b", slow)),
        ] {
            let document = compared(there, here, ("a", "b"), &Rules::default()).unwrap();
            let compared = document.rows.iter().find_map(|row| row.comparison.clone());
            let ratio = compared.map(|comparison| comparison.ratio.mid);
            assert!(ratio.is_some_and(|ratio| (ratio - 0.5).abs() < 0.01), "{ratio:?}: {document:#?}");
        }
    }

    #[test]
    fn two_runs_of_one_name_are_compared_and_not_taken_for_one() {
        let (base, branch) = (run("race", [100.0, 101.0, 99.0]), run("race", [50.0, 51.0, 49.0]));
        let document =
            compared(base, branch, ("base/run.json", "branch/run.json"), &Rules::default()).unwrap();
        assert_eq!(exit_code(&document), 1, "half the throughput is worse: {document:#?}");
        let names: Vec<&str> = document.variants.iter().map(|variant| variant.name.as_str()).collect();
        assert_eq!(names, ["base/run.json", "branch/run.json"]);
    }

    #[test]
    fn one_start_of_each_server_has_no_winner() {
        let started_again = |rates| {
            let Source::Measured(mut input) = run("b", rates) else { panic!("a run is measured here") };
            let target = input.entries[0].run.status.as_mut().unwrap().target.as_mut().unwrap();
            target.identity = Some("another".to_owned());
            Source::Measured(input)
        };
        let there = run("a", [100.0, 101.0, 99.0]);
        let document =
            compared(there, started_again([50.0, 51.0, 49.0]), ("a", "b"), &Rules::default()).unwrap();
        assert_eq!(exit_code(&document), 2, "{document:#?}");
    }

    #[test]
    fn throughput_that_may_have_halved_was_not_compared() {
        let noisy = compared(
            run("a", [100.0, 40.0, 160.0]),
            run("b", [90.0, 170.0, 20.0]),
            ("a", "b"),
            &Rules::default(),
        );
        assert_eq!(exit_code(&noisy.unwrap()), 2);
    }

    #[test]
    fn a_margin_is_declared_by_metric() {
        assert_eq!(margin("P99Milliseconds=0.1").unwrap().share.value().to_string(), "0.1");
        assert!(margin("P99=0.1").unwrap_err().contains("P99Milliseconds"));
        assert!(margin("P99Milliseconds").is_err() && margin("P99Milliseconds=x").is_err());
    }

    #[test]
    fn what_was_measured_on_other_machines_is_compared_only_by_force() {
        let rates = ([100.0, 101.0, 99.0], [50.0, 51.0, 49.0]);
        let sides = || (run_on("c7i.2xlarge", "a", rates.0), run_on("m5.large", "b", rates.1));
        let report = |source: Source| Source::Made(Box::new(made(source)));
        for form in [report, |source| source] {
            let of = |force| {
                let (there, here) = sides();
                compared(form(there), form(here), ("a", "b"), &by_force(force)).unwrap()
            };
            assert_eq!(exit_code(&of(false)), 2, "refused: {:#?}", of(false));
            assert_eq!(exit_code(&of(true)), 1, "compared by force: {:#?}", of(true));
        }
    }

    #[test]
    fn runs_of_different_workloads_are_compared_only_by_force() {
        let with_pipeline = |name: &str, rates, pipeline: u64| {
            let Source::Measured(mut input) = run(name, rates) else { panic!("a run is measured here") };
            let mut spec = serde_json::to_value(&input.entries[0].run.spec).unwrap();
            spec["phases"][0]["loadgen"]["pipeline"] = json!(pipeline);
            input.entries[0].run.spec = serde_json::from_value(spec).unwrap();
            Source::Measured(input)
        };
        let of = |force| {
            let there = with_pipeline("a", [100.0, 101.0, 99.0], 1);
            let here = with_pipeline("b", [640.0, 641.0, 639.0], 10);
            compared(there, here, ("a", "b"), &by_force(force)).unwrap()
        };
        assert_eq!(exit_code(&of(false)), 2, "{:#?}", of(false));
        let reason =
            of(false).rows.iter().find_map(|row| Some(row.comparison.as_ref()?.reason.clone())).unwrap();
        assert!(reason.contains("spec/phases/0/loadgen/pipeline is 10 instead of 1"), "{reason}");
        assert_eq!(exit_code(&of(true)), 0, "compared by force: {:#?}", of(true));
    }

    #[test]
    fn throughputs_of_clients_are_not_those_of_servers() {
        let limited = |name: &str, rates, by: &str| {
            let Source::Measured(mut input) = run(name, rates) else { panic!("a run is measured here") };
            let status = input.entries[0].run.status.as_mut().unwrap();
            let limit = json!({"by": by, "evidence": "load thread at 97 %"});
            status.phases[0].limited_by = serde_json::from_value(limit).unwrap();
            Source::Measured(input)
        };
        let code = |there: &str, here: &str| {
            let there = limited("a", [100.0, 101.0, 99.0], there);
            let here = limited("b", [50.0, 51.0, 49.0], here);
            exit_code(&compared(there, here, ("a", "b"), &Rules::default()).unwrap())
        };
        assert_eq!(code("Client", "Client"), 2, "both figures are the client's");
        assert_eq!(code("Server", "Client"), 1);
        assert_eq!(code("Server", "Server"), 1);
    }

    #[test]
    fn a_published_table_cannot_be_compared_with_anything() {
        let error =
            compared(run("a", [1.0; 3]), Source::Published(String::new()), ("a", "t.csv"), &Rules::default())
                .unwrap_err();
        assert!(error.to_string().contains("name it first"), "{error}");
    }
}
