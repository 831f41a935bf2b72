//! What people see of runs and suites while they go on: a block that is drawn anew, or
//! lines where there is no terminal. Pure.

use super::live::{Live, together};
use crate::get::{milliseconds, total, whole};
use dragstrip_crds::{
    BenchmarkRun, BenchmarkSuite,
    conditions::{
        holds,
        types::{COMPLETE, PASSED},
    },
    run::PhaseStatus,
};
use kube::ResourceExt;
use std::collections::BTreeMap;

/// How something that was followed ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ending {
    /// It passed.
    Passed,
    /// It did not.
    NotPassed,
    /// It was deleted, so that nobody can tell.
    Gone,
}

/// Whose load a client pod makes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Load {
    /// The run.
    pub run: String,
    /// The phase.
    pub phase: String,
    /// The repetition, from 1.
    pub repetition: String,
    /// The pod.
    pub pod: String,
}

/// What was last seen of one thing.
#[derive(Debug, Clone)]
enum Seen {
    Run(Box<BenchmarkRun>),
    Suite(Box<BenchmarkSuite>),
    Gone,
}

/// Everything that was last seen.
#[derive(Debug, Default)]
pub struct View {
    runs: BTreeMap<String, Seen>,
    suites: BTreeMap<String, Seen>,
    live: BTreeMap<Load, Live>,
    last: BTreeMap<String, String>,
}

fn ending(conditions: &[k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition]) -> Option<Ending> {
    if !holds(conditions, COMPLETE, None) {
        return None;
    }
    Some(if holds(conditions, PASSED, None) { Ending::Passed } else { Ending::NotPassed })
}

impl Seen {
    fn ending(&self) -> Option<Ending> {
        match self {
            Self::Run(run) => ending(&run.status.as_ref()?.conditions),
            Self::Suite(suite) => ending(&suite.status.as_ref()?.conditions),
            Self::Gone => Some(Ending::Gone),
        }
    }

    /// Where it stands, in one line.
    fn line(&self) -> String {
        let (phase, done, message) = match self {
            Self::Run(run) => {
                let status = run.status.clone().unwrap_or_default();
                let done =
                    status.progress.map(|progress| format!("{}/{}", progress.measured, progress.total));
                (status.phase.to_string(), done, status.message)
            }
            Self::Suite(suite) => {
                let status = suite.status.clone().unwrap_or_default();
                let done = status.progress.map(|progress| {
                    let left = progress.seconds_left.filter(|left| *left > 0);
                    let left =
                        left.map(|left| format!(", {} min left", (left + 59) / 60)).unwrap_or_default();
                    format!("{}/{}{left}", progress.done, progress.total)
                });
                let suspended = suite.spec.suspend && !status.phase.finished();
                let message = if suspended {
                    Some("suspended: it goes on when spec.suspend is false".to_owned())
                } else {
                    status.message
                };
                (status.phase.to_string(), done, message)
            }
            Self::Gone => ("Deleted".to_owned(), None, Some("it is not there any more".to_owned())),
        };
        format!("{phase:<10} {:<5} {}", done.unwrap_or_default(), message.unwrap_or_default())
    }
}

/// What a phase has come to: throughput, latency, verdict, and how many repetitions.
fn measured(phase: &PhaseStatus) -> String {
    let figures = total(phase).map(|total| {
        let p99 = total.latency_milliseconds.p99.map(|p99| format!("  p99 {} ms", milliseconds(p99)));
        format!("{:>12} ops/s{}", whole(total.operations_per_second.mean), p99.unwrap_or_default())
    });
    let verdict = phase.verdict.map(|verdict| format!("  {verdict}")).unwrap_or_default();
    let figures =
        figures.unwrap_or_else(|| format!("{:>12} operations without a sum", phase.operations.len()));
    format!("{figures}{verdict}")
}

