//! Writes the result: JSON to a file, a short summary for people.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use dragstrip_crds::measured::{BatchStatistics, Estimate, LatencySummary};
use thiserror::Error;

use crate::counts::report::Report;

/// The result could not be written.
#[derive(Debug, Error)]
pub enum OutputError {
    #[error("cannot create {path} for the result: {source}")]
    Create { path: PathBuf, source: io::Error },
    #[error("cannot write the result as JSON: {source}")]
    Serialize { source: serde_json::Error },
    #[error("cannot write the result to {path}: {source}")]
    Write { path: PathBuf, source: io::Error },
    #[error("cannot rename the result to {path}: {source}")]
    Rename { path: PathBuf, source: io::Error },
}

/// The file that the JSON goes to, which appears complete or not at all. Opened before the load
/// starts, so an unusable place is found at once.
#[derive(Debug)]
pub struct JsonOutput {
    /// Its final path.
    path: PathBuf,
    /// Its path until it is complete.
    partial: PathBuf,
    file: File,
}

impl JsonOutput {
    /// Opens the place that `reportFile` names.
    pub fn open(path: &Path) -> Result<Self, OutputError> {
        let path = path.to_path_buf();
        let mut name = path.as_os_str().to_owned();
        name.push(".partial");
        let partial = PathBuf::from(name);
        match File::create(&partial) {
            Ok(file) => Ok(Self { path, partial, file }),
            Err(source) => Err(OutputError::Create { path, source }),
        }
    }

    /// Writes the report and makes it durable under its name.
    pub fn write(self, report: &Report) -> Result<(), OutputError> {
        let mut text = report.to_json().map_err(|source| OutputError::Serialize { source })?;
        text.push('\n');
        let Self { path, partial, mut file } = self;
        match file.write_all(text.as_bytes()).and_then(|()| file.sync_all()) {
            Ok(()) => std::fs::rename(&partial, &path).map_err(|source| OutputError::Rename { path, source }),
            Err(source) => Err(OutputError::Write { path: partial, source }),
        }
    }
}

/// A few lines for people.
pub fn summary(report: &Report) -> String {
    let mut text = String::new();
    let totals = &report.totals;
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "{:?}: {} operations in {:.3} s, {:.0}/s, {} errors; client CPU {:.3} s user {:.3} s system, busiest thread {:.0} %",
        report.status,
        totals.count,
        report.window_seconds,
        totals.operations_per_second,
        totals.errors,
        report.client_cpu.user_seconds,
        report.client_cpu.system_seconds,
        report.client_cpu.max_thread_share * 100.0,
    );
    for operation in &report.operations {
        let _ = writeln!(
            text,
            "{} {:.0}/s, {} ok, {} hits, {} misses, {} errors; {}",
            operation.name,
            operation.tool_operations_per_second.unwrap_or_default(),
            operation.count,
            operation.hits.unwrap_or_default(),
            operation.misses.unwrap_or_default(),
            operation.errors,
            latency(&operation.latency_milliseconds),
        );
    }
    if let Some(schedule) = &report.schedule {
        let _ = writeln!(
            text,
            "schedule {} {}/s: {} due, {} sent, {} answered, {} unanswered; lag {}",
            schedule.kind,
            schedule.operations_per_second,
            schedule.scheduled,
            schedule.sent,
            schedule.answered,
            schedule.unanswered,
            latency(&schedule.lag_milliseconds),
        );
    }
    for shard in &report.shards {
        let _ = writeln!(
            text,
            "{}: {} ok, {} errors, {} moved, {} ask",
            shard.address, shard.operations, shard.errors, shard.moved, shard.ask
        );
    }
    if let Some(verified) = &report.verified {
        let _ = writeln!(text, "{} of {} keys exist", verified.found, verified.expected);
    }
    if let Some(batches) = &report.batches {
        let _ = writeln!(text, "{}", batch_summary(batches));
    }
    for error in &report.errors {
        let _ = writeln!(
            text,
            "{} errors {}: {}, first: {}",
            error.operation, error.kind, error.count, error.first_message
        );
    }
    text
}

/// `ms: mean 0.412 p50 0.391 p99 1.203 p99.9 2.402 max 5.103`.
fn latency(latency: &LatencySummary) -> String {
    let LatencySummary { mean, p50, p99, p999, max, .. } = *latency;
    let [mean, p50, p99, p999, max] = [mean, p50, p99, p999, max].map(Option::unwrap_or_default);
    format!("ms: mean {mean:.3} p50 {p50:.3} p99 {p99:.3} p99.9 {p999:.3} max {max:.3}")
}

/// The way Criterion writes it: low, mid and high.
fn batch_summary(batches: &BatchStatistics) -> String {
    let three = |estimate: Estimate, scale: f64, digits: usize| {
        let [low, mid, high] = [estimate.low, estimate.mid, estimate.high].map(|value| value * scale);
        format!("[{low:.digits$} {mid:.digits$} {high:.digits$}]")
    };
    format!(
        "{} batches of {} items: ms {}, Melem/s {}, MiB/s {}",
        batches.iterations,
        batches.items,
        three(batches.seconds_per_batch, 1e3, 3),
        three(batches.elements_per_second, 1e-6, 4),
        three(batches.mebibytes_per_second, 1.0, 2),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_regular_file_appears_complete() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("result.json");
        let output = JsonOutput::open(&path).unwrap();
        assert!(!path.exists());
        output.write(&Report::default()).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(Report::from_json(&text).unwrap(), Report::default());
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn batches_are_summed_up_as_criterion_does() {
        let three = |low, mid, high| Estimate { low, mid, high };
        let batches = BatchStatistics {
            items: 100_000,
            iterations: 1,
            seconds_per_batch: three(0.070_664, 0.070_664, 0.070_664),
            elements_per_second: three(1.415_14e6, 1.415_14e6, 1.415_14e6),
            mebibytes_per_second: three(134.957, 134.957, 134.957),
            ..BatchStatistics::default()
        };
        let text = summary(&Report { batches: Some(batches), ..Report::default() });
        let wanted = "1 batches of 100000 items: ms [70.664 70.664 70.664], \
            Melem/s [1.4151 1.4151 1.4151], MiB/s [134.96 134.96 134.96]";
        assert!(text.contains(wanted), "{text}");
    }

    #[test]
    fn an_unusable_place_is_found_out_before_the_run() {
        let refused = JsonOutput::open(Path::new("/nonexistent/directory/result.json"));
        assert!(matches!(refused, Err(OutputError::Create { .. })));
    }
}
