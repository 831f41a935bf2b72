//! From pods that have ended to one repetition's result. Needs the client;
//! merging what they said is [`merge`](super::merge)'s.

use super::{
    build::CLIENT_CONTAINER,
    decide::RESULT_GRACE,
    merge::{failure, merge},
    validate::{Attempt, ValidatedRun},
};
use crate::cluster::pods;
use dragstrip_results::{
    counters::{add_commands, commands_used, counters_agree, joined},
    protocol::JobTool,
    result::{Failure, FailureStep, LOG_MARKER, PodFailure, PodResult, RepetitionResult},
};
use futures::StreamExt;
use k8s_openapi::api::core::v1::{ContainerStateTerminated, Pod};
use kube::{Api, Client, ResourceExt, api::LogParams};
use std::{collections::BTreeMap, time::Duration};

/// Logs read in the same moment.
const CONCURRENCY: usize = 16;
/// How long the log of a pod may take that did not end: its node may be gone.
const UNENDED_LOG_WITHIN: Duration = Duration::from_secs(5);

/// The last whole result in a runner's log.
fn from_log(log: &str) -> Option<PodResult> {
    log.lines().rev().find_map(|line| serde_json::from_str(line.strip_prefix(LOG_MARKER)?).ok())
}

fn terminated(pod: &Pod) -> Option<&ContainerStateTerminated> {
    pods::containers(pod)
        .find(|container| container.name == CLIENT_CONTAINER)
        .and_then(|container| container.state.as_ref()?.terminated.as_ref())
}

/// Reasons with which the kubelet or the node's end, not the tool, ended a pod.
const TAKEN_AWAY: [&str; 7] =
    ["Evicted", "NodeLost", "Shutdown", "NodeShutdown", "Terminated", "Preempting", "ContainerStatusUnknown"];

/// Whether the cluster took the pod away: deleted, evicted, preempted, or its node is gone.
fn taken_away(pod: &Pod) -> bool {
    let status = pod.status.as_ref();
    let disrupted = status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten())
        .any(|condition| condition.type_ == "DisruptionTarget" && condition.status == "True");
    let reasons = [
        status.and_then(|status| status.reason.as_deref()),
        terminated(pod).and_then(|ended| ended.reason.as_deref()),
    ];
    disrupted
        || pod.metadata.deletion_timestamp.is_some()
        || reasons.iter().flatten().any(|reason| TAKEN_AWAY.contains(reason))
}

/// What can be said of a pod that left no result.
fn without_result(attempt: &Attempt, pod: &Pod) -> PodResult {
    let ended = terminated(pod);
    let status = pod.status.as_ref();
    let why = status
        .and_then(|s| s.reason.clone())
        .or_else(|| ended.and_then(|e| e.reason.clone()))
        .unwrap_or_else(|| "no reason given".to_owned());
    let detail = status.and_then(|s| s.message.clone()).map(|m| format!(" ({m})")).unwrap_or_default();
    let (step, message) = if !pods::ended(pod) {
        let grace = RESULT_GRACE.as_secs();
        (FailureStep::Lost, format!("no result arrived within {grace} s of the declared end of the load"))
    } else if taken_away(pod) {
        (FailureStep::Lost, format!("the pod was taken away: {why}{detail}"))
    } else {
        (FailureStep::Tool, format!("the pod ended without a result: {why}{detail}"))
    };
    let failure = Failure {
        exit_code: ended.map(|e| e.exit_code),
        signal: ended.and_then(|e| e.signal),
        ..failure(step, message)
    };
    PodResult::failed(&attempt.phase, attempt.repetition, &pod.name_any(), failure)
}

