//! The adapter of Dragstrip's load generators: the one with its own client, and the one
//! that measures client libraries. Touches the report file and nothing else.

pub(crate) mod specification;

use crate::{
    frame::install::{CLIENTS_NAME, LOADGEN_NAME},
    measuring::threads::busiest,
    tools::{
        adapter::{Adapter, Ended, Judged, Launch, LaunchContext, Progress, rejected},
        ours::{explained, progress, unfinished, unread},
    },
};
use dragstrip_crds::{units::thousands, workload::LoadgenSpec};
use dragstrip_loadgen::counts::report::Report;
use dragstrip_results::{
    measured::operation::added_seconds,
    protocol::{JobSpec, PASSWORD_VARIABLE},
    result::{FILL, Failure, FailureStep, Operation, PodResult, ToolRecord, Window, due},
    usage::ContainerUsage,
};
use nix::sys::signal::Signal;
use specification::REPORT_NAME;
use std::{collections::BTreeMap, fs, io, path::Path, time::Duration};

pub(crate) const NAME: &str = "the load generator";
/// How long it may take to write its report after the signal to stop.
const STOP_GRACE: Duration = Duration::from_secs(5);

#[derive(Debug, thiserror::Error)]
pub(crate) enum ReportError {
    #[error("the load generator left no report {REPORT_NAME}: {0}")]
    Read(#[source] io::Error),
    #[error("the load generator's report {REPORT_NAME} cannot be read: {0}")]
    Decode(#[source] serde_json::Error),
}

#[derive(Debug, Clone)]
pub struct LoadgenAdapter(pub LoadgenSpec);

impl LoadgenAdapter {
    fn document(&self, job: &JobSpec, context: &LaunchContext) -> serde_json::Result<String> {
        serde_json::to_string(&specification::specification(&self.0, job, context))
    }
}

impl Adapter for LoadgenAdapter {
    fn accept(&self, job: &JobSpec, context: &LaunchContext) -> Result<(), String> {
        specification::accept(&self.0, job, context)?;
        self.document(job, context)
            .map(|_| ())
            .map_err(|error| format!("cannot write the specification: {error}"))
    }

    fn launch(&self, job: &JobSpec, context: &LaunchContext) -> Launch {
        let program = if self.0.library.is_some() { CLIENTS_NAME } else { LOADGEN_NAME };
        // `accept` refuses a specification that cannot be written.
        let document = self.document(job, context).unwrap_or_default();
        launch(program, document, context, job.tool.head_start())
    }

    fn stderr_line(&mut self, line: &str) -> Option<Progress> {
        let progress = progress(line)?;
        let ratio = planned_requests(&self.0).map(|planned| progress.operations as f64 / planned.max(1.0));
        Some(Progress { ratio, ..progress })
    }

    fn judge(&self, job: &JobSpec, context: &LaunchContext, ended: &Ended) -> Judged {
        let report = match read_report(&context.output_directory) {
            Ok(read) => read,
            Err(error) => return rejected(unread(NAME, &error, ended), None),
        };
        // The document takes the place of the file's name.
        let arguments = vec!["run".to_owned(), self.document(job, context).unwrap_or_default()];
        let failure = verdict(&report, ended);
        let measured = measured(&self.0, report, arguments);
        match failure {
            None => Ok(measured),
            Some(failure) => rejected(failure, Some(measured)),
        }
    }
}

fn measured(spec: &LoadgenSpec, report: Report, arguments: Vec<String>) -> PodResult {
    let mut errors = BTreeMap::new();
    for error in report.errors {
        *errors.entry(error.kind).or_default() += error.count;
    }
    let started = report.started_at_unix_nanos.and_then(|nanos| i64::try_from(nanos).ok());
    PodResult {
        tool: ToolRecord {
            name: "loadgen".to_owned(),
            version: Some(report.version).filter(|version| !version.is_empty()),
            mode: None,
            arguments,
            reported_operations_per_second: Some(report.totals.operations_per_second),
            connections: connections(spec),
            pipeline: u64::from(spec.pipeline.unsigned_abs()),
        },
        per_second: added_seconds(due(&report.operations).map(|row| row.per_second.as_slice())),
        notes: unfilled(&report.operations).into_iter().collect(),
        operations: report.operations,
        errors,
        window: Window {
            start_unix_nanos: started.unwrap_or_default(),
            seconds: report.window_seconds,
            ..Window::default()
        },
        commands: report.commands,
        warmup: report.warmup.map(|warmup| warmup.operations).unwrap_or_default(),
        schedule: report.schedule,
        due_per_second: report.due_per_second,
        schedule_lag: report.schedule_lag,
        latency_series: report.latency_series,
        hit_series: report.hit_series,
        batches: report.batches,
        client: ContainerUsage { threads: busiest(report.threads, usize::MAX), ..ContainerUsage::default() },
        ..PodResult::default()
    }
}

/// Reports the misses whose SETs had no answer when the load ended.
fn unfilled(operations: &[Operation]) -> Option<String> {
    let fills = operations.iter().find(|row| row.name == FILL)?;
    let gets = operations.iter().filter(|row| row.commands == ["get"]);
    let misses: u64 = gets.filter_map(|row| row.misses).sum();
    let left = misses.saturating_sub(fills.count + fills.errors);
    (left > 0).then(|| {
        format!("{} of {} {FILL} had no answer when the load ended", thousands(left), thousands(misses))
    })
}

/// Requests in flight, divided by the pipeline: of a client library, its tasks.
fn connections(spec: &LoadgenSpec) -> u64 {
    let number = |number: i32| u64::from(number.unsigned_abs());
    match &spec.library {
        Some(library) => number(library.tasks),
        None => number(spec.threads) * number(spec.connections_per_thread),
    }
}

/// How many requests a client sends if they, and not the time, end the load.
fn planned_requests(spec: &LoadgenSpec) -> Option<f64> {
    match &spec.library {
        Some(library) => library.total_requests.map(|requests| requests as f64),
        None => spec.requests_per_connection.map(|requests| {
            requests as f64 * f64::from(spec.threads) * f64::from(spec.connections_per_thread)
        }),
    }
}

/// The start of one of the load generators. The password is in its environment alone.
pub(crate) fn launch(program: &str, document: String, context: &LaunchContext, lead: Duration) -> Launch {
    let password = context.password.iter().map(|password| (PASSWORD_VARIABLE.to_owned(), password.clone()));
    Launch {
        program: program.to_owned(),
        arguments: ["run", "-"].map(str::to_owned).to_vec(),
        input: Some(document),
        environment: password.collect(),
        stop_signal: Signal::SIGTERM,
        stop_grace: STOP_GRACE,
        lead,
    }
}

pub(crate) fn read_report(directory: &Path) -> Result<Report, ReportError> {
    let text = fs::read_to_string(directory.join(REPORT_NAME)).map_err(ReportError::Read)?;
    Report::from_json(&text).map_err(ReportError::Decode)
}

pub(crate) fn verdict(report: &Report, ended: &Ended) -> Option<Failure> {
    let refuse = |step, message: String| Some(explained(step, &message, ended));
    if let Some(failure) = &report.failure {
        return refuse(FailureStep::Tool, failure.message.clone());
    }
    if let Some((step, message)) = unfinished(NAME, report.status, report.interrupted.as_deref()) {
        return refuse(step, message);
    }
    if report.totals.errors > 0 {
        return refuse(FailureStep::ErrorReplies, error_message(report));
    }
    match ended.exit.code {
        Some(0) => None,
        _ => refuse(
            FailureStep::Tool,
            "the load generator completed its work, but its exit code is not 0".to_owned(),
        ),
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

#[cfg(test)]
mod tests;
