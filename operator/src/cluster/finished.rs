//! A run or suite that has ended, as far as the operator still cares: whether it has, and
//! when it is to be removed. Any version's can be read so. Pure.

use dragstrip_crds::{BenchmarkRun, BenchmarkSuite, units::Period};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::Resource;
use serde::{Deserialize, Serialize};

/// A BenchmarkRun without most of it.
#[derive(Debug, Clone, Resource, Serialize, Deserialize)]
#[resource(inherit = BenchmarkRun)]
pub struct FinishedRun {
    /// Its name, namespace and uid.
    pub metadata: ObjectMeta,
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: Option<Status>,
}

/// A BenchmarkSuite without most of it.
#[derive(Debug, Clone, Resource, Serialize, Deserialize)]
#[resource(inherit = BenchmarkSuite)]
pub struct FinishedSuite {
    /// Its name, namespace and uid.
    pub metadata: ObjectMeta,
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: Option<Status>,
}

/// What is removed some time after it ended.
pub trait Expires: Resource<DynamicType = ()> {
    /// When that is; never where it is not declared or cannot be read.
    fn expires_at(&self) -> Option<Timestamp>;
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    /// A text, so that one which this version cannot read stops no other.
    ttl_after_finished: Option<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    finished_at: Option<Time>,
}

fn end(status: Option<&Status>) -> Option<Timestamp> {
    Some(status?.finished_at.as_ref()?.0)
}

fn expiry(spec: &Spec, status: Option<&Status>) -> Option<Timestamp> {
    let period: Period = spec.ttl_after_finished.as_ref()?.parse().ok()?;
    Some(end(status)?.saturating_add(period.signed()).unwrap_or(Timestamp::MAX))
}

impl FinishedRun {
    /// When it ended, if it has: that is a record, which stays true.
    pub fn finished_at(&self) -> Option<Timestamp> {
        end(self.status.as_ref())
    }

    /// Leaves nothing in memory that nobody reads.
    pub(super) fn prune(&mut self) -> bool {
        (self.metadata.annotations, self.metadata.labels) = (None, None);
        true
    }
}

impl FinishedSuite {
    /// Leaves nothing in memory that nobody reads.
    pub(super) fn prune(&mut self) -> bool {
        (self.metadata.annotations, self.metadata.labels) = (None, None);
        true
    }
}

impl Expires for FinishedRun {
    fn expires_at(&self) -> Option<Timestamp> {
        expiry(&self.spec, self.status.as_ref())
    }
}

impl Expires for FinishedSuite {
    fn expires_at(&self) -> Option<Timestamp> {
        expiry(&self.spec, self.status.as_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(ttl: &str, status: serde_json::Value) -> FinishedRun {
        serde_json::from_value(serde_json::json!({
            "metadata": {"name": "sprint"}, "spec": {"ttlAfterFinished": ttl, "phases": "of another version"},
            "status": status
        }))
        .unwrap()
    }

    #[test]
    fn a_run_expires_its_time_after_its_end() {
        let ended = serde_json::json!({"finishedAt": "2026-01-01T00:00:00Z"});
        let expires = |ttl: &str| run(ttl, ended.clone()).expires_at();
        assert_eq!(expires("1h30m"), Some("2026-01-01T01:30:00Z".parse().unwrap()));
        assert_eq!(expires("30s5m"), None, "what cannot be read removes nothing");
        assert_eq!(run("1h", serde_json::json!({})).expires_at(), None, "a run under way never expires");
    }
}
