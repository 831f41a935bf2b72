//! Why a pod does not start, from the events about it. The kubelet tells a failed
//! image pull or mount there at once; the pod's own status follows many seconds
//! later, or never. Why no pod is made at all is told of those who make them. Pure.

use super::pods::{self, ORDINARY};
use dragstrip_core::trouble::Trouble;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{ContainerStatus, Event, Pod};
use kube::ResourceExt;
use std::borrow::Borrow;

/// What is mounted by now has no warning as new as what is not: the kubelet tries
/// all that a pod lacks at about the same time, and waits longer before each try.
const SAME_TRY: SignedDuration = SignedDuration::from_secs(10);

fn waits(container: &ContainerStatus) -> bool {
    let waiting = container.state.as_ref().and_then(|state| state.waiting.as_ref());
    waiting.is_some_and(|waiting| waiting.reason.as_deref().is_none_or(|reason| ORDINARY.contains(&reason)))
}

/// Whether events may explain what `pod` waits for: it has a node and a container
/// of it waits for an ordinary reason.
pub fn may_explain(pod: &Pod) -> bool {
    let placed = pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
    placed
        && !pods::ended(pod)
        && (pods::containers(pod).next().is_none() || pods::containers(pod).any(waits))
}

/// Whether the pod's sandbox stands: its volumes are mounted then.
fn has_sandbox(pod: &Pod) -> bool {
    let Some(status) = &pod.status else { return false };
    let told = pods::condition(status, "PodReadyToStartContainers");
    told.map_or(status.pod_ip.is_some(), |condition| condition.status == "True")
}

/// The container an event is about: `spec.containers{client}` names client.
fn container_of(event: &Event) -> Option<&str> {
    event.involved_object.field_path.as_deref()?.split_once('{')?.1.strip_suffix('}')
}

/// What one event tells.
#[derive(PartialEq, Eq)]
struct Told {
    reason: String,
    /// What is held up.
    subject: String,
    cause: String,
    remedy: &'static str,
}

impl Told {
    /// Whether both hold up the same thing in the same way.
    fn goes_with(&self, other: &Self) -> bool {
        (&self.reason, &self.subject) == (&other.reason, &other.subject)
    }
}

/// The trouble that `event` tells, as the pod's own status would tell it.
fn told(pod: &Pod, event: &Event) -> Option<Told> {
    let message = event.message.as_deref()?;
    let subject = format!("pod {}", pod.name_any());
    match event.reason.as_deref()? {
        "FailedMount" | "FailedAttachVolume" | "FailedCreatePodSandBox" if has_sandbox(pod) => None,
        reason @ ("FailedMount" | "FailedAttachVolume") => Some(Told {
            reason: reason.to_owned(),
            subject,
            cause: message.to_owned(),
            remedy: "; create what is missing or correct its name",
        }),
        reason @ "FailedCreatePodSandBox" => {
            Some(Told { reason: reason.to_owned(), subject, cause: message.to_owned(), remedy: "" })
        }
        "Failed" | "InspectFailed" => {
            let container = container_of(event)?;
            let waiting = pods::containers(pod).find(|status| status.name == container).is_none_or(waits);
            // The first of two events tells the cause; "Error: ErrImagePull" follows it.
            let cause = message.strip_prefix("Failed to pull image ")?.split_once(": ")?.1;
            let (reason, cause) = pods::steady("ErrImagePull".to_owned(), cause);
            let image = pods::containers(pod).find(|status| status.name == container)?.image.clone();
            let subject = format!("{subject}, container {container}, image {image}");
            waiting.then(|| Told { reason, subject, cause: cause.to_owned(), remedy: "" })
        }
        _ => None,
    }
}

/// When the event last happened.
fn last_seen(event: &Event) -> Option<Timestamp> {
    let times =
        [event.last_timestamp.as_ref().map(|time| time.0), event.event_time.as_ref().map(|time| time.0)];
    times.into_iter().flatten().max()
}

