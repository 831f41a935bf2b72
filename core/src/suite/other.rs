//! The part of a suite that another suite reads of its round or its baseline. Nothing else of it
//! stays in memory, and fields that this operator cannot decode do not matter. Pure.

use dragstrip_crds::{
    BenchmarkSuite,
    suite::{ReportStatus, SuiteProgress},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta, Time};
use kube::Resource;
use serde::{Deserialize, Serialize};

/// A BenchmarkSuite without most of it.
#[derive(Debug, Clone, Resource, Serialize, Deserialize)]
#[resource(inherit = BenchmarkSuite)]
pub struct OtherSuite {
    /// Its name, its owner and its creation.
    pub metadata: ObjectMeta,
    /// The part of its declaration that counts.
    #[serde(default)]
    pub spec: Spec,
    #[serde(default)]
    pub status: Status,
}

/// The part of a suite's declaration that counts.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Spec {
    #[serde(default)]
    pub cancel: bool,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
    /// A text, so that an unknown phase is not an error.
    pub phase: String,
    pub finished_at: Option<Time>,
    pub progress: Option<SuiteProgress>,
    pub report: Option<ReportStatus>,
    pub conditions: Vec<Condition>,
}

impl Status {
    /// Where the report of a complete suite is.
    pub fn complete(&self) -> Option<&ReportStatus> {
        self.report.as_ref().filter(|_| self.phase == "Succeeded")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dragstrip_crds::suite::SuitePhase;
    use serde_json::json;

    #[test]
    fn a_suite_of_another_version_is_read_all_the_same() {
        let suite: OtherSuite = serde_json::from_value(json!({
            "metadata": {"name": "nightly-1"}, "spec": {"variants": "of another version", "cancel": true},
            "status": {"phase": "Succeeded", "rows": 7, "report": {"configMap": "nightly-1-report", "parts": 1}}
        }))
        .unwrap();
        assert!(suite.spec.cancel && suite.status.complete().is_some(), "{suite:?}");
        let partial = Status { phase: SuitePhase::Cancelled.to_string(), ..suite.status };
        assert!(partial.complete().is_none(), "a cancelled suite is not a baseline");
        assert_eq!(SuitePhase::Succeeded.to_string(), "Succeeded", "complete() compares with that");
        let new: OtherSuite = serde_json::from_value(json!({"metadata": {"name": "n"}})).unwrap();
        assert_eq!(new.status.finished_at, None);
    }
}