fn going(live: &Live) -> String {
    let p99 = live.p99_milliseconds.map(|p99| format!("  p99 {} ms", milliseconds(p99))).unwrap_or_default();
    format!("{:>12} ops/s{p99}  {} s", whole(live.operations_per_second), live.elapsed_seconds)
}

impl View {
    /// One that waits for these.
    pub fn of(
        runs: impl IntoIterator<Item = BenchmarkRun>,
        suites: impl IntoIterator<Item = BenchmarkSuite>,
    ) -> Self {
        Self {
            runs: runs.into_iter().map(|run| (run.name_any(), Seen::Run(Box::new(run)))).collect(),
            suites: suites
                .into_iter()
                .map(|suite| (suite.name_any(), Seen::Suite(Box::new(suite))))
                .collect(),
            ..Self::default()
        }
    }

    /// Whether `run` is looked at by itself.
    pub fn shows(&self, run: &str) -> bool {
        self.runs.contains_key(run)
    }

    /// The runs that are looked at by themselves.
    pub fn runs(&self) -> impl Iterator<Item = &str> {
        self.runs.keys().map(String::as_str)
    }

    /// The suites that are looked at.
    pub fn suites(&self) -> impl Iterator<Item = &str> {
        self.suites.keys().map(String::as_str)
    }

    /// Where everything stands at first, one line each.
    pub fn first(&mut self) -> Vec<String> {
        let runs = self.runs.keys().map(|name| (name.clone(), true));
        let all: Vec<_> = runs.chain(self.suites.keys().map(|name| (name.clone(), false))).collect();
        all.into_iter().flat_map(|(name, is_run)| self.changed(&name, is_run)).collect()
    }

    /// Takes in a run; lines of what has changed.
    pub fn run(&mut self, run: BenchmarkRun) -> Vec<String> {
        let name = run.name_any();
        if !self.runs.contains_key(&name) {
            return Vec::new();
        }
        let count = |phase: &PhaseStatus| phase.repetitions.len();
        let before: BTreeMap<String, usize> = match self.runs.get(&name) {
            Some(Seen::Run(old)) => old
                .status
                .iter()
                .flat_map(|status| &status.phases)
                .map(|phase| (phase.name.clone(), count(phase)))
                .collect(),
            _ => BTreeMap::new(),
        };
        let mut lines = Vec::new();
        for phase in run.status.iter().flat_map(|status| &status.phases) {
            if before.get(&phase.name).copied().unwrap_or_default() < count(phase) {
                self.live.retain(|load, _| load.run != name || load.phase != phase.name);
                lines.push(format!("{name}  {}  {}", phase.name, measured(phase).trim_start()));
            }
        }
        self.runs.insert(name.clone(), Seen::Run(Box::new(run)));
        self.changed(&name, true).into_iter().chain(lines).collect()
    }

    /// Takes in a suite; lines of what has changed.
    pub fn suite(&mut self, suite: BenchmarkSuite) -> Vec<String> {
        let name = suite.name_any();
        if !self.suites.contains_key(&name) {
            return Vec::new();
        }
        self.suites.insert(name.clone(), Seen::Suite(Box::new(suite)));
        self.changed(&name, false)
    }

    /// Takes note that a run, or a suite, is not there any more.
    pub fn gone(&mut self, name: &str, is_run: bool) -> Vec<String> {
        let all = if is_run { &mut self.runs } else { &mut self.suites };
        match all.get_mut(name) {
            Some(seen) => *seen = Seen::Gone,
            None => return Vec::new(),
        }
        self.changed(name, is_run)
    }

    /// Takes in what a client pod does.
    pub fn live(&mut self, load: Load, live: Live) {
        self.live.insert(load, live);
    }

    /// Forgets a pod that has ended.
    pub fn idle(&mut self, load: &Load) {
        self.live.remove(load);
    }

