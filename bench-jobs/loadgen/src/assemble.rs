//! Makes the report out of what the load threads counted.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::clock::ClockAnchor;
use crate::configuration::{Configuration, Limit, Protocol};
use crate::cpu::CpuTime;
use crate::exit;
use crate::histogram::{self, HistogramError};
use crate::keys::KeyPattern;
use crate::recorder::{ErrorTable, OperationRecord, Recorder, Second, SecondCell};
use crate::report::{
    ClientCpu, ConfigurationEcho, ErrorReport, Latency, OperationReport, PipelineMode, Report, RunStatus,
    SecondOperation, SecondReport, StartReport, ThreadCpu, ThreadStart, Totals,
};
use crate::requests::Operation;
use crate::run::{Ending, Stopper};
use crate::worker::{WorkerOutcome, client_failure};

/// What a run leaves behind.
pub(crate) struct Gathered {
    pub(crate) addresses: Vec<SocketAddr>,
    pub(crate) clock: ClockAnchor,
    /// The start line; none when the run never got there.
    pub(crate) line: Option<Instant>,
    pub(crate) process_cpu: CpuTime,
    pub(crate) outcomes: Vec<WorkerOutcome>,
}

impl Gathered {
    pub(crate) fn new() -> Self {
        Self {
            addresses: Vec::new(),
            clock: ClockAnchor::now(),
            line: None,
            process_cpu: CpuTime::default(),
            outcomes: Vec::new(),
        }
    }

    fn recorders(&self) -> impl Iterator<Item = &Recorder> {
        self.outcomes.iter().filter_map(|outcome| outcome.recorder.as_ref())
    }
}

/// The report of a run.
pub(crate) fn report(configuration: &Configuration, mut gathered: Gathered, ending: Ending) -> Report {
    gathered.outcomes.sort_by_key(|outcome| outcome.thread);
    let mut report = Report {
        tool: env!("CARGO_PKG_NAME").into(),
        version: env!("CARGO_PKG_VERSION").into(),
        configuration: echo(configuration, &gathered.addresses),
        pipeline_mode: PipelineMode::Batch,
        start: start(&gathered),
        errors: errors(&gathered),
        pushes: gathered.recorders().map(|recorder| recorder.pushes).sum(),
        per_second: seconds(&gathered, configuration),
        client_cpu: client_cpu(&gathered),
        ..Report::default()
    };
    set_window(&mut report, &gathered);
    let ending = match operations(&gathered, configuration, report.window_seconds) {
        Ok(operations) => {
            report.operations = operations;
            ending
        }
        Err(error) => Ending::Failed(client_failure("merge histograms", configuration.target(), &error)),
    };
    report.totals = totals(&report.operations, report.window_seconds);
    set_ending(&mut report, ending);
    report
}

pub(crate) fn set_ending(report: &mut Report, ending: Ending) {
    match ending {
        Ending::Completed => {
            report.status = RunStatus::Completed;
            report.exit_code = if report.totals.errors == 0 { exit::COMPLETED } else { exit::ERROR_REPLIES };
        }
        Ending::Interrupted(stopper) => {
            let (name, code) = match stopper {
                Stopper::Interrupt => ("SIGINT", exit::INTERRUPTED),
                Stopper::Terminate => ("SIGTERM", exit::TERMINATED),
            };
            report.status = RunStatus::Interrupted;
            report.interrupted = Some(name.into());
            report.exit_code = code;
        }
        Ending::Failed(failure) => {
            report.status = RunStatus::Failed;
            report.exit_code = exit::of_failure(&failure);
            report.failure = Some(failure);
        }
    }
}

fn set_window(report: &mut Report, gathered: &Gathered) {
    let first = gathered.recorders().filter_map(|recorder| recorder.first_send).min();
    let last = gathered.recorders().filter_map(|recorder| recorder.last_reply).max();
    report.started_at_unix_nanos = first.map(|instant| gathered.clock.unix_nanos_at(instant));
    report.ended_at_unix_nanos = last.map(|instant| gathered.clock.unix_nanos_at(instant));
    if let (Some(first), Some(last)) = (first, last) {
        report.window_seconds = last.saturating_duration_since(first).as_secs_f64();
    }
}

