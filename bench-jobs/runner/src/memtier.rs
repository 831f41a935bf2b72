//! `memtier_benchmark`: how it is started ([`arguments`]), what its progress
//! output gives away ([`progress`]), what its result file says ([`report`]),
//! and whether that may be believed ([`judge`]).
//!
//! Its exit code proves nothing: it is 0 with a dead server, and error replies
//! count as operations. So a run is good only when every line on stderr, the
//! result file and the exit agree that it was.

mod arguments;
mod judge;
pub mod progress;

pub use dragstrip_parsers::memtier::report;

use crate::tool::{Adapter, Ended, Launch, LaunchContext, Measured, Progress, Rejected};
use dragstrip_crds::{protocol::JobSpec, workload::MemtierSpec};
use dragstrip_parsers::memtier::{agreement, operations};
use progress::Observed;

/// The adapter of `memtier_benchmark`; one per run of the tool, since it
/// remembers what the tool wrote.
#[derive(Debug, Clone)]
pub struct MemtierAdapter {
    spec: MemtierSpec,
    observed: Observed,
}

impl MemtierAdapter {
    /// An adapter for one run of the tool with these options.
    pub fn new(spec: MemtierSpec) -> Self {
        Self { spec, observed: Observed::default() }
    }
}

impl Adapter for MemtierAdapter {
    fn launch(&self, _job: &JobSpec, context: &LaunchContext) -> Launch {
        arguments::launch(&self.spec, context)
    }

    fn stderr_line(&mut self, line: &str) -> Option<Progress> {
        self.observed.take_in(line)
    }

    fn judge(
        &self,
        _job: &JobSpec,
        context: &LaunchContext,
        ended: &Ended,
    ) -> Result<Measured, Box<Rejected>> {
        judge::judge(&self.spec, &self.observed, context, ended)
    }
}
