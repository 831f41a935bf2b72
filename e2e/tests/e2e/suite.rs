//! Suites: their life, and the comparisons they end with.

mod life;
mod long;
