//! `memtier_benchmark`: how it is started ([`arguments`]), what its progress
//! output reveals ([`progress`]), and whether its result may be believed ([`judge`]).
//!
//! Its exit code proves nothing: it is 0 with a dead server, and error replies
//! count as operations. So a run is good only when every line on stderr, the
//! result file and the exit agree that it was.

mod arguments;
mod judge;
mod progress;
mod version;

use crate::tools::adapter::{self, Adapter, Ended, Judged, Launch, LaunchContext, Progress};
use dragstrip_crds::{
    units::Period,
    workload::{MemtierSpec, ToolSpec},
};
use dragstrip_results::protocol::JobSpec;
pub use progress::Observed;
use std::time::Duration;

/// Most connections with which it sends its latencies: it merges the histograms
/// of all of them once a second, which takes it 7 us each, and may have 3 ms of a second.
const MOST_SENDING: i64 = 400;

/// The adapter of `memtier_benchmark`, with what one run of the tool wrote.
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
    fn versioned_program(&self) -> Option<&'static str> {
        Some(arguments::PROGRAM)
    }

    fn version(&self, answer: &str) -> Option<String> {
        version::printed(answer).map(str::to_owned)
    }

    /// A build that prints no version may be a user's own, and is accepted.
    fn accept(&self, job: &JobSpec, context: &LaunchContext) -> Result<(), String> {
        if let Some(refusal) = arguments::impossible(&self.spec, job, context) {
            return Err(refusal);
        }
        context.tool_version.as_deref().map_or(Ok(()), version::check)
    }

    /// A separate run: memtier's result has all of its run.
    fn warmup(&self, job: &JobSpec) -> Option<(ToolSpec, Duration)> {
        let seconds = arguments::whole_seconds(adapter::warmup(job));
        if seconds == 0 {
            return None;
        }
        let spec = MemtierSpec {
            // Whole seconds are a period in every case.
            test_time: format!("{seconds}s").parse::<Period>().ok(),
            requests_per_connection: None,
            ..self.spec.clone()
        };
        Some((ToolSpec::Memtier(spec), Duration::from_secs(seconds)))
    }

    fn sends_latencies(&self, context: &LaunchContext) -> bool {
        // The user may send them elsewhere.
        let elsewhere = self.spec.extra_args.iter().any(|argument| argument.starts_with("--statsd-"));
        let connections = i64::from(self.spec.threads) * i64::from(self.spec.connections_per_thread);
        !elsewhere
            && connections <= MOST_SENDING
            && context.tool_version.as_deref().is_some_and(version::sends_latencies)
    }

    fn launch(&self, job: &JobSpec, context: &LaunchContext) -> Launch {
        arguments::launch(&self.spec, job, context)
    }

    fn stderr_line(&mut self, line: &str) -> Option<Progress> {
        self.observed.take_in(line)
    }

    fn judge(&self, job: &JobSpec, context: &LaunchContext, ended: &Ended) -> Judged {
        judge::judge(&self.spec, &self.observed, job, context, ended)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::fixtures;
    use std::path::Path;

    #[test]
    fn latencies_are_sent_where_that_is_possible_wanted_and_cheap() {
        let sends = |version: Option<&str>, spec: &str| {
            let context = LaunchContext {
                tool_version: version.map(str::to_owned),
                ..fixtures::context(0, Path::new("/out"))
            };
            MemtierAdapter::new(serde_json::from_str(spec).unwrap()).sends_latencies(&context)
        };
        let small = r#"{"testTime": "5s", "threads": 4, "connectionsPerThread": 50}"#;
        assert!(sends(Some("2.3.0"), small));
        assert!(!sends(Some("2.2.2"), small) && !sends(None, small), "it may not know the option");
        let large = r#"{"testTime": "5s", "threads": 60, "connectionsPerThread": 20}"#;
        assert!(!sends(Some("2.3.0"), large), "it would cost");
        let elsewhere = r#"{"testTime": "5s", "extraArgs": ["--statsd-host=graphite"]}"#;
        assert!(!sends(Some("2.3.0"), elsewhere), "they are wanted elsewhere");
    }

    #[test]
    fn the_port_for_latencies_is_not_among_the_stored_arguments() {
        let job = fixtures::job(1, r#"{"memtier": {"testTime": "5s"}}"#);
        let context = LaunchContext { statsd_port: Some(4711), ..fixtures::context(0, Path::new("/out")) };
        let spec: MemtierSpec = serde_json::from_str(r#"{"testTime": "5s"}"#).unwrap();
        let launch = arguments::launch(&spec, &job, &context).arguments.join(" ");
        assert!(
            launch.starts_with("--statsd-host 127.0.0.1 --statsd-port 4711 --graphite-port 4711 --server "),
            "{launch}"
        );
        assert!(!arguments::arguments(&spec, &job, &context).join(" ").contains("4711"));
    }
}
