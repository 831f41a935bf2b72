//! What exists for a Datastore, as far as it was seen, and what its servers say.
//! Needs the stores and the observers, and makes no call to the apiserver.

use super::{build::budget_name, places::places};
use crate::{
    cluster::{pods, warnings},
    context::Context,
};
use dragstrip_agents::Agents;
use dragstrip_core::{
    datastore::{engines, shape::Shape},
    lease::{Holder, LeaseKey, holder_of},
};
use dragstrip_crds::{Datastore, DatastoreSpec, observed::ServerTruth};
use dragstrip_results::error_chain::chain;
use dragstrip_results::{
    observed::Observation,
    protocol::{OBSERVER_PORT, TopologyState},
};
use k8s_openapi::api::{
    apps::v1::StatefulSet,
    core::v1::{Event, Node, Pod, Service},
    policy::v1::PodDisruptionBudget,
};
use kube::{
    Resource, ResourceExt,
    runtime::reflector::{ObjectRef, Store},
};
use std::{net::SocketAddr, sync::Arc};

/// What the observer answered, or why it did not.
pub type Observed = Result<Observation, String>;

/// All that a pass works with.
#[derive(Debug, Clone, Default)]
pub struct Fetched {
    /// Every node of the cluster.
    pub nodes: Vec<Arc<Node>>,
    /// The Service of the Datastore's name, whoever made it.
    pub service: Option<Arc<Service>>,
    /// The StatefulSet of the Datastore's name, if it is one of ours.
    pub stateful_set: Option<Arc<StatefulSet>>,
    /// The PodDisruptionBudget for the Datastore, whoever made it.
    pub budget: Option<Arc<PodDisruptionBudget>>,
    /// The run that holds the Datastore.
    pub holder: Option<Holder>,
    /// The pods of the StatefulSet, by their index.
    pub pods: Vec<Pod>,
    /// Warnings about the pods and the StatefulSet.
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
        self.nodes.iter().map(|node| &**node).find(|node| node.name_any() == *name)
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

/// Asks the observer in `pod`; `None` while there is none.
pub async fn observe(agents: &Agents, pod: &Pod, token: &str) -> Option<Observed> {
    let address = pods::observer(pod)?;
    Some(agents.observe(address, token).await.map_err(|error| chain(&error)))
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
    let addresses: Vec<_> = places(spec, pods).into_iter().map(|place| place.address).collect();
    let joiner = SocketAddr::new(addresses.first()?.ip(), OBSERVER_PORT);
    let complete = addresses.len() == usize::from(shape.servers());
    let command = shape.command(addresses).filter(|_| complete)?;
    Some(agents.join(joiner, token, &command).await.map_err(|error| chain(&error)))
}

/// Asks the observers that have something to tell: the first pod's where it
/// joins the others and asks them, every pod's where there is no such joint.
async fn ask_each(agents: &Agents, spec: &DatastoreSpec, pods: &[Pod], token: &str) -> Vec<Observed> {
    let requests = if matches!(Shape::of(spec), Shape::Members(_)) { pods.len() } else { 1 };
    let mut observed = Vec::new();
    for pod in pods.iter().take(requests) {
        observed.extend(observe(agents, pod, token).await);
    }
    observed
}

fn get<K>(store: &Store<K>, namespace: &str, name: &str) -> Option<Arc<K>>
where
    K: Resource<DynamicType = ()> + Clone + 'static,
{
    store.get(&ObjectRef::new(name).within(namespace))
}

/// Whether `pod` was made by this very StatefulSet, not by a former one of its name.
fn made_by(stateful_set: &StatefulSet, pod: &Pod) -> bool {
    let uid = stateful_set.metadata.uid.as_deref();
    pod.owner_references().iter().any(|owner| Some(owner.uid.as_str()) == uid)
}

/// What is there of `datastore`.
pub fn fetch(ctx: &Context, datastore: &Datastore) -> Fetched {
    let world = &ctx.world;
    let (namespace, name) = (datastore.namespace().unwrap_or_default(), datastore.name_any());
    let stateful_set = get(&world.stateful_sets, &namespace, &name);
    let indexes = 0..Shape::of(&datastore.spec).pods();
    // Pods beyond the number declared are on their way out.
    let named = indexes.filter_map(|index| get(&world.pods, &namespace, &format!("{name}-{index}")));
    let of_set = |pod: &Arc<Pod>| stateful_set.as_deref().is_some_and(|set| made_by(set, pod));
    let pods: Vec<Pod> = named.filter(of_set).map(|pod| (*pod).clone()).collect();
    let makers = stateful_set.iter().filter_map(|set| set.uid());
    let concerned: Vec<String> = pods.iter().filter_map(ResourceExt::uid).chain(makers).collect();
    // A pod that a kubelet refused is replaced at once, and its namesake refused too.
    let namesake = |event: &Event| {
        let object = &event.involved_object;
        warnings::is_refusal(event)
            && object.namespace.as_ref() == Some(&namespace)
            && pods.iter().any(|pod| pod.metadata.name == object.name)
    };
    let about = |event: &Arc<Event>| {
        let uid = event.involved_object.uid.as_ref();
        uid.is_some_and(|uid| concerned.contains(uid)) || namesake(event)
    };
    let lease = get(&world.leases, &namespace, &LeaseKey::of_datastore(&namespace, &name).name);
    Fetched {
        nodes: world.nodes.state(),
        service: get(&ctx.world.services, &namespace, &name),
        budget: get(&ctx.world.budgets, &namespace, &budget_name(&name)),
        holder: lease.as_deref().and_then(holder_of),
        warnings: world
            .warnings
            .state()
            .iter()
            .filter(|event| about(event))
            .map(|event| (**event).clone())
            .collect(),
        pods,
        stateful_set,
        observed: Vec::new(),
        topology: None,
    }
}

/// Asks the observers of `datastore`, whose pods are all ready, and has them join their servers;
/// none of servers that speak no RESP, of which there is nothing to ask.
pub async fn ask(ctx: &Context, datastore: &Datastore, fetched: &mut Fetched) {
    if !engines::speaks_resp(&datastore.spec) {
        return;
    }
    let (spec, token) = (&datastore.spec, datastore.uid().unwrap_or_default());
    let agents = &ctx.agents;
    fetched.observed = ask_each(agents, spec, &fetched.pods, &token).await;
    fetched.topology = join(agents, spec, &fetched.pods, &token).await;
}
