//! What would be applied for each engine, as whole objects: `snapshots/` holds
//! them, and a change to any of them shows in the review of that file.

use super::*;
use dragstrip_core::datastore::validate::{Invalid, validate};
use dragstrip_results::signing::SigningKey;
use k8s_openapi::{api::core::v1::Node, apimachinery::pkg::apis::meta::v1::OwnerReference};
use serde_json::{Value, json};

fn node(cpus: &str) -> Node {
    serde_json::from_value(json!({
        "metadata": {"name": "worker", "labels": {"pool": "servers"}},
        "status": {"allocatable": {"cpu": cpus, "memory": "512Gi"}}
    }))
    .unwrap()
}

fn datastore(spec: Value) -> Datastore {
    serde_json::from_value(json!({
        "apiVersion": "dragstrip.dev/v1alpha1", "kind": "Datastore",
        "metadata": {"name": "racer", "namespace": "pits", "uid": "datastore-uid", "generation": 3},
        "spec": spec,
    }))
    .unwrap()
}

fn built(spec: Value) -> Resources {
    build(&validate(&datastore(spec), &[node("64")]).unwrap(), "example.com/runner:1", None)
}

fn refused(spec: Value, cpus: &str) -> Invalid {
    validate(&datastore(spec), &[node(cpus)]).unwrap_err()
}

#[test]
fn observers_accept_commands_signed_with_the_operators_key() {
    let key = SigningKey::read(&SigningKey::generate().unwrap()).unwrap().public();
    let observer = |key| {
        let declared = datastore(json!({"engine": "Redis", "threads": 1}));
        let resources = build(&validate(&declared, &[node("64")]).unwrap(), "example.com/runner:1", key);
        let pod = resources.stateful_set.spec.unwrap().template.spec.unwrap();
        pod.init_containers.unwrap().remove(0)
    };
    let mut with_key = observer(Some(&key));
    let reported = with_key.env.as_mut().and_then(Vec::pop).unwrap();
    assert_eq!(
        (reported.name.as_str(), reported.value),
        ("DRAGSTRIP_VERIFYING_KEY", Some(String::from(key.clone())))
    );
    assert_eq!(with_key, observer(None), "nothing else depends on the key");
}

#[test]
fn dragonfly_as_a_whole() {
    let Resources { service, stateful_set } = built(json!({
        "engine": "Dragonfly", "version": "1.40.1", "threads": 8, "maxMemory": "4Gi", "ioUring": "Require",
        "authSecretRef": {"name": "pit-pass"}, "extraArgs": ["--migrate_connections=false"],
        "dragonfly": {"emulatedCluster": true, "lockOnHashtags": true, "allowUndeclaredKeys": true},
        "placement": {
            "nodeSelector": {"pool": "servers"},
            "tolerations": [{"key": "dedicated", "operator": "Exists"}],
        },
    }));
    insta::assert_yaml_snapshot!("dragonfly_service", service);
    insta::assert_yaml_snapshot!("dragonfly_stateful_set", stateful_set);
}

#[test]
fn a_cluster_with_every_setting_of_its_pod_and_cpus_of_its_own() {
    let Resources { stateful_set, .. } = built(json!({
        "engine": "Redis", "threads": 2, "port": 7000, "cluster": {"shards": 3},
        "cpu": {"exclusive": true},
        "resources": {"limits": {"cpu": "4", "hugepages-2Mi": "64Mi"}},
        "pod": {
            "labels": {"team": "caches"},
            "annotations": {"sidecar.istio.io/inject": "false"},
            "imagePullSecrets": [{"name": "registry"}],
            "priorityClassName": "high",
            "runtimeClassName": "runc",
            "affinity": {
                "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                    {"matchExpressions": [{"key": "pool", "operator": "In", "values": ["servers"]}]}
                ]}},
                "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
                    {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"team": "noise"}}}
                ]},
            },
            "topologySpreadConstraints": [
                {"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule"}
            ],
            "serviceAccountName": "bench",
            "hostNetwork": true,
            "volumes": [
                {"mountPath": "/dev/shm", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}},
                {"mountPath": "/huge", "emptyDir": {"medium": "HugePages-2Mi"}},
            ],
            "seccompProfile": "profiles/dragstrip-io-uring.json",
        },
    }));
    insta::assert_yaml_snapshot!("pod_settings_stateful_set", stateful_set);
}

