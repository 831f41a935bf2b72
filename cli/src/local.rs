//! `dragstrip run --local`: runs without a cluster, with servers, runners and observers as children.

mod children;
mod clients;
mod command;
mod conduct;
mod cpus;
mod directory;
mod options;
mod plan;
mod programs;
mod progress;
mod server;
mod settings;
mod suites;
mod warden;

pub use command::run;
pub use options::{Options, REPORT_FILE, RUN_FILE};
pub use programs::other_program;
