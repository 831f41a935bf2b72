//! Outcomes of passes: metrics, and after a failure a log line if the cause is new, and the wait.

use crate::{
    cluster::{apply::namespace_ends, context::Context, retry::Retries},
    metrics::Outcome,
};
use dragstrip_results::error_chain::chain;
use futures::FutureExt;
use kube::{Resource, ResourceExt, runtime::controller::Action};
use std::{
    any::Any,
    error::Error,
    future::{Future, Ready, ready},
    panic::AssertUnwindSafe,
    time::{Duration, Instant},
};

/// Waits for a pass over `object` by the controller of this name, and records its outcome.
pub async fn measure<K: Resource<DynamicType = ()>, E>(
    ctx: &Context,
    controller: &str,
    object: &K,
    pass: impl Future<Output = Result<(Outcome, Action), E>>,
) -> Result<Action, E> {
    let started = Instant::now();
    let result = pass.await;
    let outcome = result.as_ref().map_or(Outcome::Failed, |(outcome, _)| *outcome);
    ctx.metrics.reconciled(controller, outcome, started.elapsed());
    if matches!(outcome, Outcome::Done | Outcome::Invalid) {
        ctx.retries.settled(&object.uid().unwrap_or_default());
    }
    result.map(|(_, action)| action)
}

/// Longest time before the retry of a reconcile that panicked.
const LONGEST_WAIT_AFTER_PANIC: Duration = Duration::from_secs(300);

/// Waits for `reconcile` of `object` by the controller of this name. A panic ends that reconcile
/// alone, since other objects, of other people, must not wait for the mistake: it is counted,
/// reported on the object, and retried later.
pub async fn guard<K: Resource<DynamicType = ()>, E>(
    ctx: &Context,
    controller: &str,
    object: &K,
    reconcile: impl Future<Output = Result<Action, E>>,
) -> Result<Action, E> {
    let started = Instant::now();
    let panic = match AssertUnwindSafe(reconcile).catch_unwind().await {
        Ok(result) => return result,
        Err(panic) => message_of(&*panic),
    };
    ctx.metrics.reconciled(controller, Outcome::Panicked, started.elapsed());
    let retry = ctx.retries.again(&object.uid().unwrap_or_default(), &panic, LONGEST_WAIT_AFTER_PANIC);
    if retry.news {
        let (kind, name, namespace) = (K::kind(&()), object.name_any(), object.namespace());
        tracing::error!(%kind, name, namespace, panic, "a reconcile panicked: please report this defect");
        let note = format!("a defect of the operator ended the reconcile of this object: {panic}");
        ctx.announcer.publish(object, true, "ReconcilePanicked", &note).await;
    }
    Ok(Action::requeue(retry.after))
}

fn message_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message").to_owned()
}

/// How to resolve a failure whose message does not say it.
fn remedy(failure: &str) -> Option<&'static str> {
    // The API server's message for a status with fields that its definition does not have.
    failure.contains("field not declared in schema").then_some(
        "the CustomResourceDefinitions are older than this operator: upgrade the release with \
         crds.install=true, or apply its install.yaml",
    )
}

/// Logs that a pass over `object` failed, unless an object changed meanwhile, which the next pass reads
/// again, or its namespace is being deleted, in which nothing can be created and nothing needs to be.
pub fn log_failure<K: Resource<DynamicType = ()>>(object: &K, error: &(dyn Error + 'static)) {
    let (kind, name, namespace) = (K::kind(&()), object.name_any(), object.namespace());
    let mut causes = std::iter::successors(Some(error), |error| (*error).source());
    let is_conflict = |error: &kube::Error| matches!(error, kube::Error::Api(status) if status.is_conflict());
    let usual = |error: &kube::Error| namespace_ends(error) || is_conflict(error);
    let is_usual = causes.any(|cause| cause.downcast_ref::<kube::Error>().is_some_and(usual));
    let error = chain(error);
    if is_usual {
        tracing::debug!(%kind, name, namespace, error, "an object changed, or the namespace is being deleted");
        return;
    }
    tracing::warn!(%kind, name, namespace, error, remedy = remedy(&error), "reconcile failed");
}

/// Retries a failed pass over `object` after `longest` at the latest; logs each cause once.
pub fn retry_later<K: Resource<DynamicType = ()>>(
    retries: &Retries,
    object: &K,
    error: &(dyn Error + 'static),
    longest: Duration,
) -> Action {
    let retry = retries.again(&object.uid().unwrap_or_default(), &chain(error), longest);
    if retry.news {
        log_failure(object, error);
    }
    Action::requeue(retry.after)
}

/// Consumes the results of the controller of this name, which logs errors where they arise.
pub fn passes<T, E: Error + 'static>(controller: &'static str) -> impl FnMut(Result<T, E>) -> Ready<()> {
    move |result| {
        if let Err(error) = result {
            tracing::debug!(error = %chain(&error), controller, "a pass failed");
        }
        ready(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datastore::tests::{Cluster, context, datastore};
    use std::convert::Infallible;

    #[tokio::test]
    async fn a_panic_ends_one_reconcile_and_is_counted_and_reported_on_its_object() {
        let (ctx, calls) = context(Cluster::default(), |_| None);
        let object = datastore(1);
        let reconcile = || async {
            let none: &[u8] = &[];
            let _ = std::hint::black_box(none)[7];
            Ok::<_, Infallible>(Action::await_change())
        };
        for _ in 0..2 {
            let next = guard(&ctx, "datastore", &object, reconcile()).await.unwrap();
            assert_ne!(next, Action::await_change(), "nothing would retry it");
        }
        let page = ctx.metrics.text().unwrap();
        assert!(page.contains("outcome=\"panicked\""), "{page}");
        let calls = calls.lock().unwrap();
        let events: Vec<String> = calls.iter().map(|(_, body)| body["note"].to_string()).collect();
        assert_eq!(events.len(), 1, "each panic is reported once: {calls:?}");
        assert!(events[0].contains("out of bounds"), "{events:?}");
    }

    #[tokio::test]
    async fn a_pass_that_came_too_early_does_not_end_a_failure() {
        let (ctx, _) = context(Cluster::default(), |_| None);
        let object = datastore(1);
        let again = || ctx.retries.again(&object.uid().unwrap(), "refused", LONGEST_WAIT_AFTER_PANIC).news;
        assert!(again());
        for (outcome, news) in [(Outcome::Early, false), (Outcome::Done, true)] {
            let pass = async { Ok::<_, Infallible>((outcome, Action::await_change())) };
            measure(&ctx, "run", &object, pass).await.unwrap();
            assert_eq!(again(), news, "whether the failure is news after a pass that was {outcome:?}");
        }
    }

    #[test]
    fn a_status_with_unknown_fields_means_that_the_definitions_are_old() {
        let refused = "failed to write the status: ApiError: failed to create typed patch object \
                       (caches/redis; dragstrip.dev/v1alpha1, Kind=Datastore): .status.members: field not \
                       declared in schema";
        assert!(remedy(refused).is_some_and(|remedy| remedy.contains("CustomResourceDefinitions are older")));
        assert_eq!(remedy("failed to write the status: forbidden"), None);
    }
}
