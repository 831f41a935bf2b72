//! The cluster's nodes by what they are for. Tests name the node where two runs,
//! servers or clients must meet: with two of a kind they need not.

use crate::{Env, kubectl};
use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{Api, Client, ResourceExt, api::ListParams};

/// Label that says what a node is for.
pub const ROLE: &str = "dragstrip.dev/role";
/// Label that names a node.
const HOSTNAME: &str = "kubernetes.io/hostname";

/// Names of the nodes for servers and for clients.
#[derive(Debug)]
pub struct Nodes {
    /// For servers; first those without taint.
    pub servers: Vec<String>,
    /// For clients.
    pub clients: Vec<String>,
}

/// A placement on one node, in YAML.
pub fn on(node: &str) -> String {
    format!("{{nodeSelector: {{{HOSTNAME}: {node}}}}}")
}

/// What a run adds to its spec to have its clients on one node.
pub fn clients_on(node: &str) -> String {
    format!("clients: {{placement: {}}}\n", on(node))
}

/// A Datastore's spec with its server on one node.
pub fn server_on(spec: &str, node: &str) -> String {
    format!("{spec}\nplacement: {}\n", on(node))
}

/// The node that a pod is on.
pub fn of(pod: &Pod) -> Result<String> {
    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
    node.with_context(|| format!("pod {} has no node", pod.name_any()))
}

fn taints(node: &Node) -> usize {
    node.spec.iter().flat_map(|spec| spec.taints.iter().flatten()).count()
}

/// Gives a node a label, or takes it away where `value` is empty.
async fn set(node: &str, key: &str, value: &str) -> Result<()> {
    let label = if value.is_empty() { format!("{key}-") } else { format!("{key}={value}") };
    kubectl::must(&["label", "--overwrite", "node", node, &label], "").await.map(|_| ())
}

/// The nodes for servers and clients; an error when there are not two of each.
pub async fn all(client: &Client) -> Result<Nodes> {
    let mut nodes = Api::<Node>::all(client.clone()).list(&ListParams::default()).await?.items;
    nodes.sort_by_key(|node| (taints(node), node.name_any()));
    let of = |role: &str| -> Vec<String> {
        let labelled = nodes.iter().filter(|node| node.labels().get(ROLE).is_some_and(|is| is == role));
        labelled.map(ResourceExt::name_any).collect()
    };
    let found = Nodes { servers: of("server"), clients: of("client") };
    ensure!(
        found.servers.len() >= 2 && found.clients.len() >= 2,
        "this test needs two nodes labelled {ROLE}=server and two labelled {ROLE}=client, as \
             'testbed/cluster up' makes them; the cluster has {found:?}"
    );
    Ok(found)
}

impl Env {
    /// [`all`] nodes of this cluster.
    pub async fn nodes(&self) -> Result<Nodes> {
        all(&self.client).await
    }

    /// The value of a node's label; empty where it has none.
    pub async fn label(&self, node: &str, key: &str) -> Result<String> {
        let node = Api::<Node>::all(self.client.clone()).get(node).await?;
        Ok(node.labels().get(key).cloned().unwrap_or_default())
    }

    /// Runs `test` while the node's label has another value, or where that is empty none;
    /// then it has its own again. For tests that run alone.
    pub async fn relabelled<T>(
        &self,
        node: &str,
        key: &str,
        value: &str,
        test: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let own = self.label(node, key).await?;
        set(node, key, value).await?;
        let outcome = test.await;
        set(node, key, &own).await?;
        outcome
    }

    /// What a node is for, by its label.
    pub async fn role(&self, node: &str) -> Result<String> {
        self.label(node, ROLE).await
    }
}
