//! What the cluster has that concerns us: one watch per kind for the whole
//! process, pruned to what is read. Needs the client.

use super::{
    feed::Feed,
    finished::{FinishedRun, FinishedSuite},
    scope::Scope,
    undecodable::Undecodable,
};
use crate::metrics::Metrics;
use dragstrip_core::labels;
use dragstrip_crds::{BenchmarkRun, BenchmarkSuite, Datastore};
use k8s_openapi::api::{
    apps::v1::StatefulSet,
    batch::v1::Job,
    coordination::v1::Lease,
    core::v1::{Event, Node, Pod, Service},
    policy::v1::PodDisruptionBudget,
};
use kube::{
    Api, Client, ResourceExt,
    runtime::{
        reflector::{Store, store::WriterDropped},
        watcher,
    },
};

/// Looks into what was seen. Cheap to clone.
#[derive(Clone)]
pub struct World {
    /// All nodes.
    pub nodes: Store<Node>,
    /// Server and client pods of ours.
    pub pods: Store<Pod>,
    /// Jobs of ours, without their templates.
    pub jobs: Store<Job>,
    /// Leases of ours: turns.
    pub leases: Store<Lease>,
    /// Warnings about pods and those who make pods.
    pub warnings: Store<Event>,
    /// StatefulSets of ours.
    pub stateful_sets: Store<StatefulSet>,
    /// All Services: when one that was in the way has gone, the next pass makes ours.
    pub services: Store<Service>,
    /// All PodDisruptionBudgets: one in the way is told before a run needs its name.
    pub budgets: Store<PodDisruptionBudget>,
    /// Runs that have not ended and can be decoded. However many have ended, they cost nothing.
    pub runs: Store<BenchmarkRun>,
    /// Runs that have ended and are to be removed some time after.
    pub expiring: Store<FinishedRun>,
    /// All Datastores that can be decoded.
    pub datastores: Store<Datastore>,
    /// Suites that have not ended and can be decoded.
    pub suites: Store<BenchmarkSuite>,
    /// Suites that have ended and are to be removed some time after.
    pub expiring_suites: Store<FinishedSuite>,
}

/// The watches themselves, to subscribe to and then to run.
pub struct Feeds {
    /// See [`World::nodes`].
    pub nodes: Feed<Node>,
    /// See [`World::pods`].
    pub pods: Feed<Pod>,
    /// See [`World::jobs`].
    pub jobs: Feed<Job>,
    /// See [`World::leases`].
    pub leases: Feed<Lease>,
    /// See [`World::warnings`].
    pub warnings: Feed<Event>,
    /// See [`World::stateful_sets`].
    pub stateful_sets: Feed<StatefulSet>,
    /// See [`World::services`].
    pub services: Feed<Service>,
    /// See [`World::budgets`].
    pub budgets: Feed<PodDisruptionBudget>,
    /// See [`World::runs`]. A run's end is told as its deletion.
    pub runs: Feed<BenchmarkRun>,
    /// See [`World::expiring`].
    pub expiring: Feed<FinishedRun>,
    /// See [`World::datastores`].
    pub datastores: Feed<Datastore>,
    /// See [`World::suites`]. A suite's end is told as its deletion.
    pub suites: Feed<BenchmarkSuite>,
    /// See [`World::expiring_suites`].
    pub expiring_suites: Feed<FinishedSuite>,
}

fn keep_node(node: &mut Node) -> bool {
    if let Some(status) = &mut node.status {
        // A node lists all images it has: tens of kilobytes.
        status.images = None;
        status.volumes_attached = None;
        status.volumes_in_use = None;
    }
    node.metadata.annotations = None;
    true
}

fn keep_pod(pod: &mut Pod) -> bool {
    if let Some(spec) = &mut pod.spec {
        spec.volumes = None;
        for container in spec.containers.iter_mut().chain(spec.init_containers.iter_mut().flatten()) {
            // A runner's job is in its environment.
            container.env = None;
            container.args = None;
            container.volume_mounts = None;
        }
    }
    true
}

fn keep_job(job: &mut Job) -> bool {
    if let Some(spec) = &mut job.spec {
        spec.template.spec = None;
    }
    true
}

fn keep_warning(event: &mut Event) -> bool {
    matches!(event.involved_object.kind.as_deref(), Some("Pod" | "Job" | "StatefulSet"))
}

/// Of another's Service only whose it is stays in memory.
pub(crate) fn keep_service(service: &mut Service) -> bool {
    if !service.labels().contains_key(labels::DATASTORE) {
        (service.spec, service.status) = (None, None);
        (service.metadata.annotations, service.metadata.labels) = (None, None);
    }
    true
}

