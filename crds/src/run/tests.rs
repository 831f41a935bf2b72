//! Admission rules of BenchmarkRun, tried without a cluster.

use super::*;
use crate::workload::ToolSpec;
use kube::{
    CustomResourceExt,
    core::cel::{CompiledSchema, Validator, compile_schema},
};
use serde_json::{Value, json};
use std::sync::LazyLock;

fn run(spec: Value) -> BenchmarkRun {
    serde_json::from_value(json!({
        "apiVersion": "dragstrip.dev/v1alpha1", "kind": "BenchmarkRun",
        "metadata": {"name": "sprint", "namespace": "races"}, "spec": spec
    }))
    .unwrap()
}

fn good() -> Value {
    json!({
        "target": {"datastoreRef": {"name": "redis"}},
        "phases": [{"name": "read", "loadgen": {"duration": "10s"}}]
    })
}

/// A tool of the user's own.
fn exec() -> Value {
    json!({"image": "i", "command": ["t"], "parser": {"redisBenchmarkCsv": {}}})
}

/// The rules of the kind. Compiling them takes longer than everything else.
static RULES: LazyLock<CompiledSchema> = LazyLock::new(|| {
    let schema = BenchmarkRun::crd().spec.versions.remove(0).schema.unwrap().open_api_v3_schema;
    compile_schema(&serde_json::to_value(schema).unwrap())
});

/// The messages with which the rules refuse `spec`, joined.
fn refusal(spec: Value) -> String {
    let object = json!({"metadata": {"name": "sprint", "namespace": "races"}, "spec": spec});
    match Validator::new().validate_compiled(&RULES, &object, None) {
        Ok(()) => String::new(),
        Err(errors) => format!("{errors:?}"),
    }
}

fn with(change: impl FnOnce(&mut Value)) -> Value {
    let mut spec = good();
    change(&mut spec);
    spec
}

/// A run whose phase has this `loadgen` and a confirmation.
fn confirming(loadgen: Value, change: impl FnOnce(&mut Value)) -> Value {
    let mut spec = good();
    spec["phases"][0] = json!({"name": "read", "confirm": true, "loadgen": loadgen});
    change(&mut spec);
    spec
}

#[test]
fn a_plain_run_is_admitted() {
    assert_eq!(refusal(good()), "");
    assert_eq!(refusal(confirming(json!({"duration": "10s", "connectionsPerThread": 5000}), |_| ())), "");
}

#[test]
fn defaults_are_those_of_the_documentation() {
    let spec = run(good()).spec;
    assert_eq!((spec.repetitions, spec.clients.pods, spec.timeout.to_string().as_str()), (1, 1, "30m"));
    assert_eq!(spec.timeout.duration(), std::time::Duration::from_secs(1800));
    let ToolSpec::Loadgen(loadgen) = &spec.phases[0].tool else { panic!("{:?}", spec.phases[0]) };
    assert_eq!((loadgen.threads, loadgen.connections_per_thread, loadgen.pipeline), (1, 20, 1));
}

