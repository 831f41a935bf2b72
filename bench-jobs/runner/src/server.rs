//! The target's servers: reaches and identifies them, checks whether a load may start and
//! whether its numbers hold, and joins them.

pub mod access;
pub mod check;
pub mod connection;
pub mod counters;
pub mod flush;
pub mod gate;
pub mod info;
pub mod joining;
pub mod members;
pub mod nodes;
pub mod preflight;
pub mod resolve;
pub mod slots;
pub mod truth;
