//! A pod's state, and why it does not run, from its status. Pure.

use crate::trouble::Trouble;
use dragstrip_results::protocol::OBSERVER_PORT;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodCondition, PodStatus};
use kube::ResourceExt;
use std::net::{IpAddr, SocketAddr};

pub fn condition<'a>(status: &'a PodStatus, kind: &str) -> Option<&'a PodCondition> {
    status.conditions.iter().flatten().find(|condition| condition.type_ == kind)
}

pub fn ready(pod: &Pod) -> bool {
    ready_since(pod, Timestamp::MAX)
}

/// Whether the pod's Ready condition has held from `since` on, or longer.
pub fn ready_since(pod: &Pod, since: Timestamp) -> bool {
    let ready = pod.status.as_ref().and_then(|status| condition(status, "Ready"));
    ready
        .filter(|ready| ready.status == "True")
        .is_some_and(|ready| ready.last_transition_time.as_ref().is_none_or(|changed| changed.0 <= since))
}

/// The pod's address; `None` while it has none.
pub fn address(pod: &Pod) -> Option<IpAddr> {
    pod.status.as_ref()?.pod_ip.as_ref()?.parse().ok()
}

pub const CLIENT_CONTAINER: &str = "client";
/// Name of the container that observes a pod's servers.
pub const OBSERVER: &str = "observer";

/// Where the observer in the pod listens; `None` until the pod has an address and the observer has started.
pub fn observer(pod: &Pod) -> Option<SocketAddr> {
    let mut sidecars = pod.status.as_ref()?.init_container_statuses.iter().flatten();
    sidecars.find(|container| container.name == OBSERVER && container.started == Some(true))?;
    Some(SocketAddr::new(address(pod)?, OBSERVER_PORT))
}

/// Whether the Job named `job` created the pod, and has this `uid` if one is given. The pod's owner
/// decides: anybody may write labels.
pub fn is_of_job(pod: &Pod, job: &str, uid: Option<&str>) -> bool {
    let owner = pod.owner_references().iter().find(|owner| owner.controller == Some(true));
    owner.is_some_and(|owner| {
        owner.kind == "Job" && owner.name == job && uid.is_none_or(|uid| owner.uid == uid)
    })
}

/// Whether the pod has succeeded or failed. The kubelet shows that all its containers have ended a second
/// before it changes the pod's phase, which waits for the end of the sandbox.
pub fn ended(pod: &Pod) -> bool {
    let Some(status) = &pod.status else { return false };
    let containers = pod.spec.as_ref().filter(|spec| spec.restart_policy.as_deref() == Some("Never"));
    let ended = |status: &&ContainerStatus| status.state.as_ref().is_some_and(|it| it.terminated.is_some());
    let count = status.container_statuses.iter().flatten().filter(ended).count();
    matches!(status.phase.as_deref(), Some("Succeeded" | "Failed"))
        || containers.is_some_and(|spec| count > 0 && count == spec.containers.len())
}

/// Whether the pod's containers have certainly stopped: the pod has ended, and not because its Node
/// object is gone, since the machine may still run them.
pub fn stopped(pod: &Pod) -> bool {
    let disrupted = pod.status.as_ref().and_then(|status| condition(status, "DisruptionTarget"));
    ended(pod) && disrupted.and_then(|why| why.reason.as_deref()) != Some("DeletionByPodGC")
}

/// Whether there are as many `pods` as expected and all of them have ended.
pub fn all_ended<'a>(pods: impl Iterator<Item = &'a Pod>, expected: usize) -> bool {
    let ended: Vec<bool> = pods.map(ended).collect();
    ended.len() >= expected && ended.iter().all(|ended| *ended)
}

pub fn containers(pod: &Pod) -> impl Iterator<Item = &ContainerStatus> {
    pod.status.iter().flat_map(|status| {
        status.init_container_statuses.iter().flatten().chain(status.container_statuses.iter().flatten())
    })
}

fn running<'a>(pod: &'a Pod, name: &str) -> Option<&'a ContainerStatus> {
    let running = |status: &ContainerStatus| status.state.as_ref().is_some_and(|it| it.running.is_some());
    containers(pod).find(|status| status.name == name && running(status))
}

pub fn runs(pod: &Pod, name: &str) -> bool {
    running(pod, name).is_some()
}

/// Whether the container runs and its startup probe has succeeded. The kubelet shows this up to a second
/// before the pod is ready.
pub fn has_started(pod: &Pod, name: &str) -> bool {
    running(pod, name).is_some_and(|status| status.started == Some(true))
}

