//! Dragstrip's own load generator: its command line, its progress lines, and
//! what its report means. Touches the report file and nothing else.
//!
//! Several client pods share one declared workload: each gets its own seed,
//! and under the sequential pattern its own contiguous part of the key space,
//! so that together they still visit every key once per pass.

use crate::{
    failure::failure,
    install::LOADGEN_NAME,
    tool::{Adapter, Ended, Launch, LaunchContext, Measured, Progress, Rejected, StopSignal},
};
use dragstrip_crds::{
    histogram::{EncodedHistogram, HistogramError, Latencies},
    protocol::{JobSpec, PASSWORD_VARIABLE},
    result::{Failure, FailureStep, OperationResult, ToolRecord},
    units::thousands,
    workload::{KeyPattern, LoadgenSpec},
};
use dragstrip_loadgen::report::{OperationReport, Report, RunStatus};
use std::{collections::BTreeMap, fs, io, time::Duration};

/// The report's file name in the output directory.
const REPORT_NAME: &str = "loadgen.json";
/// Head start before the line, to connect in.
const LEAD: Duration = Duration::from_secs(1);
/// How long it may take to write its report once asked to stop.
const STOP_GRACE: Duration = Duration::from_secs(5);
/// Exponent of the Zipfian pattern when none is declared, as YCSB has it.
const DEFAULT_ZIPF_EXPONENT: f64 = 0.99;
/// Odd and without pattern, so that multiples of it are far apart.
const SEED_STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// Why a report cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// There is none.
    #[error("the load generator left no report {REPORT_NAME}: {0}")]
    Read(#[source] io::Error),
    /// It is cut or no report.
    #[error("the load generator's report {REPORT_NAME} cannot be read: {0}")]
    Decode(#[source] serde_json::Error),
    /// An operation's latencies are damaged.
    #[error("{operation}: {source}")]
    Histogram {
        /// The operation.
        operation: String,
        /// What is wrong.
        source: HistogramError,
    },
    /// An operation's count and latencies contradict each other.
    #[error("{operation}: {count} replies but {latencies} latencies are reported")]
    Contradiction {
        /// The operation.
        operation: String,
        /// Replies counted.
        count: u64,
        /// Latencies recorded.
        latencies: u64,
    },
}

/// The adapter of our own load generator.
#[derive(Debug, Clone)]
pub struct LoadgenAdapter {
    spec: LoadgenSpec,
}

impl LoadgenAdapter {
    /// An adapter for one run of the tool with these options.
    pub fn new(spec: LoadgenSpec) -> Self {
        Self { spec }
    }
}

impl Adapter for LoadgenAdapter {
    fn launch(&self, job: &JobSpec, context: &LaunchContext) -> Launch {
        let password =
            context.password.iter().map(|password| (PASSWORD_VARIABLE.to_owned(), password.clone()));
        Launch {
            program: LOADGEN_NAME.to_owned(),
            arguments: arguments(&self.spec, job, context),
            environment: password.collect(),
            stop_signal: StopSignal::Terminate,
            stop_grace: STOP_GRACE,
            lead: LEAD,
        }
    }

    fn stderr_line(&mut self, line: &str) -> Option<Progress> {
        progress(line)
    }

    fn judge(
        &self,
        job: &JobSpec,
        context: &LaunchContext,
        ended: &Ended,
    ) -> Result<Measured, Box<Rejected>> {
        let report = match read_report(context) {
            Ok(report) => report,
            Err(error) => {
                return Err(Box::new(Rejected { failure: unread(&error, ended), partial: None }));
            }
        };
        let arguments = arguments(&self.spec, job, context);
        let measured = match measured(&self.spec, &report, arguments) {
            Ok(measured) => measured,
            Err(error) => {
                let failure = explained(FailureStep::Output, error.to_string(), ended);
                return Err(Box::new(Rejected { failure, partial: None }));
            }
        };
        match verdict(&report, ended) {
            None => Ok(measured),
            Some(failure) => Err(Box::new(Rejected { failure, partial: Some(measured) })),
        }
    }
}

/// The command line. No secret is in it.
fn arguments(spec: &LoadgenSpec, job: &JobSpec, context: &LaunchContext) -> Vec<String> {
    let (minimum, maximum) = match spec.key_pattern {
        KeyPattern::Sequential => {
            share(spec.key_minimum, spec.key_maximum, context.client_index, job.clients)
        }
        _ => (spec.key_minimum, spec.key_maximum),
    };
    let mut arguments = Vec::new();
    let mut option = |name: &str, value: String| arguments.extend([format!("--{name}"), value]);
    option("host", context.address.ip().to_string());
    option("port", context.address.port().to_string());
    option("protocol", if spec.resp3 { "resp3" } else { "resp2" }.to_owned());
    option("threads", spec.threads.to_string());
    option("connections-per-thread", spec.connections_per_thread.to_string());
    option("ratio", spec.ratio.clone());
    option("pipeline", spec.pipeline.to_string());
    option("data-size", spec.data_size.to_string());
    if let Some(prefix) = &spec.key_prefix {
        option("key-prefix", prefix.clone());
    }
    option("key-minimum", minimum.to_string());
    option("key-maximum", maximum.to_string());
    option("key-pattern", pattern_name(spec.key_pattern).to_owned());
    if spec.key_pattern == KeyPattern::Zipfian {
        option("zipf-exponent", spec.zipf_exponent.unwrap_or(DEFAULT_ZIPF_EXPONENT).to_string());
    }
    if let Some(duration) = &spec.duration {
        option("duration", format!("{}ms", duration.duration().as_millis()));
    }
    if let Some(requests) = spec.requests_per_connection {
        option("requests", requests.to_string());
    }
    option("seed", seed(spec.seed, context.client_index).to_string());
    option("start-at-unix-nanos", context.start_at_unix_nanos.max(0).to_string());
    option("progress-interval", "1s".to_owned());
    option("json-out-file", context.output_directory.join(REPORT_NAME).display().to_string());
    arguments
}

fn pattern_name(pattern: KeyPattern) -> &'static str {
    match pattern {
        KeyPattern::Uniform => "uniform",
        KeyPattern::Sequential => "sequential",
        KeyPattern::Gaussian => "gaussian",
        KeyPattern::Zipfian => "zipfian",
    }
}