#[test]
fn fewer_cpus_of_its_own_than_threads_are_refused_with_the_remedy() {
    let spec = |cpu: &str| json!({"engine": "Redis", "threads": 4, "cpu": {"exclusive": true}, "resources": {"limits": {"cpu": cpu}}});
    let reported = refused(spec("3"), "64");
    assert_eq!(reported.reason, "InvalidCpus");
    assert!(
        reported.to_string().contains("3 CPUs for 4 threads")
            && reported.to_string().contains("raise cpu to 4"),
        "{reported}"
    );
    assert!(refused(spec("4500m"), "64").to_string().contains("must be whole numbers, such as 4"));
    assert!(validate(&datastore(spec("6")), &[node("64")]).is_ok(), "more are allowed");
}

#[test]
fn a_profile_of_the_nodes_takes_the_place_of_none_where_io_uring_is_required() {
    let profile = |settings: Value| {
        let spec = json!({"engine": "Dragonfly", "threads": 1, "ioUring": "Require", "pod": settings});
        let pod = built(spec).stateful_set.spec.unwrap().template.spec.unwrap();
        pod.containers[0].security_context.clone().unwrap().seccomp_profile.unwrap()
    };
    assert_eq!(profile(json!({})).type_, "Unconfined");
    let found = profile(json!({"seccompProfile": "profiles/io-uring.json"}));
    assert_eq!(
        (found.type_.as_str(), found.localhost_profile.as_deref()),
        ("Localhost", Some("profiles/io-uring.json"))
    );
}

#[test]
fn the_default_image_has_a_tag_that_exists() {
    let validated = |engine: &str, version: Value| {
        validate(&datastore(json!({"engine": engine, "threads": 1, "version": version})), &[node("64")])
    };
    for (engine, version, tag) in [
        ("Dragonfly", Value::Null, "dragonfly:v1.40.1"),
        ("Dragonfly", json!("1.40"), "dragonfly:v1.40.1"),
        ("Dragonfly", json!("v1.40.1"), "dragonfly:v1.40.1"),
        ("Dragonfly", json!("1.39.0"), "dragonfly:v1.39.0"),
        ("Dragonfly", json!("2.1"), "dragonfly:v2.1"),
        ("KeyDB", json!("6"), "keydb:x86_64_v6.3.4"),
        ("Garnet", json!("2.2"), "garnet:2.2.10"),
        ("Redis", json!("8.0"), "redis:8.0"),
    ] {
        let image = validated(engine, version.clone()).unwrap().image;
        assert!(image.ends_with(tag), "{engine} {version}: {image}");
    }
    for (engine, version) in
        [("Dragonfly", "1.39"), ("Dragonfly", "1.4"), ("Dragonfly", "2"), ("KeyDB", "6.2")]
    {
        let message = validated(engine, json!(version)).unwrap_err().to_string();
        let expected =
            format!("spec.version is {version}, but the tags of {engine}'s images have three numbers");
        assert!(message.starts_with(&expected), "{message}");
    }
    let own = json!({"engine": "Dragonfly", "threads": 1, "version": "1.39", "image": "registry.example.com/fly:1"});
    assert!(validate(&datastore(own), &[node("64")]).is_ok(), "the version is only what it must report");
}

#[test]
fn keydb_as_a_whole() {
    let built =
        built(json!({"engine": "KeyDB", "threads": 4, "authSecretRef": {"name": "pit-pass", "key": "code"}}));
    insta::assert_yaml_snapshot!("keydb_stateful_set", built.stateful_set);
}

#[test]
fn garnet_as_a_whole() {
    let built = built(
        json!({"engine": "Garnet", "threads": 4, "maxMemory": "2Gi", "authSecretRef": {"name": "pit-pass"}}),
    );
    insta::assert_yaml_snapshot!("garnet_stateful_set", built.stateful_set);
}

#[test]
fn redis_as_a_whole() {
    let built = built(json!({
        "engine": "Redis", "version": "7.4", "threads": 2, "port": 7000,
        "env": [{"name": "TZ", "value": "UTC"}],
        "resources": {"requests": {"cpu": "500m"}},
    }));
    insta::assert_yaml_snapshot!("redis_stateful_set", built.stateful_set);
}

#[test]
fn valkey_as_a_whole() {
    insta::assert_yaml_snapshot!(
        "valkey_stateful_set",
        built(json!({"engine": "Valkey", "threads": 3})).stateful_set
    );
}

#[test]
fn a_cluster_on_one_node_as_a_whole() {
    let Resources { service, stateful_set } = built(json!({
        "engine": "Redis", "threads": 1, "port": 7000, "cluster": {"shards": 3},
        "authSecretRef": {"name": "pit-pass"}, "tls": {"secretName": "pit-tls", "clientSecretName": "pit-client"},
    }));
    insta::assert_yaml_snapshot!("cluster_on_one_node_service", service);
    insta::assert_yaml_snapshot!("cluster_on_one_node_stateful_set", stateful_set);
}

