//! What the runs of a suite may name. The API server checks that the suite's author may read the
//! Secrets and ConfigMaps, and use the settings, that the variants' targets and the template name. It
//! cannot see what patches and axes add, and the operator creates the runs with its own rights: so runs
//! may name only what the suite itself names. Pure.

use dragstrip_crds::{BenchmarkRunSpec, BenchmarkSuiteSpec};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// What takes a right, and where it stands in a run's spec; * is every item of a list.
const SECRETS: &[&str] = &[
    "target/datastore/authSecretRef/name",
    "target/datastore/tls/secretName",
    "target/datastore/tls/clientSecretName",
    "target/datastore/env/*/valueFrom/secretKeyRef/name",
    "target/datastore/pod/imagePullSecrets/*/name",
    "target/external/authSecretRef/name",
    "target/external/tls/caSecretName",
    "target/external/tls/clientSecretName",
    "clients/pod/imagePullSecrets/*/name",
    "phases/*/exec/env/*/valueFrom/secretKeyRef/name",
];
const CONFIG_MAPS: &[&str] = &[
    "target/datastore/env/*/valueFrom/configMapKeyRef/name",
    "phases/*/exec/env/*/valueFrom/configMapKeyRef/name",
    "phases/*/exec/files/*/configMap",
];
/// Settings of pods that take a right; of an object, each of its fields does.
const POD_SETTINGS: [&str; 9] = [
    "hostNetwork",
    "serviceAccountName",
    "priorityClassName",
    "runtimeClassName",
    "seccompProfile",
    "labels",
    "annotations",
    "affinity/podAffinity",
    "affinity/podAntiAffinity",
];
/// Where pods have settings.
const PODS: [&str; 2] = ["clients/pod", "target/datastore/pod"];
const DATASTORES: &[&str] = &["target/datastoreRef/name"];
/// Images of the author's own that are given the password of a Datastore.
const TOOL_IMAGES: &[&str] = &["phases/*/exec/image", "phases/*/memtier/image", "phases/*/bullmq/image"];

fn at<'a>(value: &'a Value, path: &str) -> Vec<&'a Value> {
    path.split('/').fold(vec![value], |found, step| {
        let below = |value: &'a Value| match (step, value) {
            ("*", Value::Array(items)) => items.iter().collect(),
            (name, Value::Object(fields)) => fields.get(name).into_iter().collect(),
            _ => Vec::new(),
        };
        found.into_iter().flat_map(below).collect()
    })
}

fn named(value: &Value, paths: &[impl AsRef<str>]) -> BTreeSet<String> {
    let texts = |value: &Value| match value {
        Value::String(text) if !text.is_empty() => vec![text.clone()],
        Value::Bool(true) => vec!["true".to_owned()],
        Value::Object(fields) => fields.keys().cloned().collect(),
        _ => Vec::new(),
    };
    paths.iter().flat_map(|path| at(value, path.as_ref())).flat_map(texts).collect()
}

