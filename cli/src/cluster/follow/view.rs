//! What `follow` prints about runs and suites until they end: a line for each change, and the
//! current loads. Pure.

use super::live::{Live, together};
use crate::{cluster::client::Subject, manifests::kind::Kind, output::figures::rate};
use dragstrip_crds::{
    BenchmarkRun,
    conditions::{
        holds,
        types::{COMPLETE, PASSED},
    },
    run::PhaseStatus,
};
use dragstrip_results::thresholds::operation;
use std::collections::BTreeMap;

/// How something ended, from best to worst; the exit code is its place from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ending {
    Passed,
    NotPassed,
    /// It was deleted, so its result is unknown.
    Gone,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Load {
    pub run: String,
    pub phase: String,
    pub repetition: String,
    pub pod: String,
}

type Key = (Kind, String);

/// Everything as it was last seen; `None` if it was deleted.
#[derive(Debug, Default)]
pub struct View {
    subjects: BTreeMap<Key, Option<Subject>>,
    live: BTreeMap<Load, Live>,
    last_lines: BTreeMap<Key, String>,
}

fn ending(subject: Option<&Subject>) -> Option<Ending> {
    let conditions = match subject {
        None => return Some(Ending::Gone),
        Some(Subject::Run(run)) => &run.status.as_ref()?.conditions,
        Some(Subject::Suite(suite)) => &suite.status.as_ref()?.conditions,
    };
    holds(conditions, COMPLETE, None).then_some(())?;
    Some(if holds(conditions, PASSED, None) { Ending::Passed } else { Ending::NotPassed })
}

/// Phase, progress and message in one line.
fn line(subject: Option<&Subject>) -> String {
    let (phase, done, message) = match subject {
        Some(Subject::Run(run)) => {
            let status = run.status.clone().unwrap_or_default();
            let done = status.progress.map(|progress| format!("{}/{}", progress.measured, progress.total));
            (status.phase.to_string(), done, status.message)
        }
        Some(Subject::Suite(suite)) => {
            let status = suite.status.clone().unwrap_or_default();
            let done = status.progress.map(|progress| {
                let left = progress.seconds_left.filter(|left| *left > 0);
                let left = left.map(|left| format!(", {} min left", (left + 59) / 60)).unwrap_or_default();
                format!("{}/{}{left}", progress.done, progress.total)
            });
            let suspended = suite.spec.suspend && !status.phase.finished();
            let hint = || "suspended: set spec.suspend to false to continue".to_owned();
            (status.phase.to_string(), done, if suspended { Some(hint()) } else { status.message })
        }
        None => ("Deleted".to_owned(), None, None),
    };
    let text = format!("{phase:<10} {:<5} {}", done.unwrap_or_default(), message.unwrap_or_default());
    text.trim_end().to_owned()
}

fn measured(phase: &PhaseStatus) -> String {
    let figures = operation(phase, None).map(|total| {
        let p99 = total.latency_milliseconds.p99.map(|p99| format!("  p99 {p99:.3} ms"));
        format!("{} ops/s{}", rate(total.operations_per_second.mean), p99.unwrap_or_default())
    });
    let verdict = phase.verdict.map(|verdict| format!("  {verdict}")).unwrap_or_default();
    let figures = figures.unwrap_or_else(|| format!("{} operations without a sum", phase.operations.len()));
    format!("{figures}{verdict}")
}

fn going(live: &Live) -> String {
    let p99 = live.p99_milliseconds.map(|p99| format!("  p99 {p99:.3} ms")).unwrap_or_default();
    format!("{} ops/s{p99}  {} s", rate(live.operations_per_second), live.elapsed_seconds)
}

fn phases(run: &BenchmarkRun) -> impl Iterator<Item = &PhaseStatus> {
    run.status.iter().flat_map(|status| &status.phases)
}

/// The phases of `new` with more repetitions than in `old`.
fn progressed<'a>(
    old: Option<&'a BenchmarkRun>,
    new: &'a BenchmarkRun,
) -> impl Iterator<Item = &'a PhaseStatus> {
    let before = move |name: &str| {
        old.into_iter()
            .flat_map(phases)
            .find(|phase| phase.name == name)
            .map_or(0, |phase| phase.repetitions.len())
    };
    phases(new).filter(move |phase| phase.repetitions.len() > before(&phase.name))
}

impl View {
    /// Shows `subject` from now on; returns its line.
    pub fn add(&mut self, subject: Subject) -> Vec<String> {
        let key = (subject.kind(), subject.name());
        self.subjects.insert(key.clone(), Some(subject));
        self.changed(key)
    }

    pub fn names(&self) -> Vec<Key> {
        self.subjects.keys().cloned().collect()
    }

    /// Takes in what a subject has become; returns lines about what has changed.
    pub fn update(&mut self, subject: Subject) -> Vec<String> {
        let key = (subject.kind(), subject.name());
        let old = self.subjects.insert(key.clone(), Some(subject)).flatten();
        let mut lines = Vec::new();
        if let Some(Some(Subject::Run(new))) = self.subjects.get(&key) {
            let old = match &old {
                Some(Subject::Run(old)) => Some(old.as_ref()),
                _ => None,
            };
            for phase in progressed(old, new) {
                self.live.retain(|load, _| load.run != key.1 || load.phase != phase.name);
                lines.push(format!("{}  {}  {}", key.1, phase.name, measured(phase)));
            }
        }
        self.changed(key).into_iter().chain(lines).collect()
    }

