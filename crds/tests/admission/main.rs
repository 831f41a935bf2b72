//! What the apiserver admits, what our types read, and what `kubectl explain`
//! says: tried on the CRDs' own schemas, without a cluster.

mod documentation;
mod refusals;
mod same_strings;
mod schema;
