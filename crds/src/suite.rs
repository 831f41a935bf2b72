//! `BenchmarkSuite`: variants and axes, measured fairly, and compared.

mod status;
mod template;

pub use status::{
    BaselineStatus, BenchmarkSuiteStatus, ComparisonVerdict, ReportStatus, RowStatus, SuitePhase,
    SuiteProgress,
};
pub use template::{DECIDED_BY_SUITE, RunTemplate, TargetTemplate};

use crate::{thresholds::Threshold, units::Period};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// A value put into the spec of a BenchmarkRun.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Patch {
    /// Where: a JSON pointer (RFC 6901) into the run's spec, such as
    /// /phases/0/memtier/pipeline or /target/datastore/threads.
    #[schemars(length(min = 2, max = 256))]
    pub path: String,
    /// What: any value, such as 10, "1Gi", true or {cpu: "2"}.
    #[schemars(schema_with = "any_value")]
    pub value: Value,
}

/// One of the things that are compared.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Variant {
    /// Its name, unique in the suite, such as redis-8. At most 40 characters of a-z, 0-9, . and -.
    #[schemars(length(min = 1, max = 40))]
    #[x_kube(validation = Rule::new("self.matches('^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$')")
        .message("a variant's name is made of a-z, 0-9, . and -, and begins and ends with a letter or digit"))]
    pub name: String,
    /// What is measured, as a run's target: datastore (made for each run), datastoreRef or external.
    pub target: TargetTemplate,
    /// What else is different in its runs, such as
    /// `[{path: /phases/0/memtier/requestsPerConnection, value: 2000000}]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub patches: Vec<Patch>,
    /// What readers of the report should know of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1024))]
    pub note: Option<String>,
}

/// Something that is varied: each of its values with each of every other axis, for each variant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Axis {
    /// Its name, unique in the suite and none of a report's own columns (variant, phase, value and
    /// the like), such as pipeline. At most 30 characters of a-z, 0-9 and -.
    #[schemars(length(min = 1, max = 30))]
    #[x_kube(validation = Rule::new("self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')")
        .message("an axis' name is made of a-z, 0-9 and -, and begins and ends with a letter or digit"))]
    pub name: String,
    /// Where each value is put: JSON pointers into the run's spec, such as
    /// [/phases/0/memtier/pipeline]. None where each value has patches of its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub paths: Vec<String>,
    /// Its values, in the order in which reports show them.
    #[schemars(length(min = 1, max = 256))]
    pub values: Vec<AxisValue>,
}

/// A value of an axis: `{value: 10}`, or one with a name, such as `{name: large, value: 1024}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AxisValue {
    /// What reports call it; the value itself if omitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 40))]
    pub name: Option<String>,
    /// What is put at the axis' paths: any value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "any_value")]
    pub value: Option<Value>,
    /// What else it changes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub patches: Vec<Patch>,
}

/// Combinations that are left out: those that match all that is said here.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Exclusion {
    /// The variant; any if omitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
    /// By axis the name of a value, such as `{pipeline: "10"}`; any of axes that are not named.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub values: BTreeMap<String, String>,
}

/// The order of a suite's runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Order {
    /// The first repetition of all combinations, shuffled, then the second, shuffled anew: what
    /// drifts hits all alike.
    #[default]
    Interleaved,
    /// All repetitions of one combination, then those of the next.
    Sequential,
}

/// What becomes of a suite of which a run fails.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum OnRunFailure {
    /// The other runs are made all the same.
    #[default]
    Continue,
    /// No further run is made.
    Stop,
}

/// A published table in a ConfigMap.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PublishedTable {
    /// Name of the ConfigMap, in the suite's namespace.
    #[schemars(length(min = 1, max = 253))]
    pub config_map: String,
    /// Its key. Defaults to published.csv.
    #[serde(default = "default_key")]
    #[schemars(length(min = 1, max = 253))]
    pub key: String,
}

fn default_key() -> String {
    "published.csv".to_owned()
}

