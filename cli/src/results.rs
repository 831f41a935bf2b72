//! The stored results that a run's status points to. [`of`] needs the client,
//! the rest is pure.

use dragstrip_crds::{BenchmarkRun, result::RepetitionResult};
use flate2::read::GzDecoder;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client};
use std::io::Read;

/// Key of the compressed result in its ConfigMap.
const KEY: &str = "result.json.gz";

/// A stored result could not be had.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The ConfigMap could not be read.
    #[error("failed to read ConfigMap {1}")]
    Read(#[source] Box<kube::Error>, String),
    /// It holds no result.
    #[error("ConfigMap {0} holds no {KEY}")]
    Absent(String),
    /// What it holds cannot be understood.
    #[error("failed to read the result in ConfigMap {1}")]
    Unpack(#[source] std::io::Error, String),
}

/// The gzipped JSON of one repetition.
fn unpack(bytes: &[u8]) -> std::io::Result<RepetitionResult> {
    let mut json = String::new();
    GzDecoder::new(bytes).read_to_string(&mut json)?;
    Ok(serde_json::from_str(&json)?)
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
    for name in phases.flat_map(|phase| &phase.repetitions).map(|repetition| &repetition.config_map) {
        let config_map = api.get(name).await.map_err(|error| Error::Read(Box::new(error), name.clone()))?;
        let bytes = config_map.binary_data.and_then(|mut data| data.remove(KEY));
        let bytes = bytes.ok_or_else(|| Error::Absent(name.clone()))?;
        results.push(unpack(&bytes.0).map_err(|error| Error::Unpack(error, name.clone()))?);
    }
    Ok(results)
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::{Compression, write::GzEncoder};
    use std::io::Write;

    #[test]
    fn a_result_is_read_as_it_was_stored_and_half_of_it_not_at_all() {
        let text = include_str!("../tests/two-pods.json");
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(text.as_bytes()).unwrap();
        let bytes = encoder.finish().unwrap();
        assert_eq!(unpack(&bytes).unwrap(), serde_json::from_str(text).unwrap());
        assert!(unpack(&bytes[..bytes.len() / 2]).is_err());
    }
}
