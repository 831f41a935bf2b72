//! Objects under the names that a run needs: created by the run, or in its way. Needs the client.

use crate::{
    cluster::apply::{self, Namespaced},
    run::context::Pass,
};
use dragstrip_core::{labels::RUN_MANAGER, run::validate::ValidatedRun, trouble::Trouble};
use kube::{Api, Resource, ResourceExt, api::PartialObjectMeta};
use serde::Serialize;

/// The message of a request that the API server, or an admission policy, refused for good.
pub fn refused(error: &kube::Error) -> Option<Trouble> {
    let kube::Error::Api(status) = error else { return None };
    let for_good = matches!(status.code, 400 | 403 | 422);
    for_good.then(|| Trouble { reason: "Refused".to_owned(), message: status.message.clone() })
}

/// The trouble if `object`, which has a name that the run needs, does not belong to the run.
pub fn stranger<K: Resource<DynamicType = ()>>(object: &K, run: &ValidatedRun) -> Option<Trouble> {
    if object.owner_references().iter().any(|owner| owner.uid == run.holder.uid) {
        return None;
    }
    let owner = object.owner_references().first().map(|owner| format!(" (of {} {})", owner.kind, owner.name));
    let message = format!(
        "{} {} exists{} and does not belong to this run: delete it, or create the run under another name",
        K::kind(&()),
        object.name_any(),
        owner.unwrap_or_default()
    );
    Some(Trouble { reason: "NameTaken".to_owned(), message })
}

/// The metadata of the object called `name` in the run's namespace, as the API server has it.
pub async fn current<K: Namespaced>(
    pass: &Pass<'_>,
    name: &str,
) -> kube::Result<Option<PartialObjectMeta<K>>> {
    Api::<K>::namespaced(pass.client.clone(), &pass.run.holder.namespace).get_metadata_opt(name).await
}

/// Creates `object`, unless it exists and belongs to the run. Returns the trouble if the API
/// server refuses it for good, or if somebody else's object has its name.
pub async fn create<K: Namespaced + Serialize>(pass: &Pass<'_>, object: &K) -> kube::Result<Option<Trouble>> {
    match apply::create(&pass.client, RUN_MANAGER, object).await {
        Ok(existing) => Ok(existing.and_then(|existing| stranger(&existing, pass.run))),
        Err(error) => refused(&error).map(Some).ok_or(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_object_of_somebody_else_is_reported_with_its_owner_and_the_remedy() {
        let run = dragstrip_core::run::validate::validate(&crate::fixtures::run(&["read"], 1)).unwrap();
        let job = |uid: &str| -> k8s_openapi::api::batch::v1::Job {
            serde_json::from_value(json!({"metadata": {"name": "sprint-read-1", "ownerReferences": [
                {"apiVersion": "dragstrip.dev/v1alpha1", "kind": "BenchmarkRun", "name": "other", "uid": uid}
            ]}}))
            .unwrap()
        };
        assert_eq!(stranger(&job("run-uid"), &run), None);
        let reported = stranger(&job("other-uid"), &run).unwrap().message;
        assert!(reported.contains("Job sprint-read-1 exists (of BenchmarkRun other)"), "{reported}");
        assert!(reported.contains("under another name"), "{reported}");
    }

    #[test]
    fn only_a_final_refusal_is_trouble() {
        let error = |code: u16| {
            let status = kube::core::Status::failure("exceeded quota", "Forbidden").with_code(code);
            kube::Error::Api(status.boxed())
        };
        assert_eq!(refused(&error(403)).unwrap().message, "exceeded quota");
        assert_eq!(refused(&error(500)), None, "an API server in trouble gets a retry");
    }
}
