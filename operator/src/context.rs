//! What both controllers are given: a client, a recorder of events, the images
//! to use, a way to talk to runners and observers, and metrics.

use crate::{
    cluster::{agents::Agents, events::Announcer, own_writes::OwnWrites, retry::Retries, world::World},
    metrics::Metrics,
    run::{Remembered, Unread},
    sinks::Sinks,
};
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
    /// Counters of the process.
    pub metrics: Metrics,
}
