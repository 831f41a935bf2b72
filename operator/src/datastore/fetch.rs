//! What exists for a Datastore: its pods, their nodes, and what its servers say.
//! Needs the client and the observers.

use super::shape::{self, Shape};
use crate::{
    cluster::{
        agents::{AgentError, Agents},
        nodes, pods, warnings,
    },
    context::Context,
    labels,
};
use dragstrip_crds::{Datastore, DatastoreSpec, observed::ServerTruth};
use dragstrip_results::{observed::Observation, protocol::TopologyState};
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use kube::{Api, ResourceExt, api::ListParams};
use std::error::Error as _;

/// A step of fetching that failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The pods could not be listed.
    #[error("failed to list the pods of the datastore")]
    Pods(#[source] kube::Error),
    /// The nodes could not be listed.
    #[error("failed to list nodes")]
    Nodes(#[source] kube::Error),
    /// The warnings about pods could not be listed.
    #[error("failed to list the warnings about pods")]
    Warnings(#[source] kube::Error),
}

/// What the observer answered, or why it did not.
pub type Observed = Result<Observation, String>;

/// All that a pass works with.
#[derive(Debug, Clone)]
pub struct Fetched {
    /// Every node of the cluster.
    pub nodes: Vec<Node>,
    /// The pods, by their index.
    pub pods: Vec<Pod>,
    /// Warnings about pods, where a pod waits for something.
    pub warnings: Vec<Event>,
    /// What the observers of the pods that were asked say; empty when there is nobody to ask.
    pub observed: Vec<Observed>,
    /// How the servers are joined; absent where they need not be, or cannot be yet.
    pub topology: Option<Result<TopologyState, String>>,
}

impl Fetched {
    /// The first pod.
    pub fn pod(&self) -> Option<&Pod> {
        self.pods.first()
    }

    /// The node of the first pod.
    pub fn node(&self) -> Option<&Node> {
        let name = self.pod()?.spec.as_ref()?.node_name.as_ref()?;
        self.nodes.iter().find(|node| node.name_any() == *name)
    }

    /// What the first observer says.
    pub fn observation(&self) -> Option<&Observation> {
        self.observed.first()?.as_ref().ok()
    }

    /// What the first server says of itself.
    pub fn truth(&self) -> Option<&ServerTruth> {
        let joined = self.topology.as_ref().and_then(|topology| topology.as_ref().ok());
        let first = joined.and_then(|state| state.members.first()).and_then(|member| member.truth.as_ref());
        first.or_else(|| Some(&self.observation()?.server))
    }
}

fn explained(error: &AgentError) -> String {
    let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
    format!("{error}{cause}")
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
    Some(agents.observe(address, token).await.map_err(|error| explained(&error)))
}

/// Whether all pods that `shape` has are there and ready.
pub fn all_ready(shape: Shape, found: &[Pod]) -> bool {
    found.len() == usize::from(shape.pods()) && found.iter().all(pods::ready)
}

/// Has the first pod's observer join all servers, once all of them answer.
async fn join(
    agents: &Agents,
    spec: &DatastoreSpec,
    pods: &[Pod],
    token: &str,
) -> Option<Result<TopologyState, String>> {
    let shape = Shape::of(spec);
    if !all_ready(shape, pods) {
        return None;
    }
    let addresses: Vec<_> = shape::places(spec, pods).into_iter().map(|place| place.address).collect();
    let joiner = addresses.first()?.ip();
    let complete = addresses.len() == usize::from(shape.servers());
    let order = shape.order(addresses).filter(|_| complete)?;
    Some(agents.join(joiner, token, &order).await.map_err(|error| explained(&error)))
}

/// Asks the observers that have something to tell: the first pod's where it
/// joins the others and asks them, every pod's where there is no such joint.
async fn ask(agents: &Agents, spec: &DatastoreSpec, pods: &[Pod], token: &str) -> Vec<Observed> {
    let asked = if matches!(Shape::of(spec), Shape::Members(_)) { pods.len() } else { 1 };
    let mut observed = Vec::new();
    for pod in pods.iter().take(asked) {
        observed.extend(observe(agents, pod, token).await);
    }
    observed
}

async fn list_pods(ctx: &Context, datastore: &Datastore) -> Result<Vec<Pod>, Error> {
    let api: Api<Pod> = Api::namespaced(ctx.client.clone(), &datastore.namespace().unwrap_or_default());
    let selector =
        format!("{}={},{}={}", labels::COMPONENT, labels::SERVER, labels::DATASTORE, datastore.name_any());
    let list = api.list(&ListParams::default().labels(&selector)).await.map_err(Error::Pods)?;
    let expected = Shape::of(&datastore.spec).pods();
    // Pods beyond the number declared are on their way out.
    let wanted = |pod: &Pod| shape::index(pod).is_some_and(|index| index < expected);
    let mut pods: Vec<Pod> = list.items.into_iter().filter(wanted).collect();
    pods.sort_by_key(shape::index);
    Ok(pods)
}

/// Fetches everything for one pass over `datastore`.
pub async fn fetch(ctx: &Context, datastore: &Datastore) -> Result<Fetched, Error> {
    let nodes = nodes::list(&ctx.client).await.map_err(Error::Nodes)?;
    let pods = list_pods(ctx, datastore).await?;
    let warnings = if pods.iter().any(warnings::may_explain) {
        let namespace = datastore.namespace().unwrap_or_default();
        warnings::list(&ctx.client, &namespace).await.map_err(Error::Warnings)?
    } else {
        Vec::new()
    };
    let (spec, token) = (&datastore.spec, datastore.uid().unwrap_or_default());
    let observed = ask(&ctx.agents, spec, &pods, &token).await;
    let topology = join(&ctx.agents, spec, &pods, &token).await;
    Ok(Fetched { nodes, pods, warnings, observed, topology })
}
