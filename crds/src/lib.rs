//! The Kubernetes API: the kinds ([`datastore`], [`run`], [`suite`]), what their specs and
//! statuses are made of, and their validation rules. Nothing else.
//!
//! Pure: no client, no clock, no environment, no file.

// Tests hand over json!(..) literals, which a reference would only make longer.
#![cfg_attr(test, allow(clippy::needless_pass_by_value))]

pub mod conditions;
pub mod datastore;
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
