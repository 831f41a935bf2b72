//! `dragstrip history`: what the rounds of a schedule, or report files, show together. Needs the
//! client for a schedule, and reads files.

use super::{
    client::{Cluster, Given},
    compare::made,
    gather::{self, Source},
    results,
};
use crate::{
    manifests::kind::Kind,
    output::{errors::Outcome, format, print},
};
use clap::{Args, ValueEnum};
use dragstrip_core::labels;
use dragstrip_crds::BenchmarkSuite;
use dragstrip_report::{
    Rules,
    document::Document,
    history::{FEWEST_ROUNDS, History, Round, history, text},
    html,
};
use jiff::Timestamp;
use kube::{Api, ResourceExt, api::ListParams};
use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

#[derive(Debug, Clone, Args)]
pub struct Options {
    /// Read all rounds of this suite with a schedule (NAME, suite/NAME), or these files with reports
    /// or BenchmarkRuns as JSON, oldest first.
    #[arg(required = true, value_name = "NAME")]
    pub names: Vec<String>,
    /// Print the history in this format.
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// Write the history to this file instead of standard output.
    #[arg(long, value_name = "FILE")]
    pub output_file: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For a terminal.
    #[default]
    Text,
    /// Everything, for programs.
    Json,
    /// One self-contained page with a chart of each figure that changed, for a browser.
    Html,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("failed to list the rounds of suite {1}")]
    List(#[source] Box<kube::Error>, String),
    #[error("name one suite with a schedule, or files alone")]
    Mixed,
    #[error("{0} is a run: name a suite with a schedule, or report files")]
    Run(String),
    #[error("suite {0} has no round with a report")]
    NoRounds(String),
    #[error("{0} is a published table, which has no rounds")]
    Table(String),
}

/// When the round was due, else when it was created.
fn time(round: &BenchmarkSuite) -> Option<Timestamp> {
    let due = round.annotations().get(labels::SCHEDULED_AT).and_then(|time| time.parse().ok());
    due.or_else(|| Some(round.metadata.creation_timestamp.as_ref()?.0))
}

/// All rounds of `suite` that have a report, oldest first.
async fn rounds_of(cluster: &Cluster, suite: &BenchmarkSuite) -> Outcome<Vec<Round>> {
    let api: Api<BenchmarkSuite> = cluster.api();
    let uid = suite.uid().unwrap_or_default();
    let of_suite = ListParams::default().labels(&format!("{}={uid}", labels::SUITE_UID));
    let listed = api.list(&of_suite).await;
    let listed = listed.map_err(|error| Error::List(Box::new(error), suite.name_any()))?;
    let mut rounds = Vec::new();
    for round in listed {
        if let Some(report) = results::report(cluster, &round).await? {
            rounds.push(Round { name: round.name_any(), time: time(&round), report });
        }
    }
    rounds.sort_by_key(|round| round.time);
    Ok(rounds)
}

async fn of_schedule(cluster: &Cluster, name: &str) -> Outcome<History> {
    let given = Given::parse(name, Some(Kind::Suite))?;
    if given.kind != Some(Kind::Suite) {
        return Err(Error::Run(name.to_owned()).into());
    }
    let suite: BenchmarkSuite = cluster.get("suite", &given.name).await?;
    let rounds = rounds_of(cluster, &suite).await?;
    if rounds.is_empty() {
        return Err(Error::NoRounds(given.name).into());
    }
    let rules = Rules { margins: suite.spec.margins.clone(), ..Rules::default() };
    Ok(history(&suite.name_any(), &rounds, &rules))
}

fn started(report: &Document) -> Option<Timestamp> {
    report.runs.iter().filter_map(|run| run.started_at).min()
}

fn of_files(files: &[String]) -> Outcome<History> {
    let mut rounds = Vec::new();
    for file in files {
        let source = gather::file(Path::new(file))?;
        if matches!(source, Source::Published(_)) {
            return Err(Error::Table(file.clone()).into());
        }
        let report = made(source);
        rounds.push(Round { name: file.clone(), time: started(&report), report });
    }
    let last = rounds.last().map(|round| &round.report);
    let (title, rules) = last.map(|report| (report.title.clone(), report.rules.clone())).unwrap_or_default();
    Ok(history(&title, &rounds, &rules))
}

