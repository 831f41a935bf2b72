//! Systems other than Linux have no local runs: the runner reads what Linux reports of processes.

#[path = "options.rs"]
mod options;

pub use options::{Options, REPORT_FILE, RUN_FILE};

use std::process::ExitCode;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("run --local needs Linux: use a virtual machine or a container, or run in a cluster")]
    NeedsLinux,
}

pub async fn run(_: Options) -> Result<ExitCode, Error> {
    Err(Error::NeedsLinux)
}

/// The work of a helper program that this process was started as; here there are none.
pub fn other_program() -> Option<ExitCode> {
    None
}
