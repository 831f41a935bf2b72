//! Dragstrip's own load generator for RESP datastores, as a library.
//!
//! [`run::run`] carries out a [`configuration::Configuration`] and returns a
//! [`report::Report`]; the `dragstrip-loadgen` binary adds a command line
//! ([`cli`]) and output ([`output`]). A program that only wants to read results
//! needs [`report`] and nothing else.
//!
//! The generator is a closed loop: each connection writes a batch of requests,
//! awaits all replies and goes on. With a rate it is an open loop: requests
//! leave when they are due, whatever the server does. It opens sockets to the server it is told,
//! writes the files it is told, and changes nothing else but its own limit of
//! open files.

mod assemble;
pub mod batches;
pub mod cli;
mod clock;
mod closed_loop;
mod cluster;
pub mod configuration;
mod connect;
mod connection;
mod cpu;
mod decimal;
mod echo;
mod errors;
mod exchange;
pub mod exit;
mod follow;
pub mod histogram;
pub mod keys;
pub mod libraries;
mod link;
mod mix;
mod open_loop;
pub mod operations;
mod outgoing;
pub mod output;
mod recorder;
mod redirect;
pub mod replay;
mod replies;
pub mod report;
mod requests;
pub mod run;
pub mod scanner;
pub mod schedule;
mod slots;
mod stream;
mod supervise;
pub mod template;
pub mod tls;
mod values;
mod worker;
