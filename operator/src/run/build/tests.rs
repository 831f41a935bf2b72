//! What would be applied for an attempt, as whole objects in `snapshots/`.

use super::*;
use crate::run::{fixtures::run, validate::validate};
use dragstrip_crds::observed::ServerTruth;
use serde_json::json;

fn settings() -> Settings {
    Settings {
        runner_image: "example.com/runner:1".into(),
        memtier_image: "example.com/memtier:2".into(),
        namespace: "dragstrip-system".into(),
    }
}

fn target() -> ReadyTarget {
    ReadyTarget {
        name: "redis".into(),
        host: "10.1.2.3".into(),
        port: 6379,
        cluster: false,
        auth: Some(serde_json::from_value(json!({"name": "pit-pass"})).unwrap()),
        truth: Some(ServerTruth {
            engine: None,
            version: "7.0.15".into(),
            threads: Some(1),
            io_interface: None,
            max_memory_bytes: None,
            max_memory_policy: None,
            cluster_enabled: false,
            loading: false,
            run_id: "server-process".into(),
            used_memory_bytes: 0,
        }),
        node: Some("worker".into()),
        datastore: true,
    }
}

fn lease() -> LeaseKey {
    LeaseKey { namespace: "races".into(), name: "dragstrip-redis".into() }
}

#[test]
fn a_loadgen_job_as_a_whole() {
    let run = validate(&run(&["read"], 1)).unwrap();
    insta::assert_yaml_snapshot!(
        "loadgen_job",
        job(&run, &run.attempts[0], &target(), &lease(), &settings()).unwrap()
    );
}

#[test]
fn memtier_runs_from_its_own_image_with_the_runner_put_in() {
    let mut memtier = run(&["read"], 1);
    memtier.spec.phases[0].loadgen = None;
    memtier.spec.phases[0].memtier = Some(serde_json::from_value(json!({"testTime": "60s"})).unwrap());
    let run = validate(&memtier).unwrap();
    let job = job(&run, &run.attempts[0], &target(), &lease(), &settings()).unwrap();
    let pod = job.spec.unwrap().template.spec.unwrap();
    assert_eq!(pod.containers[0].image.as_deref(), Some("example.com/memtier:2"));
    assert_eq!(pod.containers[0].command.as_ref().unwrap()[0], "/dragstrip/bin/dragstrip-runner");
    assert_eq!(pod.init_containers.unwrap()[0].image.as_deref(), Some("example.com/runner:1"));
}

#[test]
fn the_watchdog_follows_the_declared_duration() {
    let run = validate(&run(&["read"], 1)).unwrap();
    let told = runner_job(&run, &run.attempts[0], &target());
    assert!((told.watchdog_seconds - 19.0).abs() < 1e-9, "4 s of load and 15 s of grace");
    assert_eq!(told.target.run_id.as_deref(), Some("server-process"));
    assert_eq!(told.token, "run-uid/sprint-read-1");
}

#[test]
fn clients_of_an_external_target_keep_off_other_clients_only() {
    let run = validate(&run(&["read"], 1)).unwrap();
    let external = ReadyTarget { datastore: false, ..target() };
    let terms = |target: &ReadyTarget| {
        separation(&run, target).required_during_scheduling_ignored_during_execution.unwrap().len()
    };
    assert_eq!((terms(&target()), terms(&external)), (2, 1));
}