/// A pod's own seed. The same declaration draws the same keys again; a seed
/// that is not declared is 0.
fn seed(declared: Option<i64>, client_index: u32) -> u64 {
    declared.unwrap_or_default().unsigned_abs().wrapping_add(u64::from(client_index).wrapping_mul(SEED_STEP))
}

/// A pod's part of the keys `minimum..=maximum`; all of them where there are
/// fewer keys than pods.
fn share(minimum: i64, maximum: i64, client_index: u32, clients: u32) -> (i64, i64) {
    let (clients, index) = (i128::from(clients.max(1)), i128::from(client_index));
    let keys = i128::from(maximum) - i128::from(minimum) + 1;
    if keys < clients || index >= clients {
        return (minimum, maximum);
    }
    let edge = |index: i128| i128::from(minimum) + keys * index / clients;
    // Both edges lie within the declared range, which is one of i64.
    let narrow = |value: i128, otherwise| i64::try_from(value).unwrap_or(otherwise);
    (narrow(edge(index), minimum), narrow(edge(index + 1) - 1, maximum))
}

/// Reads `progress elapsed_seconds=3.000 operations=457120 ... errors=0`.
fn progress(line: &str) -> Option<Progress> {
    let fields = line.strip_prefix("progress ")?;
    let number = |name: &str| {
        fields.split(' ').find_map(|field| field.strip_prefix(name)?.strip_prefix('=')?.parse::<u64>().ok())
    };
    Some(Progress { operations: number("operations")?, errors: number("errors")? })
}

fn read_report(context: &LaunchContext) -> Result<Report, ReportError> {
    let text = fs::read_to_string(context.output_directory.join(REPORT_NAME)).map_err(ReportError::Read)?;
    Report::from_json(&text).map_err(ReportError::Decode)
}

