//! What the running server says of itself must be what the manifest says. Pure.

use super::engines;
use dragstrip_crds::{DatastoreSpec, Engine, observed::ServerTruth};
use dragstrip_results::protocol::TopologyMember;

/// Whether `actual` is `declared` or a longer form of it: 8.0 allows 8.0.2, not 8.01.
fn version_agrees(declared: &str, actual: &str) -> bool {
    let (declared, actual) = (declared.trim_start_matches('v'), actual.trim_start_matches('v'));
    actual.strip_prefix(declared).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '-']))
}

/// Every difference, as a sentence with both values; empty when all agrees.
/// What an engine does not report (absent in `truth`) is not compared.
pub fn disagreements(spec: &DatastoreSpec, truth: &ServerTruth) -> Vec<String> {
    // What a custom server reports means whatever its author says.
    let custom = spec.engine == Engine::Custom;
    let mut found = Vec::new();
    match truth.engine {
        _ if custom => {}
        Some(engine) if engine == spec.engine => {}
        Some(engine) => found.push(format!("engine: declared {}, the server is {engine}", spec.engine)),
        None => found.push(format!("engine: declared {}, the server is an unknown engine", spec.engine)),
    }
    if let Some(declared) = &spec.version
        && !version_agrees(declared, &truth.version)
    {
        found.push(format!("version: declared {declared}, the server is {}", truth.version));
    }
    if !custom {
        found.extend(settings(spec, truth));
    }
    found
}

fn settings(spec: &DatastoreSpec, truth: &ServerTruth) -> Vec<String> {
    let threads = truth.threads.filter(|threads| *threads != spec.threads);
    let declared_memory = i64::try_from(engines::max_memory(spec)).unwrap_or(i64::MAX);
    let memory = truth.max_memory_bytes.filter(|bytes| *bytes != declared_memory);
    let declared_policy = spec.eviction_policy();
    let policy = truth.max_memory_policy.as_deref().filter(|policy| *policy != declared_policy);
    let clustered = spec.cluster.is_some() || spec.emulates_cluster();
    let mode = |on| if on { "on" } else { "off" };
    let differences = [
        threads.map(|it| format!("threads: declared {}, the server runs {it}", spec.threads)),
        memory.map(|it| format!("maxMemory: declared {declared_memory} bytes, the server has {it}")),
        policy.map(|it| format!("evictionPolicy: declared {declared_policy}, the server has {it}")),
        (clustered != truth.cluster_enabled).then(|| {
            let (declared, actual) = (mode(clustered), mode(truth.cluster_enabled));
            format!("cluster mode: declared {declared}, the server says {actual}")
        }),
    ];
    let rules = engines::rules(spec.engine);
    let persistence = rules.persistence(spec).into_iter().filter_map(|(name, declared)| {
        let actual = truth.persistence.get(name).filter(|actual| **actual != declared)?;
        Some(format!("persistence: declared {name} {declared:?}, the server has {actual:?}"))
    });
    let of_engine = rules.disagreements(spec, truth);
    differences.into_iter().flatten().chain(persistence).chain(of_engine).collect()
}

