//! What is particular to each engine, one file each. A new engine also changes [`rules`] and the API.

mod custom;
mod dragonfly;
mod garnet;
mod keydb;
mod redis;
mod redis_family;
mod rules;
mod valkey;

use dragstrip_crds::{DatastoreSpec, Engine, datastore::ServerProtocol};
pub use rules::EngineRules;
pub(super) use rules::{MIB, POD_IP_VARIABLE, threads};

pub fn rules(engine: Engine) -> &'static dyn EngineRules {
    match engine {
        Engine::Dragonfly => &dragonfly::Dragonfly,
        Engine::Redis => &redis::Redis,
        Engine::Valkey => &valkey::Valkey,
        Engine::KeyDB => &keydb::KeyDb,
        Engine::Garnet => &garnet::Garnet,
        Engine::Custom => &custom::Custom,
    }
}

/// Whether the server can be queried over RESP, and so has an observer that reads it.
pub fn speaks_resp(spec: &DatastoreSpec) -> bool {
    spec.custom.as_ref().is_none_or(|custom| custom.protocol == ServerProtocol::Resp)
}

/// `maxMemory` in bytes, declared or the engine's default.
pub(super) fn max_memory(spec: &DatastoreSpec) -> u64 {
    rules(spec.engine).max_memory(spec)
}
