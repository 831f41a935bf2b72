//! The steps before the start line: checks, flushing and filling the key
//! space, the warm-up. Touches the network and processes.

use super::{load, pod::Pod, warmup};
use crate::{
    frame::{failure::failed, stdout::print_line},
    server::{
        flush, gate,
        preflight::{self, Ready},
    },
    tools::{adapter::LaunchContext, adapter_for, aside},
};
use dragstrip_crds::units::thousands;
use dragstrip_results::{
    protocol::RunnerStage,
    result::{Failure, FailureStep, Presence},
};
use std::collections::BTreeMap;

pub struct Prepared {
    pub ready: Ready,
    /// What the tool is launched with, but for the start line.
    pub context: LaunchContext,
    pub load: Option<Presence>,
    pub warmup: BTreeMap<String, u64>,
    /// Whether clients wait for one another's flush: see [`gate`].
    pub gated: bool,
}

pub async fn prepare(pod: &Pod) -> Result<Prepared, Failure> {
    let job = &pod.job;
    let ready = preflight::check(job, pod.password.as_deref(), pod.tls.as_ref(), &pod.output_directory)
        .await
        .map_err(|error| Failure::new(error.step(), error.to_string()))?;
    print_line(&format!("preflight passed: {}", described(&ready)));
    let adapter = adapter_for(&job.tool);
    let mut version = None;
    if let Some(program) = adapter.versioned_program() {
        version = adapter.version(&aside::version(program).await?);
    }
    let context = context(pod, &ready, version);
    adapter.accept(job, &context).map_err(failed(FailureStep::Preflight))?;
    let before_the_line = adapter.warmup(job);
    let gated = gate::needed(job, job.load.is_some() || before_the_line.is_some());
    flush(pod, &ready, gated).await?;
    let mut load = None;
    if let Some(keys) = &job.load {
        pod.shared.enter(RunnerStage::Loading);
        let presence = load::load(keys, pod, &context).await?;
        let (written, found) = (thousands(presence.expected), thousands(presence.found));
        print_line(&format!("{written} keys written, {found} of them are there"));
        load = Some(presence);
    }
    let mut warmup = BTreeMap::new();
    if let Some((tool, length)) = before_the_line {
        pod.shared.enter(RunnerStage::WarmingUp);
        warmup = warmup::warm_up(pod, &tool, length, &context).await?;
        print_line("warmed up");
    }
    Ok(Prepared { ready, context, load, warmup, gated })
}

/// Empties the target, or waits for another client's flush before it writes.
async fn flush(pod: &Pod, ready: &Ready, gated: bool) -> Result<(), Failure> {
    if pod.job.flush && pod.is_first() {
        flush::flush(ready).await.map_err(failed(FailureStep::Preflight))?;
    }
    match (gated, pod.is_first()) {
        (false, _) => return Ok(()),
        (true, true) => gate::open(&pod.job, ready).await,
        (true, false) => gate::pass(&pod.job, ready).await,
    }
    .map_err(failed(FailureStep::Preflight))
}

fn context(pod: &Pod, ready: &Ready, tool_version: Option<String>) -> LaunchContext {
    LaunchContext {
        address: ready.address,
        members: ready.members.iter().map(|member| member.address).collect(),
        client_index: pod.client_index,
        password: pod.password.clone(),
        tls: pod.tls.clone(),
        output_directory: pod.output_directory.clone(),
        start_at_unix_nanos: 0,
        tool_version,
        statsd_port: None,
    }
}

fn described(ready: &Ready) -> String {
    let Some(truth) = &ready.truth else {
        return format!("{} accepts connections", ready.address);
    };
    let engine = truth.engine.map_or_else(|| "an unknown engine".to_owned(), |engine| engine.to_string());
    let others = match ready.members.len() {
        0 | 1 => String::new(),
        servers => format!(", with {servers} servers"),
    };
    format!("{} is {engine} {}{others}", ready.address, truth.version)
}
