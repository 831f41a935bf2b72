//! `BenchmarkSuite`: variants and axes, measured and compared.

mod status;
mod template;

pub use status::{
    BaselineStatus, BenchmarkSuiteStatus, ComparisonVerdict, RatioStatus, ReportStatus, RowStatus,
    SuitePhase, SuiteProgress,
};
pub use template::{DECIDED_BY_SUITE, RunTemplate, TargetTemplate};

use crate::{
    defaults::int,
    thresholds::{MetricName, Threshold},
    units::{Decimal, Period, decimal_between},
};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_with::skip_serializing_none;
use std::collections::BTreeMap;

/// A change to the spec of a BenchmarkRun.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Patch {
    /// JSON pointer (RFC 6901) into the run's spec, such as /phases/0/memtier/pipeline or
    /// /target/datastore/threads.
    #[schemars(length(min = 2, max = 256))]
    pub path: String,
    /// Any value, such as 10, "1Gi", true or {cpu: "2"}.
    #[schemars(schema_with = "any_value")]
    pub value: Value,
}

/// One of the compared servers or settings.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Variant {
    /// Name, unique in the suite, such as redis-8: at most 40 characters of a-z, 0-9, . and -.
    #[schemars(length(min = 1, max = 40))]
    #[x_kube(validation = Rule::new("self.matches('^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$')")
        .message("a variant's name is made of a-z, 0-9, . and -, and begins and ends with a letter or digit"))]
    pub name: String,
    /// The run's target: datastore (created for each run), datastoreRef or external.
    pub target: TargetTemplate,
    /// Other changes to its runs, such as
    /// `[{path: /phases/0/memtier/requestsPerConnection, value: 2000000}]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub patches: Vec<Patch>,
    /// Note for readers of the report.
    #[schemars(length(min = 1, max = 1024))]
    pub note: Option<String>,
}

/// A setting that varies: each of its values is combined with each value of every other axis, for each
/// variant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Axis {
    /// Name, unique in the suite, such as pipeline: at most 30 characters of a-z, 0-9 and -. It cannot
    /// be the name of a report column, such as variant, phase or value.
    #[schemars(length(min = 1, max = 30))]
    #[x_kube(validation = Rule::new("self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')")
        .message("an axis' name is made of a-z, 0-9 and -, and begins and ends with a letter or digit"))]
    pub name: String,
    /// JSON pointers into the run's spec where each value goes, such as [/phases/0/memtier/pipeline].
    /// None if each value has its own patches.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub paths: Vec<String>,
    /// The values, in the order of reports.
    #[schemars(length(min = 1, max = 256))]
    pub values: Vec<AxisValue>,
}

/// A value of an axis: `{value: 10}`, or one with a name, such as `{name: large, value: 1024}`.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AxisValue {
    /// Name in reports. Defaults to the value.
    #[schemars(length(min = 1, max = 40))]
    pub name: Option<String>,
    /// The value for the axis' paths: any value. Only the patches apply if omitted.
    #[serde(default)]
    #[schemars(schema_with = "any_value")]
    pub value: Option<Value>,
    /// Other changes to the runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub patches: Vec<Patch>,
}

/// Combinations to leave out: those that match every field.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Exclusion {
    /// Name of the variant. Any if omitted.
    pub variant: Option<String>,
    /// Names of values by axis, such as `{pipeline: "10"}`. Any value of other axes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub values: BTreeMap<String, String>,
}

/// The largest difference of a metric that is called Same.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Margin {
    /// The metric, such as OperationsPerSecond.
    pub metric: MetricName,
    /// The difference as a share of the baseline's figure, from 0.001 to 1, such as "0.03".
    #[x_kube(validation = Rule::new(decimal_between("0.001", "1.0")).message("a margin is a share from 0.001 to 1"))]
    pub share: Decimal,
}

/// The order of a suite's runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Order {
    /// The first repetition of all combinations, shuffled, then the second, shuffled again, so that a
    /// drift affects all alike.
    #[default]
    Interleaved,
    /// All repetitions of one combination, then those of the next.
    Sequential,
}

/// What a suite does if a run fails.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum OnRunFailure {
    /// Create the other runs.
    #[default]
    Continue,
    /// Create no further run.
    Stop,
}

/// A published table in a ConfigMap.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PublishedTable {
    /// Name of a ConfigMap in the suite's namespace.
    #[schemars(length(min = 1, max = 253))]
    pub config_map: String,
    /// Key in the ConfigMap. Defaults to published.csv.
    #[serde(default = "default_key")]
    #[schemars(length(min = 1, max = 253))]
    pub key: String,
}

fn default_key() -> String {
    "published.csv".to_owned()
}

/// What to compare the suite with: at least one of these. The first that is set, in this order, is
/// that of thresholds and the status.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[x_kube(
    validation = Rule::new("[has(self.variant), has(self.above) && self.above, has(self.suite), has(self.previous) && self.previous, has(self.published)].exists(x, x)")
        .message("baseline needs at least one of variant, above, suite, previous and published"),
    validation = Rule::new("!has(self.suite) || !has(self.previous) || !self.previous")
        .message("baseline.previous is the suite of an earlier round: leave baseline.suite out"),
)]
pub struct Baseline {
    /// A variant of this suite, at the same values.
    #[schemars(length(min = 1, max = 40))]
    pub variant: Option<String>,
    /// For each variant the one declared above it, at the same values: what each step of a list of
    /// improvements gained. Defaults to false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub above: bool,
    /// An earlier suite in the same namespace in phase Succeeded, at the same variant and values.
    #[schemars(length(min = 1, max = 253))]
    pub suite: Option<String>,
    /// With schedule: the last round that Passed, so that a regression is reported until it is fixed;
    /// if none did, the last with a measurement. It does not show slow changes, such as 1 % each round:
    /// use dragstrip history for those. Defaults to false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub previous: bool,
    /// A published table, with columns variant, one for each axis, phase, operation, metric and value.
    pub published: Option<PublishedTable>,
}

