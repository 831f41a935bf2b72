//! The verdict on a run: the numbers, or what exactly went wrong.
//!
//! A run is good when the tool ended by itself with exit code 0, said nothing
//! of trouble on stderr, and left a result file in which all counts agree. Two
//! cases that look odd but are good: a server that stood still for a while and
//! then went on (the load is a closed loop: it waited, and the wait is in the
//! histogram), and `--clients-start` in the extra arguments (the
//! numbers are those of a growing number of connections, as declared).

use super::{
    arguments::{arguments, result_file},
    progress::Observed,
};
use crate::tools::adapter::{Ended, Exit, Judged, LaunchContext, rejected};
use dragstrip_crds::workload::MemtierSpec;
use dragstrip_parsers::memtier::{
    agreement::contradiction,
    operations,
    report::{Report, ReportError},
};
use dragstrip_results::{
    error_chain::chain,
    protocol::JobSpec,
    result::{FailureStep, Operation, PodResult, ToolRecord},
};
use nix::sys::signal::Signal;
use std::{collections::BTreeMap, fs};

/// A timed run cannot take less than this many seconds below its time.
const CLOCK_TOLERANCE_SECONDS: f64 = 0.05;
/// Clients whose averaged end lies this many milliseconds before their start
/// never ended; less than that is the tool's averaging of whole seconds.
const UNFINISHED_MILLISECONDS: f64 = 1000.0;

type Fault = (FailureStep, String);

struct Outcome {
    report: Report,
    operations: Vec<Operation>,
}

pub(super) fn judge(
    spec: &MemtierSpec,
    observed: &Observed,
    job: &JobSpec,
    context: &LaunchContext,
    ended: &Ended,
) -> Judged {
    let outcome = read(observed, context);
    let fault = process_fault(observed, ended, outcome.as_ref().ok())
        .or_else(|| stderr_fault(observed))
        .or_else(|| match &outcome {
            Err(error) => Some((FailureStep::Output, chain(error))),
            Ok(outcome) => content_fault(spec, &outcome.report, ended, context.members.len() as u64),
        });
    let tool = tool_record(spec, job, context, outcome.as_ref().ok().map(|outcome| &outcome.report));
    let measured = measured(tool, observed, outcome.ok());
    match fault {
        None => Ok(measured),
        Some((step, message)) => rejected(ended.failure(step, message), Some(measured)),
    }
}

fn read(observed: &Observed, context: &LaunchContext) -> Result<Outcome, ReportError> {
    let bytes = fs::read(result_file(context)).map_err(ReportError::File)?;
    // Keys and values may be any bytes; the numbers around them are ASCII.
    let report = Report::read(&String::from_utf8_lossy(&bytes))?;
    let operations = operations::operations(&report, observed.errors())?;
    Ok(Outcome { report, operations })
}

fn measured(tool: ToolRecord, observed: &Observed, outcome: Option<Outcome>) -> PodResult {
    let mut errors = observed.error_replies.clone();
    let mut per_second = Vec::new();
    let mut operations = Vec::new();
    if let Some(outcome) = outcome {
        for (word, count) in operations::redirections(&outcome.report) {
            *errors.entry(word).or_default() += count;
        }
        per_second = operations::per_second(&outcome.report);
        operations = outcome.operations;
    }
    PodResult { tool, operations, errors, per_second, ..PodResult::default() }
}

/// The tool's account of itself; its options if it left none.
fn tool_record(
    spec: &MemtierSpec,
    job: &JobSpec,
    context: &LaunchContext,
    report: Option<&Report>,
) -> ToolRecord {
    let unsigned = |number: i32| u64::try_from(number).unwrap_or(0);
    let positive = |number: f64| (number.is_finite() && number > 0.0).then_some(number);
    ToolRecord {
        name: "memtier".to_owned(),
        version: context.tool_version.clone(),
        mode: None,
        arguments: arguments(spec, job, context),
        reported_operations_per_second: report.and_then(|report| positive(report.operations_per_second)),
        connections: report.map_or_else(
            || unsigned(spec.threads) * unsigned(spec.connections_per_thread),
            Report::connections,
        ),
        pipeline: unsigned(spec.pipeline),
    }
}

fn process_fault(observed: &Observed, ended: &Ended, outcome: Option<&Outcome>) -> Option<Fault> {
    let clues = clues(observed);
    if ended.exit.watchdog {
        let message = format!(
            "memtier was still running after {:.1} s and had to be ended: {}",
            ended.wall.as_secs_f64(),
            joined(&[standstill(observed), clues])
        );
        return Some((FailureStep::Watchdog, message));
    }
    if ended.exit.interrupted || outcome.is_some_and(|outcome| outcome.report.interrupted) {
        let message = format!("memtier was stopped after {:.1} s", ended.wall.as_secs_f64());
        return Some((FailureStep::Interrupted, message));
    }
    if ended.exit.code == Some(0) {
        return None;
    }
    Some((FailureStep::Tool, joined(&[Some(bad_exit(ended.exit)), clues])))
}

