//! Why a pod does not start, or is not created, from events. The kubelet reports a failed image pull
//! or mount there at once; the pod's own status follows many seconds later, or never. Pure.

use crate::{
    pods::{self, ORDINARY},
    trouble::Trouble,
};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{ContainerStatus, Event, Pod};
use kube::ResourceExt;
use std::sync::Arc;

/// The kubelet tries all mounts that a pod lacks at about the same time, and waits longer before each
/// attempt. So a mount that succeeded meanwhile has no warning as new as one that still fails.
const SAME_ATTEMPT: SignedDuration = SignedDuration::from_secs(10);

fn waits(container: &ContainerStatus) -> bool {
    let waiting = container.state.as_ref().and_then(|state| state.waiting.as_ref());
    waiting.is_some_and(|waiting| waiting.reason.as_deref().is_none_or(|reason| ORDINARY.contains(&reason)))
}

/// Whether events may explain why `pod` waits, with a node, for an ordinary reason.
fn may_explain(pod: &Pod) -> bool {
    let placed = pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
    placed
        && !pods::ended(pod)
        && (pods::containers(pod).next().is_none() || pods::containers(pod).any(waits))
}

/// Whether the pod's sandbox exists: its volumes are mounted then.
fn has_sandbox(pod: &Pod) -> bool {
    let Some(status) = &pod.status else { return false };
    let ready = pods::condition(status, "PodReadyToStartContainers");
    ready.map_or(status.pod_ip.is_some(), |condition| condition.status == "True")
}

/// The container an event is about: `spec.containers{client}` names client.
fn container_of(event: &Event) -> Option<&str> {
    event.involved_object.field_path.as_deref()?.split_once('{')?.1.strip_suffix('}')
}

/// What one event reports.
#[derive(PartialEq, Eq)]
struct Obstacle {
    reason: String,
    /// What waits: a pod or its container.
    subject: String,
    cause: String,
    remedy: &'static str,
}

/// The obstacle that `event` reports, in the words of the pod's own status.
fn obstacle(pod: &Pod, event: &Event) -> Option<Obstacle> {
    let message = event.message.as_deref()?;
    let subject = format!("pod {}", pod.name_any());
    match event.reason.as_deref()? {
        "FailedMount" | "FailedAttachVolume" | "FailedCreatePodSandBox" if has_sandbox(pod) => None,
        reason @ ("FailedMount" | "FailedAttachVolume") => Some(Obstacle {
            reason: reason.to_owned(),
            subject,
            cause: message.to_owned(),
            remedy: "; create what is missing or correct its name",
        }),
        reason @ "FailedCreatePodSandBox" => {
            Some(Obstacle { reason: reason.to_owned(), subject, cause: message.to_owned(), remedy: "" })
        }
        "Failed" | "InspectFailed" => {
            let container = container_of(event)?;
            let waiting = pods::containers(pod).find(|status| status.name == container).is_none_or(waits);
            // The first of two events has the cause; "Error: ErrImagePull" follows it.
            let cause = message.strip_prefix("Failed to pull image ")?.split_once(": ")?.1;
            let (reason, cause) = pods::steady("ErrImagePull".to_owned(), cause);
            let image = pods::containers(pod).find(|status| status.name == container)?.image.clone();
            let subject = format!("{subject}, container {container}, image {image}");
            waiting.then(|| Obstacle { reason, subject, cause: cause.to_owned(), remedy: "" })
        }
        _ => None,
    }
}

fn last_seen(event: &Event) -> Option<Timestamp> {
    let times =
        [event.last_timestamp.as_ref().map(|time| time.0), event.event_time.as_ref().map(|time| time.0)];
    times.into_iter().flatten().max()
}

/// What keeps `pod` from starting: the newest obstacle in `events`, with all that failed in the same
/// attempt, so that the message names each missing Secret.
pub fn trouble(pod: &Pod, events: &[Arc<Event>]) -> Option<Trouble> {
    if !may_explain(pod) {
        return None;
    }
    let about = about(pod, events);
    let mut found: Vec<_> =
        about.filter_map(|event| Some((last_seen(event), obstacle(pod, event)?))).collect();
    found.sort_by_key(|(time, _)| *time);
    let (newest, last) = found.last()?;
    let recent = |time: Option<Timestamp>| match (newest, time) {
        (Some(newest), Some(time)) => newest.duration_since(time) <= SAME_ATTEMPT,
        _ => false,
    };
    let together = found.iter().filter(|(time, one)| {
        (&one.reason, &one.subject) == (&last.reason, &last.subject) && (one == last || recent(*time))
    });
    let mut causes: Vec<&str> = together.map(|(_, one)| one.cause.as_str()).collect();
    // Events come in any sequence; a condition must not alternate with it.
    causes.sort_unstable();
    causes.dedup();
    Some(Trouble {
        reason: last.reason.clone(),
        message: format!("{}: {}{}", last.subject, causes.join("; "), last.remedy),
    })
}

