//! From pods that have ended to the result of one attempt. Needs the client; [`Merging`] is pure.
//!
//! A pod's log has its complete result, and nothing else may replace it: the operator requests the
//! log until it has read it, or until the log is gone for good.

use super::log::{self, Log};
use crate::{
    cluster::{
        pods::{self, CLIENT_CONTAINER},
        retry::{NotYet, Retries},
    },
    heavy::off_thread,
};
use dragstrip_core::run::{merge::Merging, timing::RESULT_GRACE, validate::Attempt};
use dragstrip_results::result::{Failure, FailureStep, PodResult, RepetitionResult};
use futures::{StreamExt, TryFutureExt};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{ContainerStateTerminated, Node, Pod};
use kube::{Api, Client, ResourceExt, api::LogParams};
use std::{sync::Arc, time::Duration};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Most characters of the reason why a log cannot be read: a proxy may answer with an HTML page.
const REASON_CHARACTERS: usize = 300;
/// Logs of one run read at the same time: as many small results are in memory.
const CONCURRENCY: usize = 8;
/// Timeout for reading the log of a pod.
const LOG_WITHIN: Duration = Duration::from_secs(30);
/// The same for a pod that did not end: its node may be gone.
const UNENDED_LOG_WITHIN: Duration = Duration::from_secs(5);
/// How long to retry the log of a pod that has ended and still exists.
const LOG_PATIENCE: SignedDuration = SignedDuration::from_mins(10);
/// The same if the kubelet says that there is none: a restarted kubelet says so at first.
const REMOVED_LOG_PATIENCE: SignedDuration = SignedDuration::from_secs(60);
/// The same for a pod that did not end in time, and had its grace period.
const UNENDED_LOG_PATIENCE: SignedDuration = SignedDuration::from_secs(10);

/// The log of `pod`, as far as it matters.
async fn read_log(
    api: &Api<Pod>,
    attempt: &Attempt,
    pod: &Pod,
    large: &Arc<Semaphore>,
) -> Result<Log, String> {
    let parameters = LogParams { container: Some(CLIENT_CONTAINER.to_owned()), ..LogParams::default() };
    match api.log_stream(&pod.name_any(), &parameters).await {
        Ok(stream) => {
            let log = log::read(stream, large, |result| is_own(result, attempt, pod)).await;
            log.map_err(|error| error.to_string())
        }
        Err(kube::Error::Api(status)) => Err(status.message),
        Err(error) => Err(error.to_string()),
    }
}

/// Whether `result` is of this pod and attempt: a tool may write another's. A runner that cannot
/// read its job reports a failure without an attempt.
fn is_own(result: &PodResult, attempt: &Attempt, pod: &Pod) -> bool {
    let of_attempt = result.phase == attempt.phase && result.repetition == attempt.repetition;
    result.pod == pod.name_any() && (of_attempt || result.failure.is_some())
}

fn terminated(pod: &Pod) -> Option<&ContainerStateTerminated> {
    pods::containers(pod)
        .find(|container| container.name == CLIENT_CONTAINER)
        .and_then(|container| container.state.as_ref()?.terminated.as_ref())
}

/// Reasons for which the kubelet or the node's end, not the tool, ended a pod.
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

