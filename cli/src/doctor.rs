//! Whether a cluster is ready for races: the API, the operator, the nodes. Needs the client,
//! but for the judgements, which are pure.

use k8s_openapi::api::{apps::v1::Deployment, core::v1::Node};
use kube::{Api, Client, ResourceExt, api::ListParams};
use std::{fmt, process::ExitCode};

const GROUP_VERSION: &str = "dragstrip.dev/v1alpha1";
const KINDS: [&str; 2] = ["datastores", "benchmarkruns"];
const ROLE: &str = "dragstrip.dev/role";
const VERSION_LABEL: &str = "app.kubernetes.io/version";
const OPERATOR: &str = "app.kubernetes.io/component=operator";
/// The chart's name for its label, by which the operator is found where no release is named.
const CHART: &str = "app.kubernetes.io/name=dragstrip";

/// How well something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    Ok,
    /// Runs work, but perhaps not as meant.
    Warn,
    /// No run works.
    Fail,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ok => "OK  ",
            Self::Warn => "WARN",
            Self::Fail => "FAIL",
        })
    }
}

/// What one look has found.
#[derive(Debug, PartialEq, Eq)]
struct Finding {
    level: Level,
    /// What was looked at, and what was seen.
    seen: String,
    /// What to do about it; empty where all is well.
    remedy: String,
}

fn ok(seen: impl Into<String>) -> Finding {
    Finding { level: Level::Ok, seen: seen.into(), remedy: String::new() }
}

fn warn(seen: impl Into<String>, remedy: impl Into<String>) -> Finding {
    Finding { level: Level::Warn, seen: seen.into(), remedy: remedy.into() }
}

fn fail(seen: impl Into<String>, remedy: impl Into<String>) -> Finding {
    Finding { level: Level::Fail, seen: seen.into(), remedy: remedy.into() }
}

