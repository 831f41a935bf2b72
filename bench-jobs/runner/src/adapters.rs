//! Which adapter a job's tool has. Pure.

use crate::{
    bullmq::BullmqAdapter, exec::ExecAdapter, loadgen::LoadgenAdapter, memtier::MemtierAdapter, tool::Adapter,
};
use dragstrip_results::protocol::JobTool;

/// The adapter of a job's tool; one per run, since it remembers what the tool wrote.
pub fn adapter_for(tool: &JobTool) -> Box<dyn Adapter> {
    match tool {
        JobTool::Loadgen(spec) => Box::new(LoadgenAdapter::new(spec.clone())),
        JobTool::Memtier(spec) => Box::new(MemtierAdapter::new(spec.clone())),
        JobTool::Exec(spec) => Box::new(ExecAdapter::new(spec.clone())),
        JobTool::Bullmq(spec) => Box::new(BullmqAdapter::new(spec.clone())),
    }
}
