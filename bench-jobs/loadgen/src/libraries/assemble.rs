//! Makes the report out of what the tasks counted.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::assemble::{rate, set_ending, totals};
use crate::batches::BatchReport;
use crate::clock::ClockAnchor;
use crate::configuration::Configuration;
use crate::cpu::CpuTime;
use crate::echo::echo;
use crate::histogram::{self, HistogramError};
use crate::libraries::batch_work;
use crate::libraries::bb8_pool::PoolWatch;
use crate::libraries::counters::{Counters, Sums};
use crate::libraries::plan::{LibraryPlan, Work};
use crate::report::{
    ClientCpu, ErrorReport, Failure, Latency, OperationReport, PipelineMode, Report, SecondOperation,
    SecondReport, StartReport, ThreadCpu, WarmupReport,
};
use crate::run::Ending;
use crate::worker::client_failure;

/// What a run leaves behind.
pub(crate) struct Gathered {
    pub(crate) addresses: Vec<String>,
    pub(crate) clock: ClockAnchor,
    /// The start line; none when the run never got there.
    pub(crate) line: Option<Instant>,
    pub(crate) process_cpu: CpuTime,
    pub(crate) thread_cpu: Vec<ThreadCpu>,
    pub(crate) counters: Arc<Counters>,
    /// Times of the measured batches.
    pub(crate) batch_times: Vec<Duration>,
    /// What a bb8 pool does by itself.
    pub(crate) pool: PoolWatch,
}

impl Gathered {
    pub(crate) fn new(counters: Arc<Counters>) -> Self {
        Self {
            addresses: Vec::new(),
            clock: ClockAnchor::now(),
            line: None,
            process_cpu: CpuTime::default(),
            thread_cpu: Vec::new(),
            counters,
            batch_times: Vec::new(),
            pool: PoolWatch::new(),
        }
    }
}

/// The report of a run that could not even count.
pub(crate) fn failed(configuration: &Configuration, plan: &LibraryPlan, failure: Failure) -> Report {
    let mut report = blank(configuration, plan, &[]);
    set_ending(&mut report, Ending::Failed(failure));
    report
}

/// The report of a run.
pub(crate) fn report(
    configuration: &Configuration,
    plan: &LibraryPlan,
    gathered: &Gathered,
    ending: Ending,
) -> Report {
    let mut report = blank(configuration, plan, &gathered.addresses);
    report.client_cpu = ClientCpu {
        user_seconds: gathered.process_cpu.user.as_secs_f64(),
        system_seconds: gathered.process_cpu.system.as_secs_f64(),
        max_thread_share: gathered.thread_cpu.iter().map(|thread| thread.share).fold(0.0, f64::max),
        threads: gathered.thread_cpu.clone(),
    };
    let name = plan.work.operation_name();
    let filled = gathered.counters.sum().and_then(|(sent, sums)| {
        set_window(&mut report, gathered, &sums);
        report.operations = vec![operation(name, sent, &sums, report.window_seconds)?];
        report.errors = errors(name, &sums);
        report.per_second = seconds(name, &sums);
        report.commands = commands(plan, gathered, &sums);
        report.warmup = (!configuration.warmup.is_zero()).then(|| WarmupReport {
            seconds: configuration.warmup.as_secs_f64(),
            operations: BTreeMap::from([(name.to_owned(), sums.warmup_count)]),
            errors: sums.warmup_errors,
        });
        Ok(())
    });
    let ending = match filled {
        Ok(()) => ending,
        Err(error) => Ending::Failed(client_failure("merge histograms", configuration.target(), &error)),
    };
    report.totals = totals(&report.operations, report.window_seconds);
    if let Work::Batches(work) = plan.work {
        report.batches = BatchReport::of(batch_work::shape(work), &gathered.batch_times);
    }
    set_ending(&mut report, ending);
    report
}

fn blank(configuration: &Configuration, plan: &LibraryPlan, addresses: &[String]) -> Report {
    let mut configuration = echo(configuration, addresses);
    // These belong to the raw client.
    (configuration.requests, configuration.connections_per_thread) = (None, 0);
    (configuration.pipeline, configuration.ratio) = (0, String::new());
    configuration.library = Some(plan.echo());
    Report {
        tool: env!("CARGO_PKG_NAME").into(),
        version: env!("CARGO_PKG_VERSION").into(),
        configuration,
        pipeline_mode: PipelineMode::Library,
        ..Report::default()
    }
}

fn set_window(report: &mut Report, gathered: &Gathered, sums: &Sums) {
    report.started_at_unix_nanos = sums.first_send.map(|instant| gathered.clock.unix_nanos_at(instant));
    report.ended_at_unix_nanos = sums.last_reply.map(|instant| gathered.clock.unix_nanos_at(instant));
    if let (Some(first), Some(last)) = (sums.first_send, sums.last_reply) {
        report.window_seconds = last.saturating_duration_since(first).as_secs_f64();
    }
    let Some(line) = gathered.line else { return };
    report.start =
        StartReport { line_unix_nanos: Some(gathered.clock.unix_nanos_at(line)), ..StartReport::default() };
    let late = |instant: Instant| instant.saturating_duration_since(line).as_secs_f64() * 1e6;
    report.start.first_send_min_micros = sums.first_send.map(late);
}

fn operation(name: &str, sent: u64, sums: &Sums, seconds: f64) -> Result<OperationReport, HistogramError> {
    Ok(OperationReport {
        operation: name.into(),
        requests: sent,
        count: sums.count,
        hits: sums.hits,
        misses: sums.misses,
        errors: sums.errors,
        operations_per_second: rate(sums.count, seconds),
        latency: Latency::of(&sums.latency),
        histogram: histogram::encode(&sums.latency)?,
        ..OperationReport::default()
    })
}

fn errors(name: &str, sums: &Sums) -> Vec<ErrorReport> {
    let written = |(kind, counted): (&String, &crate::libraries::counters::KindCount)| ErrorReport {
        operation: name.into(),
        kind: kind.clone(),
        count: counted.count,
        first_message: counted.first_message.clone(),
    };
    sums.kinds.iter().map(written).collect()
}

fn seconds(name: &str, sums: &Sums) -> Vec<SecondReport> {
    let written = |(number, second): (usize, &crate::libraries::counters::SecondCount)| SecondReport {
        second: number as u64,
        operations: vec![SecondOperation {
            operation: name.into(),
            count: second.count,
            errors: second.errors,
            max_latency_micros: second.max_latency_micros,
        }],
    };
    sums.seconds.iter().enumerate().map(written).collect()
}

/// Commands of the load by their name on the server. What a library says by
/// itself when it connects (HELLO, CLIENT SETINFO, CLUSTER SLOTS) is not among them.
fn commands(plan: &LibraryPlan, gathered: &Gathered, sums: &Sums) -> BTreeMap<String, u64> {
    let mut commands = gathered.counters.commands();
    if let Work::Tasks(_) = plan.work {
        let answered = sums.count + sums.errors + sums.warmup_count + sums.warmup_errors;
        commands.insert(plan.work.operation_name().to_lowercase(), answered);
    }
    let pings = gathered.pool.pings.load(Ordering::Relaxed);
    if pings > 0 {
        *commands.entry("ping".into()).or_default() += pings;
    }
    commands
}
