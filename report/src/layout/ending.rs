//! How runs ended. Pure.

use crate::document::{Document, RunRecord};
use dragstrip_crds::run::{RunPhase, Verdict};
use std::collections::BTreeMap;

/// How a run ended, as far as its numbers are concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ending {
    /// With numbers that were judged.
    Judged(Verdict),
    /// With numbers of which nobody says whether they may be believed.
    Unjudged,
    /// Without.
    Failed,
    /// It was stopped.
    Cancelled,
    /// It has not ended.
    Unfinished,
}

impl Ending {
    /// That of `run`: one whose numbers are Invalid has failed too, and that says more.
    pub fn of(run: &RunRecord) -> Self {
        match (run.phase, run.verdict) {
            (RunPhase::Failed, Some(Verdict::Invalid)) => Self::Judged(Verdict::Invalid),
            (RunPhase::Succeeded, Some(verdict)) => Self::Judged(verdict),
            (RunPhase::Succeeded, None) => Self::Unjudged,
            (RunPhase::Failed, _) => Self::Failed,
            (RunPhase::Cancelled, _) => Self::Cancelled,
            _ => Self::Unfinished,
        }
    }

    /// In a word or two.
    pub fn word(self) -> String {
        match self {
            Self::Judged(verdict) => verdict.to_string(),
            Self::Unjudged => "no verdict".to_owned(),
            Self::Failed => "Failed".to_owned(),
            Self::Cancelled => "Cancelled".to_owned(),
            Self::Unfinished => "not finished".to_owned(),
        }
    }
}

/// How many runs ended how.
pub fn endings(document: &Document) -> BTreeMap<Ending, usize> {
    let mut counts = BTreeMap::new();
    for run in &document.runs {
        *counts.entry(Ending::of(run)).or_default() += 1;
    }
    counts
}