/// Of what the apiserver serves of our group.
fn api(served: &[String]) -> Finding {
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

/// Of the Deployments of operators, for a command line of version `own`.
fn operators(found: &[Deployment], own: &str) -> Vec<Finding> {
    if found.is_empty() {
        return vec![fail(
            "operator: there is no Deployment of it",
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

/// A quantity of CPUs, such as 4 or 3920m.
fn cpus(quantity: &str) -> Option<f64> {
    match quantity.strip_suffix('m') {
        Some(thousandths) => thousandths.parse::<f64>().ok().map(|count| count / 1000.0),
        None => quantity.parse().ok(),
    }
}

fn allocatable(node: &Node) -> f64 {
    let quantity = node.status.as_ref().and_then(|status| status.allocatable.as_ref()?.get("cpu"));
    quantity.and_then(|quantity| cpus(&quantity.0)).unwrap_or(0.0)
}

fn usable(node: &Node) -> bool {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let ready = conditions.into_iter().any(|one| one.type_ == "Ready" && one.status == "True");
    let cordoned = node.spec.as_ref().and_then(|spec| spec.unschedulable).unwrap_or_default();
    ready && !cordoned
}

/// The most CPUs that one of `nodes` has.
fn strongest(nodes: &[&Node]) -> f64 {
    nodes.iter().map(|node| allocatable(node)).fold(0.0, f64::max)
}

/// Of the nodes with the roles of servers and clients.
fn roles(usable: &[&Node]) -> Vec<Finding> {
    let of = |role: &str| -> Vec<&Node> {
        usable.iter().copied().filter(|node| node.labels().get(ROLE).is_some_and(|own| own == role)).collect()
    };
    let (servers, clients) = (of("server"), of("client"));
    let label = |role: &str| {
        format!(
            "give nodes their role: kubectl label node NAME {ROLE}={role}; keep others off them: kubectl taint node NAME {ROLE}={role}:NoSchedule"
        )
    };
    match (servers.is_empty(), clients.is_empty()) {
        (true, true) => {
            return vec![warn(
                format!("roles: no node has the label {ROLE}, so that servers and clients go anywhere"),
                label("server|client"),
            )];
        }
        (true, false) => {
            return vec![warn("roles: there are nodes for clients and none for servers", label("server"))];
        }
        (false, true) => {
            return vec![warn("roles: there are nodes for servers and none for clients", label("client"))];
        }
        (false, false) => {}
    }
    let roles = ok(format!("roles: {} for servers, {} for clients", servers.len(), clients.len()));
    let (server, client) = (strongest(&servers), strongest(&clients));
    let seen = format!("CPUs: a server can have {server:.2}, a client {client:.2}");
    let cpus = if client < server {
        warn(
            seen,
            "give clients the stronger machines, or several pods (clients.pods): else they are what is measured",
        )
    } else {
        ok(seen)
    };
    vec![roles, cpus]
}

/// Of all nodes.
fn nodes(all: &[Node]) -> Vec<Finding> {
    let usable: Vec<&Node> = all.iter().filter(|node| usable(node)).collect();
    let seen = format!("nodes: {} of {} are ready and schedulable", usable.len(), all.len());
    let counted = match usable.len() {
        0 => fail(seen, "see why: kubectl get nodes"),
        1 => warn(
            seen,
            "clients never share the node of their server: add a node, or say clients.shareServerNode: true in runs",
        ),
        _ => ok(format!("{seen}, with {:.2} CPUs at most", strongest(&usable))),
    };
    let mut findings = vec![counted];
    if usable.len() > 1 {
        findings.extend(roles(&usable));
    }
    findings
}

/// Of what could not be looked at.
fn unseen(what: &str, error: &kube::Error, remedy: &str) -> Finding {
    warn(format!("{what}: cannot be looked at: {error}"), remedy)
}

/// Which operators are looked at.
#[derive(Debug, Clone, Default)]
pub struct Which {
    /// In this namespace; in all when absent.
    pub namespace: Option<String>,
    /// Of this Helm release; of every one when absent.
    pub release: Option<String>,
}

async fn look(client: &Client, which: &Which) -> kube::Result<Vec<Finding>> {
    let served = match client.list_api_group_resources(GROUP_VERSION).await {
        Ok(list) => list.resources.into_iter().map(|resource| resource.name).collect(),
        Err(kube::Error::Api(status)) if status.is_not_found() => Vec::new(),
        // Nothing else could be told either.
        Err(error) => return Err(error),
    };
    let mut findings = vec![api(&served)];
    let deployments: Api<Deployment> = match &which.namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    };
    let selected = match &which.release {
        Some(release) => format!("{OPERATOR},app.kubernetes.io/instance={release}"),
        None => format!("{OPERATOR},{CHART}"),
    };
    match deployments.list(&ListParams::default().labels(&selected)).await {
        Ok(list) => findings.extend(operators(&list.items, env!("CARGO_PKG_VERSION"))),
        Err(error) => findings.push(unseen(
            "operator",
            &error,
            "name its namespace with --operator-namespace, or ask for the right to list Deployments there",
        )),
    }
    match Api::<Node>::all(client.clone()).list(&ListParams::default()).await {
        Ok(list) => findings.extend(nodes(&list.items)),
        Err(error) => findings.push(unseen("nodes", &error, "ask for the right to list nodes")),
    }
    Ok(findings)
}

fn text(findings: &[Finding]) -> String {
    let line = |finding: &Finding| {
        let remedy =
            if finding.remedy.is_empty() { String::new() } else { format!("      {}\n", finding.remedy) };
        format!("{}  {}\n{remedy}", finding.level, finding.seen)
    };
    findings.iter().map(line).collect()
}

/// Looks at everything and prints it. Exit code 1 when no run can work.
pub async fn doctor(client: &Client, which: &Which) -> kube::Result<ExitCode> {
    let findings = look(client, which).await?;
    print!("{}", text(&findings));
    let failed = findings.iter().any(|finding| finding.level == Level::Fail);
    Ok(if failed { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn node(name: &str, role: Option<&str>, cpu: &str) -> Node {
        let mut node = json!({
            "metadata": {"name": name, "labels": {}},
            "status": {"allocatable": {"cpu": cpu}, "conditions": [{"type": "Ready", "status": "True"}]}
        });
        if let Some(role) = role {
            node["metadata"]["labels"][ROLE] = json!(role);
        }
        serde_json::from_value(node).unwrap()
    }

    fn deployment(version: &str, available: &str) -> Deployment {
        serde_json::from_value(json!({
            "metadata": {"name": "dragstrip-operator", "namespace": "races", "labels": {VERSION_LABEL: version}},
            "status": {"conditions": [{"type": "Available", "status": available}]}
        }))
        .unwrap()
    }

    /// The levels, and all that is said.
    fn told(findings: &[Finding]) -> (Vec<Level>, String) {
        (findings.iter().map(|finding| finding.level).collect(), text(findings))
    }

    #[test]
    fn an_api_that_serves_one_kind_alone_fails_and_names_the_other() {
        assert_eq!(api(&["datastores".into(), "benchmarkruns".into()]).level, Level::Ok);
        let half = api(&["datastores".into(), "datastores/status".into()]);
        assert_eq!(half.level, Level::Fail);
        assert!(half.seen.ends_with("does not serve benchmarkruns"), "{}", half.seen);
    }

    #[test]
    fn an_operator_must_be_there_and_available_and_should_have_the_same_version() {
        for (found, level, words) in [
            (vec![], Level::Fail, "helm install"),
            (vec![deployment("0.1.0", "False")], Level::Fail, "kubectl -n races describe deploy"),
            (vec![deployment("0.2.0", "True")], Level::Warn, "command line of version 0.2.0"),
            (vec![deployment("0.1.0", "True")], Level::Ok, "is available"),
        ] {
            let (levels, text) = told(&operators(&found, "0.1.0"));
            assert_eq!(levels, [level], "{text}");
            assert!(text.contains(words), "{text}");
        }
    }

    #[test]
    fn clients_should_have_nodes_of_their_own_and_stronger_ones() {
        let (server, client) = (Some("server"), Some("client"));
        let cases: [(Vec<Node>, &[Level], &str); 6] = [
            (vec![], &[Level::Fail], "0 of 0"),
            (vec![node("a", None, "4")], &[Level::Warn], "shareServerNode"),
            (
                vec![node("a", None, "4"), node("b", None, "4")],
                &[Level::Ok, Level::Warn],
                "kubectl label node",
            ),
            (
                vec![node("a", server, "4"), node("b", None, "4")],
                &[Level::Ok, Level::Warn],
                "none for clients",
            ),
            (
                vec![node("a", server, "47810m"), node("b", client, "63770m")],
                &[Level::Ok, Level::Ok, Level::Ok],
                "a server can have 47.81, a client 63.77",
            ),
            (
                vec![node("a", server, "64"), node("b", client, "16")],
                &[Level::Ok, Level::Ok, Level::Warn],
                "stronger machines",
            ),
        ];
        for (all, levels, words) in cases {
            let (found, text) = told(&nodes(&all));
            assert_eq!(found, levels, "{text}");
            assert!(text.contains(words), "{text}");
        }
    }

    #[test]
    fn a_node_that_is_cordoned_or_not_ready_does_not_count() {
        let mut cordoned = node("a", None, "4");
        cordoned.spec = Some(serde_json::from_value(json!({"unschedulable": true})).unwrap());
        let mut broken = node("b", None, "4");
        broken.status.as_mut().unwrap().conditions.as_mut().unwrap()[0].status = "Unknown".into();
        let (levels, text) = told(&nodes(&[cordoned, broken, node("c", None, "4")]));
        assert_eq!(levels, [Level::Warn], "{text}");
        assert!(text.contains("1 of 3"), "{text}");
    }
}
