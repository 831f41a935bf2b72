//! How clients reach the servers of a Datastore, kept from a run's first Job on: while the run
//! holds it the Datastore may be edited, and its servers stay as they are. Pure.

use super::target::{ReadyTarget, TargetTls};
use dragstrip_crds::datastore::{SecretKeyReference, ServerProtocol};
use serde::{Deserialize, Serialize};

/// StoredResult with each Job and its result, as JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Connection {
    port: u16,
    cluster: bool,
    emulated_cluster: bool,
    protocol: ServerProtocol,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    auth: Option<SecretKeyReference>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tls: Option<TargetTls>,
}

impl Connection {
    /// How clients reach `target`; nothing is kept of an address, which the run itself declares.
    pub fn of(target: &ReadyTarget, external: bool) -> Option<Self> {
        (!external).then(|| Self {
            port: target.port,
            cluster: target.cluster,
            emulated_cluster: target.emulated_cluster,
            protocol: target.protocol,
            auth: target.auth.clone(),
            tls: target.tls.clone(),
        })
    }

    /// `target` reached in this way.
    pub fn to(&self, target: ReadyTarget) -> ReadyTarget {
        ReadyTarget {
            port: self.port,
            cluster: self.cluster,
            emulated_cluster: self.emulated_cluster,
            protocol: self.protocol,
            auth: self.auth.clone(),
            tls: self.tls.clone(),
            questioned: self.protocol == ServerProtocol::Tcp,
            ..target
        }
    }
}
