//! What reports are made of: runs, suites and their stored results, from the cluster or from
//! files. Needs the client and reads files.

use super::{
    client::{self, Cluster, Subject},
    results,
};
use crate::{
    local::{REPORT_FILE, RUN_FILE},
    manifests::kind::Kind,
    output::{errors::Outcome, input::side_by_side},
};
use dragstrip_core::suite::expand::{self, expand};
use dragstrip_crds::{BenchmarkRun, BenchmarkSuite, suite::Baseline};
use dragstrip_report::{
    BaselineInput, Entry, Input, build,
    document::Document,
    published::{self, Scope},
};
use dragstrip_results::result::RepetitionResult;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use serde_json::Value;
use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("suite {1} cannot be expanded into its runs")]
    Expand(#[source] expand::Invalid, String),
    #[error("report on suite {0} alone, or use dragstrip compare to put two side by side")]
    Mixed(String),
    #[error("there is no file or directory {0}")]
    Missing(String),
    #[error("{0} is named twice: name each run once")]
    Twice(String),
    #[error(
        "{1} is not the file or the directory of a local run, and there is no cluster whose run it could be"
    )]
    NoCluster(#[source] client::Error, String),
    #[error("cannot read {1}")]
    File(#[source] io::Error, String),
    #[error(
        "{0} is a manifest, which has no results: name the directory that dragstrip run --local wrote, or a run of a cluster"
    )]
    Manifest(String),
    #[error("{0} is a page for readers: name {REPORT_FILE} or {RUN_FILE}, which are beside it")]
    Page(String),
    #[error("{0} is not the directory of a local run: it has neither {REPORT_FILE} nor {RUN_FILE}")]
    Directory(String),
    #[error("{1} is neither a BenchmarkRun nor a report as JSON")]
    Json(#[source] serde_json::Error, String),
    #[error("{1} is not a published table")]
    Published(#[source] published::Error, String),
    #[error("ConfigMap {0} has no key {1}")]
    Key(String, String),
}

/// Something to be reported or compared.
#[derive(Debug, Clone)]
pub enum Source {
    /// Runs, or a suite, with everything for any format.
    Measured(Box<Input>),
    Made(Box<Document>),
    Published(String),
}

async fn published_text(cluster: &Cluster, name: &str, key: &str) -> Outcome<String> {
    let map: ConfigMap = cluster.get("ConfigMap", name).await?;
    let text = map.data.and_then(|mut data| data.remove(key));
    Ok(text.ok_or_else(|| Error::Key(name.to_owned(), key.to_owned()))?)
}

/// The names that a published table may use, beside `input`.
fn scope(input: &Input) -> Scope {
    let phases = input.entries.iter().flat_map(|entry| &entry.run.spec.phases);
    let phases: BTreeSet<String> = phases.map(|phase| phase.name.clone()).collect();
    let variants = input.variants.iter().map(|variant| variant.name.clone());
    // Runs side by side go by their own names.
    let runs = input.entries.iter().map(|entry| entry.cell.variant.clone());
    let variants: BTreeSet<String> = variants.chain(runs).collect();
    Scope {
        variants: variants.into_iter().collect(),
        axes: input.axes.clone(),
        phases: phases.into_iter().collect(),
    }
}

pub fn published(input: &Input, name: &str, text: &str) -> Result<BaselineInput, Error> {
    let table =
        published::parse(text, &scope(input)).map_err(|error| Error::Published(error, name.to_owned()))?;
    Ok(BaselineInput::Published { name: name.to_owned(), table })
}

async fn baselines(cluster: &Cluster, input: &Input, declared: &Baseline) -> Outcome<Vec<BaselineInput>> {
    let mut all = BaselineInput::within(Some(declared));
    if let Some(name) = &declared.suite {
        let suite: BenchmarkSuite = cluster.get("suite", name).await?;
        let earlier = build(Box::pin(runs_of_suite(cluster, &suite)).await?);
        all.push(BaselineInput::Report { kind: "suite".to_owned(), document: Box::new(earlier) });
    }
    if let Some(table) = &declared.published {
        let text = published_text(cluster, &table.config_map, &table.key).await?;
        all.push(published(input, &table.config_map, &text)?);
    }
    Ok(all)
}

/// The runs of `suite` that exist, each with its combination.
async fn runs_of_suite(cluster: &Cluster, suite: &BenchmarkSuite) -> Outcome<Input> {
    let expanded = expand(suite).map_err(|invalid| Error::Expand(invalid, suite.name_any()))?;
    let mut input = Input::of_suite(suite, expanded.axes);
    for child in expanded.runs {
        if let Some(run) = Box::pin(cluster.find::<BenchmarkRun>(&child.name)).await? {
            let results = results::of(cluster, &run).await?;
            input.entries.push(Entry { cell: child.cell, repetition: child.repetition, run, results });
        }
    }
    Ok(input)
}

pub async fn suite(cluster: &Cluster, suite: &BenchmarkSuite) -> Outcome<Input> {
    let mut input = Box::pin(runs_of_suite(cluster, suite)).await?;
    if let Some(declared) = &suite.spec.baseline {
        input.baselines = Box::pin(baselines(cluster, &input, declared)).await?;
    }
    Ok(input)
}

/// Everything that a report of `subjects` shows: runs, or one suite.
pub async fn subjects(cluster: &Cluster, subjects: Vec<Subject>) -> Outcome<Input> {
    let several = subjects.len() > 1;
    let mut runs = Vec::new();
    for subject in subjects {
        match subject {
            Subject::Run(run) => runs.push(*run),
            Subject::Suite(suite) if several => return Err(Error::Mixed(suite.name_any()).into()),
            Subject::Suite(suite) => return self::suite(cluster, &suite).await,
        }
    }
    let mut input = side_by_side(&runs);
    for entry in &mut input.entries {
        entry.results = results::of(cluster, &entry.run).await?;
    }
    Ok(input)
}

/// The file of a local run or suite in the directory at `path`.
fn file_in(path: &Path) -> Option<PathBuf> {
    [REPORT_FILE, RUN_FILE].map(|name| path.join(name)).into_iter().find(|file| file.is_file())
}

/// The cluster of `options`, if some of `names` are those of runs or suites there.
pub async fn cluster_of<'a>(
    options: &client::Options,
    names: impl IntoIterator<Item = &'a String>,
) -> Result<Option<Cluster>, Error> {
    let Some(name) = names.into_iter().find(|name| !is_path(name)) else { return Ok(None) };
    let connected = Cluster::connect(options).await;
    connected.map(Some).map_err(|error| Error::NoCluster(error, name.clone()))
}

