//! What would be applied for an attempt, as whole objects in `snapshots/`.

use super::{placement::separation, pod::runner_job, *};
use crate::fixtures::{self, run};
use dragstrip_core::{
    nodes,
    pods::CLIENT_CONTAINER,
    run::{
        decide::{Connection, TargetTls, Turn},
        merge::merge,
        search::settle,
        stored_result::StoredResult,
        validate::validate,
    },
};
use dragstrip_results::{
    protocol::{JobMember, JobTls},
    result::FailureStep,
};
use k8s_openapi::{api::core::v1::PodSpec, apimachinery::pkg::api::resource::Quantity};
use kube::ResourceExt;
use serde_json::json;

fn settings() -> Settings {
    crate::cluster::settings::tests::settings(&[])
}

fn target() -> ReadyTarget {
    let auth = Some(serde_json::from_value(json!({"name": "pit-pass"})).unwrap());
    let target = fixtures::target();
    ReadyTarget { connection: Connection { auth, ..target.connection.clone() }, ..target }
}

/// The pod of the first attempt of a run with one phase and so many clients.
fn pod(phase: serde_json::Value, clients: serde_json::Value, target: &ReadyTarget) -> PodSpec {
    let mut phase = phase;
    phase["name"] = json!("read");
    let mut run = run(&[], 1);
    run.spec.phases = vec![serde_json::from_value(phase).unwrap()];
    run.spec.clients = serde_json::from_value(clients).unwrap();
    let run = validate(&run).unwrap();
    let job = job(&run, &run.attempts[0], target, &turn(), &settings()).unwrap();
    job.spec.unwrap().template.spec.unwrap()
}

fn loadgen() -> serde_json::Value {
    json!({"loadgen": {"duration": "1s"}})
}

/// A turn with this node for the clients.
fn turn() -> TurnCheck {
    TurnCheck {
        turn: Turn::Held,
        missing: Vec::new(),
        held: Vec::new(),
        client_nodes: vec!["client-1".into()],
        no_node: None,
        wanted: Vec::new(),
        unplaceable: None,
    }
}

#[test]
fn a_loadgen_job_as_a_whole() {
    let run = validate(&run(&["read"], 1)).unwrap();
    insta::assert_yaml_snapshot!(
        "loadgen_job",
        job(&run, &run.attempts[0], &target(), &turn(), &settings()).unwrap()
    );
}

#[test]
fn a_tool_with_files_and_a_user_in_a_pod_with_settings_and_cpus_of_its_own() {
    let mut run = run(&[], 1);
    let exec = json!({"name": "bench", "exec": {
        "image": "ycsb:1", "command": ["ycsb"], "user": 1000, "parser": {"redisBenchmarkCsv": {}},
        "files": [{"configMap": "workloads", "mountPath": "/workloads"}],
    }});
    run.spec.phases = vec![serde_json::from_value(exec).unwrap()];
    let clients = json!({
        "cpu": {"exclusive": true}, "resources": {"limits": {"cpu": "4"}}, "shareServerNode": true,
        "pod": {
            "labels": {"team": "caches"},
            "annotations": {"sidecar.istio.io/inject": "false"},
            "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                {"matchExpressions": [{"key": "pool", "operator": "Exists"}]}
            ]}}},
            "topologySpreadConstraints": [
                {"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule"}
            ],
            "serviceAccountName": "bench", "automountServiceAccountToken": true,
            "hostNetwork": true,
            "volumes": [{"mountPath": "/data"}],
        },
    });
    run.spec.clients = serde_json::from_value(clients).unwrap();
    let run = validate(&run).unwrap();
    let job = job(&run, &run.attempts[0], &target(), &turn(), &settings()).unwrap();
    insta::assert_yaml_snapshot!("pod_settings_job", job.spec.unwrap().template);
}

/// What the client of this phase requests and is limited to, on nodes that there are or not.
fn amounts(phase: serde_json::Value, clients: serde_json::Value, placed: bool) -> serde_json::Value {
    let mut run = run(&[], 1);
    let named = |(index, mut phase): (usize, serde_json::Value)| {
        phase["name"] = json!(format!("p{index}"));
        serde_json::from_value(phase).unwrap()
    };
    run.spec.phases = [phase, loadgen()].into_iter().enumerate().map(named).collect();
    run.spec.clients = serde_json::from_value(clients).unwrap();
    let run = validate(&run).unwrap();
    let turn =
        TurnCheck { client_nodes: turn().client_nodes.into_iter().filter(|_| placed).collect(), ..turn() };
    let job = job(&run, &run.attempts[1], &target(), &turn, &settings()).unwrap();
    let pod = job.spec.unwrap().template.spec.unwrap();
    serde_json::to_value(&pod.containers[0].resources).unwrap()
}

