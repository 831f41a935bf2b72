//! What the cloud's metadata service says of nodes. Only a process on the node may ask it, so
//! the operator has a small Job ask, once for each node, in its own namespace. Needs the client
//! but for [`job`] and [`outcome`].

use super::pods;
use crate::{context::Context, datastore::locked_down};
use dragstrip_core::{datastore::resources::of_helper, labels};
use dragstrip_results::protocol::MachineMetadata;
use k8s_openapi::{
    api::{
        batch::v1::{Job, JobSpec},
        core::v1::{
            Container, Node, Pod, PodSecurityContext, PodSpec, PodTemplateSpec, SeccompProfile, Toleration,
        },
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{
    Api, ResourceExt,
    api::{ListParams, PostParams},
    runtime::reflector::ObjectRef,
};
use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

/// How long a Job may take, its image's pull included.
const ASKED_WITHIN_SECONDS: i64 = 60;
/// How long what has ended stays: read within seconds.
const KEPT_SECONDS: i32 = 300;
/// Not root.
const USER: i64 = 65532;
/// Longest answer that is read, in bytes.
const LONGEST_ANSWER: usize = 4096;

/// How long a node that did not tell is not asked again: longer than what its Job left is there. It
/// may have been slow to pull an image, or a policy is mended.
const SILENT: Duration = Duration::from_secs(360);

/// What is known of nodes by uid; of those that do not tell, when they were asked.
#[derive(Debug, Default)]
pub struct Known(Mutex<HashMap<String, Result<MachineMetadata, Instant>>>);

impl Known {
    /// What the service said of `node`.
    pub fn of(&self, node: &Node) -> Option<MachineMetadata> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(&node.uid()?)?.as_ref().ok().cloned()
    }

    fn has(&self, uid: &str, now: Instant) -> bool {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(uid).is_some_and(|told| told.as_ref().err().is_none_or(|asked| now < *asked + SILENT))
    }

    /// Takes note of what was told, or that nothing is to be had, and drops what is known of
    /// nodes that are not `there` any more.
    pub fn note(&self, uid: String, told: Result<MachineMetadata, Instant>, there: &[Arc<Node>]) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|uid, _| there.iter().any(|node| node.metadata.uid.as_ref() == Some(uid)));
        known.insert(uid, told);
    }
}

/// What became of a question.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    /// Nothing yet.
    Pending,
    /// It told.
    Told(MachineMetadata),
    /// It will not tell, and why.
    Silent(String),
}

/// Name of the Job for the node with this uid.
fn name(uid: &str) -> String {
    format!("dragstrip-metadata-{uid}")
}

/// The Job that asks the service at `address` on `node`: in the node's own network, which is
/// as far as the service's answers go by default.
fn job(node: &str, uid: &str, namespace: &str, image: &str, address: &str) -> Job {
    let container = Container {
        name: "metadata".to_owned(),
        image: Some(image.to_owned()),
        command: Some(vec!["/dragstrip-runner".to_owned()]),
        args: Some(vec!["metadata".to_owned(), address.to_owned()]),
        resources: Some(of_helper()),
        termination_message_policy: Some("FallbackToLogsOnError".to_owned()),
        security_context: Some(locked_down()),
        ..Container::default()
    };
    let pod = PodSpec {
        containers: vec![container],
        node_name: Some(node.to_owned()),
        host_network: Some(true),
        // Whatever the node is for: it takes a moment, before any load.
        tolerations: Some(vec![Toleration { operator: Some("Exists".to_owned()), ..Toleration::default() }]),
        restart_policy: Some("Never".to_owned()),
        automount_service_account_token: Some(false),
        enable_service_links: Some(false),
        security_context: Some(PodSecurityContext {
            run_as_non_root: Some(true),
            run_as_user: Some(USER),
            run_as_group: Some(USER),
            seccomp_profile: Some(SeccompProfile {
                type_: "RuntimeDefault".to_owned(),
                localhost_profile: None,
            }),
            ..PodSecurityContext::default()
        }),
        ..PodSpec::default()
    };
    Job {
        metadata: ObjectMeta {
            name: Some(name(uid)),
            namespace: Some(namespace.to_owned()),
            labels: Some(labels::common([])),
            ..ObjectMeta::default()
        },
        spec: Some(JobSpec {
            backoff_limit: Some(0),
            active_deadline_seconds: Some(ASKED_WITHIN_SECONDS),
            ttl_seconds_after_finished: Some(KEPT_SECONDS),
            template: PodTemplateSpec {
                metadata: Some(ObjectMeta { labels: Some(labels::common([])), ..ObjectMeta::default() }),
                spec: Some(pod),
            },
            ..JobSpec::default()
        }),
        ..Job::default()
    }
}

/// What became of `job`, whose pods are `pods`.
fn outcome(job: &Job, pods: &[Pod]) -> Outcome {
    let terminated = pods.iter().flat_map(pods::containers).filter_map(|container| {
        let terminated = container.state.as_ref()?.terminated.as_ref()?;
        Some((terminated.exit_code, terminated.message.clone().unwrap_or_default()))
    });
    if let Some((code, message)) = terminated.last() {
        let message: String = message.chars().take(LONGEST_ANSWER).collect();
        return match serde_json::from_str(&message) {
            Ok(told) if code == 0 => Outcome::Told(told),
            _ => Outcome::Silent(message.trim().to_owned()),
        };
    }
    let mut conditions = job.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let failed = conditions.find(|one| one.type_ == "Failed" && one.status == "True");
    failed.map_or(Outcome::Pending, |failed| {
        Outcome::Silent(failed.message.clone().unwrap_or_else(|| "its Job failed".to_owned()))
    })
}

