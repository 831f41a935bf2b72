//! Turns a report into what the runner stores, and finds contradictions in it. Pure.

use crate::{
    measuring::threads::busiest,
    tools::adapter::{Ended, Measured},
};
use dragstrip_crds::{measured::ScheduleRecord, workload::LoadgenSpec};
use dragstrip_loadgen::counts::report::{OperationReport, Report, ScheduleReport, SecondReport, ThreadCpu};
use dragstrip_results::{
    commands,
    histogram::{HistogramError, Latencies},
    result::{OperationResult, ToolRecord},
    usage::ThreadUsage,
};
use std::{collections::BTreeMap, io};

use super::specification::REPORT_NAME;

/// Operations that read keys, each of which exists or not.
const READS: [&str; 3] = ["GET", "MGET", "EXISTS"];

/// Why a report cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReportError {
    #[error("the load generator left no report {REPORT_NAME}: {0}")]
    Read(#[source] io::Error),
    #[error("the load generator's report {REPORT_NAME} cannot be read: {0}")]
    Decode(#[source] serde_json::Error),
    #[error("{operation}: {source}")]
    Histogram { operation: String, source: HistogramError },
    #[error("{operation}: {count} replies and unanswered requests but {latencies} latencies are reported")]
    Contradiction { operation: String, count: u64, latencies: u64 },
    #[error("{operation}: {count} replies but {seconds} over all seconds are reported")]
    Series { operation: String, count: u64, seconds: u64 },
}

pub(super) fn measured(
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

/// Requests that may be in flight at a time, divided by the pipeline: a client library has as
/// many as it has tasks.
fn connections(spec: &LoadgenSpec) -> u64 {
    let number = |number: i32| u64::from(number.unsigned_abs());
    match &spec.library {
        Some(library) => number(library.tasks),
        None => number(spec.threads) * number(spec.connections_per_thread),
    }
}

fn operation(report: &OperationReport, complete: &Report) -> Result<OperationResult, ReportError> {
    let name = || report.operation.clone();
    let latencies =
        report.latencies().map_err(|source| ReportError::Histogram { operation: name(), source })?;
    if latencies.count() != report.count + report.unanswered {
        let (count, latencies) = (report.count + report.unanswered, latencies.count());
        return Err(ReportError::Contradiction { operation: name(), count, latencies });
    }
    let per_second = series(&report.operation, complete);
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

pub(super) fn schedule(report: &ScheduleReport, lag: &Latencies) -> ScheduleRecord {
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
