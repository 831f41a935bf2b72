//! Makes the report out of what the load threads counted.

use std::collections::BTreeMap;
use std::time::Instant;

use dragstrip_crds::measured::ScheduleRecord;
use dragstrip_results::commands;
use dragstrip_results::histogram::{self, HistogramError, Latencies};
use dragstrip_results::hit_series::HitSeries;
use dragstrip_results::latency_series::{EncodedSeries, LatencySeries};
use dragstrip_results::measured::operation::added_seconds;
use dragstrip_results::result::{Operation, Presence, due};
use dragstrip_results::schedule::answered_in_time;
use dragstrip_results::usage::ThreadUsage;

use crate::configuration::Configuration;
use crate::counts::errors::{ErrorCount, ErrorTable};
use crate::counts::exit;
use crate::counts::recorder::{OperationRecord, Recorder, Second};
use crate::counts::report::{ErrorReport, Failure, Report, RunStatus, Totals, WarmupReport};
use crate::driver::clock::ClockAnchor;
use crate::driver::cpu::ScheduleTimes;
use crate::driver::pacer::ScheduleCounts;
use crate::driver::phase::{Ending, Stopper};
use crate::driver::worker::WorkerOutcome;
use crate::workload::operations::{self, OperationSpec};

/// What a run leaves behind.
pub(crate) struct Gathered {
    pub(crate) clock: ClockAnchor,
    pub(crate) outcomes: Vec<WorkerOutcome>,
}

impl Gathered {
    fn recorders(&self) -> impl Iterator<Item = &Recorder> {
        self.outcomes.iter().filter_map(|outcome| outcome.recorder.as_ref())
    }
}

#[derive(Debug)]
pub struct Counts<'a> {
    /// When an open loop's schedule began, and when it ended if it came that far.
    pub schedule: Option<(Instant, Option<Instant>)>,
    /// Names of the operations, in the recorders' order.
    pub names: &'a [String],
    /// The recorders, all of the same operations.
    pub recorders: Vec<&'a Recorder>,
    pub clock: ClockAnchor,
}

impl Counts<'_> {
    /// Fills in all that is counted by operation, and returns the recorders' sums.
    pub fn fill(
        &self,
        report: &mut Report,
        configuration: &Configuration,
    ) -> Result<Vec<OperationRecord>, HistogramError> {
        self.set_window(report);
        report.errors = self.errors();
        let records = self.merged()?;
        report.operations = self.operations(&records, report.window_seconds)?;
        report.latency_series = Some(self.latency_series()?);
        report.hit_series = self.hit_series();
        let due = due(&report.operations).map(|row| row.count).sum();
        report.totals = totals(&records, rate(due, report.window_seconds));
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
    ) -> Result<Vec<Operation>, HistogramError> {
        let all = self.names.iter().zip(records).enumerate();
        all.map(|(index, (name, record))| {
            let latencies = Latencies::from_microseconds(record.latency.clone());
            let reads = is_read(name);
            Ok(Operation {
                name: name.clone(),
                commands: commands::named(name).into_iter().collect(),
                count: record.count,
                hits: reads.then_some(record.hits),
                misses: reads.then_some(record.misses),
                errors: record.errors,
                bytes: record.bytes,
                operations_per_second: None,
                tool_operations_per_second: Some(rate(record.count, window_seconds)),
                latency_milliseconds: latencies.summary(),
                histogram: Some(latencies.encode()?),
                per_second: self.seconds(index),
            })
        })
        .collect()
    }

    fn latency_series(&self) -> Result<EncodedSeries, HistogramError> {
        let mut sum = LatencySeries::new()?;
        for recorder in &self.recorders {
            sum.add(recorder.by_second.clone());
        }
        sum.encode()
    }

    /// What the reads found; none without reads.
    fn hit_series(&self) -> Option<HitSeries> {
        let reads: Vec<bool> = self.names.iter().map(|name| is_read(name)).collect();
        let second = |second: &Second| {
            let found = second.iter().zip(&reads).filter(|(_, read)| **read).map(|((_, found), _)| found);
            found.fold((0, 0), |(hits, misses), found| (hits + found.hits, misses + found.misses))
        };
        let of_thread = |recorder: &&Recorder| HitSeries::of(recorder.seconds.iter().map(second));
        self.recorders.iter().map(of_thread).reduce(HitSeries::plus).filter(|_| reads.contains(&true))
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

    fn seconds(&self, operation: usize) -> Vec<u64> {
        let longest = self.recorders.iter().map(|recorder| recorder.seconds.len()).max().unwrap_or(0);
        let count = |second: usize| {
            let all =
                self.recorders.iter().filter_map(|recorder| recorder.seconds.get(second)?.get(operation));
            all.map(|(count, _)| count).sum()
        };
        (0..longest).map(count).collect()
    }
}

