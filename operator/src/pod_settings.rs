//! Adds the pod settings of a manifest to a pod template that is otherwise complete. Without settings
//! the template stays as it is. Pure.

use crate::objects::mount;
use dragstrip_crds::pod::{PodSettings, PodVolume};
use k8s_openapi::{
    api::core::v1::{
        Affinity, Container, EmptyDirVolumeSource, LocalObjectReference, NodeSelector, NodeSelectorTerm,
        PodSpec, PodTemplateSpec, SeccompProfile, Volume, VolumeMount,
    },
    apimachinery::pkg::{api::resource::Quantity, apis::meta::v1::LabelSelector},
};
use std::collections::BTreeMap;

fn extend<T>(list: &mut Option<Vec<T>>, more: impl IntoIterator<Item = T>) {
    let all: Vec<T> = list.take().into_iter().flatten().chain(more).collect();
    *list = Some(all).filter(|all| !all.is_empty());
}

/// Whether `term` can match a node: one without conditions matches none.
fn has_conditions(term: &NodeSelectorTerm) -> bool {
    let conditions = [&term.match_expressions, &term.match_fields];
    conditions.into_iter().flatten().any(|list| !list.is_empty())
}

/// The nodes that `own` and `other` both allow. The terms of a selector are alternatives, so each term
/// of one is combined with each of the other.
fn both(own: &NodeSelector, other: &NodeSelector) -> NodeSelector {
    let combine = |one: &NodeSelectorTerm, other: &NodeSelectorTerm| {
        let mut term = one.clone();
        extend(&mut term.match_expressions, other.match_expressions.iter().flatten().cloned());
        extend(&mut term.match_fields, other.match_fields.iter().flatten().cloned());
        term
    };
    let others = || other.node_selector_terms.iter().filter(|term| has_conditions(term));
    let terms = own.node_selector_terms.iter().flat_map(|one| others().map(move |other| combine(one, other)));
    NodeSelector { node_selector_terms: terms.collect() }
}

fn add_affinity(own: &mut Affinity, other: Affinity) {
    macro_rules! add {
        ($own:ident, $other:ident: $($list:ident),+) => {
            $(extend(&mut $own.$list, $other.$list.into_iter().flatten());)+
        };
    }
    if let Some(other) = other.node_affinity {
        let own = own.node_affinity.get_or_insert_default();
        let required = &mut own.required_during_scheduling_ignored_during_execution;
        *required = match (required.take(), other.required_during_scheduling_ignored_during_execution) {
            (Some(own), Some(other)) => Some(both(&own, &other)),
            (own, other) => own.or(other),
        };
        add!(own, other: preferred_during_scheduling_ignored_during_execution);
    }
    if let Some(other) = other.pod_affinity {
        let own = own.pod_affinity.get_or_insert_default();
        add!(own, other: required_during_scheduling_ignored_during_execution,
            preferred_during_scheduling_ignored_during_execution);
    }
    if let Some(other) = other.pod_anti_affinity {
        let own = own.pod_anti_affinity.get_or_insert_default();
        add!(own, other: required_during_scheduling_ignored_during_execution,
            preferred_during_scheduling_ignored_during_execution);
    }
}

/// Adds `settings`, labels or annotations, to `own`, which they cannot override.
fn add_metadata(own: &mut Option<BTreeMap<String, String>>, settings: &BTreeMap<String, String>) {
    if !settings.is_empty() {
        let own = own.get_or_insert_default();
        for (key, value) in settings {
            own.entry(key.clone()).or_insert_with(|| value.clone());
        }
    }
}

fn volume((index, declared): (usize, &PodVolume)) -> (Volume, VolumeMount) {
    let name = format!("volume-{index}");
    let mount = mount(&name, &declared.mount_path, false);
    let directory = EmptyDirVolumeSource {
        medium: declared.empty_dir.medium.clone(),
        size_limit: declared.empty_dir.size_limit.as_ref().map(|limit| Quantity(limit.to_string())),
    };
    (Volume { name, empty_dir: Some(directory), ..Volume::default() }, mount)
}

/// Declares every port as a port of the node, so that the scheduler separates pods with the same port.
/// The first container declares those of sidecars: schedulers before Kubernetes 1.34 overlook them there.
fn use_host_network(pod: &mut PodSpec) {
    pod.host_network = Some(true);
    pod.dns_policy = Some("ClusterFirstWithHostNet".to_owned());
    let sidecars = pod.init_containers.iter_mut().flatten().filter_map(|container| container.ports.take());
    let ports: Vec<_> = sidecars.flatten().collect();
    if let Some(first) = pod.containers.first_mut() {
        first.ports.get_or_insert_default().extend(ports);
    }
    for port in pod.containers.iter_mut().flat_map(|container| container.ports.iter_mut().flatten()) {
        port.host_port = Some(port.container_port);
    }
}

