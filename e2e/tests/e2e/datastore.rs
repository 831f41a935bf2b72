//! Datastores: engines, topologies, and where their pods land.

mod engines;
pub mod placement;
mod pods;
mod seccomp;
mod strangers;
mod topologies;
