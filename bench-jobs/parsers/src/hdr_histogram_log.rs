//! Logs of HdrHistogram (.hlog, .hdr), as its libraries write them for YCSB, wrk2
//! and others: lines of a start, a length, a maximum and a histogram, which are
//! added up per operation. The load's window is from the first interval's start to
//! the last one's end.

use crate::{
    outputs::{OutputError, Outputs},
    parsed::{Parsed, named},
    records::lines,
};
use dragstrip_crds::workload::{HdrHistogramLogFile, HdrHistogramLogParser, TimeUnit};
use dragstrip_results::{
    histogram::{EncodedHistogram, HistogramError, Latencies},
    result::Operation,
};
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

/// Intervals further than this before the log's start are counted from that start,
/// which is how the format's own readers decide (a year, in seconds).
const FAR_BEFORE: f64 = 365.0 * 24.0 * 3600.0;
/// Latest possible start, in seconds of Unix time: the year 2262, where nanoseconds end.
const LATEST: f64 = 9.2e9;

#[derive(Debug, thiserror::Error)]
pub enum HdrHistogramLogError {
    #[error(transparent)]
    Output(#[from] OutputError),
    #[error("{file:?} is not a log of HdrHistogram: it holds {line:?}")]
    Line { file: String, line: String },
    #[error("{0:?} holds no histogram")]
    Empty(String),
    #[error("a histogram of {operation} in {file:?}: {source}")]
    Histogram { file: String, operation: String, source: HistogramError },
}

pub fn parse(options: &HdrHistogramLogParser, outputs: &Outputs) -> Result<Parsed, HdrHistogramLogError> {
    let mut sums = Sums { unit: options.unit, operations: Vec::new(), span: None, absolute: true };
    let mut incomplete = None;
    for log in options.files.iter().filter(|log| log.required || outputs.has(&log.file)) {
        let text = outputs.text(&log.file)?;
        let lines = lines(&text);
        incomplete = incomplete.or(lines.incomplete());
        sums.take_in(log, lines.complete)?;
    }
    let seconds = sums.span.map(|(start, end)| end - start).filter(|seconds| *seconds > 0.0);
    // Within the range that was checked, and a microsecond is exact enough.
    #[allow(clippy::cast_possible_truncation)]
    let start = sums.span.filter(|_| sums.absolute).map(|(start, _)| (start * 1e9) as i64);
    Ok(Parsed {
        operations: sums.operations.into_iter().map(Sum::finish).collect::<Result<_, _>>()?,
        seconds,
        start_unix_nanos: start.filter(|_| seconds.is_some()),
        incomplete,
        ..Parsed::default()
    })
}

struct Sum {
    file: String,
    operation: String,
    latencies: Option<Latencies>,
    errors: u64,
}

impl Sum {
    fn add(&mut self, latencies: Latencies) -> Result<(), HistogramError> {
        match &mut self.latencies {
            Some(sum) => sum.add(&latencies)?,
            None => self.latencies = Some(latencies),
        }
        Ok(())
    }

    fn finish(self) -> Result<Operation, HdrHistogramLogError> {
        let operation = Operation { errors: self.errors, ..named(&self.operation) };
        let Some(latencies) = &self.latencies else { return Ok(operation) };
        let (file, name) = (self.file, self.operation);
        let failed = |source| HdrHistogramLogError::Histogram { file, operation: name, source };
        Ok(Operation {
            count: latencies.count(),
            latency_milliseconds: latencies.summary(),
            histogram: Some(latencies.encode().map_err(failed)?),
            ..operation
        })
    }
}

/// All operations, and the time in which they were measured, in seconds.
struct Sums {
    unit: TimeUnit,
    operations: Vec<Sum>,
    span: Option<(f64, f64)>,
    /// Whether all of that time is Unix time.
    absolute: bool,
}

impl Sums {
    fn take_in(&mut self, log: &HdrHistogramLogFile, text: &str) -> Result<(), HdrHistogramLogError> {
        let mut clock = Clock::default();
        let mut histograms = 0;
        for entry in IntervalLogIterator::new(text.as_bytes()) {
            let entry = entry.map_err(|error| strange(log, text, &error))?;
            match entry {
                LogEntry::StartTime(time) => clock.start = Some(time.as_secs_f64()),
                LogEntry::BaseTime(time) => clock.base = Some(time.as_secs_f64()),
                LogEntry::Interval(interval) => {
                    histograms += 1;
                    let operation = interval.tag().map_or(log.operation.as_str(), |tag| tag.as_str());
                    self.add(log, operation, interval.encoded_histogram())?;
                    let (length, start) = (interval.duration().as_secs_f64(), interval.start_timestamp());
                    self.extend(&clock, start.as_secs_f64(), length);
                }
            }
        }
        if histograms == 0 { Err(HdrHistogramLogError::Empty(log.file.clone())) } else { Ok(()) }
    }

