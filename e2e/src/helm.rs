//! The chart, and upgrades of the operator, as its users make them.

use crate::checkout;
use crate::kubectl;
use crate::operator;
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::process::Stdio;
use std::sync::LazyLock;
use tokio::process::Command;

const RELEASE: &str = "dragstrip";
/// The chart of this version.
pub static CHART: LazyLock<String> =
    LazyLock::new(|| checkout().join("charts/dragstrip").display().to_string());

async fn helm(arguments: &[&str]) -> Result<String> {
    in_namespace(operator::NAMESPACE, arguments).await
}

/// Runs helm in `namespace`; what it prints, or an error when it fails.
pub async fn in_namespace(namespace: &str, arguments: &[&str]) -> Result<String> {
    let output = Command::new("helm")
        .args(arguments)
        .args(["--namespace", namespace])
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
    let mut template = vec!["template", RELEASE, &CHART, "--kube-version", "1.37.0"];
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

async fn upgrade(settings: &[&str]) -> Result<()> {
    let mut upgrade =
        vec!["upgrade", RELEASE, &CHART, "--reset-then-reuse-values", "--wait", "--timeout", "120s"];
    for setting in settings {
        upgrade.extend(["--set", setting]);
    }
    helm(&upgrade).await.map(|_| ())
}

/// Runs the release's tests, as `helm test` does; what they print.
pub async fn test() -> Result<String> {
    helm(&["test", RELEASE, "--logs", "--timeout", "120s"]).await
}

/// Has the apiserver check all that the chart makes in `namespace` with `values`.
pub async fn checked(namespace: &str, values: &[&str]) -> Result<String> {
    let fixed = [
        "template",
        "checked",
        &CHART,
        "--no-hooks",
        "--kube-version",
        "1.34.0",
        "--set",
        "crds.install=false",
    ];
    let manifests = in_namespace(namespace, &[&fixed, values].concat()).await?;
    let apply = ["apply", "--server-side", "--dry-run=server", "--force-conflicts", "-f", "-"];
    kubectl::must(&apply, &manifests).await
}

/// Upgrades the operator with `settings` (`--set` of helm), runs `test`, and rolls the
/// upgrade back however the test ends.
pub async fn upgraded<T>(settings: &[&str], test: impl Future<Output = Result<T>>) -> Result<T> {
    let before = revision().await?;
    let outcome = match upgrade(settings).await {
        Ok(()) => test.await,
        Err(error) => Err(error),
    };
    helm(&["rollback", RELEASE, &before, "--wait", "--timeout", "120s"]).await?;
    outcome
}
