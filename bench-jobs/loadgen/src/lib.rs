//! Dragstrip's own load generator for RESP datastores, as a library. A run goes
//! through four rooms:
//!
//! - [`workload`]: what to send: keys, values, operations, the mix of them.
//! - [`driver`]: the loop: threads, connections, when each request leaves.
//! - [`wire`]: connections, encryption, replies, clusters.
//! - [`counts`]: what was counted, and the report made of it.
//!
//! [`driver::run::run`] carries out a [`configuration::Configuration`] and returns
//! a [`counts::report::Report`]; the `dragstrip-loadgen` binary adds a command line
//! ([`cli`]) and output ([`process`]). A program that only wants to read results
//! needs [`counts::report`] and nothing else.
//!
//! The generator is a closed loop: each connection writes a batch of requests,
//! awaits all replies and goes on. With a rate it is an open loop: requests
//! leave when they are due, whatever the server does. It opens sockets to the server it is told,
//! writes the files it is told, and changes nothing else but its own limit of
//! open files.

pub mod cli;
pub mod configuration;
pub mod counts;
pub mod driver;
pub mod process;
mod program;
pub mod wire;
pub mod workload;

pub use program::main;
