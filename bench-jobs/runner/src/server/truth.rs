//! What a server is, out of its INFO and settings. Pure. Only this module knows how each engine
//! identifies itself.

use crate::server::info::Info;
use dragstrip_crds::{Engine, observed::ServerTruth};
use std::collections::BTreeMap;

/// Values by name, as CONFIG GET shows them.
pub type Settings = BTreeMap<String, String>;

/// The version fields that only one engine has.
const VERSION_FIELDS: [(Engine, &str); 3] = [
    (Engine::Dragonfly, "dragonfly_version"),
    (Engine::Garnet, "garnet_version"),
    (Engine::Valkey, "valkey_version"),
];

/// The settings of persistence of every engine.
const PERSISTENCE: [&str; 3] = ["appendonly", "save", "snapshot_cron"];
/// Those that have no effect without an append-only file.
const APPEND_ONLY: [&str; 3] = ["appendfsync", "aof-commit-freq", "aof-commit-wait"];

/// The engine, by the fields that only it has. `redis_version` comes
/// last: all the others report one too, for compatibility.
pub fn detect_engine(info: &Info) -> Option<Engine> {
    let later = [(Engine::KeyDB, "server_threads"), (Engine::Redis, "redis_version")];
    let mut fields = VERSION_FIELDS.into_iter().chain(later);
    fields.find(|(_, field)| info.text(field).is_some()).map(|(engine, _)| engine)
}

