//! What `redis-benchmark --csv` prints (and valkey-benchmark, KeyDB's too):
//! since 6.2 a header and eight columns, before that two columns and no header.
//!
//! It prints rates and latency percentiles and no counts: a count is known
//! only where the spec says with how many requests the tool was told to run.

use crate::{
    notation::{Notation, NumberError},
    parsed::{LatencyReport, Operation, Parsed, PrintedLatency, ToolName},
    records::lines,
};
use dragstrip_crds::workload::StdoutParser;

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

/// Why the output of redis-benchmark gave no result.
#[derive(Debug, thiserror::Error)]
pub enum RedisBenchmarkError {
    /// A line is no CSV.
    #[error("standard output is not what redis-benchmark --csv prints")]
    Csv(#[source] csv::Error),
    /// A line has another number of columns than its format.
    #[error("line {line} has {columns} columns; redis-benchmark --csv prints 2 (before 6.2) or 8")]
    Columns {
        /// Which line, from 1.
        line: u64,
        /// How many it has.
        columns: usize,
    },
    /// The header is another than the known one, so that columns could be mixed up.
    #[error("the header has the column {found:?} where redis-benchmark --csv prints {expected:?}")]
    Header {
        /// What should be there.
        expected: &'static str,
        /// What is.
        found: String,
    },
    /// A figure is no number.
    #[error("{column} of {test:?}: {source}")]
    Number {
        /// The test.
        test: String,
        /// The column.
        column: &'static str,
        /// What is wrong.
        source: NumberError,
    },
    /// The same test twice.
    #[error("the test {0:?} is there twice: run one redis-benchmark at a time")]
    Twice(String),
}

/// Reads standard output.
pub fn parse(options: &StdoutParser, stdout: &str) -> Result<Parsed, RedisBenchmarkError> {
    let lines = lines(stdout);
    let mut reader =
        csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(lines.whole.as_bytes());
    let mut operations: Vec<Operation> = Vec::new();
    let mut columns = None;
    for record in reader.records() {
        let record = record.map_err(RedisBenchmarkError::Csv)?;
        let expected = *columns.get_or_insert(record.len());
        if record.len() != expected || !matches!(expected, 2 | 8) {
            let line = record.position().map_or(0, csv::Position::line);
            return Err(RedisBenchmarkError::Columns { line, columns: record.len() });
        }
        if operations.is_empty() && record.get(0) == Some(HEADER[0]) {
            check_header(&record)?;
            continue;
        }
        let operation = operation(&record, options)?;
        if operations.iter().any(|known| known.name == operation.name) {
            return Err(RedisBenchmarkError::Twice(operation.name));
        }
        operations.push(operation);
    }
    Ok(Parsed {
        operations,
        tool: Some(ToolName { name: "redis-benchmark".to_owned(), version: None }),
        incomplete: lines.incomplete(),
        ..Parsed::default()
    })
}

fn check_header(record: &csv::StringRecord) -> Result<(), RedisBenchmarkError> {
    match HEADER.into_iter().zip(record).find(|(expected, found)| expected != found) {
        Some((expected, found)) => Err(RedisBenchmarkError::Header { expected, found: found.to_owned() }),
        None => Ok(()),
    }
}

fn operation(record: &csv::StringRecord, options: &StdoutParser) -> Result<Operation, RedisBenchmarkError> {
    let test = &record[0];
    let number = |column: usize| {
        // The tool's own notation: it follows no locale.
        Notation::PLAIN.number(&record[column]).map_err(|source| RedisBenchmarkError::Number {
            test: test.to_owned(),
            column: HEADER[column],
            source,
        })
    };
    let latency = if record.len() == HEADER.len() {
        let mut printed = PrintedLatency {
            mean: Some(number(2)?),
            minimum: Some(number(3)?),
            maximum: Some(number(7)?),
            percentiles: Vec::new(),
        };
        for (percent, column) in [(50.0, 4), (95.0, 5), (99.0, 6)] {
            printed.add_percentile(percent, number(column)?);
        }
        Some(LatencyReport::Printed(printed))
    } else {
        None
    };
    Ok(Operation {
        operations_per_second: Some(number(1)?),
        count: options.requests.and_then(|requests| u64::try_from(requests).ok()),
        latency,
        ..Operation::named(test)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(stdout: &str) -> Result<Parsed, RedisBenchmarkError> {
        parse(&StdoutParser::default(), stdout)
    }

    #[test]
    fn two_columns_give_rates_alone() {
        let parsed = plain("\"SET\",\"123456.79\"\n\"LRANGE_100 (first 100 elements)\",\"51020.41\"\n").unwrap();
        assert_eq!(parsed.operations.len(), 2);
        let range = &parsed.operations[1];
        assert_eq!(range.name, "LRANGE_100 (first 100 elements)");
        assert_eq!(range.operations_per_second, Some(51020.41));
        assert_eq!((range.count, &range.latency), (None, &None), "a count or latency was invented");
    }

    #[test]
    fn the_declared_requests_are_the_count() {
        let options = StdoutParser { requests: Some(100_000) };
        assert_eq!(parse(&options, "\"GET\",\"1.00\"\n").unwrap().operations[0].count, Some(100_000));
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
        ] {
            assert!(plain(stdout).is_err(), "read {stdout:?}");
        }
    }
}
