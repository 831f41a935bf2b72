//! The rules of Dragstrip: from what is declared and what was observed to the next step, the merged
//! result, the verdict and the status. The operator applies them to an API server, the command line
//! to processes of one machine. Nothing here has a client, a clock or an environment.

// Tests hand over json!(..) literals, which a reference would only make longer.
#![cfg_attr(test, allow(clippy::needless_pass_by_value))]

pub mod datastore;
pub mod digest;
pub mod env;
pub mod labels;
pub mod lease;
pub mod loads;
pub mod nodes;
pub mod pods;
pub mod problem;
pub mod run;
pub mod schema;
pub mod suite;
pub mod trouble;
pub mod warnings;

// The operator's tests use the same fixtures, which name this crate as they would from there.
#[cfg(test)]
extern crate self as dragstrip_core;
#[cfg(test)]
#[path = "../tests/fixtures/mod.rs"]
mod fixtures;