fn any_value(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({"x-kubernetes-preserve-unknown-fields": true})
}

/// Variants and axes, measured by BenchmarkRuns and compared. After the suite has started, variants,
/// run, axes, exclude, repetitions, order, seed, and whether it has a schedule cannot change. A suite
/// with `schedule` can change for later rounds.
#[skip_serializing_none]
#[derive(CustomResource, Debug, Clone, PartialEq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "dragstrip.dev",
    version = "v1alpha1",
    kind = "BenchmarkSuite",
    plural = "benchmarksuites",
    doc = "Variants and axes, measured and compared.",
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
    /// From 1 to 64 variants to compare, such as `[{name: redis-8, target: {datastore: {engine: Redis, version: "8.0"}}}]`.
    #[schemars(length(min = 1, max = 64))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub variants: Vec<Variant>,
    /// How to measure each: the spec of a BenchmarkRun without target.
    pub run: RunTemplate,
    /// Settings that vary, such as
    /// `[{name: pipeline, paths: [/phases/0/memtier/pipeline], values: [{value: 1}, {value: 10}]}]`.
    /// None if omitted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub axes: Vec<Axis>,
    /// Combinations to leave out. None if omitted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    pub exclude: Vec<Exclusion>,
    /// Number of runs of each combination, from 1 to 99, each with its own server if the variant has a
    /// datastore. Repetitions against one server are run.repetitions. Defaults to 3.
    #[serde(default = "int::<3>")]
    #[schemars(range(min = 1, max = 99))]
    pub repetitions: i32,
    /// Order of the runs: Interleaved (repetition by repetition, shuffled) or Sequential (one
    /// combination after the other). Defaults to Interleaved.
    #[serde(default)]
    pub order: Order,
    /// Seed of the shuffling: the same seed gives the same order. Defaults to 0.
    #[serde(default)]
    pub seed: i64,
    /// Number of runs at a time, from 1 to 64. Each needs its own nodes or waits. Defaults to 1.
    #[serde(default = "int::<1>")]
    #[schemars(range(min = 1, max = 64))]
    pub parallelism: i32,
    /// Continue, or Stop at the first failed run. Defaults to Continue.
    #[serde(default)]
    pub on_failure: OnRunFailure,
    /// Largest number of runs, from 1 to 10000. A suite with more is refused before its first run.
    /// The report of more than about 1800 runs needs more memory than the chart's limit, and such a
    /// suite is refused until the limit is raised. Defaults to 1000.
    #[serde(default = "int::<1000>")]
    #[schemars(range(min = 1, max = 10000))]
    pub max_runs: i32,
    /// What to compare the results with, such as `{variant: redis-8}`; of several, such as
    /// `{variant: redis-8, published: {configMap: theirs}}`, the report has a ratio to each, and relative
    /// thresholds and the status are about the first of variant, above, suite, previous and published.
    /// Nothing if omitted.
    pub baseline: Option<Baseline>,
    /// Limits of the figures. The suite passes only within all of them. None if omitted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub thresholds: Vec<Threshold>,
    /// Largest differences that are called Same, by metric, such as
    /// `[{metric: P99Milliseconds, share: "0.1"}]`. Smaller differences are neither Better nor Worse.
    /// Defaults to 0.05 for latencies and 0.03 for all other metrics.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 19))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["metric".into()]))]
    pub margins: Vec<Margin>,
    /// Compare results that were measured under other conditions than the baseline (another machine,
    /// kernel or tool). The report shows the differences in both cases. Defaults to false: such rows
    /// are not compared, and their relative thresholds fail.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub compare_anyway: bool,
    /// Create no further runs; current runs end. Defaults to false.
    #[serde(default)]
    pub suspend: bool,
    /// Stop the suite and its current runs, and keep the results. Defaults to false.
    #[serde(default)]
    pub cancel: bool,
    /// Times, in UTC and cron's format, at which to create a round of this suite, its own
    /// BenchmarkSuite, such as "0 3 * * *". A time at which the last round still runs is skipped. If
    /// omitted, the suite runs once.
    #[schemars(length(max = 100))]
    pub schedule: Option<String>,
    /// Number of passed rounds to keep, from 0 to 100; dragstrip history reads them. Defaults to 3.
    #[serde(default = "int::<3>")]
    #[schemars(range(min = 0, max = 100))]
    pub passed_history_limit: i32,
    /// Number of failed rounds to keep, from 0 to 100; dragstrip history reads them. Defaults to 3.
    #[serde(default = "int::<3>")]
    #[schemars(range(min = 0, max = 100))]
    pub failed_history_limit: i32,
    /// Remove the suite and its runs this long after it finished, such as 168h. Never if omitted.
    pub ttl_after_finished: Option<Period>,
}

#[cfg(test)]
mod tests;
