//! What a pod's status says about why it does not run, for people. Pure.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodCondition, PodStatus};
use kube::ResourceExt;

/// A pod that is held up: a reason for a condition, and a sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    /// Kubernetes' own reason, such as `ImagePullBackOff` or `Unschedulable`.
    pub reason: String,
    /// What is wrong, with the remedy where one is known.
    pub message: String,
}

pub(super) fn condition<'a>(status: &'a PodStatus, kind: &str) -> Option<&'a PodCondition> {
    status.conditions.iter().flatten().find(|condition| condition.type_ == kind)
}

/// Whether the pod's Ready condition holds.
pub fn ready(pod: &Pod) -> bool {
    pod.status.as_ref().and_then(|status| condition(status, "Ready")).is_some_and(|c| c.status == "True")
}

/// Since when the pod has been ready or not.
pub fn ready_since(pod: &Pod) -> Option<Timestamp> {
    Some(condition(pod.status.as_ref()?, "Ready")?.last_transition_time.as_ref()?.0)
}

/// Whether the pod was made by the Job called `job`.
pub fn is_of_job(pod: &Pod, job: &str) -> bool {
    pod.labels().get("batch.kubernetes.io/job-name").is_some_and(|name| name == job)
}

/// Whether the pod has ended, well or badly.
pub fn ended(pod: &Pod) -> bool {
    matches!(pod.status.as_ref().and_then(|s| s.phase.as_deref()), Some("Succeeded" | "Failed"))
}

/// Whether there are as many `pods` as expected and all of them have ended.
pub fn all_ended<'a>(pods: impl Iterator<Item = &'a Pod>, expected: usize) -> bool {
    let (mut all, mut over) = (0, 0);
    for pod in pods {
        all += 1;
        over += usize::from(ended(pod));
    }
    all >= expected && over == all
}

/// The pod's containers of every kind.
pub fn containers(pod: &Pod) -> impl Iterator<Item = &ContainerStatus> {
    pod.status.iter().flat_map(|status| {
        status.init_container_statuses.iter().flatten().chain(status.container_statuses.iter().flatten())
    })
}

/// Reasons a container waits for in the ordinary course of things.
pub(super) const ORDINARY: [&str; 2] = ["ContainerCreating", "PodInitializing"];

/// Image trouble swings between two reasons with the same cause: one reason and
/// the cause alone are told, so that a condition does not swing with it.
pub(super) fn steady(reason: String, detail: &str) -> (String, &str) {
    match reason.as_str() {
        "ErrImagePull" | "ImagePullBackOff" => {
            let cause = detail.rsplit_once("ErrImagePull: ").map_or(detail, |(_, cause)| cause);
            ("ImageUnavailable".to_owned(), cause)
        }
        _ => (reason, detail),
    }
}

fn waiting(pod: &Pod) -> Option<Trouble> {
    containers(pod).find_map(|container| {
        let waiting = container.state.as_ref()?.waiting.as_ref()?;
        let reason = waiting.reason.clone().filter(|reason| !ORDINARY.contains(&reason.as_str()))?;
        let (reason, detail) = steady(reason, waiting.message.as_deref().unwrap_or("no details given"));
        let last = container.last_state.as_ref().and_then(|state| state.terminated.as_ref());
        let last = last.map(|ended| format!(" (last exit code {})", ended.exit_code)).unwrap_or_default();
        let (pod, name, image) = (pod.name_any(), &container.name, &container.image);
        Some(Trouble {
            reason,
            message: format!("pod {pod}, container {name}, image {image}: {detail}{last}"),
        })
    })
}

fn unschedulable(pod: &Pod) -> Option<Trouble> {
    let scheduled = condition(pod.status.as_ref()?, "PodScheduled")?;
    let refused = scheduled.status == "False" && scheduled.reason.as_deref() == Some("Unschedulable");
    refused.then(|| Trouble {
        reason: "Unschedulable".to_owned(),
        message: format!(
            "pod {}: {}",
            pod.name_any(),
            scheduled.message.as_deref().unwrap_or("no node fits")
        ),
    })
}

/// What holds the pod up, if anything does.
pub fn trouble(pod: &Pod) -> Option<Trouble> {
    unschedulable(pod).or_else(|| waiting(pod))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(status: serde_json::Value) -> Pod {
        serde_json::from_value(serde_json::json!({"metadata": {"name": "p"}, "status": status})).unwrap()
    }

    #[test]
    fn an_image_that_cannot_be_pulled_is_named() {
        let found = trouble(&pod(serde_json::json!({"containerStatuses": [{
            "name": "client", "image": "example.com/none:1", "imageID": "", "ready": false, "restartCount": 0,
            "state": {"waiting": {"reason": "ErrImagePull", "message": "not found"}}
        }]})))
        .unwrap();
        assert_eq!(found.reason, "ImageUnavailable");
        assert!(found.message.contains("example.com/none:1"), "{}", found.message);
    }

    #[test]
    fn image_trouble_reads_the_same_between_two_tries() {
        let failed = steady("ErrImagePull".into(), "no such host");
        let backing_off = r#"Back-off pulling image "example.com/none:1": ErrImagePull: no such host"#;
        assert_eq!(steady("ImagePullBackOff".into(), backing_off), failed);
    }

    #[test]
    fn a_pod_that_fits_no_node_says_what_the_scheduler_says() {
        let found = trouble(&pod(serde_json::json!({"conditions": [{
            "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/2 nodes are available"
        }]})))
        .unwrap();
        assert_eq!(
            (found.reason.as_str(), found.message.as_str()),
            ("Unschedulable", "pod p: 0/2 nodes are available")
        );
    }

    #[test]
    fn a_pod_that_is_being_created_is_no_trouble() {
        let creating = pod(serde_json::json!({"containerStatuses": [{
            "name": "client", "image": "i", "imageID": "", "ready": false, "restartCount": 0,
            "state": {"waiting": {"reason": "ContainerCreating"}}
        }]}));
        assert_eq!(trouble(&creating), None);
    }
}
