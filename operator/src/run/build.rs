//! What a run creates: its Datastore, a Job per attempt, ConfigMaps per result. Pure.

mod placement;
mod pod;

use crate::{
    cluster::{parts, settings::Settings},
    objects::{owner, with_labels},
    pod_settings,
};
use dragstrip_core::{
    digest::digest,
    labels,
    run::{
        decide::ReadyTarget,
        stored_result::annotation,
        timing::watchdog_seconds,
        turn::TurnCheck,
        validate::{Attempt, ValidatedRun},
    },
};
use dragstrip_crds::{BenchmarkRun, Datastore, DatastoreSpec, run::MemoryReading};
use dragstrip_results::stored;
use k8s_openapi::api::{
    batch::v1::{Job, JobSpec as BatchJobSpec},
    core::v1::{ConfigMap, PodSpec, PodTemplateSpec},
};
use kube::api::ObjectMeta;
use std::collections::BTreeMap;

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

pub fn declaration(spec: &DatastoreSpec) -> String {
    // A spec that came as JSON has a JSON form.
    digest(&serde_json::to_string(spec).unwrap_or_default())
}

/// The run's own Datastore, under the run's name, with the digest of its declaration: its own spec
/// may be edited, and the API server adds defaults to it.
pub fn own_datastore(run: &ValidatedRun) -> Option<Datastore> {
    let spec = run.spec.target.datastore()?;
    let name = &run.holder.name;
    let mut datastore = Datastore::new(name, spec.clone());
    datastore.metadata = ObjectMeta {
        annotations: Some([(labels::SPEC_HASH.to_owned(), declaration(spec))].into()),
        ..metadata(run, name, labels::common([(labels::RUN, name)]))
    };
    Some(datastore)
}

/// What a result preserves of its `job`, which may be deleted: the start line, the digest of the
/// spec, the identity of the server, and the connection to it.
fn job_notes(job: Option<&Job>) -> impl Iterator<Item = (String, String)> {
    let notes = [labels::START_AT, labels::SPEC_HASH, labels::SERVER_IDENTITY, labels::CONNECTION];
    notes
        .into_iter()
        .filter_map(move |key| Some((key.to_owned(), annotation(&job?.metadata, key)?.to_owned())))
}

/// The ConfigMaps of the `parts` of the result of `attempt`, measured by `job`, in the sequence in
/// which they must be created, with the `marks` of its outcome (see [`stored::annotations`]).
pub fn config_maps(
    run: &ValidatedRun,
    attempt: &Attempt,
    job: Option<&Job>,
    marks: &BTreeMap<String, String>,
    parts: Vec<Vec<u8>>,
) -> Vec<ConfigMap> {
    let metadata = ObjectMeta {
        annotations: Some(job_notes(job).chain(marks.clone()).collect()),
        ..metadata(run, &attempt.name, attempt_labels(run, attempt))
    };
    parts::config_maps(&metadata, stored::KEY, parts)
}

/// The ConfigMap of `readings` of the servers' memory after the settle time of `attempt`, beside its
/// result, which is never written again.
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

/// When Kubernetes ends the load even without an operator: later than the run's own timeout, so
/// that the pods still exist that its message is about.
fn last_resort_seconds(run: &ValidatedRun) -> i64 {
    i64::try_from(run.spec.timeout.duration().as_secs()).unwrap_or(i64::MAX).saturating_add(60)
}

fn pod_annotations(run: &ValidatedRun, attempt: &Attempt) -> BTreeMap<String, String> {
    // A pod that never got its start command may still be writing the keys of `load`.
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

/// The Job of `attempt`: all pods at once, on the run's nodes, without retries.
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
    settings.adapt(&mut pod);
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
