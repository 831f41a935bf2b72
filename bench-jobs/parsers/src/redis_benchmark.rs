//! What `redis-benchmark --csv` prints (and valkey-benchmark, KeyDB's too):
//! since 6.2 a header and eight columns, before that two columns and no header.
//!
//! It prints rates and latency percentiles and no counts: a count is known
//! only if the spec says how many requests the tool was to send.

use crate::{
    notation::{Notation, NumberError},
    parsed::{Parsed, Tool, named},
    records::lines,
};
use dragstrip_crds::{measured::LatencySummary, workload::RedisBenchmarkParser};
use dragstrip_results::result::Operation;

/// The header since 6.2, as printed, without quotes.
const HEADER: [&str; 8] = [
    "test",
    "rps",
    "avg_latency_ms",
    "min_latency_ms",
    "p50_latency_ms",
    "p95_latency_ms",
    "p99_latency_ms",
    "max_latency_ms",
];

/// Between two columns. The tool quotes every field and escapes nothing, so that
/// a test's name may hold this too: columns are counted from the end of the line.
const BETWEEN: &str = "\",\"";

#[derive(Debug, thiserror::Error)]
pub enum RedisBenchmarkError {
    #[error(
        "standard output holds {0:?}, which redis-benchmark prints without --csv: add --csv to its arguments"
    )]
    NotCsv(String),
    #[error("standard output holds {0:?}, which redis-benchmark --csv prints only when something went wrong")]
    Line(String),
    #[error("{0:?} does not have the columns of its table: 2 without a header (before 6.2), 8 with it")]
    Columns(String),
    /// The header is another than the known one, so that columns could be mixed up.
    #[error("the header is {0:?}, which is not that of any known redis-benchmark")]
    Header(String),
    #[error("{column} of {test:?}: {source}")]
    Number { test: String, column: &'static str, source: NumberError },
    #[error("the test {0:?} is there twice: run one redis-benchmark at a time")]
    Twice(String),
}

pub fn parse(options: &RedisBenchmarkParser, stdout: &str) -> Result<Parsed, RedisBenchmarkError> {
    let lines = lines(stdout);
    let mut rows = lines.complete.lines().map(str::trim_end).filter(|line| !line.is_empty()).peekable();
    let with_header =
        rows.next_if(|line| line.starts_with("\"test\"")).map(check_header).transpose()?.is_some();
    let mut operations: Vec<Operation> = Vec::new();
    for row in rows {
        let operation = if with_header { eight_columns(row, options)? } else { two_columns(row, options)? };
        if operations.iter().any(|known| known.name == operation.name) {
            return Err(RedisBenchmarkError::Twice(operation.name));
        }
        operations.push(operation);
    }
    Ok(Parsed {
        operations,
        tool: Some(Tool::named("redis-benchmark")),
        incomplete: lines.incomplete(),
        ..Parsed::default()
    })
}

fn check_header(line: &str) -> Result<(), RedisBenchmarkError> {
    let expected = format!("\"{}\"", HEADER.join(BETWEEN));
    if line == expected { Ok(()) } else { Err(RedisBenchmarkError::Header(shown(line))) }
}

fn eight_columns(line: &str, options: &RedisBenchmarkParser) -> Result<Operation, RedisBenchmarkError> {
    // From the end: maximum, p99, p95, p50, minimum, mean, rate, test.
    let columns: Vec<&str> = fields(line)?.rsplitn(HEADER.len(), BETWEEN).collect();
    let &[maximum, p99, p95, p50, minimum, mean, rate, test] = columns.as_slice() else {
        return Err(RedisBenchmarkError::Columns(shown(line)));
    };
    number(test, HEADER[3], minimum)?;
    let latency_milliseconds = LatencySummary {
        mean: Some(number(test, HEADER[2], mean)?),
        p50: Some(number(test, HEADER[4], p50)?),
        p95: Some(number(test, HEADER[5], p95)?),
        p99: Some(number(test, HEADER[6], p99)?),
        max: Some(number(test, HEADER[7], maximum)?),
        ..LatencySummary::default()
    };
    Ok(Operation { latency_milliseconds, ..operation(test, rate, options)? })
}

fn two_columns(line: &str, options: &RedisBenchmarkParser) -> Result<Operation, RedisBenchmarkError> {
    match fields(line)?.split_once(BETWEEN) {
        // More columns would be latencies, and the header that names them is missing.
        Some((test, rate)) if !rate.contains(BETWEEN) => operation(test, rate, options),
        _ => Err(RedisBenchmarkError::Columns(shown(line))),
    }
}

