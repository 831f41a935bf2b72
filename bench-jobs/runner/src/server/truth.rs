//! What a server is, out of its INFO. Pure. Every engine's way of telling is
//! here and nowhere else.

use crate::server::info::Info;
use dragstrip_crds::{Engine, observed::ServerTruth};

/// The engine, told by the fields that only it has. `redis_version` is asked
/// last: all the others report one too, for compatibility.
pub fn detect_engine(info: &Info) -> Option<Engine> {
    let named = |name: &str| info.text("server_name") == Some(name);
    if info.text("dragonfly_version").is_some() {
        Some(Engine::Dragonfly)
    } else if info.text("garnet_version").is_some() || named("garnet") {
        Some(Engine::Garnet)
    } else if info.text("valkey_version").is_some() || named("valkey") {
        Some(Engine::Valkey)
    } else if info.text("server_threads").is_some() {
        Some(Engine::KeyDB)
    } else {
        info.text("redis_version").map(|_| Engine::Redis)
    }
}

/// The server's own account of itself. `io_threads` is CONFIG GET io-threads,
/// where the server answers that.
pub fn read_truth(info: &Info, io_threads: Option<i32>) -> ServerTruth {
    let engine = detect_engine(info);
    ServerTruth {
        engine,
        version: version(info, engine),
        threads: threads(info, engine, io_threads),
        io_interface: info.text("multiplexing_api").map(str::to_owned),
        max_memory_bytes: info.number("maxmemory"),
        max_memory_policy: info.text("maxmemory_policy").map(str::to_owned),
        cluster_enabled: info.flag("cluster_enabled") || info.text("redis_mode") == Some("cluster"),
        loading: info.flag("loading"),
        run_id: run_id(info),
        used_memory_bytes: info.number("used_memory").unwrap_or_default(),
        role: info.text("role").map(str::to_owned),
    }
}

/// What identifies this server process. Dragonfly and others without `run_id`
/// draw a new replication id whenever they start.
pub fn run_id(info: &Info) -> String {
    ["run_id", "master_replid", "process_id"]
        .iter()
        .find_map(|name| info.text(name))
        .unwrap_or_default()
        .to_owned()
}

fn version(info: &Info, engine: Option<Engine>) -> String {
    let field = match engine {
        Some(Engine::Dragonfly) => "dragonfly_version",
        Some(Engine::Garnet) => "garnet_version",
        Some(Engine::Valkey) => "valkey_version",
        Some(Engine::KeyDB | Engine::Redis | Engine::Custom) | None => "redis_version",
    };
    let written = info.text(field).or_else(|| info.text("redis_version")).unwrap_or_default();
    // Dragonfly writes df-v1.40.1.
    written.trim_start_matches("df-").trim_start_matches('v').to_owned()
}

fn threads(info: &Info, engine: Option<Engine>, io_threads: Option<i32>) -> Option<i32> {
    match engine? {
        Engine::Dragonfly => info.number("thread_count"),
        Engine::KeyDB => info.number("server_threads"),
        Engine::Redis | Engine::Valkey => io_threads,
        Engine::Garnet | Engine::Custom => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAGONFLY: &str = include_str!("../../tests/fixtures/dragonfly/info_all_after_memtier_2t.txt");

    #[test]
    fn dragonfly_tells_its_own_version_and_threads() {
        let truth = read_truth(&Info::parse(DRAGONFLY), Some(9));
        assert_eq!(truth.engine, Some(Engine::Dragonfly));
        assert_eq!((truth.version.as_str(), truth.threads), ("1.40.1", Some(2)));
        assert_eq!(truth.io_interface.as_deref(), Some("iouring"));
        assert_eq!(truth.max_memory_bytes, Some(2_147_483_648));
        assert_eq!(truth.max_memory_policy.as_deref(), Some("noeviction"));
        assert_eq!(truth.run_id, "9216a1d4e80564b3ca769a2f7590656582c79ed1");
        assert_eq!(truth.used_memory_bytes, 1_002_864);
        assert!(!truth.cluster_enabled && !truth.loading);
    }

    #[test]
    fn another_dragonfly_process_has_another_identity() {
        let other = include_str!("../../tests/fixtures/dragonfly/info_all_threads1.txt");
        let other = read_truth(&Info::parse(other), None);
        assert_eq!(other.threads, Some(1));
        assert_ne!(other.run_id, read_truth(&Info::parse(DRAGONFLY), None).run_id);
    }

    #[test]
    fn every_engine_is_told_by_its_own_field() {
        for (text, engine, version, threads) in [
            (
                "redis_version:7.2.4\nvalkey_version:8.1.1\nserver_name:valkey",
                Engine::Valkey,
                "8.1.1",
                Some(6),
            ),
            ("redis_version:7.0.15\nrun_id:a", Engine::Redis, "7.0.15", Some(6)),
            ("redis_version:6.3.4\nserver_threads:3", Engine::KeyDB, "6.3.4", Some(3)),
            ("redis_version:7.4.3\ngarnet_version:1.0.60", Engine::Garnet, "1.0.60", None),
        ] {
            let truth = read_truth(&Info::parse(text), Some(6));
            assert_eq!(
                (truth.engine, truth.version.as_str(), truth.threads),
                (Some(engine), version, threads)
            );
        }
    }

    #[test]
    fn something_that_is_no_known_engine_stays_unnamed() {
        assert_eq!(read_truth(&Info::parse("hello:world"), None).engine, None);
    }

    #[test]
    fn cluster_mode_is_seen_in_either_field() {
        assert!(read_truth(&Info::parse("cluster_enabled:1"), None).cluster_enabled);
        assert!(read_truth(&Info::parse("redis_mode:cluster"), None).cluster_enabled);
    }
}
