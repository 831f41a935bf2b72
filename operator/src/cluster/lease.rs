//! Turns: a Lease per target and per node that is used, by servers or by clients,
//! held by one run at a time.
//!
//! Guarantees: two runs never hold the same Lease, since taking is creating and
//! nobody takes over: a Lease that exists is held. The keeper of turns removes it
//! when its run has ended, is gone or has given it back, and the last client pod
//! has stopped. Several are taken all or none.

use super::{apply::delete, overlay::Overlay};
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

/// Looks at a Lease; `None` when it does not exist and so is free.
pub async fn find(client: &Client, key: &LeaseKey) -> kube::Result<Option<Lease>> {
    api(client, key).get_opt(&key.name).await
}

/// Removes this very Lease. One that is gone is fine.
pub async fn remove(client: &Client, overlay: &Overlay, lease: &Lease) -> kube::Result<()> {
    delete(client, lease).await?;
    overlay.record_deleted_lease(lease);
    Ok(())
}

/// Takes a Lease by creating it; `None` when it exists.
async fn take(
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

/// What became of Leases that were to be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    /// All are held.
    All,
    /// None: another run of this process is taking one of them, which a look now tells.
    Reserved,
    /// None: somebody else has one of them, which a look now tells, though no watch may: one
    /// without our labels is a Lease like any other.
    Lost,
}

/// Takes all of `keys` that `holder` does not have, or none: what was taken before
/// one of them turned out to be somebody else's is let go at once, since nothing
/// has run under it.
pub async fn take_all(
    client: &Client,
    overlay: &Overlay,
    keys: &[LeaseKey],
    holder: &Holder,
    now: Timestamp,
) -> kube::Result<Taken> {
    let Some(_reserved) = overlay.reserve(keys, holder) else { return Ok(Taken::Reserved) };
    let mut taken = Vec::new();
    for key in keys {
        let got = match take(client, overlay, key, holder, now).await {
            Ok(Some(lease)) => {
                taken.push(lease);
                Ok(true)
            }
            Ok(None) => find(client, key).await.map(|found| {
                // Taken before, and the answer was lost.
                let ours = found.as_ref().is_some_and(|lease| is_held_by(lease, holder));
                if let Some(lease) = found {
                    overlay.record_foreign_lease(lease);
                }
                ours
            }),
            Err(error) => Err(error),
        };
        if !matches!(got, Ok(true)) {
            for lease in &taken {
                remove(client, overlay, lease).await?;
            }
            return got.map(|_| Taken::Lost);
        }
    }
    Ok(Taken::All)
}

/// Gives a Lease back. One that is gone is fine.
pub async fn give_back(client: &Client, overlay: &Overlay, lease: &Lease) -> kube::Result<()> {
    let patch = serde_json::json!({"metadata": {
        "uid": lease.uid(), "annotations": {labels::GIVEN_BACK: "true"},
    }});
    let parameters = PatchParams { field_manager: Some(RUN_MANAGER.to_owned()), ..PatchParams::default() };
    let leases = api(client, &LeaseKey::of(lease));
    match leases.patch(&lease.name_any(), &parameters, &Patch::Merge(&patch)).await {
        Err(kube::Error::Api(status)) if status.is_not_found() || status.is_conflict() => Ok(()),
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
    fn a_holder_reads_back_what_it_wrote() {
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

    /// An apiserver where the Lease `target` is free and `node` is held by `owner`.
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

    /// What the run `first` holds after it tried to take `target` and the `node` of `owner`, while
    /// the watch tells that it has the target.
    async fn held_after_taking_a_node_of(owner: &str) -> (Taken, Vec<String>) {
        let owner = holder(owner);
        let service = tower::service_fn(move |request| answer(request, owner.clone()));
        let (client, overlay) = (Client::new(service, "pits"), Overlay::default());
        let keys = ["target", "node"].map(|name| LeaseKey { namespace: "pits".into(), name: name.into() });
        let got = take_all(&client, &overlay, &keys, &holder("first"), Timestamp::UNIX_EPOCH).await.unwrap();
        let told: Lease = serde_json::from_value(stored("target", &holder("first"))).unwrap();
        let mut names: Vec<_> =
            overlay.leases(vec![Arc::new(told)]).iter().map(|lease| lease.name_any()).collect();
        names.sort();
        (got, names)
    }

    #[tokio::test]
    async fn a_turn_that_was_let_go_for_want_of_its_other_part_is_not_taken_for_held() {
        let (got, held) = held_after_taking_a_node_of("second").await;
        assert_eq!(got, Taken::Lost);
        assert_eq!(held, ["node"], "a Job would be made under a Lease that somebody else may take");
    }

    #[tokio::test]
    async fn a_lease_that_no_watch_tells_is_known_once_it_was_in_the_way() {
        let service = tower::service_fn(move |request| answer(request, holder("stranger")));
        let (client, overlay) = (Client::new(service, "pits"), Overlay::default());
        let keys = ["target", "node"].map(|name| LeaseKey { namespace: "pits".into(), name: name.into() });
        let first = holder("first");
        let take = || take_all(&client, &overlay, &keys, &first, Timestamp::UNIX_EPOCH);
        assert_eq!(take().await.unwrap(), Taken::Lost);
        let known: Vec<_> = overlay.leases(vec![]).iter().map(|lease| lease.name_any()).collect();
        assert_eq!(known, ["node"], "the turn would look free, be tried and be lost again at once");
        assert_eq!(take().await.unwrap(), Taken::Reserved, "nothing is asked for it");
    }

    #[tokio::test]
    async fn a_lease_whose_taking_was_never_answered_is_held() {
        let (got, held) = held_after_taking_a_node_of("first").await;
        assert_eq!(got, Taken::All);
        assert_eq!(held, ["node", "target"], "another node would be taken beside it");
    }
}
