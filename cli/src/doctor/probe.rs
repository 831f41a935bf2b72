//! What only a pod can see: whether the kubelet gives CPUs of one's own, and what the kernel
//! and seccomp let a container do. Makes one short-lived pod, and removes it. In that pod
//! ([`inside`]) reads /proc and /sys.

use super::finding::{Finding, ok, skip, warn};
use dragstrip_operator::labels;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client,
    api::{DeleteParams, LogParams, PostParams},
    runtime::wait::{Condition, await_condition},
};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::{fs, time::Duration};

/// How long the pod may take to be placed, to start and to end.
const WITHIN: Duration = Duration::from_secs(90);
/// The pod.
const NAME: &str = "dragstrip-doctor-probe";

/// The pod came to nothing.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Its form is none.
    #[error("failed to write the pod")]
    Form(#[source] serde_json::Error),
    /// It was refused.
    #[error("failed to make pod {NAME}")]
    Make(#[source] Box<kube::Error>),
    /// It did not end.
    #[error("pod {NAME} had not ended after {} s: see why with kubectl describe pod {NAME}", WITHIN.as_secs())]
    Late,
    /// It could not be watched.
    #[error("failed to watch pod {NAME}")]
    Watch(#[source] Box<kube::runtime::wait::Error>),
    /// It could not be heard.
    #[error("failed to read the log of pod {NAME}")]
    Log(#[source] Box<kube::Error>),
    /// It said something else.
    #[error("pod {NAME} did not tell what it saw; it wrote {1:?}")]
    Facts(#[source] serde_json::Error, String),
}

/// What a container sees of its machine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Facts {
    /// The CPUs that it may run on, such as 3 or 0-7.
    pub allowed_cpus: String,
    /// The machine's CPUs.
    pub online_cpus: String,
    /// The kernel's release.
    pub kernel: String,
    /// 0 where everybody may use io_uring, 1 where some may, 2 where nobody may; absent of
    /// kernels before 6.6.
    pub io_uring_disabled: Option<String>,
}

/// The value of `field` in a file such as /proc/self/status.
fn field(text: &str, field: &str) -> String {
    let value = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    value.unwrap_or_default().trim().to_owned()
}

/// What this process sees. What cannot be read is empty.
pub fn inside() -> Facts {
    let read = |file: &str| fs::read_to_string(file).unwrap_or_default().trim().to_owned();
    let disabled = read("/proc/sys/kernel/io_uring_disabled");
    Facts {
        allowed_cpus: field(&read("/proc/self/status"), "Cpus_allowed_list"),
        online_cpus: read("/sys/devices/system/cpu/online"),
        kernel: read("/proc/sys/kernel/osrelease"),
        io_uring_disabled: Some(disabled).filter(|text| !text.is_empty()),
    }
}

/// How many CPUs a list such as 0-3,8 names.
fn count(list: &str) -> usize {
    let of = |part: &str| -> Option<usize> {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        Some(last.checked_sub(first)? + 1)
    };
    list.split(',').filter_map(of).sum()
}

/// Of what a pod that asked for one whole CPU has seen on `node`.
pub fn judged(facts: &Facts, node: &str) -> Vec<Finding> {
    let (allowed, online) = (count(&facts.allowed_cpus), count(&facts.online_cpus));
    let cpus = if online <= 1 {
        skip(format!("CPU manager: {node} has {online} CPU, so that nothing can be told"), "")
    } else if allowed == 1 {
        ok(format!(
            "CPU manager: static on {node}: a pod with one whole CPU runs on CPU {} alone",
            facts.allowed_cpus
        ))
    } else {
        warn(
            format!(
                "CPU manager: none on {node}: a pod with one whole CPU may run on all of {}",
                facts.allowed_cpus
            ),
            "for CPUs of their own (cpu.exclusive) start the kubelet with cpuManagerPolicy: static; see docs/placement.md",
        )
    };
    let seen = |what: &str| format!("io_uring: {what} on {node} (kernel {})", facts.kernel);
    let io_uring = match facts.io_uring_disabled.as_deref() {
        Some("0") | None => ok(seen("allowed by the kernel")),
        Some(value) => warn(
            format!("{}; kernel.io_uring_disabled is {value}", seen("forbidden by the kernel")),
            "sysctl kernel.io_uring_disabled=0 on the servers' nodes, or Dragonfly falls back to epoll",
        ),
    };
    vec![cpus, io_uring]
}

fn pod(image: &str, on_servers: bool) -> Result<Pod, Error> {
    let whole = json!({"cpu": "1", "memory": "64Mi"});
    let mut selector = json!({});
    if on_servers {
        selector[labels::NODE_ROLE] = json!(labels::SERVER);
    }
    serde_json::from_value(json!({
        "metadata": {"name": NAME},
        "spec": {
            "restartPolicy": "Never",
            "automountServiceAccountToken": false,
            "enableServiceLinks": false,
            "terminationGracePeriodSeconds": 0,
            "activeDeadlineSeconds": WITHIN.as_secs(),
            "nodeSelector": selector,
            "tolerations": [{"key": labels::NODE_ROLE, "operator": "Exists"}],
            "securityContext": {"runAsNonRoot": true, "runAsUser": 65532, "runAsGroup": 65532, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [{
                "name": "probe", "image": image, "command": ["/dragstrip", "doctor", "--inside"],
                "resources": {"requests": whole, "limits": whole},
                "securityContext": {"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": {"drop": ["ALL"]}}
            }]
        }
    }))
    .map_err(Error::Form)
}

fn has_ended() -> impl Condition<Pod> {
    |pod: Option<&Pod>| {
        let phase = pod.and_then(|pod| pod.status.as_ref()?.phase.as_deref());
        matches!(phase, Some("Succeeded" | "Failed"))
    }
}

async fn facts(pods: &Api<Pod>) -> Result<(Facts, String), Error> {
    let ended = tokio::time::timeout(WITHIN, await_condition(pods.clone(), NAME, has_ended())).await;
    let ended = ended.map_err(|_| Error::Late)?.map_err(|error| Error::Watch(Box::new(error)))?;
    let log = pods.logs(NAME, &LogParams::default()).await.map_err(|error| Error::Log(Box::new(error)))?;
    let facts = serde_json::from_str(&log).map_err(|error| Error::Facts(error, log))?;
    Ok((facts, ended.and_then(|pod| pod.spec?.node_name).unwrap_or_default()))
}

/// Lets a pod of `image` look, on a server's node where there is one.
pub async fn probe(
    client: &Client,
    namespace: &str,
    image: &str,
    on_servers: bool,
) -> Result<Vec<Finding>, Error> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    pods.create(&PostParams::default(), &pod(image, on_servers)?)
        .await
        .map_err(|error| Error::Make(Box::new(error)))?;
    let seen = facts(&pods).await;
    // Gone already, or it ends by its own deadline.
    let _ = pods.delete(NAME, &DeleteParams::default()).await;
    seen.map(|(facts, node)| judged(&facts, &node))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::Level;
    use crate::doctor::nodes::tests::told;

    fn facts(allowed: &str, disabled: Option<&str>) -> Facts {
        Facts {
            allowed_cpus: allowed.into(),
            online_cpus: "0-7".into(),
            kernel: "6.8.0".into(),
            io_uring_disabled: disabled.map(str::to_owned),
        }
    }

    #[test]
    fn a_pod_that_may_run_on_one_cpu_alone_has_it_for_itself() {
        assert_eq!(told(&judged(&facts("3", Some("0")), "n")).0, [Level::Ok, Level::Ok]);
        let (levels, text) = told(&judged(&facts("0-7", Some("2")), "n"));
        assert_eq!(levels, [Level::Warn, Level::Warn], "{text}");
        assert!(text.contains("all of 0-7") && text.contains("io_uring_disabled is 2"), "{text}");
    }

    #[test]
    fn lists_of_cpus_are_counted() {
        assert_eq!((count("3"), count("0-3,8"), count(""), count("0-1,4-5")), (1, 5, 0, 4));
    }

    #[test]
    fn what_is_seen_from_within_has_its_cpus() {
        assert_eq!(field("Name:\tx\nCpus_allowed_list:\t0-1\n", "Cpus_allowed_list"), "0-1");
        assert!(count(&inside().allowed_cpus) >= 1, "{:?}", inside());
    }

    #[test]
    fn the_pod_is_one_of_the_restricted_kind() {
        let pod = pod("image", true).unwrap().spec.unwrap();
        assert_eq!(pod.node_selector.unwrap()[labels::NODE_ROLE], "server");
        assert_eq!(pod.security_context.unwrap().run_as_non_root, Some(true));
    }
}
