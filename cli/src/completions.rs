//! `dragstrip completions`: scripts for shells. Pure.

use crate::output::print;
use clap::{Args, Command};
use clap_complete::Shell;
use std::process::ExitCode;

#[derive(Debug, Clone, Args)]
pub struct Options {
    /// Print the script for this shell.
    pub shell: Shell,
}

pub fn completions(mut command: Command, options: &Options) -> Result<ExitCode, print::Error> {
    // A shell completes programs by their file names. For `kubectl dragstrip` it calls kubectl,
    // which calls kubectl_complete-dragstrip.
    let name = command.get_bin_name().unwrap_or("dragstrip").replace(' ', "-");
    let mut script = Vec::new();
    clap_complete::generate(options.shell, &mut command, name, &mut script);
    print::print(&String::from_utf8_lossy(&script))?;
    Ok(ExitCode::SUCCESS)
}