/// A StatefulSet replaces a pod that a kubelet refused at once: a refusal so shortly before the next
/// pod's creation is true of that pod too.
const SAME_REFUSAL: SignedDuration = SignedDuration::from_secs(30);

/// Whether `event` reports that a kubelet refused a pod.
pub fn is_refusal(event: &Event) -> bool {
    event.reason.as_deref().is_some_and(|reason| pods::remedy(reason).is_some())
}

/// A kubelet's refusal of `pod` or of the pod that it replaces, while none of its containers runs.
pub fn refused_by_kubelet(pod: &Pod, events: &[Arc<Event>]) -> Option<Trouble> {
    let started = pods::containers(pod).any(|container| container.started == Some(true));
    let created = pod.metadata.creation_timestamp.as_ref().filter(|_| !started)?.0;
    let about = |event: &&Arc<Event>| {
        event.involved_object.name == pod.metadata.name
            && last_seen(event).is_some_and(|seen| created.duration_since(seen) <= SAME_REFUSAL)
    };
    let refusals = events.iter().filter(|event| is_refusal(event)).filter(about);
    let newest = refusals.max_by_key(|event| last_seen(event))?;
    pods::refusal(pod, newest.reason.as_deref()?, newest.message.as_deref().unwrap_or("no details given"))
}

fn about<'a>(object: &impl ResourceExt, events: &'a [Arc<Event>]) -> impl Iterator<Item = &'a Arc<Event>> {
    let uid = object.uid();
    events.iter().filter(move |event| event.involved_object.uid == uid)
}

