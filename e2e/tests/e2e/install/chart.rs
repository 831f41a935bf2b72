//! What the chart makes, as the apiserver takes it, and its test.

use anyhow::{Result, ensure};
use dragstrip_e2e::{alone, helm, kubectl, with_namespace};

#[tokio::test]
async fn the_apiserver_accepts_everything_that_the_chart_renders() -> Result<()> {
    with_namespace("chart", |env| async move {
        let file = |name: &str| format!("{}/{name}", *helm::CHART);
        let (eks, dev) = (file("values-eks.yaml"), file("values-dev.yaml"));
        let all = [
            "--set",
            "replicas=3",
            "--set",
            "networkPolicy.enabled=true",
            "--set",
            "dashboards.enabled=true",
            "--set",
            "ownNamespaceOnly=true",
            "--set-string",
            "prices=a\\,b",
            "--set",
            "image.pullSecrets[0].name=registry",
            "--set",
            "extraEnv[0].name=A",
        ];
        for values in [&[][..], &["--values", &eks], &["--values", &dev], &all] {
            let taken = helm::checked(&env.namespace, values).await?;
            for kind in ["deployment", "clusterrole", "serviceaccount"] {
                ensure!(taken.contains(kind), "no {kind} with {values:?}:\n{taken}");
            }
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn helm_test_passes_and_leaves_no_rights_behind() -> Result<()> {
    alone("helm-test", |_| async move {
        let reported = helm::test().await?;
        for words in [
            "OK    API: dragstrip.dev/v1alpha1",
            "OK    operator: dragstrip-system/dragstrip-operator",
            "nodes:",
        ] {
            ensure!(reported.contains(words), "doctor does not say {words:?}:\n{reported}");
        }
        ensure!(!reported.contains("FAIL"), "{reported}");
        let kinds = "serviceaccounts,roles,rolebindings,clusterroles,clusterrolebindings";
        let left = ["get", kinds, "--all-namespaces", "--output", "name"];
        let left = kubectl::must(&left, "").await?;
        ensure!(left.contains("dragstrip-operator"), "the list lacks the operator's own: {left}");
        let doctors: Vec<&str> = left.lines().filter(|name| name.ends_with("dragstrip-doctor")).collect();
        ensure!(doctors.is_empty(), "helm test left {doctors:?}");
        Ok(())
    })
    .await
}
