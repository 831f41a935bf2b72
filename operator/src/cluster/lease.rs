//! Turns: one Lease for each target and for each node with servers or clients, held by one run at a
//! time. Needs the client.
//!
//! Guarantees: two runs never hold the same Lease. To acquire a Lease is to create it, and there is no
//! takeover: a Lease that exists is held. The cleanup of Leases removes it when its run has ended, is
//! gone or has released it, and the last client pod has stopped. A run acquires all its Leases or none.

use super::{
    apply::{delete, is_outdated},
    overlay::Overlay,
};
use dragstrip_core::{
    labels::{self, RUN_MANAGER},
    lease::{Holder, LeaseKey, is_held_by},
};
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::MicroTime,
    jiff::Timestamp,
};
use kube::{
    Api, Client, ResourceExt,
    api::{ObjectMeta, Patch, PatchParams, PostParams},
};

fn api(client: &Client, key: &LeaseKey) -> Api<Lease> {
    Api::namespaced(client.clone(), &key.namespace)
}

/// Reads a Lease; `None` if it does not exist and so is free.
pub async fn find(client: &Client, key: &LeaseKey) -> kube::Result<Option<Lease>> {
    api(client, key).get_opt(&key.name).await
}

/// Removes this Lease and no later one of its name. One that is gone is fine.
pub async fn remove(client: &Client, overlay: &Overlay, lease: &Lease) -> kube::Result<()> {
    delete(client, lease).await?;
    overlay.record_deleted_lease(lease);
    Ok(())
}

