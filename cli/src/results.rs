//! The stored results that a run's status points to. Needs the client.

use dragstrip_crds::BenchmarkRun;
use dragstrip_results::{result::RepetitionResult, stored};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client, ResourceExt};
use std::collections::BTreeMap;

/// A stored result could not be had.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A ConfigMap could not be read.
    #[error("failed to read ConfigMap {1}")]
    Read(#[source] Box<kube::Error>, String),
    /// What it holds cannot be understood.
    #[error("failed to read the result in ConfigMap {1}")]
    Unpack(#[source] stored::Error, String),
}

async fn get(api: &Api<ConfigMap>, name: &str) -> Result<ConfigMap, Error> {
    api.get(name).await.map_err(|error| Error::Read(Box::new(error), name.to_owned()))
}

async fn result(api: &Api<ConfigMap>, name: &str) -> Result<RepetitionResult, Error> {
    let first = get(api, name).await?;
    let mut later = BTreeMap::new();
    for part in stored::later_parts(&first) {
        later.insert(part.clone(), get(api, &part).await?);
    }
    stored::unpack(&first, |part| later.get(part)).map_err(|error| Error::Unpack(error, first.name_any()))
}

/// Every repetition of every phase of `run`, phase by phase.
pub async fn of(
    client: &Client,
    namespace: &str,
    run: &BenchmarkRun,
) -> Result<Vec<RepetitionResult>, Error> {
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let phases = run.status.iter().flat_map(|status| &status.phases);
    let mut results = Vec::new();
    for repetition in phases.flat_map(|phase| &phase.repetitions) {
        results.push(result(&api, &repetition.config_map).await?);
    }
    Ok(results)
}
