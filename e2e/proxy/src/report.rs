//! What became of each plan: a line of JSON each, and the table by kind of fault.

use anyhow::{Context, Result};
use comfy_table::{Table, presets::ASCII_MARKDOWN};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    fs::File,
    io::Write,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

/// How a plan ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ending {
    /// All oracles hold.
    Survived,
    /// An oracle does not hold.
    Failed,
    /// The request of the plan did not come.
    Absent,
}

/// The record of a plan.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Record {
    pub plan: String,
    pub kind: String,
    pub ending: Ending,
    /// How much longer it took than without the fault, in seconds.
    pub longer: f64,
    /// How often an operator ended by itself.
    pub exits: usize,
    /// Repetitions that were measured again.
    pub retries: usize,
    /// What does not hold.
    pub wrong: Vec<String>,
}

/// The records of plans, in a file to which each is added as it comes.
pub struct Records {
    path: PathBuf,
    records: Mutex<BTreeMap<String, Record>>,
}

impl Records {
    /// The records in the file at `path`, which may not exist; failed plans are run again.
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let records = text.lines().map(serde_json::from_str::<Record>).collect::<Result<Vec<_>, _>>();
        let records = records.with_context(|| format!("{} has no records of plans", path.display()))?;
        let records = records.into_iter().map(|record| (record.plan.clone(), record));
        let records = Mutex::new(records.filter(|(_, record)| record.ending != Ending::Failed).collect());
        Ok(Self { path: path.to_owned(), records })
    }

    fn with<T>(&self, act: impl FnOnce(&mut BTreeMap<String, Record>) -> T) -> T {
        act(&mut self.records.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether there is a record of this plan.
    pub fn has(&self, plan: &str) -> bool {
        self.with(|records| records.contains_key(plan))
    }

    /// Adds a record.
    pub fn add(&self, record: Record) -> Result<()> {
        self.with(|records| {
            let mut file = File::options().append(true).create(true).open(&self.path)?;
            writeln!(file, "{}", serde_json::to_string(&record)?)?;
            records.insert(record.plan.clone(), record);
            Ok(())
        })
    }

    /// The table by kind, of the plans with these names.
    pub fn table(&self, kinds: &[&str], plans: &[String]) -> String {
        let mut table = Table::new();
        table.load_preset(ASCII_MARKDOWN);
        table.set_header([
            "fault",
            "injected",
            "survived",
            "failed",
            "the operator restarted by itself",
            "repetitions measured again",
            "longest delay",
        ]);
        for kind in kinds {
            let of_kind: Vec<Record> = self.with(|records| {
                let chosen = plans.iter().filter_map(|plan| records.get(plan));
                chosen.filter(|it| it.kind == *kind && it.ending != Ending::Absent).cloned().collect()
            });
            if of_kind.is_empty() {
                continue;
            }
            let count = |ending| of_kind.iter().filter(|record| record.ending == ending).count().to_string();
            let sum = |of: fn(&Record) -> usize| of_kind.iter().map(of).sum::<usize>().to_string();
            let longest = of_kind.iter().map(|record| record.longer).fold(0.0, f64::max);
            table.add_row([
                (*kind).to_owned(),
                of_kind.len().to_string(),
                count(Ending::Survived),
                count(Ending::Failed),
                sum(|record| record.exits),
                sum(|record| record.retries),
                format!("{longest:.0} s"),
            ]);
        }
        table.to_string()
    }

    /// The failed ones of the plans with these names.
    pub fn failed(&self, plans: &[String]) -> Vec<Record> {
        self.with(|records| {
            let failed = plans.iter().filter_map(|plan| records.get(plan));
            failed.filter(|record| record.ending == Ending::Failed).cloned().collect()
        })
    }
}
