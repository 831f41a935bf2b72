//! Valkey. `--io-threads` counts the main thread; reads are always threaded.

use super::{redis_family::redis_family, rules::EngineRules};
use dragstrip_crds::DatastoreSpec;

pub(super) struct Valkey;

impl EngineRules for Valkey {
    fn default_image(&self, version: Option<&str>) -> String {
        format!("docker.io/valkey/valkey:{}", version.unwrap_or("9.1"))
    }

    fn command(&self, spec: &DatastoreSpec) -> Vec<String> {
        redis_family("valkey-server", &format!("--io-threads {}", spec.threads), spec, self)
    }
}
