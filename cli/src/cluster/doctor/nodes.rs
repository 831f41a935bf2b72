//! The nodes: which are usable, and for which role. Pure.

use super::finding::{Finding, fail, ok, warn};
use dragstrip_core::{datastore::room::Room, labels};
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;

const ROLE: &str = labels::NODE_ROLE;

fn allocatable(node: &Node) -> f64 {
    let quantity = node.status.as_ref().and_then(|status| status.allocatable.as_ref()?.get("cpu"));
    quantity.and_then(Room::number).unwrap_or(0.0)
}

/// Whether pods can be placed on `node`.
pub fn usable(node: &Node) -> bool {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let ready = conditions.into_iter().any(|one| one.type_ == "Ready" && one.status == "True");
    let cordoned = node.spec.as_ref().and_then(|spec| spec.unschedulable).unwrap_or_default();
    ready && !cordoned
}

fn strongest(nodes: &[&Node]) -> f64 {
    nodes.iter().map(|node| allocatable(node)).fold(0.0, f64::max)
}

fn roles(usable: &[&Node]) -> Vec<Finding> {
    let of = |role: &str| -> Vec<&Node> {
        usable.iter().copied().filter(|node| node.labels().get(ROLE).is_some_and(|own| own == role)).collect()
    };
    let (servers, clients) = (of("server"), of("client"));
    let number = |nodes: &[&Node]| if nodes.is_empty() { "none".to_owned() } else { nodes.len().to_string() };
    let seen =
        format!("roles (label {ROLE}): {} for servers, {} for clients", number(&servers), number(&clients));
    if servers.is_empty() || clients.is_empty() {
        let remedy = format!(
            "give nodes a role: kubectl label node NAME {ROLE}=server (or client); keep other pods away: kubectl taint node NAME {ROLE}=server:NoSchedule"
        );
        return vec![warn(seen, remedy)];
    }
    let roles = ok(seen);
    let (server, client) = (strongest(&servers), strongest(&clients));
    let seen = format!("CPUs: {server:.2} for a server, {client:.2} for a client");
    let cpus = if client < server {
        warn(
            seen,
            "give clients the stronger machines, or several pods (clients.pods): otherwise the clients limit the result",
        )
    } else {
        ok(seen)
    };
    vec![roles, cpus]
}

pub fn nodes(all: &[Node]) -> Vec<Finding> {
    let usable: Vec<&Node> = all.iter().filter(|node| usable(node)).collect();
    let seen = format!("nodes: {} of {} are ready and schedulable", usable.len(), all.len());
    let counted = match usable.len() {
        0 => fail(seen, "see why: kubectl get nodes"),
        1 => warn(
            seen,
            "clients never share the node of their server: add a node, or set clients.shareServerNode: true in runs",
        ),
        _ => ok(format!("{seen}, with {:.2} CPUs at most", strongest(&usable))),
    };
    let mut findings = vec![counted];
    if usable.len() > 1 {
        findings.extend(roles(&usable));
    }
    findings
}

#[cfg(test)]
pub mod tests {
    use super::super::finding::{Level, text};
    use super::*;
    use serde_json::json;

    pub fn node(name: &str, role: Option<&str>, cpu: &str) -> Node {
        let mut node = json!({
            "metadata": {"name": name, "labels": {}},
            "status": {"allocatable": {"cpu": cpu}, "conditions": [{"type": "Ready", "status": "True"}]}
        });
        if let Some(role) = role {
            node["metadata"]["labels"][ROLE] = json!(role);
        }
        serde_json::from_value(node).unwrap()
    }

    /// The levels and the text.
    pub fn summary(findings: &[Finding]) -> (Vec<Level>, String) {
        (findings.iter().map(|finding| finding.level).collect(), text(findings))
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
                "47.81 for a server, 63.77 for a client",
            ),
            (
                vec![node("a", server, "64"), node("b", client, "16")],
                &[Level::Ok, Level::Ok, Level::Warn],
                "stronger machines",
            ),
        ];
        for (all, levels, words) in cases {
            let (found, text) = summary(&nodes(&all));
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
        let (levels, text) = summary(&nodes(&[cordoned, broken, node("c", None, "4")]));
        assert_eq!(levels, [Level::Warn], "{text}");
        assert!(text.contains("1 of 3"), "{text}");
    }
}