/// The failure of a pod that left no result, or whose result was lost because of `unreadable`.
fn without_result(attempt: &Attempt, pod: &Pod, unreadable: Option<&str>) -> PodResult {
    let ended = terminated(pod);
    let status = pod.status.as_ref();
    let why = status
        .and_then(|s| s.reason.clone())
        .or_else(|| ended.and_then(|e| e.reason.clone()))
        .unwrap_or_else(|| "no reason given".to_owned());
    let detail = status.and_then(|s| s.message.clone()).map(|m| format!(" ({m})")).unwrap_or_default();
    let remedy = pods::remedy(&why).map(|remedy| format!(": {remedy}")).unwrap_or_default();
    let (step, message) = if !pods::ended(pod) {
        let grace = RESULT_GRACE.as_secs();
        (FailureStep::Lost, format!("no result arrived within {grace} s of the declared end of the load"))
    } else if taken_away(pod) {
        (FailureStep::Lost, format!("the pod was taken away: {why}{detail}"))
    } else if let Some(unreadable) = unreadable {
        (FailureStep::Lost, format!("its result could not be read: {unreadable}"))
    } else {
        (FailureStep::Tool, format!("the pod ended without a result: {why}{detail}{remedy}"))
    };
    let failure = Failure {
        exit_code: ended.map(|e| e.exit_code),
        signal: ended.and_then(|e| e.signal),
        ..Failure::new(step, message)
    };
    PodResult::failed(&attempt.phase, attempt.repetition, &pod.name_any(), failure)
}

/// The result of a pod, and what must be held until it is merged.
type Merged = (PodResult, Option<OwnedSemaphorePermit>);

enum Answer {
    Result(Box<Merged>),
    /// There is no log, or it has no result.
    Nothing,
    Gone(String),
    /// It could not be read now, and why.
    Silent(String),
}

/// Whether a kubelet's message says that the pod's log is removed. It says the same for a moment
/// after it, or the container runtime, was restarted.
fn says_removed(message: &str) -> bool {
    const PARTS: [&str; 6] = [
        "unable to retrieve container logs for",
        "failed to try resolving symlinks in path",
        "no logs available",
        "does not exist",
        "is terminated",
        "is not available",
    ];
    PARTS.iter().any(|part| message.contains(part))
}

/// How long to retry the log of `pod`, which cannot be read because of `why`.
fn patience(pod: &Pod, why: &str) -> SignedDuration {
    let deleted = pod.metadata.deletion_timestamp.is_some();
    match (pods::ended(pod), says_removed(why)) {
        (false, _) => UNENDED_LOG_PATIENCE,
        // A kubelet removes the containers of a deleted pod before the pod is gone.
        (true, true) if deleted => SignedDuration::ZERO,
        (true, true) => REMOVED_LOG_PATIENCE,
        (true, false) => LOG_PATIENCE,
    }
}

/// Why the log of `pod` is gone for good; `None` if it may still exist.
async fn gone_for_good(client: &Client, pod: &Pod) -> Option<String> {
    let (name, namespace) = (pod.name_any(), pod.namespace().unwrap_or_default());
    // After a failed request, the pod may still exist.
    let there = Api::<Pod>::namespaced(client.clone(), &namespace).get_metadata_opt(&name).await.ok()?;
    if there.is_none_or(|there| there.uid() != pod.uid()) {
        return Some("the pod was deleted".to_owned());
    }
    let node = pod.spec.as_ref()?.node_name.as_ref()?;
    let there = Api::<Node>::all(client.clone()).get_metadata_opt(node).await.ok()?;
    there.is_none().then(|| format!("its node {node} is gone"))
}

async fn request(client: &Client, large: &Arc<Semaphore>, attempt: &Attempt, pod: &Pod) -> Answer {
    // It ended before its container began, or its status has no container: nothing was written.
    if pods::ended(pod) && terminated(pod).is_none() {
        return Answer::Nothing;
    }
    let api: Api<Pod> = Api::namespaced(client.clone(), &pod.namespace().unwrap_or_default());
    let within = if pods::ended(pod) { LOG_WITHIN } else { UNENDED_LOG_WITHIN };
    let why = match tokio::time::timeout(within, read_log(&api, attempt, pod, large)).await {
        Ok(Ok(log)) => match (log.result, log.only_line) {
            (Some(result), _) => return Answer::Result(Box::new((result, log.permit))),
            (None, Some(line)) if says_removed(&line) => line,
            (None, _) => return Answer::Nothing,
        },
        Ok(Err(why)) => why,
        Err(_) => format!("no answer within {} s", within.as_secs()),
    };
    match gone_for_good(client, pod).await {
        Some(why) => Answer::Gone(why),
        None => Answer::Silent(why.chars().take(REASON_CHARACTERS).collect()),
    }
}

