//! The Kubernetes API: the kinds ([`datastore`], [`run`], [`suite`]), what their specs and
//! statuses are made of, and their validation rules. Nothing else.
//!
//! Pure: no client, no clock, no environment, no file.

// `kubectl explain` prints them.
#![warn(missing_docs)]
// Tests pass json!(..) literals, which a reference would only make longer.
#![cfg_attr(test, allow(clippy::needless_pass_by_value))]

pub mod conditions;
pub mod datastore;
mod defaults;
pub mod measured;
pub mod near;
pub mod observed;
pub mod pod;
pub mod run;
pub mod suite;
pub mod thresholds;
pub mod units;
pub mod workload;

pub use datastore::{Datastore, DatastoreSpec, DatastoreStatus, Engine};
pub use run::{BenchmarkRun, BenchmarkRunSpec, BenchmarkRunStatus};
pub use suite::{BenchmarkSuite, BenchmarkSuiteSpec, BenchmarkSuiteStatus};

/// The API group of every kind.
pub const GROUP: &str = "dragstrip.dev";

/// Prints values of these enums as manifests name them.
macro_rules! display_names {
    ($($name:ty),+ $(,)?) => {$(
        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Debug::fmt(self, f)
            }
        }
    )+};
}

display_names!(
    Engine,
    run::CheckName,
    run::Limiter,
    run::RunPhase,
    run::Verdict,
    suite::ComparisonVerdict,
    suite::SuitePhase,
    thresholds::MetricName,
    workload::BullmqMode,
);
