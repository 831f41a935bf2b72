//! What a manifest says of its pods, put into a pod template that is otherwise
//! finished. A template of which nothing is said stays as it is. Pure.

use dragstrip_crds::pod::{PodSettings, PodVolume};
use k8s_openapi::{
    api::core::v1::{
        Affinity, Container, EmptyDirVolumeSource, LocalObjectReference, NodeAffinity, NodeSelector,
        NodeSelectorTerm, PodAffinity, PodAntiAffinity, PodSpec, PodTemplateSpec, SeccompProfile,
        TopologySpreadConstraint, Volume, VolumeMount,
    },
    apimachinery::pkg::{api::resource::Quantity, apis::meta::v1::LabelSelector},
};
use std::collections::BTreeMap;

/// `own` and, after it, `further`: nothing where there is neither.
fn joined<T: Clone>(own: Option<Vec<T>>, further: Option<&Vec<T>>) -> Option<Vec<T>> {
    match further.filter(|further| !further.is_empty()) {
        None => own,
        Some(further) => Some(own.into_iter().flatten().chain(further.iter().cloned()).collect()),
    }
}

/// Whether a node is meant by `term`: one without conditions means none.
fn says_something(term: &NodeSelectorTerm) -> bool {
    let conditions = [&term.match_expressions, &term.match_fields];
    conditions.into_iter().flatten().any(|list| !list.is_empty())
}

/// The nodes that `own` and `further` both allow. A selector's terms are alternatives,
/// so that each of one goes with each of the other.
fn both(own: Option<NodeSelector>, further: Option<&NodeSelector>) -> Option<NodeSelector> {
    let (Some(own), Some(further)) = (&own, further) else { return own.or_else(|| further.cloned()) };
    let pair = |one: &NodeSelectorTerm, other: &NodeSelectorTerm| NodeSelectorTerm {
        match_expressions: joined(one.match_expressions.clone(), other.match_expressions.as_ref()),
        match_fields: joined(one.match_fields.clone(), other.match_fields.as_ref()),
    };
    let others = || further.node_selector_terms.iter().filter(|term| says_something(term));
    let pairs = own.node_selector_terms.iter().flat_map(|one| others().map(move |other| pair(one, other)));
    Some(NodeSelector { node_selector_terms: pairs.collect() })
}

/// What `own` and `further` require and prefer together: no requirement of either is lost.
fn merged(own: Affinity, further: &Affinity) -> Affinity {
    let node = |own: Option<NodeAffinity>, further: &NodeAffinity| {
        let own = own.unwrap_or_default();
        NodeAffinity {
            required_during_scheduling_ignored_during_execution: both(
                own.required_during_scheduling_ignored_during_execution,
                further.required_during_scheduling_ignored_during_execution.as_ref(),
            ),
            preferred_during_scheduling_ignored_during_execution: joined(
                own.preferred_during_scheduling_ignored_during_execution,
                further.preferred_during_scheduling_ignored_during_execution.as_ref(),
            ),
        }
    };
    macro_rules! pods {
        ($kind:ident, $own:expr, $further:expr) => {
            match ($own, $further) {
                (own, None) => own,
                (own, Some(further)) => {
                    let own = own.unwrap_or_default();
                    Some($kind {
                        required_during_scheduling_ignored_during_execution: joined(
                            own.required_during_scheduling_ignored_during_execution,
                            further.required_during_scheduling_ignored_during_execution.as_ref(),
                        ),
                        preferred_during_scheduling_ignored_during_execution: joined(
                            own.preferred_during_scheduling_ignored_during_execution,
                            further.preferred_during_scheduling_ignored_during_execution.as_ref(),
                        ),
                    })
                }
            }
        };
    }
    Affinity {
        node_affinity: match &further.node_affinity {
            Some(further) => Some(node(own.node_affinity, further)),
            None => own.node_affinity,
        },
        pod_affinity: pods!(PodAffinity, own.pod_affinity, &further.pod_affinity),
        pod_anti_affinity: pods!(PodAntiAffinity, own.pod_anti_affinity, &further.pod_anti_affinity),
    }
}

/// `further` labels or annotations, and `own`, which nobody overrides.
fn under(
    own: Option<BTreeMap<String, String>>,
    further: &BTreeMap<String, String>,
) -> Option<BTreeMap<String, String>> {
    if further.is_empty() {
        return own;
    }
    let mut all = further.clone();
    all.extend(own.into_iter().flatten());
    Some(all)
}

fn spread(constraints: &[TopologySpreadConstraint], pods: &LabelSelector) -> Vec<TopologySpreadConstraint> {
    let complete = |constraint: &TopologySpreadConstraint| TopologySpreadConstraint {
        label_selector: constraint.label_selector.clone().or_else(|| Some(pods.clone())),
        ..constraint.clone()
    };
    constraints.iter().map(complete).collect()
}

