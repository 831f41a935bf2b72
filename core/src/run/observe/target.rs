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

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct DatastoreKey {
    pub namespace: String,
    pub name: String,
}

/// How clients encrypt their connections, and the Secrets they need for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TargetTls {
    pub job: JobTls,
    /// Secret with the authority that signed the server's certificate.
    pub authority_secret: Option<String>,
    /// Secret with the clients' tls.crt and tls.key.
    pub client_secret: Option<String>,
}

/// How clients reach the servers of a target. Stored as JSON with a run's Jobs and results: while the
/// run holds a Datastore its declaration may be edited, and its servers stay as they are.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Connection {
    pub port: u16,
    pub cluster: bool,
    /// Whether it is one server that says it is in cluster mode.
    pub emulated_cluster: bool,
    pub protocol: ServerProtocol,
    /// Where the password is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth: Option<SecretKeyReference>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<TargetTls>,
}

/// A target that clients can be sent to.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ReadyTarget {
    /// The Datastore's name, or the external address.
    pub name: String,
    /// Host name or IP address.
    pub host: String,
    pub connection: Connection,
    /// The user that clients log in as.
    pub username: Option<String>,
    /// What the server reports; absent if it is external, which the runner queries, or cannot be queried.
    pub truth: Option<ServerTruth>,
    /// Every server, if there are several.
    pub members: Vec<JobMember>,
    /// Where the observers beside its servers listen; none for an external target.
    pub observers: Vec<SocketAddr>,
    /// What it is; absent for an external server, which only its clients see.
    pub identity: Option<Identity>,
    /// Nodes it runs on, in a fixed order; empty if unknown.
    pub nodes: Vec<String>,
    /// The Datastore that it is, whatever its address; absent for an external server.
    pub datastore: Option<DatastoreKey>,
    pub cpus: Option<CpuSetRecord>,
    /// Whether its server was queried, or cannot be.
    pub questioned: bool,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub enum TargetState {
    /// It was not observed: an attempt is under way.
    #[default]
    NotConsulted,
    /// The Datastore named does not exist.
    Missing(String),
    /// The run's own Datastore does not exist yet.
    ToBeMade,
    /// The run's own Datastore has another declaration than the run has now.
    Outdated,
    /// A Datastore with the name of the run's own exists and is not the run's.
    NameTaken(String),
    NotReady {
        own: bool,
        reason: String,
        message: String,
    },
    /// The running server is not what was declared.
    Disagrees(String),
    /// It cannot serve what the phases send.
    Unsuitable(String),
    Ready(Box<ReadyTarget>),
}
