//! Shared by the controllers of all kinds: watches, writes, events, Leases, and why a pod does not run.

pub mod apply;
pub mod client;
pub mod context;
pub mod events;
pub mod feed;
pub mod finished;
pub mod leader;
pub mod lease;
pub mod loads;
pub mod overlay;
pub mod parts;
pub mod pods;
pub mod retry;
pub mod scope;
pub mod settings;
pub mod signing_key;
pub mod undecodable;
pub mod warnings;
pub mod world;
