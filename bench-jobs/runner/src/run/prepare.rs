//! What is done before the start line: checks, the empty and then filled key
//! space, the warm-up.

use super::Runner;
use crate::{
    frame::{failure::failure, stdout::print_line},
    run::{load, warmup},
    server::{
        flush, gate,
        preflight::{self, Ready},
    },
    tools::{
        adapter::{Adapter, LaunchContext},
        adapter_for, aside,
        process::ProcessError,
    },
};
use dragstrip_crds::units::thousands;
use dragstrip_results::{
    protocol::RunnerStage,
    result::{Failure, FailureStep, Presence},
};
use std::{collections::BTreeMap, io, path::PathBuf};

/// What came of it.
pub(super) struct Prepared {
    /// The target.
    pub(super) ready: Ready,
    /// What the tool is launched with, but for the start line.
    pub(super) context: LaunchContext,
    /// Keys written.
    pub(super) load: Option<Presence>,
    /// Operations of a warm-up before the line.
    pub(super) warmup: BTreeMap<String, u64>,
    /// Whether clients wait for one another's flush: see [`gate`].
    pub(super) gated: bool,
}

impl Runner<'_> {
    pub(super) async fn prepare(&self) -> Result<Prepared, Failure> {
        let job = &self.assignment.job;
        let ready = preflight::check(&self.assignment, self.tls.as_ref(), &self.options.output_directory)
            .await
            .map_err(|e| e.failure())?;
        print_line(&format!("preflight passed: {}", described(&ready)));
        let adapter = adapter_for(&job.tool);
        let context = self.context(&ready, version(adapter.as_ref()).await?);
        adapter.accept(job, &context).map_err(|message| failure(FailureStep::Preflight, message))?;
        let before_the_line = adapter.warmup(job, &context);
        let gated = gate::needed(job, job.load.is_some() || before_the_line.is_some());
        self.flush(&ready, gated).await?;
        let mut load = None;
        if let Some(keys) = &job.load {
            self.shared.enter(RunnerStage::Loading);
            let loaded = load::load(keys, job, &context, &self.redactor, &self.shared).await;
            let presence = loaded.map_err(|e| e.failure())?;
            print_line(&format!("{} keys written, all of them are there", thousands(presence.expected)));
            load = Some(presence);
        }
        let mut warmup = BTreeMap::new();
        if let Some(run) = before_the_line {
            self.shared.enter(RunnerStage::WarmingUp);
            warmup = warmup::warm_up(job, run, &self.redactor, &self.shared).await?;
            print_line("warmed up");
        }
        Ok(Prepared { ready, context, load, warmup, gated })
    }

    /// Empties the target, or waits until another client has done so where this
    /// one writes before the line.
    async fn flush(&self, ready: &Ready, gated: bool) -> Result<(), Failure> {
        let job = &self.assignment.job;
        let first = self.assignment.client_index == 0;
        if job.flush && first {
            flush::flush(ready).await.map_err(|e| e.failure())?;
        }
        match (gated, first) {
            (false, _) => Ok(()),
            (true, true) => gate::open(job, ready).await.map_err(|e| e.failure()),
            (true, false) => gate::pass(job, ready).await.map_err(|e| e.failure()),
        }
    }

    fn context(&self, ready: &Ready, tool_version: Option<String>) -> LaunchContext {
        LaunchContext {
            address: ready.address,
            members: ready.members.iter().map(|member| member.address).collect(),
            client_index: self.assignment.client_index,
            password: self.assignment.password.clone(),
            tls: self.tls.clone(),
            output_directory: self.output_directory(),
            start_at_unix_nanos: 0,
            tool_version,
            statsd_port: None,
        }
    }

    /// The tool is started in its output directory, where a relative path would mean another place.
    fn output_directory(&self) -> PathBuf {
        let declared = &self.options.output_directory;
        std::path::absolute(declared).unwrap_or_else(|_| declared.clone())
    }
}

/// The target in a few words.
fn described(ready: &Ready) -> String {
    let Some(truth) = &ready.truth else {
        return format!("{} takes connections", ready.address);
    };
    let engine = truth.engine.map_or_else(|| "an unknown engine".to_owned(), |engine| engine.to_string());
    let others = match ready.members.len() {
        0 | 1 => String::new(),
        servers => format!(", with {servers} servers"),
    };
    format!("{} is {engine} {}{others}", ready.address, truth.version)
}

/// Asks the tool for its version, where that matters.
async fn version(adapter: &dyn Adapter) -> Result<Option<String>, Failure> {
    let Some(question) = adapter.version_question() else {
        return Ok(None);
    };
    let program = question.program.clone();
    let answer = aside::version(&question).await.map_err(|source| {
        if source.kind() == io::ErrorKind::TimedOut {
            failure(FailureStep::Preflight, format!("{program} does not tell its version: {source}"))
        } else {
            failure(FailureStep::Launch, ProcessError::Spawn { program, source }.to_string())
        }
    })?;
    Ok(adapter.version(&answer))
}
