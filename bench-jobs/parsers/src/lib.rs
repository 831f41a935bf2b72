//! Named parsers: the output of a benchmark tool as one type. [`check`] checks a parser's options,
//! [`wanted`] names the files that it needs, [`parse`] reads.
//!
//! Pure: text in, numbers out; no file, no clock, no process. A parser never invents a number: what
//! a tool did not print is absent, a number that could mean two things is an error, and of output
//! that was cut off it reads only complete records and sets [`Parsed::incomplete`].

pub mod delimited;
mod figures;
pub mod go_bench;
pub mod hdr_histogram_log;
pub mod json;
pub mod memtier;
pub mod notation;
pub mod outputs;
pub mod parsed;
pub mod patterns;
mod records;
pub mod redis_benchmark;
pub mod result_document;
pub mod time;

pub use figures::FigureError;
pub use outputs::{Capture, Outputs};
pub use parsed::{LatencyReport, Metric, Operation, Parsed, Percentile, PrintedLatency, ToolName};

use dragstrip_crds::workload::ParserSpec;
use outputs::paths;

/// Why a tool's output gave no result.
#[derive(Debug, thiserror::Error)]
pub enum ParseError {
    /// A file or stream is missing or incomplete.
    #[error(transparent)]
    Output(#[from] outputs::OutputError),
    /// `memtierJson` failed.
    #[error("memtierJson: {0}")]
    Memtier(#[from] memtier::MemtierError),
    /// `redisBenchmarkCsv` failed.
    #[error("redisBenchmarkCsv: {0}")]
    RedisBenchmark(#[from] redis_benchmark::RedisBenchmarkError),
    /// `goBench` failed.
    #[error("goBench: {0}")]
    GoBench(#[from] go_bench::GoBenchError),
    /// `csv` failed.
    #[error("csv: {0}")]
    Csv(#[from] delimited::CsvError),
    /// `regex` failed.
    #[error("regex: {0}")]
    Regex(#[from] patterns::RegexError),
    /// `json` failed.
    #[error("json: {0}")]
    Json(#[from] json::JsonError),
    /// `hdrHistogramLog` failed.
    #[error("hdrHistogramLog: {0}")]
    HdrHistogramLog(#[from] hdr_histogram_log::HdrHistogramLogError),
    /// `dragstripJson` failed.
    #[error("dragstripJson: {0}")]
    Dragstrip(#[from] result_document::ResultError),
    /// The output holds no figure at all.
    #[error("the tool's output holds no operation and no metric")]
    Nothing,
}

/// Reads a tool's output.
pub fn parse(spec: &ParserSpec, outputs: &Outputs) -> Result<Parsed, ParseError> {
    let parsed = match spec {
        ParserSpec::MemtierJson(options) => {
            memtier::parse(&outputs.text(&options.file)?, &outputs.stderr, outputs.shards)?
        }
        ParserSpec::RedisBenchmarkCsv(options) => redis_benchmark::parse(options, outputs.stdout()?)?,
        ParserSpec::GoBench(_) => go_bench::parse(outputs.stdout()?)?,
        ParserSpec::Csv(options) => delimited::parse(options, &outputs.text(&options.file)?)?,
        ParserSpec::Regex(options) => patterns::parse(options, &outputs.streams(&options.file)?)?,
        ParserSpec::Json(options) => json::parse(options, &outputs.text(&options.file)?)?,
        ParserSpec::HdrHistogramLog(options) => hdr_histogram_log::parse(options, outputs)?,
        ParserSpec::DragstripJson(options) => result_document::parse(&outputs.text(&options.file)?)?,
    };
    if parsed.operations.is_empty() && parsed.metrics.is_empty() {
        return Err(ParseError::Nothing);
    }
    Ok(parsed)
}

/// Checks that the options make sense by themselves, before anything runs.
pub fn check(spec: &ParserSpec) -> Result<(), ParseError> {
    wanted(spec)?;
    match spec {
        ParserSpec::Csv(options) => Ok(delimited::check(options)?),
        ParserSpec::Regex(options) => Ok(patterns::check(options)?),
        ParserSpec::Json(options) => Ok(json::check(options)?),
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
