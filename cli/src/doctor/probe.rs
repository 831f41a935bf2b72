//! What only a pod can see: whether the kubelet gives CPUs of one's own, and what the kernel
//! and seccomp let a container do. Makes one short-lived pod, and removes it. In that pod
//! ([`inside`]) reads /proc and /sys.

use super::finding::{Finding, ok, skip, warn};
use dragstrip_core::labels;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodSpec};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, ListParams, LogParams, PostParams},
    runtime::wait::{Condition, await_condition},
};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::{fs, time::Duration};

/// How long the pod may take to be placed, to start and to end.
const WITHIN: Duration = Duration::from_secs(90);
/// What marks the pods.
const LABEL: &str = "dragstrip.dev/doctor-probe";

/// The pod came to nothing.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operator's Deployment has no container.
    #[error("the operator's Deployment names no image")]
    Image,
    /// Its form is none.
    #[error("failed to write the pod")]
    Form(#[source] serde_json::Error),
    /// It was refused.
    #[error("failed to make a pod")]
    Make(#[source] Box<kube::Error>),
    /// It did not end.
    #[error("pod {0} had not ended after {within} s, and is deleted", within = WITHIN.as_secs())]
    Late(String),
    /// It could not be watched.
    #[error("failed to watch pod {1}")]
    Watch(#[source] Box<kube::runtime::wait::Error>, String),
    /// It could not be heard.
    #[error("failed to read the log of pod {1}")]
    Log(#[source] Box<kube::Error>, String),
    /// It said something else.
    #[error("pod {1} did not tell what it saw; it wrote {2:?}")]
    Facts(#[source] serde_json::Error, String, String),
    /// Somebody has pressed Ctrl-C.
    #[error("interrupted")]
    Interrupted,
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

/// A pod with the image, and the secrets to pull it, of the `operator`.
fn pod(operator: &PodSpec, on_servers: bool) -> Result<Pod, Error> {
    let image = operator.containers.first().and_then(|container| container.image.as_ref());
    let image = image.ok_or(Error::Image)?;
    let whole = json!({"cpu": "1", "memory": "64Mi"});
    let mut selector = json!({});
    if on_servers {
        selector[labels::NODE_ROLE] = json!(labels::SERVER);
    }
    serde_json::from_value(json!({
        "metadata": {"generateName": "dragstrip-doctor-probe-", "labels": {LABEL: "true"}},
        "spec": {
            "imagePullSecrets": operator.image_pull_secrets,
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

async fn facts(pods: &Api<Pod>, name: &str) -> Result<(Facts, String), Error> {
    let named = || name.to_owned();
    let ended = tokio::time::timeout(WITHIN, await_condition(pods.clone(), name, has_ended())).await;
    let ended =
        ended.map_err(|_| Error::Late(named()))?.map_err(|error| Error::Watch(Box::new(error), named()))?;
    let log = pods.logs(name, &LogParams::default()).await;
    let log = log.map_err(|error| Error::Log(Box::new(error), named()))?;
    let facts = serde_json::from_str(&log).map_err(|error| Error::Facts(error, named(), log))?;
    Ok((facts, ended.and_then(|pod| pod.spec?.node_name).unwrap_or_default()))
}

/// Whether `pod` is of a look that has not removed it: another one may be under way.
fn left_over(pod: &Pod, now: Timestamp) -> bool {
    let made = pod.metadata.creation_timestamp.as_ref().map(|time| time.0);
    made.is_some_and(|made| now.duration_since(made).as_secs_f64() > 2.0 * WITHIN.as_secs_f64())
}

/// Removes what looks that were killed have left.
async fn tidy(pods: &Api<Pod>) {
    // Who may not list or delete them is told so by the look itself.
    let Ok(list) = pods.list(&ListParams::default().labels(LABEL)).await else { return };
    for pod in list.items.iter().filter(|pod| left_over(pod, Timestamp::now())) {
        let _ = pods.delete(&pod.name_any(), &DeleteParams::default()).await;
    }
}

/// Lets a pod look that is made as the `operator`'s is, on a server's node where there is one.
pub async fn probe(
    client: &Client,
    namespace: &str,
    operator: &PodSpec,
    on_servers: bool,
) -> Result<Vec<Finding>, Error> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    tidy(&pods).await;
    let made = pods.create(&PostParams::default(), &pod(operator, on_servers)?).await;
    let name = made.map_err(|error| Error::Make(Box::new(error)))?.name_any();
    let seen = tokio::select! {
        seen = facts(&pods, &name) => seen,
        _ = tokio::signal::ctrl_c() => Err(Error::Interrupted),
    };
    // Gone already, or the next look removes it.
    let _ = pods.delete(&name, &DeleteParams::default()).await;
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

    fn operator() -> PodSpec {
        serde_json::from_value(json!({
            "containers": [{"name": "operator", "image": "registry/operator"}],
            "imagePullSecrets": [{"name": "registry"}]
        }))
        .unwrap()
    }

    #[test]
    fn the_pod_is_one_of_the_restricted_kind() {
        let pod = pod(&operator(), true).unwrap().spec.unwrap();
        assert_eq!(pod.node_selector.unwrap()[labels::NODE_ROLE], "server");
        assert_eq!(pod.security_context.unwrap().run_as_non_root, Some(true));
    }

    #[test]
    fn the_pod_is_pulled_as_the_operator_is_and_has_a_name_of_its_own() {
        let pod = pod(&operator(), false).unwrap();
        assert_eq!((pod.metadata.name, pod.metadata.labels.unwrap().len()), (None, 1));
        let spec = pod.spec.unwrap();
        assert_eq!(spec.containers[0].image.as_deref(), Some("registry/operator"));
        assert_eq!(spec.image_pull_secrets.unwrap()[0].name, "registry");
        assert!(matches!(super::pod(&PodSpec::default(), false), Err(Error::Image)), "no container");
    }

    #[test]
    fn a_pod_of_a_look_that_is_under_way_is_left_alone() {
        let now: Timestamp = "2026-01-01T01:00:00Z".parse().unwrap();
        let made = |at: &str| -> Pod {
            serde_json::from_value(json!({"metadata": {"name": "a", "creationTimestamp": at}})).unwrap()
        };
        assert!(left_over(&made("2026-01-01T00:50:00Z"), now));
        assert!(!left_over(&made("2026-01-01T00:59:00Z"), now));
    }
}
