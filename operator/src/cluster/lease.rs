//! Turns: a Lease per target and per server node, held by one run at a time.
//!
//! Guarantees: two runs never hold the same Lease, since every take is a create
//! or an update that carries the resource version it was decided on. A Lease of
//! a run that has ended or is gone counts as free.

use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::MicroTime,
    jiff::Timestamp,
};
use kube::{
    Api, Client, ResourceExt,
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
        Some(Self {
            namespace: parts.next()?,
            name: parts.next()?,
            uid: parts.next()?,
        })
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

/// A Lease as it was found.
#[derive(Debug, Clone)]
pub struct Found {
    /// Which one.
    pub key: LeaseKey,
    /// The object, if there is one.
    pub lease: Option<Lease>,
}

impl Found {
    /// Who holds it.
    pub fn holder(&self) -> Option<Holder> {
        Holder::parse(self.lease.as_ref()?.spec.as_ref()?.holder_identity.as_ref()?)
    }

    /// Since when.
    pub fn since(&self) -> Option<Timestamp> {
        Some(self.lease.as_ref()?.spec.as_ref()?.acquire_time.as_ref()?.0)
    }
}

fn api(client: &Client, key: &LeaseKey) -> Api<Lease> {
    Api::namespaced(client.clone(), &key.namespace)
}

/// Looks at a Lease.
pub async fn find(client: &Client, key: &LeaseKey) -> kube::Result<Found> {
    Ok(Found {
        key: key.clone(),
        lease: api(client, key).get_opt(&key.name).await?,
    })
}

/// The Lease as it is when `holder` takes it at `now`.
fn taken(found: &Found, holder: &Holder, now: Timestamp) -> Lease {
    let old = found.lease.clone().unwrap_or_default();
    Lease {
        metadata: ObjectMeta {
            name: Some(found.key.name.clone()),
            namespace: Some(found.key.namespace.clone()),
            resource_version: old.resource_version(),
            labels: Some(crate::labels::common([(crate::labels::RUN, &holder.name)])),
            ..ObjectMeta::default()
        },
        spec: Some(LeaseSpec {
            holder_identity: Some(holder.to_string()),
            acquire_time: Some(MicroTime(now)),
            lease_transitions: Some(old.spec.and_then(|s| s.lease_transitions).unwrap_or(0) + 1),
            ..LeaseSpec::default()
        }),
    }
}

/// Takes a Lease that was found free; `false` when somebody else was quicker.
pub async fn take(client: &Client, found: &Found, holder: &Holder, now: Timestamp) -> kube::Result<bool> {
    let lease = taken(found, holder, now);
    let api = api(client, &found.key);
    let written = match found.lease {
        None => api.create(&PostParams::default(), &lease).await,
        Some(_) => api.replace(&found.key.name, &PostParams::default(), &lease).await,
    };
    match written {
        Ok(_) => Ok(true),
        Err(kube::Error::Api(status))
            if status.is_conflict() || status.is_already_exists() || status.is_not_found() =>
        {
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

/// Gives a Lease back, if `holder` still has it.
pub async fn release(client: &Client, key: &LeaseKey, holder: &Holder) -> kube::Result<()> {
    let found = find(client, key).await?;
    match (&found.lease, found.holder()) {
        (Some(lease), Some(current)) if current == *holder => {
            crate::cluster::apply::delete(client, lease).await
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holder(name: &str) -> Holder {
        Holder {
            namespace: "races".into(),
            name: name.into(),
            uid: "u-1".into(),
        }
    }

    #[test]
    fn a_holder_reads_back_what_it_wrote() {
        let written = holder("first").to_string();
        assert_eq!(written, "races/first/u-1");
        assert_eq!(Holder::parse(&written), Some(holder("first")));
        assert_eq!(Holder::parse("kube-scheduler"), None);
    }

    #[test]
    fn taking_over_carries_the_resource_version_it_was_decided_on() {
        let key = LeaseKey {
            namespace: "races".into(),
            name: "dragstrip-redis".into(),
        };
        let mut first = taken(
            &Found {
                key: key.clone(),
                lease: None,
            },
            &holder("first"),
            Timestamp::UNIX_EPOCH,
        );
        assert_eq!(
            first.resource_version(),
            None,
            "a new Lease is created, not updated"
        );
        first.metadata.resource_version = Some("42".into());
        let second = taken(
            &Found {
                key,
                lease: Some(first),
            },
            &holder("second"),
            Timestamp::UNIX_EPOCH,
        );
        assert_eq!(second.resource_version().as_deref(), Some("42"));
        assert_eq!(second.spec.unwrap().lease_transitions, Some(2));
    }
}
