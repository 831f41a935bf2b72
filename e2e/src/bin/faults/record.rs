//! What is recorded of a run, a line of JSON each, and the table of all of them.

use crate::{
    judge::Findings,
    plan::{Fault, Moment},
};
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File},
    io::{BufRead as _, BufReader, Write as _},
    path::Path,
};

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum End {
    /// Measured at the first attempt.
    Unharmed,
    /// Measured again after a loss that the status shows.
    Repeated,
    /// Failed.
    Failed,
    /// Deleted with its namespace.
    Deleted,
    /// It did not end.
    Never,
}

/// A run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Record {
    pub seed: u64,
    pub fault: Fault,
    pub moment: Moment,
    /// What was done; absent if the run had ended before, or if it was not possible.
    pub injected: Option<String>,
    /// Why it was not possible.
    pub missed: Option<String>,
    /// What other runs injected meanwhile that this one felt too.
    pub also: Vec<Fault>,
    pub end: End,
    /// Step and message of its failure.
    pub failure: Option<(String, String)>,
    #[serde(flatten)]
    pub findings: Findings,
    pub seconds: f64,
    pub lane: usize,
}

impl Record {
    /// Whether nothing is lost and nothing contradicted.
    pub fn good(&self) -> bool {
        self.findings.lost.is_empty() && self.findings.contradicted.is_empty()
    }
}

/// The records of a file, without a last line that was not written whole.
pub fn read(path: &Path) -> Result<Vec<Record>> {
    if !path.exists() {
        return Ok(Vec::new());
    }
    let lines = BufReader::new(File::open(path)?).lines().collect::<Result<Vec<_>, _>>()?;
    Ok(lines.iter().filter_map(|line| serde_json::from_str(line).ok()).collect())
}

/// Appends a record to a file.
pub fn append(path: &Path, record: &Record) -> Result<()> {
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    let mut file = File::options().create(true).append(true).open(path)?;
    // In one write, so that no two lines mix.
    let line = serde_json::to_string(record)? + "\n";
    file.write_all(line.as_bytes()).with_context(|| format!("failed to write to {}", path.display()))
}

fn cost(records: &[&Record]) -> String {
    let mut steps: BTreeMap<&str, usize> = BTreeMap::new();
    for (step, _) in records.iter().filter_map(|record| record.failure.as_ref()) {
        *steps.entry(step).or_default() += 1;
    }
    let steps: Vec<String> = steps.iter().map(|(step, count)| format!("{step} {count}")).collect();
    steps.join(", ")
}

/// Median of seconds.
fn median(records: &[&Record]) -> f64 {
    let mut seconds: Vec<f64> = records.iter().map(|record| record.seconds).collect();
    seconds.sort_by(f64::total_cmp);
    seconds.get(seconds.len() / 2).copied().unwrap_or_default()
}

fn row(name: &str, records: &[&Record]) -> String {
    let ended = |end: End| records.iter().filter(|record| record.end == end).count();
    let missed = records.iter().filter(|record| record.injected.is_none()).count();
    let lost = records.iter().filter(|record| !record.findings.lost.is_empty()).count();
    let unread = records.iter().filter(|record| !record.findings.unread.is_empty()).count();
    let contradicted = records.iter().filter(|record| !record.findings.contradicted.is_empty()).count();
    format!(
        "| {name} | {} | {} | {} | {} | {} | {} | {unread} | {lost} | {contradicted} | {:.0} s |",
        records.len() - missed,
        ended(End::Unharmed),
        ended(End::Repeated),
        ended(End::Failed),
        ended(End::Deleted),
        cost(records),
        median(records),
    )
}

/// A table of all records by fault, as Markdown.
pub fn table(records: &[Record]) -> String {
    let mut lines = vec![
        "| fault | injected | measured | measured again | failed | deleted | steps of the failures | unread | lost | contradicted | median |".to_owned(),
        "|---|--:|--:|--:|--:|--:|---|--:|--:|--:|--:|".to_owned(),
    ];
    let faults: BTreeSet<Fault> = records.iter().map(|record| record.fault).collect();
    for fault in faults {
        let of_fault: Vec<&Record> = records.iter().filter(|record| record.fault == fault).collect();
        lines.push(row(&fault.to_string(), &of_fault));
    }
    lines.push(row("all", &records.iter().collect::<Vec<_>>()));
    let phases = records.iter().flat_map(|record| &record.findings.phases);
    let (shown, confirmed) =
        (phases.clone().count(), phases.filter(|phase| phase.executed.is_some()).count());
    lines.push(format!(
        "\n{shown} phases are shown with numbers; for {confirmed} of them the server could be read after the load."
    ));
    lines.join("\n")
}
