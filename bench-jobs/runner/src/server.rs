//! The target's servers: reaches, identifies and joins them, and checks them before and after a load.

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
