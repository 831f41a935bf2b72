//! Makes the report out of what the load threads counted.

use std::collections::BTreeMap;
use std::time::Instant;

use dragstrip_results::histogram::{self, HistogramError};

use crate::configuration::Configuration;
use crate::counts::errors::{ErrorCount, ErrorTable};
use crate::counts::exit;
use crate::counts::recorder::{NodeCounts, OperationRecord, Recorder, Second, SecondCell};
use crate::counts::report::{
    ClientCpu, ErrorReport, Failure, Latency, OperationReport, Report, RunStatus, ScheduleReport,
    SecondOperation, SecondReport, ShardReport, StartReport, ThreadCpu, Totals, VerifiedReport, WarmupReport,
};
use crate::driver::clock::ClockAnchor;
use crate::driver::cpu::CpuTime;
use crate::driver::pacer::ScheduleCounts;
use crate::driver::phase::{Ending, Stopper};
use crate::driver::worker::WorkerOutcome;
use crate::workload::operations::{self, OperationSpec};

/// What a run leaves behind.
pub(crate) struct Gathered {
    pub(crate) addresses: Vec<String>,
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

/// What recorders counted.
#[derive(Debug)]
pub struct Counts<'a> {
    /// When an open loop's schedule began, and when it ended if it came that far.
    pub schedule: Option<(Instant, Option<Instant>)>,
    /// Names of the operations, in the recorders' order.
    pub names: &'a [String],
    /// The recorders, all of the same operations.
    pub recorders: Vec<&'a Recorder>,
    /// The clock of their instants.
    pub clock: ClockAnchor,
}

impl Counts<'_> {
    /// Fills in everything that is counted by operation, and returns the records
    /// of all recorders together, by operation.
    pub fn fill(
        &self,
        report: &mut Report,
        configuration: &Configuration,
    ) -> Result<Vec<OperationRecord>, HistogramError> {
        self.set_window(report);
        report.errors = self.errors();
        report.per_second = self.seconds();
        let records = self.merged()?;
        report.operations = self.operations(&records, report.window_seconds)?;
        report.totals = totals(&report.operations, report.window_seconds);
        report.warmup = (!configuration.warmup.is_zero()).then(|| WarmupReport {
            seconds: configuration.warmup.as_secs_f64(),
            operations: self
                .names
                .iter()
                .cloned()
                .zip(records.iter().map(|record| record.warmup_count))
                .collect(),
            errors: records.iter().map(|record| record.warmup_errors).sum(),
        });
        Ok(records)
    }

    fn set_window(&self, report: &mut Report) {
        let mut first = self.recorders.iter().filter_map(|recorder| recorder.first_send).min();
        let mut last = self.recorders.iter().filter_map(|recorder| recorder.last_reply).max();
        // From the first to the last of n evenly spaced requests there are n - 1 spaces only.
        if let (Some((begin, end)), Some(_)) = (self.schedule, first) {
            (first, last) = (Some(begin), last.max(end));
        }
        report.started_at_unix_nanos = first.map(|instant| self.clock.unix_nanos_at(instant));
        report.ended_at_unix_nanos = last.map(|instant| self.clock.unix_nanos_at(instant));
        if let (Some(first), Some(last)) = (first, last) {
            report.window_seconds = last.saturating_duration_since(first).as_secs_f64();
        }
    }

    fn merged(&self) -> Result<Vec<OperationRecord>, HistogramError> {
        let mut merged: Vec<OperationRecord> =
            self.names.iter().map(|_| OperationRecord::new()).collect::<Result<_, _>>()?;
        for recorder in &self.recorders {
            for (total, record) in merged.iter_mut().zip(&recorder.operations) {
                total.merge(record)?;
            }
        }
        Ok(merged)
    }

    fn operations(
        &self,
        records: &[OperationRecord],
        window_seconds: f64,
    ) -> Result<Vec<OperationReport>, HistogramError> {
        let written = |(name, record): (&String, &OperationRecord)| {
            Ok(OperationReport {
                operation: name.clone(),
                requests: record.requests,
                count: record.count,
                hits: record.hits,
                misses: record.misses,
                errors: record.errors,
                unanswered: record.unanswered,
                bytes_sent: record.bytes_sent,
                bytes_received: record.bytes_received,
                operations_per_second: rate(record.count, window_seconds),
                latency: Latency::of(&record.latency),
                histogram: histogram::encode(&record.latency)?,
            })
        };
        self.names.iter().zip(records).map(written).collect()
    }

    fn errors(&self) -> Vec<ErrorReport> {
        let mut merged = ErrorTable::default();
        for entry in self.recorders.iter().flat_map(|recorder| &recorder.errors.entries) {
            merged.merge(entry);
        }
        merged.entries.sort_by(|one, other| (one.operation, &one.kind).cmp(&(other.operation, &other.kind)));
        let written = |entry: ErrorCount| ErrorReport {
            operation: self.names.get(entry.operation.0).cloned().unwrap_or_default(),
            kind: entry.kind,
            count: entry.count,
            first_message: entry.first_message,
        };
        merged.entries.into_iter().map(written).collect()
    }

    fn seconds(&self) -> Vec<SecondReport> {
        let mut merged: Vec<Second> = Vec::new();
        for recorder in &self.recorders {
            if recorder.seconds.len() > merged.len() {
                merged.resize(recorder.seconds.len(), vec![SecondCell::default(); self.names.len()]);
            }
            for (total, second) in merged.iter_mut().zip(&recorder.seconds) {
                total.iter_mut().zip(second).for_each(|(total, cell)| total.merge(*cell));
            }
        }
        let written = |(name, cell): (&String, &SecondCell)| SecondOperation {
            operation: name.clone(),
            count: cell.count,
            errors: cell.errors,
            max_latency_micros: cell.max_latency_micros,
        };
        let second = |(number, second): (usize, &Second)| SecondReport {
            second: number as u64,
            operations: self.names.iter().zip(second).map(written).collect(),
        };
        merged.iter().enumerate().map(second).collect()
    }
}

