//! What the tests of several modules start from.

pub mod fake_dragonfly;
pub mod fixtures;
