//! Creates, corrects and replaces the objects of a Datastore. Needs the client.
//!
//! A missing object is created. One of ours is replaced, if it has not changed since it was read. One
//! of somebody else is left alone.

use super::{
    build::{self, Resources},
    fetch::Fetched,
    plan::{Change, NotOurs, change, corrected, ours, replacement},
    status::BEING_REMOVED,
};
use crate::cluster::{
    apply::{Namespaced, api, delete, namespace_ends},
    context::Context,
    lease,
};
use dragstrip_core::{
    datastore::validate::ValidatedDatastore,
    labels::DATASTORE_MANAGER,
    lease::{Holder, LeaseKey, holder_of},
};
use dragstrip_crds::{
    Datastore,
    conditions::{Finding, types::READY},
};
use k8s_openapi::api::{apps::v1::StatefulSet, core::v1::Service};
use kube::{
    Client, ResourceExt,
    api::{Patch, PatchParams, PostParams},
};
use serde::Serialize;
use serde_json::json;
use std::sync::Arc;

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
    /// The finding for the Datastore's status; `None` if a retry may help.
    pub fn finding(&self) -> Option<Finding> {
        match self {
            Self::NotOurs(reported @ NotOurs::Taken(..)) => {
                Some(Finding::no(READY, "NameTaken", reported.to_string()))
            }
            Self::NotOurs(reported) => Some(Finding::no(READY, BEING_REMOVED, reported.to_string())),
            Self::Write(error @ kube::Error::Api(status), kind)
                if matches!(status.code, 400 | 403 | 422) && !namespace_ends(error) =>
            {
                let message = format!("the API server refuses the {kind}: {}", status.message);
                Some(Finding::no(READY, "Refused", message))
            }
            Self::Write(..) | Self::Lease(..) => None,
        }
    }
}

#[derive(Debug)]
pub enum Applied {
    Present(Arc<StatefulSet>),
    /// They were just created: the StatefulSet's event brings the next pass, which can report.
    Created,
    /// A run holds the server: nothing was changed.
    Waits(Holder),
}

fn parameters() -> PostParams {
    PostParams { field_manager: Some(DATASTORE_MANAGER.to_owned()), ..PostParams::default() }
}

/// Creates `wanted`; returns the object of its name if one exists already.
async fn create<K: Namespaced + Serialize>(client: &Client, wanted: &K) -> kube::Result<Option<K>> {
    let api = api(client, wanted);
    match api.create(&parameters(), wanted).await {
        Ok(_) => Ok(None),
        Err(kube::Error::Api(status)) if status.is_already_exists() => {
            api.get(&wanted.name_any()).await.map(Some)
        }
        Err(error) => Err(error),
    }
}

async fn apply_service(
    client: &Client,
    uid: &str,
    cached: Option<&Service>,
    wanted: &Service,
) -> Result<(), Error> {
    let failed = |error| Error::Write(error, "Service");
    let existing = match cached {
        Some(cached) => Some(cached.clone()),
        None => create(client, wanted).await.map_err(failed)?,
    };
    let Some(existing) = existing else { return Ok(()) };
    ours(&existing, uid)?;
    if let Some(corrected) = corrected(&existing, wanted) {
        api(client, wanted).replace(&wanted.name_any(), &parameters(), &corrected).await.map_err(failed)?;
    }
    Ok(())
}

/// The run that holds the Datastore now: the cache may lag.
async fn holder(client: &Client, datastore: &ValidatedDatastore) -> Result<Option<Holder>, Error> {
    let key = LeaseKey::of_datastore(&datastore.namespace, &datastore.name);
    let found = lease::find(client, &key).await.map_err(|error| Error::Lease(error, key))?;
    Ok(found.as_ref().and_then(holder_of))
}

/// Applies `change` to `existing`, on condition that it has not changed since it was read.
async fn correct(
    client: &Client,
    existing: &StatefulSet,
    wanted: StatefulSet,
    change: Change,
) -> kube::Result<StatefulSet> {
    let (api, name) = (api(client, &wanted), wanted.name_any());
    match change {
        Change::None => Ok(existing.clone()),
        Change::Rescale => {
            let patch = json!({
                "metadata": {"uid": existing.uid(), "resourceVersion": existing.resource_version()},
                "spec": {"replicas": wanted.spec.and_then(|spec| spec.replicas)},
            });
            let manager = Some(DATASTORE_MANAGER.to_owned());
            let parameters = PatchParams { field_manager: manager, ..PatchParams::default() };
            api.patch(&name, &parameters, &Patch::Merge(patch)).await
        }
        Change::Rebuild => api.replace(&name, &parameters(), &replacement(existing, wanted)).await,
    }
}

/// Turns the objects that `fetched` shows into those that are `wanted`. A new Service comes before its
/// StatefulSet, whose pods get their names from it. An existing Service changes after the API server has
/// accepted the StatefulSet: a refused declaration changes nothing.
pub async fn apply(
    ctx: &Context,
    datastore: &ValidatedDatastore,
    fetched: &Fetched,
    wanted: Resources,
) -> Result<Applied, Error> {
    // No `..`: a new resource that nobody applies must not compile.
    let Resources { service, stateful_set } = wanted;
    let (client, uid) = (&ctx.client, datastore.uid.as_str());
    let pods = stateful_set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
    let failed = |error| Error::Write(error, "StatefulSet");
    let Some(existing) = &fetched.stateful_set else {
        match fetched.service.as_deref() {
            Some(service) => ours(service, uid)?,
            None => apply_service(client, uid, None, &service).await?,
        }
        let existing = create(client, &stateful_set).await.map_err(failed)?;
        if let Some(cached) = fetched.service.as_deref() {
            apply_service(client, uid, Some(cached), &service).await?;
        }
        return match existing {
            None => Ok(Applied::Created),
            // Its event brings the next pass.
            Some(existing) => {
                ours(&existing, uid)?;
                Ok(Applied::Present(Arc::new(existing)))
            }
        };
    };
    ours(&**existing, uid)?;
    let change = change(existing, datastore.generation, pods);
    if change == Change::Rebuild
        && let Some(holder) = holder(client, datastore).await?
    {
        return Ok(Applied::Waits(holder));
    }
    let stateful_set = correct(client, existing, stateful_set, change).await.map_err(failed)?;
    apply_service(client, uid, fetched.service.as_deref(), &service).await?;
    Ok(Applied::Present(Arc::new(stateful_set)))
}

/// Protects the pods of a Datastore from eviction while a run holds it.
pub async fn protect(ctx: &Context, datastore: &Datastore, fetched: &Fetched) -> Result<(), Error> {
    let failed = |error| Error::Write(error, "PodDisruptionBudget");
    match (&fetched.budget, &fetched.holder) {
        (Some(budget), holder) => {
            ours(&**budget, &datastore.uid().unwrap_or_default())?;
            if holder.is_none() {
                delete(&ctx.client, &**budget).await.map_err(failed)?;
            }
        }
        (None, Some(_)) => {
            // If somebody created one meanwhile, its event brings a pass that checks its owner.
            create(&ctx.client, &build::budget(datastore)).await.map_err(failed)?;
        }
        (None, None) => {}
    }
    Ok(())
}
