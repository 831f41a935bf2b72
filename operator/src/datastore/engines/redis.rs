//! Redis. `--io-threads` counts the main thread; it is fixed at start-up.

use super::{EngineRules, redis_family};
use dragstrip_crds::DatastoreSpec;

/// Redis' rules.
pub(super) struct Redis;

impl EngineRules for Redis {
    fn default_image(&self, version: Option<&str>) -> String {
        format!("docker.io/library/redis:{}", version.unwrap_or("8.6"))
    }

    /// `redis-server` itself, not the image's entrypoint, which from Redis 8 on
    /// loads every module it finds: core engines are compared.
    ///
    /// `--io-threads-do-reads` belongs to Redis 6 and 7; Redis 8 always reads in
    /// its threads and still accepts the option.
    fn command(&self, spec: &DatastoreSpec) -> Vec<String> {
        let flags: &[&str] = if spec.threads > 1 {
            &["--io-threads", "N", "--io-threads-do-reads", "yes"]
        } else {
            &["--io-threads", "N"]
        };
        redis_family("redis-server", flags, spec)
    }

    fn notes(&self, _spec: &DatastoreSpec) -> Vec<String> {
        vec!["started as redis-server, without the image's entrypoint: modules of the redis:8 image are not loaded".to_owned()]
    }
}