/// Of a PodDisruptionBudget only whose it is stays in memory.
fn keep_budget(budget: &mut PodDisruptionBudget) -> bool {
    (budget.spec, budget.status, budget.metadata.annotations) = (None, None, None);
    true
}

impl Feeds {
    /// Watches that begin with [`Feeds::run`], of all nodes and of the namespaces of `scope`.
    pub fn new(client: &Client, scope: &Scope, metrics: &Metrics) -> Self {
        let labelled = |selector: &str| watcher::Config::default().labels(selector);
        let with_fields = |selector: &str| watcher::Config::default().fields(selector);
        let (all, ours) =
            (watcher::Config::default(), labelled("app.kubernetes.io/managed-by=dragstrip-operator"));
        let component = format!("{} in ({},{})", labels::COMPONENT, labels::SERVER, labels::CLIENT);
        let under_way = with_fields("status.finishedAt=");
        let expiring = with_fields("status.finishedAt!=,spec.ttlAfterFinished!=");
        Self {
            nodes: Feed::new(Api::all(client.clone()), &all, keep_node),
            pods: Feed::new(scope.api(client), &labelled(&component), keep_pod),
            jobs: Feed::new(scope.api(client), &ours, keep_job),
            leases: Feed::new(scope.api(client), &ours, |_| true),
            warnings: Feed::new(scope.api(client), &with_fields("type=Warning"), keep_warning),
            stateful_sets: Feed::new(scope.api(client), &ours, |_| true),
            services: Feed::new(scope.api(client), &all, keep_service),
            budgets: Feed::new(scope.api(client), &all, keep_budget),
            runs: Feed::guarded(
                scope.api(client),
                under_way.clone(),
                Undecodable::new(client.clone(), metrics.clone()),
            ),
            expiring: Feed::new(scope.api(client), &expiring, FinishedRun::prune),
            datastores: Feed::guarded(
                scope.api(client),
                all,
                Undecodable::new(client.clone(), metrics.clone()),
            ),
            suites: Feed::guarded(
                scope.api(client),
                under_way,
                Undecodable::new(client.clone(), metrics.clone()),
            ),
            expiring_suites: Feed::new(scope.api(client), &expiring, FinishedSuite::prune),
        }
    }

    /// The stores that the watches fill.
    pub fn world(&self) -> World {
        World {
            nodes: self.nodes.store(),
            pods: self.pods.store(),
            jobs: self.jobs.store(),
            leases: self.leases.store(),
            warnings: self.warnings.store(),
            stateful_sets: self.stateful_sets.store(),
            services: self.services.store(),
            budgets: self.budgets.store(),
            runs: self.runs.store(),
            expiring: self.expiring.store(),
            datastores: self.datastores.store(),
            suites: self.suites.store(),
            expiring_suites: self.expiring_suites.store(),
        }
    }

    /// Watches for ever.
    pub async fn run(self) {
        // No `..`: a feed that nobody runs must not compile.
        let Self {
            nodes,
            pods,
            jobs,
            leases,
            warnings,
            stateful_sets,
            services,
            budgets,
            runs,
            expiring,
            datastores,
            suites,
            expiring_suites,
        } = self;
        tokio::join!(
            nodes.run(),
            pods.run(),
            jobs.run(),
            leases.run(),
            warnings.run(),
            stateful_sets.run(),
            services.run(),
            budgets.run(),
            runs.run(),
            expiring.run(),
            datastores.run(),
            suites.run(),
            expiring_suites.run(),
        );
    }
}

impl World {
    /// Waits until every kind was listed; an error where a watch ended before.
    pub async fn listed(&self) -> Result<(), WriterDropped> {
        let Self {
            nodes,
            pods,
            jobs,
            leases,
            warnings,
            stateful_sets,
            services,
            budgets,
            runs,
            expiring,
            datastores,
            suites,
            expiring_suites,
        } = self;
        tokio::try_join!(
            nodes.wait_until_ready(),
            pods.wait_until_ready(),
            jobs.wait_until_ready(),
            leases.wait_until_ready(),
            warnings.wait_until_ready(),
            stateful_sets.wait_until_ready(),
            services.wait_until_ready(),
            budgets.wait_until_ready(),
            runs.wait_until_ready(),
            expiring.wait_until_ready(),
            datastores.wait_until_ready(),
            suites.wait_until_ready(),
            expiring_suites.wait_until_ready(),
        )
        .map(drop)
    }
}
