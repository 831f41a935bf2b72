//! Everything two parts of Dragstrip must agree on: the Kubernetes API types
//! ([`datastore`], [`run`]), what runners and the operator tell each other
//! ([`protocol`]), what was measured ([`result`], [`histogram`]) and what a
//! server says about itself ([`observed`]). [`stored`] is how the cluster keeps results.
//!
//! Pure: no client, no clock, no environment, no file.

// Tests hand over json!(..) literals, which a reference would only make longer.
#![cfg_attr(test, allow(clippy::needless_pass_by_value))]

pub mod conditions;
pub mod counters;
pub mod datastore;
pub mod histogram;
pub mod observed;
pub mod protocol;
pub mod result;
pub mod run;
pub mod statistics;
pub mod stored;
pub mod units;
pub mod workload;

pub use datastore::{Datastore, DatastoreSpec, DatastoreStatus, Engine};
pub use run::{BenchmarkRun, BenchmarkRunSpec, BenchmarkRunStatus};

/// The API group of every kind.
pub const GROUP: &str = "dragstrip.dev";
