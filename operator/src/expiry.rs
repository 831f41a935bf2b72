//! Removes finished runs and suites when their `spec.ttlAfterFinished` is over. Needs the client.

use crate::{
    cluster::{
        apply::delete,
        context::Context,
        feed::{Feed, Watched},
        finished::Expires,
    },
    failure::{guard, retry_later},
    shutdown::Shutdown,
};
use futures::{Future, StreamExt};
use jiff::Timestamp;
use kube::{
    ResourceExt,
    core::NamespaceResourceScope,
    runtime::{
        Controller,
        controller::{Action, Config},
        reflector::{ObjectRef, Store},
    },
};
use std::{hash::Hash, sync::Arc, time::Duration};

/// Objects removed at the same time.
const CONCURRENCY: u16 = 8;
/// Longest time before the retry of a failed removal.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

async fn reconcile<K>(object: Arc<K>, ctx: Arc<Context>) -> kube::Result<Action>
where
    K: Expires + Watched + kube::Resource<Scope = NamespaceResourceScope>,
{
    let Some(expires) = object.expires_at().filter(|_| object.meta().deletion_timestamp.is_none()) else {
        return Ok(Action::await_change());
    };
    match Duration::try_from(expires.duration_since(Timestamp::now())) {
        Ok(left) if !left.is_zero() => Ok(Action::requeue(left)),
        _ => {
            delete(&ctx.client, &*object).await?;
            ctx.retries.settled(&object.uid().unwrap_or_default());
            Ok(Action::await_change())
        }
    }
}

async fn guarded<K>(object: Arc<K>, ctx: Arc<Context>) -> kube::Result<Action>
where
    K: Expires + Watched + kube::Resource<Scope = NamespaceResourceScope>,
{
    guard(&ctx, "expiry", &*object, reconcile(Arc::clone(&object), Arc::clone(&ctx))).await
}

/// The controller of the objects of `feed` and `store`. Runs until shutdown.
pub fn controller<K>(
    ctx: Arc<Context>,
    feed: &mut Feed<K>,
    store: Store<K>,
    stop: &Shutdown,
) -> impl Future<Output = ()> + use<K>
where
    K: Expires + Watched + kube::Resource<Scope = NamespaceResourceScope>,
    ObjectRef<K>: Eq + Hash,
{
    Controller::for_shared_stream(feed.subscribe(), store)
        .with_config(Config::default().concurrency(CONCURRENCY))
        .graceful_shutdown_on(stop.clone())
        .run(guarded::<K>, |object, error, ctx| retry_later(&ctx.retries, &*object, error, LONGEST_WAIT), ctx)
        .for_each(|_| std::future::ready(()))
}