#[test]
fn clients_for_which_a_node_must_be_made_ask_for_one_with_a_cpu_for_each_load_thread() {
    let memtier = |threads: i32| json!({"memtier": {"testTime": "2s", "threads": threads}});
    let request = |phase, clients, placed| amounts(phase, clients, placed)["requests"]["cpu"].clone();
    assert_eq!(request(memtier(16), json!({}), true), "100m", "its node is there, and is its own");
    assert_eq!(
        request(memtier(16), json!({}), false),
        "15",
        "16 threads on a machine with 16 CPUs leave room for daemons"
    );
    assert_eq!(request(loadgen(), json!({}), false), "500m");
    let declared = json!({"resources": {"requests": {"cpu": "3"}}});
    assert_eq!(request(memtier(16), declared, false), "3", "what is declared holds");
    let limited = json!({"resources": {"limits": {"cpu": "16"}}});
    assert_eq!(request(memtier(16), limited, false), json!(null), "the limit is the request");
}

#[test]
fn clients_with_cpus_of_their_own_have_whole_ones_and_requests_that_equal_limits() {
    let phase = || json!({"memtier": {"testTime": "2s", "threads": 4}});
    for placed in [true, false] {
        let found = amounts(phase(), json!({"cpu": {"exclusive": true}}), placed);
        let both = json!({"cpu": "4", "memory": "1536Mi"});
        assert_eq!(found, json!({"requests": both, "limits": both}));
    }
    let declared = json!({"cpu": {"exclusive": true}, "resources": {"requests": {"cpu": "6"}, "limits": {"memory": "2Gi"}}});
    let both = json!({"cpu": "6", "memory": "2Gi"});
    assert_eq!(amounts(phase(), declared, true), json!({"requests": both, "limits": both}));
}

#[test]
fn memtier_runs_from_its_own_image_with_the_runner_put_in() {
    let mut memtier = run(&["read"], 1);
    memtier.spec.phases[0].tool = serde_json::from_value(json!({"memtier": {"testTime": "60s"}})).unwrap();
    let run = validate(&memtier).unwrap();
    let job = job(&run, &run.attempts[0], &target(), &turn(), &settings()).unwrap();
    let pod = job.spec.unwrap().template.spec.unwrap();
    assert_eq!(pod.containers[0].image.as_deref(), Some("example.com/memtier:2"));
    assert_eq!(pod.containers[0].command.as_ref().unwrap()[0], "/dragstrip/bin/dragstrip-runner");
    assert_eq!(pod.init_containers.unwrap()[0].image.as_deref(), Some("example.com/runner:1"));
}

#[test]
fn the_watchdog_follows_the_declared_duration() {
    let run = validate(&run(&["read"], 1)).unwrap();
    let reported = runner_job(&run, &run.attempts[0], &target(), &settings());
    assert!((reported.watchdog_seconds - 20.0).abs() < 1e-9, "1 s of warm-up, 4 s of load, 15 s of grace");
    assert_eq!(reported.target.run_id.as_deref(), Some("server-process"));
    assert_eq!(reported.token, "run-uid/sprint-read-1");
}

#[test]
fn clients_stay_for_two_scrapes_and_never_long() {
    let run = validate(&run(&["read"], 1)).unwrap();
    for (interval, expected) in [(0.0, 0.0), (1.0, 2.0), (30.0, 10.0), (-1.0, 0.0)] {
        let settings = Settings { scrape_interval_seconds: interval, ..settings() };
        let reported = runner_job(&run, &run.attempts[0], &target(), &settings).linger_seconds;
        assert!((reported - expected).abs() < 1e-9, "{reported} s for scrapes every {interval} s");
    }
}

