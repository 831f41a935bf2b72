//! `dragstrip report`: what runs and suites have measured, in every form. Needs the client
//! and writes a file where it is told to.

use crate::{
    cluster::{self, Cluster, Subject},
    details, gather,
    output::{self, Form},
    results,
};
use clap::{Args, ValueEnum};
use dragstrip_core::labels;
use dragstrip_crds::BenchmarkRun;
use dragstrip_report::{build, csv, document::Document, html, json, junit, markdown, text};
use kube::ResourceExt;
use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    process::ExitCode,
};

/// The form of a report.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For a terminal.
    #[default]
    Text,
    /// For pull requests and wikis.
    Markdown,
    /// A line per figure.
    Csv,
    /// A line per measurement, Invalid ones too.
    CsvSamples,
    /// Everything, for programs, and for a comparison later.
    Json,
    /// Verdicts and thresholds as test cases.
    Junit,
    /// One page for a browser, with charts, that needs nothing else.
    Html,
}

/// What is reported, and how.
#[derive(Debug, Clone, Args)]
pub struct Options {
    /// Names of runs, which stand side by side, or of one suite; run or suite may stand first.
    #[arg(required = true, value_name = "NAME")]
    pub names: Vec<String>,
    /// The form.
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// Write to this file instead.
    #[arg(long, value_name = "FILE")]
    pub output_file: Option<PathBuf>,
    /// With text: what each client pod measured, repetition by repetition, too.
    #[arg(long)]
    pub pods: bool,
    /// Print the whole stored results of runs instead, as JSON: by run, a list of repetitions.
    #[arg(long, alias = "json", conflicts_with_all = ["pods", "format"])]
    pub results: bool,
}

/// There is no report.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// What is named could not be had.
    #[error(transparent)]
    Cluster(#[from] cluster::Error),
    /// What was measured could not be had.
    #[error(transparent)]
    Gather(#[from] gather::Error),
    /// The stored results could not be had.
    #[error(transparent)]
    Results(#[from] results::Error),
    /// A suite stores no results itself.
    #[error(
        "--results are those of runs, and suite/{0} is none: name its runs, which dragstrip get runs -l {label}={0} lists, or take the suite's report with --format json",
        label = labels::SUITE
    )]
    ResultsOfSuite(String),
    /// It could not be told.
    #[error(transparent)]
    Output(#[from] output::Error),
    /// It could not be written.
    #[error("cannot write {1}")]
    Write(#[source] io::Error, String),
}

/// `document` in its form.
pub fn rendered(document: &Document, format: Format) -> String {
    match format {
        Format::Text => text::render(document),
        Format::Markdown => markdown::render(document),
        Format::Csv => csv::render(document),
        Format::CsvSamples => csv::samples(document),
        Format::Json => json::render(document) + "\n",
        Format::Junit => junit::render(document),
        Format::Html => html::render(document),
    }
}

/// Writes `text` to `file`, or to standard output.
pub fn write(text: &str, file: Option<&Path>) -> Result<(), Error> {
    match file.filter(|file| *file != Path::new("-")) {
        Some(file) => fs::write(file, text).map_err(|error| Error::Write(error, file.display().to_string())),
        None => Ok(output::print(text)?),
    }
}

/// What has been stored of a finished suite, or else what its runs have measured so far.
async fn document_of(cluster: &Cluster, part: Vec<Subject>) -> Result<Document, Error> {
    if let [Subject::Suite(suite)] = part.as_slice()
        && let Some(document) = results::report_of(&cluster.client, &cluster.namespace, suite).await?
    {
        return Ok(document);
    }
    Ok(build(gather::of(cluster, part).await?))
}

/// The runs among `subjects`.
fn runs(subjects: &[Subject]) -> Vec<BenchmarkRun> {
    let run = |subject: &Subject| match subject {
        Subject::Run(run) => Some((**run).clone()),
        Subject::Suite(_) => None,
    };
    subjects.iter().filter_map(run).collect()
}

/// Prints the report of what is named, as text.
pub async fn print_text(cluster: &Cluster, names: &[String]) -> Result<(), Error> {
    let subjects = cluster.subjects(&cluster::given(names)?).await?;
    let (suites, runs): (Vec<_>, Vec<_>) =
        subjects.into_iter().partition(|subject| matches!(subject, Subject::Suite(_)));
    let parts =
        suites.into_iter().map(|suite| vec![suite]).chain([runs].into_iter().filter(|runs| !runs.is_empty()));
    for part in parts {
        let told = self::runs(&part);
        let document = document_of(cluster, part).await?;
        output::print(&(text::render(&document) + &details::of(&told)))?;
    }
    Ok(())
}

/// The whole results of `subjects`, which must be runs.
async fn stored(cluster: &Cluster, subjects: &[Subject], file: Option<&Path>) -> Result<ExitCode, Error> {
    let mut by_run = BTreeMap::new();
    for subject in subjects {
        match subject {
            Subject::Suite(suite) => return Err(Error::ResultsOfSuite(suite.name_any())),
            Subject::Run(run) => {
                by_run.insert(run.name_any(), results::of(&cluster.client, &cluster.namespace, run).await?);
            }
        }
    }
    write(&output::of_value(&by_run, Form::Json)?, file)?;
    Ok(if by_run.values().any(Vec::is_empty) { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

/// The report of `runs` as text, from their statuses alone.
pub fn report(runs: &[BenchmarkRun]) -> String {
    text::render(&build(gather::side_by_side(runs))) + &details::of(runs)
}

/// Makes the report of what is named.
pub async fn command(cluster: &Cluster, options: &Options) -> Result<ExitCode, Error> {
    let subjects = cluster.subjects(&cluster::given(&options.names)?).await?;
    if options.results {
        return stored(cluster, &subjects, options.output_file.as_deref()).await;
    }
    let runs = runs(&subjects);
    if runs.is_empty() && !options.pods {
        let document = document_of(cluster, subjects).await?;
        write(&rendered(&document, options.format), options.output_file.as_deref())?;
        return Ok(if document.rows.is_empty() { ExitCode::from(1) } else { ExitCode::SUCCESS });
    }
    let input = gather::of(cluster, subjects).await?;
    let pods: Vec<String> = input
        .entries
        .iter()
        .filter(|_| options.pods)
        .map(|entry| format!("\n{}", details::pods::table(&entry.run.name_any(), &entry.results)))
        .collect();
    let measured = |run: &BenchmarkRun| run.status.as_ref().is_some_and(|status| !status.phases.is_empty());
    let complete = !input.entries.is_empty() && input.entries.iter().all(|entry| measured(&entry.run));
    let mut text = rendered(&build(input), options.format);
    if options.format == Format::Text {
        text = text + &details::of(&runs) + &pods.concat();
    }
    write(&text, options.output_file.as_deref())?;
    Ok(if complete { ExitCode::SUCCESS } else { ExitCode::from(1) })
}
