//! What is wrong with a suite, in words. Pure.

use std::fmt;

/// What is wrong with a suite; each names the field and the remedy.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum Problem {
    #[error("{field} {name:?} appears twice: use unique names")]
    Twice {
        /// Of which there are two.
        field: String,
        name: String,
    },
    #[error(
        "spec.axes[{0}]: reports have a column of that name of their own: call the axis {0}-size, {0}-count or the like"
    )]
    Column(String),
    #[error(
        "{0} needs a name: only texts of at most 40 characters, numbers, true and false are names themselves"
    )]
    Nameless(String),
    #[error("{0} changes nothing: give it a value, or patches")]
    Empty(String),
    #[error("{0} has a value, and its axis has no paths to put it at: name them, or give each value patches")]
    NoPlace(String),
    #[error(
        "{field}: {path:?} is not a JSON pointer: it begins with / and names a field at each step, such as /phases/0/memtier/pipeline"
    )]
    Syntax { field: String, path: String },
    #[error("{field}: a run has no field {path}: {near}")]
    Path {
        field: String,
        path: String,
        /// What it may have been meant to be.
        near: String,
    },
    #[error("{field}: {path} is what the suite itself decides: leave it out")]
    Decided { field: String, path: String },
    #[error("{first} and {second} both change {path}, and only one of them would count: vary it by one")]
    Contested {
        /// Where the first is written.
        first: String,
        /// Where the second is written.
        second: String,
        path: String,
    },
    #[error("spec.exclude[{index}] leaves nothing out: {why}")]
    NothingExcluded {
        /// Its place in the list.
        index: usize,
        /// Which name is not there.
        why: String,
    },
    #[error("spec.exclude leaves every combination out: nothing would be measured")]
    AllExcluded,
    #[error(
        "{runs} runs ({how}), and spec.maxRuns is {most}: leave values out, lower repetitions, or raise maxRuns if that is meant"
    )]
    TooMany {
        /// How many there would be.
        runs: u128,
        how: String,
        most: i32,
    },
    #[error("{field} of {cell}: nothing can be put at {path}: {why}")]
    Put {
        field: String,
        cell: String,
        path: String,
        /// What is in the way.
        why: String,
    },
    #[error("the run of {cell} is not a BenchmarkRun: {path}: {why}")]
    Decode {
        cell: String,
        /// The field of the run.
        path: String,
        /// What is wrong with it.
        why: String,
    },
    #[error("the run of {cell} cannot be measured: {why}")]
    Refused {
        cell: String,
        /// What is wrong with it.
        why: String,
    },
    #[error("spec.thresholds[{index}].phase: no run has a phase {phase:?}: they have {known}{near}")]
    NoPhase {
        /// Its place in the list.
        index: usize,
        phase: String,
        /// The phases of all runs.
        known: String,
        /// What it may have been meant to be.
        near: String,
    },
    #[error(
        "{first} and {second} would be measured alike: an axis overwrites what makes them differ, or nothing does: leave one of them out; to see how equal measurements differ, declare two variants with the same target and patches"
    )]
    SameSpec { first: String, second: String },
    #[error("the runs of {first} and of {second} would have the same name: rename a variant or a value")]
    SameName { first: String, second: String },
}

impl Problem {
    /// What is the same of it for all combinations that have it.
    pub fn cause(&self) -> String {
        match self {
            Self::Put { path, why, .. } | Self::Decode { path, why, .. } => format!("{path} {why}"),
            Self::Refused { why, .. } => why.clone(),
            other => other.to_string(),
        }
    }

    /// It, of `count` combinations.
    #[must_use]
    pub fn of_several(mut self, count: usize) -> Self {
        if let (Self::Put { cell, .. } | Self::Decode { cell, .. } | Self::Refused { cell, .. }, 2..) =
            (&mut self, count)
        {
            *cell = format!("{cell} (and of {} more)", count - 1);
        }
        self
    }
}

/// A suite that cannot be measured as declared: everything that is wrong with it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Invalid(pub Vec<Problem>);

/// Problems that are told in one text; what is left out is counted.
const TOLD: usize = 10;

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reported: Vec<String> = self.0.iter().take(TOLD).map(ToString::to_string).collect();
        f.write_str(&reported.join("; "))?;
        match self.0.len().saturating_sub(TOLD) {
            0 => Ok(()),
            more => write!(f, "; and {more} more"),
        }
    }
}
