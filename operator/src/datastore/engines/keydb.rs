//! KeyDB. Every server thread accepts and serves connections. Its image has no
//! fixed user id, so the operator chooses one.

use super::{EngineRules, redis_family::redis_family};
use dragstrip_crds::DatastoreSpec;

/// KeyDB's rules.
pub(super) struct KeyDb;

impl EngineRules for KeyDb {
    fn default_image(&self, version: Option<&str>) -> String {
        format!("docker.io/eqalpha/keydb:x86_64_v{}", version.unwrap_or("6.3.4"))
    }

    fn command(&self, spec: &DatastoreSpec) -> Vec<String> {
        redis_family("keydb-server", &["--server-threads", "N"], spec)
    }

    fn notes(&self, _spec: &DatastoreSpec) -> Vec<String> {
        vec!["KeyDB's last release is 6.3.4 of October 2023: it is no longer maintained".to_owned()]
    }
}
