//! Turns: a Lease per target and per node that is used, by servers or by clients,
//! held by one run at a time.
//!
//! Guarantees: two runs never hold the same Lease, since taking is creating and
//! nobody takes over: a Lease that exists is held. The keeper of turns removes it
//! when its run has ended, is gone or has given it back, and the last client pod
//! has stopped. Several are taken all or none.

use super::apply::delete;
use crate::labels::{self, RUN_MANAGER};
use dragstrip_crds::run::RunReference;
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::MicroTime,
    jiff::Timestamp,
};
use kube::{
    Api, Client, ResourceExt,
    api::{ObjectMeta, Patch, PatchParams, PostParams},
};
use std::fmt;

/// Where a Lease is and what it is called.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseKey {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
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

    /// The Lease's own key.
    pub fn of(lease: &Lease) -> Self {
        Self { namespace: lease.namespace().unwrap_or_default(), name: lease.name_any() }
    }

    /// The node it stands for, if it stands for one.
    pub fn node(&self) -> Option<&str> {
        self.name.strip_prefix(NODE_PREFIX)
    }
}

/// How the names of nodes' Leases begin. No Datastore's does: its name has no dot.
const NODE_PREFIX: &str = "dragstrip-node.";

/// A run as the holder of a Lease, written `namespace/name/uid`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Holder {
    /// Namespace of the run.
    pub namespace: String,
    /// Name of the run.
    pub name: String,
    /// Its uid: a later run of the same name is another holder.
    pub uid: String,
}

impl Holder {
    /// Reads a Lease's holder identity; `None` when it is nobody of ours.
    pub fn parse(identity: &str) -> Option<Self> {
        let mut parts = identity.splitn(3, '/').map(str::to_owned);
        Some(Self { namespace: parts.next()?, name: parts.next()?, uid: parts.next()? })
    }

    /// The run, for people.
    pub fn reference(&self) -> RunReference {
        RunReference { namespace: self.namespace.clone(), name: self.name.clone() }
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.namespace, self.name, self.uid)
    }
}

/// Who holds `lease`; `None` when it is nobody of ours.
pub fn holder_of(lease: &Lease) -> Option<Holder> {
    Holder::parse(lease.spec.as_ref()?.holder_identity.as_ref()?)
}

/// A Lease as it was found.
#[derive(Debug, Clone)]
pub struct Found {
    /// Which one.
    pub key: LeaseKey,
    /// Who holds it; `None` when it does not exist and so is free.
    pub holder: Option<Holder>,
}

fn api(client: &Client, key: &LeaseKey) -> Api<Lease> {
    Api::namespaced(client.clone(), &key.namespace)
}

/// Looks at a Lease.
pub async fn find(client: &Client, key: &LeaseKey) -> kube::Result<Found> {
    let lease = api(client, key).get_opt(&key.name).await?;
    Ok(Found { key: key.clone(), holder: lease.as_ref().and_then(holder_of) })
}

/// Takes a Lease by creating it; `None` when it exists.
async fn take(
    client: &Client,
    key: &LeaseKey,
    holder: &Holder,
    now: Timestamp,
) -> kube::Result<Option<Lease>> {
    let lease = Lease {
        metadata: ObjectMeta {
            name: Some(key.name.clone()),
            namespace: Some(key.namespace.clone()),
            labels: Some(labels::common([(labels::RUN, &holder.name), (labels::RUN_UID, &holder.uid)])),
            ..ObjectMeta::default()
        },
        spec: Some(LeaseSpec {
            holder_identity: Some(holder.to_string()),
            acquire_time: Some(MicroTime(now)),
            ..LeaseSpec::default()
        }),
    };
    match api(client, key).create(&PostParams::default(), &lease).await {
        Ok(lease) => Ok(Some(lease)),
        Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Takes all of `keys` that `holder` does not have, or none: what was taken before
/// one of them turned out to be somebody else's is let go at once, since nothing
/// has run under it. `false` when they are not all held in the end.
pub async fn take_all(
    client: &Client,
    keys: &[LeaseKey],
    holder: &Holder,
    now: Timestamp,
) -> kube::Result<bool> {
    let mut taken = Vec::new();
    for key in keys {
        let got = match take(client, key, holder, now).await {
            Ok(Some(lease)) => {
                taken.push(lease);
                Ok(true)
            }
            // An earlier pass took it, which the watch has not told yet.
            Ok(None) => find(client, key).await.map(|found| found.holder.as_ref() == Some(holder)),
            Err(error) => Err(error),
        };
        if !matches!(got, Ok(true)) {
            for lease in &taken {
                delete(client, lease).await?;
            }
            return got;
        }
    }
    Ok(true)
}

/// Whether the run that holds `lease` has given it back: the keeper of turns
/// removes it when nothing runs under it any more.
pub fn given_back(lease: &Lease) -> bool {
    lease.annotations().contains_key(labels::GIVEN_BACK)
}

/// Gives a Lease back. One that is gone is fine.
pub async fn give_back(client: &Client, lease: &Lease) -> kube::Result<()> {
    let patch = serde_json::json!({"metadata": {
        "uid": lease.uid(), "annotations": {labels::GIVEN_BACK: "true"},
    }});
    let parameters = PatchParams { field_manager: Some(RUN_MANAGER.to_owned()), ..PatchParams::default() };
    let leases = api(client, &LeaseKey::of(lease));
    match leases.patch(&lease.name_any(), &parameters, &Patch::Merge(&patch)).await {
        Err(kube::Error::Api(status)) if status.is_not_found() || status.is_conflict() => Ok(()),
        other => other.map(|_| ()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holder(name: &str) -> Holder {
        Holder { namespace: "races".into(), name: name.into(), uid: "u-1".into() }
    }

    #[test]
    fn a_holder_reads_back_what_it_wrote() {
        let written = holder("first").to_string();
        assert_eq!(written, "races/first/u-1");
        assert_eq!(Holder::parse(&written), Some(holder("first")));
        assert_eq!(Holder::parse("kube-scheduler"), None);
    }
}
