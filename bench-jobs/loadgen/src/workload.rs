//! What to send: keys, values, operations and their mix, encoded as requests, and
//! the schedule of an open loop. No sockets, no clock.

pub mod keys;
pub(crate) mod mix;
pub(crate) mod operations;
pub(crate) mod requests;
pub(crate) mod schedule;
pub mod streams;
pub(crate) mod template;

pub use mix::OperationIndex;
pub use operations::{Found, whole_seconds, within};
