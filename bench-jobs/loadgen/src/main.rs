//! The `dragstrip-loadgen` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    dragstrip_loadgen::main()
}