fn volume(index: usize, declared: &PodVolume) -> (Volume, VolumeMount) {
    let name = format!("volume-{index}");
    let directory = &declared.empty_dir;
    let mount =
        VolumeMount { name: name.clone(), mount_path: declared.mount_path.clone(), ..VolumeMount::default() };
    let source = EmptyDirVolumeSource {
        medium: directory.medium.clone(),
        size_limit: directory.size_limit.as_ref().map(|limit| Quantity(limit.to_string())),
    };
    (Volume { name, empty_dir: Some(source), ..Volume::default() }, mount)
}

/// Every port that is listened on becomes one of the node's, so that the scheduler keeps
/// two pods that want the same one apart. Those of sidecars are declared with the
/// first container: schedulers before Kubernetes 1.34 overlook them there.
fn on_the_host(pod: &mut PodSpec) {
    pod.host_network = Some(true);
    pod.dns_policy = Some("ClusterFirstWithHostNet".to_owned());
    let beside = pod.init_containers.iter_mut().flatten().filter_map(|container| container.ports.take());
    let beside: Vec<_> = beside.flatten().collect();
    if let Some(first) = pod.containers.first_mut() {
        first.ports.get_or_insert_default().extend(beside);
    }
    for port in pod.containers.iter_mut().flat_map(|container| container.ports.iter_mut().flatten()) {
        port.host_port = Some(port.container_port);
    }
}

fn into_container(settings: &PodSettings, mounts: &[VolumeMount], container: &mut Container) {
    container.volume_mounts = joined(container.volume_mounts.take(), Some(&mounts.to_vec()));
    if let Some(path) = &settings.seccomp_profile {
        container.security_context.get_or_insert_default().seccomp_profile =
            Some(SeccompProfile { type_: "Localhost".to_owned(), localhost_profile: Some(path.clone()) });
    }
}

fn into_pod(settings: &PodSettings, pods: &LabelSelector, pod: &mut PodSpec) {
    let known = pod.image_pull_secrets.clone().unwrap_or_default();
    let secrets = settings.image_pull_secrets.iter();
    let secrets = secrets
        .map(|secret| LocalObjectReference { name: secret.name.clone() })
        .filter(|secret| !known.contains(secret));
    pod.image_pull_secrets = joined(pod.image_pull_secrets.take(), Some(&secrets.collect()));
    pod.priority_class_name = settings.priority_class_name.clone().or_else(|| pod.priority_class_name.take());
    pod.runtime_class_name = settings.runtime_class_name.clone().or_else(|| pod.runtime_class_name.take());
    pod.service_account_name =
        settings.service_account_name.clone().or_else(|| pod.service_account_name.take());
    if settings.automount_service_account_token {
        pod.automount_service_account_token = Some(true);
    }
    if let Some(affinity) = &settings.affinity {
        pod.affinity = Some(merged(pod.affinity.take().unwrap_or_default(), affinity));
    }
    let constraints = spread(&settings.topology_spread_constraints, pods);
    pod.topology_spread_constraints = joined(pod.topology_spread_constraints.take(), Some(&constraints));
    let (volumes, mounts): (Vec<_>, Vec<_>) =
        settings.volumes.iter().enumerate().map(|(index, declared)| volume(index, declared)).unzip();
    pod.volumes = joined(pod.volumes.take(), Some(&volumes));
    pod.containers.iter_mut().for_each(|container| into_container(settings, &mounts, container));
    if settings.host_network {
        on_the_host(pod);
    }
}

/// `template` with `settings`; a spread constraint that says nothing of pods is about those
/// that `pods` selects.
pub fn applied(
    settings: &PodSettings,
    pods: &LabelSelector,
    mut template: PodTemplateSpec,
) -> PodTemplateSpec {
    let metadata = template.metadata.get_or_insert_default();
    metadata.labels = under(metadata.labels.take(), &settings.labels);
    metadata.annotations = under(metadata.annotations.take(), &settings.annotations);
    if let Some(pod) = &mut template.spec {
        into_pod(settings, pods, pod);
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
    fn a_template_of_which_nothing_is_said_stays_as_it_is() {
        assert_eq!(with(json!({})), serde_json::to_value(own()).unwrap());
    }

    #[test]
    fn nobody_overrides_what_the_operator_itself_sets() {
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
                // The last one means no node: joined with ours it would mean all of ours.
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
    fn an_affinity_of_nothing_leaves_no_node_rather_than_all() {
        let found = with(json!({"affinity": {"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{}]}
        }}}));
        let required =
            &found["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
        assert_eq!(required["nodeSelectorTerms"], json!([]), "the apiserver refuses it by name");
    }

    #[test]
    fn on_the_nodes_network_every_port_is_declared_where_every_scheduler_sees_it() {
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
    fn volumes_and_the_profile_are_those_of_the_measured_containers() {
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
    fn the_token_of_an_account_is_mounted_only_where_that_is_asked_for() {
        let named = with(json!({"serviceAccountName": "bench"}))["spec"].clone();
        assert_eq!(named["serviceAccountName"], "bench");
        assert_eq!(named["automountServiceAccountToken"], false);
        let asked = with(json!({"serviceAccountName": "bench", "automountServiceAccountToken": true}));
        assert_eq!(asked["spec"]["automountServiceAccountToken"], true);
    }

    #[test]
    fn what_is_named_is_named_in_the_pod() {
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
