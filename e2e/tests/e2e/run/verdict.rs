//! What a run's result says besides its figures.

mod evidence;
mod findings;
mod memory;
mod provoked;
mod thresholds;
