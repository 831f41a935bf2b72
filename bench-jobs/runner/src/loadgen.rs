//! Dragstrip's own load generator, and what loads through client libraries in its
//! stead: the command line ([`arguments`]), its
//! progress lines, and what its report means. Touches the report file and
//! nothing else.

pub(crate) mod arguments;

use crate::{
    frame::install::{CLIENTS_NAME, LOADGEN_NAME},
    measuring::threads::busiest,
    tools::{
        adapter::{Adapter, Ended, Launch, LaunchContext, Measured, Progress, Rejected, StopSignal},
        ours::{explained, progress, progress_detail, unread},
    },
};
use dragstrip_crds::{measured::ScheduleRecord, units::thousands, workload::LoadgenSpec};
use dragstrip_loadgen::counts::report::{
    OperationReport, Report, RunStatus, ScheduleReport, SecondReport, ThreadCpu,
};
use dragstrip_results::{
    commands,
    histogram::{HistogramError, Latencies},
    protocol::{JobSpec, PASSWORD_VARIABLE},
    result::{Failure, FailureStep, OperationResult, ToolRecord},
    usage::ThreadUsage,
};
use std::{collections::BTreeMap, fs, io, path::Path, time::Duration};

/// How people know it.
pub(crate) const NAME: &str = "the load generator";
/// The report's file name in the output directory.
const REPORT_NAME: &str = "loadgen.json";
/// How long it may take to write its report once asked to stop.
const STOP_GRACE: Duration = Duration::from_secs(5);
/// Operations that ask for keys, each of which is there or is not.
const READS: [&str; 3] = ["GET", "MGET", "EXISTS"];

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
    #[error("{operation}: {count} replies and unanswered requests but {latencies} latencies are reported")]
    Contradiction {
        /// The operation.
        operation: String,
        /// Replies counted, and what had none.
        count: u64,
        /// Latencies recorded.
        latencies: u64,
    },
    /// An operation's count and its seconds contradict each other.
    #[error("{operation}: {count} replies but {seconds} over all seconds are reported")]
    Series {
        /// The operation.
        operation: String,
        /// Replies counted.
        count: u64,
        /// Replies over all seconds.
        seconds: u64,
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
    fn accept(&self, job: &JobSpec, context: &LaunchContext) -> Result<(), String> {
        arguments::accept(&self.spec, job, context)
    }

    fn launch(&self, job: &JobSpec, context: &LaunchContext) -> Launch {
        let program = if self.spec.library.is_some() { CLIENTS_NAME } else { LOADGEN_NAME };
        launch(program, arguments::arguments(&self.spec, job, context), context, job.tool.head_start())
    }

    fn stderr_line(&mut self, line: &str) -> Option<Progress> {
        let progress = progress(line)?;
        let ratio = planned_requests(&self.spec).map(|planned| progress.operations as f64 / planned.max(1.0));
        Some(Progress { ratio, ..progress })
    }

    fn judge(
        &self,
        job: &JobSpec,
        context: &LaunchContext,
        ended: &Ended,
    ) -> Result<Measured, Box<Rejected>> {
        let report = match read_report(&context.output_directory) {
            Ok(read) => read,
            Err(error) => {
                return Err(Box::new(Rejected { failure: unread(NAME, &error, ended), partial: None }));
            }
        };
        let arguments = arguments::arguments(&self.spec, job, context);
        let measured = match measured(&self.spec, &report, arguments, ended) {
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

/// How many requests a client is to send, where they and not the time end the load.
fn planned_requests(spec: &LoadgenSpec) -> Option<f64> {
    match &spec.library {
        Some(library) => library.total_requests.map(|requests| requests as f64),
        None => spec.requests_per_connection.map(|requests| {
            requests as f64 * f64::from(spec.threads) * f64::from(spec.connections_per_thread)
        }),
    }
}

/// One of our own programs, told to do something. The password is in its environment alone.
pub(crate) fn launch(
    program: &str,
    arguments: Vec<String>,
    context: &LaunchContext,
    lead: Duration,
) -> Launch {
    let password = context.password.iter().map(|password| (PASSWORD_VARIABLE.to_owned(), password.clone()));
    Launch {
        program: program.to_owned(),
        arguments,
        environment: password.chain([progress_detail()]).collect(),
        stop_signal: StopSignal::Terminate,
        stop_grace: STOP_GRACE,
        lead,
    }
}

/// The report in a directory.
pub(crate) fn read_report(directory: &Path) -> Result<Report, ReportError> {
    let text = fs::read_to_string(directory.join(REPORT_NAME)).map_err(ReportError::Read)?;
    Report::from_json(&text).map_err(ReportError::Decode)
}

/// What is wrong with a report that could be read, if anything.
pub(crate) fn verdict(report: &Report, ended: &Ended) -> Option<Failure> {
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

fn measured(
    spec: &LoadgenSpec,
    report: &Report,
    arguments: Vec<String>,
    ended: &Ended,
) -> Result<Measured, ReportError> {
    let mut errors = BTreeMap::new();
    for error in &report.errors {
        *errors.entry(error.kind.clone()).or_default() += error.count;
    }
    let started = report.started_at_unix_nanos.and_then(|nanos| i64::try_from(nanos).ok());
    let wall = ended.wall.as_secs_f64();
    let lag = report.schedule.as_ref().map(lag).transpose()?;
    Ok(Measured {
        tool: ToolRecord {
            name: "loadgen".to_owned(),
            version: Some(report.version.clone()).filter(|version| !version.is_empty()),
            mode: None,
            arguments,
            reported_operations_per_second: Some(report.totals.operations_per_second),
            wall_operations_per_second: (wall > 0.0).then(|| report.totals.count as f64 / wall),
            reported_seconds: Some(report.window_seconds),
            connections: connections(spec),
            pipeline: u64::from(spec.pipeline.unsigned_abs()),
        },
        operations: report.operations.iter().map(|o| operation(o, report)).collect::<Result<_, _>>()?,
        errors,
        per_second: report.per_second.iter().map(|s| s.operations.iter().map(|o| o.count).sum()).collect(),
        window: started.map(|started| (started, report.window_seconds)),
        commands: report.commands.clone(),
        warmup: report.warmup.as_ref().map(|warmup| warmup.operations.clone()).unwrap_or_default(),
        schedule: report.schedule.as_ref().zip(lag.as_ref()).map(|(report, lag)| schedule(report, lag)),
        schedule_lag: report.schedule.as_ref().map(|schedule| schedule.lag_histogram.clone()),
        batches: report.batches.clone(),
        threads: busiest(report.client_cpu.threads.iter().map(thread).collect(), usize::MAX),
        ..Measured::default()
    })
}

/// One load thread, by its number.
fn thread(cpu: &ThreadCpu) -> ThreadUsage {
    let name = format!("loadgen {}", cpu.thread);
    ThreadUsage { name, cpu_seconds: cpu.cpu_seconds, waiting_seconds: 0.0 }
}

/// What may be in flight at a time, as connections: a client library has as
/// many requests under way as it has tasks.
fn connections(spec: &LoadgenSpec) -> u64 {
    let number = |number: i32| u64::from(number.unsigned_abs());
    match &spec.library {
        Some(library) => number(library.tasks),
        None => number(spec.threads) * number(spec.connections_per_thread),
    }
}

fn operation(report: &OperationReport, whole: &Report) -> Result<OperationResult, ReportError> {
    let name = || report.operation.clone();
    let latencies =
        report.latencies().map_err(|source| ReportError::Histogram { operation: name(), source })?;
    if latencies.count() != report.count + report.unanswered {
        let (count, latencies) = (report.count + report.unanswered, latencies.count());
        return Err(ReportError::Contradiction { operation: name(), count, latencies });
    }
    let per_second = series(&report.operation, whole);
    let seconds: u64 = per_second.iter().sum();
    if !per_second.is_empty() && seconds != report.count {
        return Err(ReportError::Series { operation: name(), count: report.count, seconds });
    }
    // A second one of the same name is `MGET#2`.
    let reads = report.operation.split('#').next().is_some_and(|name| READS.contains(&name));
    Ok(OperationResult {
        operation: name(),
        commands: commands::named(&report.operation).into_iter().collect(),
        count: report.count,
        hits: reads.then_some(report.hits),
        misses: reads.then_some(report.misses),
        errors: report.errors,
        bytes: report.bytes_sent + report.bytes_received,
        latency_milliseconds: latencies.summary(),
        histogram: Some(report.histogram.clone()),
        per_second,
        reported_operations_per_second: Some(report.operations_per_second),
        own_operations_per_second: None,
    })
}

/// One operation's replies in each second.
fn series(operation: &str, report: &Report) -> Vec<u64> {
    let of_second = |second: &SecondReport| {
        second.operations.iter().filter(|o| o.operation == operation).map(|o| o.count).sum()
    };
    report.per_second.iter().map(of_second).collect()
}

fn schedule(report: &ScheduleReport, lag: &Latencies) -> ScheduleRecord {
    ScheduleRecord {
        kind: report.kind.clone(),
        operations_per_second: report.operations_per_second,
        scheduled: report.scheduled,
        sent: report.sent,
        answered: report.answered,
        unanswered: report.unanswered,
        lag_milliseconds: lag.summary(),
    }
}

/// How late an open loop's requests were sent.
fn lag(report: &ScheduleReport) -> Result<Latencies, ReportError> {
    Latencies::decode(&report.lag_histogram)
        .map_err(|source| ReportError::Histogram { operation: "the lag of the schedule".to_owned(), source })
}

#[cfg(test)]
mod tests;
