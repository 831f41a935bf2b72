//! Suites without a cluster: their runs one after the other, in the order that the operator
//! would make them, and the report of all. Touches files and what a run touches.

use super::{
    conduct::{Raced, Settings, passed, planned, run_locally},
    keep::{self, Kept},
    screen::Screen,
};
use dragstrip_crds::{
    BenchmarkRun, BenchmarkSuite, Datastore,
    run::RunPhase,
    suite::{Baseline, OnRunFailure},
};
use dragstrip_operator::suite::expand::{ChildRun, Expanded, Invalid, expand};
use dragstrip_report::{
    BaselineInput, Entry, Input, build, csv,
    document::{Document, VariantHead},
    json, junit, markdown, text,
};
use jiff::Timestamp;
use kube::ResourceExt;
use std::path::{Path, PathBuf};

/// A suite that could not be run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Its declaration is not usable.
    #[error("BenchmarkSuite {0}: {1}")]
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
}

/// A suite with its runs, each as an object.
pub struct Planned {
    suite: BenchmarkSuite,
    expanded: Expanded,
}

fn child(suite: &BenchmarkSuite, child: &ChildRun) -> BenchmarkRun {
    let mut run = BenchmarkRun::new(&child.name, child.spec.clone());
    run.metadata.namespace = suite.namespace();
    run
}

/// Looks at everything that `suite` needs.
pub fn plan(suite: &BenchmarkSuite, datastores: &[Datastore], settings: &Settings) -> Result<Planned, Error> {
    let expanded = expand(suite).map_err(|invalid| Error::Suite(suite.name_any(), invalid))?;
    for run in &expanded.runs {
        let failed = |error| Error::Run(Box::new(error), run.name.clone(), run.cell.label(&expanded.axes));
        planned(&child(suite, run), datastores, settings).map_err(failed)?;
    }
    Ok(Planned { suite: suite.clone(), expanded })
}

/// What the figures are compared with, as far as it is here; and what is left aside.
fn baseline(declared: Option<&Baseline>) -> (Option<BaselineInput>, Option<&'static str>) {
    match declared {
        None => (None, None),
        Some(Baseline { variant: Some(variant), .. }) => {
            (Some(BaselineInput::Variant(variant.clone())), None)
        }
        Some(_) => (
            None,
            Some(
                "left aside: spec.baseline: without a cluster only a variant can be it; compare reports with dragstrip compare",
            ),
        ),
    }
}

/// What was measured of `run` in `directory` earlier, if it was measured to its end.
fn earlier(directory: &Path, run: &BenchmarkRun) -> Result<Option<Raced>, Error> {
    let Some(Kept { run: kept, results }) = keep::read(directory)? else { return Ok(None) };
    if kept.spec != run.spec {
        return Err(Error::Another(directory.to_owned()));
    }
    let phase = kept.status.as_ref().map(|status| status.phase).unwrap_or_default();
    if phase == RunPhase::Cancelled {
        keep::forget(directory)?;
        return Ok(None);
    }
    Ok(Some(Raced { run: kept, results }))
}

impl Planned {
    /// Runs it: the report, and whether all passed.
    pub async fn race(
        &self,
        datastores: &[Datastore],
        settings: &Settings,
        screen: &mut Screen,
    ) -> Result<(Document, bool), Error> {
        let name = self.suite.name_any();
        let directory = match &settings.output_directory {
            Some(directory) => directory.clone(),
            None => keep::usual(&name, Timestamp::now())?,
        };
        let (baseline, aside) = baseline(self.suite.spec.baseline.as_ref());
        let all = self.expanded.runs.len();
        screen.step(&format!("{name}: {all} runs; results: {}", directory.display()));
        if let Some(note) = &aside {
            screen.step(note);
        }
        let mut entries = Vec::with_capacity(all);
        let mut good = true;
        for (number, declared) in (1..).zip(&self.expanded.runs) {
            let words = declared.cell.label(&self.expanded.axes);
            let raced =
                self.one(declared, (number, &words), datastores, settings, (screen, &directory)).await?;
            good &= passed(&raced.run);
            let results = raced.results.into_values().collect();
            let entry = Entry {
                cell: declared.cell.clone(),
                repetition: declared.repetition,
                run: raced.run,
                results,
            };
            let failed = !passed(&entry.run);
            entries.push(entry);
            if settings.stop.is_requested() || failed && self.suite.spec.on_failure == OnRunFailure::Stop {
                break;
            }
        }
        good &= entries.len() == all;
        let document = self.document(entries, baseline);
        good &= document.thresholds.iter().all(|threshold| threshold.met);
        write(&directory, &document)?;
        Ok((document, good))
    }

    /// One of its runs, unless it was measured earlier.
    async fn one(
        &self,
        declared: &ChildRun,
        (number, words): (usize, &str),
        datastores: &[Datastore],
        settings: &Settings,
        (screen, directory): (&mut Screen, &Path),
    ) -> Result<Raced, Error> {
        let run = child(&self.suite, declared);
        let own = directory.join("runs").join(&declared.name);
        let told = format!(
            "run {number} of {}: {words}, repetition {}",
            self.expanded.runs.len(),
            declared.repetition
        );
        if let Some(raced) = earlier(&own, &run)? {
            screen.step(&format!("{told}: measured earlier"));
            return Ok(raced);
        }
        screen.step(&told);
        let settings = Settings { output_directory: Some(own), ..settings.clone() };
        let raced = run_locally(&run, datastores, &settings, screen).await;
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

    #[test]
    fn only_a_variant_can_be_a_baseline_here() {
        let of = |baseline: Baseline| super::baseline(Some(&baseline));
        let variant = Baseline { variant: Some("redis".into()), ..Baseline::default() };
        assert!(matches!(of(variant), (Some(BaselineInput::Variant(name)), None) if name == "redis"));
        let earlier = Baseline { suite: Some("last-week".into()), ..Baseline::default() };
        assert!(of(earlier).1.is_some_and(|note| note.contains("only a variant")));
    }
}
