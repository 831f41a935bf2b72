//! Whether a result may be believed: counts compared with the servers' own, the verdict, and
//! the thresholds that a user declares. Every limit that is not the user's is in [`limits`].

pub mod commands;
pub mod complaints;
pub mod confirmation;
pub mod counters;
pub mod limits;
pub mod schedule;
pub mod thresholds;
pub mod verdict;
