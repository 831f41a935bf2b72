//! A Datastore's server as a program of this machine, with the kubelet's substitutions. Pure.

use super::{
    engines::speaks_resp,
    server,
    validate::{Invalid, validate},
};
use dragstrip_crds::{Datastore, Engine, pod::PodSettings};
use k8s_openapi::api::core::v1::{EnvVar, Node};
use kube::ResourceExt;
use std::collections::BTreeMap;

/// Why a Datastore needs a cluster.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Invalid(#[from] Invalid),
    #[error("{field} needs a cluster: {remedy}")]
    NotHere { field: String, remedy: &'static str },
    #[error(
        "spec.custom.command is missing: without a cluster there is no image whose entry point could be run"
    )]
    NoCommand,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launch {
    /// Its program as in the container: a name, or a path that exists only there.
    pub program: String,
    /// Its arguments; a password may be among them.
    pub arguments: Vec<String>,
    pub environment: Vec<(String, String)>,
    pub speaks_resp: bool,
}

/// Which declared field needs a cluster and cannot be ignored.
fn not_here(datastore: &Datastore) -> Option<(String, &'static str)> {
    let spec = &datastore.spec;
    let one = "leave it out, or start the servers yourself and give their address as spec.target.external of the run";
    let members = spec.custom.as_ref().is_some_and(|custom| custom.members > 1);
    let declared = [
        (spec.cluster.is_some(), "spec.cluster", one),
        (spec.replicas > 0, "spec.replicas", one),
        (spec.tls.is_some(), "spec.tls", "leave it out: local runs load servers without encryption"),
        (members, "spec.custom.members", one),
    ];
    if let Some((_, field, remedy)) = declared.into_iter().find(|(declared, ..)| *declared) {
        return Some((field.to_owned(), remedy));
    }
    let referring = spec.env.iter().find(|variable| variable.value_from.is_some());
    referring.map(|variable| (format!("spec.env[{}].valueFrom", variable.name), "give the variable a value"))
}

/// The fields of `datastore` that are ignored on one machine.
pub fn ignored(datastore: &Datastore) -> Vec<&'static str> {
    let spec = &datastore.spec;
    let own = spec.engine != Engine::Custom;
    let fields = [
        (spec.image.is_some() && own, "spec.image"),
        (spec.placement != dragstrip_crds::datastore::Placement::default(), "spec.placement"),
        (spec.resources.is_some(), "spec.resources"),
        (spec.pod != PodSettings::default(), "spec.pod"),
        (spec.port != 6379 && own, "spec.port"),
    ];
    fields.into_iter().filter(|(declared, _)| *declared).map(|(_, field)| field).collect()
}

/// `text` with the values of `variables` for each `$(NAME)`.
fn expanded(text: &str, variables: &BTreeMap<String, String>) -> String {
    let mut text = text.to_owned();
    for (name, value) in variables {
        text = text.replace(&format!("$({name})"), value);
    }
    text
}

/// What the kubelet would substitute for `variable`.
fn value(variable: &EnvVar, own: &BTreeMap<&str, String>, password: Option<&str>) -> String {
    let source = variable.value_from.as_ref();
    if source.is_some_and(|source| source.secret_key_ref.is_some()) {
        return password.unwrap_or_default().to_owned();
    }
    variable.value.clone().or_else(|| own.get(variable.name.as_str()).cloned()).unwrap_or_default()
}

/// The server of `datastore` on `port` of this machine's loopback; a Custom server listens where
/// its command says. `password` is the password in its Secret.
pub fn launch(datastore: &Datastore, port: u16, password: Option<&str>) -> Result<Launch, Error> {
    if let Some((field, remedy)) = not_here(datastore) {
        return Err(Error::NotHere { field, remedy });
    }
    let mut local = datastore.clone();
    if local.spec.engine != Engine::Custom {
        local.spec.port = i32::from(port);
    }
    let validated = validate::<Node>(&local, &[])?;
    let (command, arguments) = server::command(&local.spec);
    let own: BTreeMap<&str, String> = [
        ("POD_NAME", format!("{}-0", local.name_any())),
        ("ORDINAL", "0".to_owned()),
        ("POD_IP", "127.0.0.1".to_owned()),
    ]
    .into();
    let environment: BTreeMap<String, String> = server::environment(&validated)
        .iter()
        .map(|variable| (variable.name.clone(), value(variable, &own, password)))
        .collect();
    let mut argv = command.into_iter().chain(arguments).map(|argument| expanded(&argument, &environment));
    let program = argv.next().ok_or(Error::NoCommand)?;
    Ok(Launch {
        program,
        arguments: argv.collect(),
        environment: environment.into_iter().collect(),
        speaks_resp: speaks_resp(&local.spec),
    })
}

#[cfg(test)]
mod tests {
    use crate::datastore::launch::*;
    use serde_json::{Value, json};

    fn datastore(spec: Value) -> Datastore {
        serde_json::from_value(json!({
            "apiVersion": "dragstrip.dev/v1alpha1", "kind": "Datastore",
            "metadata": {"name": "fast", "namespace": "local", "uid": "u"}, "spec": spec
        }))
        .unwrap()
    }

    #[test]
    fn a_server_gets_its_containers_command_on_another_port() {
        let redis = datastore(json!({"engine": "Redis", "threads": 2, "authSecretRef": {"name": "s"},
            "extraArgs": ["--hz", "20"]}));
        let launch = launch(&redis, 7001, Some("secret")).unwrap();
        assert_eq!(launch.program, "redis-server");
        let text = launch.arguments.join(" ");
        assert!(text.starts_with("--port 7001 ") && text.contains("--io-threads 2"), "{text}");
        assert!(text.ends_with("--requirepass secret --hz 20"), "{text}");
        assert!(launch.speaks_resp);
    }

    #[test]
    fn a_custom_command_is_run_as_it_is_with_what_the_kubelet_would_put_in() {
        let custom = datastore(json!({"engine": "Custom", "threads": 1, "image": "x", "port": 7777,
            "env": [{"name": "MODE", "value": "fast"}],
            "custom": {"command": ["kv", "--name=$(POD_NAME)"], "args": ["--port", "7777", "--mode=$(MODE)"]}}));
        let launch = launch(&custom, 1, None).unwrap();
        assert_eq!(launch.program, "kv");
        assert_eq!(launch.arguments, ["--name=fast-0", "--port", "7777", "--mode=fast"]);
        assert!(!launch.speaks_resp, "Custom speaks TCP unless it is declared otherwise");
    }

    #[test]
    fn what_one_machine_cannot_give_is_refused_by_its_field() {
        for (spec, field) in [
            (json!({"engine": "Redis", "threads": 1, "cluster": {"shards": 3}}), "spec.cluster"),
            (json!({"engine": "Redis", "threads": 1, "replicas": 1}), "spec.replicas"),
            (json!({"engine": "Redis", "threads": 1, "tls": {"secretName": "s"}}), "spec.tls"),
        ] {
            let refused = launch(&datastore(spec), 7001, None).unwrap_err().to_string();
            assert!(refused.starts_with(&format!("{field} needs a cluster")), "{refused}");
        }
        let bare = datastore(json!({"engine": "Custom", "threads": 1, "image": "x", "custom": {}}));
        assert_eq!(launch(&bare, 1, None), Err(Error::NoCommand));
    }

    #[test]
    fn what_is_left_aside_is_named() {
        let placed = datastore(json!({"engine": "Redis", "threads": 1, "image": "redis:8", "port": 7000,
            "placement": {"zone": "a"}}));
        assert_eq!(ignored(&placed), ["spec.image", "spec.placement", "spec.port"]);
    }
}