#[test]
// One row per rule.
#[allow(clippy::too_many_lines)]
fn each_mistake_is_refused_with_its_remedy() {
    let external = json!({"external": {"address": "10.0.0.7:6379"}});
    let table: Vec<(&str, Value, &str)> = vec![
        (
            "a headline of nothing",
            with(|s| s["headline"] = json!("raed")),
            "headline names no phase of this run",
        ),
        (
            "a threshold of nothing",
            with(|s| {
                s["thresholds"] = json!([{"metric": "P99Milliseconds", "phase": "raed", "maximum": "1"}]);
            }),
            "a threshold names no phase of this run",
        ),
        (
            "a threshold of two metrics",
            with(|s| {
                s["thresholds"] = json!([{"metric": "Errors", "toolMetric": "ns/op", "maximum": "1"}]);
            }),
            "either a metric or a toolMetric",
        ),
        (
            "a threshold without limits",
            with(|s| s["thresholds"] = json!([{"metric": "P99Milliseconds"}])),
            "a minimum, a maximum, or both",
        ),
        (
            "a threshold upside down",
            with(|s| s["thresholds"] = json!([{"metric": "Errors", "minimum": "10", "maximum": "9.5"}])),
            "minimum must not be above maximum",
        ),
        (
            "a ratio to nothing",
            with(|s| {
                s["thresholds"] =
                    json!([{"metric": "OperationsPerSecond", "minimum": "0.95", "relativeTo": "Baseline"}]);
            }),
            "make a BenchmarkSuite with a baseline",
        ),
        (
            "settling for days",
            with(|s| s["phases"][0]["memory"] = json!({"settle": "2h"})),
            "settle is at most 1h",
        ),
        (
            "settling beyond the timeout",
            with(|s| {
                s["phases"][0]["memory"] = json!({"settle": "60s"});
                s["timeout"] = json!("65s");
            }),
            "shorter than the declared load",
        ),
        (
            "settling at each point of a search",
            with(|s| {
                s["phases"][0]["memory"] = json!({"settle": "1s"});
                s["phases"][0]["search"] =
                    json!({"raise": "Connections", "to": 512, "until": {"p99": "1ms"}});
            }),
            "a phase without search",
        ),
        (
            "a confirmation of a search",
            confirming(json!({"duration": "10s"}), |s| {
                s["phases"][0]["search"] =
                    json!({"raise": "Connections", "to": 512, "until": {"p99": "1ms"}});
            }),
            "confirm is for a phase that measures one value",
        ),
        (
            "a confirmation of an open loop",
            confirming(json!({"duration": "10s", "rate": {"operationsPerSecond": 1000}}), |_| ()),
            "leave confirm or the rate out",
        ),
        (
            "a confirmation of a number of requests",
            confirming(json!({"requestsPerConnection": 1000}), |_| ()),
            "set loadgen.duration or memtier.testTime",
        ),
        (
            "a confirmation with more connections than there may be",
            confirming(json!({"duration": "10s", "connectionsPerThread": 5001}), |_| ()),
            "set it to at most 5000",
        ),
        (
            "a confirmation of a client library",
            confirming(json!({"duration": "10s", "client": "Fred", "library": {}}), |_| ()),
            "declare a phase with more of them",
        ),
        (
            "a confirmation of memtier at a rate",
            with(|s| {
                let memtier = json!({"testTime": "10s", "rateLimit": 100});
                s["phases"][0] = json!({"name": "read", "confirm": true, "memtier": memtier});
            }),
            "leave confirm or the rate out",
        ),
        ("no target", with(|s| s["target"] = json!({})), "target needs exactly one of"),
        (
            "two targets",
            with(|s| s["target"]["external"] = external["external"].clone()),
            "target needs exactly one of",
        ),
        ("no workload", with(|s| s["phases"][0] = json!({"name": "read"})), "exactly one workload"),
        (
            "two workloads",
            with(|s| s["phases"][0]["memtier"] = json!({"testTime": "10s"})),
            "exactly one workload",
        ),
        (
            "a name twice",
            with(|s| {
                let phase = s["phases"][0].clone();
                s["phases"].as_array_mut().unwrap().push(phase);
            }),
            "phase names must be unique",
        ),
        (
            "neither duration nor requests",
            with(|s| s["phases"][0]["loadgen"] = json!({})),
            "exactly one of duration and requestsPerConnection",
        ),
        (
            "a ratio of nothing",
            with(|s| s["phases"][0]["loadgen"]["ratio"] = json!("0:0")),
            "ratio is SETs:GETs",
        ),
        (
            "keys upside down",
            with(|s| {
                s["phases"][0]["loadgen"]["keyMinimum"] = json!(10);
                s["phases"][0]["loadgen"]["keyMaximum"] = json!(1);
            }),
            "keyMaximum must not be below keyMinimum",
        ),
        (
            "flushing a stranger",
            with(|s| {
                s["target"] = external.clone();
                s["phases"][0]["flush"] = json!(true);
            }),
            "allowFlush",
        ),
        (
            "an address without a port",
            with(|s| s["target"] = json!({"external": {"address": "redis"}})),
            "address is HOST:PORT",
        ),
        (
            "the runner's own business",
            with(|s| {
                s["phases"][0] =
                    json!({"name": "read", "memtier": {"testTime": "10s", "extraArgs": ["--run-count=3"]}});
            }),
            "none that a field, spec.target or the runner sets",
        ),
        (
            "a warm-up of somebody else's tool",
            with(|s| s["phases"][0] = json!({"name": "p", "warmup": "1s", "exec": exec()})),
            "warmup is for memtier, bullmq and loadgen",
        ),
        (
            "RESP tools against a server that speaks none",
            with(|s| {
                s["target"] = external.clone();
                s["target"]["external"]["protocol"] = json!("Tcp");
            }),
            "can only be loaded by exec phases",
        ),
        (
            "keys of load upside down",
            with(|s| s["phases"][0]["load"] = json!({"keyMinimum": 5, "keyMaximum": 4})),
            "load.keyMaximum must not be below load.keyMinimum",
        ),
        (
            "a library without its settings",
            with(|s| s["phases"][0]["loadgen"]["client"] = json!("Fred")),
            "library goes with client",
        ),
        (
            "an open loop without an end",
            with(|s| {
                s["phases"][0]["loadgen"] =
                    json!({"requestsPerConnection": 5, "rate": {"operationsPerSecond": 5}});
            }),
            "rate needs client Raw and a duration",
        ),
        (
            "an operation that is two",
            with(|s| {
                s["phases"][0]["loadgen"]["operations"] = json!([{"operation": "Set", "command": "PING"}]);
            }),
            "exactly one of operation",
        ),
        (
            "a job without anybody to do it",
            with(|s| s["phases"][0] = json!({"name": "p", "bullmq": {"duration": "1s", "writers": 0}})),
            "at least one writer or reader",
        ),
        (
            "the published loop with other batches",
            with(|s| {
                s["phases"][0] =
                    json!({"name": "p", "bullmq": {"duration": "1s", "mode": "Published", "concurrency": 8}});
            }),
            "mode Published has its own jobs and batches",
        ),
        (
            "the published loop with other jobs",
            with(|s| {
                s["phases"][0] = json!({"name": "p", "bullmq": {"duration": "1s", "mode": "Published", "payloadBytes": 64}});
            }),
            "mode Published has its own jobs and batches",
        ),
        (
            "a column without its percentile",
            with(|s| {
                let mut exec = exec();
                exec["parser"] =
                    json!({"csv": {"columns": [{"header": "p99", "meaning": "LatencyPercentile"}]}});
                s["phases"][0] = json!({"name": "p", "exec": exec});
            }),
            "set percentile for the meaning LatencyPercentile",
        ),
    ];
    for (mistake, spec, message) in table {
        let refusal = refusal(spec);
        assert!(refusal.contains(message), "{mistake}: expected {message:?}, got {refusal:?}");
    }
}

