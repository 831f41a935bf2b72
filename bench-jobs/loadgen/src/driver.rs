//! The loop: starts the load threads, drives their connections, decides when each
//! request leaves and when the run ends.

pub mod clock;
mod closed_loop;
mod connection;
pub mod cpu;
mod follow;
mod link;
pub(crate) mod open_loop;
pub mod phase;
pub mod progress;
pub mod replay;
pub mod run;
mod supervise;
pub(crate) mod worker;