#[test]
fn clients_keep_off_all_servers_and_other_clients_by_one_term() {
    let terms = |share: bool| {
        let mut run = run(&["read"], 1);
        run.spec.clients.share_server_node = share;
        let run = validate(&run).unwrap();
        let terms = separation(&run, &run.attempts[0]).required_during_scheduling_ignored_during_execution;
        terms
            .unwrap()
            .into_iter()
            .map(|term| term.label_selector.unwrap().match_expressions.unwrap())
            .collect::<Vec<_>>()
    };
    let [term] = terms(false).try_into().unwrap();
    assert_eq!(term[0].values.as_deref(), Some(&["client".to_owned(), "server".to_owned()][..]));
    assert_eq!((term[1].key.as_str(), term[1].operator.as_str()), (labels::RUN_UID, "NotIn"));
    assert_eq!(
        terms(true)[0][0].values.as_deref(),
        Some(&["client".to_owned()][..]),
        "the manifest allows it"
    );
}

#[test]
fn clients_run_on_the_nodes_that_their_run_holds() {
    let run = validate(&run(&["read"], 1)).unwrap();
    let required = |turn: &TurnCheck| {
        let job = job(&run, &run.attempts[0], &target(), turn, &settings()).unwrap();
        let affinity = job.spec.unwrap().template.spec.unwrap().affinity.unwrap().node_affinity.unwrap();
        affinity.required_during_scheduling_ignored_during_execution
    };
    let terms = required(&turn()).unwrap().node_selector_terms;
    assert_eq!(
        terms[0].match_fields.as_ref().unwrap()[0].values.as_deref(),
        Some(&["client-1".to_owned()][..])
    );
    assert_eq!(
        required(&TurnCheck { client_nodes: Vec::new(), ..turn() }),
        None,
        "one that is still to be made"
    );
    let zone = nodes::Want { field: "zone", labels: vec![(labels::ZONE.into(), "z1".into())] };
    let wanted = nodes::terms(&[zone]);
    let to_be_made = TurnCheck { client_nodes: Vec::new(), wanted: wanted.clone(), ..turn() };
    let terms = required(&to_be_made).unwrap().node_selector_terms;
    assert_eq!(terms, wanted, "a node that is still to be made must be in the declared zone");
}

#[test]
fn clients_that_may_only_be_on_the_servers_node_are_kept_off_it_by_no_rule() {
    let mut run = run(&["read"], 1);
    run.spec.clients.placement.same_node_as = Some("redis".into());
    let run = validate(&run).unwrap();
    let job = job(&run, &run.attempts[0], &target(), &turn(), &settings()).unwrap();
    let template = job.spec.unwrap().template;
    assert!(template.metadata.unwrap().labels.unwrap().contains_key(labels::SHARES_SERVER_NODE));
    let apart = template.spec.unwrap().affinity.unwrap().pod_anti_affinity.unwrap();
    let terms = apart.required_during_scheduling_ignored_during_execution.unwrap();
    let components =
        terms[0].label_selector.as_ref().unwrap().match_expressions.as_ref().unwrap()[0].values.clone();
    assert_eq!(components, Some(vec!["client".to_owned()]));
}

#[test]
fn each_tool_has_its_image() {
    let image = |phase| pod(phase, json!({}), &target()).containers[0].image.clone().unwrap();
    let exec = json!({"image": "example.com/tool:3", "command": ["t"], "parser": {"redisBenchmarkCsv": {}}});
    assert_eq!(image(json!({"bullmq": {"duration": "1s"}})), "example.com/bullmq:5");
    assert_eq!(image(json!({"bullmq": {"duration": "1s", "image": "own:1"}})), "own:1");
    assert_eq!(image(json!({"exec": exec})), "example.com/tool:3");
}

#[test]
fn the_environment_of_exec_is_kept_and_cannot_change_ours() {
    let exec = json!({
        "image": "i", "command": ["t", "${HOST}", "$(PASS)"], "parser": {"redisBenchmarkCsv": {}},
        "env": [{"name": "PATH", "value": "/go/bin"}, {"name": "DRAGSTRIP_JOB", "value": "{}"}]
    });
    let env = pod(json!({"exec": exec}), json!({}), &target()).containers[0].env.clone().unwrap();
    let names: Vec<&str> = env.iter().map(|variable| variable.name.as_str()).collect();
    assert_eq!(names, ["PATH", "DRAGSTRIP_JOB", "DRAGSTRIP_JOB", "POD_NAME", "DRAGSTRIP_PASSWORD"]);
    let job = env[2].value.as_ref().unwrap();
    assert!(
        job.contains("$$(PASS)") && job.contains("$${HOST}"),
        "Kubernetes would put a variable's value into the job: {job}"
    );
}

