//! Rules over a complete run that the API server's rules cannot express. Pure.

use super::attempt::most_pods;
use crate::{
    datastore::{
        resources::{not_exclusive, unreadable},
        room::Room,
    },
    run::search::point::points,
};
use dragstrip_crds::{
    BenchmarkRunSpec,
    datastore::{DatastoreSpec, ServerProtocol},
    run::{ClientsSpec, PhaseSpec, Raise, Target},
    units::thousands,
    workload::{ToolSpec, memtier_options},
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use std::collections::BTreeMap;

pub fn protocol(datastore: &DatastoreSpec) -> ServerProtocol {
    datastore.custom.as_ref().map_or(ServerProtocol::Resp, |custom| custom.protocol)
}

/// What a target that does not speak RESP cannot do for `phase`, with the remedy.
fn needs_resp(phase: &PhaseSpec) -> Option<String> {
    let exec = if let ToolSpec::Exec(exec) = &phase.tool { Some(exec) } else { None };
    let what = match (exec, &phase.load) {
        (None, _) => {
            "its tool speaks RESP, the target does not (protocol Tcp): use exec with the target's own tool"
        }
        (Some(_), _) if phase.flush => {
            "flush is a RESP command, the target does not speak RESP (protocol Tcp): leave it out"
        }
        (Some(_), Some(_)) => {
            "load writes keys over RESP, the target does not speak it (protocol Tcp): let a phase of its own write them"
        }
        (Some(exec), None) if exec.counter_check => {
            "exec.counterCheck queries the server over RESP, the target does not speak it (protocol Tcp): leave it out"
        }
        (Some(_), None) => return None,
    };
    Some(format!("phases[{}]: {what}", phase.name))
}

/// Why the phases of `spec` cannot load what `datastore` declares; `None` if they can.
pub fn unsuitable(spec: &BenchmarkRunSpec, datastore: &DatastoreSpec) -> Option<String> {
    let reads_replicas =
        |phase: &&PhaseSpec| matches!(&phase.tool, ToolSpec::Loadgen(spec) if spec.replica_reads);
    target_problem(spec, protocol(datastore), datastore.cluster.is_some()).or_else(|| {
        datastore.cluster.as_ref().filter(|cluster| cluster.replicas == 0)?;
        let phase = spec.phases.iter().find(reads_replicas)?;
        Some(format!(
            "phases[{}].loadgen.replicaReads needs replicas, and the shards of this Datastore have none: leave it out, or set cluster.replicas of the Datastore",
            phase.name
        ))
    })
}

/// Why the phases of `spec` cannot load a target that speaks `protocol` and may be a `cluster`.
fn target_problem(spec: &BenchmarkRunSpec, protocol: ServerProtocol, cluster: bool) -> Option<String> {
    let resp = spec.phases.iter().filter(|_| protocol == ServerProtocol::Tcp).find_map(needs_resp);
    resp.or_else(|| {
        spec.phases.iter().find_map(|phase| {
            let ToolSpec::Loadgen(loadgen) = &phase.tool else { return None };
            Some(format!("phases[{}].{}", phase.name, loadgen.problem(cluster)?))
        })
    })
}

/// The threads that load the target in each client pod of `phase`, and the fields that declare them.
pub fn load_threads(phase: &PhaseSpec) -> Option<(&'static str, i32)> {
    match &phase.tool {
        ToolSpec::Loadgen(spec) => Some(("loadgen.threads", spec.threads)),
        ToolSpec::Memtier(spec) => Some(("memtier.threads", spec.threads)),
        ToolSpec::Bullmq(spec) => Some(("bullmq.writers and readers", spec.writers + spec.readers)),
        ToolSpec::Exec(_) => None,
    }
}

/// Why the threads of `phase` would wait for each other within the CPU limit of their pod.
fn too_many_threads(phase: &PhaseSpec, clients: &ClientsSpec) -> Option<String> {
    let resources = clients.resources.as_ref()?;
    let cpus = |amounts: &Option<BTreeMap<String, Quantity>>| amounts.as_ref()?.get("cpu").cloned();
    // With exclusive CPUs a request is the limit, too.
    let requested = || clients.cpu.exclusive.then(|| cpus(&resources.requests)).flatten();
    let limit = cpus(&resources.limits).or_else(requested)?;
    let ((field, threads), cpus) = (load_threads(phase)?, Room::number(&limit)?.ceil());
    (f64::from(threads) > cpus).then(|| {
        format!(
            "{field}: {threads} load threads need a CPU each, and spec.clients.resources.limits.cpu is {}: use at most {cpus} or raise the limit to {threads}",
            limit.0
        )
    })
}

/// Why the exclusive CPUs of a client with any tool cannot be counted.
fn unknown_cpus(clients: &ClientsSpec) -> Option<String> {
    let resources = clients.resources.as_ref();
    let mut declared = resources.iter().flat_map(|it| [&it.limits, &it.requests]).flatten();
    let declared = declared.any(|amounts| amounts.contains_key("cpu"));
    (clients.cpu.exclusive && !declared).then(|| {
        "exec: only its author knows how many CPUs a tool needs: with spec.clients.cpu.exclusive set spec.clients.resources.limits.cpu to a whole number".to_owned()
    })
}

/// What is wrong with `phase` if `clients` run it.
fn phase_problem(phase: &PhaseSpec, clients: &ClientsSpec) -> Option<String> {
    let pods = most_pods(phase, clients.pods);
    let loadgen = if let ToolSpec::Loadgen(spec) = &phase.tool { Some(spec) } else { None };
    let rate = loadgen.and_then(|loadgen| loadgen.rate.as_ref());
    let rates = [
        rate.map(|rate| ("loadgen.rate.operationsPerSecond", rate.operations_per_second)),
        phase.search.as_ref().filter(|it| it.raise == Raise::Rate).map(|it| ("search.from", it.from)),
    ];
    if let Some((field, rate)) = rates.into_iter().flatten().find(|(_, rate)| *rate < i64::from(pods)) {
        return Some(format!(
            "{field} is {rate} operations/s for {pods} client pods together: each needs at least 1; raise it or lower spec.clients.pods"
        ));
    }
    if loadgen.is_some_and(|loadgen| loadgen.batch.is_some()) && pods > 1 {
        return Some(format!(
            "loadgen.batch times batches one by one, which cannot be joined over {pods} client pods: set spec.clients.pods to 1"
        ));
    }
    let unnamed = phase.load.as_ref().is_some_and(|load| load.key_prefix.is_none());
    if unnamed && matches!(phase.tool, ToolSpec::Exec(_) | ToolSpec::Bullmq(_)) {
        return Some("load.keyPrefix is needed: exec and bullmq have no key names of their own".to_owned());
    }
    if let Some(load) = phase.load.as_ref().filter(|load| load.keys() < u64::from(pods.unsigned_abs())) {
        return Some(format!(
            "load has {} keys for {pods} client pods, each of which writes a share: raise keyMaximum or lower spec.clients.pods",
            thousands(load.keys())
        ));
    }
    let of_tool = match &phase.tool {
        ToolSpec::Loadgen(_) => None,
        ToolSpec::Memtier(spec) => spec.extra_args.iter().find_map(|it| memtier_options::refusal(it)),
        ToolSpec::Bullmq(_) => phase.minimum_hit_ratio.as_ref().map(|_| {
            "minimumHitRatio is about reads of keys, which bullmq does not count: leave it out".to_owned()
        }),
        ToolSpec::Exec(_) => unknown_cpus(clients),
    };
    of_tool.or_else(|| too_many_threads(phase, clients))
}

/// Most attempts that a run may have: every pass goes through all of them.
const MOST_ATTEMPTS: usize = 32_000;

/// Why `spec` with its searches may have too many measurements.
fn too_many(spec: &BenchmarkRunSpec) -> Option<String> {
    spec.phases.iter().find(|phase| phase.search.is_some())?;
    let points: usize = spec.phases.iter().map(|phase| points(phase).len()).sum();
    let times = |number: i32| usize::try_from(number).unwrap_or(1);
    let all = points * times(spec.repetitions) * times(spec.max_retries + 1);
    (all > MOST_ATTEMPTS).then(|| {
        format!(
            "repetitions and maxRetries allow for up to {} measurements, each point of a search being one: lower them until it is at most {}",
            thousands(all as u64),
            thousands(MOST_ATTEMPTS as u64)
        )
    })
}

/// What is wrong with `spec`, with the remedy.
pub fn problem(spec: &BenchmarkRunSpec) -> Option<String> {
    let in_phase =
        |phase: &PhaseSpec| Some(format!("phases[{}].{}", phase.name, phase_problem(phase, &spec.clients)?));
    let resources = spec.clients.resources.as_ref().filter(|_| spec.clients.cpu.exclusive);
    let target = || match &spec.target {
        Target::DatastoreRef(_) => None,
        Target::Datastore(datastore) => unsuitable(spec, datastore),
        Target::External(external) => target_problem(spec, external.protocol, external.cluster),
    };
    let own = spec.phases.iter().find_map(in_phase);
    let amounts = || unreadable(spec.clients.resources.as_ref(), "clients.resources");
    own.or_else(amounts)
        .or_else(|| resources.and_then(|resources| not_exclusive(resources, "clients.resources")))
        .or_else(|| too_many(spec))
        .or_else(target)
}

#[cfg(test)]
mod tests {
    use crate::{fixtures::run, run::validate::validate};
    use serde_json::{Value, json};

    /// The message with which a run with this phase and so many pods is refused; empty when it is not.
    fn refusal(phase: Value, pods: i32, target: Value) -> String {
        let mut phase = phase;
        phase["name"] = json!("p");
        let mut run = run(&[], 1);
        run.spec.phases = vec![serde_json::from_value(phase).unwrap()];
        run.spec.clients.pods = pods;
        run.spec.target = serde_json::from_value(target).unwrap();
        validate(&run).err().map(|invalid| invalid.to_string()).unwrap_or_default()
    }

    fn redis() -> Value {
        json!({"datastoreRef": {"name": "redis"}})
    }

    fn etcd() -> Value {
        json!({"datastore": {"engine": "Custom", "image": "etcd:1", "threads": 1, "custom": {"protocol": "Tcp"}}})
    }

    fn external(cluster: bool) -> Value {
        json!({"external": {"address": "10.0.0.7:6379", "cluster": cluster}})
    }

    fn shards() -> Value {
        json!({"datastore": {"engine": "Redis", "threads": 1, "cluster": {"shards": 3}}})
    }

    fn replica_reads(ratio: &str) -> Value {
        json!({"loadgen": {"duration": "2s", "replicaReads": true, "ratio": ratio}})
    }

    fn exec() -> Value {
        json!({"exec": {"image": "i", "command": ["c"], "parser": {"redisBenchmarkCsv": {}}}})
    }

    fn with(mut phase: Value, field: &str, value: Value) -> Value {
        phase[field] = value;
        phase
    }

    #[test]
    fn each_mistake_is_refused_with_its_remedy() {
        let memtier = json!({"memtier": {"testTime": "2s"}});
        let loadgen = json!({"loadgen": {"duration": "2s"}});
        let bullmq = json!({"bullmq": {"duration": "2s"}});
        let batch = json!({"items": 10, "batchSize": 5, "operation": "Mset"});
        let library = json!({"duration": "1s", "client": "Fred", "library": {}, "batch": batch});
        let several =
            json!({"loadgen": {"duration": "1s", "operations": [{"operation": "Mset", "keys": 10}]}});
        let table = [
            (
                json!({"loadgen": {"duration": "2s", "rate": {"operationsPerSecond": 2}}}),
                3,
                redis(),
                "spec.phases[p].loadgen.rate.operationsPerSecond is 2 operations/s for 3 client pods",
            ),
            (json!({"loadgen": library}), 2, redis(), "set spec.clients.pods to 1"),
            (with(exec(), "load", json!({"keyMaximum": 9})), 1, redis(), "load.keyPrefix is needed"),
            (with(bullmq.clone(), "load", json!({"keyMaximum": 9})), 1, redis(), "load.keyPrefix is needed"),
            (
                with(loadgen.clone(), "load", json!({"keyMaximum": 1})),
                3,
                redis(),
                "load has 2 keys for 3 client pods",
            ),
            (with(bullmq, "minimumHitRatio", json!("0.5")), 1, redis(), "minimumHitRatio"),
            (loadgen, 1, etcd(), "phases[p]: its tool speaks RESP"),
            (with(exec(), "flush", json!(true)), 1, etcd(), "flush is a RESP command"),
            (
                with(exec(), "load", json!({"keyMaximum": 9, "keyPrefix": "k"})),
                1,
                etcd(),
                "load writes keys over RESP",
            ),
            (
                json!({"loadgen": {"duration": "1s", "client": "Fred", "library": {}, "ratio": "1:10"}}),
                1,
                external(false),
                "phases[p].loadgen.ratio 1:10 mixes SET and GET",
            ),
            (several.clone(), 1, external(true), "phases[p].loadgen.operations[0] has several keys"),
            (
                replica_reads("1:10"),
                1,
                external(true),
                "which refuse the SETs of loadgen.ratio 1:10: read only",
            ),
            (replica_reads("0:1"), 1, external(false), "loadgen.replicaReads needs a target in cluster mode"),
            (replica_reads("0:1"), 1, shards(), "the shards of this Datastore have none: leave it out"),
        ];
        for (phase, pods, target, expected) in table {
            let refusal = refusal(phase.clone(), pods, target);
            assert!(refusal.contains(expected), "{phase}: expected {expected:?}, got {refusal:?}");
        }
        assert_eq!(refusal(exec(), 2, etcd()), "", "exec may load what speaks no RESP");
        let settles = with(exec(), "memory", json!({"settle": "60s"}));
        assert_eq!(refusal(settles, 1, etcd()), "", "the observer beside it reads what the kernel reports");
        assert_eq!(refusal(memtier, 2, redis()), "");
        assert_eq!(refusal(replica_reads("0:1"), 1, external(true)), "");
        assert_eq!(refusal(several, 1, external(false)), "", "a server alone takes several keys");
        let memtier = |field: &str, value: Value| {
            let mut memtier = json!({"memtier": {"testTime": "2s", "keyMaximum": 99, "keyPattern": "G:G"}});
            memtier["memtier"][field] = value;
            refusal(memtier, 1, redis())
        };
        let reported = memtier("extraArgs", json!(["--select-db=1", "--run-c=3"]));
        assert!(reported.contains("memtier.extraArgs holds --run-c=3: write options in full"), "{reported}");
    }

    /// The message with which client pods with this CPU limit refuse a phase.
    fn within(limit: &Value, phase: Value) -> String {
        let mut phase = phase;
        phase["name"] = json!("p");
        let mut run = run(&[], 1);
        run.spec.phases = vec![serde_json::from_value(phase).unwrap()];
        run.spec.clients = serde_json::from_value(json!({"resources": {"limits": {"cpu": limit}}})).unwrap();
        validate(&run).err().map(|invalid| invalid.to_string()).unwrap_or_default()
    }

    #[test]
    fn exclusive_cpus_are_at_least_the_load_threads_and_declared_for_other_tools() {
        let reported = |phase: Value, clients: Value| {
            let mut phase = phase;
            phase["name"] = json!("p");
            let mut run = run(&[], 1);
            run.spec.phases = vec![serde_json::from_value(phase).unwrap()];
            run.spec.clients = serde_json::from_value(clients).unwrap();
            validate(&run).err().map(|invalid| invalid.to_string()).unwrap_or_default()
        };
        let memtier = || json!({"memtier": {"testTime": "2s", "threads": 4}});
        let own = |resources: Value| json!({"cpu": {"exclusive": true}, "resources": resources});
        let few = reported(memtier(), own(json!({"requests": {"cpu": "2"}})));
        assert!(few.contains("4 load threads need a CPU each"), "{few}");
        assert_eq!(reported(memtier(), own(json!({"requests": {"cpu": "4"}}))), "");
        let unknown = reported(exec(), own(json!({})));
        assert!(unknown.contains("set spec.clients.resources.limits.cpu to a whole number"), "{unknown}");
        assert_eq!(reported(exec(), own(json!({"limits": {"cpu": "4"}}))), "");
        let broken = reported(exec(), own(json!({"limits": {"cpu": "4500m"}})));
        assert!(broken.contains("spec.clients.resources.limits.cpu is 4500m"), "{broken}");
    }

    #[test]
    fn an_amount_that_kubernetes_cannot_read_is_refused_with_its_field() {
        let reported = within(&json!("two"), json!({"loadgen": {"duration": "2s"}}));
        assert!(reported.contains("spec.clients.resources.limits.cpu is \"two\""), "{reported}");
    }

    #[test]
    fn more_load_threads_than_the_client_may_use_cpus_are_refused() {
        let loadgen = |threads: i32| json!({"loadgen": {"duration": "2s", "threads": threads}});
        let memtier = |threads: i32| json!({"memtier": {"testTime": "2s", "threads": threads}});
        let bullmq = |writers: i32| json!({"bullmq": {"duration": "2s", "writers": writers, "readers": 1}});
        for (limit, phase) in [
            (json!("2"), loadgen(2)),
            (json!("1500m"), loadgen(2)),
            (json!("2.5"), memtier(3)),
            (json!(3), bullmq(2)),
        ] {
            assert_eq!(within(&limit, phase.clone()), "", "{phase} fits {limit}");
        }
        for (limit, phase, field) in [
            (json!("1"), loadgen(2), "loadgen.threads: 2 load threads"),
            (json!("1500m"), memtier(3), "memtier.threads: 3 load threads"),
            (json!("2"), bullmq(2), "bullmq.writers and readers: 3 load threads"),
        ] {
            let refusal = within(&limit, phase);
            assert!(
                refusal.contains(field) && refusal.contains("spec.clients.resources.limits.cpu"),
                "{refusal}"
            );
        }
    }
}
