//! Joining servers: the real observer, real redis-servers, and what
//! befalls them.

// A helper of a test is a test too, which clippy cannot see.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod certificates;
mod cluster;
mod encryption;
mod replication;
#[path = "../support/signing.rs"]
mod signing;
mod support;
