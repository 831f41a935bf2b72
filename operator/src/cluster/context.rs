//! What every controller works with.

use super::{events::Announcer, overlay::Overlay, retry::Retries, settings::Settings, world::World};
use crate::metrics::counters::Metrics;
use dragstrip_agents::Agents;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Client;
use std::sync::Arc;

/// Shared by all reconciles of all controllers. Cheap to clone.
#[derive(Clone)]
pub struct Context {
    pub client: Client,
    pub announcer: Arc<Announcer>,
    pub settings: Arc<Settings>,
    /// Runners and observers, by pod address.
    pub agents: Agents,
    /// What the watches show of the cluster.
    pub world: World,
    /// Backoff of failing objects, by uid.
    pub retries: Arc<Retries>,
    /// This process's own writes.
    pub overlay: Arc<Overlay>,
    pub metrics: Metrics,
}

impl Context {
    /// All Leases of ours, as current as this process can see them.
    pub fn leases(&self) -> Vec<Arc<Lease>> {
        self.overlay.leases(self.world.leases.state())
    }
}
