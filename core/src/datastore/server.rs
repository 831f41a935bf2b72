//! What a server's container runs, wherever it runs. Pure.

use super::{
    engines::{self, POD_IP_VARIABLE},
    shape::service_domain,
    validate::ValidatedDatastore,
};
use crate::env::{own_field, secret_variable, variable};
use dragstrip_crds::{DatastoreSpec, datastore::CustomSpec};
use dragstrip_results::protocol::{PASSWORD_VARIABLE, POD_NAME_VARIABLE};
use k8s_openapi::api::core::v1::EnvVar;

/// Command and arguments; `spec` has the server's own port.
pub fn command(spec: &DatastoreSpec) -> (Vec<String>, Vec<String>) {
    let command = engines::rules(spec.engine).command(spec);
    match &spec.custom {
        Some(custom) => (command, [&custom.args[..], &spec.extra_args].concat()),
        None => ([command, spec.extra_args.clone()].concat(), Vec::new()),
    }
}

/// What a custom server's command may refer to.
fn member_environment(datastore: &ValidatedDatastore, custom: &CustomSpec) -> Vec<EnvVar> {
    vec![
        own_field(POD_NAME_VARIABLE, "metadata.name"),
        variable("DATASTORE", &datastore.name),
        own_field("ORDINAL", "metadata.labels['apps.kubernetes.io/pod-index']"),
        variable("MEMBERS", &custom.members.to_string()),
        own_field(POD_IP_VARIABLE, "status.podIP"),
        variable("SERVICE", &service_domain(&datastore.name, &datastore.namespace)),
    ]
}

/// What is referred to comes before what may refer to it.
pub fn environment(datastore: &ValidatedDatastore) -> Vec<EnvVar> {
    let spec = &datastore.spec;
    let rules = engines::rules(spec.engine);
    let mut env: Vec<EnvVar> =
        rules.environment().iter().map(|(name, value)| variable(name, value)).collect();
    if let Some(custom) = &spec.custom {
        env.extend(member_environment(datastore, custom));
    }
    if spec.cluster.is_some() {
        env.push(own_field(POD_IP_VARIABLE, "status.podIP"));
    }
    if let Some(secret) = &spec.auth_secret_ref {
        env.push(secret_variable(rules.password_variable().unwrap_or(PASSWORD_VARIABLE), secret));
    }
    env.extend(spec.env.iter().cloned());
    env
}
