//! Named parsers: the output of a benchmark tool, whatever it looks like, as
//! one type. [`check`] says whether a parser's options make sense, [`wanted`]
//! which file it needs, [`parse`] reads.
//!
//! Pure: text in, numbers out; no file, no clock, no process. A parser never
//! makes a number up: what a tool did not print is absent, a number that could
//! mean two things is an error, and of output that was cut off only whole
//! records are read, with [`Parsed::incomplete`] saying so.

pub mod criterion;
pub mod delimited;
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

pub use outputs::{Capture, Outputs, Wanted};
pub use parsed::{LatencyReport, Metric, Operation, Parsed, Percentile, PrintedLatency, ToolName};

use dragstrip_crds::workload::ParserSpec;

/// Why a tool's output gave no result.
#[derive(Debug, thiserror::Error)]
pub enum ParseError {
    /// No parser is named, or more than one.
    #[error(
        "a parser needs exactly one of memtierJson, redisBenchmarkCsv, goBench, criterionJson, csv, regex, json, hdrHistogramLog and dragstripJson"
    )]
    NotOneParser,
    /// What should be read is not there, or not whole.
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
    /// `criterionJson` failed.
    #[error("criterionJson: {0}")]
    Criterion(#[from] criterion::CriterionError),
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
    /// The output was read and holds no figure at all.
    #[error("the tool's output holds no operation and no metric")]
    Nothing,
}

/// Reads a tool's output.
pub fn parse(spec: &ParserSpec, outputs: &Outputs) -> Result<Parsed, ParseError> {
    one_parser(spec)?;
    let parsed = if let Some(options) = &spec.memtier_json {
        memtier::parse(&outputs.text(&options.file)?, &outputs.stderr, outputs.shards)?
    } else if let Some(options) = &spec.redis_benchmark_csv {
        redis_benchmark::parse(options, outputs.stdout()?)?
    } else if let Some(options) = &spec.go_bench {
        go_bench::parse(options, outputs.stdout()?)?
    } else if let Some(options) = &spec.criterion_json {
        criterion::parse(options, outputs)?
    } else if let Some(options) = &spec.csv {
        delimited::parse(options, &outputs.text(&options.file)?)?
    } else if let Some(options) = &spec.regex {
        patterns::parse(options, &outputs.streams(&options.file)?)?
    } else if let Some(options) = &spec.json {
        json::parse(options, &outputs.text(&options.file)?)?
    } else if let Some(options) = &spec.hdr_histogram_log {
        hdr_histogram_log::parse(options, outputs)?
    } else if let Some(options) = &spec.dragstrip_json {
        result_document::parse(&outputs.text(&options.file)?)?
    } else {
        return Err(ParseError::NotOneParser);
    };
    if parsed.operations.is_empty() && parsed.metrics.is_empty() {
        return Err(ParseError::Nothing);
    }
    Ok(parsed)
}

/// Whether the options make sense by themselves, before anything is run.
pub fn check(spec: &ParserSpec) -> Result<(), ParseError> {
    one_parser(spec)?;
    wanted(spec)?;
    if let Some(options) = &spec.csv {
        delimited::check(options)?;
    }
    if let Some(options) = &spec.regex {
        patterns::check(options)?;
    }
    if let Some(options) = &spec.json {
        json::check(options)?;
    }
    Ok(())
}

/// What below the output directory has to be read for this parser.
pub fn wanted(spec: &ParserSpec) -> Result<Wanted, ParseError> {
    let file = [&spec.memtier_json, &spec.dragstrip_json].into_iter().flatten().map(|options| &options.file);
    let file = file
        .chain(spec.csv.iter().map(|options| &options.file))
        .chain(spec.regex.iter().map(|options| &options.file))
        .chain(spec.json.iter().map(|options| &options.file))
        .next();
    if let Some(file) = file {
        return Ok(Wanted::file(file)?);
    }
    if let Some(options) = &spec.hdr_histogram_log {
        return Ok(Wanted::files(options.files.iter().map(|log| log.file.as_str()))?);
    }
    match &spec.criterion_json {
        Some(options) => Ok(Wanted::directory(&options.directory)?),
        None => Ok(Wanted::Nothing),
    }
}

fn one_parser(spec: &ParserSpec) -> Result<(), ParseError> {
    let named = [
        spec.memtier_json.is_some(),
        spec.redis_benchmark_csv.is_some(),
        spec.go_bench.is_some(),
        spec.criterion_json.is_some(),
        spec.csv.is_some(),
        spec.regex.is_some(),
        spec.json.is_some(),
        spec.hdr_histogram_log.is_some(),
        spec.dragstrip_json.is_some(),
    ];
    if named.into_iter().filter(|named| *named).count() == 1 { Ok(()) } else { Err(ParseError::NotOneParser) }
}
