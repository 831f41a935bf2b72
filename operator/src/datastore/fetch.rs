//! What exists for a Datastore: its pod, its node, and what its server says.
//! Needs the client and the observer.

use crate::{
    cluster::{agents::Agents, nodes},
    context::Context,
    labels,
};
use dragstrip_crds::{Datastore, observed::Observation};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{Api, ResourceExt, api::ListParams};
use std::error::Error as _;

/// A step of fetching that failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The pods could not be listed.
    #[error("failed to list the pods of the datastore")]
    ListPods(#[source] kube::Error),
    /// The nodes could not be listed.
    #[error("failed to list nodes")]
    ListNodes(#[source] kube::Error),
}

/// What the observer answered, or why it did not.
pub type Observed = Result<Observation, String>;

/// All that a pass works with.
#[derive(Debug, Clone)]
pub struct Fetched {
    /// Every node of the cluster.
    pub nodes: Vec<Node>,
    /// The server's pod, the newest when one is being replaced.
    pub pod: Option<Pod>,
    /// What its server says; absent when there is nobody to ask.
    pub observed: Option<Observed>,
}

impl Fetched {
    /// The node of the pod.
    pub fn node(&self) -> Option<&Node> {
        let name = self.pod.as_ref()?.spec.as_ref()?.node_name.as_ref()?;
        self.nodes.iter().find(|node| node.name_any() == *name)
    }
}

/// Asks the observer in `pod`; `None` while the pod has no address or the
/// observer has not started.
pub async fn observe(agents: &Agents, pod: &Pod, token: &str) -> Option<Observed> {
    let status = pod.status.as_ref()?;
    let started = status
        .init_container_statuses
        .iter()
        .flatten()
        .any(|container| container.name == "observer" && container.started == Some(true));
    let address = status.pod_ip.as_ref().filter(|_| started)?.parse().ok()?;
    Some(agents.observe(address, token).await.map_err(|error| {
        let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
        format!("{error}{cause}")
    }))
}

/// Fetches everything for one pass over `datastore`.
pub async fn fetch(ctx: &Context, datastore: &Datastore) -> Result<Fetched, Error> {
    let nodes = nodes::list(&ctx.client).await.map_err(Error::ListNodes)?;
    let pods: Api<Pod> = Api::namespaced(ctx.client.clone(), &datastore.namespace().unwrap_or_default());
    let selector =
        format!("{}={},{}={}", labels::COMPONENT, labels::SERVER, labels::DATASTORE, datastore.name_any());
    let pod = pods
        .list(&ListParams::default().labels(&selector))
        .await
        .map_err(Error::ListPods)?
        .items
        .into_iter()
        .max_by_key(|pod| pod.metadata.creation_timestamp.as_ref().map(|time| time.0));
    let observed = match &pod {
        Some(pod) => observe(&ctx.agents, pod, &datastore.uid().unwrap_or_default()).await,
        None => None,
    };
    Ok(Fetched { nodes, pod, observed })
}
