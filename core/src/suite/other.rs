//! A suite as far as another one cares: its round, or what it is compared with. Any version's
//! can be read so, and nothing else of it stays in memory. Pure.

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
    /// Its name, whose it is, and when it was made.
    pub metadata: ObjectMeta,
    /// What of its declaration counts.
    #[serde(default)]
    pub spec: Spec,
    /// How it stands.
    #[serde(default)]
    pub status: Status,
}

/// What of a suite's declaration counts.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Spec {
    /// Whether it was told to stop.
    #[serde(default)]
    pub cancel: bool,
}

/// How a suite stands.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
    /// A text, so that a phase of another version stops nothing.
    pub phase: String,
    pub finished_at: Option<Time>,
    /// How far it has come.
    pub progress: Option<SuiteProgress>,
    pub report: Option<ReportStatus>,
    /// What it says of having passed.
    pub conditions: Vec<Condition>,
}

impl Status {
    /// Where the report is of one that measured all that it was to measure.
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
        assert!(partial.complete().is_none(), "a part is no baseline");
        assert_eq!(SuitePhase::Succeeded.to_string(), "Succeeded", "that is what a whole one's says");
        let new: OtherSuite = serde_json::from_value(json!({"metadata": {"name": "n"}})).unwrap();
        assert_eq!(new.status.finished_at, None);
    }
}
