//! The log line of a failed reconcile.

use super::apply::namespace_ends;
use dragstrip_results::error_chain::chain;
use std::{error::Error, iter::successors};

/// What to do about a failure, if its text does not say so.
fn remedy(failure: &str) -> Option<&'static str> {
    // The API server's text for a status with fields that are missing in the CRD.
    failure.contains("field not declared in schema").then_some(
        "the CustomResourceDefinitions are older than this operator: upgrade the release with \
         crds.install=true, or apply its install.yaml",
    )
}

/// Logs a failed reconcile, unless the namespace is being deleted: then nothing can be created
/// in it, and nobody needs it.
pub fn log_failure(kind: &'static str, name: &str, namespace: Option<&str>, error: &(dyn Error + 'static)) {
    let mut causes = successors(Some(error), |error| (*error).source());
    if causes.any(|cause| cause.downcast_ref::<kube::Error>().is_some_and(namespace_ends)) {
        tracing::debug!(kind, name, namespace, "the namespace is being deleted");
        return;
    }
    let error = chain(error);
    tracing::warn!(kind, name, namespace, error, remedy = remedy(&error), "reconcile failed");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_with_fields_that_the_crd_lacks_points_to_old_crds() {
        let refused = "failed to write the status: ApiError: failed to create typed patch object \
                       (caches/redis; dragstrip.dev/v1alpha1, Kind=Datastore): .status.members: field not \
                       declared in schema";
        assert!(remedy(refused).is_some_and(|remedy| remedy.contains("CustomResourceDefinitions are older")));
        assert_eq!(remedy("failed to write the status: forbidden"), None);
    }
}
