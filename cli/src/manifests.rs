//! Manifests: read from files, and checked as the API server and the operator would check them.

mod admission;
pub mod check;
pub mod documents;
pub mod kind;
mod rules;
pub mod validate;
