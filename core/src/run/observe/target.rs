//! The target of a run as it was found. Pure.

use super::identity::Identity;
use dragstrip_crds::{
    datastore::{SecretKeyReference, ServerProtocol},
    observed::ServerTruth,
};
use dragstrip_results::{
    protocol::{JobMember, JobTls},
    result::CpuSetRecord,
};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// A Datastore, wherever it is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct DatastoreKey {
    pub namespace: String,
    pub name: String,
}

/// How clients encrypt their connections, and the Secrets they need for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TargetTls {
    /// What the runner is told.
    pub job: JobTls,
    pub authority_secret: Option<String>,
    /// Secret with the clients' tls.crt and tls.key.
    pub client_secret: Option<String>,
}

/// A target that clients can be sent to.
#[derive(Debug, Clone, PartialEq)]
pub struct ReadyTarget {
    /// The Datastore's name, or the external address.
    pub name: String,
    /// Host name or IP address.
    pub host: String,
    pub port: u16,
    /// Whether it is a cluster.
    pub cluster: bool,
    /// Whether it is one server that says it is in cluster mode.
    pub emulated_cluster: bool,
    pub protocol: ServerProtocol,
    pub username: Option<String>,
    pub auth: Option<SecretKeyReference>,
    pub tls: Option<TargetTls>,
    /// What the server says of itself; absent for external targets, whose runner
    /// asks, and for those that cannot be asked.
    pub truth: Option<ServerTruth>,
    /// Every server, where there are several.
    pub members: Vec<JobMember>,
    /// Where the observers beside its servers listen; none of an external target.
    pub observers: Vec<SocketAddr>,
    /// What it is; absent for an outsider, of whom only its clients learn something.
    pub identity: Option<Identity>,
    /// Nodes it runs on, in a fixed order; empty where they are not known.
    pub nodes: Vec<String>,
    /// The Datastore that it is, however it is addressed; absent for an outsider.
    pub datastore: Option<DatastoreKey>,
    /// The CPUs that the server that was asked may run on.
    pub cpus: Option<CpuSetRecord>,
    /// Whether its server was asked, or cannot be.
    pub questioned: bool,
}

/// The target as it was found.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum TargetState {
    /// It was not looked at: an attempt is under way.
    #[default]
    NotConsulted,
    /// The Datastore named does not exist.
    Missing(String),
    /// The run's own Datastore is still to be made.
    ToBeMade,
    /// The run's own Datastore was made of another declaration than the run has now.
    Outdated,
    /// A Datastore that the run would have to make exists and belongs to somebody else.
    NameTaken(String),
    /// It exists and is not ready.
    NotReady {
        /// Whether it is the run's own.
        own: bool,
        reason: String,
        message: String,
    },
    /// The running server is not what was declared.
    Disagrees(String),
    /// It cannot serve what the phases ask of it.
    Unsuitable(String),
    Ready(Box<ReadyTarget>),
}
