//! A stored result, as far as its metadata shows it: enough to decide on. Pure.

use super::{identity::Identity, target::Connection};
use crate::labels;
use dragstrip_results::{result::PodFailure, search::SearchPoint, stored};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// A stored result and its Job, which may be gone.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StoredResult {
    /// Why its numbers must not be used; absent when they may be.
    pub failure: Option<PodFailure>,
    /// The `run_id` of every server its clients saw; empty if none is known.
    pub server_run_ids: Vec<String>,
    /// When its load had ended; absent if its annotation is damaged.
    pub load_ended: Option<Timestamp>,
    /// Whether the servers' memory was read after the settle time.
    pub settled: bool,
    /// The start line, if the Job had one.
    pub start: Option<Timestamp>,
    /// What the server was when the Job was made.
    pub identity: Option<Identity>,
    /// Digest of the spec that it was measured by; absent if its annotation is damaged.
    pub spec_hash: Option<String>,
    /// How its clients reached the Datastore.
    pub connection: Option<Connection>,
    /// Which point of a search it is, and its figures.
    pub point: Option<SearchPoint>,
}

/// The start line written on a Job, or stored with its result.
pub fn start_line(metadata: &ObjectMeta) -> Option<Timestamp> {
    instant(metadata, labels::START_AT)
}

fn instant(metadata: &ObjectMeta, key: &str) -> Option<Timestamp> {
    let nanos: i128 = annotation(metadata, key)?.parse().ok()?;
    Timestamp::from_nanosecond(nanos).ok()
}

/// What the server was when a Job was made, from the Job or from its result.
pub fn identity(metadata: &ObjectMeta) -> Option<Identity> {
    serde_json::from_str(annotation(metadata, labels::SERVER_IDENTITY)?).ok()
}

pub fn annotation<'a>(metadata: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    metadata.annotations.as_ref()?.get(key).map(String::as_str)
}

/// What `metadata` of the first ConfigMap of a result shows.
pub fn stored_result(metadata: &ObjectMeta) -> Result<StoredResult, stored::Error> {
    let stored::Mark { failure, server_run_ids, point } = stored::mark(metadata)?;
    Ok(StoredResult {
        failure,
        server_run_ids,
        load_ended: instant(metadata, stored::LOAD_ENDED_AT),
        // Shown by an object of its own.
        settled: false,
        start: start_line(metadata),
        identity: identity(metadata),
        spec_hash: annotation(metadata, labels::SPEC_HASH).map(str::to_owned),
        connection: annotation(metadata, labels::CONNECTION).and_then(|json| serde_json::from_str(json).ok()),
        point,
    })
}
