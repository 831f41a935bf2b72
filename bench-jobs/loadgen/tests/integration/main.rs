//! Runs the real binary against real redis servers on free loopback ports.
//!
//! Needs `redis-server` on the PATH; touches only temporary directories.

#[cfg(test)]
mod accounting;
#[cfg(test)]
mod cache;
#[cfg(test)]
mod cluster;
#[cfg(test)]
mod failures;
#[cfg(test)]
mod keyspaces;
#[cfg(test)]
mod notation;
#[cfg(test)]
mod operations;
#[cfg(test)]
mod pacing;
#[cfg(test)]
mod support;
#[cfg(test)]
mod transport;

/// What is tested.
#[cfg(test)]
const PROGRAM: &str = env!("CARGO_BIN_EXE_dragstrip-loadgen");