/// The report of a run.
pub(crate) fn report(configuration: &Configuration, mut gathered: Gathered, ending: Ending) -> Report {
    gathered.outcomes.sort_by_key(|outcome| outcome.thread);
    let mix = &configuration.operations;
    let mut report = Report {
        tool: env!("CARGO_PKG_NAME").into(),
        version: env!("CARGO_PKG_VERSION").into(),
        specification: Some(configuration.specification.clone()),
        addresses: gathered.addresses.clone(),
        start: start(&gathered),
        pushes: gathered.recorders().map(|recorder| recorder.pushes).sum(),
        client_cpu: client_cpu(&gathered),
        shards: if configuration.server().cluster { shards(&gathered) } else { Vec::new() },
        ..Report::default()
    };
    let names = operations::names(mix);
    let windows = gathered.outcomes.iter().filter_map(|outcome| Some(outcome.schedule.as_ref()?.window));
    let window = windows.reduce(|one, other| (one.0.min(other.0), one.1.max(other.1)));
    let counts = Counts {
        schedule: window.map(|(begin, end)| (begin, matches!(ending, Ending::Completed).then_some(end))),
        names: &names,
        recorders: gathered.recorders().collect(),
        clock: gathered.clock,
    };
    let filled = match counts.fill(&mut report, configuration) {
        Ok(records) => {
            report.commands = commands(&gathered, mix, &records);
            report.verified = configuration.verifies_keys().then(|| VerifiedReport {
                expected: configuration.keys.maximum - configuration.keys.minimum + 1,
                present: records.iter().map(|record| record.hits).sum(),
            });
            schedule(configuration, &gathered, &report.totals).map(|schedule| report.schedule = schedule)
        }
        Err(error) => Err(error),
    };
    let ending = filled.map_or_else(|error| not_merged(configuration, &error), |()| ending);
    set_ending(&mut report, ending);
    report
}

