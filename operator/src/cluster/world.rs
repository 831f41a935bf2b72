//! The objects of the cluster that the operator reads: one watch of each kind for the whole process,
//! pruned to the fields in use. Needs the client.

use super::{
    feed::Feed,
    finished::{FinishedRun, FinishedSuite},
    scope::Scope,
};
use crate::metrics::counters::Metrics;
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

/// Declares the watch of each kind in [`Feeds`], its store in [`World`], and what both do for every kind.
macro_rules! watches {
    ($($(#[$doc:meta])* $name:ident: $kind:ty,)*) => {
        /// The objects that the watches have reported. Cheap to clone.
        #[derive(Clone)]
        pub struct World {
            $($(#[$doc])* pub $name: Store<$kind>,)*
        }

        /// The watches, to subscribe to and then to run.
        pub struct Feeds {
            $($(#[$doc])* pub $name: Feed<$kind>,)*
        }

        impl Feeds {
            /// The stores that the watches fill.
            pub fn world(&self) -> World {
                World { $($name: self.$name.store(),)* }
            }

            /// Watches forever.
            pub async fn run(self) {
                tokio::join!($(self.$name.run()),*);
            }
        }

        impl World {
            /// Waits until every kind is listed; an error if a watch ends before.
            pub async fn listed(&self) -> Result<(), WriterDropped> {
                tokio::try_join!($(self.$name.wait_until_ready()),*).map(drop)
            }
        }
    };
}

watches! {
    /// All nodes.
    nodes: Node,
    /// The pods of our servers and clients.
    pods: Pod,
    /// Our Jobs, without their templates.
    jobs: Job,
    /// Our Leases.
    leases: Lease,
    /// Warnings about pods, Jobs and StatefulSets.
    warnings: Event,
    /// Our StatefulSets.
    stateful_sets: StatefulSet,
    /// All Services: when a foreign one with a name that we need is deleted, the next pass creates ours.
    services: Service,
    /// All PodDisruptionBudgets: a foreign one is reported before a run needs its name.
    budgets: PodDisruptionBudget,
    /// Runs that have not ended and can be decoded. However many runs have ended, they cost nothing: the
    /// watch reports the end of a run as its deletion.
    runs: BenchmarkRun,
    /// Runs that have ended and will expire.
    expiring: FinishedRun,
    /// All Datastores that can be decoded.
    datastores: Datastore,
    /// Suites that have not ended and can be decoded. The watch reports the end of a suite as its deletion.
    suites: BenchmarkSuite,
    /// Suites that have ended and will expire.
    expiring_suites: FinishedSuite,
}

fn prune_node(node: &mut Node) -> bool {
    if let Some(status) = &mut node.status {
        // A node lists all its images: tens of kilobytes.
        status.images = None;
        status.volumes_attached = None;
        status.volumes_in_use = None;
    }
    node.metadata.annotations = None;
    true
}

fn prune_pod(pod: &mut Pod) -> bool {
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

fn prune_job(job: &mut Job) -> bool {
    if let Some(spec) = &mut job.spec {
        spec.template.spec = None;
    }
    true
}

/// Whether `event` is about a pod or an object that creates pods.
fn is_about_pods(event: &mut Event) -> bool {
    matches!(event.involved_object.kind.as_deref(), Some("Pod" | "Job" | "StatefulSet"))
}

/// Removes from a foreign Service everything but its name and owner.
pub(crate) fn prune_service(service: &mut Service) -> bool {
    if !service.labels().contains_key(labels::DATASTORE) {
        (service.spec, service.status) = (None, None);
        (service.metadata.annotations, service.metadata.labels) = (None, None);
    }
    true
}

/// Removes from a PodDisruptionBudget everything but its name and owner.
fn prune_budget(budget: &mut PodDisruptionBudget) -> bool {
    (budget.spec, budget.status, budget.metadata.annotations) = (None, None, None);
    true
}

impl Feeds {
    /// Watches of all nodes, and of the namespaces of `scope`. They begin with [`Feeds::run`].
    pub fn new(client: &Client, scope: &Scope, metrics: &Metrics) -> Self {
        let labelled = |selector: &str| watcher::Config::default().labels(selector);
        let with_fields = |selector: &str| watcher::Config::default().fields(selector);
        let (all, ours) =
            (watcher::Config::default(), labelled("app.kubernetes.io/managed-by=dragstrip-operator"));
        let component = format!("{} in ({},{})", labels::COMPONENT, labels::SERVER, labels::CLIENT);
        let active = with_fields("status.finishedAt=");
        let expiring = with_fields("status.finishedAt!=,spec.ttlAfterFinished!=");
        Self {
            nodes: Feed::new(Api::all(client.clone()), &all, prune_node),
            pods: Feed::new(scope.api(client), &labelled(&component), prune_pod),
            jobs: Feed::new(scope.api(client), &ours, prune_job),
            leases: Feed::new(scope.api(client), &ours, |_| true),
            warnings: Feed::new(scope.api(client), &with_fields("type=Warning"), is_about_pods),
            stateful_sets: Feed::new(scope.api(client), &ours, |_| true),
            services: Feed::new(scope.api(client), &all, prune_service),
            budgets: Feed::new(scope.api(client), &all, prune_budget),
            runs: Feed::guarded(client, scope, active.clone(), metrics),
            expiring: Feed::new(scope.api(client), &expiring, FinishedRun::prune),
            datastores: Feed::guarded(client, scope, all, metrics),
            suites: Feed::guarded(client, scope, active, metrics),
            expiring_suites: Feed::new(scope.api(client), &expiring, FinishedSuite::prune),
        }
    }
}