/// Without a readable report the exit says most about what went wrong.
fn unread(error: &ReportError, ended: &Ended) -> Failure {
    match (ended.exit.code, ended.exit.signal) {
        (Some(0), _) => explained(FailureStep::Output, error.to_string(), ended),
        (Some(code), _) => explained(
            FailureStep::Tool,
            format!("the load generator ended with exit code {code}; {error}"),
            ended,
        ),
        (None, signal) => {
            let signal = signal.unwrap_or_default();
            explained(
                FailureStep::Tool,
                format!("the load generator was ended by signal {signal}; {error}"),
                ended,
            )
        }
    }
}

fn explained(step: FailureStep, message: String, ended: &Ended) -> Failure {
    Failure {
        exit_code: ended.exit.code,
        signal: ended.exit.signal,
        last_lines: ended.last_lines.clone(),
        ..failure(step, message)
    }
}

/// What is wrong with a report that could be read, if anything.
fn verdict(report: &Report, ended: &Ended) -> Option<Failure> {
    let refuse = |step, message| Some(explained(step, message, ended));
    if let Some(failure) = &report.failure {
        return refuse(FailureStep::Tool, failure.message.clone());
    }
    match report.status {
        RunStatus::Completed => {}
        RunStatus::Interrupted => {
            let signal = report.interrupted.as_deref().unwrap_or("a signal");
            return refuse(FailureStep::Interrupted, format!("the load generator was ended by {signal}"));
        }
        RunStatus::Failed | RunStatus::Unknown => {
            return refuse(
                FailureStep::Tool,
                "the load generator says that it failed, but not why".to_owned(),
            );
        }
    }
    if report.totals.errors > 0 {
        return refuse(FailureStep::ErrorReplies, error_message(report));
    }
    match ended.exit.code {
        Some(0) => None,
        _ => {
            refuse(FailureStep::Tool, "the load generator completed its work and then ended badly".to_owned())
        }
    }
}

fn error_message(report: &Report) -> String {
    let kinds: Vec<_> = report
        .errors
        .iter()
        .map(|e| format!("{} {} to {}", thousands(e.count), e.kind, e.operation))
        .collect();
    let first = report.errors.first().map(|error| error.first_message.as_str()).unwrap_or_default();
    format!(
        "the server answered {} requests with errors ({}); the first: {first}",
        thousands(report.totals.errors),
        kinds.join(", ")
    )
}

fn measured(spec: &LoadgenSpec, report: &Report, arguments: Vec<String>) -> Result<Measured, ReportError> {
    let mut errors = BTreeMap::new();
    for error in &report.errors {
        *errors.entry(error.kind.clone()).or_default() += error.count;
    }
    let connections =
        u64::from(spec.threads.unsigned_abs()) * u64::from(spec.connections_per_thread.unsigned_abs());
    let started = report.started_at_unix_nanos.and_then(|nanos| i64::try_from(nanos).ok());
    Ok(Measured {
        tool: ToolRecord {
            name: "loadgen".to_owned(),
            version: Some(report.version.clone()).filter(|version| !version.is_empty()),
            arguments,
            reported_operations_per_second: Some(report.totals.operations_per_second),
            reported_seconds: Some(report.window_seconds),
            connections,
            pipeline: u64::from(spec.pipeline.unsigned_abs()),
        },
        operations: report.operations.iter().map(operation).collect::<Result<_, _>>()?,
        errors,
        per_second: report.per_second.iter().map(|s| s.operations.iter().map(|o| o.count).sum()).collect(),
        window: started.map(|started| (started, report.window_seconds)),
    })
}

fn operation(report: &OperationReport) -> Result<OperationResult, ReportError> {
    let name = || report.operation.clone();
    let histogram = EncodedHistogram(report.histogram.clone());
    let latencies = Latencies::decode(&histogram)
        .map_err(|source| ReportError::Histogram { operation: name(), source })?;
    if latencies.count() != report.count {
        let (count, latencies) = (report.count, latencies.count());
        return Err(ReportError::Contradiction { operation: name(), count, latencies });
    }
    let reads = report.operation == "GET";
    Ok(OperationResult {
        operation: name(),
        count: report.count,
        hits: reads.then_some(report.hits),
        misses: reads.then_some(report.misses),
        errors: report.errors,
        bytes: report.bytes_sent + report.bytes_received,
        latency_milliseconds: latencies.summary(),
        histogram: Some(histogram),
    })
}

#[cfg(test)]
mod tests;
