//! Upgrades of the operator, as its users make them.

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

async fn revision() -> Result<String> {
    let status: Value = serde_json::from_str(&helm(&["status", RELEASE, "--output", "json"]).await?)?;
    Ok(status["version"].as_u64().context("the release has no version")?.to_string())
}

/// Upgrades the operator with `settings` (`--set-string` of helm), runs `test`, and takes
/// the upgrade back, however the test ends.
pub async fn upgraded<T>(settings: &[String], test: impl Future<Output = Result<T>>) -> Result<T> {
    with_arguments(settings.iter().flat_map(|setting| ["--set-string", setting.as_str()]), test).await
}

/// The same with `values`, as JSON of a key such as `policy={...}`.
pub async fn with_values<T>(values: &str, test: impl Future<Output = Result<T>>) -> Result<T> {
    with_arguments(["--set-json", values], test).await
}

async fn with_arguments<'a, T>(
    arguments: impl IntoIterator<Item = &'a str>,
    test: impl Future<Output = Result<T>>,
) -> Result<T> {
    let before = revision().await?;
    let mut upgrade = vec!["upgrade", RELEASE, CHART, "--reuse-values", "--wait", "--timeout", "120s"];
    upgrade.extend(arguments);
    let outcome = match helm(&upgrade).await {
        Ok(_) => test.await,
        Err(error) => Err(error),
    };
    helm(&["rollback", RELEASE, &before, "--wait", "--timeout", "120s"]).await?;
    outcome
}