/// What holds `pod` up by the newest of `events` about it that tells, and whatever
/// else failed with it: of two Secrets that are missing both are named.
pub fn trouble<E: Borrow<Event>>(pod: &Pod, events: &[E]) -> Option<Trouble> {
    if !may_explain(pod) {
        return None;
    }
    let uid = pod.uid();
    let about = events.iter().map(Borrow::borrow).filter(|event: &&Event| event.involved_object.uid == uid);
    let mut found: Vec<_> = about.filter_map(|event| Some((last_seen(event), told(pod, event)?))).collect();
    found.sort_by_key(|(time, _)| *time);
    let (newest, last) = found.last()?;
    let recent = |time: Option<Timestamp>| match (newest, time) {
        (Some(newest), Some(time)) => newest.duration_since(time) <= SAME_TRY,
        _ => false,
    };
    let together =
        found.iter().filter(|(time, told)| told.goes_with(last) && (told == last || recent(*time)));
    let mut causes: Vec<&str> = together.map(|(_, told)| told.cause.as_str()).collect();
    // Events come in any order; a condition must not swing with it.
    causes.sort_unstable();
    causes.dedup();
    Some(Trouble {
        reason: last.reason.clone(),
        message: format!("{}: {}{}", last.subject, causes.join("; "), last.remedy),
    })
}

/// A StatefulSet makes a pod that a kubelet refused anew at once: what was said of one so
/// shortly before the next was made is true of that one too.
const SAME_REFUSAL: SignedDuration = SignedDuration::from_secs(30);

/// Whether `event` says that a kubelet refused a pod.
pub fn is_refusal(event: &Event) -> bool {
    event.reason.as_deref().is_some_and(|reason| pods::remedy(reason).is_some())
}

/// A kubelet's refusal of `pod`, or of the one that it replaces, while none of its containers runs.
pub fn refused_by_kubelet<E: Borrow<Event>>(pod: &Pod, events: &[E]) -> Option<Trouble> {
    let started = pods::containers(pod).any(|container| container.started == Some(true));
    let created = pod.metadata.creation_timestamp.as_ref().filter(|_| !started)?.0;
    let about = |event: &&Event| {
        event.involved_object.name == pod.metadata.name
            && last_seen(event).is_some_and(|seen| created.duration_since(seen) <= SAME_REFUSAL)
    };
    let refusals = events.iter().map(Borrow::borrow).filter(|event| is_refusal(event)).filter(about);
    let newest = refusals.max_by_key(|event| last_seen(event))?;
    pods::refusal(pod, newest.reason.as_deref()?, newest.message.as_deref().unwrap_or("no details given"))
}

