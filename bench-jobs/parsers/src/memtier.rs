//! memtier's JSON result ([`report`], [`operations`], [`agreement`]) and the
//! one that dfly_bench writes in its likeness ([`dfly_bench`]).
//!
//! Neither file distinguishes error replies from others. memtier writes each of them to
//! standard error, where they are counted; its rates and its duration are its
//! own account and may be a second off (see [`report`]).

pub mod agreement;
mod dfly_bench;
mod document;
pub mod operations;
pub mod replies;
pub mod report;

use crate::{
    outputs::Capture,
    parsed::{Parsed, Tool},
};
use document::Value;
use report::{Report, ReportError};
use std::collections::BTreeMap;

#[derive(Debug, thiserror::Error)]
pub enum MemtierError {
    #[error(transparent)]
    Report(#[from] ReportError),
    #[error("{0}")]
    Contradiction(String),
    #[error("the result file has a percentile {name:?} in {section:?}")]
    Percentile { section: String, name: String },
}

/// Reads a result file, with its standard error, of a load on so many servers.
pub fn parse(text: &str, stderr: &Capture, shards: u64) -> Result<Parsed, MemtierError> {
    // Invalid JSON may still be memtier's: it writes its options unescaped.
    let document = Value::parse(text).ok();
    if let Some(document) = &document
        && document.get("ALL STATS").is_some()
        && document.get("run information").is_none()
    {
        return dfly_bench::read(document);
    }
    let options = document.as_ref().and_then(|document| document.get("configuration"));
    let pipeline = options.and_then(|options| options.whole("pipeline"));
    let report = Report::read(text)?;
    // The last replies of an interrupted run may be missing in some counts; it is marked incomplete.
    let contradiction = agreement::contradiction(&report, pipeline, shards).filter(|_| !report.interrupted);
    if let Some(contradiction) = contradiction {
        return Err(MemtierError::Contradiction(contradiction));
    }
    let mut errors = error_replies(&stderr.text);
    let operations = operations::operations(&report, errors.values().sum())?;
    for (word, count) in operations::redirections(&report) {
        *errors.entry(word).or_default() += count;
    }
    let positive = |number: f64| (number.is_finite() && number > 0.0).then_some(number);
    Ok(Parsed {
        operations,
        seconds: positive(report.seconds),
        per_second: operations::per_second(&report),
        connections: Some(report.connections()),
        pipeline,
        errors,
        tool: Some(Tool::named("memtier")),
        incomplete: incomplete(&report, stderr),
        ..Parsed::default()
    })
}

fn error_replies(stderr: &str) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for reply in stderr.split(['\n', '\r']).filter_map(replies::error_reply) {
        replies::count(&mut counts, replies::error_word(reply));
    }
    counts
}

fn incomplete(report: &Report, stderr: &Capture) -> Option<String> {
    if report.interrupted {
        Some("memtier says that it was interrupted".to_owned())
    } else if report.connection_errors > 0 {
        Some(format!("memtier counted {} connection errors", report.connection_errors))
    } else if stderr.cut {
        Some("memtier wrote more to standard error than is stored, so error replies are missing".to_owned())
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_replies_are_counted_by_their_first_word() {
        let stderr = "server 127.0.0.1:7001 handle error response: -OOM command not allowed\r\n\
                      [RUN #1 10%, 1 secs] 2 threads: 5 ops,\r\
                      server a:1 handle error response: -OOM x\nserver a:1 handle error response: \n";
        assert_eq!(error_replies(stderr), BTreeMap::from([("OOM".to_owned(), 2), ("OTHER".to_owned(), 1)]));
    }
}