#[test]
fn a_phase_needs_exactly_one_parser_with_its_own_options() {
    let parsers = [
        json!({}),
        json!({"redisBenchmarkCsv": {}, "goBench": {}}),
        json!({"goBench": {"requests": 5}}),
        json!({"unknown": {}}),
    ];
    for parser in parsers {
        assert!(serde_json::from_value::<crate::workload::ParserSpec>(parser.clone()).is_err(), "{parser}");
    }
    for (crd, phases) in [
        (<BenchmarkRun as kube::CustomResourceExt>::crd(), "phases"),
        (<crate::BenchmarkSuite as kube::CustomResourceExt>::crd(), "run/properties/phases"),
    ] {
        let crd = serde_json::to_value(crd).unwrap();
        let spec = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties";
        let path = format!("{spec}/{phases}/items/properties/exec/properties/parser");
        let parser = crd.pointer(&path).unwrap();
        let alternatives = parser["oneOf"].as_array().unwrap();
        assert_eq!(alternatives.len(), parser["properties"].as_object().unwrap().len(), "{parser}");
        let one_name =
            |one: &serde_json::Value| one["required"].as_array().is_some_and(|names| names.len() == 1);
        assert!(alternatives.iter().all(one_name), "any value meets all alternatives: {parser}");
    }
}

#[test]
fn a_started_run_may_only_be_cancelled_or_expire() {
    let mut old = run(good());
    old.spec.repetitions = 3;
    old.status = Some(
        serde_json::from_value(json!({"phase": "Running", "startedAt": "2026-01-01T00:00:00Z"})).unwrap(),
    );
    let mut cancelled = old.clone();
    cancelled.spec.cancel = true;
    cancelled.spec.ttl_after_finished = Some("1h".parse().unwrap());
    assert!(cancelled.validate_cel_update(&old).is_ok(), "cancel was refused");
    let changes: [fn(&mut BenchmarkRunSpec); 5] = [
        |spec| spec.repetitions = 5,
        |spec| {
            spec.requirements =
                serde_json::from_value(json!([{"check": "Steal", "level": "Ignore"}])).unwrap();
        },
        |spec| {
            spec.thresholds =
                serde_json::from_value(json!([{"metric": "P99Milliseconds", "maximum": "1"}])).unwrap();
        },
        |spec| spec.headline = Some("read".into()),
        |spec| spec.calibrate = true,
    ];
    for (place, change) in changes.iter().enumerate() {
        let mut changed = old.clone();
        change(&mut changed.spec);
        let refusal = format!("{:?}", changed.validate_cel_update(&old));
        assert!(refusal.contains("the run has started"), "change {place}: {refusal}");
    }
}

