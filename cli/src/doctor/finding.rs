//! What a look has found, and how it is told. Pure.

use crate::output::{Mood, paint};
use serde::Serialize;
use std::fmt;

/// How well something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Level {
    /// All is well.
    Ok,
    /// It was not looked at, or may not be.
    Skip,
    /// Runs work, but perhaps not as meant.
    Warn,
    /// No run works.
    Fail,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ok => "OK  ",
            Self::Skip => "SKIP",
            Self::Warn => "WARN",
            Self::Fail => "FAIL",
        })
    }
}

/// What one look has found.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub level: Level,
    /// What was looked at, and what was seen.
    pub seen: String,
    /// What to do about it; empty where all is well.
    pub remedy: String,
}

/// All is well.
pub fn ok(seen: impl Into<String>) -> Finding {
    Finding { level: Level::Ok, seen: seen.into(), remedy: String::new() }
}

/// Runs work, but perhaps not as meant.
pub fn warn(seen: impl Into<String>, remedy: impl Into<String>) -> Finding {
    Finding { level: Level::Warn, seen: seen.into(), remedy: remedy.into() }
}

/// No run works.
pub fn fail(seen: impl Into<String>, remedy: impl Into<String>) -> Finding {
    Finding { level: Level::Fail, seen: seen.into(), remedy: remedy.into() }
}

/// It was not looked at.
pub fn skip(seen: impl Into<String>, remedy: impl Into<String>) -> Finding {
    Finding { level: Level::Skip, seen: seen.into(), remedy: remedy.into() }
}

/// What could not be looked at.
pub fn unseen(what: &str, error: &kube::Error, remedy: &str) -> Finding {
    warn(format!("{what}: cannot be looked at: {error}"), remedy)
}

/// All of it, for people.
pub fn text(findings: &[Finding]) -> String {
    let line = |finding: &Finding| {
        let remedy =
            if finding.remedy.is_empty() { String::new() } else { format!("      {}\n", finding.remedy) };
        let mood = match finding.level {
            Level::Ok => Mood::Good,
            Level::Skip | Level::Warn => Mood::Doubtful,
            Level::Fail => Mood::Bad,
        };
        format!("{}  {}\n{remedy}", paint(&finding.level.to_string(), mood), finding.seen)
    };
    findings.iter().map(line).collect()
}