#[test]
fn a_spread_cluster_as_a_whole() {
    let built = built(json!({
        "engine": "Valkey", "threads": 2, "cluster": {"shards": 4, "placement": "Spread"},
    }));
    insta::assert_yaml_snapshot!("spread_cluster_stateful_set", built.stateful_set);
}

#[test]
fn a_primary_with_replicas_as_a_whole() {
    let Resources { service, stateful_set } = built(json!({
        "engine": "KeyDB", "threads": 2, "replicas": 2, "authSecretRef": {"name": "pit-pass"},
        "tls": {"secretName": "pit-tls"},
    }));
    insta::assert_yaml_snapshot!("replicas_service", service);
    insta::assert_yaml_snapshot!("replicas_stateful_set", stateful_set);
}

fn etcd() -> Value {
    json!({
        "engine": "Custom", "threads": 2, "port": 2379, "image": "quay.io/coreos/etcd:v3.6.5",
        "tls": {"secretName": "pit-tls"}, "extraArgs": ["--log-level=warn"],
        "env": [{"name": "GOMAXPROCS", "value": "2"}],
        "custom": {
            "command": ["etcd"], "args": ["--name=$(POD_NAME)"], "members": 3, "readinessPath": "/readyz",
            "ports": [{"name": "peer", "port": 2380}], "user": 1001,
        },
    })
}

#[test]
fn a_custom_server_as_a_whole() {
    let Resources { service, stateful_set } = built(etcd());
    insta::assert_yaml_snapshot!("custom_service", service);
    insta::assert_yaml_snapshot!("custom_stateful_set", stateful_set);
}

#[test]
fn the_observer_of_a_custom_server_asks_it_where_it_speaks_resp() {
    let spec = json!({"engine": "Custom", "threads": 1, "image": "kv:1", "custom": {"protocol": "Resp"}});
    let pod = built(spec).stateful_set.spec.unwrap().template.spec.unwrap();
    let observer = &pod.init_containers.unwrap()[0];
    assert_eq!(observer.args.as_ref().unwrap()[..], ["observe", "--port", "6379"]);
    assert!(observer.readiness_probe.is_some(), "it reports when the server is ready");
    assert_eq!(pod.containers[0].command, None, "the image's own program");
    assert_eq!(pod.containers[0].args, None);
}

#[test]
fn dragonfly_encrypts_what_its_flags_allow() {
    let spec = |more: Value| {
        let mut spec = json!({"engine": "Dragonfly", "threads": 1, "tls": {"secretName": "pit-tls"}});
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        spec
    };
    let refusal = refused(spec(json!({})), "4").to_string();
    assert!(refusal.contains("needs spec.authSecretRef or spec.tls.clientSecretName"), "{refusal}");
    let with_password = command(spec(json!({"authSecretRef": {"name": "p"}})));
    assert!(with_password.contains("--tls --tls_cert_file=/dragstrip/tls-server/tls.crt"), "{with_password}");
    assert!(
        !with_password.contains("tls_ca_cert_file"),
        "an authority would demand certificates: {with_password}"
    );
    let replicas = refused(spec(json!({"authSecretRef": {"name": "p"}, "replicas": 1})), "4").to_string();
    assert!(replicas.contains("needs spec.tls.clientSecretName"), "{replicas}");
    let client = json!({"tls": {"secretName": "pit-tls", "clientSecretName": "pit-tls"}, "replicas": 1});
    let both = command(spec(client));
    assert!(both.contains("--tls_ca_cert_file=/dragstrip/tls-server/ca.crt --tls_replication"), "{both}");
}

#[test]
fn old_redis_has_no_cluster_that_could_be_formed() {
    let refusal =
        refused(json!({"engine": "Redis", "version": "6.2", "threads": 1, "cluster": {"shards": 3}}), "4");
    assert!(refusal.to_string().contains("needs Redis 7.0 or later"), "{refusal}");
}

