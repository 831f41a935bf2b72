//! What users rely on, end to end: a real apiserver, scheduler, kubelets,
//! servers and load.

mod admission;
mod bad_input;
mod common;
mod counters;
mod endings;
mod engines;
mod faults;
mod memtier;
mod operator_restarts;
mod placement;
mod queue;
mod quickstart;
mod secrets;
mod server_trouble;
mod timeouts;
