//! Leases and the runs that hold them. Pure.

use crate::labels;
use dragstrip_crds::run::RunReference;
use k8s_openapi::api::coordination::v1::Lease;
use kube::ResourceExt;
use std::fmt;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseKey {
    pub namespace: String,
    pub name: String,
}

impl fmt::Display for LeaseKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

impl LeaseKey {
    /// The Lease of a Datastore, in its own namespace.
    pub fn of_datastore(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.to_owned(), name: format!("dragstrip-{name}") }
    }

    /// The Lease of a node, in the operator's namespace.
    pub fn of_node(operator_namespace: &str, node: &str) -> Self {
        Self { namespace: operator_namespace.to_owned(), name: format!("{NODE_PREFIX}{node}") }
    }

    pub fn of(lease: &Lease) -> Self {
        Self { namespace: lease.namespace().unwrap_or_default(), name: lease.name_any() }
    }

    /// The node that it reserves, if it is a node's.
    pub fn node(&self) -> Option<&str> {
        self.name.strip_prefix(NODE_PREFIX)
    }
}

/// How the names of nodes' Leases begin. The name of a Datastore's Lease has no dot.
const NODE_PREFIX: &str = "dragstrip-node.";

/// Name of the holder of a Lease that does not belong to a run.
pub const NO_RUN: &str = "(not a run)";

/// A run as the holder of a Lease, written `namespace/name/uid`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Holder {
    pub namespace: String,
    pub name: String,
    /// Its uid: a later run of the same name is another holder.
    pub uid: String,
}

impl Holder {
    /// Reads a Lease's holder identity; `None` if it is not a run.
    pub fn parse(identity: &str) -> Option<Self> {
        let mut parts = identity.splitn(3, '/').map(str::to_owned);
        Some(Self { namespace: parts.next()?, name: parts.next()?, uid: parts.next()? })
    }

    pub fn reference(&self) -> RunReference {
        RunReference { namespace: self.namespace.clone(), name: self.name.clone() }
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.namespace, self.name, self.uid)
    }
}

/// The run that holds `lease`, if a run does.
pub fn holder_of(lease: &Lease) -> Option<Holder> {
    Holder::parse(lease.spec.as_ref()?.holder_identity.as_ref()?)
}

/// Whether its holder has released `lease`, which is removed when nothing runs under it.
pub fn given_back(lease: &Lease) -> bool {
    lease.annotations().contains_key(labels::GIVEN_BACK)
}

/// Whether `holder` holds `lease` and has not released it.
pub fn is_held_by(lease: &Lease, holder: &Holder) -> bool {
    holder_of(lease).as_ref() == Some(holder) && !given_back(lease)
}