#[test]
fn certificates_are_mounted_without_the_servers_key() {
    let job = JobTls { authority: true, client_certificate: true, ..JobTls::default() };
    let tls = TargetTls { job, authority_secret: Some("server".into()), client_secret: Some("mine".into()) };
    let mut encrypted = target();
    encrypted.connection.tls = Some(tls);
    let pod = pod(loadgen(), json!({}), &encrypted);
    let volumes: Vec<_> = pod.volumes.iter().flatten().filter_map(|volume| volume.secret.clone()).collect();
    let keys = |index: usize| -> Vec<String> {
        volumes[index].items.iter().flatten().map(|item| item.key.clone()).collect()
    };
    assert_eq!((volumes[0].secret_name.as_deref(), keys(0)), (Some("server"), vec!["ca.crt".to_owned()]));
    assert_eq!((volumes[1].secret_name.as_deref(), keys(1).len()), (Some("mine"), 2));
    let mounts = pod.containers[0].volume_mounts.clone().unwrap();
    let paths: Vec<_> = mounts.iter().filter(|mount| mount.name.starts_with("tls-")).collect();
    assert_eq!(paths[0].mount_path, "/dragstrip/tls-authority");
    assert!(paths.iter().all(|mount| mount.read_only == Some(true)), "{paths:?}");
}

#[test]
fn clients_are_spread_as_declared() {
    let spread = |pods: i32, how: &str| {
        let pod = pod(loadgen(), json!({"pods": pods, "spread": how}), &target());
        let constraint = pod.topology_spread_constraints.map(|all| all[0].when_unsatisfiable.clone());
        let affinity = pod.affinity.unwrap();
        let apart = affinity.pod_anti_affinity.unwrap().required_during_scheduling_ignored_during_execution;
        (constraint, apart.unwrap().len() - 1)
    };
    assert_eq!(spread(1, "Required"), (None, 0), "one pod needs no rule");
    assert_eq!(spread(3, "Preferred"), (Some("ScheduleAnyway".into()), 0));
    assert_eq!(spread(3, "Required"), (Some("DoNotSchedule".into()), 0));
    assert_eq!(spread(3, "OnePerNode"), (None, 1));
    assert_eq!(spread(3, "None"), (None, 0));
}

#[test]
fn a_runner_is_told_of_load_warm_up_and_members() {
    let mut declared = run(&["read"], 1);
    let phase = json!({
        "name": "read", "loadgen": {"duration": "4s"}, "warmup": "2s",
        "load": {"keyMaximum": 9}
    });
    declared.spec.phases = vec![serde_json::from_value(phase).unwrap()];
    let run = validate(&declared).unwrap();
    let member = JobMember { host: "10.1.2.4".into(), port: 6380, run_id: Some("other".into()) };
    let mut cluster = ReadyTarget { members: vec![member.clone()], ..target() };
    cluster.connection.cluster = true;
    let reported = runner_job(&run, &run.attempts[0], &cluster, &settings());
    assert_eq!(reported.warmup_seconds, Some(2.0));
    assert_eq!(reported.load.map(|load| load.keys()), Some(10));
    assert_eq!((reported.target.cluster, reported.target.members), (true, vec![member]));
    let mut emulated = target();
    emulated.connection.emulated_cluster = true;
    let reported = runner_job(&run, &run.attempts[0], &emulated, &settings());
    assert_eq!(
        (reported.target.cluster, reported.target.emulated_cluster),
        (false, true),
        "it is one server"
    );
    assert!((reported.watchdog_seconds - 21.0).abs() < 1e-9);
    let annotations = pod_annotations(&run, &run.attempts[0]);
    assert_eq!(annotations[labels::LOAD_BOUND], "1821", "keys may be written until the timeout");
}

#[test]
fn a_result_has_the_notes_of_its_job() {
    let run = validate(&run(&["read"], 1)).unwrap();
    let job: Job = serde_json::from_value(json!({
        "metadata": {"annotations": {labels::START_AT: "5", labels::SPEC_HASH: "h"}}
    }))
    .unwrap();
    let marks = [("mark".to_owned(), "value".to_owned())].into();
    let one = |job| config_maps(&run, &run.attempts[0], job, &marks, vec![vec![1]]).remove(0);
    let annotations = one(Some(&job)).metadata.annotations.unwrap();
    assert_eq!(annotations[labels::SPEC_HASH], "h");
    assert_eq!(annotations[labels::START_AT], "5");
    assert_eq!(annotations["mark"], "value");
    assert_eq!(one(None).metadata.annotations, Some(marks.clone()));
}

