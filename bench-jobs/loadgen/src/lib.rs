//! Dragstrip's own load generator for RESP datastores, as a library.
//!
//! [`run::run`] carries out a [`configuration::Configuration`] and returns a
//! [`report::Report`]; the `dragstrip-loadgen` binary adds a command line
//! ([`cli`]) and output ([`output`]). A program that only wants to read results
//! needs [`report`] and nothing else.
//!
//! The generator is a closed loop: each connection writes a batch of requests,
//! awaits all replies and goes on. It opens sockets to the server it is told,
//! writes the files it is told, and changes nothing else but its own limit of
//! open files.

mod assemble;
pub mod batches;
pub mod cli;
mod clock;
pub mod configuration;
mod connect;
mod connection;
mod cpu;
pub mod exit;
pub mod histogram;
pub mod keys;
pub mod libraries;
pub mod output;
mod recorder;
pub mod replay;
pub mod report;
mod requests;
pub mod run;
pub mod scanner;
mod worker;