/// 0 if nothing is worse than its anchor, 1 if something is, 2 if there are too few rounds to know.
fn exit_code(history: &History) -> u8 {
    match (history.is_worse(), history.shows_anything()) {
        (true, _) => 1,
        (false, true) => 0,
        (false, false) => 2,
    }
}

pub async fn show(cluster: Option<&Cluster>, options: &Options) -> Outcome<ExitCode> {
    let history = match (cluster, options.names.as_slice()) {
        (None, files) => of_files(files)?,
        (Some(cluster), [name]) => of_schedule(cluster, name).await?,
        (Some(_), _) => return Err(Error::Mixed.into()),
    };
    let output = match options.format {
        Format::Text => text(&history),
        Format::Json => print::json(&history)?,
        Format::Html => html::history(&history),
    };
    format::write(&output, options.output_file.as_deref())?;
    let code = exit_code(&history);
    if code == 2 {
        print::warn(&format!(
            "no figure was measured in {FEWEST_ROUNDS} rounds, the fewest that can show a change: a schedule stores passedHistoryLimit and failedHistoryLimit of them"
        ));
    }
    Ok(ExitCode::from(code))
}

#[cfg(test)]
mod tests {
    use super::*;
    use dragstrip_report::{
        document::{Cell, Row, RunRecord},
        json,
    };
    use dragstrip_results::statistics::spread;
    use tempfile::TempDir;

    /// Files with the reports of nights with these rates.
    fn files(rates: impl Iterator<Item = f64>) -> (TempDir, Vec<String>) {
        let directory = tempfile::tempdir().unwrap();
        let write = |(night, rate): (usize, f64)| {
            let noise = [0.01, -0.012, 0.003, -0.006, 0.008][night % 5];
            let cell = Cell { variant: "redis".to_owned(), values: Vec::new() };
            let row = Row {
                cell: cell.clone(),
                phase: "read".to_owned(),
                operation: "TOTAL".to_owned(),
                metric: "OperationsPerSecond".to_owned(),
                more_is_better: Some(true),
                spread: spread(&[rate * (1.0 + noise)]),
                ..Row::default()
            };
            let runs = vec![RunRecord { cell, ..RunRecord::default() }];
            let report =
                Document { title: "nightly".to_owned(), rows: vec![row], runs, ..Document::default() };
            let file = directory.path().join(format!("{night:02}.json"));
            std::fs::write(&file, json::render(&report)).unwrap();
            file.display().to_string()
        };
        let files = rates.enumerate().map(write).collect();
        (directory, files)
    }

    fn code(rates: impl Iterator<Item = f64>) -> u8 {
        let (_directory, files) = files(rates);
        exit_code(&of_files(&files).unwrap())
    }

    #[test]
    fn the_exit_code_says_whether_the_latest_level_is_worse() {
        let steady = || std::iter::repeat_n(1000.0, 20);
        let step = |rate: f64| code(steady().chain(std::iter::repeat_n(rate, 6)));
        assert_eq!((step(900.0), step(1100.0), step(1000.0)), (1, 0, 0));
        let mended = steady().chain(std::iter::repeat_n(900.0, 9)).chain(steady());
        assert_eq!(code(mended), 0, "the loss is over");
        assert_eq!(code(steady().take(5)), 2, "five rounds show nothing");
    }

    #[tokio::test]
    async fn the_history_is_written_to_the_file_that_is_named() {
        let (directory, names) = files(std::iter::repeat_n(1000.0, 12));
        let file = directory.path().join("history.json");
        show(None, &Options { names, format: Format::Json, output_file: Some(file.clone()) }).await.unwrap();
        let written = std::fs::read_to_string(file).unwrap();
        assert!(written.contains("nightly"), "{written}");
    }

    #[test]
    fn files_need_no_cluster_and_a_published_table_is_refused() {
        let (directory, mut files) = files(std::iter::once(1000.0));
        assert!(files.iter().all(|file| gather::is_path(file)));
        let table = directory.path().join("published.csv");
        std::fs::write(&table, "variant,phase,operation,metric,value\n").unwrap();
        files.push(table.display().to_string());
        let refused = of_files(&files).err().map(|error| error.to_string()).unwrap_or_default();
        assert!(refused.ends_with("is a published table, which has no rounds"), "{refused}");
    }
}
