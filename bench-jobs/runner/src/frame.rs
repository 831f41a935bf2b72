//! The frame of the process: its environment, its clocks, its output, and its end.

pub mod clock;
pub mod environment;
pub mod failure;
pub mod install;
pub mod isolation;
pub mod stdout;
pub mod stop;
