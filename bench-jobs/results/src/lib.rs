//! What a result is, for all parts of Dragstrip that make, carry, store or read
//! one: what was measured ([`result`], [`histogram`], [`live`], [`statistics`]), what a
//! server counted meanwhile ([`observed`]) and what both sides used ([`usage`]), how that
//! is judged ([`commands`], [`counters`], [`complaints`], [`verdict`]), what runners and the operator tell each other
//! ([`protocol`]), how commands are signed ([`signing`]), where a search stands ([`search`]) and how the cluster keeps it ([`stored`]).
//!
//! Pure: no client, no clock, no environment, no file.

pub mod commands;
pub mod complaints;
pub mod counters;
pub mod error_chain;
pub mod histogram;
pub mod live;
pub mod memory;
pub mod observed;
pub mod protocol;
pub mod ranges;
pub mod result;
pub mod search;
pub mod signing;
pub mod statistics;
pub mod stored;
pub mod thresholds;
pub mod usage;
pub mod verdict;
