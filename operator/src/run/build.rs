//! The objects a run makes: its own Datastore, a Job per attempt, a ConfigMap
//! per result. Pure.

use super::{
    decide::{ReadyTarget, watchdog_seconds},
    validate::{Attempt, ValidatedRun},
};
use crate::{
    cluster::lease::LeaseKey,
    context::Settings,
    datastore::{empty_directory, locked_down, prefer_role, secret_variable, tolerations, variable},
    labels,
};
use dragstrip_crds::{
    BenchmarkRun, Datastore, DatastoreSpec,
    protocol::{
        JOB_VARIABLE, JobSpec, JobTarget, JobTool, PASSWORD_VARIABLE, POD_NAME_VARIABLE, READY_PATH,
        RUNNER_PORT,
    },
};
use k8s_openapi::{
    ByteString,
    api::{
        batch::v1::{Job, JobSpec as BatchJobSpec},
        core::v1::{
            Affinity, ConfigMap, Container, ContainerPort, EnvVar, EnvVarSource, HTTPGetAction,
            ObjectFieldSelector, PodAffinityTerm, PodAntiAffinity, PodSecurityContext, PodSpec,
            PodTemplateSpec, Probe, SeccompProfile, Volume, VolumeMount,
        },
    },
    apimachinery::pkg::{
        apis::meta::v1::{LabelSelector, LabelSelectorRequirement, OwnerReference},
        util::intstr::IntOrString,
    },
};
use kube::{Resource, api::ObjectMeta};
use std::collections::BTreeMap;

/// Name of the client container.
pub const CLIENT_CONTAINER: &str = "client";
/// Key of the compressed result in its ConfigMap.
pub const RESULT_KEY: &str = "result.json.gz";
/// User client pods run as.
const CLIENT_USER: i64 = 65532;
/// Time a client pod has to end its tool and write what was measured.
const CLIENT_GRACE_SECONDS: i64 = 8;
/// Where the runner is copied to in client pods.
const BIN: &str = "/dragstrip/bin";
/// Where the tool writes its files.
const OUTPUT: &str = "/dragstrip/output";