/// What the suite's numbers are compared with: exactly one of the four.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[x_kube(
    validation = Rule::new("[has(self.variant), has(self.suite), has(self.previous) && self.previous, has(self.published)].filter(x, x).size() == 1")
        .message("baseline needs exactly one of variant, suite, previous and published"),
)]
pub struct Baseline {
    /// A variant of this suite: each combination with that variant's of the same values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 40))]
    pub variant: Option<String>,
    /// An earlier suite in the same namespace that is Succeeded: each combination with the one
    /// of the same variant and values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub suite: Option<String>,
    /// With schedule: the last round before that Passed, so that a regression is reported until
    /// it is mended; where none did, the last that measured anything. Defaults to false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub previous: bool,
    /// A published table, with columns variant, one for each axis, phase, operation, metric and value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub published: Option<PublishedTable>,
}

fn default_repetitions() -> i32 {
    3
}

fn default_parallelism() -> i32 {
    1
}

fn default_max_runs() -> i32 {
    1000
}

fn default_history() -> i32 {
    3
}

fn any_value(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({"x-kubernetes-preserve-unknown-fields": true})
}

/// Variants and axes, measured by BenchmarkRuns and compared. Once the suite has started,
/// what it measures and in which order cannot be changed: variants, run, axes, exclude,
/// repetitions, order, seed, and whether it has a schedule. One with `schedule` can always be
/// changed, for the rounds to come.
#[derive(CustomResource, Debug, Clone, PartialEq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "dragstrip.dev",
    version = "v1alpha1",
    kind = "BenchmarkSuite",
    plural = "benchmarksuites",
    doc = "Variants and axes, measured fairly and compared.",
    namespaced,
    status = "BenchmarkSuiteStatus",
    derive = "PartialEq",
    shortname = "suite",
    category = "dragstrip",
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Done", type_ = "integer", json_path = ".status.progress.done"),
    printcolumn(name = "Of", type_ = "integer", json_path = ".status.progress.total"),
    printcolumn(name = "Left s", type_ = "integer", json_path = ".status.progress.secondsLeft"),
    printcolumn(name = "Best", type_ = "string", json_path = ".status.best.cell"),
    printcolumn(name = "Passed", type_ = "string", json_path = ".status.conditions[?(@.type==\"Passed\")].status"),
    printcolumn(name = "Message", type_ = "string", json_path = ".status.message", priority = 1),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    selectable = ".status.finishedAt",
    selectable = ".spec.ttlAfterFinished",
    validation = Rule::new("self.metadata.name.size() <= (has(self.spec.schedule) ? 43 : 52)")
        .message("metadata.name must be at most 52 characters, and 43 with schedule: the names of its runs and rounds are made from it"),
    validation = Rule::new("!has(oldSelf.status) || !has(oldSelf.status.startedAt) || (has(self.spec.schedule) == has(oldSelf.spec.schedule) && self.spec.variants == oldSelf.spec.variants && self.spec.run == oldSelf.spec.run && (has(self.spec.axes) ? self.spec.axes : []) == (has(oldSelf.spec.axes) ? oldSelf.spec.axes : []) && (has(self.spec.exclude) ? self.spec.exclude : []) == (has(oldSelf.spec.exclude) ? oldSelf.spec.exclude : []) && self.spec.repetitions == oldSelf.spec.repetitions && self.spec.order == oldSelf.spec.order && self.spec.seed == oldSelf.spec.seed)")
        .message("the suite has started: make a new BenchmarkSuite for other variants, axes, exclusions, repetitions, order or runs, or to have a schedule"),
)]
#[cfg_attr(any(test, feature = "cel"), kube(cel))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[x_kube(
    validation = Rule::new("!has(self.baseline) || !has(self.baseline.variant) || self.variants.exists(v, v.name == self.baseline.variant)")
        .message("baseline.variant is the name of one of the variants")
        .field_path(".baseline"),
    validation = Rule::new("!has(self.baseline) || !has(self.baseline.previous) || !self.baseline.previous || has(self.schedule)")
        .message("baseline.previous compares the rounds of a schedule: set schedule, or name a suite")
        .field_path(".baseline"),
    validation = Rule::new("!has(self.thresholds) || has(self.baseline) || self.thresholds.all(t, !has(t.relativeTo) || t.relativeTo == 'Nothing')")
        .message("a threshold with relativeTo: Baseline needs a baseline")
        .field_path(".thresholds"),
)]
pub struct BenchmarkSuiteSpec {
    /// What is compared, such as `[{name: redis-8, target: {datastore: {engine: Redis, version: "8.0"}}}]`;
    /// from 1 to 64.
    #[schemars(length(min = 1, max = 64))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub variants: Vec<Variant>,
    /// How each is measured: the spec of a BenchmarkRun without its target.
    pub run: RunTemplate,
    /// What is varied, such as
    /// `[{name: pipeline, paths: [/phases/0/memtier/pipeline], values: [{value: 1}, {value: 10}]}]`.
    /// Nothing if omitted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub axes: Vec<Axis>,
    /// Combinations that are left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    pub exclude: Vec<Exclusion>,
    /// How many runs measure each combination, from 1 to 99. Defaults to 3. Each has a server of
    /// its own where the variant has a datastore; repetitions within one are run.repetitions.
    #[serde(default = "default_repetitions")]
    #[schemars(range(min = 1, max = 99))]
    pub repetitions: i32,
    /// The order of the runs: Interleaved (repetition by repetition, shuffled) or Sequential
    /// (one combination after the other). Defaults to Interleaved.
    #[serde(default)]
    pub order: Order,
    /// What the shuffling starts from: the same seed gives the same order. Defaults to 0.
    #[serde(default)]
    pub seed: i64,
    /// How many runs may be under way at once, from 1 to 64; each still needs nodes of its
    /// own, or waits. Defaults to 1.
    #[serde(default = "default_parallelism")]
    #[schemars(range(min = 1, max = 64))]
    pub parallelism: i32,
    /// Continue, or Stop at the first run that fails. Defaults to Continue.
    #[serde(default)]
    pub on_failure: OnRunFailure,
    /// The most runs that this suite may make: more are refused before the first is made, with
    /// their number. From 1 to 10000, default 1000. Their report is made in the operator's memory:
    /// more than about 1800 need more than the chart's limit, and are refused until it is raised.
    #[serde(default = "default_max_runs")]
    #[schemars(range(min = 1, max = 10000))]
    pub max_runs: i32,
    /// What the numbers are compared with, such as `{variant: redis-8}`. Nothing if omitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baseline: Option<Baseline>,
    /// What the numbers must be for the suite to pass.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub thresholds: Vec<Threshold>,
    /// Compare also what was measured under other conditions than the baseline (another
    /// machine, kernel or tool): the differences are reported either way. Defaults to false: such
    /// rows are not compared, and relative thresholds on them not met.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub compare_anyway: bool,
    /// Make no further runs for now; those under way end. Defaults to false.
    #[serde(default)]
    pub suspend: bool,
    /// Stop the suite and the runs under way; what was measured stays. Defaults to false.
    #[serde(default)]
    pub cancel: bool,
    /// Make a round of this suite, a BenchmarkSuite of its own, at these times, as cron writes
    /// them in UTC, such as "0 3 * * *". One round, which is the suite itself, if omitted. A
    /// time at which the last round is still under way is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 9, max = 100))]
    pub schedule: Option<String>,
    /// How many rounds that passed a schedule keeps, from 0 to 100. Defaults to 3.
    #[serde(default = "default_history")]
    #[schemars(range(min = 0, max = 100))]
    pub passed_history_limit: i32,
    /// How many rounds that did not pass a schedule keeps, from 0 to 100. Defaults to 3.
    #[serde(default = "default_history")]
    #[schemars(range(min = 0, max = 100))]
    pub failed_history_limit: i32,
    /// Remove the suite and its runs this long after it finished, such as 168h. Kept if omitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_after_finished: Option<Period>,
}

#[cfg(test)]
mod tests;