/// Has the metadata service at `address` asked on those of `nodes` of which it is not known
/// yet what it says; their names as long as some have not answered.
pub async fn ask(ctx: &Context, address: &str, nodes: BTreeSet<&String>) -> kube::Result<Vec<String>> {
    let mut open = Vec::new();
    for node in nodes {
        let Some(uid) = ctx.world.nodes.get(&ObjectRef::new(node)).and_then(|node| node.uid()) else {
            continue;
        };
        if ctx.metadata.has(&uid, Instant::now()) {
            continue;
        }
        let told = match ask_one(ctx, address, node, &uid).await? {
            Outcome::Pending => {
                open.push(node.clone());
                continue;
            }
            Outcome::Told(told) => Ok(told),
            Outcome::Silent(why) => {
                tracing::warn!(node, why, "the metadata service tells nothing of the node");
                Err(Instant::now())
            }
        };
        ctx.metadata.note(uid, told, &ctx.world.nodes.state());
    }
    Ok(open)
}

async fn ask_one(ctx: &Context, address: &str, node: &str, uid: &str) -> kube::Result<Outcome> {
    let (namespace, name) = (&ctx.settings.namespace, name(uid));
    let jobs: Api<Job> = Api::namespaced(ctx.client.clone(), namespace);
    let Some(found) = jobs.get_opt(&name).await? else {
        let mut asks = job(node, uid, namespace, &ctx.settings.runner_image, address);
        if let Some(pod) = asks.spec.as_mut().and_then(|spec| spec.template.spec.as_mut()) {
            ctx.settings.pull(pod);
        }
        return match jobs.create(&PostParams::default(), &asks).await {
            Ok(_) => Ok(Outcome::Pending),
            Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(Outcome::Pending),
            Err(kube::Error::Api(status)) if matches!(status.code, 400 | 403 | 422) => {
                Ok(Outcome::Silent(status.message.clone()))
            }
            Err(error) => Err(error),
        };
    };
    let pods: Api<Pod> = Api::namespaced(ctx.client.clone(), namespace);
    let own = ListParams::default().labels(&format!("batch.kubernetes.io/job-name={name}"));
    Ok(outcome(&found, &pods.list(&own).await?.items))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn pods(state: Value) -> Vec<Pod> {
        let pod = json!({"metadata": {"name": "p"}, "status": {"containerStatuses": [{
            "name": "metadata", "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": state
        }]}});
        vec![serde_json::from_value(pod).unwrap()]
    }

    fn asked() -> Job {
        job("client-1", "uid-1", "dragstrip-system", "runner:1", "http://169.254.169.254")
    }

    #[test]
    fn the_job_asks_from_the_nodes_own_network_and_has_no_rights() {
        let spec = asked().spec.unwrap();
        assert_eq!(spec.active_deadline_seconds, Some(60), "a node that does not answer holds nobody up");
        let pod = spec.template.spec.unwrap();
        assert_eq!((pod.node_name.as_deref(), pod.host_network), (Some("client-1"), Some(true)));
        assert_eq!(pod.automount_service_account_token, Some(false));
        assert_eq!(pod.containers[0].args.as_ref().unwrap(), &["metadata", "http://169.254.169.254"]);
        let context = pod.containers[0].security_context.as_ref().unwrap();
        assert_eq!(context.read_only_root_filesystem, Some(true));
        assert!(pod.containers[0].resources.as_ref().unwrap().limits.is_some(), "a quota may ask for them");
    }

    #[test]
    fn a_node_that_did_not_tell_is_asked_again_when_what_its_job_left_is_gone() {
        let node = |uid: &str| -> Arc<Node> {
            Arc::new(serde_json::from_value(json!({"metadata": {"name": uid, "uid": uid}})).unwrap())
        };
        let (known, asked) = (Known::default(), Instant::now());
        assert!(!known.has("a", asked));
        known.note("a".into(), Err(asked), &[node("a")]);
        let gone = u64::try_from(KEPT_SECONDS + 60).unwrap();
        assert!(known.has("a", asked + Duration::from_secs(gone - 1)), "it would say the same again");
        assert!(!known.has("a", asked + Duration::from_secs(gone)));
        known.note("b".into(), Ok(MachineMetadata::default()), &[node("b")]);
        assert!(known.has("b", asked + Duration::from_secs(gone)), "what was told stays");
        assert!(!known.has("a", asked), "its node is gone");
    }

    #[test]
    fn an_answer_is_read_and_silence_is_told_with_its_reason() {
        let told = r#"{"placementGroup":"cluster-1","zoneId":"use1-az4"}"#;
        let ended =
            |code: i32, message: &str| pods(json!({"terminated": {"exitCode": code, "message": message}}));
        let expected = MachineMetadata {
            placement_group: Some("cluster-1".into()),
            zone_id: Some("use1-az4".into()),
            instance_type: None,
        };
        assert_eq!(outcome(&asked(), &ended(0, told)), Outcome::Told(expected));
        assert_eq!(outcome(&asked(), &ended(0, "{}")), Outcome::Told(MachineMetadata::default()));
        let refused = Outcome::Silent("the metadata service does not answer".into());
        assert_eq!(outcome(&asked(), &ended(1, "the metadata service does not answer\n")), refused);
        assert_eq!(outcome(&asked(), &ended(0, "<html>")), Outcome::Silent("<html>".into()));
        assert_eq!(outcome(&asked(), &pods(json!({"running": {}}))), Outcome::Pending);
        let mut late = asked();
        late.status = serde_json::from_value(json!({"conditions": [
            {"type": "Failed", "status": "True", "message": "Job was active longer than specified deadline"}
        ]}))
        .unwrap();
        assert_eq!(
            outcome(&late, &[]),
            Outcome::Silent("Job was active longer than specified deadline".into())
        );
    }
}
