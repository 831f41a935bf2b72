//! `dragstrip completions`: what a shell needs to complete commands. Pure.

use crate::output;
use clap::{Args, Command};
use clap_complete::Shell;
use std::process::ExitCode;

/// For which shell.
#[derive(Debug, Clone, Args)]
pub struct Options {
    /// The shell.
    pub shell: Shell,
}

/// Writes the script for a shell.
pub fn completions(mut command: Command, options: &Options) -> Result<ExitCode, output::Error> {
    // A shell completes programs by the names of their files. Of `kubectl dragstrip` it asks
    // kubectl, which asks kubectl_complete-dragstrip.
    let name = command.get_bin_name().unwrap_or("dragstrip").replace(' ', "-");
    let mut script = Vec::new();
    clap_complete::generate(options.shell, &mut command, name, &mut script);
    output::print(&String::from_utf8_lossy(&script))?;
    Ok(ExitCode::SUCCESS)
}
