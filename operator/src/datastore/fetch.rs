//! Fetches what exists for a Datastore, and what its servers report. Needs the stores and the
//! observers, and sends no request to the API server.

use super::{build::budget_name, places::places};
use crate::cluster::{context::Context, pods, warnings};
use dragstrip_agents::Agents;
use dragstrip_core::{
    datastore::{engines, shape::Shape},
    lease::{Holder, LeaseKey, holder_of},
};
use dragstrip_crds::{Datastore, DatastoreSpec, observed::ServerTruth};
use dragstrip_results::{error_chain::chain, observed::Observation, protocol::TopologyState};
use k8s_openapi::api::{
    apps::v1::StatefulSet,
    core::v1::{Event, Node, Pod, Service},
    policy::v1::PodDisruptionBudget,
};
use kube::{
    Resource, ResourceExt,
    runtime::reflector::{ObjectRef, Store},
};
use std::sync::Arc;

/// The observer's response, or why there is none.
pub type Observed = Result<Observation, String>;

#[derive(Debug, Clone, Default)]
pub struct Fetched {
    pub nodes: Vec<Arc<Node>>,
    /// The Service of the Datastore's name, whoever owns it.
    pub service: Option<Arc<Service>>,
    /// The StatefulSet of the Datastore's name, if it is one of ours.
    pub stateful_set: Option<Arc<StatefulSet>>,
    /// The PodDisruptionBudget with the Datastore's name for it, whoever owns it.
    pub budget: Option<Arc<PodDisruptionBudget>>,
    pub holder: Option<Holder>,
    /// The pods of the StatefulSet, by their index.
    pub pods: Vec<Arc<Pod>>,
    /// Warnings about the pods and the StatefulSet.
    pub warnings: Vec<Arc<Event>>,
    /// What the queried observers report; empty if there is no observer to query.
    pub observed: Vec<Observed>,
    /// How the servers are joined; absent if they need not be joined, or cannot be yet.
    pub topology: Option<Result<TopologyState, String>>,
}

impl Fetched {
    pub fn pod(&self) -> Option<&Pod> {
        self.pods.first().map(|pod| &**pod)
    }

    pub fn node(&self) -> Option<&Node> {
        let name = self.pod()?.spec.as_ref()?.node_name.as_ref()?;
        self.nodes.iter().map(|node| &**node).find(|node| node.name_any() == *name)
    }

    pub fn observation(&self) -> Option<&Observation> {
        self.observed.first()?.as_ref().ok()
    }

    /// What the first server reports about itself.
    pub fn truth(&self) -> Option<&ServerTruth> {
        let joined = self.topology.as_ref().and_then(|topology| topology.as_ref().ok());
        let first = joined.and_then(|state| state.members.first()).and_then(|member| member.truth.as_ref());
        first.or_else(|| Some(&self.observation()?.server))
    }
}

/// Queries the observer in `pod`; `None` if there is none yet.
pub async fn observe(agents: &Agents, pod: &Pod, token: &str) -> Option<Observed> {
    let address = pods::observer(pod)?;
    Some(agents.observe(address, token).await.map_err(|error| chain(&error)))
}

/// Makes the first pod's observer join all servers of the ready `pods`; `None` if they need not be joined.
async fn join(
    agents: &Agents,
    spec: &DatastoreSpec,
    pods: &[Arc<Pod>],
    token: &str,
) -> Option<Result<TopologyState, String>> {
    let addresses: Vec<_> = places(spec, pods).into_iter().map(|place| place.address).collect();
    let joiner = pods::observer(pods.first()?)?;
    let command = Shape::of(spec).command(addresses)?;
    Some(agents.join(joiner, token, &command).await.map_err(|error| chain(&error)))
}

/// Queries the observers of independent members, else the first one, which joins and queries the others.
async fn observe_each(
    agents: &Agents,
    spec: &DatastoreSpec,
    pods: &[Arc<Pod>],
    token: &str,
) -> Vec<Observed> {
    let queried = if matches!(Shape::of(spec), Shape::Members(_)) { pods.len() } else { 1 };
    let mut observed = Vec::new();
    for pod in pods.iter().take(queried) {
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

/// Whether this StatefulSet created `pod`, rather than an earlier one of its name.
fn created_by(stateful_set: &StatefulSet, pod: &Pod) -> bool {
    let uid = stateful_set.metadata.uid.as_deref();
    pod.owner_references().iter().any(|owner| Some(owner.uid.as_str()) == uid)
}

pub fn fetch(ctx: &Context, datastore: &Datastore) -> Fetched {
    let world = &ctx.world;
    let (namespace, name) = (datastore.namespace().unwrap_or_default(), datastore.name_any());
    let stateful_set = get(&world.stateful_sets, &namespace, &name);
    let indexes = 0..Shape::of(&datastore.spec).pods();
    // Pods beyond the declared number are being deleted.
    let named = indexes.filter_map(|index| get(&world.pods, &namespace, &format!("{name}-{index}")));
    let of_set = |pod: &Arc<Pod>| stateful_set.as_deref().is_some_and(|set| created_by(set, pod));
    let pods: Vec<Arc<Pod>> = named.filter(of_set).collect();
    let owners = stateful_set.iter().filter_map(|set| set.uid());
    let concerned: Vec<String> = pods.iter().filter_map(|pod| pod.uid()).chain(owners).collect();
    // The StatefulSet replaces a pod that a kubelet refused at once, by one of the same name.
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
        service: get(&world.services, &namespace, &name),
        budget: get(&world.budgets, &namespace, &budget_name(&name)),
        holder: lease.as_deref().and_then(holder_of),
        warnings: world.warnings.state().into_iter().filter(about).collect(),
        pods,
        stateful_set,
        observed: Vec::new(),
        topology: None,
    }
}

/// Queries the observers of `datastore`, whose pods are all ready, and makes them join their servers.
/// Servers that do not speak RESP cannot be queried.
pub async fn query(ctx: &Context, datastore: &Datastore, fetched: &mut Fetched) {
    if !engines::speaks_resp(&datastore.spec) {
        return;
    }
    let (spec, token) = (&datastore.spec, datastore.uid().unwrap_or_default());
    let agents = &ctx.agents;
    fetched.observed = observe_each(agents, spec, &fetched.pods, &token).await;
    fetched.topology = join(agents, spec, &fetched.pods, &token).await;
}
