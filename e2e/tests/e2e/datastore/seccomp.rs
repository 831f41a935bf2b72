//! The shipped seccomp profile on the cluster's own kubelets and container runtime.

use anyhow::{Context, Result};
use dragstrip_e2e::{Look, SERVER_UP, kubectl, until, with_namespace};

const DIRECTORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/seccomp");
const FILE: &str = "dragstrip-io-uring.json";
/// What the profile adds to the container runtime's own.
const RULE: &str =
    r#",{"names":["io_uring_setup","io_uring_enter","io_uring_register"],"action":"SCMP_ACT_ALLOW"}"#;
/// An image with a shell and Perl, which has no need of a registry.
const IMAGE: &str = "dragstrip.dev/testbed/redis:7.0";
/// io_uring_setup with four entries, whose number is the same on amd64 and arm64.
const PROBE: &str = r#"my $p = "\0" x 120; print syscall(425, 4, $p) < 0 ? "refused: $!" : "allowed""#;

/// The shipped manifests for `namespace`, with an image that the nodes have.
async fn manifests(namespace: &str) -> Result<String> {
    let shipped = kubectl::must(&["kustomize", DIRECTORY], "").await?;
    let without_namespace: Vec<&str> =
        shipped.split("\n---\n").filter(|object| !object.contains("kind: Namespace")).collect();
    let objects = without_namespace.join("\n---\n");
    let line = objects.lines().find_map(|line| line.trim().strip_prefix("image: ")).context("no image")?;
    Ok(objects
        .replace(line, IMAGE)
        .replace("namespace: dragstrip-seccomp", &format!("namespace: {namespace}")))
}

/// A pod that asks the kernel for io_uring under the profile of that file, as servers are:
/// on a node for servers, without capabilities.
fn probe(name: &str, file: &str) -> String {
    format!(
        "
apiVersion: v1
kind: Pod
metadata: {{name: {name}}}
spec:
  restartPolicy: Never
  nodeSelector: {{dragstrip.dev/role: server}}
  tolerations: [{{key: dragstrip.dev/role, operator: Exists}}]
  securityContext: {{runAsNonRoot: true, seccompProfile: {{type: Localhost, localhostProfile: profiles/{file}}}}}
  containers:
  - name: probe
    image: {IMAGE}
    command: [perl, -e, '{PROBE}']
    securityContext: {{allowPrivilegeEscalation: false, capabilities: {{drop: [ALL]}}}}
"
    )
}

/// What the kernel said to a probe under the profile that `manifests` bring.
async fn said(namespace: &str, name: &str, file: &str, manifests: &str) -> Result<String> {
    kubectl::must(&["apply", "--filename", "-"], manifests).await?;
    kubectl::must(&["apply", "--namespace", namespace, "--filename", "-"], &probe(name, file)).await?;
    until(&format!("the answer to {name}"), SERVER_UP, || async {
        let log = kubectl::run(&["logs", "--namespace", namespace, name], "").await?;
        Ok(if log.success && !log.stdout.is_empty() {
            Look::Done(log.stdout)
        } else {
            Look::NotYet(log.stderr)
        })
    })
    .await
}

#[tokio::test]
async fn the_last_rule_of_the_shipped_profile_allows_io_uring() -> Result<()> {
    with_namespace("seccomp", |env| async move {
        let shipped = manifests(&env.namespace).await?;
        let found = said(&env.namespace, "with-rule", FILE, &shipped).await?;
        anyhow::ensure!(found == "allowed", "under the shipped profile: {found}");
        // Under other names, beside the shipped one.
        let other = shipped.replace(RULE, "").replace(FILE, "e2e-without-rule.json");
        let other = other.replace("name: profiles", "name: without-rule");
        let other = other.replace("dragstrip-seccomp", "e2e-without-rule");
        let found = said(&env.namespace, "without-rule", "e2e-without-rule.json", &other).await?;
        anyhow::ensure!(found.starts_with("refused: Operation not permitted"), "without its rule: {found}");
        let all = ["delete", "daemonsets,pods", "--all", "--now", "--namespace", &env.namespace];
        kubectl::must(&all, "").await.map(|_| ())
    })
    .await
}
