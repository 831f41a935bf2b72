//! Whether the Secrets, ConfigMaps and Datastores that manifests name exist. Needs the client; what
//! they name is pure.

use super::finding::{Finding, fail, ok, skip, unseen};
use crate::{
    cluster::client::{Cluster, Object as Kind, forbidden},
    manifests::{check::Object, documents::Document},
};
use dragstrip_core::suite::{expand::expand, rights};
use dragstrip_crds::Datastore;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Kind, namespace and name of an object.
type Reference = (String, String, String);

fn specs(object: &Object) -> Vec<Value> {
    match object {
        Object::Datastore(datastore) => vec![json!({"target": {"datastore": datastore.spec}})],
        Object::Run(run) => vec![json!(run.spec)],
        // A valid suite can be expanded.
        Object::Suite(suite) => {
            let runs = expand(suite).map(|expanded| expanded.runs).unwrap_or_default();
            runs.iter().map(|run| json!(run.spec)).collect()
        }
    }
}

/// What `objects` name and `documents` do not declare; `default` is the namespace of objects that name none.
fn references(objects: &[(Document, Object)], documents: &[Document], default: &str) -> BTreeSet<Reference> {
    let namespace = |document: &Document| match document.text("/metadata/namespace") {
        "" => default.to_owned(),
        own => own.to_owned(),
    };
    let name = |document: &Document, pointer: &str| document.text(pointer).to_owned();
    let mut found: BTreeSet<Reference> = BTreeSet::new();
    for (document, object) in objects {
        let names = specs(object).into_iter().flat_map(|spec| rights::references(&spec));
        found.extend(names.map(|(kind, name)| (kind.to_owned(), namespace(document), name)));
    }
    for one in documents {
        found.remove(&(name(one, "/kind"), namespace(one), name(one, "/metadata/name")));
    }
    found
}

async fn exists<K: Kind>(cluster: &Cluster, name: &str) -> kube::Result<bool> {
    Ok(cluster.api::<K>().get_metadata_opt(name).await?.is_some())
}

/// A finding for each object that the manifests name.
pub async fn check(
    cluster: &Cluster,
    objects: &[(Document, Object)],
    documents: &[Document],
) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (kind, namespace, name) in references(objects, documents, &cluster.namespace) {
        let within = cluster.within(&namespace);
        let found = match kind.as_str() {
            "Secret" => exists::<Secret>(&within, &name).await,
            "ConfigMap" => exists::<ConfigMap>(&within, &name).await,
            _ => exists::<Datastore>(&within, &name).await,
        };
        let what = format!("manifests: {kind} {name} in namespace {namespace}");
        findings.push(match found {
            Ok(true) => ok(format!("{what} exists")),
            Ok(false) => fail(format!("{what} does not exist"), "create it, or correct its name"),
            Err(error) if forbidden(&error) => {
                skip(format!("{what}: not checked: this account lacks the right"), "")
            }
            Err(error) => unseen(&what, &error, "try again"),
        });
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifests::{check::check, documents::parse};

    #[test]
    fn what_manifests_name_and_do_not_declare_is_looked_up_once() {
        let own = |kind: &str, spec: &str| {
            format!(
                "apiVersion: dragstrip.dev/v1alpha1\nkind: {kind}\nmetadata: {{name: own}}\nspec: {spec}\n---\n"
            )
        };
        let text = own("Datastore", "{engine: Redis, threads: 1, authSecretRef: {name: password, key: p}}")
            + &own(
                "BenchmarkRun",
                "{target: {datastoreRef: {name: own}}, phases: [{name: a, loadgen: {duration: 5s}}]}",
            )
            + &own(
                "BenchmarkSuite",
                "{variants: [{name: a, target: {datastoreRef: {name: other}}}], run: {phases: [{name: a, loadgen: {duration: 5s}}]}}",
            )
            + "apiVersion: v1\nkind: Secret\nmetadata: {name: password, namespace: lab}\n";
        let documents = parse("a.yaml", &text).unwrap();
        let objects = check(documents.clone()).objects;
        let named = |default: &str| -> Vec<String> {
            let found = references(&objects, &documents, default);
            found.into_iter().map(|(kind, namespace, name)| format!("{kind} {namespace}/{name}")).collect()
        };
        assert_eq!(named("lab"), ["Datastore lab/other"], "the Secret is declared beside it");
        assert_eq!(named("races"), ["Datastore races/other", "Secret races/password"]);
    }
}