fn micros(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}

fn start(gathered: &Gathered) -> StartReport {
    let Some(line) = gathered.line else {
        return StartReport::default();
    };
    let threads: Vec<ThreadStart> = gathered
        .outcomes
        .iter()
        .filter_map(|outcome| {
            let recorder = outcome.recorder.as_ref()?;
            Some(ThreadStart {
                thread: outcome.thread,
                first_send_min_micros: micros(recorder.first_send?.saturating_duration_since(line)),
                first_send_max_micros: micros(recorder.last_first_send?.saturating_duration_since(line)),
            })
        })
        .collect();
    StartReport {
        line_unix_nanos: Some(gathered.clock.unix_nanos_at(line)),
        first_send_min_micros: threads.iter().map(|thread| thread.first_send_min_micros).reduce(f64::min),
        first_send_max_micros: threads.iter().map(|thread| thread.first_send_max_micros).reduce(f64::max),
        threads,
    }
}

/// Operations that the ratio asks for, each with the records of all threads.
fn operations(
    gathered: &Gathered,
    configuration: &Configuration,
    window_seconds: f64,
) -> Result<Vec<OperationReport>, HistogramError> {
    wanted_operations(configuration)
        .map(|operation| {
            let mut merged = OperationRecord::new()?;
            for recorder in gathered.recorders() {
                merged.merge(recorder.operation(operation))?;
            }
            Ok(OperationReport {
                operation: operation.name().into(),
                requests: merged.requests,
                count: merged.count,
                hits: merged.hits,
                misses: merged.misses,
                errors: merged.errors,
                bytes_sent: merged.bytes_sent,
                bytes_received: merged.bytes_received,
                operations_per_second: rate(merged.count, window_seconds),
                latency: Latency::of(&merged.latency),
                histogram: histogram::encode(&merged.latency)?,
            })
        })
        .collect()
}

fn wanted_operations(configuration: &Configuration) -> impl Iterator<Item = Operation> {
    let ratio = configuration.ratio;
    Operation::ALL.into_iter().filter(move |operation| match operation {
        Operation::Set => ratio.sets > 0,
        Operation::Get => ratio.gets > 0,
    })
}

pub(crate) fn rate(count: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { count as f64 / seconds } else { 0.0 }
}

pub(crate) fn totals(operations: &[OperationReport], window_seconds: f64) -> Totals {
    let sum = |member: fn(&OperationReport) -> u64| operations.iter().map(member).sum();
    let count = sum(|operation| operation.count);
    Totals {
        requests: sum(|operation| operation.requests),
        count,
        errors: sum(|operation| operation.errors),
        bytes_sent: sum(|operation| operation.bytes_sent),
        bytes_received: sum(|operation| operation.bytes_received),
        operations_per_second: rate(count, window_seconds),
    }
}

fn errors(gathered: &Gathered) -> Vec<ErrorReport> {
    let mut merged = ErrorTable::default();
    for entry in gathered.recorders().flat_map(|recorder| &recorder.errors.entries) {
        merged.merge(entry);
    }
    merged.entries.sort_by(|one, other| (one.operation, &one.kind).cmp(&(other.operation, &other.kind)));
    let written = |entry: crate::recorder::ErrorCount| ErrorReport {
        operation: entry.operation.name().into(),
        kind: entry.kind,
        count: entry.count,
        first_message: entry.first_message,
    };
    merged.entries.into_iter().map(written).collect()
}

