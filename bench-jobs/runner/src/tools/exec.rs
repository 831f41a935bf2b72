//! Any tool in any image: its command with the target put in, and its output
//! handed to the parser that the job names. Touches the output directory and
//! the environment variables that the job refers to.

mod expand;
mod outputs;

use crate::tools::adapter::{Adapter, Ended, Judged, Launch, LaunchContext, Progress, rejected};
use dragstrip_crds::workload::{ExecSpec, ParserSpec};
use dragstrip_parsers::Parsed;
use dragstrip_results::{
    protocol::JobSpec,
    result::{FailureStep, PodResult, ToolRecord, Window},
};
use expand::Values;
use nix::sys::signal::Signal;
use std::time::Duration;

/// How long the tool may take to end after its stop signal.
const STOP_GRACE: Duration = Duration::from_secs(5);
/// Characters of a tool's line in a message.
const LONGEST_LINE: usize = 200;

#[derive(Debug, Clone)]
pub struct ExecAdapter(pub ExecSpec);

/// Values of the job's environment variables that come from Secrets: they must
/// not appear in anything that is stored.
pub fn secrets(spec: &ExecSpec) -> Vec<String> {
    spec.env
        .iter()
        .filter(|variable| variable.value_from.as_ref().is_some_and(|from| from.secret_key_ref.is_some()))
        .filter_map(|variable| std::env::var(&variable.name).ok())
        .collect()
}

impl Adapter for ExecAdapter {
    fn accept(&self, _job: &JobSpec, _context: &LaunchContext) -> Result<(), String> {
        if self.0.command.is_empty() {
            return Err("exec.command is empty: name the program to start".to_owned());
        }
        dragstrip_parsers::check(&self.0.parser).map_err(|e| format!("exec.parser: {e}"))
    }

    fn launch(&self, job: &JobSpec, context: &LaunchContext) -> Launch {
        let values = Values::of(job, context);
        let mut words = self.0.command.iter().chain(&self.0.args).map(|word| values.expand(word));
        // Values from references are in the container's environment already.
        let declared =
            self.0.env.iter().filter_map(|variable| {
                Some((variable.name.clone(), values.expand(variable.value.as_deref()?)))
            });
        Launch {
            program: words.next().unwrap_or_default(),
            arguments: words.collect(),
            input: None,
            environment: values.variables().chain(declared).collect(),
            stop_signal: Signal::SIGTERM,
            stop_grace: STOP_GRACE,
            lead: Duration::ZERO,
        }
    }

    fn stderr_line(&mut self, _line: &str) -> Option<Progress> {
        None
    }

    fn judge(&self, job: &JobSpec, context: &LaunchContext, ended: &Ended) -> Judged {
        let refuse = |step, message: String, partial| {
            rejected(ended.failure(step, with_last_line(message, ended)), partial)
        };
        let read = outputs::read(&self.0.parser, context, ended);
        let parsed = read.and_then(|outputs| {
            dragstrip_parsers::parse(&self.0.parser, &outputs).map_err(|e| e.to_string())
        });
        let tool = self.record(job, context, parsed.as_ref().ok());
        let incomplete = parsed.as_ref().ok().and_then(|parsed| parsed.incomplete.clone());
        // memtier's own duration may be a second off: its threads' work is the better window.
        let own_window = !matches!(self.0.parser, ParserSpec::MemtierJson(_));
        let measured = parsed.map(|parsed| measured(parsed, tool, context, own_window));
        if let Some(message) = bad_exit(ended) {
            return refuse(FailureStep::Tool, message, measured.ok());
        }
        match (measured, incomplete) {
            (Ok(measured), None) => Ok(measured),
            (Ok(measured), Some(why)) => {
                let message = format!("the tool's output is incomplete: {why}");
                refuse(FailureStep::Output, message, Some(measured))
            }
            (Err(message), _) => refuse(FailureStep::Output, message, None),
        }
    }
}

impl ExecAdapter {
    fn record(&self, job: &JobSpec, context: &LaunchContext, parsed: Option<&Parsed>) -> ToolRecord {
        let launch = self.launch(job, context);
        let reported = parsed.and_then(|parsed| parsed.tool.as_ref());
        ToolRecord {
            name: reported.map_or_else(|| base_name(&launch.program).to_owned(), |tool| tool.name.clone()),
            version: reported.and_then(|tool| tool.version.clone()),
            mode: None,
            arguments: launch.arguments,
            reported_operations_per_second: parsed.and_then(total_rate),
            connections: parsed.and_then(|parsed| parsed.connections).unwrap_or_default(),
            pipeline: parsed.and_then(|parsed| parsed.pipeline).unwrap_or_default(),
        }
    }
}

fn bad_exit(ended: &Ended) -> Option<String> {
    match (ended.exit.code, ended.exit.signal) {
        (Some(0), _) => None,
        (Some(code), _) => Some(format!("the tool ended with exit code {code}")),
        (None, signal) => Some(format!("the tool was ended by signal {}", signal.unwrap_or_default())),
    }
}

/// What went wrong, and the tool's last line about an error, or its last line at all: redis-benchmark prints
/// the head of its table after an error.
fn with_last_line(message: String, ended: &Ended) -> String {
    let lines = || ended.last_lines.iter().rev().map(|line| line.trim()).filter(|line| !line.is_empty());
    let error = lines().find(|line| line.to_lowercase().contains("error"));
    match error.map(|line| ("last error", line)).or_else(|| Some(("last line", lines().next()?))) {
        Some((name, line)) => {
            let line: String = line.chars().take(LONGEST_LINE).collect();
            format!("{message}; its {name}: {line}")
        }
        None => message,
    }
}

/// The tool's own rate of everything. Operations with rates of their own have no sum.
fn total_rate(parsed: &Parsed) -> Option<f64> {
    let rows = &parsed.operations;
    let summed = rows.len() == 1 || rows.iter().all(|row| row.operations_per_second.is_none());
    let rates = rows.iter().map(|row| row.tool_operations_per_second).sum::<Option<f64>>();
    rates.filter(|_| summed && !rows.is_empty())
}

fn base_name(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}

fn measured(parsed: Parsed, tool: ToolRecord, context: &LaunchContext, own_window: bool) -> PodResult {
    let window = Window {
        start_unix_nanos: parsed.start_unix_nanos.unwrap_or(context.start_at_unix_nanos),
        seconds: parsed.seconds.filter(|_| own_window).unwrap_or_default(),
        ..Window::default()
    };
    let mut operations = parsed.operations;
    if let [only] = operations.as_mut_slice() {
        only.per_second.clone_from(&parsed.per_second);
    }
    PodResult {
        tool,
        window,
        metrics: parsed.metrics,
        errors: parsed.errors,
        operations,
        per_second: parsed.per_second,
        ..PodResult::default()
    }
}

#[cfg(test)]
mod tests;