    fn add(
        &mut self,
        log: &HdrHistogramLogFile,
        operation: &str,
        encoded: &str,
    ) -> Result<(), HdrHistogramLogError> {
        let failed = |source| HdrHistogramLogError::Histogram {
            file: log.file.clone(),
            operation: operation.to_owned(),
            source,
        };
        let latencies = Latencies::decode_fine(&EncodedHistogram(encoded.to_owned())).map_err(failed)?;
        let latencies = match self.unit {
            TimeUnit::Nanoseconds => latencies.converted(1),
            TimeUnit::Microseconds => latencies.widened(),
            TimeUnit::Milliseconds => latencies.converted(1_000_000),
            TimeUnit::Seconds => latencies.converted(1_000_000_000),
        }
        .map_err(failed)?;
        let position = self.operations.iter().position(|sum| sum.operation == operation);
        let position = position.unwrap_or_else(|| {
            let (file, operation) = (log.file.clone(), operation.to_owned());
            self.operations.push(Sum { file, operation, latencies: None, errors: 0 });
            self.operations.len() - 1
        });
        let sum = &mut self.operations[position];
        if log.errors {
            sum.errors = sum.errors.saturating_add(latencies.count());
            return Ok(());
        }
        sum.add(latencies).map_err(failed)
    }

