//! `dragstrip report`: what runs and suites have measured, in every format. Needs the client.

use super::{
    client::{Cluster, Subject},
    gather::{self, Source},
    results,
};
use crate::output::{
    details,
    errors::Outcome,
    format::{self, Format},
    print,
};
use clap::Args;
use dragstrip_core::labels;
use dragstrip_crds::BenchmarkRun;
use dragstrip_report::{Input, build, document::Document};
use kube::ResourceExt;
use std::{collections::BTreeMap, path::Path, process::ExitCode};

#[derive(Debug, Clone, Args)]
pub struct Options {
    /// Report on these runs side by side, or on one suite: NAME, run/NAME, suite/NAME, the directory of
    /// a local run or suite, or a file with a BenchmarkRun or a report as JSON.
    #[arg(required = true, value_name = "NAME")]
    pub names: Vec<String>,
    #[command(flatten)]
    pub output: format::Options,
    /// Print the complete stored results of runs instead, as JSON: a list of repetitions by run.
    #[arg(long, conflicts_with = "format")]
    pub results: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(
        "--results needs runs, and suite/{0} is a suite: name its runs, which kubectl get benchmarkruns -l {label}={0} lists, or use --format json",
        label = labels::SUITE
    )]
    ResultsOfSuite(String),
    #[error("{0} is a published table: compare something with it: dragstrip compare {0} NAME")]
    Table(String),
    #[error("{0} is a finished report: report on it alone and without --results, or use dragstrip compare")]
    Made(String),
}

/// The runs in the file or directory at `path`, under its name: two directories may have runs of one name.
fn measured(path: &str) -> Outcome<Input> {
    match gather::file(Path::new(path))? {
        Source::Measured(mut input) => {
            input.entries.iter_mut().for_each(|entry| path.clone_into(&mut entry.cell.variant));
            Ok(*input)
        }
        Source::Made(_) => Err(Error::Made(path.to_owned()).into()),
        Source::Published(_) => Err(Error::Table(path.to_owned()).into()),
    }
}

fn is_measured(run: &BenchmarkRun) -> bool {
    run.status.as_ref().is_some_and(|status| !status.phases.is_empty())
}

fn code(complete: bool) -> ExitCode {
    if complete { ExitCode::SUCCESS } else { ExitCode::from(1) }
}

/// Reports on what files and directories hold, beside the runs in `cluster` that are named.
async fn of_paths(cluster: Option<&Cluster>, options: &Options) -> Outcome<ExitCode> {
    let (paths, names): (Vec<_>, Vec<_>) =
        options.names.iter().cloned().partition(|name| gather::is_path(name));
    gather::refuse_twice(paths.iter().map(String::as_str))?;
    let (format, file) = (options.output.format, options.output.output_file.as_deref());
    let input = match (paths.as_slice(), cluster) {
        ([path], None) => match gather::file(Path::new(path))? {
            Source::Made(document) if !options.results => {
                format::write(&format::render(&document, format), file)?;
                return Ok(code(!document.rows.is_empty()));
            }
            Source::Measured(input) => *input,
            Source::Made(_) => return Err(Error::Made(path.clone()).into()),
            Source::Published(_) => return Err(Error::Table(path.clone()).into()),
        },
        (paths, cluster) => {
            let mut input = match cluster {
                Some(cluster) => gather::subjects(cluster, cluster.subjects(&names).await?).await?,
                None => Input::default(),
            };
            for path in paths {
                input.entries.extend(measured(path)?.entries);
            }
            Input { title: options.names.join(", "), thresholds: Vec::new(), ..input }
        }
    };
    if options.results {
        let by_run: BTreeMap<_, _> =
            input.entries.iter().map(|entry| (&entry.cell.variant, &entry.results)).collect();
        format::write(&print::json(&by_run)?, file)?;
        return Ok(code(!by_run.values().any(|results| results.is_empty())));
    }
    let runs: Vec<BenchmarkRun> = input.entries.iter().map(|entry| entry.run.clone()).collect();
    let details = if format == Format::Text { details::of(&runs) } else { String::new() };
    format::write(&(format::render(&build(input), format) + &details), file)?;
    Ok(code(runs.iter().all(is_measured)))
}

/// The stored report of a finished suite, or what its runs have measured so far.
async fn suite_document(cluster: &Cluster, suite: &Subject) -> Outcome<Document> {
    if let Subject::Suite(suite) = suite
        && let Some(document) = results::report(cluster, suite).await?
    {
        return Ok(document);
    }
    Ok(build(gather::subjects(cluster, vec![suite.clone()]).await?))
}

/// Writes the complete results of `subjects`, which must be runs.
async fn write_results(cluster: &Cluster, subjects: &[Subject], file: Option<&Path>) -> Outcome<ExitCode> {
    let mut by_run = BTreeMap::new();
    for subject in subjects {
        match subject {
            Subject::Suite(suite) => return Err(Error::ResultsOfSuite(suite.name_any()).into()),
            Subject::Run(run) => by_run.insert(run.name_any(), results::of(cluster, run).await?),
        };
    }
    format::write(&print::json(&by_run)?, file)?;
    Ok(code(!by_run.values().any(Vec::is_empty)))
}

async fn document(cluster: &Cluster, subjects: Vec<Subject>) -> Outcome<(Document, bool)> {
    if let [suite @ Subject::Suite(_)] = subjects.as_slice() {
        let document = suite_document(cluster, suite).await?;
        let complete = !document.rows.is_empty();
        return Ok((document, complete));
    }
    let input = gather::subjects(cluster, subjects).await?;
    let complete = input.entries.iter().all(|entry| is_measured(&entry.run));
    Ok((build(input), complete))
}

/// The report of `subjects` as text, and whether each of them has results.
async fn rendered(cluster: &Cluster, subjects: Vec<Subject>, format: Format) -> Outcome<(String, bool)> {
    let run = |subject: &Subject| match subject {
        Subject::Run(run) => Some((**run).clone()),
        Subject::Suite(_) => None,
    };
    let runs: Vec<BenchmarkRun> = subjects.iter().filter_map(run).collect();
    let (document, complete) = document(cluster, subjects).await?;
    let details = if format == Format::Text { details::of(&runs) } else { String::new() };
    Ok((format::render(&document, format) + &details, complete))
}

/// Prints text reports: one of each suite that is named, and one of all runs.
pub async fn print_text(cluster: &Cluster, names: &[String]) -> Outcome<()> {
    let subjects = cluster.subjects(names).await?;
    let (suites, runs): (Vec<_>, Vec<_>) =
        subjects.into_iter().partition(|subject| matches!(subject, Subject::Suite(_)));
    let groups = suites.into_iter().map(|suite| vec![suite]).chain((!runs.is_empty()).then_some(runs));
    for group in groups {
        print::print(&rendered(cluster, group, Format::Text).await?.0)?;
    }
    Ok(())
}

pub async fn report(cluster: Option<&Cluster>, options: &Options) -> Outcome<ExitCode> {
    let Some(cluster) = cluster.filter(|_| !options.names.iter().any(|name| gather::is_path(name))) else {
        return of_paths(cluster, options).await;
    };
    let subjects = cluster.subjects(&options.names).await?;
    let (format, file) = (options.output.format, options.output.output_file.as_deref());
    if options.results {
        return write_results(cluster, &subjects, file).await;
    }
    let (text, complete) = rendered(cluster, subjects, format).await?;
    format::write(&text, file)?;
    Ok(code(complete))
}