#[test]
fn ports_and_their_names_are_taken_once() {
    for (spec, expected) in [
        (json!({"engine": "Redis", "threads": 1, "port": 9180}), "9180, which is the observer's port"),
        (
            json!({"engine": "Redis", "threads": 1, "port": 9178, "cluster": {"shards": 3}}),
            "9180, which is the observer's port",
        ),
        (
            json!({"engine": "Custom", "threads": 1, "image": "i", "port": 2379,
                   "custom": {"ports": [{"name": "peer", "port": 2379}]}}),
            "peer is 2379, which is a server's port",
        ),
        (
            json!({"engine": "Custom", "threads": 1, "image": "i", "port": 2379,
                   "custom": {"ports": [{"name": "server", "port": 2380}]}}),
            "the name server is taken",
        ),
        (
            json!({"engine": "Redis", "threads": 1, "extraArgs": ["--port", "6380"]}),
            "spec.extraArgs holds --port: declare the port in spec.port instead",
        ),
        (
            json!({"engine": "Dragonfly", "threads": 1, "extraArgs": ["--port=6380"]}),
            "spec.extraArgs holds --port=6380",
        ),
    ] {
        let refusal = refused(spec, "4");
        assert_eq!(refusal.reason, "InvalidPorts");
        assert!(refusal.to_string().contains(expected), "{refusal}");
    }
}

fn command(spec: Value) -> String {
    let stateful_set = built(spec).stateful_set;
    let pod = stateful_set.spec.unwrap().template.spec.unwrap();
    pod.containers[0].command.clone().unwrap().join(" ")
}

