//! Writes that are the same for every kind: status and deletion. Needs the client.

use super::overlay::Overlay;
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, Preconditions, PropagationPolicy},
    core::NamespaceResourceScope,
};
use serde::{Serialize, de::DeserializeOwned};
use std::fmt::Debug;

/// How the write of a status ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatusWrite {
    /// The status is stored.
    Done,
    /// The object was deleted meanwhile: nobody will read the status.
    ObjectGone,
    /// The object changed meanwhile: the event of that change brings a pass with a new status.
    ObjectChanged,
}

/// Whether a write was refused because its object is gone, or another object has its name. Other
/// conflicts are about an object that still exists.
fn object_gone(error: &kube::Error) -> bool {
    let kube::Error::Api(status) = error else { return false };
    let other_uid = status.message.contains("uid mismatch") || status.message.contains("UID in precondition");
    status.is_not_found() || (status.is_conflict() && other_uid)
}

/// Writes `status` and nothing else if the object has not changed since it was read, and records that
/// in the overlay.
pub async fn apply_status<K, S>(
    client: &Client,
    overlay: &Overlay,
    manager: &str,
    object: &K,
    status: &S,
) -> kube::Result<StatusWrite>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + Debug + DeserializeOwned,
    S: Serialize + Sync,
{
    let api: Api<K> = Api::namespaced(client.clone(), &object.namespace().unwrap_or_default());
    let body = serde_json::json!({
        "apiVersion": K::api_version(&()),
        "kind": K::kind(&()),
        "metadata": {"resourceVersion": object.resource_version()},
        "status": status,
    });
    let name = object.name_any();
    match api.patch_status(&name, &PatchParams::apply(manager).force(), &Patch::Apply(&body)).await {
        Ok(stored) => {
            overlay.record(&stored);
            Ok(StatusWrite::Done)
        }
        Err(error) if object_gone(&error) => {
            let (kind, namespace) = (K::kind(&()), object.namespace());
            tracing::debug!(%kind, name, namespace, "the object was deleted before its status was written");
            Ok(StatusWrite::ObjectGone)
        }
        Err(kube::Error::Api(status)) if status.is_conflict() => Ok(StatusWrite::ObjectChanged),
        Err(error) => Err(error),
    }
}

/// Whether the namespace is being deleted: nothing can be created in it, and nothing needs to be.
pub fn namespace_ends(error: &kube::Error) -> bool {
    let kube::Error::Api(status) = error else { return false };
    let causes = status.details.iter().flat_map(|details| &details.causes);
    status.is_forbidden()
        && causes.map(|cause| cause.reason.as_str()).any(|reason| reason == "NamespaceTerminating")
}

/// Deletes this `object`, but no later one of its name; the garbage collector deletes the objects that
/// it owns. An object that is already gone is fine.
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

#[cfg(test)]
mod tests {
    use super::*;
    use kube::core::Status;

    fn refused(code: u16, reason: &str, message: &str) -> kube::Error {
        let status = Status::failure(message, reason).with_code(code);
        kube::Error::Api(status.boxed())
    }

    #[test]
    fn an_object_that_was_deleted_meanwhile_is_gone() {
        for error in [
            refused(404, "NotFound", "datastores.dragstrip.dev \"redis\" not found"),
            refused(
                409,
                "Conflict",
                "uid mismatch: the provided object specified uid a, and no existing object was found",
            ),
            refused(409, "Conflict", "Precondition failed: UID in precondition: a, UID in object meta: b"),
        ] {
            assert!(object_gone(&error), "{error} counts as a failure");
        }
    }

    #[test]
    fn every_other_refusal_is_a_failure() {
        for error in [
            refused(
                409,
                "Conflict",
                "the object has been modified; please apply your changes to the latest version",
            ),
            refused(403, "Forbidden", "no rights"),
            refused(422, "Invalid", "status.phase: Unsupported value"),
            refused(500, "InternalError", "etcd is away"),
            kube::Error::LinesCodecMaxLineLengthExceeded,
        ] {
            assert!(!object_gone(&error), "{error} counts as a deletion");
        }
    }
}
