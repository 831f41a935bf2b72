//! Redis. `--io-threads` counts the main thread; it is fixed at start-up.

use super::{
    redis_family::redis_family,
    rules::{EngineRules, major},
};
use dragstrip_crds::DatastoreSpec;

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
        let reads = if spec.threads > 1 { "--io-threads-do-reads yes" } else { "" };
        let flags = format!("--io-threads {} {reads}", spec.threads);
        redis_family("redis-server", &flags, spec, self)
    }

    fn refuse(&self, spec: &DatastoreSpec) -> Option<String> {
        let old = spec.version.as_deref().and_then(major).is_some_and(|major| major < 7);
        (old && spec.cluster.is_some()).then(|| {
            "spec.cluster needs Redis 7.0 or later, for CLUSTER ADDSLOTSRANGE: declare a later spec.version"
                .to_owned()
        })
    }

    fn notes(&self, spec: &DatastoreSpec) -> Vec<String> {
        let mut notes = vec!["started as redis-server, without the image's entrypoint: modules of the redis:8 image are not loaded".to_owned()];
        let threaded = spec.version.as_deref().and_then(major).is_none_or(|major| major >= 8);
        if spec.tls.is_some() && spec.threads > 1 && !threaded {
            notes.push("Redis 7 does not use its I/O threads for encrypted connections".to_owned());
        }
        notes
    }
}
