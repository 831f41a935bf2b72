//! Suites without a cluster: their runs one after the other, in the order that the operator
//! would make them, and the report of all. Touches files and what a run touches.

use super::{
    conduct::{Raced, passed, planned, ready, run_locally, tell},
    keep::{self, Kept},
    origin::Origin,
    screen::Screen,
    settings::Settings,
};
use crate::output;
use dragstrip_core::suite::expand::{ChildRun, Expanded, Invalid, expand};
use dragstrip_crds::{
    BenchmarkRun, BenchmarkSuite, BenchmarkSuiteSpec, Datastore, Engine,
    run::RunPhase,
    suite::{Baseline, OnRunFailure},
};
use dragstrip_report::{
    BaselineInput, Entry, Input, build, csv,
    document::{Document, VariantHead},
    json, junit, markdown, text,
};
use jiff::Timestamp;
use kube::ResourceExt;
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

/// A suite that could not be run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Its declaration is not usable.
    #[error("BenchmarkSuite {0}")]
    Suite(String, #[source] Invalid),
    /// A run of it could not be made.
    #[error("run {1} of the suite ({2})")]
    Run(#[source] Box<super::conduct::Error>, String, String),
    /// Nothing can be kept or read.
    #[error(transparent)]
    Keep(#[from] keep::Error),
    /// The directory holds another suite's run.
    #[error("{0} holds a run of another spec: name another directory with --output-directory")]
    Another(PathBuf),
    /// The directory holds a run that was measured with something else.
    #[error(
        "{0} holds a run that was measured with something else: {1}: name another directory with --output-directory, or remove {0} to have that run measured again"
    )]
    Changed(PathBuf, String),
    /// Its report could not be printed.
    #[error(transparent)]
    Output(#[from] output::Error),
}

/// A suite with its runs, each as an object.
pub struct Planned {
    suite: BenchmarkSuite,
    expanded: Expanded,
    /// The engines whose servers it starts.
    pub engines: BTreeSet<Engine>,
}

fn child(suite: &BenchmarkSuite, child: &ChildRun) -> BenchmarkRun {
    let mut run = BenchmarkRun::new(&child.name, child.spec.clone());
    run.metadata.namespace = suite.namespace();
    run
}

/// Looks at everything that `suite` needs.
pub fn plan(suite: &BenchmarkSuite, datastores: &[Datastore], settings: &Settings) -> Result<Planned, Error> {
    let expanded = expand(suite).map_err(|invalid| Error::Suite(suite.name_any(), invalid))?;
    let mut engines = BTreeSet::new();
    for run in &expanded.runs {
        let failed = |error| Error::Run(Box::new(error), run.name.clone(), run.cell.label(&expanded.axes));
        engines.extend(ready(&child(suite, run), datastores, settings).map_err(failed)?.engine());
    }
    Ok(Planned { suite: suite.clone(), expanded, engines })
}

/// What the figures are compared with, as far as it is here.
fn baseline(declared: Option<&Baseline>) -> Option<BaselineInput> {
    declared.and_then(|baseline| baseline.variant.clone()).map(BaselineInput::Variant)
}

/// What of `spec` is left aside, for people.
fn aside(spec: &BenchmarkSuiteSpec) -> Vec<&'static str> {
    let fields = [
        (
            spec.baseline.is_some() && baseline(spec.baseline.as_ref()).is_none(),
            "left aside: spec.baseline: without a cluster only a variant can be it; compare reports with dragstrip compare",
        ),
        (
            spec.schedule.is_some(),
            "left aside: spec.schedule: without a cluster there is one round, which is now",
        ),
        (spec.suspend, "left aside: spec.suspend: without a cluster the suite runs now; Ctrl-C ends it"),
    ];
    fields.into_iter().filter(|(declared, _)| *declared).map(|(_, note)| note).collect()
}

/// What was measured of `run` in `directory` earlier, if it would be measured with the same now.
/// One that has no result, failed or interrupted, is measured again.
fn earlier(directory: &Path, run: &BenchmarkRun, now: &Origin) -> Result<Option<Raced>, Error> {
    let Some(Kept { run: kept, results, origin }) = keep::read(directory)? else { return Ok(None) };
    if kept.spec != run.spec {
        return Err(Error::Another(directory.to_owned()));
    }
    if kept.status.as_ref().is_none_or(|status| status.phase != RunPhase::Succeeded) {
        return Ok(None);
    }
    let unknown = || Some("nothing tells with what".to_owned());
    match origin.map_or_else(unknown, |origin| origin.difference(now)) {
        Some(difference) => Err(Error::Changed(directory.to_owned(), difference)),
        None => Ok(Some(Raced { run: kept, results })),
    }
}