/// Every difference of one of several servers, which is named.
pub fn member_disagreements(spec: &DatastoreSpec, member: &TopologyMember) -> Vec<String> {
    let Some(truth) = &member.truth else {
        return Vec::new();
    };
    let mut found = disagreements(spec, truth);
    let declared = match member.role.as_str() {
        "replica" => ["slave", "replica"],
        _ => ["master", "primary"],
    };
    if let Some(role) = &truth.role
        && !declared.contains(&role.as_str())
    {
        found.push(format!("role: declared {}, the server says {role}", member.role));
    }
    found.into_iter().map(|text| format!("{}: {text}", member.address)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn declared() -> DatastoreSpec {
        serde_json::from_value(serde_json::json!({
            "engine": "Redis", "version": "8.0", "threads": 2, "maxMemory": "1Gi"
        }))
        .unwrap()
    }

    fn truth() -> ServerTruth {
        ServerTruth {
            engine: Some(Engine::Redis),
            version: "8.0.2".into(),
            threads: Some(2),
            io_interface: Some("epoll".into()),
            max_memory_bytes: Some(1 << 30),
            max_memory_policy: Some("noeviction".into()),
            persistence: BTreeMap::new(),
            cluster_enabled: false,
            loading: false,
            run_id: "abc".into(),
            used_memory_bytes: 1,
            role: Some("master".into()),
        }
    }

    #[test]
    fn a_server_that_is_what_was_declared_has_no_disagreement() {
        assert_eq!(disagreements(&declared(), &truth()), Vec::<String>::new());
    }

    #[test]
    fn each_difference_names_both_values() {
        let other = ServerTruth {
            engine: Some(Engine::Valkey),
            version: "8.01".into(),
            threads: Some(1),
            max_memory_bytes: Some(5),
            max_memory_policy: Some("allkeys-lru".into()),
            ..truth()
        };
        assert_eq!(
            disagreements(&declared(), &other),
            [
                "engine: declared Redis, the server is Valkey",
                "version: declared 8.0, the server is 8.01",
                "threads: declared 2, the server runs 1",
                "maxMemory: declared 1073741824 bytes, the server has 5",
                "evictionPolicy: declared noeviction, the server has allkeys-lru",
            ]
        );
        let cache = DatastoreSpec { eviction_policy: Some("allkeys-lru".into()), ..declared() };
        let lru = ServerTruth { max_memory_policy: Some("allkeys-lru".into()), ..truth() };
        assert_eq!(disagreements(&cache, &lru), Vec::<String>::new());
        assert_eq!(
            disagreements(&cache, &truth()),
            ["evictionPolicy: declared allkeys-lru, the server has noeviction"]
        );
    }

    #[test]
    fn each_setting_of_persistence_is_compared_declared_or_not() {
        let with = |persistence: serde_json::Value| DatastoreSpec {
            persistence: serde_json::from_value(persistence).unwrap(),
            ..declared()
        };
        let says = |settings: &[(&str, &str)]| ServerTruth {
            persistence: settings.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect(),
            ..truth()
        };
        let off = says(&[("appendonly", "no"), ("save", "")]);
        let behind = says(&[("appendonly", "yes"), ("appendfsync", "everysec"), ("save", "60 9")]);
        for nothing in [serde_json::Value::Null, serde_json::json!({"appendOnly": false})] {
            assert_eq!(disagreements(&with(nothing.clone()), &off), Vec::<String>::new(), "{nothing}");
            assert_eq!(
                disagreements(&with(nothing), &behind),
                [
                    r#"persistence: declared save "", the server has "60 9""#,
                    r#"persistence: declared appendonly "no", the server has "yes""#,
                ]
            );
        }
        let always =
            with(serde_json::json!({"appendOnly": true, "fsync": "Always", "snapshotInterval": "5m"}));
        let as_declared = says(&[("appendonly", "yes"), ("appendfsync", "always"), ("save", "300 1")]);
        assert_eq!(disagreements(&always, &as_declared), Vec::<String>::new());
        let slower = says(&[("appendonly", "yes"), ("appendfsync", "everysec"), ("save", "300 1")]);
        assert_eq!(
            disagreements(&always, &slower),
            [r#"persistence: declared appendfsync "always", the server has "everysec""#]
        );
    }

    #[test]
    fn cluster_mode_is_compared_in_both_directions() {
        let cluster: DatastoreSpec = serde_json::from_value(serde_json::json!({
            "engine": "Redis", "threads": 2, "maxMemory": "1Gi", "cluster": {"shards": 3}
        }))
        .unwrap();
        assert_eq!(disagreements(&cluster, &truth()), ["cluster mode: declared on, the server says off"]);
        let enabled = ServerTruth { cluster_enabled: true, ..truth() };
        assert_eq!(disagreements(&cluster, &enabled), Vec::<String>::new());
        let plain = DatastoreSpec { version: None, cluster: None, ..cluster };
        assert_eq!(disagreements(&plain, &enabled), ["cluster mode: declared off, the server says on"]);
    }

    #[test]
    fn an_emulated_cluster_is_compared_in_both_directions() {
        let declared = |emulated: bool| -> DatastoreSpec {
            serde_json::from_value(serde_json::json!({
                "engine": "Dragonfly", "threads": 2, "maxMemory": "1Gi", "dragonfly": {"emulatedCluster": emulated}
            }))
            .unwrap()
        };
        let says = |cluster_enabled| ServerTruth {
            engine: Some(Engine::Dragonfly),
            version: "1.40.1".into(),
            cluster_enabled,
            ..truth()
        };
        assert_eq!(disagreements(&declared(true), &says(true)), Vec::<String>::new());
        assert_eq!(disagreements(&declared(false), &says(false)), Vec::<String>::new());
        assert_eq!(
            disagreements(&declared(true), &says(false)),
            ["cluster mode: declared on, the server says off"]
        );
        let found = disagreements(&declared(false), &says(true));
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[1].contains("spec.dragonfly.emulatedCluster: true"), "{found:?}");
    }

    #[test]
    fn one_of_several_servers_is_named() {
        let member = |role: &str, truth| TopologyMember {
            address: "10.0.0.7:6379".parse().unwrap(),
            truth,
            role: role.into(),
            slots: None,
        };
        let slow = ServerTruth { threads: Some(1), ..truth() };
        assert_eq!(
            member_disagreements(&declared(), &member("primary", Some(slow))),
            ["10.0.0.7:6379: threads: declared 2, the server runs 1"]
        );
        assert_eq!(
            member_disagreements(&declared(), &member("replica", Some(truth()))),
            ["10.0.0.7:6379: role: declared replica, the server says master"]
        );
        let following = ServerTruth { role: Some("slave".into()), ..truth() };
        assert_eq!(
            member_disagreements(&declared(), &member("replica", Some(following))),
            Vec::<String>::new()
        );
        assert_eq!(member_disagreements(&declared(), &member("replica", None)), Vec::<String>::new());
    }

    #[test]
    fn of_a_custom_server_only_the_version_is_compared() {
        let custom = |version: &str| -> DatastoreSpec {
            serde_json::from_value(serde_json::json!({
                "engine": "Custom", "threads": 7, "image": "i", "version": version,
                "custom": {"protocol": "Resp"}
            }))
            .unwrap()
        };
        assert_eq!(disagreements(&custom("8.0"), &truth()), Vec::<String>::new());
        assert_eq!(disagreements(&custom("9"), &truth()), ["version: declared 9, the server is 8.0.2"]);
    }

    #[test]
    fn what_an_engine_does_not_report_is_not_compared() {
        let silent =
            ServerTruth { threads: None, max_memory_bytes: None, max_memory_policy: None, ..truth() };
        assert_eq!(disagreements(&declared(), &silent), Vec::<String>::new());
    }

    #[test]
    fn dragonfly_on_epoll_is_refused_only_where_io_uring_is_required() {
        let spec = |io_uring: &str| -> DatastoreSpec {
            serde_json::from_value(serde_json::json!({
                "engine": "Dragonfly", "threads": 2, "maxMemory": "1Gi", "ioUring": io_uring
            }))
            .unwrap()
        };
        let epoll = ServerTruth { engine: Some(Engine::Dragonfly), version: "1.40.1".into(), ..truth() };
        assert_eq!(disagreements(&spec("Prefer"), &epoll), Vec::<String>::new());
        let found = disagreements(&spec("Require"), &epoll);
        assert!(found[0].contains("declared Require, the server uses epoll"), "{found:?}");
    }
}
