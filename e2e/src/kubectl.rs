//! kubectl, for what users do with it and for commands inside pods.

use anyhow::{Context, Result, bail};
use std::{process::Stdio, time::Duration};
use tokio::{io::AsyncWriteExt, process::Command};

/// What a kubectl command printed and whether it succeeded.
#[derive(Debug)]
pub struct Output {
    /// Whether it exited with 0.
    pub success: bool,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

/// Runs kubectl with `arguments`, `input` on its standard input.
pub async fn run(arguments: &[&str], input: &str) -> Result<Output> {
    let mut child = Command::new("kubectl")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .context("kubectl is not on PATH: eval \"$(testbed/cluster env)\"")?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(input.as_bytes()).await?;
    }
    let output = tokio::time::timeout(Duration::from_secs(60), child.wait_with_output())
        .await
        .with_context(|| format!("kubectl {arguments:?} did not end within a minute"))??;
    Ok(Output {
        success: output.status.success(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
}

/// Runs kubectl; an error when it fails.
pub async fn must(arguments: &[&str], input: &str) -> Result<String> {
    let output = run(arguments, input).await?;
    if !output.success {
        bail!("kubectl {arguments:?} failed: {}{}", output.stdout, output.stderr);
    }
    Ok(output.stdout)
}