/// Ends of the names of files, which no run or suite has.
const ENDS: [&str; 5] = ["json", "csv", "yaml", "yml", "html"];

/// Whether `name` is a path, not the name of a run or suite in a cluster, whether it exists or not.
pub fn is_path(name: &str) -> bool {
    let path = Path::new(name);
    let in_cluster =
        name.split_once('/').is_some_and(|(kind, name)| Kind::parse(kind).is_some() && !name.is_empty());
    name.starts_with(['.', '~'])
        || name.contains('/') && !in_cluster
        || path.is_file()
        || file_in(path).is_some()
        || path.extension().is_some_and(|end| ENDS.iter().any(|known| end == *known))
}

/// Refuses a path that names the same file as an earlier one.
pub fn refuse_twice<'a>(paths: impl IntoIterator<Item = &'a str>) -> Result<(), Error> {
    let file = |name: &str| file_in(Path::new(name)).unwrap_or_else(|| PathBuf::from(name));
    let mut seen = BTreeSet::new();
    let mut paths = paths.into_iter();
    let twice = paths.find(|path| {
        let file = file(path);
        !seen.insert(file.canonicalize().unwrap_or(file))
    });
    twice.map_or(Ok(()), |path| Err(Error::Twice(path.to_owned())))
}

/// What the file at `path` holds, or that of a local run in this directory.
pub fn file(path: &Path) -> Result<Source, Error> {
    if path.is_dir() {
        let file = file_in(path).ok_or_else(|| Error::Directory(path.display().to_string()))?;
        return self::file(&file);
    }
    let name = path.display().to_string();
    if !path.exists() {
        return Err(Error::Missing(name));
    }
    match path.extension().and_then(|end| end.to_str()) {
        Some("yaml" | "yml") => return Err(Error::Manifest(name)),
        Some("html") => return Err(Error::Page(name)),
        _ => {}
    }
    let text = fs::read_to_string(path).map_err(|error| Error::File(error, name))?;
    if path.extension().is_some_and(|end| end == "csv") {
        return Ok(Source::Published(text));
    }
    let mut source = from_json(&text).map_err(|error| Error::Json(error, path.display().to_string()))?;
    if let Source::Measured(input) = &mut source {
        for entry in &mut input.entries {
            entry.results = results_beside(path, &entry.run)?;
        }
    }
    Ok(source)
}