fn configure_container(settings: &PodSettings, mounts: &[VolumeMount], container: &mut Container) {
    extend(&mut container.volume_mounts, mounts.iter().cloned());
    if let Some(path) = &settings.seccomp_profile {
        container.security_context.get_or_insert_default().seccomp_profile =
            Some(SeccompProfile { type_: "Localhost".to_owned(), localhost_profile: Some(path.clone()) });
    }
}

fn configure_pod(settings: &PodSettings, pods: &LabelSelector, pod: &mut PodSpec) {
    let own = pod.image_pull_secrets.clone().unwrap_or_default();
    let secrets = settings.image_pull_secrets.iter();
    let secrets = secrets.map(|secret| LocalObjectReference { name: secret.name.clone() });
    extend(&mut pod.image_pull_secrets, secrets.filter(|secret| !own.contains(secret)));
    pod.priority_class_name.clone_from(&settings.priority_class_name);
    pod.runtime_class_name.clone_from(&settings.runtime_class_name);
    pod.service_account_name.clone_from(&settings.service_account_name);
    if settings.automount_service_account_token {
        pod.automount_service_account_token = Some(true);
    }
    let mut constraints = settings.topology_spread_constraints.clone();
    for constraint in &mut constraints {
        constraint.label_selector.get_or_insert_with(|| pods.clone());
    }
    let (volumes, mounts): (Vec<_>, Vec<_>) = settings.volumes.iter().enumerate().map(volume).unzip();
    extend(&mut pod.topology_spread_constraints, constraints);
    extend(&mut pod.volumes, volumes);
    if let Some(affinity) = &settings.affinity {
        add_affinity(pod.affinity.get_or_insert_default(), affinity.clone());
    }
    pod.containers.iter_mut().for_each(|container| configure_container(settings, &mounts, container));
    if settings.host_network {
        use_host_network(pod);
    }
}