/// Reasons for which every container waits while it starts.
pub const ORDINARY: [&str; 2] = ["ContainerCreating", "PodInitializing"];

/// A failing image pull alternates between two reasons with the same cause: one reason and the cause
/// alone, so that a condition does not alternate too.
pub fn steady(reason: String, detail: &str) -> (String, &str) {
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

/// Longest excerpt, in characters, of what a container wrote last.
const LAST_WORDS: usize = 600;

/// Whether a line is part of a stack trace, which a program that aborts writes after its message.
fn is_stack_trace(line: &str) -> bool {
    ["@", "PC: @", "*** ", "[failure_signal_handler"].iter().any(|start| line.starts_with(start))
        && (line.contains("0x") || line.contains("SIG") || line.contains("stack trace"))
}

/// The end of what a container wrote before it exited, on one line.
fn last_words(message: &str) -> String {
    let lines = message.lines().map(str::trim).filter(|line| !line.is_empty() && !is_stack_trace(line));
    let lines: Vec<&str> = lines.collect();
    let text = lines[lines.len().saturating_sub(5)..].join(" / ");
    match text.char_indices().nth_back(LAST_WORDS) {
        Some((start, _)) => format!("...{}", &text[start..]),
        None => text,
    }
}

/// A container that should run forever and has exited, until it has started again. The message quotes
/// what it wrote last, rather than how long the kubelet waits.
pub fn crashed(pod: &Pod) -> Option<Trouble> {
    containers(pod).filter(|container| container.started != Some(true)).find_map(|container| {
        let states = [&container.state, &container.last_state];
        let end = states.into_iter().find_map(|state| state.as_ref()?.terminated.as_ref())?;
        let how = end.reason.as_deref().filter(|reason| !matches!(*reason, "Error" | "Completed"));
        let how = how.map(|reason| format!(" ({reason})")).unwrap_or_default();
        let words = end.message.as_deref().map(last_words).filter(|words| !words.is_empty());
        let (pod, name, code) = (pod.name_any(), &container.name, end.exit_code);
        let words = words.unwrap_or_else(|| match code {
            // The kubelet stores the end of a log only after an error.
            0 => format!(
                "it ended by itself, or Kubernetes stopped it because it did not listen on spec.port for 120 s: read its log with kubectl logs {pod} -c {name} --previous"
            ),
            _ => "it wrote nothing".to_owned(),
        });
        Some(Trouble {
            reason: "ServerExits".to_owned(),
            message: format!("pod {pod}: container {name} exited with code {code}{how}: {words}"),
        })
    })
}

/// The scheduler's message about a pod that fits no node.
pub fn unscheduled(pod: &Pod) -> Option<&str> {
    let scheduled = condition(pod.status.as_ref()?, "PodScheduled")?;
    let refused = scheduled.status == "False" && scheduled.reason.as_deref() == Some("Unschedulable");
    refused.then(|| scheduled.message.as_deref().unwrap_or("no node fits"))
}

/// Why no node has the ports free that a pod on the host network needs.
pub fn port_conflict(pod: &Pod) -> Option<String> {
    let scheduler = unscheduled(pod).filter(|scheduler| scheduler.contains("free ports"))?;
    let ports = pod.spec.iter().flat_map(|spec| &spec.containers).flat_map(|it| it.ports.iter().flatten());
    let ports: Vec<String> = ports.filter_map(|port| port.host_port).map(|port| port.to_string()).collect();
    Some(format!(
        "pod {} uses its node's network (pod.hostNetwork), and another pod has one of its ports {} on every suitable node: remove that pod, add or select another node, or remove hostNetwork: {scheduler}",
        pod.name_any(),
        ports.join(", ")
    ))
}

fn unschedulable(pod: &Pod) -> Option<Trouble> {
    let scheduler = unscheduled(pod)?;
    Some(Trouble {
        reason: "Unschedulable".to_owned(),
        message: port_conflict(pod).unwrap_or_else(|| format!("pod {}: {scheduler}", pod.name_any())),
    })
}

/// Reasons with which a kubelet refuses a pod because it cannot allocate its CPUs, with the remedy.
const REFUSALS: [(&str, &str); 3] = [
    (
        "SMTAlignmentError",
        "the node allocates exclusive CPUs only as complete cores (full-pcpus-only): request a multiple of its threads per core, such as an even number, in resources or by threads",
    ),
    (
        "TopologyAffinityError",
        "the CPUs do not satisfy the node's topology manager, such as on one NUMA node: request fewer, or select a larger node",
    ),
    (
        "UnexpectedAdmissionError",
        "the node cannot allocate what the pod requests, such as exclusive CPUs that others hold: request fewer, or select another node",
    ),
];

/// The remedy if a kubelet refuses a pod for `reason`; `None` for all other reasons.
pub fn remedy(reason: &str) -> Option<&'static str> {
    REFUSALS.iter().find(|(refusal, _)| *refusal == reason).map(|(_, remedy)| *remedy)
}

