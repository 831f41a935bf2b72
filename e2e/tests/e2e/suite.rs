//! Suites: their life, and the comparisons they end with.

pub mod life;
mod long;