/// Where the run called `name` is kept in `directory`.
fn own(directory: &Path, name: &str) -> PathBuf {
    directory.join("runs").join(name)
}

impl Planned {
    /// Runs it, and writes and prints the report of what was measured whatever ends it: whether
    /// all passed.
    pub async fn race(
        &self,
        datastores: &[Datastore],
        settings: &Settings,
        screen: &mut Screen,
    ) -> Result<bool, Error> {
        let (name, spec) = (self.suite.name_any(), &self.suite.spec);
        let directory = match &settings.output_directory {
            Some(directory) => directory.clone(),
            None => keep::usual(&name, Timestamp::now())?,
        };
        let _lock = keep::lock(&directory)?;
        let earlier = self.earlier(&directory, datastores, settings)?;
        let all = self.expanded.runs.len();
        screen.step(&format!("{name}: {all} runs; results: {}", directory.display()));
        for note in aside(spec) {
            screen.step(note);
        }
        let mut entries = Vec::with_capacity(all);
        let raced = self.all(earlier, &mut entries, datastores, settings, (screen, &directory)).await;
        if entries.is_empty() {
            return raced.map(|()| false);
        }
        let passed = entries.len() == all && entries.iter().all(|entry| passed(&entry.run));
        let document = self.document(entries, baseline(spec.baseline.as_ref()));
        write(&directory, &document)?;
        tell(&text::render(&document))?;
        raced?;
        Ok(passed && document.thresholds.iter().all(|threshold| threshold.met))
    }

    /// What was measured of each of its runs earlier. Nothing is measured beside what would
    /// come out otherwise now.
    fn earlier(
        &self,
        directory: &Path,
        datastores: &[Datastore],
        settings: &Settings,
    ) -> Result<Vec<Option<Raced>>, Error> {
        let of = |declared: &ChildRun| {
            let run = child(&self.suite, declared);
            let failed = |error| Error::Run(Box::new(error), declared.name.clone(), String::new());
            let now = Origin::of(&planned(&run, datastores, settings).map_err(failed)?)?;
            earlier(&own(directory, &declared.name), &run, &now)
        };
        self.expanded.runs.iter().map(of).collect()
    }

    /// Its runs one after the other, each that has ended in `entries`.
    async fn all(
        &self,
        earlier: Vec<Option<Raced>>,
        entries: &mut Vec<Entry>,
        datastores: &[Datastore],
        settings: &Settings,
        (screen, directory): (&mut Screen, &Path),
    ) -> Result<(), Error> {
        for ((number, declared), earlier) in (1..).zip(&self.expanded.runs).zip(earlier) {
            let words = declared.cell.label(&self.expanded.axes);
            let raced =
                self.one(declared, (number, &words, earlier), datastores, settings, (screen, directory));
            let raced = raced.await?;
            let failed = !passed(&raced.run);
            let results = raced.results.into_values().collect();
            let (cell, repetition) = (declared.cell.clone(), declared.repetition);
            entries.push(Entry { cell, repetition, run: raced.run, results });
            if settings.stop.is_requested() || failed && self.suite.spec.on_failure == OnRunFailure::Stop {
                break;
            }
        }
        Ok(())
    }

    /// One of its runs, unless it was measured earlier.
    async fn one(
        &self,
        declared: &ChildRun,
        (number, words, earlier): (usize, &str, Option<Raced>),
        datastores: &[Datastore],
        settings: &Settings,
        (screen, directory): (&mut Screen, &Path),
    ) -> Result<Raced, Error> {
        let told = format!(
            "run {number} of {}: {words}, repetition {}",
            self.expanded.runs.len(),
            declared.repetition
        );
        if let Some(raced) = earlier {
            screen.step(&format!("{told}: measured earlier"));
            return Ok(raced);
        }
        screen.step(&told);
        let own = own(directory, &declared.name);
        if own.join(keep::RUN).exists() {
            keep::forget(&own)?;
        }
        let settings = Settings { output_directory: Some(own), ..settings.clone() };
        let run = child(&self.suite, declared);
        let raced = Box::pin(run_locally(&run, datastores, &settings, screen)).await;
        raced.map_err(|error| Error::Run(Box::new(error), declared.name.clone(), words.to_owned()))
    }

