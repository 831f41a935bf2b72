//! The Dragstrip operator. Each kind is one module whose reconcile reads as
//! fetch (client), validate (pure), decide or build (pure), apply (client),
//! status (client); what they share of the cluster is in [`cluster`].

// The program's main is the only user: a comment stands where the name does not say enough.
#![allow(missing_docs)]
// Tests hand over json!(..) literals, which a reference would only make longer.
#![cfg_attr(test, allow(clippy::needless_pass_by_value))]

pub mod cluster;
pub mod context;
pub mod datastore;
pub mod failure;
#[cfg(test)]
#[path = "../../core/tests/fixtures/mod.rs"]
mod fixtures;
pub mod metrics;
mod objects;
mod pod_settings;
pub mod process;
pub mod run;
mod shutdown;
pub mod suite;
