//! How figures are compared. Pure.

use crate::figures::default_margin;
use dragstrip_crds::suite::Margin;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How to compare.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Rules {
    /// The largest differences that are called none, by metric, where they are not the default.
    pub margins: Vec<Margin>,
    /// Compare combinations even if they ran under different conditions.
    pub anyway: bool,
    /// All combinations were measured once before any was measured again: each repetition is a block.
    pub in_blocks: bool,
}

impl Rules {
    pub(crate) fn margin(&self, metric: &str) -> f64 {
        let declared = self.margins.iter().find(|margin| margin.metric.to_string() == metric);
        declared.map_or_else(|| default_margin(metric), |margin| margin.share.value())
    }
}
