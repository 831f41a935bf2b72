//! The `dragstrip-runner` program. One thread: it shares its CPUs with the tool
//! it runs, or with the server it observes.

use clap::Parser as _;
use dragstrip_runner::cli::Cli;
use std::process::ExitCode;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    Cli::parse().execute().await
}