/// The kinds and names of the objects that `run`, the spec of a run, needs.
pub fn references(run: &Value) -> Vec<(&'static str, String)> {
    let kinds = [("Secret", SECRETS), ("ConfigMap", CONFIG_MAPS), ("Datastore", DATASTORES)];
    let of =
        |(kind, paths): (&'static str, &[&str])| named(run, paths).into_iter().map(move |name| (kind, name));
    kinds.into_iter().flat_map(of).collect()
}

/// The author's own image of a server without a seccomp profile, if this run has one.
fn unconfined(run: &Value) -> Option<&str> {
    let server = &run["target"]["datastore"];
    let unconfined = server["ioUring"] == "Require" && server["pod"]["seccompProfile"].is_null();
    server["image"].as_str().filter(|_| unconfined)
}

/// What stands in a suite before anything is patched into it.
pub struct Written(Vec<Value>);

impl Written {
    /// The template of `spec` with each variant's target.
    pub fn of(spec: &BenchmarkSuiteSpec) -> Self {
        let targets = spec.variants.iter().map(|variant| json!({"target": variant.target}));
        Self(targets.chain([json!(spec.run)]).collect())
    }

    fn names(&self, paths: &[impl AsRef<str>]) -> BTreeSet<String> {
        self.0.iter().flat_map(|value| named(value, paths)).collect()
    }

    /// Refuses a run that names something that requires a right and that the suite does not name.
    pub fn check(&self, run: &BenchmarkRunSpec) -> Result<(), String> {
        let run = json!(run);
        let with_password = !named(&run, TOOL_IMAGES).is_empty() && run["target"]["datastoreRef"].is_object();
        let of_password =
            [("Datastore", DATASTORES), ("image", TOOL_IMAGES)].into_iter().filter(|_| with_password);
        let references = [("Secret", SECRETS), ("ConfigMap", CONFIG_MAPS)].into_iter().chain(of_password);
        let added = references.filter_map(|(kind, paths)| self.added(&run, kind, paths));
        let settings = POD_SETTINGS
            .iter()
            .filter_map(|setting| self.added(&run, setting, &PODS.map(|pod| format!("{pod}/{setting}"))));
        let image = unconfined(&run).filter(|image| !self.0.iter().any(|own| unconfined(own) == Some(image)));
        let image = image.map(|image| format!("ioUring: Require with image {image}"));
        match added.chain(settings).chain(image).next() {
            Some(added) => Err(format!(
                "patches and axes add {added}, which requires a right of the suite's author: name it in a variant's target or in run, where the API server can check that right"
            )),
            None => Ok(()),
        }
    }

    /// What `run` names at `paths` and the suite does not.
    fn added(&self, run: &Value, kind: &str, paths: &[impl AsRef<str>]) -> Option<String> {
        let known = self.names(paths);
        let name = named(run, paths).into_iter().find(|name| !known.contains(name))?;
        Some(format!("{kind} {name}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{fixtures::suite_of, suite::expand::expand};

    fn refusal(target: Value, phase: Value, patch: Value) -> String {
        let suite = suite_of(json!({
            "variants": [{"name": "v", "target": target, "patches": [patch]}],
            "run": {"phases": [phase]}, "repetitions": 1
        }));
        let run = expand(&suite).unwrap().runs.remove(0);
        Written::of(&suite.spec).check(&run.spec).err().unwrap_or_default()
    }

    fn read() -> Value {
        json!({"name": "read", "memtier": {"testTime": "1s"}})
    }

    #[test]
    fn no_patch_names_a_secret_that_the_suite_does_not() {
        let redis = json!({"datastore": {"engine": "Redis", "threads": 1}});
        let with_secret = json!({"datastore": {"engine": "Redis", "threads": 1, "authSecretRef": {"name": "mine", "key": "k"}}});
        let secret = |name: &str| json!({"name": name, "key": "password"});
        let patch = |name: &str| json!({"path": "/target/datastore/authSecretRef", "value": secret(name)});
        let reported = refusal(redis.clone(), read(), patch("theirs"));
        assert!(
            reported.contains("Secret theirs") && reported.contains("in a variant's target"),
            "{reported}"
        );
        assert_eq!(
            refusal(with_secret.clone(), read(), patch("mine")),
            "",
            "admission checked its author's right"
        );
        assert!(refusal(with_secret, read(), patch("theirs")).contains("Secret theirs"));
        let environment = json!([{"name": "X", "valueFrom": {"secretKeyRef": secret("theirs")}}]);
        let complete = json!({"path": "/target/datastore", "value": {"engine": "Redis", "threads": 1, "env": environment}});
        assert!(
            refusal(redis, read(), complete).contains("Secret theirs"),
            "a patch of the complete target counts too"
        );
    }

    #[test]
    fn no_patch_takes_the_seccomp_profile_from_an_image_of_the_authors_own() {
        let dragonfly = |more: Value| {
            let mut server = json!({"engine": "Dragonfly", "threads": 1});
            server.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            json!({"datastore": server})
        };
        let set =
            |field: &str, value: &str| json!({"path": format!("/target/datastore/{field}"), "value": value});
        let own = "example.com/own:1";
        let require = set("ioUring", "Require");
        let reported = refusal(dragonfly(json!({"image": own})), read(), require.clone());
        assert!(reported.contains("ioUring: Require with image example.com/own:1"), "{reported:?}");
        let reported = refusal(dragonfly(json!({"ioUring": "Require"})), read(), set("image", own));
        assert!(reported.contains("ioUring: Require with image example.com/own:1"), "{reported:?}");
        assert_eq!(refusal(dragonfly(json!({})), read(), require.clone()), "", "the image is the engine's");
        let both = dragonfly(json!({"image": own, "ioUring": "Require"}));
        assert_eq!(refusal(both, read(), require), "", "admission checked its author's right");
    }

    #[test]
    fn no_patch_gives_pods_more_rights_or_an_image_somebody_elses_password() {
        let redis = json!({"datastore": {"engine": "Redis", "threads": 1}});
        let set = |path: &str, value: Value| json!({"path": path, "value": value});
        let reported = refusal(redis.clone(), read(), set("/clients/pod/serviceAccountName", json!("admin")));
        assert!(reported.contains("serviceAccountName admin"), "{reported}");
        let reported = refusal(redis.clone(), read(), set("/target/datastore/pod/hostNetwork", json!(true)));
        assert!(reported.contains("hostNetwork"), "{reported}");
        let selector = json!([{"topologyKey": "kubernetes.io/hostname", "namespaceSelector": {}}]);
        for (setting, value, name) in [
            ("priorityClassName", json!("system-node-critical"), "priorityClassName system-node-critical"),
            ("runtimeClassName", json!("host"), "runtimeClassName host"),
            ("seccompProfile", json!("profiles/all.json"), "seccompProfile profiles/all.json"),
            ("labels", json!({"app": "shop"}), "labels app"),
            ("annotations", json!({"iam.amazonaws.com/role": "admin"}), "annotations iam.amazonaws.com/role"),
            (
                "affinity",
                json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": selector}}),
                "podAntiAffinity",
            ),
            (
                "affinity",
                json!({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": selector}}),
                "podAffinity",
            ),
        ] {
            for pod in PODS {
                let patch = set(&format!("/{pod}/{setting}"), value.clone());
                let reported = refusal(redis.clone(), read(), patch);
                assert!(reported.contains(name), "{setting} of {pod}: {reported:?}");
            }
        }
        let own = set("/phases/0/memtier/image", json!("example.com/own:1"));
        assert_eq!(refusal(redis, read(), own.clone()), "", "the server is the run's own");
        let reference = json!({"datastoreRef": {"name": "redis"}});
        let reported = refusal(reference, read(), own);
        assert!(reported.contains("image example.com/own:1"), "{reported}");
    }
}
