//! The objects a run makes: its own Datastore, a Job per attempt, a ConfigMap
//! per result. Pure.

mod placement;
mod pod;

use super::turn::TurnCheck;
use crate::{
    context::Settings,
    objects::{owner, with_labels},
    pod_settings,
};
use dragstrip_core::{
    labels,
    run::{
        decide::ReadyTarget,
        job::bare_job,
        stored_result::annotation,
        timing::watchdog_seconds,
        validate::{Attempt, ValidatedRun},
    },
};
use dragstrip_crds::{BenchmarkRun, Datastore, DatastoreSpec, run::MemoryReading};
use dragstrip_results::{protocol::JobSpec, stored};
use ipnet::IpNet;
use k8s_openapi::{
    ByteString,
    api::{
        batch::v1::{Job, JobSpec as BatchJobSpec},
        core::v1::{ConfigMap, PodSpec, PodTemplateSpec},
    },
};
use kube::{ResourceExt, api::ObjectMeta};
use std::collections::BTreeMap;

/// Name of the client container.
pub const CLIENT_CONTAINER: &str = "client";

fn metadata(run: &ValidatedRun, name: &str, labels: BTreeMap<String, String>) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        namespace: Some(run.holder.namespace.clone()),
        labels: Some(labels),
        owner_references: Some(vec![owner::<BenchmarkRun>(&run.holder.name, &run.holder.uid)]),
        ..ObjectMeta::default()
    }
}

fn attempt_labels(run: &ValidatedRun, attempt: &Attempt) -> BTreeMap<String, String> {
    labels::common([
        (labels::RUN, &run.holder.name),
        (labels::RUN_UID, &run.holder.uid),
        (labels::PHASE, &attempt.phase),
        (labels::REPETITION, &attempt.repetition.to_string()),
    ])
}

/// The Datastore made for the run, under the run's own name.
pub fn datastore(run: &ValidatedRun, spec: &DatastoreSpec) -> Datastore {
    let mut datastore = Datastore::new(&run.holder.name, spec.clone());
    datastore.metadata = metadata(run, &run.holder.name, labels::common([(labels::RUN, &run.holder.name)]));
    datastore
}

/// What a result remembers of its `job`, which may be removed: when it was to start,
/// of which spec it was, and what the server was.
fn memory(job: Option<&Job>) -> impl Iterator<Item = (String, String)> {
    let notes = [labels::START_AT, labels::SPEC_HASH, labels::SERVER_IDENTITY];
    notes
        .into_iter()
        .filter_map(move |key| Some((key.to_owned(), annotation(&job?.metadata, key)?.to_owned())))
}

/// Where the `parts` of the result of `attempt`, measured by `job`, are kept, the first
/// with `marks` that tell what became of it (see [`stored::annotations`]), in the order
/// in which they must be written: the first part comes last, since a result counts as
/// stored when that one is there. What an operator that was stopped in between left of
/// another account has other names, and goes with the run.
pub fn config_maps(
    run: &ValidatedRun,
    attempt: &Attempt,
    job: Option<&Job>,
    marks: &BTreeMap<String, String>,
    parts: Vec<Vec<u8>>,
) -> Vec<ConfigMap> {
    let stored = parts.into_iter().enumerate().map(|(index, part)| {
        let first = index == 0;
        let mut stored = ConfigMap {
            metadata: metadata(
                run,
                &stored::part_name(&attempt.name, index + 1, marks),
                attempt_labels(run, attempt),
            ),
            binary_data: Some([(stored::KEY.to_owned(), ByteString(part))].into()),
            immutable: Some(true),
            ..ConfigMap::default()
        };
        if first {
            stored.metadata.annotations = Some(memory(job).chain(marks.clone()).collect());
        } else {
            stored.labels_mut().insert(stored::PART.to_owned(), (index + 1).to_string());
        }
        stored
    });
    stored.rev().collect()
}

/// Where `readings` of the servers' memory are kept that were taken after the settle time of
/// `attempt`: beside its result, which is never written again.
pub fn settled(
    run: &ValidatedRun,
    attempt: &Attempt,
    readings: &[MemoryReading],
) -> Result<ConfigMap, serde_json::Error> {
    let mut labels = attempt_labels(run, attempt);
    labels.insert(stored::PART.to_owned(), stored::SETTLED.to_owned());
    Ok(ConfigMap {
        metadata: metadata(run, &stored::settled_name(&attempt.name), labels),
        data: Some([(stored::SETTLED_KEY.to_owned(), serde_json::to_string(readings)?)].into()),
        immutable: Some(true),
        ..ConfigMap::default()
    })
}