fn seconds(gathered: &Gathered, configuration: &Configuration) -> Vec<SecondReport> {
    let mut merged: Vec<Second> = Vec::new();
    for recorder in gathered.recorders() {
        if recorder.seconds.len() > merged.len() {
            merged.resize(recorder.seconds.len(), Second::default());
        }
        for (total, second) in merged.iter_mut().zip(&recorder.seconds) {
            total.sets.merge(second.sets);
            total.gets.merge(second.gets);
        }
    }
    let written = |operation: Operation, cell: SecondCell| SecondOperation {
        operation: operation.name().into(),
        count: cell.count,
        errors: cell.errors,
        max_latency_micros: cell.max_latency_micros,
    };
    merged
        .iter()
        .enumerate()
        .map(|(number, second)| SecondReport {
            second: number as u64,
            operations: wanted_operations(configuration)
                .map(|operation| written(operation, second.operation(operation)))
                .collect(),
        })
        .collect()
}

fn client_cpu(gathered: &Gathered) -> ClientCpu {
    let threads: Vec<ThreadCpu> = gathered
        .outcomes
        .iter()
        .map(|outcome| {
            let cpu_seconds = outcome.cpu.total().as_secs_f64();
            let busy = outcome.busy.as_secs_f64();
            let share = if busy > 0.0 { cpu_seconds / busy } else { 0.0 };
            ThreadCpu { thread: outcome.thread, cpu_seconds, share }
        })
        .collect();
    ClientCpu {
        user_seconds: gathered.process_cpu.user.as_secs_f64(),
        system_seconds: gathered.process_cpu.system.as_secs_f64(),
        max_thread_share: threads.iter().map(|thread| thread.share).fold(0.0, f64::max),
        threads,
    }
}

pub(crate) fn echo(configuration: &Configuration, addresses: &[SocketAddr]) -> ConfigurationEcho {
    let keys = &configuration.keys;
    let mut echo = ConfigurationEcho {
        host: configuration.host.clone(),
        port: configuration.port,
        addresses: addresses.iter().map(SocketAddr::to_string).collect(),
        protocol: match configuration.protocol {
            Protocol::Resp2 => "resp2".into(),
            Protocol::Resp3 => "resp3".into(),
        },
        authentication: match &configuration.credentials {
            None => "none".into(),
            Some(credentials) if credentials.username.is_none() => "password".into(),
            Some(_) => "usernameAndPassword".into(),
        },
        threads: configuration.threads,
        connections_per_thread: configuration.connections_per_thread,
        ratio: format!("{}:{}", configuration.ratio.sets, configuration.ratio.gets),
        key_prefix: keys.prefix.clone(),
        key_minimum: keys.minimum,
        key_maximum: keys.maximum,
        data_size_minimum: configuration.data.minimum_bytes,
        data_size_maximum: configuration.data.maximum_bytes,
        random_data: configuration.data.random,
        expiry_seconds: configuration.data.expiry_seconds,
        pipeline: configuration.pipeline,
        seed: configuration.seed,
        connect_timeout_seconds: configuration.connect_timeout.as_secs_f64(),
        response_timeout_seconds: configuration.response_timeout.as_secs_f64(),
        start_at_unix_nanos: configuration.start_at_unix_nanos,
        ..ConfigurationEcho::default()
    };
    echo_pattern(&mut echo, keys.pattern);
    match configuration.limit {
        Limit::Requests(requests) => echo.requests = Some(requests.to_string()),
        Limit::AllKeys => echo.requests = Some("allkeys".into()),
        Limit::Duration(duration) => echo.duration_seconds = Some(duration.as_secs_f64()),
    }
    echo
}

fn echo_pattern(echo: &mut ConfigurationEcho, pattern: KeyPattern) {
    echo.key_pattern = match pattern {
        KeyPattern::Uniform => "uniform".into(),
        KeyPattern::Sequential => "sequential".into(),
        KeyPattern::Gaussian { median, deviation } => {
            (echo.key_median, echo.key_standard_deviation) = (Some(median), Some(deviation));
            "gaussian".into()
        }
        KeyPattern::Zipfian { exponent } => {
            echo.zipf_exponent = Some(exponent);
            "zipfian".into()
        }
    };
}
