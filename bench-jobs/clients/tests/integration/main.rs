//! Runs the real binary against real redis servers on free loopback ports.
//!
//! Needs `redis-server` on the PATH; touches only temporary directories.

#[cfg(test)]
mod cluster;
#[cfg(test)]
mod libraries;
#[cfg(test)]
#[path = "../../../loadgen/tests/integration/notation.rs"]
mod notation;
#[cfg(test)]
#[path = "../../../loadgen/tests/integration/support.rs"]
#[allow(dead_code)] // the load generator's tests use all of it
mod support;

/// What is tested.
#[cfg(test)]
const PROGRAM: &str = env!("CARGO_BIN_EXE_dragstrip-clients");
