//! What the apiserver admits, what our types read, and what `kubectl explain`
//! says: tried on the CRDs' own schemas, without a cluster.

// Whoever reads a schema here knows what it holds.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod documentation;
mod pods;
mod refusals;
mod same_strings;
mod schema;
