//! The operator's program.

use clap::Parser;
use dragstrip_operator::{Arguments, run};
use std::process::ExitCode;

// The operator mostly waits: a thread for each CPU of a large node would only cost memory.
#[tokio::main(worker_threads = 2)]
async fn main() -> ExitCode {
    Box::pin(run(Arguments::parse())).await
}