/// Acquires a Lease by creating it; `None` if it exists.
async fn acquire(
    client: &Client,
    overlay: &Overlay,
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
        Ok(lease) => {
            overlay.record_lease(lease.clone());
            Ok(Some(lease))
        }
        Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(None),
        Err(error) => Err(error),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Acquired {
    All,
    /// None: another run of this process is acquiring one of them, which the overlay now shows.
    Reserved,
    /// None: somebody else holds one, which the overlay now shows. Without our labels no watch shows it.
    Lost,
}

/// Acquires for `holder` all Leases of `keys`, or none: if somebody else holds one of them, those
/// acquired before are removed at once, since nothing has run under them.
pub async fn acquire_all(
    client: &Client,
    overlay: &Overlay,
    keys: &[LeaseKey],
    holder: &Holder,
    now: Timestamp,
) -> kube::Result<Acquired> {
    let Some(_reserved) = overlay.reserve(keys, holder) else { return Ok(Acquired::Reserved) };
    let mut acquired = Vec::new();
    for key in keys {
        let is_ours = match acquire(client, overlay, key, holder, now).await {
            Ok(Some(lease)) => {
                acquired.push(lease);
                Ok(true)
            }
            Ok(None) => find(client, key).await.map(|found| {
                // An earlier pass may have created it without receiving the response.
                let ours = found.as_ref().is_some_and(|lease| is_held_by(lease, holder));
                if let Some(lease) = found {
                    overlay.record_foreign_lease(lease);
                }
                ours
            }),
            Err(error) => Err(error),
        };
        if !matches!(is_ours, Ok(true)) {
            for lease in &acquired {
                remove(client, overlay, lease).await?;
            }
            return is_ours.map(|_| Acquired::Lost);
        }
    }
    Ok(Acquired::All)
}

/// Releases a Lease: the cleanup of Leases removes it. One that is gone is fine.
pub async fn release(client: &Client, overlay: &Overlay, lease: &Lease) -> kube::Result<()> {
    let patch = serde_json::json!({"metadata": {
        "uid": lease.uid(), "annotations": {labels::GIVEN_BACK: "true"},
    }});
    let parameters = PatchParams { field_manager: Some(RUN_MANAGER.to_owned()), ..PatchParams::default() };
    let leases = api(client, &LeaseKey::of(lease));
    match leases.patch(&lease.name_any(), &parameters, &Patch::Merge(&patch)).await {
        Err(error) if is_outdated(&error) => Ok(()),
        other => other.map(|lease| overlay.record_lease(lease)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{Method, Request, Response};
    use kube::client::Body;
    use serde_json::{Value, json};
    use std::{convert::Infallible, sync::Arc};

    fn holder(name: &str) -> Holder {
        Holder { namespace: "races".into(), name: name.into(), uid: "u-1".into() }
    }

    #[test]
    fn a_written_holder_can_be_read() {
        let written = holder("first").to_string();
        assert_eq!(written, "races/first/u-1");
        assert_eq!(Holder::parse(&written), Some(holder("first")));
        assert_eq!(Holder::parse("kube-scheduler"), None);
    }

    fn stored(name: &str, of: &Holder) -> Value {
        json!({
            "metadata": {"namespace": "pits", "name": name, "uid": format!("{name}-uid"), "resourceVersion": "7"},
            "spec": {"holderIdentity": of.to_string()}
        })
    }

    /// An API server where the Lease `target` is free and `node` is held by `owner`.
    async fn answer(request: Request<Body>, owner: Holder) -> Result<Response<Body>, Infallible> {
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        let sent = request.into_body().collect_bytes().await.unwrap();
        let sent: Value = serde_json::from_slice(&sent).unwrap_or_default();
        let name = path.rsplit('/').next().unwrap_or_default();
        let (code, body) = match method {
            Method::POST if sent["metadata"]["name"] == "target" => (201, stored("target", &holder("first"))),
            Method::POST => {
                (409, json!({"kind": "Status", "code": 409, "reason": "AlreadyExists", "message": ""}))
            }
            Method::GET => (200, stored(name, &owner)),
            _ => (200, json!({"kind": "Status", "code": 200, "status": "Success"})),
        };
        Ok(Response::builder().status(code).body(Body::from(body.to_string().into_bytes())).unwrap())
    }

    /// What the run `first` holds after it tried to acquire `target` and the `node` of `owner`, while
    /// the watch shows that it has the target.
    async fn held_after_acquiring_a_node_of(owner: &str) -> (Acquired, Vec<String>) {
        let owner = holder(owner);
        let service = tower::service_fn(move |request| answer(request, owner.clone()));
        let (client, overlay) = (Client::new(service, "pits"), Overlay::default());
        let keys = ["target", "node"].map(|name| LeaseKey { namespace: "pits".into(), name: name.into() });
        let got =
            acquire_all(&client, &overlay, &keys, &holder("first"), Timestamp::UNIX_EPOCH).await.unwrap();
        let watched: Lease = serde_json::from_value(stored("target", &holder("first"))).unwrap();
        let mut names: Vec<_> =
            overlay.leases(vec![Arc::new(watched)]).iter().map(|lease| lease.name_any()).collect();
        names.sort();
        (got, names)
    }

    #[tokio::test]
    async fn a_lease_removed_because_another_was_lost_is_not_held() {
        let (got, held) = held_after_acquiring_a_node_of("second").await;
        assert_eq!(got, Acquired::Lost);
        assert_eq!(held, ["node"], "a Job would be created under a Lease that somebody else may acquire");
    }

    #[tokio::test]
    async fn a_lease_that_no_watch_shows_is_in_the_overlay_once_it_was_lost() {
        let service = tower::service_fn(move |request| answer(request, holder("stranger")));
        let (client, overlay) = (Client::new(service, "pits"), Overlay::default());
        let keys = ["target", "node"].map(|name| LeaseKey { namespace: "pits".into(), name: name.into() });
        let first = holder("first");
        let acquire = || acquire_all(&client, &overlay, &keys, &first, Timestamp::UNIX_EPOCH);
        assert_eq!(acquire().await.unwrap(), Acquired::Lost);
        let present: Vec<_> = overlay.leases(vec![]).iter().map(|lease| lease.name_any()).collect();
        assert_eq!(present, ["node"], "the run would try the same Leases again at once");
        assert_eq!(acquire().await.unwrap(), Acquired::Reserved, "no request is sent");
    }

    #[tokio::test]
    async fn a_lease_whose_creation_was_never_answered_is_held() {
        let (got, held) = held_after_acquiring_a_node_of("first").await;
        assert_eq!(got, Acquired::All);
        assert_eq!(held, ["node", "target"], "the run would acquire another node too");
    }
}
