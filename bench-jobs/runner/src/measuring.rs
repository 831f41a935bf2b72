//! Reads what containers, processes, threads, machines and networks use.

pub mod activity;
pub mod cgroup;
pub mod host;
pub mod network;
pub mod pace;
pub mod processes;
pub mod round_trip;
pub mod settings;
pub mod threads;
pub mod usage;
