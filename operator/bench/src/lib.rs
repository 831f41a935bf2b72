//! A cluster without kubelets, the operator on it, and the runners of its pods: for this crate's
//! measurements and for other crates' tests.

pub mod arguments;
pub mod cluster;
pub mod kubelet;
pub mod operator;
pub mod runners;
