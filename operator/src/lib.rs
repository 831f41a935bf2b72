//! The Dragstrip operator. Each kind is one module whose reconcile reads as fetch (client), validate
//! (pure), decide or build (pure), apply (client), status (client); `cluster` has what they share.

// Tests pass json!(..) literals, which a reference would only make longer.
#![cfg_attr(test, allow(clippy::needless_pass_by_value))]

mod cluster;
mod datastore;
mod expiry;
mod failure;
#[cfg(test)]
#[path = "../../core/tests/fixtures/mod.rs"]
mod fixtures;
mod heavy;
mod metrics;
mod objects;
mod pod_settings;
mod process;
mod run;
mod shutdown;
mod suite;

pub use process::{Arguments, run};
