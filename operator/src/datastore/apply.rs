//! Applies what a Datastore becomes. Needs the client.

use super::build::Resources;
use crate::{cluster::apply::apply as apply_object, context::Context, labels::DATASTORE_MANAGER};

/// A step of applying that failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The Service could not be applied.
    #[error("failed to apply the Service")]
    Service(#[source] kube::Error),
    /// The StatefulSet could not be applied.
    #[error("failed to apply the StatefulSet")]
    StatefulSet(#[source] kube::Error),
}

/// Applies all of `resources`. The Service comes first: a StatefulSet's pods
/// get their names from it.
pub async fn apply(ctx: &Context, resources: Resources) -> Result<(), Error> {
    // No `..`: a new resource that nobody applies must not compile.
    let Resources { service, stateful_set } = resources;
    apply_object(&ctx.client, DATASTORE_MANAGER, &service).await.map_err(Error::Service)?;
    apply_object(&ctx.client, DATASTORE_MANAGER, &stateful_set).await.map_err(Error::StatefulSet)?;
    Ok(())
}