#[test]
fn a_password_is_only_ever_referred_to() {
    for engine in ["Redis", "Valkey", "KeyDB", "Garnet", "Dragonfly"] {
        let spec = json!({"engine": engine, "threads": 1, "authSecretRef": {"name": "pit-pass"}});
        let stateful_set = serde_json::to_string(&built(spec.clone()).stateful_set).unwrap();
        assert!(
            stateful_set.contains(r#""secretKeyRef":{"key":"password","name":"pit-pass""#),
            "{engine}: {stateful_set}"
        );
        let command = command(spec);
        match engine {
            "Dragonfly" => assert!(!command.contains("pass"), "Dragonfly reads its environment: {command}"),
            _ => assert!(command.contains("$(DRAGSTRIP_PASSWORD)"), "{engine}: {command}"),
        }
    }
}

#[test]
fn a_declared_place_is_required_and_what_is_not_declared_a_preference() {
    let affinity = |placement: Value| {
        let spec = json!({"engine": "Redis", "threads": 1, "placement": placement});
        built(spec).stateful_set.spec.unwrap().template.spec.unwrap().affinity.unwrap()
    };
    let free = affinity(json!({})).node_affinity.unwrap();
    assert_eq!(free.required_during_scheduling_ignored_during_execution, None);
    assert!(free.preferred_during_scheduling_ignored_during_execution.is_some(), "nodes for servers");
    let placed = affinity(json!({"zone": "z1", "placementGroup": "g", "nodeSelector": {"pool": "fast"}}));
    let node = placed.node_affinity.unwrap();
    let terms = node.required_during_scheduling_ignored_during_execution.unwrap().node_selector_terms;
    let keys = |term: usize| -> Vec<&str> {
        terms[term].match_expressions.iter().flatten().map(|one| one.key.as_str()).collect()
    };
    assert_eq!(terms.len(), 2, "either label of the group will do: {terms:?}");
    assert_eq!(keys(0), ["topology.kubernetes.io/zone", "karpenter.k8s.aws/placement-group-id"]);
    assert_eq!(keys(1), ["topology.kubernetes.io/zone", "dragstrip.dev/placement-group"]);
    assert_eq!(placed.pod_affinity, None);
    let beside = affinity(json!({"sameNodeAs": "other"})).pod_affinity.unwrap();
    let term = &beside.required_during_scheduling_ignored_during_execution.unwrap()[0];
    let labels = term.label_selector.as_ref().unwrap().match_labels.as_ref().unwrap();
    assert_eq!(labels["dragstrip.dev/datastore"], "other");
    assert_eq!(term.topology_key, "kubernetes.io/hostname");
}

#[test]
fn io_uring_can_be_left_out() {
    assert!(
        command(json!({"engine": "Dragonfly", "threads": 1, "ioUring": "Disable"})).contains("--force_epoll")
    );
    assert!(!command(json!({"engine": "Dragonfly", "threads": 1})).contains("--force_epoll"));
}

#[test]
fn dragonfly_with_too_little_memory_is_refused() {
    let refusal = refused(json!({"engine": "Dragonfly", "threads": 8, "maxMemory": "1Gi"}), "64").to_string();
    assert!(refusal.contains("spec.maxMemory is 1024 MiB"), "{refusal}");
    assert!(refusal.contains("set maxMemory to 2048Mi or more"), "{refusal}");
}

#[test]
fn a_memory_limit_below_what_the_server_needs_is_refused() {
    let spec = |limit: &str| json!({"engine": "Redis", "threads": 1, "maxMemory": "1Gi", "resources": {"limits": {"memory": limit}}});
    let refusal = refused(spec("1Gi"), "4");
    assert_eq!(refusal.reason, "InvalidMemory");
    let text = refusal.to_string();
    assert!(text.contains("spec.resources.limits.memory is 1Gi, but maxMemory (1024 MiB)"), "{text}");
    assert!(text.contains("set the limit to 1096Mi or more, or lower spec.maxMemory"), "{text}");
    assert!(validate(&datastore(spec("1096Mi")), &[node("4")]).is_ok(), "the remedy must help");
    let mut custom = etcd();
    custom["maxMemory"] = json!("1Gi");
    custom["resources"] = json!({"limits": {"memory": "1Gi"}});
    assert!(validate(&datastore(custom), &[node("4")]).is_ok(), "only etcd can judge its arguments");
}

#[test]
fn an_amount_that_kubernetes_cannot_read_is_refused_with_its_field() {
    let spec = json!({"engine": "Redis", "threads": 1, "resources": {"requests": {"hugepages-2Mi": "1gi"}}});
    let refusal = refused(spec, "4");
    assert_eq!(refusal.reason, "InvalidResources");
    let text = refusal.to_string();
    assert!(text.contains("spec.resources.requests.hugepages-2Mi is \"1gi\""), "{text}");
}

#[test]
fn no_node_must_exist_yet() {
    let elsewhere =
        json!({"engine": "Redis", "threads": 1024, "placement": {"nodeSelector": {"pool": "none"}}});
    assert!(validate(&datastore(elsewhere), &[node("4")]).is_ok(), "an autoscaler may bring the node");
}

#[test]
fn every_container_has_requests_and_limits_and_leaves_its_last_words() {
    for spec in [
        json!({"engine": "Redis", "threads": 2, "resources": {"requests": {"cpu": "500m"}}}),
        json!({"engine": "Redis", "threads": 1, "cluster": {"shards": 3}}),
        etcd(),
    ] {
        let pod = built(spec).stateful_set.spec.unwrap().template.spec.unwrap();
        for container in pod.containers.iter().chain(pod.init_containers.iter().flatten()) {
            let resources = container.resources.clone().unwrap();
            for amounts in [resources.requests.unwrap(), resources.limits.unwrap()] {
                let kinds: Vec<_> = amounts.keys().map(String::as_str).collect();
                assert_eq!(kinds, ["cpu", "memory"], "{}: a quota would refuse the pod", container.name);
            }
            let policy = container.termination_message_policy.as_deref();
            assert_eq!(policy, Some("FallbackToLogsOnError"), "{}", container.name);
        }
    }
}

#[test]
fn autoscalers_leave_a_server_where_it_is() {
    let template = built(json!({"engine": "Redis", "threads": 1})).stateful_set.spec.unwrap().template;
    let annotations = template.metadata.unwrap().annotations.unwrap();
    assert_eq!(annotations["karpenter.sh/do-not-disrupt"], "true");
    assert_eq!(annotations["cluster-autoscaler.kubernetes.io/safe-to-evict"], "false");
    insta::assert_yaml_snapshot!("budget", budget(&datastore(json!({"engine": "Redis", "threads": 1}))));
}

#[test]
fn a_datastore_that_a_run_declares_is_built_like_any_other() {
    let spec = json!({"engine": "Redis", "threads": 1});
    let mut of_run = datastore(spec.clone());
    of_run.metadata.owner_references = Some(vec![OwnerReference {
        api_version: "dragstrip.dev/v1alpha1".into(),
        kind: "BenchmarkRun".into(),
        ..OwnerReference::default()
    }]);
    let complete = build(&validate(&of_run, &[node("64")]).unwrap(), "example.com/runner:1", None);
    assert_eq!(complete, built(spec));
}

#[test]
fn default_resources_make_a_guaranteed_pod_with_whole_cpus() {
    let stateful_set = built(json!({"engine": "Redis", "threads": 4, "maxMemory": "1Gi"})).stateful_set;
    let pod = stateful_set.spec.unwrap().template.spec.unwrap();
    let resources = pod.containers[0].resources.clone().unwrap();
    assert_eq!(resources.requests, resources.limits);
    assert_eq!(resources.limits.unwrap()["cpu"].0, "4");
    let observer = pod.init_containers.unwrap()[0].resources.clone().unwrap();
    assert_eq!(
        observer.requests, observer.limits,
        "a sidecar without limits would cost the pod its guarantee"
    );
}
