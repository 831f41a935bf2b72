//! Writes that are the same for every kind: status and deletion. Needs the client.

use super::overlay::Overlay;
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{
        DeleteParams, PartialObjectMeta, Patch, PatchParams, PostParams, Preconditions, PropagationPolicy,
    },
    core::NamespaceResourceScope,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, value::RawValue};
use std::{collections::BTreeSet, fmt::Debug};

pub trait Namespaced:
    Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + Debug + DeserializeOwned
{
}
impl<K> Namespaced for K where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + Debug + DeserializeOwned
{
}

pub fn api<K: Namespaced>(client: &Client, object: &K) -> Api<K> {
    Api::namespaced(client.clone(), &object.namespace().unwrap_or_default())
}

/// Creates `object`, or changes nothing and returns the metadata of the object that has its name.
pub async fn create<K: Namespaced + Serialize>(
    client: &Client,
    manager: &str,
    object: &K,
) -> kube::Result<Option<PartialObjectMeta<K>>> {
    let api = api(client, object);
    let parameters = PostParams { field_manager: Some(manager.to_owned()), ..PostParams::default() };
    match api.create(&parameters, object).await {
        Ok(_) => Ok(None),
        Err(kube::Error::Api(status)) if status.is_already_exists() => {
            let existing = api.get_metadata_opt(&object.name_any()).await?;
            // It may have been deleted meanwhile: then the caller retries.
            existing.map(Some).ok_or(kube::Error::Api(status))
        }
        Err(error) => Err(error),
    }
}

/// Whether a write was refused because its object changed or was deleted since it was read.
pub fn is_outdated(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.is_conflict() || status.is_not_found())
}

/// Whether YAML reads `char` in a text as something else or not at all: control characters, ends of lines
/// and byte order marks (<https://yaml.org/spec/1.2.2/#51-character-set>). JSON escapes all below a space.
fn needs_escape(char: char) -> bool {
    matches!(char, '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}')
}

/// A server-side apply of `body`. The API server reads it as YAML and refuses all of it for one control
/// character in a message that quotes a manifest or a tool.
pub fn server_side_apply(body: &Value) -> kube::Result<Patch<Box<RawValue>>> {
    let mut text = body.to_string();
    // Outside of texts, JSON has none of these.
    let unusual: BTreeSet<char> = text.chars().filter(|char| needs_escape(*char)).collect();
    for char in unusual {
        text = text.replace(char, &format!("\\u{:04x}", u32::from(char)));
    }
    RawValue::from_string(text).map(Patch::Apply).map_err(kube::Error::SerdeError)
}

/// Writes `status` and nothing else, and records that in the overlay. `false` if the object changed or
/// was deleted since it was read: the event of that change brings a pass with a new status.
pub async fn apply_status<K: Namespaced>(
    client: &Client,
    overlay: &Overlay,
    manager: &str,
    object: &K,
    status: &(impl Serialize + Sync),
) -> kube::Result<bool> {
    let body = serde_json::json!({
        "apiVersion": K::api_version(&()),
        "kind": K::kind(&()),
        "metadata": {"resourceVersion": object.resource_version()},
        "status": status,
    });
    let parameters = PatchParams::apply(manager).force();
    let patch = server_side_apply(&body)?;
    match api(client, object).patch_status(&object.name_any(), &parameters, &patch).await {
        Ok(stored) => {
            overlay.record(&stored);
            Ok(true)
        }
        Err(error) if is_outdated(&error) => Ok(false),
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
pub async fn delete<K: Namespaced>(client: &Client, object: &K) -> kube::Result<()> {
    let parameters = DeleteParams {
        propagation_policy: Some(PropagationPolicy::Background),
        preconditions: Some(Preconditions { uid: object.uid(), ..Preconditions::default() }),
        ..DeleteParams::default()
    };
    match api(client, object).delete(&object.name_any(), &parameters).await {
        Err(error) if !is_outdated(&error) => Err(error),
        _ => Ok(()),
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
    fn a_server_side_apply_is_yaml_whatever_its_texts_hold() {
        let unusual = "\u{0}\u{1b}[1m\u{7f}\u{85}\u{9f}\u{2028}\u{feff}\u{fffe}\u{ffff} \\u007f \"\n\té🕴";
        let body = serde_json::json!({unusual: unusual});
        assert!(
            serde_yaml::from_str::<Value>(&body.to_string()).is_err(),
            "a parser of YAML refuses plain JSON"
        );
        let Patch::Apply(text) = server_side_apply(&body).unwrap() else { panic!("another kind of patch") };
        assert_eq!(serde_yaml::from_str::<Value>(text.get()).unwrap(), body);
    }

    #[test]
    fn a_write_is_outdated_if_the_object_changed_or_is_gone() {
        for error in [
            refused(404, "NotFound", "datastores.dragstrip.dev \"redis\" not found"),
            refused(409, "Conflict", "Precondition failed: UID in precondition: a, UID in object meta: b"),
            refused(409, "Conflict", "the object has been modified; please apply your changes again"),
        ] {
            assert!(is_outdated(&error), "{error} counts as a failure");
        }
    }

    #[test]
    fn every_other_refusal_is_a_failure() {
        for error in [
            refused(403, "Forbidden", "no rights"),
            refused(422, "Invalid", "status.phase: Unsupported value"),
            refused(500, "InternalError", "etcd is away"),
            kube::Error::LinesCodecMaxLineLengthExceeded,
        ] {
            assert!(!is_outdated(&error), "{error} does not count as a failure");
        }
    }
}