#[test]
fn a_result_in_parts_is_complete_before_it_counts_as_stored() {
    let run = validate(&run(&["read"], 1)).unwrap();
    let lost = merge(&run.attempts[0], 1, vec![]);
    let parts = vec![vec![1], vec![2], vec![3]];
    let marks = stored::annotations(&lost, &parts).unwrap();
    let stored = config_maps(&run, &run.attempts[0], None, &marks, parts);
    let names: Vec<_> = stored.iter().map(ResourceExt::name_any).collect();
    assert_eq!(names, ["sprint-read-1.part-3-55bc801d", "sprint-read-1.part-2-55bc801d", "sprint-read-1"]);
    let immutable: Vec<_> = stored.iter().map(|map| map.immutable).collect();
    assert_eq!(immutable, [Some(true); 3], "nobody may change a result");
    let later = |map: &ConfigMap| map.labels().contains_key(stored::PART);
    assert_eq!(stored.iter().map(later).collect::<Vec<_>>(), [true, true, false]);
    let reported = stored::mark(&stored[2].metadata).unwrap().failure.map(|failure| failure.failure.step);
    assert_eq!(reported, Some(FailureStep::Lost), "the first part does not have the outcome");
    assert_eq!(
        stored::later_parts(&stored[2]).unwrap(),
        ["sprint-read-1.part-2-55bc801d", "sprint-read-1.part-3-55bc801d"]
    );
}

#[test]
fn every_container_has_requests_and_all_but_an_undeclared_client_have_limits() {
    let kinds = |amounts: Option<&std::collections::BTreeMap<String, Quantity>>| -> Vec<String> {
        amounts.into_iter().flat_map(|amounts| amounts.keys().cloned()).collect()
    };
    let both = ["cpu", "memory"];
    let of = |clients: serde_json::Value| pod(loadgen(), clients, &target());
    for clients in [json!({}), json!({"resources": {"limits": {"cpu": "2", "memory": "1Gi"}}})] {
        let pod = of(clients.clone());
        for container in pod.containers.iter().chain(pod.init_containers.iter().flatten()) {
            let resources = container.resources.clone().unwrap();
            let declared = clients.get("resources").is_some() && container.name == CLIENT_CONTAINER;
            // The API server uses limits as requests if there are none.
            let requests = if declared { Vec::new() } else { both.to_vec() };
            assert_eq!(kinds(resources.requests.as_ref()), requests, "{}", container.name);
            let limits = declared || container.name != CLIENT_CONTAINER;
            let limits = if limits { both.to_vec() } else { Vec::new() };
            assert_eq!(kinds(resources.limits.as_ref()), limits, "{}", container.name);
        }
    }
    let partly = of(json!({"resources": {"requests": {"cpu": "3"}, "limits": {"memory": "1Gi"}}}));
    let requests = partly.containers[0].resources.as_ref().unwrap().requests.as_ref().unwrap();
    assert_eq!((requests.len(), requests["cpu"].0.as_str()), (1, "3"), "the declaration stays");
}

#[test]
fn a_point_of_a_search_has_its_own_job_with_its_value() {
    let search = json!({"raise": "Pods", "from": 3, "to": 8, "until": {"gain": "0.1"}});
    let mut run = validate(&fixtures::searching(search, 1)).unwrap();
    let stored = [("sprint-write-1".to_owned(), StoredResult::default())].into();
    settle(&mut run, &stored, &BTreeMap::new());
    let job = build_job(&run, &run.attempts[1]);
    assert_eq!(job.metadata.name.as_deref(), Some("sprint-knee-1p1"));
    assert_eq!(job.metadata.annotations.unwrap()[labels::SEARCH_VALUE], "3");
    let spec = job.spec.unwrap();
    assert_eq!((spec.completions, spec.parallelism), (Some(3), Some(3)));
    assert!(spec.template.spec.unwrap().topology_spread_constraints.is_some(), "three pods are to be spread");
    assert_eq!(runner_job(&run, &run.attempts[1], &target(), &settings()).clients, 3);
    let write = build_job(&run, &run.attempts[0]);
    assert!(!write.metadata.annotations.unwrap().contains_key(labels::SEARCH_VALUE));
    assert_eq!(write.spec.unwrap().completions, Some(1));
}

fn build_job(run: &ValidatedRun, attempt: &Attempt) -> Job {
    job(run, attempt, &target(), &turn(), &settings()).unwrap()
}
