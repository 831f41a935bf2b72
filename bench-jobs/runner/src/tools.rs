//! The tools that load a target: an adapter for each, and the running of their processes.

pub mod adapter;
pub mod aside;
pub mod bullmq;
pub mod exec;
pub mod loadgen;
pub mod memtier;
pub mod ours;
pub mod output;
pub mod process;

use adapter::Adapter;
use bullmq::BullmqAdapter;
use dragstrip_crds::workload::ToolSpec;
use exec::ExecAdapter;
use loadgen::LoadgenAdapter;
use memtier::MemtierAdapter;

/// The adapter of a job's tool; one per run, since it remembers what the tool wrote.
pub fn adapter_for(tool: &ToolSpec) -> Box<dyn Adapter> {
    match tool {
        ToolSpec::Loadgen(spec) => Box::new(LoadgenAdapter(spec.clone())),
        ToolSpec::Memtier(spec) => Box::new(MemtierAdapter::new(spec.clone())),
        ToolSpec::Exec(spec) => Box::new(ExecAdapter(spec.clone())),
        ToolSpec::Bullmq(spec) => Box::new(BullmqAdapter(spec.clone())),
    }
}