/// Why `controller`, a Job or StatefulSet, creates no pod, in the words of the quota, limit range, Pod
/// Security level or admission policy that refused it.
pub fn refusal(controller: &impl ResourceExt, events: &[Arc<Event>]) -> Option<Trouble> {
    // A pod of an earlier controller that is still being deleted is not a refusal.
    let leaving = |event: &Event| event.message.as_ref().is_some_and(|it| it.contains("already exists"));
    let newest = about(controller, events)
        .filter(|event| event.reason.as_deref() == Some("FailedCreate") && !leaving(event))
        .max_by_key(|event| last_seen(event))?;
    Some(Trouble {
        reason: "PodRefused".to_owned(),
        message: format!("no pod can be made: {}", newest.message.as_deref().unwrap_or("no details given")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(status: serde_json::Value) -> Pod {
        serde_json::from_value(json!({
            "metadata": {"name": "p", "uid": "u"},
            "spec": {"nodeName": "n", "containers": []},
            "status": status,
        }))
        .unwrap()
    }

    fn waiting() -> serde_json::Value {
        json!({"phase": "Pending", "containerStatuses": [{
            "name": "client", "image": "example.com/none:1", "imageID": "", "ready": false, "restartCount": 0,
            "state": {"waiting": {"reason": "PodInitializing"}}
        }]})
    }

    fn event(uid: &str, reason: &str, message: &str, at: &str) -> Arc<Event> {
        let event = serde_json::from_value(json!({
            "metadata": {"name": "e"},
            "involvedObject": {"kind": "Pod", "uid": uid, "fieldPath": "spec.containers{client}"},
            "reason": reason, "message": message, "lastTimestamp": at,
        }));
        Arc::new(event.unwrap())
    }

    #[test]
    fn the_refusal_of_a_job_s_pods_is_quoted() {
        let job: k8s_openapi::api::batch::v1::Job =
            serde_json::from_value(json!({"metadata": {"uid": "j"}})).unwrap();
        let refused = event("j", "FailedCreate", "pods \"p\" is forbidden: exceeded quota: small", LATE);
        let found = refusal(&job, &[event("u", "FailedCreate", "about another", LATE), refused]).unwrap();
        assert!(found.message.contains("exceeded quota: small"), "{}", found.message);
        let leaving = event("j", "FailedCreate", "object is being deleted: pods \"p\" already exists", LATE);
        assert_eq!(refusal(&job, &[leaving]), None, "an earlier pod of the name that is being deleted");
    }

    const PULL: &str = "Failed to pull image \"example.com/none:1\": no such host";
    const EARLY: &str = "2026-01-01T00:00:01Z";
    const LATE: &str = "2026-01-01T00:00:02Z";

    #[test]
    fn a_failed_pull_has_the_message_that_the_pod_s_status_will_have() {
        let events = [event("u", "Failed", PULL, EARLY), event("u", "Failed", "Error: ErrImagePull", LATE)];
        let found = trouble(&pod(waiting()), &events).unwrap();
        let mut later = waiting();
        later["containerStatuses"][0]["state"]["waiting"] = json!({
            "reason": "ImagePullBackOff",
            "message": "Back-off pulling image \"example.com/none:1\": ErrImagePull: no such host"
        });
        assert_eq!(Some(found), pods::trouble(&pod(later)));
    }

    #[test]
    fn a_missing_secret_is_reported_until_the_volumes_are_mounted() {
        let events = [event("u", "FailedMount", "secret \"pit-tls\" not found", EARLY)];
        let found = trouble(&pod(waiting()), &events).unwrap();
        assert_eq!(found.reason, "FailedMount");
        assert!(found.message.contains("secret \"pit-tls\" not found"), "{}", found.message);
        let mut mounted = waiting();
        mounted["podIP"] = json!("10.0.0.9");
        assert_eq!(trouble(&pod(mounted), &events), None, "an old event does not matter");
    }

    #[test]
    fn events_about_others_and_past_events_are_ignored() {
        assert_eq!(trouble(&pod(waiting()), &[event("other", "Failed", PULL, EARLY)]), None);
        let mut running = waiting();
        running["containerStatuses"][0]["state"] = json!({"running": {}});
        assert_eq!(trouble(&pod(running), &[event("u", "Failed", PULL, EARLY)]), None);
    }

    const PASSWORD: &str = "MountVolume.SetUp failed for volume \"password\" : secret \"pit-pass\" not found";
    const CERTIFICATE: &str = "MountVolume.SetUp failed for volume \"tls\" : secret \"pit-tls\" not found";

    #[test]
    fn both_missing_secrets_are_reported_in_any_sequence() {
        let one = event("u", "FailedMount", PASSWORD, EARLY);
        let other = event("u", "FailedMount", CERTIFICATE, LATE);
        let found = trouble(&pod(waiting()), &[one.clone(), other.clone()]).unwrap();
        for name in ["pit-pass", "pit-tls"] {
            assert!(found.message.contains(name), "{name} is missing: {}", found.message);
        }
        assert_eq!(found.message.matches("create what is missing").count(), 1, "{}", found.message);
        let swapped =
            [event("u", "FailedMount", CERTIFICATE, EARLY), event("u", "FailedMount", PASSWORD, LATE)];
        assert_eq!(trouble(&pod(waiting()), &swapped), Some(found));
    }

    #[test]
    fn a_secret_that_was_created_meanwhile_is_not_reported() {
        let events = [
            event("u", "FailedMount", PASSWORD, EARLY),
            event("u", "FailedMount", CERTIFICATE, "2026-01-01T00:00:17Z"),
        ];
        let found = trouble(&pod(waiting()), &events).unwrap();
        assert!(
            found.message.contains("pit-tls") && !found.message.contains("pit-pass"),
            "{}",
            found.message
        );
    }

    #[test]
    fn a_kubelets_refusal_is_reported_of_the_next_pod_too_but_not_forever() {
        let refusal = event("earlier", "SMTAlignmentError", "SMT Alignment Error: requested 3 cpus", LATE);
        let mut refusal = (*refusal).clone();
        refusal.involved_object.name = Some("p".to_owned());
        let found = |created: &str, started: bool| {
            let mut next = pod(json!({"phase": "Pending", "containerStatuses": [{
                "name": "server", "image": "i", "imageID": "", "ready": false, "restartCount": 0, "started": started
            }]}));
            next.metadata.creation_timestamp = serde_json::from_value(json!(created)).unwrap();
            refused_by_kubelet(&next, &[Arc::new(refusal.clone())])
        };
        let reported = found("2026-01-01T00:00:03Z", false).unwrap();
        assert!(reported.message.contains("n refuses it: SMT Alignment Error"), "{}", reported.message);
        assert_eq!(found("2026-01-01T00:00:03Z", true), None, "it runs");
        assert_eq!(found("2026-01-01T00:10:00Z", false), None, "that was long ago");
    }

    #[test]
    fn the_newest_event_counts() {
        let events = [
            event("u", "FailedMount", "secret not found", EARLY),
            event("u", "FailedCreatePodSandBox", "no address left", LATE),
        ];
        assert_eq!(trouble(&pod(waiting()), &events).unwrap().message, "pod p: no address left");
    }
}