/// `template` with `settings`. Spread constraints without a selector get `pods`.
pub fn applied(
    settings: &PodSettings,
    pods: &LabelSelector,
    mut template: PodTemplateSpec,
) -> PodTemplateSpec {
    let metadata = template.metadata.get_or_insert_default();
    add_metadata(&mut metadata.labels, &settings.labels);
    add_metadata(&mut metadata.annotations, &settings.annotations);
    if let Some(pod) = &mut template.spec {
        configure_pod(settings, pods, pod);
    }
    template
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn pods() -> LabelSelector {
        serde_json::from_value(json!({"matchLabels": {"dragstrip.dev/run": "sprint"}})).unwrap()
    }

    /// A client's template with what must survive.
    fn own() -> PodTemplateSpec {
        serde_json::from_value(json!({
            "metadata": {"labels": {"dragstrip.dev/run": "sprint"}, "annotations": {"karpenter.sh/do-not-disrupt": "true"}},
            "spec": {
                "automountServiceAccountToken": false,
                "imagePullSecrets": [{"name": "release"}],
                "initContainers": [{"name": "observer", "ports": [{"name": "observer", "containerPort": 9180}]}],
                "containers": [
                    {"name": "server", "ports": [{"containerPort": 6379}], "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}]},
                    {"name": "other", "ports": [{"containerPort": 6380}]}
                ],
                "volumes": [{"name": "tmp", "emptyDir": {}}],
                "affinity": {
                    "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["client-1"]}]},
                        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["client-2"]}]}
                    ]}},
                    "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
                        {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"dragstrip.dev/component": "server"}}}
                    ]}
                }
            }
        }))
        .unwrap()
    }

    fn with(settings: Value) -> Value {
        let settings = serde_json::from_value(settings).unwrap();
        serde_json::to_value(applied(&settings, &pods(), own())).unwrap()
    }

    #[test]
    fn a_template_without_settings_stays_as_it_is() {
        assert_eq!(with(json!({})), serde_json::to_value(own()).unwrap());
    }

    #[test]
    fn settings_cannot_override_what_the_operator_sets() {
        let found = with(json!({
            "labels": {"dragstrip.dev/run": "other", "team": "caches"},
            "annotations": {"karpenter.sh/do-not-disrupt": "false", "sidecar.istio.io/inject": "false"}
        }));
        let metadata = &found["metadata"];
        assert_eq!(metadata["labels"], json!({"dragstrip.dev/run": "sprint", "team": "caches"}));
        assert_eq!(
            metadata["annotations"],
            json!({"karpenter.sh/do-not-disrupt": "true", "sidecar.istio.io/inject": "false"})
        );
    }

    #[test]
    fn every_alternative_of_an_affinity_keeps_what_the_operator_requires() {
        let zone =
            |zone: &str| json!({"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]});
        let pod =
            |name: &str| json!({"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": name}}});
        let found = with(json!({"affinity": {
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
                // The last one matches no node: combined with ours it would match all of ours.
                "nodeSelectorTerms": [zone("a"), zone("b"), {}]
            }},
            "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [pod("cache")]},
            "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [pod("noise")]}
        }}));
        let affinity = &found["spec"]["affinity"];
        let terms =
            affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
                .as_array()
                .unwrap()
                .clone();
        let texts: Vec<String> = terms
            .iter()
            .map(|term| {
                format!("{}{}", term["matchFields"][0]["values"][0], term["matchExpressions"][0]["values"][0])
            })
            .collect();
        assert_eq!(
            texts,
            [r#""client-1""a""#, r#""client-1""b""#, r#""client-2""a""#, r#""client-2""b""#],
            "each term has a node of the run and a zone of the user"
        );
        let apart = &affinity["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
        assert_eq!(apart.as_array().unwrap().len(), 2, "{apart}");
        assert_eq!(apart[0]["labelSelector"]["matchLabels"]["dragstrip.dev/component"], "server");
        let together = &affinity["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
        assert_eq!(together[0], pod("cache"));
    }

    #[test]
    fn an_affinity_without_conditions_matches_no_node_rather_than_all() {
        let found = with(json!({"affinity": {"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{}]}
        }}}));
        let required =
            &found["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
        assert_eq!(required["nodeSelectorTerms"], json!([]), "the API server refuses it by name");
    }

    #[test]
    fn on_the_host_network_every_port_is_declared_where_every_scheduler_sees_it() {
        let spec = with(json!({"hostNetwork": true}))["spec"].clone();
        assert_eq!(
            (&spec["hostNetwork"], &spec["dnsPolicy"]),
            (&json!(true), &json!("ClusterFirstWithHostNet"))
        );
        assert_eq!(spec["initContainers"][0]["ports"], Value::Null);
        assert_eq!(
            spec["containers"][0]["ports"],
            json!([
                {"containerPort": 6379, "hostPort": 6379},
                {"name": "observer", "containerPort": 9180, "hostPort": 9180}
            ])
        );
        assert_eq!(spec["containers"][1]["ports"][0]["hostPort"], 6380);
    }

    #[test]
    fn only_the_measured_containers_have_the_volumes_and_the_profile() {
        let spec = with(json!({
            "volumes": [
                {"mountPath": "/dev/shm", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}},
                {"mountPath": "/scratch"}
            ],
            "seccompProfile": "profiles/dragstrip-io-uring.json"
        }))["spec"]
            .clone();
        assert_eq!(
            spec["volumes"].as_array().unwrap()[1..],
            [
                json!({"name": "volume-0", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}}),
                json!({"name": "volume-1", "emptyDir": {}})
            ]
        );
        let server = &spec["containers"][0];
        assert_eq!(server["volumeMounts"][0]["name"], "tmp", "its own volumes stay");
        assert_eq!(server["volumeMounts"][1], json!({"name": "volume-0", "mountPath": "/dev/shm"}));
        assert_eq!(
            server["securityContext"]["seccompProfile"],
            json!({"type": "Localhost", "localhostProfile": "profiles/dragstrip-io-uring.json"})
        );
        let observer = &spec["initContainers"][0];
        assert_eq!((&observer["volumeMounts"], &observer["securityContext"]), (&Value::Null, &Value::Null));
    }

    #[test]
    fn the_token_of_an_account_is_mounted_only_on_request() {
        let named = with(json!({"serviceAccountName": "bench"}))["spec"].clone();
        assert_eq!(named["serviceAccountName"], "bench");
        assert_eq!(named["automountServiceAccountToken"], false);
        let requested = with(json!({"serviceAccountName": "bench", "automountServiceAccountToken": true}));
        assert_eq!(requested["spec"]["automountServiceAccountToken"], true);
    }

    #[test]
    fn named_objects_are_named_in_the_pod() {
        let spec = with(json!({
            "imagePullSecrets": [{"name": "release"}, {"name": "registry"}], "priorityClassName": "high", "runtimeClassName": "gvisor",
            "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}]
        }))["spec"]
            .clone();
        assert_eq!(spec["imagePullSecrets"], json!([{"name": "release"}, {"name": "registry"}]), "each once");
        assert_eq!(
            (&spec["priorityClassName"], &spec["runtimeClassName"]),
            (&json!("high"), &json!("gvisor"))
        );
        assert_eq!(
            spec["topologySpreadConstraints"][0]["labelSelector"],
            json!({"matchLabels": {"dragstrip.dev/run": "sprint"}}),
            "a constraint without a selector would count no pod"
        );
    }
}
