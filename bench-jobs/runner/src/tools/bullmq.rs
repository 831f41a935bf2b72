//! The BullMQ job: its command line ([`arguments`]), its progress lines, and
//! what its report ([`report`]) means. Touches the report file and nothing else.

mod arguments;
mod report;

use crate::tools::{
    adapter::{Adapter, Ended, Judged, Launch, LaunchContext, Progress, rejected},
    ours::{explained, progress, progress_detail, unfinished, unread},
};
use arguments::REPORT_NAME;
use dragstrip_crds::{
    measured::Metric,
    workload::{BullmqSpec, Merge},
};
use dragstrip_results::{
    histogram::{HistogramError, Latencies, merged},
    protocol::{JobSpec, PASSWORD_VARIABLE},
    result::{Failure, FailureStep, Operation, PodResult, ToolRecord, Window},
};
use nix::sys::signal::Signal;
use report::{OperationReport, Report};
use std::{collections::BTreeMap, fs, io, num::ParseIntError, time::Duration};

const PROGRAM: &str = "dragstrip-bullmq";
/// How long it may take to await its replies, count the queues, remove them in
/// the five seconds it then takes at most, and write its report.
const STOP_GRACE: Duration = Duration::from_secs(15);

#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    #[error("the BullMQ job left no report {REPORT_NAME}: {0}")]
    Read(#[source] io::Error),
    #[error("cannot read the BullMQ job's report {REPORT_NAME}: {0}")]
    Decode(#[source] serde_json::Error),
    #[error("startedAtUnixNanos is {text:?}: {source}")]
    Start { text: String, source: ParseIntError },
    #[error("{operation}: {source}")]
    Histogram { operation: String, source: HistogramError },
    #[error("{operation}: {count} jobs, but {other} by its {account}")]
    Contradiction { operation: String, count: u64, account: &'static str, other: u64 },
}

#[derive(Debug, Clone)]
pub struct BullmqAdapter(pub BullmqSpec);

impl Adapter for BullmqAdapter {
    fn launch(&self, job: &JobSpec, context: &LaunchContext) -> Launch {
        let password =
            context.password.iter().map(|password| (PASSWORD_VARIABLE.to_owned(), password.clone()));
        Launch {
            program: PROGRAM.to_owned(),
            arguments: arguments::arguments(&self.0, job, context),
            input: None,
            environment: password.chain([progress_detail()]).collect(),
            stop_signal: Signal::SIGTERM,
            stop_grace: STOP_GRACE,
            lead: self.0.head_start(),
        }
    }

    fn stderr_line(&mut self, line: &str) -> Option<Progress> {
        progress(line)
    }

    fn judge(&self, job: &JobSpec, context: &LaunchContext, ended: &Ended) -> Judged {
        let report = match read_report(context) {
            Ok(report) => report,
            Err(error) => return rejected(unread("the BullMQ job", &error, ended), None),
        };
        let arguments = arguments::arguments(&self.0, job, context);
        let measured = match measured(&self.0, &report, arguments) {
            Ok(measured) => measured,
            Err(error) => {
                return rejected(explained(FailureStep::Output, &error.to_string(), ended), None);
            }
        };
        match verdict(&report, ended) {
            None => Ok(measured),
            Some(failure) => rejected(failure, Some(measured)),
        }
    }
}

fn read_report(context: &LaunchContext) -> Result<Report, ReportError> {
    let text = fs::read_to_string(context.output_directory.join(REPORT_NAME)).map_err(ReportError::Read)?;
    serde_json::from_str(&text).map_err(ReportError::Decode)
}

/// What is wrong with a report that could be read, if anything.
fn verdict(report: &Report, ended: &Ended) -> Option<Failure> {
    let refuse = |step, message: &str| Some(explained(step, message, ended));
    if let Some(failure) = &report.failure {
        let step = match failure.kind.as_str() {
            "errorReplies" => FailureStep::ErrorReplies,
            "queueCheck" => FailureStep::CounterCheck,
            _ => FailureStep::Tool,
        };
        return refuse(step, &failure.message);
    }
    match unfinished("the BullMQ job", report.status, report.interrupted.as_deref()) {
        Some((step, message)) => refuse(step, &message),
        None if ended.exit.code == Some(0) => None,
        None => refuse(FailureStep::Tool, "the BullMQ job completed its work and then ended badly"),
    }
}

fn measured(spec: &BullmqSpec, report: &Report, arguments: Vec<String>) -> Result<PodResult, ReportError> {
    let mut errors = BTreeMap::new();
    for error in &report.errors {
        *errors.entry(error.kind.clone()).or_default() += error.count;
    }
    let operations =
        report.operations.iter().map(|it| operation(report, it)).collect::<Result<Vec<_>, _>>()?;
    // Adds and processed jobs have no sum.
    let only = if let [only] = report.operations.as_slice() { Some(only) } else { None };
    Ok(PodResult {
        tool: ToolRecord {
            name: "bullmq".to_owned(),
            version: Some(report.versions()),
            mode: Some(spec.mode.to_string()),
            arguments,
            reported_operations_per_second: only.and_then(OperationReport::rate),
            connections: report.configuration.connections,
            pipeline: u64::from(spec.concurrency.unsigned_abs()),
        },
        per_second: only.map(|only| per_second(report, &only.counts.name)).unwrap_or_default(),
        operations,
        errors,
        window: Window {
            start_unix_nanos: started(report)?.unwrap_or_default(),
            seconds: report.window_seconds,
            ..Window::default()
        },
        warmup: report.warmup.operations.clone(),
        queues: report.queues,
        metrics: metrics(report),
        workers: report.workers.clone(),
        notes: notes(report),
        // What a job costs the server is several commands of scripts, some of
        // them BullMQ's own idea: the queues' lengths are the better check.
        ..PodResult::default()
    })
}

/// What the job has to say itself, and what the latencies of its operations contain.
fn notes(report: &Report) -> Vec<String> {
    let latency =
        |it: &OperationReport| format!("the latency of {} is {}", it.counts.name, it.latency_contains);
    let measured = report.operations.iter().filter(|it| it.counts.count > 0);
    report.notes.iter().cloned().chain(measured.map(latency)).collect()
}

fn per_second(report: &Report, operation: &str) -> Vec<u64> {
    report.per_second.iter().map(|second| second.get(operation).copied().unwrap_or_default()).collect()
}

fn started(report: &Report) -> Result<Option<i64>, ReportError> {
    let parse =
        |text: &String| text.parse().map_err(|source| ReportError::Start { text: text.clone(), source });
    report.started_at_unix_nanos.as_ref().map(parse).transpose()
}

fn operation(report: &Report, it: &OperationReport) -> Result<Operation, ReportError> {
    let name = it.counts.name.as_str();
    let latencies = merged([it.counts.histogram.as_ref()].into_iter())
        .map_err(|source| ReportError::Histogram { operation: name.to_owned(), source })?;
    let per_second = per_second(report, name);
    let role = if name == "ADD" { "writer" } else { "reader" };
    let workers = report.workers.iter().filter(|worker| worker.role == role);
    agree(it, "latencies", latencies.as_ref().map_or(0, Latencies::count))?;
    agree(it, "seconds", per_second.iter().sum())?;
    agree(it, "workers", workers.map(|worker| worker.operations).sum())?;
    Ok(Operation {
        latency_milliseconds: latencies.map(|all| all.summary()).unwrap_or_default(),
        per_second,
        tool_operations_per_second: it.rate(),
        // One that is alone has the pod's window.
        operations_per_second: it.rate().filter(|_| report.operations.len() > 1),
        ..it.counts.clone()
    })
}

fn agree(operation: &OperationReport, account: &'static str, other: u64) -> Result<(), ReportError> {
    let Operation { name, count, .. } = &operation.counts;
    if *count == other {
        return Ok(());
    }
    Err(ReportError::Contradiction { operation: name.clone(), count: *count, account, other })
}

/// The rates that differ from what the window says: over the declared
/// duration, as the published tool divides. None for a job that did nothing,
/// which must not look like a measurement.
fn metrics(report: &Report) -> Vec<Metric> {
    let rates = [
        ("nominalAddJobsPerSecond", report.nominal.add_jobs_per_second),
        ("nominalProcessJobsPerSecond", report.nominal.process_jobs_per_second),
    ];
    let rates = rates.into_iter().filter(|(_, value)| *value > 0.0);
    rates
        .map(|(name, value)| Metric {
            name: name.to_owned(),
            value,
            unit: Some("jobs/s".to_owned()),
            merge: Merge::Sum,
            more_is_better: Some(true),
        })
        .collect()
}

#[cfg(test)]
mod tests;
