//! The stored results that a run's status refers to. Needs the client.

use super::client::Cluster;
use dragstrip_core::labels;
use dragstrip_crds::{BenchmarkRun, BenchmarkSuite, run::PhaseStatus};
use dragstrip_report::document::Document;
use dragstrip_results::{result::RepetitionResult, stored};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, ResourceExt, api::ListParams};
use std::collections::BTreeMap;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("failed to read ConfigMap {1}")]
    Read(#[source] Box<kube::Error>, String),
    #[error("failed to list the results of phase {1}")]
    List(#[source] Box<kube::Error>, String),
    #[error("failed to read the result in ConfigMap {1}")]
    Unpack(#[source] stored::Error, String),
    #[error("failed to read the report in ConfigMap {1}")]
    Report(#[source] serde_json::Error, String),
}

/// The key under which a suite's report begins.
const REPORT: &str = "report.json.gz";
/// Most bytes of one result or report: more than an operator of any version wrote.
const MOST_BYTES: u64 = 1 << 30;

async fn get(api: &Api<ConfigMap>, name: &str) -> Result<ConfigMap, Error> {
    api.get(name).await.map_err(|error| Error::Read(Box::new(error), name.to_owned()))
}

/// The other ConfigMaps of what begins in `first`, by name.
async fn later(api: &Api<ConfigMap>, first: &ConfigMap) -> Result<BTreeMap<String, ConfigMap>, Error> {
    let mut later = BTreeMap::new();
    let parts = stored::later_parts(first).map_err(|error| Error::Unpack(error, first.name_any()))?;
    for part in parts {
        later.insert(part.clone(), get(api, &part).await?);
    }
    Ok(later)
}

/// The stored report of `suite`; `None` if there is none yet.
pub async fn report(cluster: &Cluster, suite: &BenchmarkSuite) -> Result<Option<Document>, Error> {
    let place = suite.status.as_ref().and_then(|status| status.report.as_ref());
    let Some(place) = place else { return Ok(None) };
    let api: Api<ConfigMap> = cluster.api();
    let first = get(&api, &place.config_map).await?;
    let later = later(&api, &first).await?;
    let json = stored::decompress(&first, REPORT, |part| later.get(part), MOST_BYTES);
    let json = json.map_err(|error| Error::Unpack(error, first.name_any()))?;
    serde_json::from_slice(&json).map(Some).map_err(|error| Error::Report(error, first.name_any()))
}

async fn result(api: &Api<ConfigMap>, name: &str) -> Result<RepetitionResult, Error> {
    let first = get(api, name).await?;
    let later = later(api, &first).await?;
    let result = stored::unpack(&first, |part| later.get(part), MOST_BYTES);
    result.map_err(|error| Error::Unpack(error, first.name_any()))
}

/// The ConfigMaps of all good repetitions of `phase`, for a status that is too large to name
/// them: the last measurement of each repetition.
async fn list(api: &Api<ConfigMap>, run: &BenchmarkRun, phase: &str) -> Result<Vec<String>, Error> {
    let uid = run.uid().unwrap_or_default();
    let labels = format!("{}={uid},{}={phase},!{}", labels::RUN_UID, labels::PHASE, stored::PART);
    let list = api.list_metadata(&ListParams::default().labels(&labels)).await;
    let list = list.map_err(|error| Error::List(Box::new(error), phase.to_owned()))?;
    let mut repetitions: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    for found in &list.items {
        if stored::mark(&found.metadata).is_ok_and(|mark| mark.failure.is_none()) {
            let repetition = found.labels().get(labels::REPETITION).and_then(|text| text.parse().ok());
            repetitions.entry(repetition.unwrap_or_default()).or_default().push(found.name_any());
        }
    }
    Ok(repetitions.into_values().flat_map(last_measurement).collect())
}

/// The results of a repetition's last measurement: names of later ones end with a letter.
/// Each point of a search is a result.
fn last_measurement(names: Vec<String>) -> Vec<String> {
    let letter = |name: &String| name.chars().last().filter(char::is_ascii_alphabetic);
    let last = names.iter().map(letter).max().flatten();
    names.into_iter().filter(|name| letter(name) == last).collect()
}

/// The ConfigMaps that the status of `phase` names: of a search, only the knees'.
fn named(phase: &PhaseStatus) -> Vec<String> {
    let all = phase.repetitions.iter().filter(|_| phase.search.is_none());
    all.map(|repetition| repetition.config_map.clone()).collect()
}

/// Every repetition of every phase of `run`, phase by phase.
pub async fn of(cluster: &Cluster, run: &BenchmarkRun) -> Result<Vec<RepetitionResult>, Error> {
    let namespace = run.namespace().unwrap_or_else(|| cluster.namespace.clone());
    let api: Api<ConfigMap> = Api::namespaced(cluster.client.clone(), &namespace);
    let mut results = Vec::new();
    for phase in run.status.iter().flat_map(|status| &status.phases) {
        let named = named(phase);
        let names = if named.is_empty() { list(&api, run, &phase.name).await? } else { named };
        for name in names {
            results.push(result(&api, &name).await?);
        }
    }
    Ok(results)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_measurement_of_a_repetition_is_read() {
        let last = |names: &[&str]| last_measurement(names.iter().map(|name| (*name).to_owned()).collect());
        assert_eq!(last(&["sprint-read-1"]), ["sprint-read-1"]);
        assert_eq!(last(&["sprint-read-1", "sprint-read-1b"]), ["sprint-read-1b"]);
        let points = ["sprint-knee-1p1", "sprint-knee-1p2", "sprint-knee-1p1b", "sprint-knee-1r1b"];
        assert_eq!(last(&points), ["sprint-knee-1p1b", "sprint-knee-1r1b"]);
    }
}