/// What `pod` wrote into its log; `None` when the log has no result or cannot be read.
async fn logged(client: &Client, pod: &Pod) -> Option<PodResult> {
    let api: Api<Pod> = Api::namespaced(client.clone(), &pod.namespace().unwrap_or_default());
    let parameters = LogParams { container: Some(CLIENT_CONTAINER.to_owned()), ..LogParams::default() };
    let name = pod.name_any();
    let read = api.logs(&name, &parameters);
    let log = if pods::ended(pod) {
        read.await.map_err(|error| error.to_string())
    } else {
        match tokio::time::timeout(UNENDED_LOG_WITHIN, read).await {
            Ok(log) => log.map_err(|error| error.to_string()),
            Err(_) => Err(format!("no answer within {} s", UNENDED_LOG_WITHIN.as_secs())),
        }
    };
    match log {
        Ok(log) => from_log(&log),
        // The node may be gone; the termination message is in the pod itself.
        Err(error) => {
            tracing::warn!(pod = %name, error, "no log, falling back to the termination message");
            None
        }
    }
}

/// What `pod` has to say: its log's result, else the compact one of its
/// termination message, else why there is none.
async fn read_pod(client: &Client, attempt: &Attempt, pod: &Pod) -> PodResult {
    let said = logged(client, pod).await;
    let compact = || serde_json::from_str(terminated(pod)?.message.as_deref()?).ok();
    on_its_node(said.or_else(compact).unwrap_or_else(|| without_result(attempt, pod)), pod)
}

/// The result with the pod's node, which the pod itself need not know.
fn on_its_node(result: PodResult, pod: &Pod) -> PodResult {
    PodResult { node: pod.spec.as_ref().and_then(|spec| spec.node_name.clone()), ..result }
}

/// Reads the results of all `pods` of `attempt`.
pub async fn read(client: &Client, run: &ValidatedRun, attempt: &Attempt, pods: &[&Pod]) -> RepetitionResult {
    let mut reading = Vec::with_capacity(pods.len());
    for pod in pods {
        reading.push(read_pod(client, attempt, pod));
    }
    let results: Vec<PodResult> = futures::stream::iter(reading).buffered(CONCURRENCY).collect().await;
    let mut merged = merge(attempt, run.pods(), results);
    if merged.failure.is_none()
        && let Some(message) = disagreement(attempt, &merged.pods)
    {
        let failure = failure(FailureStep::CounterCheck, message);
        merged.failure = Some(PodFailure { pod: attempt.name.clone(), failure });
    }
    merged
}

/// Whether the pods' counts are of the server's own commands.
fn counts_commands(attempt: &Attempt, results: &[PodResult]) -> bool {
    match &*attempt.tool {
        JobTool::Loadgen(_) | JobTool::Memtier(_) => true,
        JobTool::Exec(exec) => exec.counter_check,
        JobTool::Bullmq(_) => results.iter().all(|pod| !pod.commands.is_empty()),
    }
}

