//! The loop: starts the load threads, drives their connections, decides when each
//! request leaves and when the run ends.

mod client;
pub mod clock;
mod connector;
pub mod cpu;
mod event_loop;
mod link;
pub(crate) mod pacer;
pub mod phase;
pub mod progress;
pub mod run;
mod supervise;
pub(crate) mod worker;
