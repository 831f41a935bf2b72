//! A node's disk: one for its pods' logs that can be full, and an image that can be missing.

use crate::witness::nodes;
use anyhow::{Context, Result, ensure};
use std::{fs::File, io::Write as _, path::PathBuf, process::Command};

/// Enough for the logs of a run's clients.
const SIZE: &str = "size=1m";

fn run(program: &str, arguments: &[&str]) -> Result<()> {
    let output = Command::new(program).args(arguments).output().with_context(|| program.to_owned())?;
    let reported = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{program} {arguments:?}: {reported}");
    Ok(())
}

/// A small disk that holds the logs of a node's pods for as long as this exists.
pub struct SmallDisk {
    path: PathBuf,
}

impl SmallDisk {
    /// Mounts it for the node of this name, without `dragstrip-`.
    pub fn new(node: &str) -> Result<Self> {
        let path = nodes().join(node).join("pod-logs");
        run("mount", &["-t", "tmpfs", "-o", SIZE, "tmpfs", &path.to_string_lossy()])?;
        Ok(Self { path })
    }

    fn filler(&self) -> PathBuf {
        self.path.join("filler")
    }

    /// Leaves no byte of it free.
    pub fn fill(&self) -> Result<()> {
        let mut file = File::create(self.filler())?;
        // It fails once no space is left.
        while file.write_all(&[0; 512]).is_ok() {}
        Ok(())
    }

    /// Frees it.
    pub fn empty(&self) -> Result<()> {
        Ok(std::fs::remove_file(self.filler())?)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        if let Err(error) = run("umount", &["-l", &self.path.to_string_lossy()]) {
            eprintln!("{} is still on a small disk: {error:#}", self.path.display());
        }
    }
}

const IMAGE: &str = concat!("dragstrip.dev/runner:", env!("CARGO_PKG_VERSION"));
const HIDDEN: &str = "dragstrip.dev/hidden:1";

fn images(node: &str, arguments: &[&str]) -> Result<()> {
    let socket = nodes().join(node).join("containerd.sock");
    let socket = socket.to_string_lossy();
    let fixed = ["--address", &*socket, "--namespace", "k8s.io", "images"];
    run("ctr", &[&fixed, arguments].concat())
}

/// Takes the runner's image from a node.
pub fn hide_image(node: &str) -> Result<()> {
    images(node, &["tag", "--force", IMAGE, HIDDEN])?;
    images(node, &["rm", IMAGE])
}

/// Gives it back.
pub fn restore_image(node: &str) -> Result<()> {
    images(node, &["tag", "--force", HIDDEN, IMAGE])?;
    images(node, &["rm", HIDDEN])
}
