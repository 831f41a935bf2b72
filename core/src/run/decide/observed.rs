//! What a decision rests on. Pure.

use crate::{run::identity::Identity, trouble::Trouble};
use dragstrip_crds::{
    datastore::{SecretKeyReference, ServerProtocol},
    observed::ServerTruth,
    run::{FailureStatus, QueueStatus, SetbackStatus},
};
use dragstrip_results::{
    protocol::{JobMember, JobTls},
    result::{CpuSetRecord, PodFailure},
};
use jiff::Timestamp;
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

/// Whose turn it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Turn {
    Held,
    /// Nobody's.
    #[default]
    Free,
    Busy {
        /// Whose, and this run's place.
        queue: QueueStatus,
        /// Whether this run holds a part of what it needs.
        holds: bool,
    },
    /// This run gave it back, and what ran under it is not gone yet.
    Returning,
}

/// What is still there of a lost attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Remains {
    /// Whether its Job is there and is not being deleted.
    pub job: bool,
    /// From when on none of its pods sends load any more; `None` when only an event can tell.
    pub silent_from: Option<Timestamp>,
}

/// One attempt as it was found.
#[derive(Debug, Clone, PartialEq)]
pub enum AttemptState {
    /// Nothing exists for it that could load.
    Absent,
    /// Its Job is gone, and pods of it may still load.
    Left {
        /// From when on none of them does; `None` when only an event can tell.
        silent_from: Option<Timestamp>,
    },
    /// Its Job exists; not all pods are at the start line.
    Starting {
        trouble: Option<Trouble>,
        /// Since when, as far as anybody can tell.
        since: Timestamp,
    },
    /// All pods wait at the start line.
    AtStartLine { since: Timestamp },
    /// Its Job is of another spec than the run has now.
    Outdated,
    /// Its Job is being deleted.
    Leaving,
    /// The start line is fixed.
    Started {
        /// When it is or was.
        start: Timestamp,
        /// Whether a pod still has to be told.
        unsent: bool,
    },
    /// The Job, or every pod of it, has ended, or the Job is gone after load was started; its
    /// result is not stored.
    Ended,
    /// The result is stored; with what went wrong, if anything did.
    Stored(Option<PodFailure>),
    /// It is stored that a client was lost.
    Lost {
        failure: PodFailure,
        /// What must be gone before the repetition is measured again.
        remains: Remains,
    },
}

/// All that a decision rests on.
#[derive(Debug, Clone, PartialEq)]
pub struct Observed {
    pub target: TargetState,
    /// The turn; looked at only for a target that is ready.
    pub turn: Turn,
    /// Whether this run holds any Lease that it has not given back.
    pub holds: bool,
    /// When `timeout` is over; the clock stands while the run is queued.
    pub deadline: Timestamp,
    /// What made it give its turn back, until it is tried again.
    pub setback: Option<SetbackStatus>,
    /// The attempt whose servers' memory is still to be read after its settle time, and when
    /// that is due.
    pub settling: Option<(usize, Timestamp)>,
    /// How the server is another than it was when the first result was measured.
    pub server_changed: Option<String>,
    /// Which condition of where servers and clients are is to hold and does not.
    pub misplaced: Option<String>,
    /// Said of the target when a run that had begun fails: it was deleted.
    pub target_gone: Option<String>,
    /// Which measurement is of another spec than the run has now.
    pub spec_changed: Option<String>,
    /// The failure that has ended the run already, of which the status tells.
    pub ended: Option<FailureStatus>,
    /// What is wrong with stored results that cannot be read.
    pub damaged: Vec<String>,
    /// In the order of [`ValidatedRun::attempts`].
    pub attempts: Vec<AttemptState>,
}
