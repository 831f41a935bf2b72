//! What both controllers are given: a client, a recorder of events, the images
//! to use, a way to talk to runners and observers, and metrics.

use crate::{
    cluster::{
        agents::Agents, events::Announcer, metadata::Known, own_writes::OwnWrites, retry::Retries,
        world::World,
    },
    metrics::{Metrics, Prices},
    run::{Remembered, Unread},
    sinks::Sinks,
};
use dragstrip_results::protocol::LONGEST_LINGER_SECONDS;
use kube::Client;
use std::sync::Arc;

/// Images and names the operator was started with.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Image with `dragstrip-runner`, `dragstrip-loadgen` and `dragstrip-clients`.
    pub runner_image: String,
    /// Image with `memtier_benchmark`, where a phase names none.
    pub memtier_image: String,
    /// Image with `dragstrip-bullmq`, where a phase names none.
    pub bullmq_image: String,
    /// Namespace of the operator: the Leases of nodes are kept there.
    pub namespace: String,
    /// How often Prometheus scrapes client pods, in seconds; 0 where it does not.
    pub scrape_interval_seconds: f64,
    /// Where nodes have the cloud's metadata service, which is asked of their placement
    /// groups; absent where it is not to be asked.
    pub metadata_service: Option<String>,
}

impl Settings {
    /// How long a client stays for the scrape after its end: two intervals, for the one
    /// that is due may fail, and never so long that it would count as lost.
    pub fn linger_seconds(&self) -> f64 {
        (self.scrape_interval_seconds * 2.0).clamp(0.0, LONGEST_LINGER_SECONDS)
    }
}

/// Shared by all reconciles.
#[derive(Clone)]
pub struct Context {
    /// The apiserver.
    pub client: Client,
    /// Publishes events.
    pub announcer: Arc<Announcer>,
    /// Start-up settings.
    pub settings: Arc<Settings>,
    /// Runners and observers, by pod address.
    pub agents: Agents,
    /// What was seen of the cluster.
    pub world: World,
    /// Logs of client pods that cannot be read just now.
    pub unread: Arc<Unread>,
    /// Objects that something is wrong with, by uid.
    pub retries: Arc<Retries>,
    /// What was written last of each run.
    pub own_writes: Arc<OwnWrites>,
    /// What is known of stored results.
    pub remembered: Arc<Remembered>,
    /// Who else is told of results.
    pub sinks: Arc<Sinks>,
    /// What the cloud's metadata service said of nodes.
    pub metadata: Arc<Known>,
    /// What is known of instance types.
    pub prices: Arc<Prices>,
    /// Counters of the process.
    pub metrics: Metrics,
}
