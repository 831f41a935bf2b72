//! A finished run or suite, reduced to its end and its expiry, which every version can read. Pure.

use dragstrip_crds::{BenchmarkRun, BenchmarkSuite, units::Period};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::Resource;
use serde::Deserialize;

/// A kind that the operator deletes some time after the end.
pub trait Expires: Resource<DynamicType = ()> {
    /// When it expires; `None` if the spec declares no period or this version cannot read it.
    fn expires_at(&self) -> Option<Timestamp>;
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    /// A string, so that a value which this version cannot read blocks no other object.
    ttl_after_finished: Option<String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    finished_at: Option<Time>,
}

/// Declares the reduced form of each kind.
macro_rules! finished {
    ($($(#[$doc:meta])* $name:ident of $kind:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Resource, Deserialize)]
        #[resource(inherit = $kind)]
        pub struct $name {
            /// Its name, namespace and uid.
            pub metadata: ObjectMeta,
            #[serde(default)]
            spec: Spec,
            #[serde(default)]
            status: Status,
        }

        impl $name {
            pub fn finished_at(&self) -> Option<Timestamp> {
                self.status.finished_at.as_ref().map(|end| end.0)
            }

            /// Removes what nobody reads.
            pub(super) fn prune(&mut self) -> bool {
                (self.metadata.annotations, self.metadata.labels) = (None, None);
                true
            }
        }

        impl Expires for $name {
            fn expires_at(&self) -> Option<Timestamp> {
                let period: Period = self.spec.ttl_after_finished.as_ref()?.parse().ok()?;
                Some(self.finished_at()?.saturating_add(period.signed()).unwrap_or(Timestamp::MAX))
            }
        }
    )*};
}

finished! {
    FinishedRun of BenchmarkRun;
    FinishedSuite of BenchmarkSuite;
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
