//! The crates of the workspace, as `cargo metadata` lists them.

use std::{path::PathBuf, process::Command};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

/// Crates that serve development alone: all of their lines count as tests.
const TEST_CRATES: [&str; 8] = [
    "dragstrip-bench-operator",
    "dragstrip-count",
    "dragstrip-e2e",
    "dragstrip-fault-proxy",
    "dragstrip-model",
    "dragstrip-parser-checks",
    "dragstrip-simulate",
    "dragstrip-specifications",
];

/// A member of the workspace.
pub struct Crate {
    pub name: String,
    pub directory: PathBuf,
    /// The files where its library and programs begin; none for a crate that only tests.
    pub roots: Vec<PathBuf>,
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    manifest_path: PathBuf,
    targets: Vec<Target>,
}

#[derive(Deserialize)]
struct Target {
    kind: Vec<String>,
    src_path: PathBuf,
}

pub fn list() -> Result<Vec<Crate>> {
    let output = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["metadata", "--no-deps", "--format-version", "1"])
        .output()
        .context("failed to start cargo")?;
    ensure!(output.status.success(), "cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr));
    let metadata: Metadata =
        serde_json::from_slice(&output.stdout).context("failed to decode cargo metadata")?;
    let mut crates = metadata.packages.into_iter().map(Package::into_crate).collect::<Result<Vec<_>>>()?;
    crates.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(crates)
}

impl Package {
    fn into_crate(self) -> Result<Crate> {
        let is_test = TEST_CRATES.contains(&self.name.as_str());
        let roots = self.targets.into_iter().filter(|target| !is_test && target.is_production());
        let roots = roots.map(|target| target.src_path).collect();
        let directory = self.manifest_path.parent().context("a manifest has no directory")?.to_owned();
        Ok(Crate { name: self.name, directory, roots })
    }
}

impl Target {
    fn is_production(&self) -> bool {
        self.kind.iter().any(|kind| ["lib", "bin", "custom-build"].contains(&kind.as_str()))
    }
}