    fn changed(&mut self, name: &str, is_run: bool) -> Vec<String> {
        let Some(seen) = (if is_run { self.runs.get(name) } else { self.suites.get(name) }) else {
            return Vec::new();
        };
        let line = format!("{name}  {}", seen.line());
        let key = format!("{is_run}/{name}");
        if self.last.get(&key) == Some(&line) {
            return Vec::new();
        }
        self.last.insert(key, line.clone());
        vec![line]
    }

    /// What all loads do now: by run, phase and repetition.
    fn loads(&self) -> BTreeMap<(&str, &str, &str), Live> {
        let mut by: BTreeMap<_, Vec<&Live>> = BTreeMap::new();
        for (load, live) in &self.live {
            by.entry((load.run.as_str(), load.phase.as_str(), load.repetition.as_str()))
                .or_default()
                .push(live);
        }
        by.into_iter().map(|(key, pods)| (key, together(pods.into_iter()))).collect()
    }

    /// A line for each load that is under way.
    pub fn progress(&self) -> Vec<String> {
        let line = |((run, phase, repetition), live): (&(&str, &str, &str), &Live)| {
            format!("{run}  {phase} #{repetition}  {}", going(live).trim_start())
        };
        self.loads().iter().map(line).collect()
    }

    /// Everything, to be drawn anew each time.
    pub fn block(&self) -> Vec<String> {
        let loads = self.loads();
        let mut lines = Vec::new();
        for (name, seen) in &self.suites {
            lines.push(format!("{name}  {}", seen.line()));
        }
        for (name, seen) in &self.runs {
            lines.push(format!("{name}  {}", seen.line()));
            let Seen::Run(run) = seen else { continue };
            let width = run.spec.phases.iter().map(|phase| phase.name.len()).max().unwrap_or_default();
            for phase in &run.spec.phases {
                let done =
                    run.status.iter().flat_map(|status| &status.phases).find(|done| done.name == phase.name);
                let live = loads.iter().find(|((of, phase_of, _), _)| *of == name && *phase_of == phase.name);
                let repetitions = done.map_or(0, |done| done.repetitions.len());
                let state = match (live, done) {
                    (Some((_, live)), _) => format!("{} *", going(live)),
                    (None, Some(done)) => measured(done),
                    (None, None) => format!("{:>12}", "-"),
                };
                lines.push(format!(
                    "  {:<width$}  {repetitions}/{}  {state}",
                    phase.name, run.spec.repetitions
                ));
            }
        }
        for ((run, phase, repetition), live) in &loads {
            if !self.shows(run) {
                lines.push(format!("  {run}  {phase} #{repetition}  {}", going(live)));
            }
        }
        lines
    }

