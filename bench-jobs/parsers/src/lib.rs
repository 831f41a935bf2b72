//! Named parsers: the output of a benchmark tool as one type. [`check`] checks a parser's options,
//! [`wanted`] names the files that it needs, [`parse`] reads.
//!
//! Pure: text in, numbers out; no file, no clock, no process. A parser never invents a number: what
//! a tool did not print is absent, a number that could mean two things is an error, and from output
//! that was cut off it reads only complete records and sets [`Parsed::incomplete`].

mod delimited;
mod figures;
mod go_bench;
mod hdr_histogram_log;
mod json;
pub mod memtier;
mod notation;
mod outputs;
mod parsed;
mod patterns;
mod records;
mod redis_benchmark;
mod result_document;
mod time;

pub use outputs::{Capture, Outputs};
pub use parsed::{Parsed, Tool};
pub use result_document::schema;

use dragstrip_crds::workload::ParserSpec;
use dragstrip_results::result::MOST_ROWS;
use outputs::paths;
use std::error::Error;

/// Why a tool's output gave no result.
#[derive(Debug, thiserror::Error)]
pub enum ParseError {
    #[error(transparent)]
    Output(#[from] outputs::OutputError),
    #[error("{parser}: {source}")]
    Parser { parser: &'static str, source: Box<dyn Error + Send + Sync> },
    #[error("the tool's output holds no operation and no metric")]
    Nothing,
    /// More than the operator merges and a status can show.
    #[error("the tool's output holds {found} {what}, at most {MOST_ROWS} are read: let the tool print sums")]
    TooMany { what: &'static str, found: usize },
}

fn failed<E: Error + Send + Sync + 'static>(parser: &'static str) -> impl Fn(E) -> ParseError {
    move |source| ParseError::Parser { parser, source: Box::new(source) }
}

pub fn parse(spec: &ParserSpec, outputs: &Outputs) -> Result<Parsed, ParseError> {
    let parsed = match spec {
        ParserSpec::MemtierJson(options) => {
            let text = outputs.text(&options.file)?;
            memtier::parse(&text, &outputs.stderr, outputs.shards).map_err(failed("memtierJson"))
        }
        ParserSpec::RedisBenchmarkCsv(options) => {
            redis_benchmark::parse(options, outputs.stdout()?).map_err(failed("redisBenchmarkCsv"))
        }
        ParserSpec::GoBench(_) => go_bench::parse(outputs.stdout()?).map_err(failed("goBench")),
        ParserSpec::Csv(options) => {
            delimited::parse(options, &outputs.text(&options.file)?).map_err(failed("csv"))
        }
        ParserSpec::Regex(options) => {
            patterns::parse(options, &outputs.streams(&options.file)?).map_err(failed("regex"))
        }
        ParserSpec::Json(options) => {
            json::parse(options, &outputs.text(&options.file)?).map_err(failed("json"))
        }
        ParserSpec::HdrHistogramLog(options) => {
            hdr_histogram_log::parse(options, outputs).map_err(failed("hdrHistogramLog"))
        }
        ParserSpec::DragstripJson(options) => {
            result_document::parse(&outputs.text(&options.file)?).map_err(failed("dragstripJson"))
        }
    }?;
    if parsed.operations.is_empty() && parsed.metrics.is_empty() {
        return Err(ParseError::Nothing);
    }
    for (what, found) in [("operations", parsed.operations.len()), ("metrics", parsed.metrics.len())] {
        if found > MOST_ROWS {
            return Err(ParseError::TooMany { what, found });
        }
    }
    Ok(parsed)
}

/// Checks that the options make sense by themselves, before anything runs.
pub fn check(spec: &ParserSpec) -> Result<(), ParseError> {
    wanted(spec)?;
    match spec {
        ParserSpec::Csv(options) => delimited::check(options).map_err(failed("csv")),
        ParserSpec::Regex(options) => patterns::check(options).map_err(failed("regex")),
        ParserSpec::Json(options) => json::check(options).map_err(failed("json")),
        _ => Ok(()),
    }
}

/// The files that this parser reads if they exist, by their paths below the output directory.
pub fn wanted(spec: &ParserSpec) -> Result<Vec<String>, ParseError> {
    Ok(match spec {
        ParserSpec::MemtierJson(options) | ParserSpec::DragstripJson(options) => paths([&*options.file])?,
        ParserSpec::Csv(options) => paths([&*options.file])?,
        ParserSpec::Regex(options) => paths([&*options.file])?,
        ParserSpec::Json(options) => paths([&*options.file])?,
        ParserSpec::HdrHistogramLog(options) => paths(options.files.iter().map(|log| log.file.as_str()))?,
        ParserSpec::RedisBenchmarkCsv(_) | ParserSpec::GoBench(_) => Vec::new(),
    })
}
