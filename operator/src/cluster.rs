//! What the kinds share of the cluster's API: applying objects, events, Leases,
//! facts about nodes and pods, and the HTTP side of runners and observers.

pub mod apply;
pub mod events;
pub mod feed;
pub mod finished;
pub mod leader;
pub mod lease;
pub mod overlay;
pub mod pods;
pub mod retry;
pub mod scope;
pub mod signing_key;
pub mod undecodable;
pub mod warnings;
pub mod world;