pub fn refusal(pod: &Pod, reason: &str, message: &str) -> Option<Trouble> {
    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or("its node");
    Some(Trouble {
        message: format!("pod {}: {node} refuses it: {message}: {}", pod.name_any(), remedy(reason)?),
        reason: reason.to_owned(),
    })
}

/// The kubelet's refusal of `pod`, from the pod's status.
fn refused(pod: &Pod) -> Option<Trouble> {
    let status = pod.status.as_ref().filter(|_| ended(pod))?;
    refusal(pod, status.reason.as_deref()?, status.message.as_deref().unwrap_or("no details given"))
}

pub fn trouble(pod: &Pod) -> Option<Trouble> {
    unschedulable(pod).or_else(|| refused(pod)).or_else(|| waiting(pod))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_belongs_to_the_job_that_owns_it_whatever_its_labels_are() {
        let made_by = |owner: serde_json::Value| -> Pod {
            serde_json::from_value(serde_json::json!({"metadata": {
                "labels": {"batch.kubernetes.io/job-name": "sprint-read-1", "job-name": "sprint-read-1"},
                "ownerReferences": owner,
            }}))
            .unwrap()
        };
        let owner = |kind: &str, uid: &str, controller: bool| {
            serde_json::json!([{
                "apiVersion": "batch/v1", "kind": kind, "name": "sprint-read-1", "uid": uid, "controller": controller
            }])
        };
        let is = |owner| is_of_job(&made_by(owner), "sprint-read-1", Some("job-uid"));
        assert!(is(owner("Job", "job-uid", true)));
        assert!(!is(owner("Job", "earlier-uid", true)), "an earlier Job had that name");
        assert!(!is(owner("Job", "job-uid", false)), "it only refers to the Job");
        assert!(!is(owner("ReplicaSet", "job-uid", true)), "the owner has another kind");
        assert!(!is(serde_json::json!([])), "it only has the label");
    }

    fn pod(status: serde_json::Value) -> Pod {
        serde_json::from_value(serde_json::json!({"metadata": {"name": "p"}, "status": status})).unwrap()
    }

    #[test]
    fn a_pod_has_ended_with_its_last_container_unless_the_kubelet_starts_that_again() {
        let ended = |policy: &str, states: [&str; 2]| {
            let statuses = states.map(|state| {
                serde_json::json!({
                    "name": "c", "image": "i", "imageID": "", "ready": false, "restartCount": 0,
                    "state": {state: {"exitCode": 0}},
                })
            });
            let mut pod = pod(serde_json::json!({"phase": "Running", "containerStatuses": statuses}));
            let containers = [serde_json::json!({"name": "c"}), serde_json::json!({"name": "d"})];
            let spec = serde_json::json!({"restartPolicy": policy, "containers": containers});
            pod.spec = serde_json::from_value(spec).unwrap();
            ended(&pod)
        };
        assert!(ended("Never", ["terminated", "terminated"]));
        assert!(!ended("Never", ["terminated", "running"]), "one runs");
        assert!(!ended("Always", ["terminated", "terminated"]), "the kubelet starts them again");
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
    fn a_refused_odd_number_of_cpus_is_reported_with_the_remedy() {
        let found = trouble(&pod(serde_json::json!({
            "phase": "Failed", "reason": "SMTAlignmentError",
            "message": "Pod was rejected: SMT Alignment Error: requested 3 cpus not multiple cpus per core = 2"
        })))
        .unwrap();
        assert_eq!(found.reason, "SMTAlignmentError");
        assert!(found.message.contains("requested 3 cpus"), "{}", found.message);
        assert!(found.message.contains("such as an even number"), "{}", found.message);
        let evicted = serde_json::json!({"phase": "Failed", "reason": "Evicted", "message": "low on memory"});
        assert_eq!(trouble(&pod(evicted)), None, "another matter");
    }

    #[test]
    fn a_port_of_the_node_that_is_in_use_is_reported_with_the_remedy() {
        let mut waiting = pod(serde_json::json!({"conditions": [{
            "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
            "message": "0/4 nodes are available: 1 node(s) didn't have free ports for the requested pod ports."
        }]}));
        let ports = serde_json::json!({"containers": [{"name": "server", "ports": [
            {"containerPort": 6379, "hostPort": 6379}, {"containerPort": 9180, "hostPort": 9180}
        ]}]});
        waiting.spec = serde_json::from_value(ports).unwrap();
        let found = trouble(&waiting).unwrap().message;
        assert!(
            found.contains("one of its ports 6379, 9180") && found.contains("remove hostNetwork"),
            "{found}"
        );
    }

    #[test]
    fn a_failing_image_pull_has_the_same_message_at_every_attempt() {
        let failed = steady("ErrImagePull".into(), "no such host");
        let backing_off = r#"Back-off pulling image "example.com/none:1": ErrImagePull: no such host"#;
        assert_eq!(steady("ImagePullBackOff".into(), backing_off), failed);
    }

    #[test]
    fn a_pod_that_fits_no_node_has_the_scheduler_s_message() {
        let found = trouble(&pod(serde_json::json!({"conditions": [{
            "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/2 nodes are available"
        }]})))
        .unwrap();
        assert_eq!(
            (found.reason.as_str(), found.message.as_str()),
            ("Unschedulable", "pod p: 0/2 nodes are available")
        );
    }

    fn server(started: bool, last: &serde_json::Value) -> Pod {
        pod(serde_json::json!({"containerStatuses": [{
            "name": "server", "image": "i", "imageID": "", "ready": false, "restartCount": 2, "started": started,
            "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 40s restarting failed container"}},
            "lastState": {"terminated": last}
        }]}))
    }

    #[test]
    fn a_server_that_exits_is_quoted() {
        let message = "*** FATAL CONFIG FILE ERROR (Redis 7.0.15) ***\nReading the configuration file, at line 2\n>>> 'maxmemoryy \"1gb\"'\nBad directive or wrong number of arguments\n";
        let last = serde_json::json!({"exitCode": 1, "reason": "Error", "message": message});
        let found = crashed(&server(false, &last)).unwrap();
        assert_eq!(found.reason, "ServerExits");
        assert!(found.message.contains("'maxmemoryy \"1gb\"' / Bad directive"), "{}", found.message);
        assert!(!found.message.contains("back-off"), "{}", found.message);
        assert_eq!(crashed(&server(true, &last)), None, "it has started again");
        let killed = serde_json::json!({"exitCode": 137, "reason": "OOMKilled"});
        let found = crashed(&server(false, &killed)).unwrap().message;
        assert!(found.ends_with("exited with code 137 (OOMKilled): it wrote nothing"), "{found}");
    }

    #[test]
    fn a_server_that_ends_without_an_error_is_not_said_to_have_written_nothing() {
        let stopped = serde_json::json!({"exitCode": 0, "reason": "Completed"});
        let found = crashed(&server(false, &stopped)).unwrap().message;
        assert!(!found.contains("wrote nothing"), "its log is not known: {found}");
        assert!(found.contains("did not listen on spec.port") && found.contains("kubectl logs p"), "{found}");
    }

    #[test]
    fn a_server_that_refuses_a_flag_is_quoted_without_its_stack() {
        let quoted = |message: &str| {
            crashed(&server(
                false,
                &serde_json::json!({"exitCode": 1, "reason": "Error", "message": message}),
            ))
            .unwrap()
            .message
        };
        let unknown = quoted("ERROR: Unknown command line flag 'nosuchflag'\n");
        assert!(
            unknown.ends_with("exited with code 1: ERROR: Unknown command line flag 'nosuchflag'"),
            "{unknown}"
        );
        let aborted = quoted(
            "I1121 02:02:11.454183   23318 proactor_pool.cc:149] Running 1 io threads\n\
             F1121 02:02:11.454246   23318 script_mgr.cc:64] Check failed: !err Invalid flag: nosuch\n\
             *** Check failure stack trace: ***\n\
                 @     0x7fa98caa8eec  (unknown)\n    @     0x7fa98caa8eed  raise\n    @     0x7fa98caa8eee  abort\n\
                 @     0x7fa98caa8eef  (unknown)\n    @     0x7fa98caa8ef0  main\n\
             *** SIGABRT received at time=1795226531 on cpu 1 ***\nPC: @     0x7fa98caa8eec  (unknown)  (unknown)\n",
        );
        assert!(aborted.ends_with("Check failed: !err Invalid flag: nosuch"), "{aborted}");
    }

    #[test]
    fn only_the_end_of_a_long_log_is_quoted() {
        let quoted = last_words(&format!("first\n{}é the end", "x".repeat(3000)));
        assert!(quoted.ends_with("é the end") && quoted.chars().count() < 610, "{}", quoted.len());
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
