//! `dragstrip run --local`: runs without a cluster. Servers, runners and observers are
//! child processes of this one. The runner reads what Linux tells of processes: elsewhere
//! there are no local runs.

#[cfg(target_os = "linux")]
mod children;
#[cfg(target_os = "linux")]
mod clients;
#[cfg(target_os = "linux")]
mod conduct;
#[cfg(target_os = "linux")]
mod cpus;
#[cfg(target_os = "linux")]
mod keep;
#[cfg(target_os = "linux")]
mod manifests;
#[cfg(target_os = "linux")]
mod origin;
#[cfg(target_os = "linux")]
mod plan;
#[cfg(target_os = "linux")]
mod programs;
#[cfg(target_os = "linux")]
mod screen;
#[cfg(target_os = "linux")]
mod server;
#[cfg(target_os = "linux")]
mod settings;
#[cfg(target_os = "linux")]
mod suites;
#[cfg(target_os = "linux")]
mod warden;

#[cfg(target_os = "linux")]
pub use conduct::{Error, run};
#[cfg(target_os = "linux")]
pub use programs::other_program;

use clap::Args;
use std::path::PathBuf;
#[cfg(not(target_os = "linux"))]
use std::process::ExitCode;

/// File of a local run's directory with the run and its status.
pub const RUN: &str = "run.json";

/// What a local run is told.
#[derive(Debug, Clone, Args)]
pub struct Options {
    /// Manifests: files with Datastores, BenchmarkRuns and BenchmarkSuites; - is standard input.
    #[arg(short, long = "filename", value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// Program of an engine's server, such as Redis=/opt/redis/redis-server; the engine's
    /// usual name on PATH when absent.
    #[arg(long, value_name = "ENGINE=PATH", requires = "local")]
    pub server_binary: Vec<String>,
    /// Directory for the results; one in the user's cache, named after the run and the time, when absent.
    #[arg(long, value_name = "DIRECTORY", requires = "local")]
    pub output_directory: Option<PathBuf>,
}

/// A local run that could not be made.
#[cfg(not(target_os = "linux"))]
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There are none here.
    #[error("run --local needs Linux: use a virtual machine or a container, or run in a cluster")]
    NotHere,
}

/// Says that there are no local runs here.
#[cfg(not(target_os = "linux"))]
pub async fn run(_: Options) -> Result<ExitCode, Error> {
    Err(Error::NotHere)
}

/// This program does no other's work here.
#[cfg(not(target_os = "linux"))]
pub fn other_program() -> Option<ExitCode> {
    None
}
