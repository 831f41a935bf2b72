//! Removes finished runs when their `spec.ttlAfterFinished` is over. Needs the client.

use crate::{
    cluster::{apply::delete, finished::FinishedRun, world::Feeds},
    context::Context,
    process::{Parts, chain},
};
use futures::{Future, StreamExt};
use jiff::Timestamp;
use kube::{
    ResourceExt,
    runtime::{Controller, controller::Action},
};
use std::{sync::Arc, time::Duration};

/// Longest time before a failed removal is tried again.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

async fn reconcile(run: Arc<FinishedRun>, ctx: Arc<Context>) -> kube::Result<Action> {
    let Some(expires) = run.expires_at().filter(|_| run.metadata.deletion_timestamp.is_none()) else {
        return Ok(Action::await_change());
    };
    match Duration::try_from(expires.duration_since(Timestamp::now())) {
        Ok(left) if !left.is_zero() => Ok(Action::requeue(left)),
        _ => {
            delete(&ctx.client, &*run).await?;
            ctx.retries.settled(&run.uid().unwrap_or_default());
            Ok(Action::await_change())
        }
    }
}

// The controller hands over an Arc that this signature must take.
#[allow(clippy::needless_pass_by_value)]
fn on_error(run: Arc<FinishedRun>, error: &kube::Error, ctx: Arc<Context>) -> Action {
    let cause = chain(error);
    let retry = ctx.retries.again(&run.uid().unwrap_or_default(), &cause, LONGEST_WAIT);
    if retry.news {
        let (name, namespace) = (run.name_any(), run.namespace());
        tracing::warn!(name, namespace, error = %cause, "a run whose ttlAfterFinished is over cannot be removed");
    }
    Action::requeue(retry.after)
}

/// The controller. Runs until shutdown.
pub fn controller(ctx: Arc<Context>, feeds: &mut Feeds, parts: &Parts) -> impl Future<Output = ()> + use<> {
    Controller::for_shared_stream(feeds.expiring.subscribe(), ctx.world.expiring.clone())
        .graceful_shutdown_on(parts.shutdown())
        .run(reconcile, on_error, ctx)
        .for_each(|_| std::future::ready(()))
}
