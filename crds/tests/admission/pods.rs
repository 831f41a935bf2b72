//! Settings of pods and CPUs that admission refuses, by name and with the remedy.

use crate::schema;
use dragstrip_crds::{BenchmarkRun, Datastore};
use serde_json::{Value, json};

fn of_datastore(fields: &Value) -> Vec<String> {
    let mut spec = json!({"engine": "Redis", "threads": 4});
    spec.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    schema::refusals(&schema::of::<Datastore>(), &json!({"metadata": {"name": "racer"}, "spec": spec}))
}

fn of_clients(clients: &Value) -> Vec<String> {
    let spec = json!({
        "target": {"datastoreRef": {"name": "redis"}}, "clients": clients,
        "phases": [{"name": "read", "loadgen": {"duration": "10s"}}]
    });
    schema::refusals(&schema::of::<BenchmarkRun>(), &json!({"metadata": {"name": "sprint"}, "spec": spec}))
}

/// The same for servers and clients.
fn refused(fields: &Value, expected: &str) {
    for (kind, refusals) in [("Datastore", of_datastore(fields)), ("clients", of_clients(fields))] {
        assert!(
            refusals.iter().any(|refusal| refusal.contains(expected)),
            "{kind} with {fields}: expected {expected:?}, got {refusals:#?}"
        );
    }
}

fn admitted(fields: &Value) {
    assert_eq!(of_datastore(fields), Vec::<String>::new(), "Datastore with {fields}");
    assert_eq!(of_clients(fields), Vec::<String>::new(), "clients with {fields}");
}

#[test]
fn labels_and_annotations_that_are_set_already_are_refused_by_name() {
    admitted(&json!({"pod": {
        "labels": {"team": "caches", "app.kubernetes.io/part-of": "shop"},
        "annotations": {"sidecar.istio.io/inject": "false", "linkerd.io/inject": "disabled"}
    }}));
    for key in [
        "dragstrip.dev/component",
        "app.kubernetes.io/managed-by",
        "batch.kubernetes.io/job-name",
        "controller-revision-hash",
    ] {
        refused(
            &json!({"pod": {"labels": {"team": "caches", key: "x"}}}),
            "these labels are set by Dragstrip or Kubernetes",
        );
    }
    for key in ["dragstrip.dev/load-ends-within-seconds", "karpenter.sh/do-not-disrupt"] {
        refused(&json!({"pod": {"annotations": {key: "x"}}}), "these annotations are set");
    }
}

#[test]
fn directories_are_where_nothing_else_is_and_huge_pages_are_asked_for() {
    let at = |path: &str| json!({"pod": {"volumes": [{"mountPath": path}]}});
    admitted(&at("/dev/shm"));
    for path in ["shm", "/tmp", "/dragstrip/bin", "/a/../tmp", "/a:b"] {
        refused(&at(path), "mountPath is an absolute path");
    }
    assert!(
        of_datastore(&at("/data")).iter().any(|refusal| refusal.contains("which the server has already"))
    );
    let medium = |medium: &str, limits: Value| json!({"pod": {"volumes": [{"mountPath": "/huge", "emptyDir": {"medium": medium}}]}, "resources": {"limits": limits}});
    admitted(&medium("Memory", json!({})));
    admitted(&medium("HugePages-2Mi", json!({"cpu": "4", "hugepages-2Mi": "64Mi"})));
    refused(&medium("HugePages", json!({"cpu": "4"})), "needs huge pages in resources.limits");
    refused(&medium("Disk", json!({})), "medium is Memory, HugePages or HugePages-SIZE");
}

#[test]
fn a_profile_is_a_path_below_the_kubelets_directory() {
    admitted(&json!({"pod": {"seccompProfile": "profiles/dragstrip-io-uring.json"}}));
    for path in ["/etc/passwd", "../config.json"] {
        refused(&json!({"pod": {"seccompProfile": path}}), "seccompProfile is a path below");
    }
}

#[test]
fn a_token_is_of_an_account_that_is_named() {
    admitted(&json!({"pod": {"serviceAccountName": "bench", "automountServiceAccountToken": true}}));
    refused(&json!({"pod": {"automountServiceAccountToken": true}}), "needs serviceAccountName");
}

#[test]
fn files_of_a_tool_and_its_user_have_bounds() {
    let exec = |more: Value| {
        let mut exec = json!({"image": "i", "command": ["c"], "parser": {"redisBenchmarkCsv": {}}});
        exec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let spec =
            json!({"target": {"datastoreRef": {"name": "redis"}}, "phases": [{"name": "own", "exec": exec}]});
        schema::refusals(
            &schema::of::<BenchmarkRun>(),
            &json!({"metadata": {"name": "sprint"}, "spec": spec}),
        )
    };
    let files = |path: &str| json!({"files": [{"configMap": "workloads", "mountPath": path}], "user": 1000});
    assert_eq!(exec(files("/workloads")), Vec::<String>::new());
    let refusals = exec(files("/dragstrip/bin"));
    assert!(refusals.iter().any(|it| it.contains("mountPath must be an absolute path")), "{refusals:?}");
}