#[test]
fn a_server_that_speaks_no_resp_may_be_loaded_by_exec() {
    let spec = with(|s| {
        s["target"] = json!({"external": {"address": "10.0.0.7:2379", "protocol": "Tcp"}});
        s["phases"][0] = json!({"name": "p", "exec": exec()});
    });
    assert_eq!(refusal(spec), "");
}

#[test]
fn a_started_run_keeps_its_number_of_retries() {
    let mut old = run(good());
    old.status = Some(
        serde_json::from_value(json!({"phase": "Running", "startedAt": "2026-01-01T00:00:00Z"})).unwrap(),
    );
    let mut changed = old.clone();
    changed.spec.max_retries = 5;
    let refusal = format!("{:?}", changed.validate_cel_update(&old));
    assert!(refusal.contains("the run has started"), "{refusal}");
}

#[test]
fn a_run_that_has_not_started_may_change() {
    let old = run(good());
    let mut changed = old.clone();
    changed.spec.repetitions = 5;
    assert!(changed.validate_cel_update(&old).is_ok());
}

#[test]
fn unknown_fields_are_refused_when_read() {
    let error = |spec: Value| serde_json::from_value::<BenchmarkRunSpec>(spec).unwrap_err().to_string();
    let top = error(with(|s| s["fases"] = json!([])));
    assert!(top.contains("unknown field `fases`"), "{top}");
    let beside = error(with(|s| s["phases"][0]["memteir"] = json!({})));
    assert!(beside.contains("unknown field `memteir`"), "{beside}");
    let within = error(with(|s| s["phases"][0]["loadgen"]["pipelines"] = json!(1)));
    assert!(within.contains("unknown field `pipelines`"), "{within}");
    let server = json!({"datastore": {"engine": "Redis", "thread": 1}});
    let target = error(with(|s| s["target"] = server));
    assert!(target.contains("unknown field `thread`"), "{target}");
}

#[test]
fn a_run_with_no_or_two_tools_or_targets_is_not_read() {
    let error = |spec: Value| serde_json::from_value::<BenchmarkRunSpec>(spec).unwrap_err().to_string();
    for tools in [json!({}), json!({"loadgen": {"duration": "1s"}, "memtier": {"testTime": "1s"}})] {
        let mut phase = tools;
        phase["name"] = json!("read");
        let message = error(with(|s| s["phases"] = json!([phase])));
        assert!(message.contains("exactly one workload: memtier, bullmq, loadgen or exec"), "{message}");
    }
    for target in [json!({}), json!({"datastoreRef": {"name": "a"}, "external": {"address": "h:1"}})] {
        let message = error(with(|s| s["target"] = target));
        assert!(message.contains("target needs exactly one of datastoreRef"), "{message}");
    }
}

#[test]
fn a_mistake_in_a_tool_is_reported_with_its_field() {
    let spec = with(|s| s["phases"][0]["loadgen"]["rate"] = json!({"operationsPerSecond": "ten"}));
    let message = serde_json::from_value::<BenchmarkRunSpec>(spec).unwrap_err().to_string();
    assert!(message.starts_with("loadgen.rate.operationsPerSecond: invalid type"), "{message}");
}

#[test]
fn what_is_read_is_written_as_it_was() {
    let exec = json!({"image": "i", "command": ["t"], "parser": {"redisBenchmarkCsv": {}}});
    for tool in
        [json!({"memtier": {"testTime": "1s"}}), json!({"bullmq": {"duration": "1s"}}), json!({"exec": exec})]
    {
        let spec = with(|s| {
            s["phases"][0] = tool.clone();
            s["phases"][0]["name"] = json!("p");
        });
        let written = serde_json::to_value(run(spec).spec).unwrap();
        let (field, options) = tool.as_object().unwrap().iter().next().unwrap();
        let mut options = options.as_object().unwrap().iter();
        assert!(options.all(|(name, value)| written["phases"][0][field][name] == *value), "{written}");
        assert_eq!(written["target"], json!({"datastoreRef": {"name": "redis"}}));
    }
}

#[test]
fn names_leave_room_for_those_made_from_them() {
    let mut long = run(good());
    long.metadata.name = Some("a".repeat(36));
    let refusal = format!("{:?}", long.validate_cel());
    assert!(refusal.contains("at most 33 characters"), "{refusal}");
}

#[test]
fn fields_that_are_not_set_do_not_change_the_digest_of_a_spec() {
    let written = serde_json::to_value(run(good()).spec).unwrap();
    for field in ["thresholds", "headline"] {
        assert_eq!(written.get(field), None, "{field} would restart what is under way at an upgrade");
    }
    assert_eq!(written["phases"][0].get("memory"), None);
}
