//! Makes the report out of what the tasks counted.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use dragstrip_loadgen::configuration::Configuration;
use dragstrip_loadgen::counts::assemble::{Counts, not_merged, set_ending};
use dragstrip_loadgen::counts::recorder::OperationRecord;
use dragstrip_loadgen::counts::report::Report;
use dragstrip_loadgen::driver::ClockAnchor;
use dragstrip_loadgen::driver::Ending;
use dragstrip_results::usage::ThreadUsage;

use crate::plan::{LibraryPlan, Work};
use crate::report::batch_statistics;
use crate::report::counters::Counters;
use crate::work::batches;

/// What a run leaves behind.
pub(crate) struct Gathered {
    pub(crate) clock: ClockAnchor,
    pub(crate) threads: Vec<ThreadUsage>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) batch_times: Vec<Duration>,
    pub(crate) pings: Arc<AtomicU64>,
}

pub(crate) fn report(
    configuration: &Configuration,
    plan: &LibraryPlan,
    gathered: &Gathered,
    ending: Ending,
) -> Report {
    let mut report = Report {
        tool: env!("CARGO_PKG_NAME").into(),
        version: env!("CARGO_PKG_VERSION").into(),
        specification: Some(configuration.specification.clone()),
        threads: gathered.threads.clone(),
        ..Report::default()
    };
    let names = [plan.work.operation_name().to_owned()];
    let recorders = gathered.counters.recorders();
    let recorders = recorders.iter().map(|recorder| &**recorder).collect();
    let counts = Counts { schedule: None, names: &names, recorders, clock: gathered.clock };
    let ending = match counts.fill(&mut report, configuration) {
        Ok(records) => {
            report.commands = commands(plan, gathered, records.iter().map(OperationRecord::answered).sum());
            ending
        }
        Err(error) => not_merged(&error),
    };
    if let Work::Batches(work) = plan.work {
        report.batches = batch_statistics::statistics(batches::shape(work), &gathered.batch_times);
    }
    set_ending(&mut report, ending);
    report
}

/// Commands of the load by their name on the server. What a library says by
/// itself when it connects (HELLO, CLIENT SETINFO, CLUSTER SLOTS) is not among them.
fn commands(plan: &LibraryPlan, gathered: &Gathered, answered: u64) -> BTreeMap<String, u64> {
    let mut commands = gathered.counters.commands();
    if let Work::Tasks(_) = plan.work {
        commands.insert(plan.work.operation_name().to_lowercase(), answered);
    }
    let pings = gathered.pings.load(Ordering::Relaxed);
    if pings > 0 {
        *commands.entry("ping".into()).or_default() += pings;
    }
    commands
}
