//! What two runs must have in common for their figures to be compared.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What was measured, on what and with what, as it was seen.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ComparabilityStatus {
    /// Digest of all facts: two runs with the same key measured the same on the same.
    pub key: String,
    /// The facts, in the order of their names.
    pub facts: Vec<Fact>,
}

/// One fact of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Fact {
    /// Its name, such as server.version: of the groups server, client, machine and workload.
    pub name: String,
    /// Its value; of several that differ all of them, with commas in between.
    pub value: String,
}
