//! The chart, and upgrades of the operator, as its users make them.

use crate::operator;
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::process::Stdio;
use tokio::process::Command;

const RELEASE: &str = "dragstrip";
const CHART: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../charts/dragstrip");

async fn helm(arguments: &[&str]) -> Result<String> {
    let output = Command::new("helm")
        .args(arguments)
        .args(["--namespace", operator::NAMESPACE])
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await
        .context("helm is not on PATH: eval \"$(testbed/cluster env)\"")?;
    if !output.status.success() {
        bail!("helm {arguments:?} failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The chart's manifests with `settings` (`--set` of helm), as for a cluster with
/// Prometheus' operator.
pub async fn template(settings: &[&str]) -> Result<String> {
    let mut template = vec!["template", RELEASE, CHART, "--kube-version", "1.34.0"];
    template.extend(["--api-versions", "monitoring.coreos.com/v1"]);
    for setting in settings {
        template.extend(["--set", setting]);
    }
    helm(&template).await
}

async fn revision() -> Result<String> {
    let status: Value = serde_json::from_str(&helm(&["status", RELEASE, "--output", "json"]).await?)?;
    Ok(status["version"].as_u64().context("the release has no version")?.to_string())
}

/// Upgrades the operator with `settings` (`--set` of helm), runs `test`, and takes
/// the upgrade back, however the test ends.
pub async fn upgraded<T>(settings: &[String], test: impl Future<Output = Result<T>>) -> Result<T> {
    let before = revision().await?;
    let mut upgrade = vec!["upgrade", RELEASE, CHART, "--reuse-values", "--wait", "--timeout", "120s"];
    for setting in settings {
        upgrade.extend(["--set-string", setting]);
    }
    let outcome = match helm(&upgrade).await {
        Ok(_) => test.await,
        Err(error) => Err(error),
    };
    helm(&["rollback", RELEASE, &before, "--wait", "--timeout", "120s"]).await?;
    outcome
}
