//! The frame of the process: its input, its clocks, its output, and its end.

pub mod clock;
pub mod failure;
pub mod install;
pub mod job;
pub mod stdout;
pub mod stop;