    pub fn gone(&mut self, kind: Kind, name: &str) -> Vec<String> {
        let key = (kind, name.to_owned());
        self.subjects.insert(key.clone(), None);
        self.changed(key)
    }

    /// Takes in what a client pod does; `None` once it has ended.
    pub fn live(&mut self, load: Load, live: Option<Live>) {
        match live {
            Some(live) => self.live.insert(load, live),
            None => self.live.remove(&load),
        };
    }

    /// The line of `key`, if it is another than before.
    fn changed(&mut self, key: Key) -> Vec<String> {
        let subject = self.subjects.get(&key).and_then(Option::as_ref);
        let line = format!("{}  {}", key.1, line(subject));
        match self.last_lines.insert(key, line.clone()) {
            Some(last) if last == line => Vec::new(),
            _ => vec![line],
        }
    }

    /// All loads by run, phase and repetition.
    fn loads(&self) -> BTreeMap<(&str, &str, &str), Live> {
        let mut pods: BTreeMap<_, Vec<&Live>> = BTreeMap::new();
        for (load, live) in &self.live {
            let key = (load.run.as_str(), load.phase.as_str(), load.repetition.as_str());
            pods.entry(key).or_default().push(live);
        }
        pods.into_iter().map(|(key, pods)| (key, together(pods.into_iter()))).collect()
    }

    pub fn progress(&self) -> Vec<String> {
        let line = |((run, phase, repetition), live): (&(&str, &str, &str), &Live)| {
            format!("{run}  {phase} #{repetition}  {}", going(live))
        };
        self.loads().iter().map(line).collect()
    }

    /// The worst ending of all; `None` while one of them goes on.
    pub fn ending(&self) -> Option<Ending> {
        let mut all = self.subjects.values().map(|subject| ending(subject.as_ref()));
        all.try_fold(Ending::Passed, |worst, one| Some(worst.max(one?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn run(status: &Value) -> Subject {
        let run = serde_json::from_value(json!({
            "apiVersion": "dragstrip.dev/v1alpha1", "kind": "BenchmarkRun", "metadata": {"name": "sprint"},
            "spec": {"target": {"datastoreRef": {"name": "redis"}}, "repetitions": 3,
                     "phases": [{"name": "write", "loadgen": {"duration": "5s"}}, {"name": "read", "loadgen": {"duration": "5s"}}]},
            "status": status
        }));
        Subject::Run(Box::new(run.unwrap()))
    }

    fn view_of(subject: Subject) -> View {
        let mut view = View::default();
        view.add(subject);
        view
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
    fn the_load_of_all_pods_of_a_phase_is_one_line() {
        let mut view = view_of(run(&json!({})));
        view.live(load("a"), Some(at(40_000.0)));
        view.live(load("b"), Some(at(2_000.0)));
        assert_eq!(view.progress(), ["sprint  read #1  42,000 ops/s  p99 0.500 ms  7 s"]);
        view.live(load("a"), None);
        assert_eq!(view.progress(), ["sprint  read #1  2,000 ops/s  p99 0.500 ms  7 s"]);
    }

    #[test]
    fn lines_report_each_change_once_and_each_measurement() {
        let mut view = view_of(run(&json!({})));
        let first = view.update(run(&measured_once()));
        assert_eq!(
            first,
            ["sprint  Running    1/6   measuring read", "sprint  write  151,234 ops/s  p99 0.480 ms  Valid"]
        );
        assert!(view.update(run(&measured_once())).is_empty(), "nothing has changed");
        let mut ended = View::default();
        assert_eq!(ended.add(run(&measured_once())), ["sprint  Running    1/6   measuring read"]);
        assert!(ended.update(run(&measured_once())).is_empty(), "it was reported already");
    }

    #[test]
    fn the_worst_ending_counts_and_all_must_have_ended() {
        let condition = |kind: &str, status: &str| json!({"type": kind, "status": status, "reason": "r", "message": "m", "lastTransitionTime": "2026-01-01T00:00:00Z"});
        let ended = |passed: &str| {
            run(&json!({"conditions": [condition("Complete", "True"), condition("Passed", passed)]}))
        };
        let mut view = view_of(run(&json!({})));
        assert_eq!(view.ending(), None);
        for (passed, ending) in [("True", Ending::Passed), ("False", Ending::NotPassed)] {
            view.update(ended(passed));
            assert_eq!(view.ending(), Some(ending));
        }
        view.gone(Kind::Run, "sprint");
        assert_eq!(view.ending(), Some(Ending::Gone), "the result of a deleted run is unknown");
    }

    #[test]
    fn a_suspended_suite_is_reported_once_with_the_remedy() {
        let suite = || {
            let suite = serde_json::from_value(json!({
                "apiVersion": "dragstrip.dev/v1alpha1", "kind": "BenchmarkSuite", "metadata": {"name": "engines"},
                "spec": {"suspend": true, "variants": [], "run": {}},
                "status": {"phase": "Suspended", "progress": {"done": 3, "total": 12, "running": 0, "failed": 0},
                           "message": "suspended: 3 of 12"}
            }));
            Subject::Suite(Box::new(suite.unwrap()))
        };
        let mut view = View::default();
        let line = "engines  Suspended  3/12  suspended: set spec.suspend to false to continue";
        assert_eq!(view.add(suite()), [line]);
        assert!(view.update(suite()).is_empty(), "it was reported already");
        assert_eq!(view.ending(), None, "it may go on");
    }
}
