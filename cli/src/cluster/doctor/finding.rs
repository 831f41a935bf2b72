//! What an examination finds, and how it is printed. Pure.

use crate::output::errors;
use serde::Serialize;
use std::fmt;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Level {
    Ok,
    Skip,
    /// Runs work, but perhaps not as intended.
    Warn,
    /// No run can work.
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

#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub level: Level,
    pub seen: String,
    /// What to do about it; empty for Ok.
    pub remedy: String,
}

pub fn ok(seen: impl Into<String>) -> Finding {
    Finding { level: Level::Ok, seen: seen.into(), remedy: String::new() }
}

pub fn warn(seen: impl Into<String>, remedy: impl Into<String>) -> Finding {
    Finding { level: Level::Warn, seen: seen.into(), remedy: remedy.into() }
}

pub fn fail(seen: impl Into<String>, remedy: impl Into<String>) -> Finding {
    Finding { level: Level::Fail, seen: seen.into(), remedy: remedy.into() }
}

pub fn skip(seen: impl Into<String>, remedy: impl Into<String>) -> Finding {
    Finding { level: Level::Skip, seen: seen.into(), remedy: remedy.into() }
}

/// The finding about something that could not be read.
pub fn unseen(what: &str, error: &kube::Error, remedy: &str) -> Finding {
    warn(format!("{what}: cannot be read: {}", errors::chain(error)), remedy)
}

pub fn text(findings: &[Finding]) -> String {
    let line = |finding: &Finding| {
        let remedy =
            if finding.remedy.is_empty() { String::new() } else { format!("      {}\n", finding.remedy) };
        format!("{}  {}\n{remedy}", finding.level, finding.seen)
    };
    findings.iter().map(line).collect()
}
