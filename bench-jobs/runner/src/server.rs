//! The target's servers: how to reach them, what they are, whether a load may start and
//! whether its numbers hold, and how to join them.

pub mod access;
pub mod check;
pub mod connection;
pub mod counters;
pub mod encryption;
pub mod flush;
pub mod gate;
pub mod info;
pub mod joining;
pub mod members;
pub mod preflight;
pub mod resolve;
pub mod tls_files;
pub mod truth;
