//! Local suites: their runs one after the other, in the operator's order, and the report of all.
//! Touches files and what a run touches.

use super::{
    conduct::{passed, print_or_closed, ready, run_locally},
    directory,
    options::{PAGE_FILE, REPORT_FILE},
    settings::Settings,
};
use crate::output::{errors::Outcome, screen::Screen};
use dragstrip_core::suite::expand::{ChildRun, Expanded, Invalid, expand};
use dragstrip_crds::{
    BenchmarkRun, BenchmarkSuite, BenchmarkSuiteSpec, Datastore, suite::OnRunFailure, units::counted,
};
use dragstrip_report::{
    BaselineInput, Entry, Input, build, csv, document::Document, html, json, junit, markdown, text,
};
use jiff::Timestamp;
use kube::ResourceExt;
use std::path::Path;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("BenchmarkSuite {0}")]
    Suite(String, #[source] Invalid),
    #[error("run {1} of the suite ({2})")]
    Run(#[source] Box<dyn std::error::Error>, String, String),
}

pub struct Planned {
    suite: BenchmarkSuite,
    expanded: Expanded,
}

fn child(suite: &BenchmarkSuite, child: &ChildRun) -> BenchmarkRun {
    let mut run = BenchmarkRun::new(&child.name, child.spec.clone());
    run.metadata.namespace = suite.namespace();
    run
}

pub fn plan(suite: &BenchmarkSuite, datastores: &[Datastore], settings: &Settings) -> Result<Planned, Error> {
    let expanded = expand(suite).map_err(|invalid| Error::Suite(suite.name_any(), invalid))?;
    for run in &expanded.runs {
        let failed = |error| Error::Run(error, run.name.clone(), run.cell.label(&expanded.axes));
        let settings = settings.of_variant(&run.cell.variant);
        ready(&child(suite, run), datastores, &settings).map_err(failed)?;
    }
    Ok(Planned { suite: suite.clone(), expanded })
}

/// Notes about fields of `spec` that a local suite ignores.
fn ignored(spec: &BenchmarkSuiteSpec) -> Vec<&'static str> {
    let fields = [
        (
            spec.baseline
                .as_ref()
                .is_some_and(|it| it.suite.is_some() || it.previous || it.published.is_some()),
            "ignored: suite, previous and published of spec.baseline: a local suite compares its variants; use dragstrip compare for reports and published tables",
        ),
        (spec.schedule.is_some(), "ignored: spec.schedule: a local suite runs once, now"),
        (spec.suspend, "ignored: spec.suspend: a local suite runs now; Ctrl-C ends it"),
    ];
    fields.into_iter().filter(|(declared, _)| *declared).map(|(_, note)| note).collect()
}

impl Planned {
    /// Runs it, and always writes and prints the report; returns whether all passed.
    pub async fn race(
        &self,
        datastores: &[Datastore],
        settings: &Settings,
        screen: &mut Screen,
    ) -> Outcome<bool> {
        let (name, spec) = (self.suite.name_any(), &self.suite.spec);
        let directory = match &settings.output_directory {
            Some(directory) => directory.clone(),
            None => directory::default_path(&name, Timestamp::now())?,
        };
        directory::create_for_suite(&directory)?;
        let all = self.expanded.runs.len();
        screen.step(&format!("{name}: {}; results: {}", counted(all as u64, "run"), directory.display()));
        for note in ignored(spec) {
            screen.step(note);
        }
        let mut entries = Vec::with_capacity(all);
        let raced = self.all(&mut entries, datastores, settings, (screen, &directory)).await;
        if entries.is_empty() {
            return Ok(raced.map(|()| false)?);
        }
        let passed = entries.len() == all && entries.iter().all(|entry| passed(&entry.run));
        let document = self.document(entries);
        write(&directory, &document)?;
        screen.step(&format!("page: {}", directory.join(PAGE_FILE).display()));
        print_or_closed(&text::render(&document))?;
        raced?;
        Ok(passed && document.thresholds.iter().all(|threshold| threshold.met))
    }

    /// Runs it run by run, and adds each to `entries` when it has ended.
    async fn all(
        &self,
        entries: &mut Vec<Entry>,
        datastores: &[Datastore],
        settings: &Settings,
        (screen, directory): (&mut Screen, &Path),
    ) -> Result<(), Error> {
        for (number, declared) in (1..).zip(&self.expanded.runs) {
            let (cell, repetition) = (declared.cell.clone(), declared.repetition);
            let (all, words) = (self.expanded.runs.len(), cell.label(&self.expanded.axes));
            screen.step(&format!("run {number} of {all}: {words}, repetition {repetition}"));
            let own = directory::of_run(directory, &declared.name);
            let settings = Settings { output_directory: Some(own), ..settings.of_variant(&cell.variant) };
            let run = child(&self.suite, declared);
            let raced = Box::pin(run_locally(&run, datastores, &settings, screen)).await;
            let raced = raced.map_err(|error| Error::Run(error, declared.name.clone(), words))?;
            let failed = !passed(&raced.run);
            let results = raced.results.into_values().collect();
            entries.push(Entry { cell, repetition, run: raced.run, results });
            if settings.stop.is_requested() || failed && self.suite.spec.on_failure == OnRunFailure::Stop {
                break;
            }
        }
        Ok(())
    }

    fn document(&self, entries: Vec<Entry>) -> Document {
        let baselines = BaselineInput::within(self.suite.spec.baseline.as_ref());
        build(Input { entries, baselines, ..Input::of_suite(&self.suite, self.expanded.axes.clone()) })
    }
}

fn write(directory: &Path, document: &Document) -> Result<(), directory::Error> {
    let forms = [
        ("report.txt", text::render(document)),
        ("report.md", markdown::render(document)),
        ("report.csv", csv::render(document)),
        (REPORT_FILE, json::render(document)),
        (PAGE_FILE, html::render(document)),
        ("junit.xml", junit::render(document)),
    ];
    for (name, text) in forms {
        directory::write(&directory.join(name), &text)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn spec(more: &Value) -> BenchmarkSuiteSpec {
        let mut spec = json!({"variants": [{"name": "redis", "target": {"external": {"address": "h:1"}}}],
            "run": {"phases": []}});
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        serde_json::from_value(spec).unwrap()
    }

    #[test]
    fn what_only_a_cluster_can_do_is_ignored_with_a_note() {
        let variant = spec(&json!({"baseline": {"variant": "redis"}}));
        assert!(ignored(&variant).is_empty(), "a variant needs no cluster");
        let both = spec(&json!({"baseline": {"variant": "redis", "published": {"configMap": "theirs"}}}));
        assert_eq!(ignored(&both).len(), 1, "the table is in a cluster");
        let all = json!({"baseline": {"suite": "last-week"}, "schedule": "0 3 * * *", "suspend": true});
        let notes = ignored(&spec(&all)).join("\n");
        for field in ["spec.baseline", "spec.schedule", "spec.suspend"] {
            assert!(notes.contains(field), "{field} is ignored without a note:\n{notes}");
        }
    }
}
