//! Shared by the controllers of all kinds: watches, writes, events, Leases.

pub mod apply;
pub mod client;
pub mod context;
pub mod events;
pub mod feed;
pub mod finished;
pub mod leader;
pub mod lease;
pub mod overlay;
pub mod parts;
pub mod retry;
pub mod scope;
pub mod settings;
pub mod signing_key;
pub mod undecodable;
pub mod world;

pub use dragstrip_core::{loads, pods, warnings};
