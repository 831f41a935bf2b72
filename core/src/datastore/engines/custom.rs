//! A server of any kind: everything about it is declared.

use super::EngineRules;
use dragstrip_crds::DatastoreSpec;

/// The rules of whatever was declared.
pub(super) struct Custom;

impl EngineRules for Custom {
    /// There is none: [`EngineRules::refuse`] asks for one.
    fn default_image(&self, _version: Option<&str>) -> String {
        String::new()
    }

    fn command(&self, spec: &DatastoreSpec) -> Vec<String> {
        spec.custom.as_ref().map(|custom| custom.command.clone()).unwrap_or_default()
    }

    fn arguments(&self, spec: &DatastoreSpec) -> Vec<String> {
        spec.custom.as_ref().map(|custom| custom.args.clone()).unwrap_or_default()
    }

    fn user(&self, spec: &DatastoreSpec) -> i64 {
        spec.custom.as_ref().map_or(65532, |custom| custom.user)
    }

    fn refuse(&self, spec: &DatastoreSpec) -> Option<String> {
        if spec.image.is_none() {
            return Some("spec.image is missing: engine Custom has no default one".to_owned());
        }
        spec.custom
            .is_none()
            .then(|| "spec.custom is missing: it describes the server of engine Custom".to_owned())
    }

    /// What a server of this kind says of itself means whatever it means.
    fn known(&self) -> bool {
        false
    }
}