    fn document(&self, entries: Vec<Entry>, baseline: Option<BaselineInput>) -> Document {
        let spec = &self.suite.spec;
        let head = |variant: &dragstrip_crds::suite::Variant| VariantHead {
            name: variant.name.clone(),
            note: variant.note.clone(),
        };
        build(Input {
            title: self.suite.name_any(),
            variants: spec.variants.iter().map(head).collect(),
            axes: self.expanded.axes.clone(),
            entries,
            baseline,
            thresholds: spec.thresholds.clone(),
            compare_anyway: spec.compare_anyway,
        })
    }
}

/// Writes the report in every form into `directory`.
fn write(directory: &Path, document: &Document) -> Result<(), Error> {
    let forms = [
        ("report.txt", text::render(document)),
        ("report.md", markdown::render(document)),
        ("report.csv", csv::render(document)),
        ("report.json", json::render(document)),
        ("junit.xml", junit::render(document)),
    ];
    for (name, text) in forms {
        keep::write(&directory.join(name), &text)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use std::collections::BTreeMap;

    fn spec(more: &Value) -> BenchmarkSuiteSpec {
        let mut spec = json!({"variants": [{"name": "redis", "target": {"external": {"address": "h:1"}}}],
            "run": {"phases": []}});
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        serde_json::from_value(spec).unwrap()
    }

    #[test]
    fn what_only_a_cluster_can_do_is_left_aside_with_a_note() {
        let variant = spec(&json!({"baseline": {"variant": "redis"}}));
        assert!(aside(&variant).is_empty(), "a variant is known here");
        assert!(
            matches!(baseline(variant.baseline.as_ref()), Some(BaselineInput::Variant(name)) if name == "redis")
        );
        let all = json!({"baseline": {"suite": "last-week"}, "schedule": "0 3 * * *", "suspend": true});
        let notes = aside(&spec(&all)).join("\n");
        for field in ["spec.baseline", "spec.schedule", "spec.suspend"] {
            assert!(notes.contains(field), "{field} is left aside without a word:\n{notes}");
        }
    }

    /// A directory with a run that ended in this phase.
    fn kept(place: &Path, phase: &str, origin: Option<&Origin>) -> BenchmarkRun {
        let run: BenchmarkRun = serde_json::from_value(json!({
            "apiVersion": "dragstrip.dev/v1alpha1", "kind": "BenchmarkRun", "metadata": {"name": "sprint"},
            "spec": {"target": {"external": {"address": "h:1"}}, "phases": []}, "status": {"phase": phase}
        }))
        .unwrap();
        let directory = keep::Directory::make(place).unwrap();
        if let Some(origin) = origin {
            directory.origin(origin).unwrap();
        }
        directory.finish(&run, &BTreeMap::new(), "").unwrap();
        run
    }

    #[test]
    fn what_was_measured_with_the_same_is_not_measured_again_and_what_has_no_result_is() {
        for (phase, stays) in [("Succeeded", true), ("Failed", false), ("Cancelled", false)] {
            let place = tempfile::tempdir().unwrap();
            let run = kept(place.path(), phase, Some(&Origin::default()));
            let found = earlier(place.path(), &run, &Origin::default()).unwrap();
            assert_eq!(found.is_some(), stays, "{phase}");
        }
    }

    #[test]
    fn what_was_measured_with_something_else_is_refused() {
        let other: Origin =
            serde_json::from_value(json!({"datastore": {"engine": "Redis", "threads": 1}, "programs": {}}))
                .unwrap();
        for (origin, reason) in [(Some(&other), "spec.threads of its Datastore"), (None, "nothing tells")] {
            let place = tempfile::tempdir().unwrap();
            let mut run = kept(place.path(), "Succeeded", origin);
            let told = |run: &BenchmarkRun| {
                earlier(place.path(), run, &Origin::default()).err().unwrap().to_string()
            };
            let changed = told(&run);
            assert!(changed.contains(reason) && changed.contains("--output-directory"), "{changed}");
            run.spec.repetitions += 1;
            assert!(told(&run).contains("a run of another spec"), "{}", told(&run));
        }
    }
}