/// The results of `run` that a local run stores beside its run.json; none beside another file.
fn results_beside(path: &Path, run: &BenchmarkRun) -> Result<Vec<RepetitionResult>, Error> {
    if path.file_name().is_none_or(|name| name != RUN_FILE) {
        return Ok(Vec::new());
    }
    let phases = run.status.iter().flat_map(|status| &status.phases);
    let names = phases.flat_map(|phase| &phase.repetitions).map(|repetition| &repetition.config_map);
    let files = names.map(|name| path.with_file_name("results").join(format!("{name}.json")));
    files.filter(|file| file.exists()).map(|file| result_file(&file)).collect()
}

fn result_file(file: &Path) -> Result<RepetitionResult, Error> {
    let name = || file.display().to_string();
    let text = fs::read_to_string(file).map_err(|error| Error::File(error, name()))?;
    serde_json::from_str(&text).map_err(|error| Error::Json(error, name()))
}

fn from_json(text: &str) -> Result<Source, serde_json::Error> {
    let value: Value = serde_json::from_str(text)?;
    if value["kind"] != "BenchmarkRun" {
        return Ok(Source::Made(Box::new(serde_json::from_str(text)?)));
    }
    let run: BenchmarkRun = serde_json::from_value(value)?;
    Ok(Source::Measured(Box::new(side_by_side(&[run]))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use dragstrip_report::json;

    #[test]
    fn what_looks_like_a_path_is_one_whether_it_exists_or_not() {
        let place = tempfile::tempdir().unwrap();
        let directory = place.path().to_str().unwrap();
        for name in ["./run", "/nowhere", "runs/", "results/first", "main.json", "run.yaml", directory] {
            assert!(is_path(name), "{name}");
        }
        for name in ["redis-read", "suite/engines", "run", "benchmarkrun/a"] {
            assert!(!is_path(name), "{name}");
        }
        let missing = file(Path::new("/nowhere")).unwrap_err().to_string();
        assert_eq!(missing, "there is no file or directory /nowhere");
        let manifest = place.path().join("run.yaml");
        std::fs::write(&manifest, "kind: BenchmarkRun").unwrap();
        let manifest = file(&manifest).unwrap_err().to_string();
        assert!(manifest.contains("run.yaml is a manifest"), "{manifest}");
        let empty = file(place.path()).unwrap_err().to_string();
        assert!(
            empty.starts_with(directory) && empty.contains("neither report.json nor run.json"),
            "{empty}"
        );
        let report = json::render(&Document { title: "engines".into(), ..Document::default() });
        std::fs::write(place.path().join(REPORT_FILE), report).unwrap();
        let Ok(Source::Made(document)) = file(place.path()) else { panic!("the suite has a report") };
        assert_eq!(document.title, "engines");
    }

    #[test]
    fn one_result_under_two_names_is_refused() {
        let place = tempfile::tempdir().unwrap();
        let (directory, run) = (place.path(), place.path().join(RUN_FILE));
        std::fs::write(&run, "{}").unwrap();
        let (directory, run) = (directory.to_str().unwrap(), run.to_str().unwrap());
        for paths in [[directory, directory], [directory, run], ["/nowhere", "/nowhere"]] {
            let error = refuse_twice(paths).unwrap_err().to_string();
            assert!(error.contains("is named twice"), "{paths:?}: {error}");
        }
        refuse_twice([run, "/nowhere"]).unwrap();
    }

    #[test]
    fn a_file_is_a_run_or_a_report_by_its_content() {
        let run = r#"{"apiVersion": "dragstrip.dev/v1alpha1", "kind": "BenchmarkRun", "metadata": {"name": "a"},
            "spec": {"target": {"datastoreRef": {"name": "r"}}, "phases": [{"name": "read", "loadgen": {"duration": "5s"}}]}}"#;
        let Ok(Source::Measured(input)) = from_json(run) else { panic!("a run is measured") };
        assert_eq!((input.title.as_str(), input.entries.len()), ("a", 1));
        let report = json::render(&Document { title: "engines".into(), ..Document::default() });
        let Ok(Source::Made(document)) = from_json(&report) else { panic!("it is a finished report") };
        assert_eq!(document.title, "engines");
        assert!(from_json("{\"rows\": 7}").is_err(), "this is neither");
    }
}