/// Why a Job or StatefulSet makes no pod, in the words of who refused it: a quota, a
/// limit range, Pod Security, an admission policy.
pub fn refusal<E: Borrow<Event>>(maker: &impl ResourceExt, events: &[E]) -> Option<Trouble> {
    let uid = maker.uid();
    let about = events.iter().map(Borrow::borrow).filter(|event: &&Event| event.involved_object.uid == uid);
    // A pod of a former maker that has not quite gone is no refusal.
    let leaving = |event: &Event| event.message.as_ref().is_some_and(|it| it.contains("already exists"));
    let newest = about
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
    use std::sync::Arc;

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
    fn why_a_job_makes_no_pods_is_told_in_the_words_of_who_refused() {
        let job: k8s_openapi::api::batch::v1::Job =
            serde_json::from_value(json!({"metadata": {"uid": "j"}})).unwrap();
        let refused = event("j", "FailedCreate", "pods \"p\" is forbidden: exceeded quota: small", LATE);
        let found = refusal(&job, &[event("u", "FailedCreate", "of another", LATE), refused]).unwrap();
        assert!(found.message.contains("exceeded quota: small"), "{}", found.message);
        let leaving = event("j", "FailedCreate", "object is being deleted: pods \"p\" already exists", LATE);
        assert_eq!(refusal(&job, &[leaving]), None, "a former pod of the name that is about to go");
    }

    const PULL: &str = "Failed to pull image \"example.com/none:1\": no such host";
    const EARLY: &str = "2026-01-01T00:00:01Z";
    const LATE: &str = "2026-01-01T00:00:02Z";

    #[test]
    fn a_failed_pull_reads_as_it_will_in_the_pods_status() {
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
    fn a_missing_secret_is_told_until_the_volumes_are_mounted() {
        let events = [event("u", "FailedMount", "secret \"pit-tls\" not found", EARLY)];
        let found = trouble(&pod(waiting()), &events).unwrap();
        assert_eq!(found.reason, "FailedMount");
        assert!(found.message.contains("secret \"pit-tls\" not found"), "{}", found.message);
        let mut mounted = waiting();
        mounted["podIP"] = json!("10.0.0.9");
        assert_eq!(trouble(&pod(mounted), &events), None, "an old event is no trouble any more");
    }

    #[test]
    fn events_about_others_and_of_the_past_are_left_alone() {
        assert_eq!(trouble(&pod(waiting()), &[event("other", "Failed", PULL, EARLY)]), None);
        let mut running = waiting();
        running["containerStatuses"][0]["state"] = json!({"running": {}});
        assert_eq!(trouble(&pod(running), &[event("u", "Failed", PULL, EARLY)]), None);
    }

    const PASSWORD: &str = "MountVolume.SetUp failed for volume \"password\" : secret \"pit-pass\" not found";
    const CERTIFICATE: &str = "MountVolume.SetUp failed for volume \"tls\" : secret \"pit-tls\" not found";

    #[test]
    fn of_two_missing_secrets_both_are_told_in_any_order() {
        let one = event("u", "FailedMount", PASSWORD, EARLY);
        let other = event("u", "FailedMount", CERTIFICATE, LATE);
        let found = trouble(&pod(waiting()), &[one.clone(), other.clone()]).unwrap();
        for name in ["pit-pass", "pit-tls"] {
            assert!(found.message.contains(name), "{name} is not told: {}", found.message);
        }
        assert_eq!(found.message.matches("create what is missing").count(), 1, "{}", found.message);
        let swapped =
            [event("u", "FailedMount", CERTIFICATE, EARLY), event("u", "FailedMount", PASSWORD, LATE)];
        assert_eq!(trouble(&pod(waiting()), &swapped), Some(found));
    }

    #[test]
    fn a_secret_that_was_created_meanwhile_is_told_no_more() {
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
    fn a_kubelets_refusal_is_told_of_the_next_pod_too_and_not_for_ever() {
        let refusal = event("former", "SMTAlignmentError", "SMT Alignment Error: requested 3 cpus", LATE);
        let mut refusal = (*refusal).clone();
        refusal.involved_object.name = Some("p".to_owned());
        let found = |created: &str, started: bool| {
            let mut next = pod(json!({"phase": "Pending", "containerStatuses": [{
                "name": "server", "image": "i", "imageID": "", "ready": false, "restartCount": 0, "started": started
            }]}));
            next.metadata.creation_timestamp = serde_json::from_value(json!(created)).unwrap();
            refused_by_kubelet(&next, std::slice::from_ref(&refusal))
        };
        let told = found("2026-01-01T00:00:03Z", false).unwrap();
        assert!(told.message.contains("n refuses it: SMT Alignment Error"), "{}", told.message);
        assert_eq!(found("2026-01-01T00:00:03Z", true), None, "it runs");
        assert_eq!(found("2026-01-01T00:10:00Z", false), None, "that was long ago");
    }

    #[test]
    fn the_newest_event_tells() {
        let events = [
            event("u", "FailedMount", "secret not found", EARLY),
            event("u", "FailedCreatePodSandBox", "no address left", LATE),
        ];
        assert_eq!(trouble(&pod(waiting()), &events).unwrap().message, "pod p: no address left");
    }
}
