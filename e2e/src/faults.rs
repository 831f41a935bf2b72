//! Faults of the testbed. Whatever was stopped is started again when its
//! [`Fault`] goes out of scope, however the test ends.

use crate::checkout;
use anyhow::{Context, Result, bail};
use std::process::{Command, Stdio};

/// Whether the cluster is the testbed's own, whose faults can be made.
pub fn local() -> bool {
    std::env::var("CLUSTER").map_or(true, |cluster| cluster == "local")
}

/// Runs testbed/cluster.
pub fn testbed(arguments: &[&str]) -> Result<()> {
    let program = checkout().join("testbed/cluster");
    let output = Command::new(&program)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot run {}", program.display()))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("testbed/cluster {} failed: {said}", arguments.join(" "));
    }
    Ok(())
}

/// Stopped components of the cluster.
#[must_use = "the fault ends when this goes out of scope"]
pub struct Fault {
    components: Vec<String>,
}

impl Fault {
    /// Stops a part of the control plane.
    pub fn stop(component: &str) -> Result<Self> {
        Self::make(vec![component.to_owned()], &[])
    }

    /// Kills the node of this name with all that runs on it.
    pub fn kill_node(node: &str) -> Result<Self> {
        let name = node
            .strip_prefix("dragstrip-")
            .with_context(|| format!("{node} is not a node of the testbed"))?;
        Self::make(vec![format!("kubelet:{name}"), format!("containerd:{name}")], &["--with-pods"])
    }

    fn make(components: Vec<String>, options: &[&str]) -> Result<Self> {
        // Made first: what was half stopped must be started too.
        let fault = Self { components };
        let mut arguments = vec!["stop"];
        arguments.extend(fault.components.iter().map(String::as_str));
        arguments.extend(options);
        testbed(&arguments)?;
        Ok(fault)
    }

    /// Starts them again, in the opposite order: a kubelet needs its containerd.
    pub fn mend(mut self) -> Result<()> {
        self.start()
    }

    fn start(&mut self) -> Result<()> {
        if self.components.is_empty() {
            return Ok(());
        }
        let mut arguments = vec!["start"];
        arguments.extend(self.components.iter().rev().map(String::as_str));
        testbed(&arguments)?;
        self.components.clear();
        Ok(())
    }
}

impl Drop for Fault {
    fn drop(&mut self) {
        if let Err(error) = self.start() {
            eprintln!("the cluster is left broken, run 'testbed/cluster up': {error:#}");
        }
    }
}