/// Where an external target's name may not lead: it is looked up by the runner.
fn blocked(run: &ValidatedRun, settings: &Settings) -> Vec<IpNet> {
    let external = run.spec.target.external.is_some();
    settings.blocked_networks.iter().filter(|_| external).copied().collect()
}

/// What the runners of `attempt` are told.
pub fn runner_job(
    run: &ValidatedRun,
    attempt: &Attempt,
    target: &ReadyTarget,
    settings: &Settings,
) -> JobSpec {
    let mut job = bare_job(run, attempt, target);
    job.verifying_key.clone_from(&settings.verifying_key);
    job.target.blocked = blocked(run, settings);
    job.linger_seconds = settings.linger_seconds();
    job
}

/// Ends the load even when no operator is there to do it. Later than the run's
/// own timeout, whose message would otherwise find the pods gone that it is about.
fn last_resort_seconds(run: &ValidatedRun) -> i64 {
    i64::try_from(run.spec.timeout.duration().as_secs()).unwrap_or(i64::MAX).saturating_add(60)
}

fn pod_annotations(run: &ValidatedRun, attempt: &Attempt) -> BTreeMap<String, String> {
    // A pod that never got its order may still be writing the keys of `load`.
    let loading = attempt.declared.load.as_ref().map_or(0.0, |_| run.spec.timeout.seconds());
    let bound = (loading + watchdog_seconds(run, attempt)).ceil().to_string();
    let all = labels::UNMOVED.into_iter().chain([(labels::LOAD_BOUND, bound.as_str())]);
    all.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

fn template(run: &ValidatedRun, attempt: &Attempt, pod: PodSpec) -> PodTemplateSpec {
    let mut labels = attempt_labels(run, attempt);
    labels.insert(labels::COMPONENT.to_owned(), labels::CLIENT.to_owned());
    if run.spec.clients.share_node() {
        labels.insert(labels::SHARES_SERVER_NODE.to_owned(), "true".to_owned());
    }
    let metadata = ObjectMeta {
        labels: Some(labels),
        annotations: Some(pod_annotations(run, attempt)),
        ..ObjectMeta::default()
    };
    let own = PodTemplateSpec { metadata: Some(metadata), spec: Some(pod) };
    let clients = [(labels::RUN_UID.to_owned(), run.holder.uid.clone())].into();
    pod_settings::applied(&run.spec.clients.pod, &with_labels(clients), own)
}

/// The Job of `attempt`: all its pods at once, on the nodes that the run holds for
/// them, none of them ever retried.
pub fn job(
    run: &ValidatedRun,
    attempt: &Attempt,
    target: &ReadyTarget,
    turn: &TurnCheck,
    settings: &Settings,
) -> Result<Job, serde_json::Error> {
    let identity = target.identity.as_ref().map(serde_json::to_string).transpose()?;
    let identity = identity.map(|identity| (labels::SERVER_IDENTITY.to_owned(), identity));
    let no_node = turn.no_node.clone().map(|why| (labels::NO_NODE.to_owned(), why));
    let hash = (labels::SPEC_HASH.to_owned(), run.spec_hash.clone());
    let value = attempt.point.as_ref().and_then(|point| point.value);
    let value = value.map(|value| (labels::SEARCH_VALUE.to_owned(), value.to_string()));
    let mut pod = pod::client_pod(run, attempt, target, turn, settings)?;
    settings.pull(&mut pod);
    let pods = i32::try_from(attempt.pods).unwrap_or(i32::MAX);
    Ok(Job {
        metadata: ObjectMeta {
            annotations: Some(identity.into_iter().chain(no_node).chain(value).chain([hash]).collect()),
            ..metadata(run, &attempt.name, attempt_labels(run, attempt))
        },
        spec: Some(BatchJobSpec {
            completion_mode: Some("Indexed".to_owned()),
            completions: Some(pods),
            parallelism: Some(pods),
            backoff_limit: Some(0),
            active_deadline_seconds: Some(last_resort_seconds(run)),
            template: template(run, attempt, pod),
            ..BatchJobSpec::default()
        }),
        ..Job::default()
    })
}

#[cfg(test)]
mod tests;
