//! What two runs must have in common so that their figures can be compared.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What was measured, on which machines and with which tool.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ComparabilityStatus {
    /// Digest of all facts: runs with the same key can be compared.
    pub key: String,
    /// The facts, sorted by name.
    pub facts: Vec<Fact>,
}

/// One fact of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Fact {
    /// Name in one of the groups server, client, machine and workload, such as server.version.
    pub name: String,
    /// Value; different ones are joined by commas.
    pub value: String,
}
