//! What was observed of a run: its target, its turn, its Jobs and its stored results. Pure.

pub mod attempts;
pub mod fetched;
pub mod identity;
pub mod snapshot;
pub mod state;
pub mod stored_result;
pub mod target;
