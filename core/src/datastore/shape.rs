//! Which pods and servers a Datastore has, and how they are joined. Pure.

use dragstrip_crds::{
    DatastoreSpec,
    datastore::{ClusterSpec, ShardPlacement},
};
use dragstrip_results::protocol::TopologyCommand;
use std::net::SocketAddr;

/// How many servers there are, and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// One server in one pod.
    Single,
    /// The shards of a cluster and then all their replicas, in one pod on ports one after the other.
    ClusterInOnePod(Servers),
    /// The same, each in a pod of its own.
    ClusterSpread(Servers),
    /// A primary, in the pod with index 0, and its replicas.
    Replicated(u16),
    /// Members of a custom server, which find each other.
    Members(u16),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Servers {
    /// Those that serve slots.
    pub shards: u16,
    /// Those and their replicas.
    pub all: u16,
}

impl Servers {
    fn of(cluster: &ClusterSpec) -> Self {
        let shards = count(cluster.shards);
        Self { shards, all: shards.saturating_mul(count(cluster.replicas).saturating_add(1)) }
    }
}

/// The schema admits numbers from 0 to 64.
fn count(number: i32) -> u16 {
    u16::try_from(number).unwrap_or(0)
}

impl Shape {
    pub fn of(spec: &DatastoreSpec) -> Self {
        match (&spec.cluster, &spec.custom) {
            (Some(cluster), _) if cluster.placement == ShardPlacement::OneNode => {
                Self::ClusterInOnePod(Servers::of(cluster))
            }
            (Some(cluster), _) => Self::ClusterSpread(Servers::of(cluster)),
            (None, Some(custom)) => Self::Members(count(custom.members)),
            (None, None) if spec.replicas > 0 => Self::Replicated(count(spec.replicas)),
            (None, None) => Self::Single,
        }
    }

    pub fn pods(self) -> u16 {
        match self {
            Self::Single | Self::ClusterInOnePod(_) => 1,
            Self::ClusterSpread(servers) => servers.all,
            Self::Replicated(replicas) => replicas.saturating_add(1),
            Self::Members(members) => members,
        }
    }

    /// How many servers each pod runs: one at least, whatever an object says that no schema has checked.
    pub fn servers_per_pod(self) -> u16 {
        match self {
            Self::ClusterInOnePod(servers) => servers.all.max(1),
            _ => 1,
        }
    }

    pub fn servers(self) -> u16 {
        self.pods() * self.servers_per_pod()
    }

    pub fn ports(self, spec: &DatastoreSpec) -> impl Iterator<Item = u16> + use<> {
        let first = u16::try_from(spec.port).unwrap_or(0);
        (0..self.servers_per_pod()).map(move |index| first.saturating_add(index))
    }

    /// The command that joins the servers at these addresses, if they need one.
    pub fn command(self, mut addresses: Vec<SocketAddr>) -> Option<TopologyCommand> {
        match self {
            Self::Single | Self::Members(_) => None,
            Self::ClusterInOnePod(servers) | Self::ClusterSpread(servers) => {
                let replicas = addresses.split_off(usize::from(servers.shards).min(addresses.len()));
                Some(TopologyCommand::Cluster { members: addresses, replicas })
            }
            Self::Replicated(_) => {
                let (primary, replicas) = addresses.split_first()?;
                Some(TopologyCommand::Replication { primary: *primary, replicas: replicas.to_vec() })
            }
        }
    }
}

/// The domain of a Datastore's Service: clients connect to it, certificates are
/// valid for it, and every pod is POD.DOMAIN. Without the cluster's own domain,
/// which the pods' resolvers put in.
pub fn service_domain(name: &str, namespace: &str) -> String {
    format!("{name}.{namespace}.svc")
}
