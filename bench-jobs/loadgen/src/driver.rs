//! The loop: load threads, their connections, when requests leave and the run ends.

mod client;
pub(crate) mod clock;
mod connector;
pub(crate) mod cpu;
mod event_loop;
mod link;
pub(crate) mod pacer;
pub(crate) mod phase;
pub(crate) mod progress;
pub mod run;
mod supervise;
pub(crate) mod worker;

pub use clock::{ClockAnchor, wait_until};
pub use cpu::{ScheduleTimes, allow_open_files};
pub use phase::{Ending, Signals, Stopper};
pub use progress::{Detail, ProgressCounters, ProgressLines};
