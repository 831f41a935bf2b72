//! Outcomes of passes: their metrics, and for those that failed, a log line if the cause is new and
//! the wait before the retry.

use crate::{
    cluster::{apply::namespace_ends, context::Context, retry::Retries},
    metrics::Outcome,
};
use dragstrip_results::error_chain::chain;
use kube::{Resource, ResourceExt, runtime::controller::Action};
use std::{
    error::Error,
    future::{Future, Ready, ready},
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
    if outcome != Outcome::Failed {
        ctx.retries.settled(&object.uid().unwrap_or_default());
    }
    result.map(|(_, action)| action)
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

    #[test]
    fn a_status_with_unknown_fields_means_that_the_definitions_are_old() {
        let refused = "failed to write the status: ApiError: failed to create typed patch object \
                       (caches/redis; dragstrip.dev/v1alpha1, Kind=Datastore): .status.members: field not \
                       declared in schema";
        assert!(remedy(refused).is_some_and(|remedy| remedy.contains("CustomResourceDefinitions are older")));
        assert_eq!(remedy("failed to write the status: forbidden"), None);
    }
}
