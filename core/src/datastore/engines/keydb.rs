//! KeyDB. Every server thread accepts and serves connections. Its image has no
//! fixed user id, so the operator chooses one.

use super::{
    redis_family::redis_family,
    rules::{EngineRules, of_line, refused_version},
};
use dragstrip_crds::DatastoreSpec;

/// What runs where the manifest names no version: the last release.
const DEFAULT_VERSION: &str = "6.3.4";

pub(super) struct KeyDb;

impl EngineRules for KeyDb {
    fn default_image(&self, version: Option<&str>) -> String {
        format!("docker.io/eqalpha/keydb:x86_64_v{}", of_line(version, DEFAULT_VERSION))
    }

    fn refuse(&self, spec: &DatastoreSpec) -> Option<String> {
        refused_version(spec, DEFAULT_VERSION)
    }

    fn command(&self, spec: &DatastoreSpec) -> Vec<String> {
        redis_family("keydb-server", &format!("--server-threads {}", spec.threads), spec, self)
    }

    fn notes(&self, _spec: &DatastoreSpec) -> Vec<String> {
        vec!["KeyDB's last release is 6.3.4 of October 2023: it is no longer maintained".to_owned()]
    }
}
