//! What to send: keys, values, operations and their mix, encoded as requests, and
//! the schedule of an open loop. No sockets, no clock.

pub(crate) mod decimal;
pub mod keys;
pub mod mix;
pub mod operations;
pub(crate) mod requests;
pub mod schedule;
pub mod streams;
pub mod template;
mod values;
