//! Server-side apply of objects and of status, for every kind alike.

use kube::{
    Api, Client, Resource, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, Preconditions, PropagationPolicy},
    core::NamespaceResourceScope,
};
use serde::{Serialize, de::DeserializeOwned};
use std::fmt::Debug;

/// Applies `object` in its own namespace; the answer is the observed state.
pub async fn apply<K>(client: &Client, manager: &str, object: &K) -> kube::Result<K>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
        + Clone
        + Debug
        + Serialize
        + DeserializeOwned,
{
    let api: Api<K> = Api::namespaced(client.clone(), &object.namespace().unwrap_or_default());
    api.patch(&object.name_any(), &PatchParams::apply(manager).force(), &Patch::Apply(object)).await
}

/// Writes `status` and nothing else.
pub async fn apply_status<K, S>(client: &Client, manager: &str, object: &K, status: &S) -> kube::Result<()>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + Debug + DeserializeOwned,
    S: Serialize + Sync,
{
    let api: Api<K> = Api::namespaced(client.clone(), &object.namespace().unwrap_or_default());
    let body = serde_json::json!({
        "apiVersion": K::api_version(&()),
        "kind": K::kind(&()),
        "status": status,
    });
    api.patch_status(&object.name_any(), &PatchParams::apply(manager).force(), &Patch::Apply(&body)).await?;
    Ok(())
}

/// Whether the namespace is being deleted: nothing can be made in it any more,
/// and nothing needs to be.
pub fn namespace_ends(error: &kube::Error) -> bool {
    let kube::Error::Api(status) = error else { return false };
    let causes = status.details.iter().flat_map(|details| &details.causes);
    status.is_forbidden()
        && causes.map(|cause| cause.reason.as_str()).any(|reason| reason == "NamespaceTerminating")
}

/// Deletes `object` if it is still the very one that was looked at, with what
/// it owns following in the background. An object that is already gone is fine.
pub async fn delete<K>(client: &Client, object: &K) -> kube::Result<()>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    let api: Api<K> = Api::namespaced(client.clone(), &object.namespace().unwrap_or_default());
    let parameters = DeleteParams {
        propagation_policy: Some(PropagationPolicy::Background),
        preconditions: Some(Preconditions { uid: object.uid(), ..Preconditions::default() }),
        ..DeleteParams::default()
    };
    match api.delete(&object.name_any(), &parameters).await {
        Err(kube::Error::Api(status)) if status.is_not_found() || status.is_conflict() => Ok(()),
        Err(error) => Err(error),
        Ok(_) => Ok(()),
    }
}
