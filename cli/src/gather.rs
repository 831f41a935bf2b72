//! What reports are made of: runs, suites and their stored results, from the cluster or from
//! files. Needs the client and reads files.

use crate::{
    cluster::{self, Cluster, Given, Kind, Subject},
    local::RUN,
    results,
};
use dragstrip_core::suite::expand::{self, expand};
use dragstrip_crds::{BenchmarkRun, BenchmarkSuite, suite::Baseline};
use dragstrip_report::{
    BaselineInput, Entry, Input, build,
    document::{Cell, Document, VariantHead},
    json,
    published::{self, Scope},
};
use dragstrip_results::result::RepetitionResult;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use serde_json::Value;
use std::{fs, io, path::Path};

/// What a report is made of could not be had.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It is not in the cluster.
    #[error(transparent)]
    Cluster(#[from] cluster::Error),
    /// A stored result could not be had.
    #[error(transparent)]
    Results(#[from] results::Error),
    /// A suite has no runs.
    #[error("suite {1} cannot be expanded into its runs")]
    Expand(#[source] expand::Invalid, String),
    /// Runs and suites do not stand side by side.
    #[error("{0}: one suite is reported at a time, and no runs beside it; compare puts two side by side")]
    Mixed(String),
    /// A file could not be read.
    #[error("cannot read {1}")]
    File(#[source] io::Error, String),
    /// It is no JSON of ours.
    #[error("{1} is neither a BenchmarkRun nor a report as JSON")]
    Json(#[source] serde_json::Error, String),
    /// It is no published table.
    #[error("{1} is no published table")]
    Published(#[source] published::Error, String),
    /// The table's ConfigMap has no such key.
    #[error("ConfigMap {0} has no key {1}")]
    Key(String, String),
}

/// Something to be reported or compared.
#[derive(Debug, Clone)]
pub enum Source {
    /// Runs, or a suite, with what is needed for every form.
    Measured(Box<Input>),
    /// A report that was made already.
    Made(Box<Document>),
    /// A published table, as its file has it.
    Published(String),
}

async fn results_of(cluster: &Cluster, run: &BenchmarkRun) -> Result<Vec<RepetitionResult>, Error> {
    let namespace = run.namespace().unwrap_or_else(|| cluster.namespace.clone());
    Ok(results::of(&cluster.client, &namespace, run).await?)
}

/// Runs side by side, without their stored results.
pub fn side_by_side(runs: &[BenchmarkRun]) -> Input {
    let title = runs.iter().map(ResourceExt::name_any).collect::<Vec<_>>().join(", ");
    let entry = |run: &BenchmarkRun| {
        let cell = Cell { variant: run.name_any(), values: Vec::new() };
        Entry { cell, repetition: 1, run: run.clone(), results: Vec::new() }
    };
    // Of several side by side each has thresholds of its own, and a condition that tells.
    let thresholds = if let [run] = runs { run.spec.thresholds.clone() } else { Vec::new() };
    Input { title, thresholds, entries: runs.iter().map(entry).collect(), ..Input::default() }
}

/// Runs side by side.
pub async fn of_runs(cluster: &Cluster, runs: &[BenchmarkRun]) -> Result<Input, Error> {
    let mut input = side_by_side(runs);
    for entry in &mut input.entries {
        entry.results = results_of(cluster, &entry.run).await?;
    }
    Ok(input)
}

/// The text of a published table in a ConfigMap.
async fn published_of(cluster: &Cluster, name: &str, key: &str) -> Result<String, Error> {
    let Some(map) = cluster.find::<ConfigMap>(name).await? else {
        return Err(cluster.absent("ConfigMap", name, &cluster.names::<ConfigMap>().await?).into());
    };
    let text = map.data.and_then(|mut data| data.remove(key));
    text.ok_or_else(|| Error::Key(name.to_owned(), key.to_owned()))
}

/// What a published table may speak of, beside `input`.
fn scope(input: &Input) -> Scope {
    let phases =
        input.entries.iter().flat_map(|entry| &entry.run.spec.phases).map(|phase| phase.name.clone());
    let variants = input.variants.iter().map(|variant| variant.name.clone());
    // Runs side by side are called by their own names.
    let alone = input.entries.iter().map(|entry| entry.cell.variant.clone());
    Scope {
        variants: variants.chain(alone).collect::<std::collections::BTreeSet<_>>().into_iter().collect(),
        axes: input.axes.clone(),
        phases: phases.collect::<std::collections::BTreeSet<_>>().into_iter().collect(),
    }
}

/// A published table as the baseline of `input`.
pub fn published(input: &Input, name: &str, text: &str) -> Result<BaselineInput, Error> {
    let table =
        published::parse(text, &scope(input)).map_err(|error| Error::Published(error, name.to_owned()))?;
    Ok(BaselineInput::Published { name: name.to_owned(), table })
}

async fn baseline_of(
    cluster: &Cluster,
    input: &Input,
    declared: &Baseline,
) -> Result<Option<BaselineInput>, Error> {
    if let Some(variant) = &declared.variant {
        return Ok(Some(BaselineInput::Variant(variant.clone())));
    }
    if let Some(table) = &declared.published {
        let text = published_of(cluster, &table.config_map, &table.key).await?;
        return published(input, &table.config_map, &text).map(Some);
    }
    let Some(name) = &declared.suite else { return Ok(None) };
    let given = Given { kind: Some(Kind::Suite), name: name.clone() };
    let Subject::Suite(suite) = cluster.subject(&given).await? else { return Ok(None) };
    let earlier = Box::pin(runs_of_suite(cluster, &suite)).await?;
    Ok(Some(BaselineInput::Report { kind: "suite".to_owned(), document: Box::new(build(earlier)) }))
}

/// The runs of `suite` that there are, each with its combination.
async fn runs_of_suite(cluster: &Cluster, suite: &BenchmarkSuite) -> Result<Input, Error> {
    let title = suite.name_any();
    let expanded = expand(suite).map_err(|invalid| Error::Expand(invalid, title.clone()))?;
    let variants = suite.spec.variants.iter();
    let variants =
        variants.map(|variant| VariantHead { name: variant.name.clone(), note: variant.note.clone() });
    let mut input = Input {
        title,
        variants: variants.collect(),
        axes: expanded.axes,
        thresholds: suite.spec.thresholds.clone(),
        compare_anyway: suite.spec.compare_anyway,
        ..Input::default()
    };
    for child in expanded.runs {
        if let Some(run) = Box::pin(cluster.find::<BenchmarkRun>(&child.name)).await? {
            let results = results_of(cluster, &run).await?;
            input.entries.push(Entry { cell: child.cell, repetition: child.repetition, run, results });
        }
    }
    Ok(input)
}

/// Everything that a report of `suite` shows.
pub async fn of_suite(cluster: &Cluster, suite: &BenchmarkSuite) -> Result<Input, Error> {
    let mut input = Box::pin(runs_of_suite(cluster, suite)).await?;
    if let Some(declared) = &suite.spec.baseline {
        input.baseline = Box::pin(baseline_of(cluster, &input, declared)).await?;
    }
    Ok(input)
}

/// What `subjects` have measured: runs, or one suite.
pub async fn of(cluster: &Cluster, subjects: Vec<Subject>) -> Result<Input, Error> {
    let several = subjects.len() > 1;
    let mut runs = Vec::new();
    for subject in subjects {
        match subject {
            Subject::Run(run) => runs.push(*run),
            Subject::Suite(suite) if several => return Err(Error::Mixed(suite.name_any())),
            Subject::Suite(suite) => return of_suite(cluster, &suite).await,
        }
    }
    of_runs(cluster, &runs).await
}

/// What the file `path` holds, by its form.
pub fn of_file(path: &Path) -> Result<Source, Error> {
    let name = path.display().to_string();
    let text = fs::read_to_string(path).map_err(|error| Error::File(error, name.clone()))?;
    if path.extension().is_some_and(|end| end == "csv") {
        return Ok(Source::Published(text));
    }
    let mut source = of_json(&text).map_err(|error| Error::Json(error, name))?;
    if let Source::Measured(input) = &mut source {
        for entry in &mut input.entries {
            entry.results = beside_file(path, &entry.run)?;
        }
    }
    Ok(source)
}

/// The results of `run` that a local run keeps beside its run.json; none beside another file.
fn beside_file(path: &Path, run: &BenchmarkRun) -> Result<Vec<RepetitionResult>, Error> {
    if path.file_name().is_none_or(|name| name != RUN) {
        return Ok(Vec::new());
    }
    let phases = run.status.iter().flat_map(|status| &status.phases);
    let names = phases.flat_map(|phase| &phase.repetitions).map(|repetition| &repetition.config_map);
    let files = names.map(|name| path.with_file_name("results").join(format!("{name}.json")));
    files.filter(|file| file.exists()).map(|file| stored(&file)).collect()
}

fn stored(file: &Path) -> Result<RepetitionResult, Error> {
    let name = file.display().to_string();
    let text = fs::read_to_string(file).map_err(|error| Error::File(error, name.clone()))?;
    serde_json::from_str(&text).map_err(|error| Error::Json(error, name))
}

/// A BenchmarkRun, or a report.
fn of_json(text: &str) -> Result<Source, serde_json::Error> {
    let value: Value = serde_json::from_str(text)?;
    if value["kind"] != "BenchmarkRun" {
        return Ok(Source::Made(Box::new(json::read(text)?)));
    }
    let run: BenchmarkRun = serde_json::from_value(value)?;
    Ok(Source::Measured(Box::new(side_by_side(&[run]))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_a_run_or_a_report_by_what_it_says() {
        let run = r#"{"apiVersion": "dragstrip.dev/v1alpha1", "kind": "BenchmarkRun", "metadata": {"name": "a"},
            "spec": {"target": {"datastoreRef": {"name": "r"}}, "phases": [{"name": "read", "loadgen": {"duration": "5s"}}]}}"#;
        let Ok(Source::Measured(input)) = of_json(run) else { panic!("a run is measured") };
        assert_eq!((input.title.as_str(), input.entries.len()), ("a", 1));
        let report = json::render(&Document { title: "engines".into(), ..Document::default() });
        let Ok(Source::Made(document)) = of_json(&report) else { panic!("a report is made already") };
        assert_eq!(document.title, "engines");
        assert!(of_json("{\"rows\": 7}").is_err(), "this is neither");
    }
}