    fn extend(&mut self, clock: &Clock, start: f64, length: f64) {
        let origin = clock.origin(start);
        let start = start + origin.unwrap_or(0.0);
        self.absolute &= (0.0..LATEST).contains(&start) && (origin.is_some() || start > FAR_BEFORE);
        let (first, last) = self.span.unwrap_or((start, start));
        self.span = Some((first.min(start), last.max(start + length)));
    }
}

/// What a log says of its times, in seconds.
#[derive(Default)]
struct Clock {
    start: Option<f64>,
    base: Option<f64>,
}

impl Clock {
    /// What the starts of intervals are counted from, if the log says it.
    fn origin(&self, start: f64) -> Option<f64> {
        self.base.or_else(|| self.start.map(|origin| if start < origin - FAR_BEFORE { origin } else { 0.0 }))
    }
}

fn strange(
    log: &HdrHistogramLogFile,
    text: &str,
    error: &hdrhistogram::serialization::interval_log::LogIteratorError,
) -> HdrHistogramLogError {
    let hdrhistogram::serialization::interval_log::LogIteratorError::ParseError { offset } = error;
    let line = text.get(*offset..).and_then(|rest| rest.lines().next()).unwrap_or_default();
    HdrHistogramLogError::Line { file: log.file.clone(), line: line.chars().take(80).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dragstrip_results::histogram::empty;
    use serde_json::json;

    fn histogram(values: &[u64]) -> String {
        let mut histogram = empty().unwrap();
        for value in values {
            histogram.record(*value).unwrap();
        }
        Latencies::from_microseconds(histogram).encode().unwrap().0
    }

    fn log(intervals: &[(&str, &str, &[u64])]) -> String {
        let line =
            |(tag, times, values): &(&str, &str, &[u64])| format!("{tag}{times},1.0,{}\n", histogram(values));
        let lines: String = intervals.iter().map(line).collect();
        format!(
            "#[Logging for: x]\n#[Histogram log format version 1.3]\n#[StartTime: 1700000000.500 (seconds since epoch), Tue]\n#[BaseTime: 1700000000.500 (seconds since epoch)]\n\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"\n{lines}"
        )
    }

    fn read(options: serde_json::Value, files: &[(&str, &str)]) -> Result<Parsed, String> {
        let options: HdrHistogramLogParser = serde_json::from_value(options).map_err(|e| e.to_string())?;
        let files = files.iter().map(|(name, text)| ((*name).to_owned(), text.as_bytes().to_vec()));
        let outputs = Outputs { files: files.collect(), ..Outputs::default() };
        parse(&options, &outputs).map_err(|error| error.to_string())
    }

    #[test]
    fn intervals_are_added_and_tags_are_operations() {
        let text = log(&[
            ("", "0.500,1.000", &[100, 200]),
            ("Tag=UPDATE,", "0.500,1.000", &[7]),
            ("", "1.500,2.000", &[90_000]),
        ]);
        let parsed =
            read(json!({"files": [{"file": "r.hlog", "operation": "READ"}]}), &[("r.hlog", &text)]).unwrap();
        let [read, update] = parsed.operations.as_slice() else { panic!("{parsed:?}") };
        assert_eq!((read.count, update.count, update.name.as_str()), (3, 1, "UPDATE"));
        let all = read.histogram.as_ref().unwrap();
        assert_eq!(all.0, histogram(&[100, 200, 90_000]), "the sum is the histogram of all");
        assert_eq!(read.latency_milliseconds.p50, Some(0.2));
        assert_eq!((parsed.seconds, parsed.start_unix_nanos), (Some(3.0), Some(1_700_000_001_000_000_000)));
        assert_eq!(read.operations_per_second, None, "all share the window");
    }

    #[test]
    fn failed_operations_are_errors_and_in_no_percentile() {
        let files = json!([{"file": "r", "operation": "READ"}, {"file": "f", "operation": "READ", "errors": true, "required": false}]);
        let (good, bad) = (log(&[("", "0.0,1.0", &[100])]), log(&[("", "0.0,1.0", &[9_000_000, 9_000_000])]));
        let parsed = read(json!({"files": files}), &[("r", &good), ("f", &bad)]).unwrap();
        assert_eq!((parsed.operations[0].count, parsed.operations[0].errors), (1, 2));
        let parsed = read(json!({"files": files}), &[("r", &good)]).unwrap();
        assert_eq!(parsed.operations[0].errors, 0, "a tool without failures leaves no such file");
        assert!(read(json!({"files": files}), &[("f", &bad)]).unwrap_err().contains("no file \"r\""));
    }

    #[test]
    fn other_units_become_microseconds() {
        let text = log(&[("", "0.0,1.0", &[2_000_000])]);
        let parsed = read(
            json!({"files": [{"file": "r", "operation": "GET"}], "unit": "Nanoseconds"}),
            &[("r", &text)],
        )
        .unwrap();
        let summary = parsed.operations[0].latency_milliseconds;
        assert!((summary.p50.unwrap() - 2.0).abs() < 0.002, "{summary:?}");
    }

    #[test]
    fn what_is_not_a_log_is_refused() {
        let files = json!({"files": [{"file": "r", "operation": "READ"}]});
        let good = log(&[("", "0.0,1.0", &[100])]);
        for (text, words) in [
            ("hello\n", "holds \"hello\""),
            ("#[only a comment]\n", "no histogram"),
            ("0.0,1.0,2.0,HISTFnonsense\n", "a histogram of READ"),
            (&good.replace("0.0,1.0,", "0.0,one,"), "is not a log"),
        ] {
            let error = read(files.clone(), &[("r", text)]).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
        let cut = read(files, &[("r", &format!("{good}1.0,1.0,0.1,HIS"))]).unwrap();
        assert!(cut.incomplete.is_some() && cut.operations[0].count == 1, "{cut:?}");
    }
}
