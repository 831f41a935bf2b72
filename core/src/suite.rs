//! A suite: its runs, their order, what to do next, and the rounds of a schedule. Pure.

mod axes;
pub mod decide;
pub mod expand;
pub mod other;
mod paths;
mod rights;
pub mod round;
pub mod schedule;
pub mod validate;