/// The `part` of a result in a termination message, with its own failure or one because of `why`.
fn part_of_result(part: PodResult, why: &str) -> PodResult {
    let message =
        format!("its complete result could not be read ({why}), and its termination message is only a part");
    let failure = part.failure.clone().unwrap_or_else(|| Failure::new(FailureStep::Lost, message));
    PodResult { failure: Some(failure), ..part }
}

/// The result of `pod`: the complete one; its part, once the complete one is gone; or why neither exists.
async fn read_pod(
    client: &Client,
    (retries, large): (&Retries, &Arc<Semaphore>),
    attempt: &Attempt,
    pod: &Pod,
    now: Timestamp,
) -> Result<Merged, NotYet> {
    let left = terminated(pod).and_then(|ended| ended.message.as_deref());
    let left: Option<PodResult> = left.and_then(|message| serde_json::from_str(message).ok());
    let left = left.filter(|result| is_own(result, attempt, pod));
    if let Some(complete) = left.as_ref().filter(|result| result.complete) {
        return Ok((complete.clone(), None));
    }
    let uid = pod.uid().unwrap_or_default();
    retries.due(&uid, now)?;
    let why = match request(client, large, attempt, pod).await {
        Answer::Result(result) => {
            retries.settled(&uid);
            return Ok(*result);
        }
        Answer::Nothing => None,
        Answer::Gone(why) => Some(why),
        Answer::Silent(why) => {
            let named = format!("the log of pod {} cannot be read: {why}", pod.name_any());
            if let Some(not_yet) = retries.with_patience(&uid, &named, patience(pod, &why), now) {
                return Err(not_yet);
            }
            Some(why)
        }
    };
    retries.settled(&uid);
    tracing::warn!(pod = %pod.name_any(), why, "no complete result in the log");
    let instead = match left {
        Some(part) => part_of_result(part, why.as_deref().unwrap_or("it is not in its log")),
        None => without_result(attempt, pod, why.as_deref()),
    };
    Ok((instead, None))
}

fn on_its_node(result: PodResult, pod: &Pod) -> PodResult {
    PodResult { node: pod.spec.as_ref().and_then(|spec| spec.node_name.clone()), ..result }
}

/// Reads the results of all `pods` of `attempt` and merges each as it comes, beside the threads that
/// reconcile. If a log cannot be read now, but may be later, the error has the time of the next attempt.
pub async fn complete(
    client: &Client,
    (retries, large): (&Retries, &Arc<Semaphore>),
    attempt: &Attempt,
    pods: &[&Pod],
    now: Timestamp,
) -> Result<RepetitionResult, NotYet> {
    let mut reading = Vec::with_capacity(pods.len());
    for pod in pods {
        let read = read_pod(client, (retries, large), attempt, pod, now);
        reading.push(read.map_ok(|(result, permit)| (on_its_node(result, pod), permit)));
    }
    let mut reading = futures::stream::iter(reading).buffer_unordered(CONCURRENCY);
    let (mut merging, mut not_yet) = (Merging::new(attempt.pods), None::<NotYet>);
    // Even if one is silent, the others are read: each has its own patience from its first silence on.
    while let Some(read) = reading.next().await {
        match read {
            Ok((result, _permit)) if not_yet.is_none() => {
                merging = off_thread(move || {
                    merging.add(result);
                    merging
                })
                .await;
            }
            Ok(_) => {}
            Err(later) => {
                not_yet = not_yet.into_iter().chain([later]).min_by_key(|not_yet| not_yet.until);
            }
        }
    }
    if let Some(not_yet) = not_yet {
        return Err(not_yet);
    }
    let attempt = attempt.clone();
    Ok(off_thread(move || merging.finish(&attempt)).await)
}

#[cfg(test)]
mod tests;
