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

/// The declared image, or that of the engine and version.
pub fn image(spec: &DatastoreSpec) -> String {
    spec.image.clone().unwrap_or_else(|| rules(spec.engine).default_image(spec.version.as_deref()))
}

/// Whether the server can be queried over RESP, and so has an observer that reads it.
pub fn speaks_resp(spec: &DatastoreSpec) -> bool {
    spec.custom.as_ref().is_none_or(|custom| custom.protocol == ServerProtocol::Resp)
}

/// `maxMemory` in bytes, declared or the engine's default.
pub(super) fn max_memory(spec: &DatastoreSpec) -> u64 {
    rules(spec.engine).max_memory(spec)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn declared(engine: &str, persistence: &Value) -> DatastoreSpec {
        serde_json::from_value(json!({"engine": engine, "threads": 1, "persistence": persistence})).unwrap()
    }

    #[test]
    fn persistence_becomes_arguments_of_the_engine_and_what_it_must_show() {
        let file = |fsync: &str| json!({"appendOnly": true, "fsync": fsync});
        for (engine, persistence, arguments, shown) in [
            ("Redis", json!({}), "|--save||--appendonly|no|", vec![("save", ""), ("appendonly", "no")]),
            (
                "Valkey",
                json!({"appendOnly": true, "snapshotInterval": "2m", "snapshotChanges": 500}),
                "|--save|120|500|--appendonly|yes|--appendfsync|everysec|",
                vec![("save", "120 500"), ("appendonly", "yes"), ("appendfsync", "everysec")],
            ),
            (
                "KeyDB",
                file("Never"),
                "|--save||--appendonly|yes|--appendfsync|no|",
                vec![("save", ""), ("appendonly", "yes"), ("appendfsync", "no")],
            ),
            ("Dragonfly", Value::Null, "|--dbfilename=|", vec![("snapshot_cron", "")]),
            (
                "Dragonfly",
                json!({"snapshotInterval": "5m"}),
                "|--dbfilename=dump|--version_check=false|--snapshot_cron=*/5 * * * *|",
                vec![("snapshot_cron", "*/5 * * * *")],
            ),
            (
                "Garnet",
                file("Always"),
                "|--aof|--recover|--aof-commit-freq|0|--aof-commit-wait|",
                vec![("appendonly", "yes"), ("aof-commit-freq", "0"), ("aof-commit-wait", "yes")],
            ),
            (
                "Garnet",
                file("EverySecond"),
                "|--aof|--recover|--aof-commit-freq|1000|",
                vec![("appendonly", "yes"), ("aof-commit-freq", "1000"), ("aof-commit-wait", "no")],
            ),
        ] {
            let spec = declared(engine, &persistence);
            let command = format!("{}|", rules(spec.engine).command(&spec).join("|"));
            assert!(command.contains(arguments), "{engine} {persistence}: {command}");
            let settings = rules(spec.engine).persistence(&spec);
            let settings: Vec<_> = settings.iter().map(|(name, value)| (*name, value.as_str())).collect();
            assert_eq!(settings, shown, "{engine} {persistence}");
        }
        let garnet = declared("Garnet", &json!({"appendOnly": false}));
        let command = rules(garnet.engine).command(&garnet).join(" ");
        assert!(!command.contains("--aof"), "{command}");
    }
}