/// Whether an operation reads keys. A second one of the same name is `MGET#2`, one with its own keys `MGET page:*`.
fn is_read(name: &str) -> bool {
    ["GET", "MGET", "EXISTS"].contains(&name.split([' ', '#']).next().unwrap_or(name))
}

pub(crate) fn report(configuration: &Configuration, mut gathered: Gathered, ending: Ending) -> Report {
    gathered.outcomes.sort_by_key(|outcome| outcome.thread);
    let mix = &configuration.operations;
    let mut report = Report {
        tool: env!("CARGO_PKG_NAME").into(),
        version: env!("CARGO_PKG_VERSION").into(),
        specification: Some(configuration.specification.clone()),
        threads: gathered.outcomes.iter().map(thread_usage).collect(),
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
            report.verified = configuration.verifies_keys().then(|| Presence {
                expected: configuration.keys.maximum - configuration.keys.minimum + 1,
                found: records.iter().map(|record| record.hits).sum(),
            });
            schedule(configuration, &gathered, &mut report)
        }
        Err(error) => Err(error),
    };
    let ending = filled.map_or_else(|error| not_merged(&error), |()| ending);
    set_ending(&mut report, ending);
    report
}

/// How a run ends whose counts do not add up.
pub fn not_merged(error: &HistogramError) -> Ending {
    Ending::Failed(Failure::of_client("merge histograms", error))
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

/// Fills in how punctual an open loop was.
fn schedule(
    configuration: &Configuration,
    gathered: &Gathered,
    report: &mut Report,
) -> Result<(), HistogramError> {
    let Some(declared) = &configuration.load().rate else { return Ok(()) };
    let threads: Vec<&ScheduleCounts> =
        gathered.outcomes.iter().filter_map(|outcome| outcome.schedule.as_ref()).collect();
    let (mut lag, mut wake_lag) = (histogram::empty()?, histogram::empty()?);
    for counts in &threads {
        histogram::add(&mut lag, &counts.lag)?;
        histogram::add(&mut wake_lag, &counts.wake_lag)?;
    }
    let lag = Latencies::from_microseconds(lag);
    let scheduled: u64 = threads.iter().map(|counts| counts.scheduled).sum();
    report.due_per_second = due_per_second(&threads);
    let per_second = added_seconds(due(&report.operations).map(|row| row.per_second.as_slice()));
    let answered = due(&report.operations).map(|row| row.count + row.errors).sum();
    report.schedule_lag = Some(lag.encode()?);
    report.schedule = Some(ScheduleRecord {
        kind: format!("{:?}", declared.arrival).to_lowercase(),
        operations_per_second: declared.operations_per_second as f64
            / f64::from(configuration.crowd.processes),
        scheduled,
        sent: threads.iter().map(|counts| counts.sent).sum(),
        answered,
        unanswered: scheduled.saturating_sub(answered),
        answered_in_time: answered_in_time(&report.due_per_second, &per_second),
        lag_milliseconds: lag.summary(),
        wake_lag_p99_milliseconds: Latencies::from_microseconds(wake_lag).summary().p99,
    });
    Ok(())
}

fn due_per_second(threads: &[&ScheduleCounts]) -> Vec<u64> {
    let whole =
        threads.iter().map(|counts| counts.window.1.saturating_duration_since(counts.window.0).as_secs());
    let whole = whole.max().and_then(|seconds| usize::try_from(seconds).ok()).unwrap_or_default();
    let mut due = added_seconds(threads.iter().map(|counts| counts.due_per_second.as_slice()));
    due.truncate(whole);
    due
}

/// Puts into `report` how the run ended, and the exit code that follows from it.
pub fn set_ending(report: &mut Report, ending: Ending) {
    match ending {
        Ending::Completed => {
            report.status = RunStatus::Completed;
            report.exit_code = match report.verified {
                _ if report.totals.errors > 0 => exit::ERROR_REPLIES,
                Some(verified) if verified.found != verified.expected => exit::KEYS_MISSING,
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
            report.exit_code = failure.kind as u8;
            report.failure = Some(failure);
        }
    }
}

fn rate(count: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { count as f64 / seconds } else { 0.0 }
}

fn totals(records: &[OperationRecord], operations_per_second: f64) -> Totals {
    let sum = |member: fn(&OperationRecord) -> u64| records.iter().map(member).sum();
    Totals {
        requests: sum(|record| record.requests),
        count: sum(|record| record.count),
        errors: sum(|record| record.errors),
        operations_per_second,
    }
}

fn thread_usage(outcome: &WorkerOutcome) -> ThreadUsage {
    // To fall asleep and to wake may take more CPU than the requests, and leaves room for more of them.
    let waited = outcome.schedule.as_ref().map(|counts| counts.waited).unwrap_or_default();
    let running = outcome.cpu.running.min(outcome.busy.saturating_sub(waited));
    ScheduleTimes { running, ..outcome.cpu }.usage(outcome.thread)
}