fn owner(run: &ValidatedRun) -> OwnerReference {
    OwnerReference {
        api_version: BenchmarkRun::api_version(&()).into_owned(),
        kind: BenchmarkRun::kind(&()).into_owned(),
        name: run.holder.name.clone(),
        uid: run.holder.uid.clone(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

fn metadata(run: &ValidatedRun, name: &str, labels: BTreeMap<String, String>) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        namespace: Some(run.holder.namespace.clone()),
        labels: Some(labels),
        owner_references: Some(vec![owner(run)]),
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

/// Where a result is kept.
pub fn config_map(run: &ValidatedRun, attempt: &Attempt, compressed: Vec<u8>) -> ConfigMap {
    ConfigMap {
        metadata: metadata(run, &attempt.name, attempt_labels(run, attempt)),
        binary_data: Some([(RESULT_KEY.to_owned(), ByteString(compressed))].into()),
        immutable: Some(true),
        ..ConfigMap::default()
    }
}

/// What the runners of `attempt` are told.
pub fn runner_job(run: &ValidatedRun, attempt: &Attempt, target: &ReadyTarget) -> JobSpec {
    JobSpec {
        run: run.holder.name.clone(),
        phase: attempt.phase.clone(),
        repetition: attempt.repetition,
        clients: run.pods(),
        token: run.token(attempt),
        target: JobTarget {
            host: target.host.clone(),
            port: target.port,
            cluster: target.cluster,
            run_id: target.truth.as_ref().map(|truth| truth.run_id.clone()),
        },
        flush: attempt.flush,
        tool: attempt.tool.clone(),
        watchdog_seconds: watchdog_seconds(run, attempt),
    }
}

fn from_field(name: &str, path: &str) -> EnvVar {
    EnvVar {
        name: name.to_owned(),
        value_from: Some(EnvVarSource {
            field_ref: Some(ObjectFieldSelector { field_path: path.to_owned(), api_version: None }),
            ..EnvVarSource::default()
        }),
        ..EnvVar::default()
    }
}

fn mount(name: &str, path: &str, read_only: bool) -> VolumeMount {
    VolumeMount {
        name: name.to_owned(),
        mount_path: path.to_owned(),
        read_only: read_only.then_some(true),
        ..VolumeMount::default()
    }
}

/// Copies the static runner into a volume, so that the tool's image is used as it is.
fn installer(settings: &Settings) -> Container {
    Container {
        name: "install-runner".to_owned(),
        image: Some(settings.runner_image.clone()),
        command: Some(vec!["/dragstrip-runner".to_owned(), "install".to_owned(), BIN.to_owned()]),
        security_context: Some(locked_down()),
        volume_mounts: Some(vec![mount("bin", BIN, false)]),
        ..Container::default()
    }
}

fn client_environment(job: &JobSpec, target: &ReadyTarget) -> Result<Vec<EnvVar>, serde_json::Error> {
    let mut env = vec![
        variable(JOB_VARIABLE, &serde_json::to_string(job)?),
        from_field(POD_NAME_VARIABLE, "metadata.name"),
        // The tool's own directories first would hide nothing: the runner's names are unique.
        variable("PATH", &format!("{BIN}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")),
    ];
    env.extend(target.auth.as_ref().map(|secret| secret_variable(PASSWORD_VARIABLE, secret)));
    Ok(env)
}

fn client(
    run: &ValidatedRun,
    attempt: &Attempt,
    target: &ReadyTarget,
    settings: &Settings,
) -> Result<Container, serde_json::Error> {
    let image = match &attempt.tool {
        JobTool::Loadgen(_) => settings.runner_image.clone(),
        JobTool::Memtier(memtier) => memtier.image.clone().unwrap_or_else(|| settings.memtier_image.clone()),
    };
    Ok(Container {
        name: CLIENT_CONTAINER.to_owned(),
        image: Some(image),
        command: Some(vec![format!("{BIN}/dragstrip-runner"), "run".to_owned()]),
        args: Some(vec!["--output-directory".to_owned(), OUTPUT.to_owned()]),
        env: Some(client_environment(&runner_job(run, attempt, target), target)?),
        ports: Some(vec![ContainerPort {
            name: Some("runner".to_owned()),
            container_port: i32::from(RUNNER_PORT),
            ..ContainerPort::default()
        }]),
        readiness_probe: Some(Probe {
            http_get: Some(HTTPGetAction {
                path: Some(READY_PATH.to_owned()),
                port: IntOrString::Int(i32::from(RUNNER_PORT)),
                ..HTTPGetAction::default()
            }),
            period_seconds: Some(1),
            // Load may keep the runner waiting; a missed probe must not make noise.
            failure_threshold: Some(30),
            ..Probe::default()
        }),
        resources: run.spec.clients.resources.clone(),
        security_context: Some(locked_down()),
        volume_mounts: Some(vec![
            mount("bin", BIN, true),
            mount("output", OUTPUT, false),
            mount("tmp", "/tmp", false),
        ]),
        ..Container::default()
    })
}

fn requirement(key: &str, operator: &str, value: &str) -> LabelSelectorRequirement {
    LabelSelectorRequirement {
        key: key.to_owned(),
        operator: operator.to_owned(),
        values: Some(vec![value.to_owned()]),
    }
}

fn never_beside(expressions: Vec<LabelSelectorRequirement>, all_namespaces: bool) -> PodAffinityTerm {
    PodAffinityTerm {
        topology_key: "kubernetes.io/hostname".to_owned(),
        label_selector: Some(LabelSelector {
            match_expressions: Some(expressions),
            ..LabelSelector::default()
        }),
        // An empty selector means every namespace.
        namespace_selector: all_namespaces.then(LabelSelector::default),
        ..PodAffinityTerm::default()
    }
}

/// Clients never run on the server's node, nor beside another run's clients.
fn separation(run: &ValidatedRun, target: &ReadyTarget) -> PodAntiAffinity {
    let mut terms = vec![never_beside(
        vec![
            requirement(labels::COMPONENT, "In", labels::CLIENT),
            requirement(labels::RUN_UID, "NotIn", &run.holder.uid),
        ],
        true,
    )];
    if target.datastore {
        terms.push(never_beside(
            vec![
                requirement(labels::COMPONENT, "In", labels::SERVER),
                requirement(labels::DATASTORE, "In", &target.name),
            ],
            false,
        ));
    }
    PodAntiAffinity {
        required_during_scheduling_ignored_during_execution: Some(terms),
        ..PodAntiAffinity::default()
    }
}

fn client_pod(
    run: &ValidatedRun,
    attempt: &Attempt,
    target: &ReadyTarget,
    settings: &Settings,
) -> Result<PodSpec, serde_json::Error> {
    let placement = &run.spec.clients.placement;
    Ok(PodSpec {
        init_containers: Some(vec![installer(settings)]),
        containers: vec![client(run, attempt, target, settings)?],
        restart_policy: Some("Never".to_owned()),
        enable_service_links: Some(false),
        automount_service_account_token: Some(false),
        termination_grace_period_seconds: Some(CLIENT_GRACE_SECONDS),
        security_context: Some(PodSecurityContext {
            run_as_non_root: Some(true),
            run_as_user: Some(CLIENT_USER),
            run_as_group: Some(CLIENT_USER),
            fs_group: Some(CLIENT_USER),
            seccomp_profile: Some(SeccompProfile {
                type_: "RuntimeDefault".to_owned(),
                localhost_profile: None,
            }),
            ..PodSecurityContext::default()
        }),
        node_selector: Some(placement.node_selector.clone()).filter(|labels| !labels.is_empty()),
        affinity: Some(Affinity {
            node_affinity: Some(prefer_role(labels::CLIENT)),
            pod_anti_affinity: Some(separation(run, target)),
            ..Affinity::default()
        }),
        tolerations: Some(tolerations(labels::CLIENT, placement)),
        volumes: Some(["bin", "output", "tmp"].map(empty_directory).into_iter().collect::<Vec<Volume>>()),
        ..PodSpec::default()
    })
}

/// Ends the load even when no operator is there to do it. Later than the run's
/// own timeout, whose message would otherwise find the pods gone that it is about.
fn last_resort_seconds(run: &ValidatedRun) -> i64 {
    i64::try_from(run.spec.timeout.duration().as_secs()).unwrap_or(i64::MAX).saturating_add(60)
}

fn pod_annotations(run: &ValidatedRun, attempt: &Attempt) -> BTreeMap<String, String> {
    let bound = watchdog_seconds(run, attempt).ceil().to_string();
    [
        // An autoscaler must not move a pod that measures.
        ("karpenter.sh/do-not-disrupt", "true"),
        ("cluster-autoscaler.kubernetes.io/safe-to-evict", "false"),
        (labels::LOAD_BOUND, &bound),
    ]
    .into_iter()
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .collect()
}

/// The Job of `attempt`: all its pods at once, none of them ever retried.
pub fn job(
    run: &ValidatedRun,
    attempt: &Attempt,
    target: &ReadyTarget,
    lease: &LeaseKey,
    settings: &Settings,
) -> Result<Job, serde_json::Error> {
    let mut pod_labels = attempt_labels(run, attempt);
    pod_labels.insert(labels::COMPONENT.to_owned(), labels::CLIENT.to_owned());
    pod_labels.insert(labels::TARGET_LEASE.to_owned(), lease.name.clone());
    Ok(Job {
        metadata: metadata(run, &attempt.name, attempt_labels(run, attempt)),
        spec: Some(BatchJobSpec {
            completion_mode: Some("Indexed".to_owned()),
            completions: Some(run.spec.clients.pods),
            parallelism: Some(run.spec.clients.pods),
            backoff_limit: Some(0),
            active_deadline_seconds: Some(last_resort_seconds(run)),
            template: PodTemplateSpec {
                metadata: Some(ObjectMeta {
                    labels: Some(pod_labels),
                    annotations: Some(pod_annotations(run, attempt)),
                    ..ObjectMeta::default()
                }),
                spec: Some(client_pod(run, attempt, target, settings)?),
            },
            ..BatchJobSpec::default()
        }),
        ..Job::default()
    })
}

#[cfg(test)]
mod tests;
