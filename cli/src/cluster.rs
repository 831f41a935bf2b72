//! The commands that work on a cluster.

pub mod apply;
pub mod calibrate;
pub mod cancel;
pub mod client;
pub mod compare;
pub mod doctor;
pub mod follow;
pub mod gather;
pub mod history;
pub mod report;
mod results;
