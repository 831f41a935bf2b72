//! Writes the result: JSON to a file, a short summary for people.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use dragstrip_crds::measured::{BatchStatistics, Estimate};
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

/// Where the JSON goes. Opened before the load starts, so that an unusable
/// place is found out at once.
#[derive(Debug)]
pub enum JsonOutput {
    /// Standard output.
    Standard,
    /// An existing pipe or device, written in place.
    InPlace {
        /// Its path.
        path: PathBuf,
        /// It, open.
        file: File,
    },
    /// A regular file, which appears complete or not at all.
    Renamed {
        /// Its final path.
        path: PathBuf,
        /// Its path until it is complete.
        partial: PathBuf,
        /// It, open.
        file: File,
    },
}

impl JsonOutput {
    /// Opens the place that `reportFile` names.
    pub fn open(path: &Path) -> Result<Self, OutputError> {
        let path = path.to_path_buf();
        if path.as_os_str() == "-" {
            return Ok(Self::Standard);
        }
        if std::fs::metadata(&path).is_ok_and(|found| !found.is_file()) {
            return match File::options().write(true).open(&path) {
                Ok(file) => Ok(Self::InPlace { path, file }),
                Err(source) => Err(OutputError::Create { path, source }),
            };
        }
        let mut name = path.as_os_str().to_owned();
        name.push(".partial");
        let partial = PathBuf::from(name);
        match File::create(&partial) {
            Ok(file) => Ok(Self::Renamed { path, partial, file }),
            Err(source) => Err(OutputError::Create { path, source }),
        }
    }

    /// Writes the report and makes it durable under its name.
    pub fn write(self, report: &Report) -> Result<(), OutputError> {
        let mut text = report.to_json().map_err(|source| OutputError::Serialize { source })?;
        text.push('\n');
        match self {
            Self::Standard => io::stdout()
                .write_all(text.as_bytes())
                .map_err(|source| OutputError::Write { path: "-".into(), source }),
            Self::InPlace { path, mut file } => {
                file.write_all(text.as_bytes()).map_err(|source| OutputError::Write { path, source })
            }
            Self::Renamed { path, partial, mut file } => {
                let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
                if let Err(source) = written {
                    return Err(OutputError::Write { path: partial, source });
                }
                std::fs::rename(&partial, &path).map_err(|source| OutputError::Rename { path, source })
            }
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
        let latency = &operation.latency;
        let _ = writeln!(
            text,
            "{} {:.0}/s, {} ok, {} hits, {} misses, {} errors; us: mean {:.1} p50 {} p99 {} p99.9 {} max {}",
            operation.operation,
            operation.operations_per_second,
            operation.count,
            operation.hits,
            operation.misses,
            operation.errors,
            latency.mean,
            latency.p50,
            latency.p99,
            latency.p99_9,
            latency.max,
        );
    }
    if let Some(schedule) = &report.schedule {
        let _ = writeln!(
            text,
            "schedule {} {}/s: {} due, {} sent, {} answered, {} unanswered; lag us: p50 {} p99 {} p99.9 {} max {}",
            schedule.kind,
            schedule.operations_per_second,
            schedule.scheduled,
            schedule.sent,
            schedule.answered,
            schedule.unanswered,
            schedule.lag.p50,
            schedule.lag.p99,
            schedule.lag.p99_9,
            schedule.lag.max,
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
        let _ = writeln!(text, "{} of {} keys exist", verified.present, verified.expected);
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
        assert!(matches!(JsonOutput::open(Path::new("/")), Err(OutputError::Create { .. })));
        JsonOutput::open(Path::new("/dev/null")).unwrap().write(&Report::default()).unwrap();
    }
}
