//! What a parser found. Everything a tool did not print is absent.

use dragstrip_crds::measured::Metric;
use dragstrip_results::{commands, result::Operation};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One tool's output, read.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Parsed {
    /// Per operation, without a total, in the order of the output. One that may have run before or
    /// after the others has a rate of its own.
    pub operations: Vec<Operation>,
    /// Figures of other kinds, in the order of the output.
    pub metrics: Vec<Metric>,
    /// Seconds by the tool's account, of all operations together or the only one.
    pub seconds: Option<f64>,
    /// When the load began, in nanoseconds of Unix time by the tool's clock.
    pub start_unix_nanos: Option<i64>,
    /// Operations of all kinds per whole second since the load began, if reported.
    pub per_second: Vec<u64>,
    pub connections: Option<u64>,
    /// Requests that each of them sends before it awaits their replies.
    pub pipeline: Option<u64>,
    /// Error replies by their first word, if the tool distinguishes them.
    pub errors: BTreeMap<String, u64>,
    /// What the tool calls itself.
    pub tool: Option<Tool>,
    /// Why some of the output must be missing; the numbers are then those of
    /// the complete records before the cut. No such result should count.
    pub incomplete: Option<String>,
}

/// The tool that measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Tool {
    /// Its name.
    #[schemars(length(min = 1, max = 128))]
    pub name: String,
    /// Its version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub version: Option<String>,
}

impl Tool {
    /// A tool that does not print its version.
    pub(crate) fn named(name: &str) -> Self {
        Self { name: name.to_owned(), version: None }
    }
}

/// An operation of which only the name is known, which may begin with a command's.
pub(crate) fn named(name: &str) -> Operation {
    let commands = commands::named(name).into_iter().collect();
    Operation { name: name.to_owned(), commands, ..Operation::default() }
}

/// The name of a figure of `operation` in a result: `SET ns/op`.
pub(crate) fn metric_name(operation: Option<&str>, name: &str) -> String {
    operation.map_or_else(|| name.to_owned(), |operation| format!("{operation} {name}"))
}
