//! The API and the operators. Pure.

use super::finding::{Finding, fail, ok, warn};
use k8s_openapi::api::apps::v1::Deployment;
use kube::ResourceExt;

pub const GROUP_VERSION: &str = "dragstrip.dev/v1alpha1";
const KINDS: [&str; 3] = ["datastores", "benchmarkruns", "benchmarksuites"];
const VERSION_LABEL: &str = "app.kubernetes.io/version";

pub fn api(served: &[String]) -> Finding {
    let missing: Vec<&str> =
        KINDS.into_iter().filter(|kind| !served.iter().any(|name| name == kind)).collect();
    if missing.is_empty() {
        return ok(format!("API: {GROUP_VERSION} serves {}", KINDS.join(" and ")));
    }
    fail(
        format!("API: {GROUP_VERSION} does not serve {}", missing.join(" and ")),
        "install the CRDs of this version: helm upgrade with crds.install=true, or kubectl apply -f crds/yaml",
    )
}

fn available(deployment: &Deployment) -> bool {
    let conditions = deployment.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| condition.type_ == "Available" && condition.status == "True")
}

/// The operators' Deployments, for a command line of version `own`.
pub fn operators(found: &[Deployment], own: &str) -> Vec<Finding> {
    if found.is_empty() {
        return vec![fail(
            "operator: not installed",
            "install the chart: helm install dragstrip charts/dragstrip -n dragstrip-system --create-namespace",
        )];
    }
    let judged = found.iter().map(|deployment| {
        let (name, namespace) = (deployment.name_any(), deployment.namespace().unwrap_or_default());
        let version = deployment.labels().get(VERSION_LABEL).map_or("unknown", String::as_str);
        let seen = format!("operator: {namespace}/{name}, version {version}");
        if !available(deployment) {
            return fail(
                format!("{seen}, is not available"),
                format!("see why: kubectl -n {namespace} describe deploy {name}; kubectl -n {namespace} logs deploy/{name}"),
            );
        }
        if version == own {
            return ok(format!("{seen}, is available"));
        }
        warn(
            format!("{seen}, is available, and this command line has version {own}"),
            format!("use the command line of version {version}, or upgrade the chart"),
        )
    });
    judged.collect()
}

#[cfg(test)]
mod tests {
    use super::super::{finding::Level, nodes::tests::summary};
    use super::*;
    use serde_json::json;

    fn deployment(version: &str, available: &str) -> Deployment {
        serde_json::from_value(json!({
            "metadata": {"name": "dragstrip-operator", "namespace": "races", "labels": {VERSION_LABEL: version}},
            "status": {"conditions": [{"type": "Available", "status": available}]}
        }))
        .unwrap()
    }

    #[test]
    fn an_api_that_serves_one_kind_alone_fails_and_names_the_other() {
        assert_eq!(api(&KINDS.map(str::to_owned)).level, Level::Ok);
        let half = api(&["datastores".into(), "datastores/status".into()]);
        assert_eq!(half.level, Level::Fail);
        assert!(half.seen.ends_with("does not serve benchmarkruns and benchmarksuites"), "{}", half.seen);
    }

    #[test]
    fn an_operator_must_be_there_and_available_and_should_have_the_same_version() {
        for (found, level, words) in [
            (vec![], Level::Fail, "helm install"),
            (vec![deployment("0.1.0", "False")], Level::Fail, "kubectl -n races describe deploy"),
            (vec![deployment("0.2.0", "True")], Level::Warn, "command line of version 0.2.0"),
            (vec![deployment("0.1.0", "True")], Level::Ok, "is available"),
        ] {
            let (levels, text) = summary(&operators(&found, "0.1.0"));
            assert_eq!(levels, [level], "{text}");
            assert!(text.contains(words), "{text}");
        }
    }
}