fn operation(
    test: &str,
    rate: &str,
    options: &RedisBenchmarkParser,
) -> Result<Operation, RedisBenchmarkError> {
    let rate = Some(number(test, HEADER[1], rate)?);
    Ok(Operation {
        // Its tests run one after the other.
        operations_per_second: rate,
        tool_operations_per_second: rate,
        count: options.requests.and_then(|requests| u64::try_from(requests).ok()).unwrap_or_default(),
        ..named(test)
    })
}

/// The line without its first and last quote.
fn fields(line: &str) -> Result<&str, RedisBenchmarkError> {
    line.strip_prefix('"')
        .and_then(|line| line.strip_suffix('"'))
        .ok_or_else(|| if is_for_people(line) { RedisBenchmarkError::NotCsv } else { RedisBenchmarkError::Line }(shown(line)))
}

/// `====== SET ======`, `SET: rps=0.0 (overall: ...)`, `SET: 27855.15 requests per second, ...`.
fn is_for_people(line: &str) -> bool {
    ["======", ": rps=", " requests per second", " requests completed in "]
        .iter()
        .any(|text| line.contains(text))
}

/// The tool's own notation: it follows no locale, and nothing it prints is below 0.
fn number(test: &str, column: &'static str, text: &str) -> Result<f64, RedisBenchmarkError> {
    let read = match Notation::PLAIN.number(text) {
        Ok(number) if number < 0.0 => Err(NumberError::Negative(text.to_owned())),
        read => read,
    };
    read.map_err(|source| RedisBenchmarkError::Number { test: test.to_owned(), column, source })
}

fn shown(line: &str) -> String {
    line.chars().take(200).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(stdout: &str) -> Result<Parsed, RedisBenchmarkError> {
        parse(&RedisBenchmarkParser::default(), stdout)
    }

    #[test]
    fn two_columns_give_rates_alone() {
        let parsed =
            plain("\"SET\",\"123456.79\"\n\"LRANGE_100 (first 100 elements)\",\"51020.41\"\n").unwrap();
        assert_eq!(parsed.operations.len(), 2);
        let range = &parsed.operations[1];
        assert_eq!(range.name, "LRANGE_100 (first 100 elements)");
        assert_eq!(range.operations_per_second, Some(51020.41));
        assert_eq!(
            (range.count, range.latency_milliseconds),
            (0, LatencySummary::default()),
            "a count or latency was invented"
        );
    }

    #[test]
    fn the_declared_requests_are_the_count() {
        let options = RedisBenchmarkParser { requests: Some(100_000) };
        assert_eq!(parse(&options, "\"GET\",\"1.00\"\n").unwrap().operations[0].count, 100_000);
    }

    #[test]
    fn text_for_people_is_an_error_with_the_remedy() {
        for stdout in [
            "\r          \rSET: rps=0.0 (overall: -nan) avg_msec=-nan (overall: -nan)\r\n====== SET ======                \n",
            "SET: 27855.15 requests per second, p50=0.143 msec\n",
            "====== SET ======\n  20000 requests completed in 1.32 seconds\n",
        ] {
            let message = plain(stdout).unwrap_err().to_string();
            assert!(message.ends_with("add --csv to its arguments"), "{message}");
        }
        let message =
            plain("Could not connect to Redis at 127.0.0.1:1: Connection refused\n").unwrap_err().to_string();
        assert!(!message.contains("add --csv"), "{message}");
    }

    #[test]
    fn a_line_that_was_cut_is_not_read() {
        let parsed = plain("\"SET\",\"123456.79\"\n\"GET\",\"12").unwrap();
        assert_eq!(parsed.operations.len(), 1);
        assert!(parsed.incomplete.unwrap().contains("GET"));
    }

    #[test]
    fn columns_that_are_mixed_up_are_refused() {
        for stdout in [
            "\"test\",\"rps\",\"min_latency_ms\",\"avg_latency_ms\",\"p50_latency_ms\",\"p95_latency_ms\",\"p99_latency_ms\",\"max_latency_ms\"\n",
            "\"SET\",\"1.00\",\"2.00\"\n",
            "\"SET\",\"1.00\"\n\"GET\",\"1.00\",\"2\",\"3\",\"4\",\"5\",\"6\",\"7\"\n",
            "\"SET\",\"inf\"\n",
            "\"SET\",\"1,5\"\n",
            "\"SET\",\"1\"\n\"SET\",\"2\"\n",
            "PING_INLINE: rps=0.0\n",
            "\"SET\",\"1\"\nError from server: OOM\n",
            "\"SET\",\"-1\"\n",
        ] {
            assert!(plain(stdout).is_err(), "read {stdout:?}");
        }
    }
}
