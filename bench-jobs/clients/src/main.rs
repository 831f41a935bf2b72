//! The `dragstrip-clients` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    dragstrip_clients::main()
}
