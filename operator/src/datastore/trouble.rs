//! Why the pods of a Datastore are not ready, or not those of its current declaration. Pure.

use super::{fetch::Fetched, placement, plan::built_for};
use crate::cluster::{pods, warnings};
use dragstrip_core::{
    datastore::{shape::Shape, validate::ValidatedDatastore},
    nodes,
    trouble::Trouble,
};
use dragstrip_crds::conditions::{Finding, types::READY};
use k8s_openapi::api::{
    apps::v1::StatefulSet,
    core::v1::{Node, Pod},
};
use kube::ResourceExt;
use std::sync::Arc;

/// Reason of Ready while pods of the earlier declaration are replaced.
pub const ROLLING_OUT: &str = "RollingOut";

pub const SERVER_EXITS: &str = "ServerExits";

/// Whether the StatefulSet was built for `generation` and observed, so that its revision is the current one.
fn settled(stateful_set: &StatefulSet, generation: i64) -> bool {
    let observed = stateful_set.status.as_ref().and_then(|status| status.observed_generation);
    built_for(stateful_set) == Some(generation)
        && observed.is_some()
        && observed == stateful_set.metadata.generation
}

/// Whether `pod` has the StatefulSet's newest template, and is not being deleted.
fn current(stateful_set: &StatefulSet, pod: &Pod) -> bool {
    let newest = stateful_set.status.as_ref().and_then(|status| status.update_revision.as_ref());
    newest.is_some()
        && pod.labels().get("controller-revision-hash") == newest
        && pod.metadata.deletion_timestamp.is_none()
}

/// The condition's reason, a constant, for a reason of Kubernetes.
fn reason(of_pod: &str) -> &'static str {
    match of_pod {
        "ServerExits" | "CrashLoopBackOff" => SERVER_EXITS,
        "ImageUnavailable" | "InvalidImageName" | "ErrImageNeverPull" => "ImageUnavailable",
        "CreateContainerConfigError" | "FailedMount" | "FailedAttachVolume" => "ConfigurationMissing",
        refusal if pods::remedy(refusal).is_some() => "NodeRefuses",
        _ => "PodHeldUp",
    }
}

fn of_pod(datastore: &ValidatedDatastore, fetched: &Fetched, pod: &Pod) -> Option<Finding> {
    if let Some(scheduler) = pods::unscheduled(pod) {
        let affine = |node: &&Arc<Node>| nodes::affine(node, &datastore.spec.pod);
        let affine: Vec<Arc<Node>> = fetched.nodes.iter().filter(affine).cloned().collect();
        let explain = || placement::explain(datastore, pod, &affine, scheduler);
        let message = pods::port_conflict(pod).unwrap_or_else(explain);
        return Some(Finding::no(READY, "Unschedulable", message));
    }
    let trouble: Trouble = warnings::refused_by_kubelet(pod, &fetched.warnings)
        .or_else(|| pods::crashed(pod))
        .or_else(|| pods::trouble(pod))
        .or_else(|| warnings::trouble(pod, &fetched.warnings))?;
    Some(Finding::no(READY, reason(&trouble.reason), trouble.message))
}

/// Why the StatefulSet's controller could not create a pod, in the API server's words.
fn refused(fetched: &Fetched) -> Option<Finding> {
    let refusal = warnings::refusal(fetched.stateful_set.as_deref()?, &fetched.warnings)?;
    Some(Finding::no(READY, "PodsRefused", refusal.message))
}

/// Why the pods are not ready; `None` if all of them are, with the current declaration.
pub fn unready(datastore: &ValidatedDatastore, fetched: &Fetched) -> Option<Finding> {
    let pods = &fetched.pods;
    let expected = usize::from(Shape::of(&datastore.spec).pods());
    let missing = (pods.len() < expected).then(|| refused(fetched)).flatten();
    let stateful_set = fetched.stateful_set.as_deref().filter(|_| !pods.is_empty());
    let Some(stateful_set) = stateful_set else {
        let none = || Finding::no(READY, "NoPod", "the server's pod has not been created yet");
        return Some(missing.unwrap_or_else(none));
    };
    let starting = || match pods.iter().find(|pod| !pods::ready(pod)) {
        Some(pod) => format!("pod {} is starting", pod.name_any()),
        None => format!("{} of {expected} pods have been created", pods.len()),
    };
    // A StatefulSet that has never changed has no pods of an earlier declaration.
    let first = stateful_set.metadata.generation == Some(1);
    let rolling = |message: String| {
        let (reason, message) = if first { ("Starting", starting()) } else { (ROLLING_OUT, message) };
        Some(Finding::no(READY, reason, message))
    };
    if !settled(stateful_set, datastore.generation) {
        return rolling("the servers of the earlier declaration are about to be replaced".to_owned());
    }
    let current = |pod: &&Arc<Pod>| current(stateful_set, pod);
    let trouble = || pods.iter().filter(current).find_map(|pod| of_pod(datastore, fetched, pod));
    if let Some(finding) = missing.or_else(trouble) {
        return Some(finding);
    }
    if let Some(outdated) = pods.iter().find(|pod| !current(pod)) {
        return rolling(format!("pod {} is being replaced", outdated.name_any()));
    }
    let ready = pods.len() == expected && pods.iter().all(|pod| pods::ready(pod));
    (!ready).then(|| Finding::no(READY, "Starting", starting()))
}
