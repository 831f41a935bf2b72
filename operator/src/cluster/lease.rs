//! Turns: a Lease per target and per server node, held by one run at a time.
//!
//! Guarantees: two runs never hold the same Lease, since taking is creating and
//! nobody takes over: a Lease that exists is held. The keeper of turns removes
//! it when its run has ended or is gone and the last client pod has stopped.

use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::MicroTime,
    jiff::Timestamp,
};
use kube::{
    Api, Client,
    api::{ObjectMeta, PostParams},
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

    /// `namespace/name`, for people.
    pub fn run(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
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
    /// Since when.
    pub since: Option<Timestamp>,
}

fn api(client: &Client, key: &LeaseKey) -> Api<Lease> {
    Api::namespaced(client.clone(), &key.namespace)
}

/// Looks at a Lease.
pub async fn find(client: &Client, key: &LeaseKey) -> kube::Result<Found> {
    let lease = api(client, key).get_opt(&key.name).await?;
    let since = lease.as_ref().and_then(|lease| Some(lease.spec.as_ref()?.acquire_time.as_ref()?.0));
    Ok(Found { key: key.clone(), holder: lease.as_ref().and_then(holder_of), since })
}

/// Takes a Lease by creating it; `false` when somebody else has it.
pub async fn take(client: &Client, key: &LeaseKey, holder: &Holder, now: Timestamp) -> kube::Result<bool> {
    let lease = Lease {
        metadata: ObjectMeta {
            name: Some(key.name.clone()),
            namespace: Some(key.namespace.clone()),
            labels: Some(crate::labels::common([(crate::labels::RUN, &holder.name)])),
            ..ObjectMeta::default()
        },
        spec: Some(LeaseSpec {
            holder_identity: Some(holder.to_string()),
            acquire_time: Some(MicroTime(now)),
            ..LeaseSpec::default()
        }),
    };
    match api(client, key).create(&PostParams::default(), &lease).await {
        Ok(_) => Ok(true),
        Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(false),
        Err(error) => Err(error),
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