    /// How all have ended, the worst of them; `None` while one goes on.
    pub fn ending(&self) -> Option<Ending> {
        let all = self.runs.values().chain(self.suites.values());
        all.map(Seen::ending).try_fold(Ending::Passed, |worst, one| Some(worst.max(one?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn run(status: &Value) -> BenchmarkRun {
        serde_json::from_value(json!({
            "apiVersion": "dragstrip.dev/v1alpha1", "kind": "BenchmarkRun", "metadata": {"name": "sprint"},
            "spec": {"target": {"datastoreRef": {"name": "redis"}}, "repetitions": 3,
                     "phases": [{"name": "write", "loadgen": {"duration": "5s"}}, {"name": "read", "loadgen": {"duration": "5s"}}]},
            "status": status
        }))
        .unwrap()
    }

    fn measured_once() -> Value {
        json!({"phase": "Running", "progress": {"measured": 1, "total": 6}, "message": "measuring read",
            "phases": [{"name": "write", "tool": {"name": "loadgen"}, "verdict": "Valid",
                "operations": [{"operation": "SET", "count": 1, "operationsPerSecond": {"mean": 151_234.4, "repetitions": 1},
                    "bytesPerSecond": 0.0, "errors": 0, "latencyMilliseconds": {"p99": 0.48}}],
                "repetitions": [{"repetition": 1, "configMap": "c", "windowSeconds": 5.0, "clientCpus": 1.0}]}]})
    }

    fn load(pod: &str) -> Load {
        Load { run: "sprint".into(), phase: "read".into(), repetition: "1".into(), pod: pod.into() }
    }

    fn at(rate: f64) -> Live {
        Live { elapsed_seconds: 7, operations_per_second: rate, p99_milliseconds: Some(0.5) }
    }

    #[test]
    fn the_block_has_a_line_for_each_phase_with_what_it_does_or_has_done() {
        let mut view = View::of([run(&json!({}))], []);
        view.run(run(&measured_once()));
        view.live(load("a"), at(40_000.0));
        view.live(load("b"), at(2_000.0));
        assert_eq!(
            view.block(),
            [
                "sprint  Running    1/6   measuring read",
                "  write  1/3       151,234 ops/s  p99 0.480 ms  Valid",
                "  read   0/3        42,000 ops/s  p99 0.500 ms  7 s *",
            ]
        );
        view.idle(&load("a"));
        assert_eq!(view.progress(), ["sprint  read #1  2,000 ops/s  p99 0.500 ms  7 s"]);
    }

    #[test]
    fn lines_tell_each_change_once_and_each_measurement() {
        let mut view = View::of([run(&json!({}))], []);
        let first = view.run(run(&measured_once()));
        assert_eq!(
            first,
            ["sprint  Running    1/6   measuring read", "sprint  write  151,234 ops/s  p99 0.480 ms  Valid"]
        );
        assert!(view.run(run(&measured_once())).is_empty(), "nothing has changed");
        let mut ended = View::of([run(&measured_once())], []);
        assert_eq!(
            ended.first(),
            ["sprint  Running    1/6   measuring read"],
            "told before anything changes"
        );
        assert!(ended.first().is_empty() && ended.run(run(&measured_once())).is_empty(), "and once");
    }

    #[test]
    fn the_worst_ending_counts_and_all_must_have_ended() {
        let condition = |kind: &str, status: &str| json!({"type": kind, "status": status, "reason": "r", "message": "m", "lastTransitionTime": "2026-01-01T00:00:00Z"});
        let ended = |passed: &str| {
            run(&json!({"conditions": [condition("Complete", "True"), condition("Passed", passed)]}))
        };
        let mut view = View::of([run(&json!({}))], []);
        assert_eq!(view.ending(), None);
        for (passed, ending) in [("True", Ending::Passed), ("False", Ending::NotPassed)] {
            view.run(ended(passed));
            assert_eq!(view.ending(), Some(ending));
        }
        view.gone("sprint", true);
        assert_eq!(view.ending(), Some(Ending::Gone), "nobody can tell how a deleted run would have ended");
    }

    #[test]
    fn a_suite_that_is_suspended_is_told_to_be_once() {
        let suite = || -> BenchmarkSuite {
            serde_json::from_value(json!({
                "apiVersion": "dragstrip.dev/v1alpha1", "kind": "BenchmarkSuite", "metadata": {"name": "engines"},
                "spec": {"suspend": true, "variants": [], "run": {}},
                "status": {"phase": "Suspended", "progress": {"done": 3, "total": 12, "running": 0, "failed": 0},
                           "message": "suspended: 3 of 12"}
            }))
            .unwrap()
        };
        let mut view = View::of([], [suite()]);
        let told = "engines  Suspended  3/12  suspended: it goes on when spec.suspend is false";
        assert_eq!(view.first(), [told]);
        assert!(view.suite(suite()).is_empty(), "it was said");
        assert_eq!(view.ending(), None, "it may go on");
    }

    #[test]
    fn a_run_that_nobody_asked_for_is_not_shown() {
        let mut view = View::default();
        assert!(view.run(run(&measured_once())).is_empty() && view.block().is_empty());
    }
}
