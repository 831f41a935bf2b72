//! Makes the objects of a Datastore. Needs the client.
//!
//! What is not there is created; what is ours is replaced, if it is still what was
//! looked at; what is not ours is left alone.

use super::{
    build::{self, Resources},
    fetch::Fetched,
    plan::{Change, NotOurs, change, corrected, ours, replacement},
    status::BEING_REMOVED,
};
use crate::{
    cluster::{
        apply::{delete, namespace_ends},
        lease,
    },
    context::Context,
};
use dragstrip_core::{
    datastore::validate::ValidatedDatastore,
    labels::{self, DATASTORE_MANAGER},
    lease::{Holder, LeaseKey, holder_of},
};
use dragstrip_crds::{
    Datastore, DatastoreStatus,
    conditions::{Finding, types::READY},
};
use k8s_openapi::api::{apps::v1::StatefulSet, core::v1::Service};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{Patch, PatchParams, PostParams},
    core::NamespaceResourceScope,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use std::{fmt::Debug, sync::Arc};

/// A step of applying that failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    NotOurs(#[from] NotOurs),
    #[error("failed to read Lease {1}")]
    Lease(#[source] kube::Error, LeaseKey),
    #[error("failed to write the {1}")]
    Write(#[source] kube::Error, &'static str),
}

impl Error {
    /// What the Datastore's status says of it; `None` where trying again may help.
    pub fn finding(&self) -> Option<Finding> {
        match self {
            Self::NotOurs(reported @ NotOurs::Taken(..)) => {
                Some(Finding::no(READY, "NameTaken", reported.to_string()))
            }
            Self::NotOurs(reported) => Some(Finding::no(READY, BEING_REMOVED, reported.to_string())),
            Self::Write(error @ kube::Error::Api(status), kind)
                if matches!(status.code, 400 | 403 | 422) && !namespace_ends(error) =>
            {
                let message = format!("the apiserver refuses the {kind}: {}", status.message);
                Some(Finding::no(READY, "Refused", message))
            }
            Self::Write(..) | Self::Lease(..) => None,
        }
    }
}

/// What became of the objects.
#[derive(Debug)]
pub enum Applied {
    Stands(Arc<StatefulSet>),
    /// They were made a moment ago: the StatefulSet's own event brings the next pass,
    /// which has something to tell.
    Made,
    /// The server is held by a run: nothing of it was touched.
    Waits(Holder),
}

trait Kind:
    Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + Debug + Serialize + DeserializeOwned
{
}
impl<K> Kind for K where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
        + Clone
        + Debug
        + Serialize
        + DeserializeOwned
{
}

fn api<K: Kind>(client: &Client, object: &K) -> Api<K> {
    Api::namespaced(client.clone(), &object.namespace().unwrap_or_default())
}

fn written() -> PostParams {
    PostParams { field_manager: Some(DATASTORE_MANAGER.to_owned()), ..PostParams::default() }
}

/// An object that was to be there.
enum Found<K> {
    New(K),
    /// It has been there, or somebody was quicker.
    There(K),
}

async fn create<K: Kind>(client: &Client, wanted: &K) -> kube::Result<Found<K>> {
    let api = api(client, wanted);
    match api.create(&written(), wanted).await {
        Ok(new) => Ok(Found::New(new)),
        Err(kube::Error::Api(status)) if status.is_already_exists() => {
            api.get(&wanted.name_any()).await.map(Found::There)
        }
        Err(error) => Err(error),
    }
}

async fn apply_service(
    client: &Client,
    uid: &str,
    seen: Option<&Service>,
    wanted: &Service,
) -> Result<(), Error> {
    let failed = |error| Error::Write(error, "Service");
    let existing = match seen {
        Some(seen) => seen.clone(),
        None => match create(client, wanted).await.map_err(failed)? {
            Found::New(_) => return Ok(()),
            Found::There(existing) => existing,
        },
    };
    ours(&existing, uid)?;
    if let Some(corrected) = corrected(&existing, wanted) {
        api(client, wanted).replace(&wanted.name_any(), &written(), &corrected).await.map_err(failed)?;
    }
    Ok(())
}

/// Who holds the Datastore at this moment: a cache may not know yet.
async fn holder(client: &Client, datastore: &ValidatedDatastore) -> Result<Option<Holder>, Error> {
    let key = LeaseKey::of_datastore(&datastore.namespace, &datastore.name);
    let found = lease::find(client, &key).await.map_err(|error| Error::Lease(error, key))?;
    Ok(found.as_ref().and_then(holder_of))
}

/// Carries out `change` on `existing`, if that is still what it was when it was seen.
async fn carry_out(
    client: &Client,
    existing: &StatefulSet,
    wanted: StatefulSet,
    change: Change,
) -> kube::Result<StatefulSet> {
    let (api, name) = (api(client, &wanted), wanted.name_any());
    let patch = async |content: Value| {
        let manager = Some(DATASTORE_MANAGER.to_owned());
        let parameters = PatchParams { field_manager: manager, ..PatchParams::default() };
        api.patch(&name, &parameters, &Patch::Merge(content)).await
    };
    let (uid, version) = (existing.uid(), existing.resource_version());
    match change {
        Change::None => Ok(existing.clone()),
        Change::Rescale => {
            let replicas = wanted.spec.as_ref().and_then(|spec| spec.replicas);
            patch(
                json!({"metadata": {"uid": uid, "resourceVersion": version}, "spec": {"replicas": replicas}}),
            )
            .await
        }
        Change::Note(generation) => {
            let note = json!({labels::BUILT_FOR: generation.to_string()});
            patch(json!({"metadata": {"uid": uid, "resourceVersion": version, "annotations": note}})).await
        }
        Change::Rebuild => api.replace(&name, &written(), &replacement(existing, wanted)).await,
    }
}

/// Makes what `wanted` says of what `seen` shows. The Service comes first: a
/// StatefulSet's pods get their names from it.
pub async fn apply(
    ctx: &Context,
    datastore: &ValidatedDatastore,
    seen: &Fetched,
    wanted: Resources,
    status: &DatastoreStatus,
) -> Result<Applied, Error> {
    // No `..`: a new resource that nobody applies must not compile.
    let Resources { service, stateful_set } = wanted;
    let (client, uid) = (&ctx.client, datastore.uid.as_str());
    let pods = stateful_set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
    let Some(existing) = &seen.stateful_set else {
        apply_service(client, uid, seen.service.as_deref(), &service).await?;
        let made = create(client, &stateful_set).await.map_err(|error| Error::Write(error, "StatefulSet"))?;
        return match made {
            Found::New(_) => Ok(Applied::Made),
            // Its event brings a pass that knows it.
            Found::There(existing) => {
                ours(&existing, uid)?;
                Ok(Applied::Stands(Arc::new(existing)))
            }
        };
    };
    ours(&**existing, uid)?;
    let change = change(existing, datastore.generation, pods, status);
    if change == Change::Rebuild
        && let Some(holder) = holder(client, datastore).await?
    {
        return Ok(Applied::Waits(holder));
    }
    apply_service(client, uid, seen.service.as_deref(), &service).await?;
    let stands = carry_out(client, existing, stateful_set, change).await;
    Ok(Applied::Stands(Arc::new(stands.map_err(|error| Error::Write(error, "StatefulSet"))?)))
}

/// Keeps the pods of a Datastore that a run holds from being evicted, and no others.
pub async fn guard(ctx: &Context, datastore: &Datastore, seen: &Fetched) -> Result<(), Error> {
    let failed = |error| Error::Write(error, "PodDisruptionBudget");
    match (&seen.budget, &seen.holder) {
        (Some(budget), holder) => {
            ours(&**budget, &datastore.uid().unwrap_or_default())?;
            if holder.is_none() {
                delete(&ctx.client, &**budget).await.map_err(failed)?;
            }
        }
        (None, Some(_)) => {
            // One that somebody made meanwhile is judged when its event has come.
            create(&ctx.client, &build::budget(datastore)).await.map_err(failed)?;
        }
        (None, None) => {}
    }
    Ok(())
}