/// What the server counted against what all clients counted together; `None`
/// when they agree or nothing can be compared. One client's runner did it itself.
fn disagreement(attempt: &Attempt, results: &[PodResult]) -> Option<String> {
    let servers: Vec<_> = results.iter().filter_map(|pod| pod.server.as_ref()).collect();
    // Counters of a cluster are sums over its shards, or of one of them only and then useless.
    let partial = servers.iter().any(|server| server.truth.cluster_enabled && server.shards.is_empty());
    if results.len() < 2 || servers.len() < results.len() || partial || !counts_commands(attempt, results) {
        return None;
    }
    let before = joined(servers.iter().map(|server| &server.before), u64::min)?;
    let after = joined(servers.iter().filter_map(|server| server.after.as_ref()), u64::max)?;
    let mut commands = BTreeMap::new();
    for pod in results {
        add_commands(&mut commands, commands_used(pod));
    }
    let in_flight = match attempt.tool.planned_seconds() {
        Some(_) => results.iter().map(|pod| pod.tool.connections * pod.tool.pipeline.max(1)).sum(),
        None => 0,
    };
    counters_agree(&commands, in_flight, &before, &after)
        .err()
        .map(|error| format!("over {} client pods, {error}", results.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::{
        fixtures::{pod_result, run, server_record},
        validate::validate,
    };
    use serde_json::json;

    fn attempt() -> Attempt {
        validate(&run(&["read"], 1)).unwrap().attempts.remove(0)
    }

    fn pod(value: serde_json::Value) -> Pod {
        serde_json::from_value(value).unwrap()
    }

    fn ended(reason: &str) -> serde_json::Value {
        json!({
            "metadata": {"name": "p"},
            "status": {"phase": "Failed", "containerStatuses": [{
                "name": "client", "image": "i", "imageID": "", "ready": false, "restartCount": 0,
                "state": {"terminated": {"exitCode": 137, "reason": reason}}
            }]}
        })
    }

    #[test]
    fn a_result_names_the_node_of_its_pod() {
        let placed =
            pod(json!({"metadata": {"name": "p"}, "spec": {"nodeName": "worker", "containers": []}}));
        assert_eq!(on_its_node(pod_result("p", 1, 1.0, 100), &placed).node.as_deref(), Some("worker"));
    }

    #[test]
    fn a_result_is_found_after_progress_lines() {
        let result = serde_json::to_string(&pod_result("a", 10, 1.0, 100)).unwrap();
        let log = format!("1s  10 ops/s\n{LOG_MARKER}{result}\nbye\n");
        assert_eq!(from_log(&log).unwrap().pod, "a");
        assert_eq!(from_log(&log[..log.len() / 2]), None, "half a result is none");
    }

    #[test]
    fn only_what_the_cluster_took_away_counts_as_lost() {
        let mut deleted = ended("Error");
        deleted["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        let mut evicted = ended("Error");
        evicted["status"]["reason"] = json!("Evicted");
        let mut drained = ended("Error");
        drained["status"]["conditions"] =
            json!([{"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}]);
        let silent = json!({"metadata": {"name": "p"}, "status": {"phase": "Running"}});
        let table = [
            ("a tool that broke", ended("Error"), FailureStep::Tool),
            ("a tool without memory", ended("OOMKilled"), FailureStep::Tool),
            ("a deleted pod", deleted, FailureStep::Lost),
            ("an evicted pod", evicted, FailureStep::Lost),
            ("a drained pod", drained, FailureStep::Lost),
            ("a node that was restarted", ended("ContainerStatusUnknown"), FailureStep::Lost),
            ("a silent node", silent, FailureStep::Lost),
        ];
        for (sentence, value, expected) in table {
            let found = without_result(&attempt(), &pod(value)).failure.unwrap();
            assert_eq!(found.step, expected, "{sentence}: {}", found.message);
        }
    }

    fn counted(pod: &str, count: u64, before: u64, after: u64) -> PodResult {
        let mut result = pod_result(pod, count, 1.0, 100);
        result.server = Some(server_record("get", before, after));
        result
    }

    #[test]
    fn the_servers_count_is_compared_with_that_of_all_clients() {
        let agreeing = [counted("a", 1000, 0, 1900), counted("b", 1000, 100, 2000)];
        assert_eq!(disagreement(&attempt(), &agreeing), None);
        let more = [counted("a", 1000, 0, 1900), counted("b", 1000, 100, 9000)];
        let message = disagreement(&attempt(), &more).unwrap();
        assert!(message.contains("over 2 client pods, the server counted 9,000 GET"), "{message}");
    }

    #[test]
    fn the_counts_of_a_tool_that_names_no_commands_are_not_compared() {
        let mut jobs = attempt();
        let bullmq = serde_json::from_value(json!({"duration": "1s"})).unwrap();
        jobs.tool = std::sync::Arc::new(JobTool::Bullmq(bullmq));
        let pods = [counted("a", 1000, 0, 5), counted("b", 1000, 0, 5)];
        assert_eq!(disagreement(&jobs, &pods), None);
    }
}