fn bad_exit(exit: Exit) -> String {
    match (exit.code, exit.signal) {
        (Some(2), _) => "memtier refused its arguments (exit code 2)".to_owned(),
        (Some(code), _) => format!("memtier ended with exit code {code}"),
        (None, Some(9)) => "memtier was killed by signal 9 (SIGKILL), as when memory runs out".to_owned(),
        (None, Some(signal)) => {
            let name = Signal::try_from(signal).map(|known| format!(" ({known})")).unwrap_or_default();
            format!("memtier was ended by signal {signal}{name}")
        }
        (None, None) => "how memtier ended is unknown".to_owned(),
    }
}

/// What a tool that had to be killed was waiting for.
fn standstill(observed: &Observed) -> Option<String> {
    if observed.most_operations == 0 {
        Some("no operation was ever answered".to_owned())
    } else if observed.idle_reports > 1 {
        Some(format!("no operation was answered in its last {} progress reports", observed.idle_reports))
    } else {
        None
    }
}

/// What stderr says of a tool that ended as if all were well.
fn stderr_fault(observed: &Observed) -> Option<Fault> {
    broken_connections(observed)
        .or_else(|| {
            observed.complaints.first().map(|line| (FailureStep::Tool, format!("memtier says: {line}")))
        })
        .or_else(|| Some((FailureStep::ErrorReplies, error_replies(observed)?)))
}

fn broken_connections(observed: &Observed) -> Option<Fault> {
    let troubles = troubles(observed);
    let restarted = observed.restarts > 0 || observed.fell_back;
    if troubles.is_none() && !restarted {
        return None;
    }
    let what = if observed.most_operations == 0 {
        "memtier never got through to the server"
    } else if restarted {
        "memtier lost its connections, threw its numbers away and started over"
    } else {
        "memtier lost connections to the server during the run"
    };
    Some((FailureStep::Tool, joined(&[Some(what.to_owned()), troubles])))
}

/// What is wrong with a readable result of a tool that reported no trouble.
fn content_fault(spec: &MemtierSpec, report: &Report, ended: &Ended, shards: u64) -> Option<Fault> {
    unfinished(report)
        .or_else(|| too_short(report, ended))
        .map(|message| (FailureStep::Tool, message))
        .or_else(|| {
            contradiction(report, u64::try_from(spec.pipeline).ok(), shards)
                .map(|message| (FailureStep::Output, message))
        })
        .or_else(|| redirected(report).map(|message| (FailureStep::ErrorReplies, message)))
}

fn unfinished(report: &Report) -> Option<String> {
    let (start, finish) = report.start_and_finish;
    if report.connection_errors > 0 {
        return Some(format!("memtier counted {} connection errors", report.connection_errors));
    }
    if report.total_count == 0 {
        return Some("memtier reports no operation at all".to_owned());
    }
    (finish + UNFINISHED_MILLISECONDS < start).then(|| {
        format!(
            "some of memtier's clients never finished: it reports a start at {start} ms and an end at {finish} ms"
        )
    })
}

fn too_short(report: &Report, ended: &Ended) -> Option<String> {
    let wall = ended.wall.as_secs_f64();
    if let Some(seconds) = report.test_seconds
        && wall + CLOCK_TOLERANCE_SECONDS < seconds as f64
    {
        return Some(format!("memtier ended after {wall:.1} s but was to run for {seconds} s"));
    }
    let wanted = report.connections().saturating_mul(report.requests_per_connection?);
    (report.total_count < wanted)
        .then(|| format!("memtier got {} replies but was to send {wanted} requests", report.total_count))
}

fn redirected(report: &Report) -> Option<String> {
    let redirections = operations::redirections(report);
    (!redirections.is_empty()).then(|| {
        format!(
            "{} of {} requests went to nodes that did not serve their slots ({}), as when slots move while the load runs",
            redirections.values().sum::<u64>(),
            report.total_count,
            listed(&redirections)
        )
    })
}

/// All that stderr has to say about a bad end, most telling first.
fn clues(observed: &Observed) -> Option<String> {
    let complaint = observed.complaints.first().or(observed.remarks.first()).cloned();
    let restarts =
        (observed.restarts > 0).then(|| format!("threads were restarted {} times", observed.restarts));
    let clues = [complaint, error_replies(observed), troubles(observed), restarts];
    clues.iter().any(Option::is_some).then(|| joined(&clues))
}

fn error_replies(observed: &Observed) -> Option<String> {
    let first = observed.first_error_reply.as_ref()?;
    Some(format!(
        "the server answered {} requests with errors ({}), the first with {first:?}",
        observed.errors(),
        listed(&observed.error_replies)
    ))
}

fn troubles(observed: &Observed) -> Option<String> {
    (!observed.troubles.is_empty()).then(|| listed(&observed.troubles))
}

/// `OOM 16442, ERR 3`.
fn listed(counts: &BTreeMap<String, u64>) -> String {
    let entries: Vec<_> = counts.iter().map(|(what, count)| format!("{what} ×{count}")).collect();
    entries.join(", ")
}

fn joined(parts: &[Option<String>]) -> String {
    let parts: Vec<_> = parts.iter().flatten().map(String::as_str).collect();
    parts.join("; ")
}
