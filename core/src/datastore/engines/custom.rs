//! A server of any kind: everything about it is declared.

use super::rules::EngineRules;
use dragstrip_crds::DatastoreSpec;

/// The rules of whatever was declared.
pub(super) struct Custom;

impl EngineRules for Custom {
    /// There is none: the schema demands an image.
    fn default_image(&self, _version: Option<&str>) -> String {
        String::new()
    }

    fn command(&self, spec: &DatastoreSpec) -> Vec<String> {
        spec.custom.as_ref().map(|custom| custom.command.clone()).unwrap_or_default()
    }

    fn user(&self, spec: &DatastoreSpec) -> i64 {
        spec.custom.as_ref().map_or(65532, |custom| custom.user)
    }
}