/// The server's own account of itself. `run_id` is what identifies its process
/// ([`identity`]); `settings` are empty where it does not show them.
pub fn read_truth(info: &Info, run_id: String, settings: &Settings) -> ServerTruth {
    let engine = detect_engine(info);
    ServerTruth {
        engine,
        version: version(info),
        threads: threads(info, engine, settings),
        io_interface: info.text("multiplexing_api").map(str::to_owned),
        max_memory_bytes: info.number("maxmemory"),
        // Dragonfly has one mode that evicts, and reports as its policy that it does.
        max_memory_policy: info
            .text("cache_mode")
            .filter(|mode| *mode == "cache")
            .or_else(|| info.text("maxmemory_policy"))
            .map(str::to_owned),
        persistence: persistence(settings),
        cluster_enabled: info.flag("cluster_enabled") || info.text("redis_mode") == Some("cluster"),
        loading: info.flag("loading"),
        run_id,
        used_memory_bytes: info.number("used_memory").unwrap_or_default(),
        role: info.text("role").map(str::to_owned),
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Identity {
    /// An id that the process drew when it started.
    Drawn(String),
    /// No id in INFO: its number, and the seconds that it has
    /// run. The number alone does not identify it: in a container it is the same after a
    /// restart. [`started_as`] makes one of both.
    Started {
        process: u32,
        /// Whole seconds since it started, by its own clock.
        uptime_seconds: u64,
    },
    /// The server reports nothing that a restart would change.
    Unknown,
}

/// What distinguishes the server's process from the one before it: each engine has its own
/// way. Dragonfly has no such id (its replication id is, on a replica, the
/// primary's); all the others draw a `run_id` at every start.
pub fn identity(info: &Info) -> Identity {
    let drawn = info.text("run_id").filter(|_| detect_engine(info) != Some(Engine::Dragonfly));
    let started = || {
        let (process, uptime_seconds) = info.number("process_id").zip(info.number("uptime_in_seconds"))?;
        Some(Identity::Started { process, uptime_seconds })
    };
    drawn.map(|id| Identity::Drawn(id.to_owned())).or_else(started).unwrap_or(Identity::Unknown)
}

/// Identifies a process by its number and the second of its start (Unix time).
pub fn started_as(process: u32, started_unix_seconds: u64) -> String {
    format!("{process}@{started_unix_seconds}")
}

fn version(info: &Info) -> String {
    let mut fields = VERSION_FIELDS.iter().map(|(_, field)| *field).chain(["redis_version"]);
    let written = fields.find_map(|field| info.text(field)).unwrap_or_default();
    // Dragonfly writes df-v1.40.1.
    written.trim_start_matches("df-").trim_start_matches('v').to_owned()
}

fn persistence(settings: &Settings) -> Settings {
    let appends = settings.get("appendonly").is_some_and(|value| value == "yes");
    let names = PERSISTENCE.iter().chain(APPEND_ONLY.iter().filter(|_| appends));
    names.filter_map(|name| Some(((*name).to_owned(), settings.get(*name)?.clone()))).collect()
}

fn threads(info: &Info, engine: Option<Engine>, settings: &Settings) -> Option<i32> {
    match engine? {
        Engine::Dragonfly => info.number("thread_count"),
        Engine::KeyDB => info.number("server_threads"),
        Engine::Redis | Engine::Valkey => settings.get("io-threads")?.parse().ok(),
        Engine::Garnet | Engine::Custom => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(pairs: &[(&str, &str)]) -> Settings {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    const DRAGONFLY: &str = include_str!("../../tests/fixtures/dragonfly/info_all_after_memtier_2t.txt");

    #[test]
    fn dragonfly_reports_its_own_version_and_threads() {
        let truth = read_truth(&Info::parse(DRAGONFLY), "7@1".into(), &settings(&[("io-threads", "9")]));
        assert_eq!(truth.engine, Some(Engine::Dragonfly));
        assert_eq!((truth.version.as_str(), truth.threads), ("1.40.1", Some(2)));
        assert_eq!(truth.io_interface.as_deref(), Some("iouring"));
        assert_eq!(truth.max_memory_bytes, Some(2_147_483_648));
        assert_eq!(truth.max_memory_policy.as_deref(), Some("noeviction"));
        assert_eq!(truth.run_id, "7@1");
        assert_eq!(truth.used_memory_bytes, 1_002_864);
        assert!(!truth.cluster_enabled && !truth.loading);
        let cache = DRAGONFLY.replace("cache_mode:store", "cache_mode:cache");
        let policy = read_truth(&Info::parse(&cache), "7@1".into(), &Settings::new()).max_memory_policy;
        assert_eq!(policy.as_deref(), Some("cache"), "it is what a Datastore declares");
    }

    #[test]
    fn every_engines_process_is_identified_by_what_a_restart_changes() {
        let drawn = |id: &str| Identity::Drawn(id.to_owned());
        let started = |process, uptime_seconds| Identity::Started { process, uptime_seconds };
        // A replica's replication id is its primary's, and a container's process number never changes.
        let replica = "dragonfly_version:df-v1.40.1\nprocess_id:1\nuptime_in_seconds:9\nrole:slave\nmaster_replid:of-primary";
        for (sentence, info, expected) in [
            (
                "Redis",
                "redis_version:8.0.2\nprocess_id:1\nrun_id:a\nuptime_in_seconds:9\nmaster_replid:r",
                drawn("a"),
            ),
            (
                "Valkey",
                "redis_version:7.2.4\nvalkey_version:9.1.0\nprocess_id:1\nrun_id:b\nmaster_replid:r",
                drawn("b"),
            ),
            (
                "KeyDB",
                "redis_version:6.3.4\nserver_threads:2\nprocess_id:1\nrun_id:c\nmaster_replid:r",
                drawn("c"),
            ),
            (
                "Garnet",
                "garnet_version:2.2.10\nredis_version:7.4.3\nuptime_in_seconds:9\nrun_id:d",
                drawn("d"),
            ),
            ("Dragonfly", DRAGONFLY, started(24038, 8)),
            ("a replica of Dragonfly", replica, started(1, 9)),
            ("an unknown server with an id", "run_id:e\nprocess_id:1\nuptime_in_seconds:9", drawn("e")),
            ("an unknown server", "process_id:1\nuptime_in_seconds:9", started(1, 9)),
            ("a server that reports no uptime", "process_id:1", Identity::Unknown),
        ] {
            assert_eq!(identity(&Info::parse(info)), expected, "{sentence}");
        }
    }

    #[test]
    fn every_engine_is_detected_by_its_own_field() {
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
            let truth = read_truth(&Info::parse(text), String::new(), &settings(&[("io-threads", "6")]));
            assert_eq!(
                (truth.engine, truth.version.as_str(), truth.threads),
                (Some(engine), version, threads)
            );
        }
    }

    #[test]
    fn an_unknown_engine_stays_unnamed() {
        assert_eq!(read_truth(&Info::parse("hello:world"), String::new(), &Settings::new()).engine, None);
    }

    #[test]
    fn cluster_mode_is_seen_in_either_field() {
        for text in ["cluster_enabled:1", "redis_mode:cluster"] {
            let truth = read_truth(&Info::parse(text), String::new(), &Settings::new());
            assert!(truth.cluster_enabled, "{text}");
        }
    }

    #[test]
    fn persistence_is_what_the_settings_say_that_have_an_effect() {
        let read = |pairs: &[(&str, &str)]| {
            read_truth(&Info::default(), String::new(), &settings(pairs)).persistence
        };
        let redis = [("appendonly", "yes"), ("appendfsync", "always"), ("save", "300 1")];
        assert_eq!(read(&[redis[0], redis[1], redis[2], ("maxmemory", "5")]), settings(&redis));
        let dragonfly = [("snapshot_cron", "*/5 * * * *")];
        assert_eq!(read(&dragonfly), settings(&dragonfly));
        let garnet = [("appendonly", "yes"), ("aof-commit-freq", "0"), ("aof-commit-wait", "yes")];
        assert_eq!(read(&garnet), settings(&garnet));
        assert_eq!(
            read(&[
                ("appendonly", "no"),
                ("appendfsync", "everysec"),
                ("aof-commit-freq", "0"),
                ("save", "")
            ]),
            settings(&[("appendonly", "no"), ("save", "")]),
            "without a file its settings mean nothing"
        );
    }
}