/// How a run ends whose counts do not add up.
pub fn not_merged(configuration: &Configuration, error: &HistogramError) -> Ending {
    Ending::Failed(Failure::of_client("merge histograms", configuration.target(), error))
}

/// Commands by their server's name. Every answer to a request counts each of
/// its commands, whether it was a success, an error or a redirection.
fn commands(
    gathered: &Gathered,
    mix: &[OperationSpec],
    records: &[OperationRecord],
) -> BTreeMap<String, u64> {
    let mut commands = BTreeMap::new();
    for (operation, record) in mix.iter().zip(records) {
        for (name, count) in operation.commands() {
            *commands.entry(name).or_default() += record.answered() * count;
        }
    }
    let asking: u64 = gathered.recorders().map(|recorder| recorder.asking).sum();
    if asking > 0 {
        *commands.entry("asking".into()).or_default() += asking;
    }
    commands
}

fn shards(gathered: &Gathered) -> Vec<ShardReport> {
    let mut merged: Vec<(&str, NodeCounts)> = Vec::new();
    for (address, counts) in gathered.recorders().flat_map(|recorder| &recorder.nodes) {
        match merged.iter_mut().find(|(name, _)| *name == &**address) {
            Some((_, total)) => total.merge(*counts),
            None => merged.push((address, *counts)),
        }
    }
    let written = |(address, counts): (&str, NodeCounts)| ShardReport {
        address: address.into(),
        operations: counts.operations,
        errors: counts.errors,
        moved: counts.moved,
        ask: counts.ask,
    };
    merged.into_iter().map(written).collect()
}

fn schedule(
    configuration: &Configuration,
    gathered: &Gathered,
    totals: &Totals,
) -> Result<Option<ScheduleReport>, HistogramError> {
    let Some(declared) = &configuration.load().rate else { return Ok(None) };
    let mut report = ScheduleReport {
        kind: format!("{:?}", declared.arrival).to_lowercase(),
        operations_per_second: declared.operations_per_second as f64
            / f64::from(configuration.crowd.processes),
        answered: totals.count + totals.errors,
        ..ScheduleReport::default()
    };
    let threads: Vec<&ScheduleCounts> =
        gathered.outcomes.iter().filter_map(|outcome| outcome.schedule.as_ref()).collect();
    report.scheduled = threads.iter().map(|counts| counts.scheduled).sum();
    report.sent = threads.iter().map(|counts| counts.sent).sum();
    report.unanswered = report.scheduled.saturating_sub(report.answered);
    report.unsent_at_end = report.scheduled.saturating_sub(report.sent);
    let mut lag = histogram::empty()?;
    for counts in threads {
        histogram::add(&mut lag, &counts.lag)?;
    }
    report.lag = Latency::of(&lag);
    report.lag_histogram = histogram::encode(&lag)?;
    Ok(Some(report))
}

/// Puts into `report` how the run ended, and the exit code that follows from it.
pub fn set_ending(report: &mut Report, ending: Ending) {
    match ending {
        Ending::Completed => {
            report.status = RunStatus::Completed;
            report.exit_code = match report.verified {
                _ if report.totals.errors > 0 => exit::ERROR_REPLIES,
                Some(verified) if verified.present != verified.expected => exit::KEYS_MISSING,
                _ => exit::COMPLETED,
            };
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

fn start(gathered: &Gathered) -> StartReport {
    let Some(line) = gathered.line else {
        return StartReport::default();
    };
    let late = |instant: Instant| instant.saturating_duration_since(line).as_secs_f64() * 1e6;
    StartReport {
        line_unix_nanos: Some(gathered.clock.unix_nanos_at(line)),
        first_send_min_micros: gathered.recorders().filter_map(|it| it.first_send).min().map(late),
        first_send_max_micros: gathered.recorders().filter_map(|it| it.last_first_send).max().map(late),
    }
}

fn rate(count: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { count as f64 / seconds } else { 0.0 }
}

fn totals(operations: &[OperationReport], window_seconds: f64) -> Totals {
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
