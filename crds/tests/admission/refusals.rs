//! Mistakes that admission refuses although, or because, they cannot be read:
//! each with the field's path and the remedy.

use crate::schema;
use dragstrip_crds::{BenchmarkRun, Datastore};
use serde_json::{Value, json};

fn run(change: impl FnOnce(&mut Value)) -> Value {
    let mut spec = json!({
        "target": {"datastoreRef": {"name": "redis"}},
        "phases": [{"name": "read", "loadgen": {"duration": "10s"}}]
    });
    change(&mut spec);
    json!({"metadata": {"name": "sprint"}, "spec": spec})
}

fn datastore(fields: &Value) -> Value {
    let mut spec = json!({"engine": "Redis", "threads": 1});
    spec.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    json!({"metadata": {"name": "racer"}, "spec": spec})
}

fn refused(schema: &Value, object: &Value, expected: &str) {
    let refusals = schema::refusals(schema, object);
    assert!(
        refusals.iter().any(|refusal| refusal.contains(expected)),
        "{object}: expected {expected:?}, got {refusals:#?}"
    );
}

fn admitted(schema: &Value, object: &Value) {
    assert_eq!(schema::refusals(schema, object), Vec::<String>::new(), "{object}");
}

#[test]
fn times_that_cannot_be_measured_are_refused_with_their_field() {
    let schema = schema::of::<BenchmarkRun>();
    admitted(&schema, &run(|_| {}));
    let loadgen =
        |duration: &'static str| run(move |s| s["phases"][0]["loadgen"]["duration"] = json!(duration));
    refused(&schema, &loadgen("0s"), "spec.phases[0].loadgen.duration: write a time longer than 0s");
    refused(&schema, &loadgen("fast"), "such as 30s, 5m, 1h30m or 250ms");
    let fast = schema::refusals(&schema, &run(|s| s["timeout"] = json!("fast")));
    assert_eq!(fast.len(), 1, "one mistake gives one message: {fast:#?}");
    refused(&schema, &run(|s| s["timeout"] = json!("30s5m")), "spec.timeout: write hours, minutes");
    let memtier = |time: &'static str| {
        run(move |s| s["phases"][0] = json!({"name": "read", "memtier": {"testTime": time}}))
    };
    refused(&schema, &memtier("1500ms"), "spec.phases[0].memtier.testTime: memtier measures whole seconds");
    admitted(&schema, &memtier("2s"));
    let mut warm = memtier("2s");
    warm["spec"]["phases"][0]["warmup"] = json!("1500ms");
    refused(&schema, &warm, "memtier measures whole seconds: write its warmup without ms");
}

#[test]
fn sizes_that_cannot_be_drawn_are_refused() {
    let schema = schema::of::<BenchmarkRun>();
    let load = |fields: Value| {
        run(|spec| {
            let load = spec["phases"][0]["loadgen"].as_object_mut().unwrap();
            load.extend(fields.as_object().unwrap().clone());
        })
    };
    let set = |fields: &Value| {
        let mut operation = json!({"operation": "Set"});
        operation.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        load(json!({"operations": [operation]}))
    };
    let below = "dataSizeMaximum must not be below dataSize";
    refused(&schema, &load(json!({"dataSize": 9, "dataSizeMaximum": 8})), below);
    refused(&schema, &load(json!({"compressibility": "1.5"})), "compressibility is from 0 to 1");
    for fields in [json!({"dataSizeMaximum": 800}), json!({"dataSize": 9, "dataSizeMaximum": 8})] {
        refused(&schema, &set(&fields), "dataSizeMaximum needs a dataSize that is not above it");
    }
    admitted(&schema, &set(&json!({"dataSize": 9, "dataSizeMaximum": 9, "keyPrefix": "page:"})));
    admitted(&schema, &load(json!({"dataSizeMaximum": 32, "compressibility": "0.5"})));
    let session = json!({"command": "HSET __key__ f __data__", "expiry": "5s"});
    admitted(&schema, &load(json!({"operations": [session]})));
}

#[test]
fn a_timeout_shorter_than_the_declared_load_is_refused() {
    let schema = schema::of::<BenchmarkRun>();
    let declared = |timeout: &'static str| {
        run(move |s| {
            s["timeout"] = json!(timeout);
            s["repetitions"] = json!(3);
            s["phases"] = json!([
                {"name": "write", "memtier": {"testTime": "1m"}, "warmup": "10s"},
                {"name": "jobs", "bullmq": {"duration": "30s"}},
                {"name": "read", "loadgen": {"requestsPerConnection": 1000}},
                {"name": "own", "exec": {"image": "i", "command": ["c"], "duration": "20s", "parser": {"redisBenchmarkCsv": {}}}}
            ]);
        })
    };
    refused(&schema, &declared("5m59s"), "spec.timeout: timeout is 5m59s, shorter than the declared load");
    refused(&schema, &declared("2s"), "raise timeout, or measure less");
    admitted(&schema, &declared("6m"));
    admitted(&schema, &declared("1h30m"));
}

#[test]
fn the_readers_of_a_published_bullmq_phase_take_their_own_time() {
    let schema = schema::of::<BenchmarkRun>();
    let bullmq = |mode: &'static str, readers: u8, timeout: &'static str| {
        run(move |s| {
            s["timeout"] = json!(timeout);
            let jobs = json!({"mode": mode, "duration": "50s", "writers": 2, "readers": readers});
            s["phases"] = json!([{"name": "jobs", "warmup": "10s", "bullmq": jobs}]);
        })
    };
    refused(&schema, &bullmq("Published", 2, "119s"), "of bullmq in mode Published with readers twice");
    admitted(&schema, &bullmq("Published", 2, "2m"));
    admitted(&schema, &bullmq("Published", 0, "1m"));
    admitted(&schema, &bullmq("Fast", 2, "1m"));
    refused(&schema, &bullmq("Fast", 2, "59s"), "shorter than the declared load");
}

#[test]
fn ratios_outside_their_range_are_refused() {
    let schema = schema::of::<BenchmarkRun>();
    let ratio = |ratio: &'static str| run(move |s| s["phases"][0]["minimumHitRatio"] = json!(ratio));
    for good in ["0", "1", "0.999", "1.0"] {
        admitted(&schema, &ratio(good));
    }
    refused(&schema, &ratio("1.01"), "minimumHitRatio is from 0 to 1");
    refused(&schema, &ratio("99%"), "digits in quotes");
}

#[test]
fn memory_is_refused_with_the_unit_that_was_understood() {
    let schema = schema::of::<Datastore>();
    let memory = |memory: &str| datastore(&json!({"maxMemory": memory}));
    refused(
        &schema,
        &memory("512"),
        "spec.maxMemory: 512 without a unit means bytes: at least 1Mi is needed",
    );
    refused(&schema, &memory("900Ki"), "900Ki is less than 1Mi");
    refused(&schema, &memory("99999999999Ti"), "spec.maxMemory: write a whole number with Ki, Mi, Gi or Ti");
    admitted(&schema, &memory("1Mi"));
    admitted(&schema, &memory("4000000000"));
}

#[test]
fn a_memory_limit_below_max_memory_is_refused() {
    let schema = schema::of::<Datastore>();
    let limit =
        |limit: Value| datastore(&json!({"maxMemory": "1Gi", "resources": {"limits": {"memory": limit}}}));
    refused(&schema, &limit(json!("1000Mi")), "resources.limits.memory is below maxMemory");
    refused(&schema, &limit(json!(1_000_000)), "resources.limits.memory is below maxMemory");
    admitted(&schema, &limit(json!("1Gi")));
    admitted(&schema, &limit(json!("1536M")));
    admitted(&schema, &datastore(&json!({"resources": {"limits": {"memory": "100Mi"}}})));
    admitted(&schema, &datastore(&json!({"maxMemory": "1Gi", "resources": {"limits": {"cpu": "1"}}})));
}

#[test]
fn ports_of_addresses_are_ports() {
    let schema = schema::of::<BenchmarkRun>();
    let external =
        |address: &'static str| run(move |s| s["target"] = json!({"external": {"address": address}}));
    for good in ["10.0.0.7:6379", "[fd00::7]:65535", "redis.example.com:1"] {
        admitted(&schema, &external(good));
    }
    for bad in ["redis", "redis:0", "redis:65536", "redis:99999"] {
        refused(&schema, &external(bad), "address is HOST:PORT with a port from 1 to 65535");
    }
}

/// A run with one phase that has this search beside other `fields`.
fn search(search: &Value, fields: &Value) -> Value {
    run(|s| {
        let mut phase = json!({"name": "knee", "search": search});
        phase.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        s["phases"] = json!([phase]);
    })
}

#[test]
fn a_search_is_taken_by_the_tools_that_can_be_raised() {
    let schema = schema::of::<BenchmarkRun>();
    let loadgen = json!({"loadgen": {"duration": "5s"}, "warmup": "2s"});
    let memtier = json!({"memtier": {"testTime": "5s"}});
    for raise in ["Connections", "Pipeline", "Pods"] {
        let until_gain = json!({"raise": raise, "to": 256, "until": {"gain": "0.02"}});
        admitted(&schema, &search(&until_gain, &loadgen));
        admitted(&schema, &search(&until_gain, &memtier));
    }
    let until_cpus = json!({"raise": "Connections", "to": 256, "until": {"serverCpus": "5.6"}});
    admitted(&schema, &search(&until_cpus, &loadgen));
    let rate = json!({
        "raise": "Rate", "from": 1000, "to": 1_000_000, "until": {"p99": "500us"},
        "rates": ["0.5", "0.7", "0.9"], "arrival": "Poisson"
    });
    admitted(&schema, &search(&rate, &loadgen));
}

#[test]
fn each_mistake_in_a_search_is_refused_with_its_remedy() {
    let schema = schema::of::<BenchmarkRun>();
    let loadgen = json!({"loadgen": {"duration": "5s"}});
    let with = |field: &str, value: Value| {
        let mut search = json!({"raise": "Connections", "to": 64, "until": {"p99": "1ms"}});
        search[field] = value;
        search
    };
    let plain = with("from", json!(1));
    let refused_search = |of: &Value, expected| refused(&schema, &search(of, &loadgen), expected);
    refused_search(&with("until", json!({})), "until needs exactly one of p99");
    refused_search(&with("until", json!({"p99": "1ms", "gain": "0.1"})), "until needs exactly one of p99");
    let two = json!({"gain": "0.1", "serverCpus": "0.7"});
    refused_search(&with("until", two), "until needs exactly one of p99");
    refused_search(&with("until", json!({"serverCpus": "0"})), "serverCpus is a number of CPUs from 0.01");
    refused_search(&with("until", json!({"p99": "1.5ms"})), "such as 500us or 2ms");
    refused_search(&with("until", json!({"gain": "2"})), "gain is from 0.001 to 1");
    refused_search(&with("from", json!(65)), "search.to must not be below search.from");
    refused_search(&with("to", json!(10_001)), "and 10000 for Connections and Pipeline");
    refused_search(&with("rates", json!(["0.5", "1.5"])), "rates are shares from 0.01 to 1");
    let mut far = with("raise", json!("Rate"));
    far["to"] = json!(1_000_000);
    refused_search(&far, "raise from or lower to");
    let pods = with("raise", json!("Pods"));
    let mut many = pods.clone();
    many["to"] = json!(257);
    refused_search(&many, "at most 256 for Pods");
    let bullmq = json!({"bullmq": {"duration": "5s"}});
    let exec = json!({"exec": {"image": "i", "command": ["c"], "parser": {"redisBenchmarkCsv": {}}}});
    let library = json!({"loadgen": {"duration": "5s", "client": "Fred", "library": {}}});
    let own_rate = json!({"loadgen": {"duration": "5s", "rate": {"operationsPerSecond": 5}}});
    refused(&schema, &search(&pods, &own_rate), "leave loadgen.rate out");
    for fields in [bullmq, exec, library] {
        refused(&schema, &search(&pods, &fields), "declare a phase for each value");
    }
    let requests = json!({"loadgen": {"requestsPerConnection": 5}});
    refused(&schema, &search(&plain, &requests), "set loadgen.duration or memtier.testTime");
    let memtier = json!({"memtier": {"testTime": "5s"}});
    refused(&schema, &search(&with("raise", json!("Rate")), &memtier), "memtier has none");
    refused(&schema, &search(&with("rates", json!(["0.5"])), &memtier), "memtier has none");
    let long = json!({"name": "seventeen-letters", "loadgen": {"duration": "5s"}});
    refused(&schema, &search(&plain, &long), "at most 16 characters");
}

#[test]
fn one_point_of_a_search_counts_for_the_timeout() {
    let schema = schema::of::<BenchmarkRun>();
    let of = json!({"raise": "Connections", "to": 64, "until": {"p99": "1ms"}});
    let mut declared = search(&of, &json!({"loadgen": {"duration": "50s"}, "warmup": "10s"}));
    declared["spec"]["timeout"] = json!("59s");
    refused(&schema, &declared, "timeout is 59s, shorter than the declared load");
    declared["spec"]["timeout"] = json!("60s");
    admitted(&schema, &declared);
}

#[test]
fn requirements_name_a_check_that_has_a_level_and_a_limit_that_is_a_number() {
    let schema = schema::of::<BenchmarkRun>();
    let requiring = |requirement: Value| run(move |s| s["requirements"] = json!([requirement]));
    admitted(&schema, &requiring(json!({"check": "Steal"})));
    admitted(&schema, &requiring(json!({"check": "HighVariance", "level": "Required", "limit": "0.02"})));
    refused(
        &schema,
        &requiring(json!({"check": "Evictions", "level": "Ignore"})),
        "spec.requirements[0]: this check always fails the run and has no level: use the phase's allowEviction",
    );
    refused(&schema, &requiring(json!({"check": "Steal", "limit": "5%"})), "such as \"0.99\" or \"50\"");
}

#[test]
fn clients_share_the_node_of_their_own_target_alone_and_stand_beside_servers_that_are_ours() {
    let schema = schema::of::<BenchmarkRun>();
    let clients = |clients: Value| run(move |s| s["clients"] = clients);
    admitted(&schema, &clients(json!({"placement": {"sameNodeAs": "redis"}, "colocate": "Zone"})));
    let other = clients(json!({"placement": {"sameNodeAs": "valkey"}}));
    refused(&schema, &other, "name the target in clients.placement.sameNodeAs, or leave it out");
    let outside = |fields: Value| {
        run(move |s| {
            s["target"] = json!({"external": {"address": "10.0.0.7:6379"}});
            s["clients"] = fields;
        })
    };
    refused(&schema, &outside(json!({"colocate": "PlacementGroup"})), "needs a Datastore as target");
    refused(&schema, &outside(json!({"placement": {"sameNodeAs": "redis"}})), "name the target");
    let own = run(|s| {
        s["target"] = json!({"datastore": {"engine": "Redis", "threads": 1}});
        s["clients"] = json!({"placement": {"sameNodeAs": "sprint"}});
    });
    admitted(&schema, &own);
    refused(
        &schema,
        &clients(json!({"placement": {"zone": "a b"}})),
        "zone is a label's value, such as us-east-1a",
    );
    let datastore_schema = schema::of::<Datastore>();
    let placed = |placement: Value| datastore(&json!({"placement": placement}));
    admitted(
        &datastore_schema,
        &placed(json!({"zone": "us-east-1a", "placementGroup": "pg-1", "instanceType": "c7i.2xlarge"})),
    );
    refused(&datastore_schema, &placed(json!({"instanceType": ""})), "instanceType is a label's value");
}

#[test]
fn conditions_are_named_as_requirements() {
    let schema = schema::of::<BenchmarkRun>();
    let names = [
        "SameZone",
        "SamePlacementGroup",
        "ClientStronger",
        "DistinctNodes",
        "ExclusiveCPUs",
        "IoUring",
        "ThreadsAsRequested",
    ];
    let all: Vec<Value> = names.iter().map(|name| json!({"check": name, "level": "Required"})).collect();
    admitted(&schema, &run(move |s| s["requirements"] = json!(all)));
}

#[test]
fn an_eviction_policy_that_the_engine_does_not_have_is_refused_with_those_it_has() {
    let schema = schema::of::<Datastore>();
    let with = |engine: &str, policy: &str| datastore(&json!({"engine": engine, "evictionPolicy": policy}));
    for (engine, policy) in [
        ("Redis", "allkeys-lru"),
        ("Valkey", "volatile-ttl"),
        ("Dragonfly", "cache"),
        ("Garnet", "noeviction"),
    ] {
        admitted(&schema, &with(engine, policy));
    }
    for (engine, policy) in
        [("Redis", "cache"), ("Redis", "allkeys_lru"), ("Dragonfly", "allkeys-lru"), ("Garnet", "cache")]
    {
        refused(
            &schema,
            &with(engine, policy),
            "evictionPolicy is noeviction, for Dragonfly also cache, and for",
        );
    }
}

#[test]
fn persistence_that_the_engine_does_not_have_is_refused_with_what_it_has() {
    let schema = schema::of::<Datastore>();
    let with = |engine: &str, persistence: Value| {
        let mut fields = json!({"engine": engine, "persistence": persistence});
        if engine == "Custom" {
            fields["image"] = json!("kv:1");
            fields["custom"] = json!({});
        }
        datastore(&fields)
    };
    for (engine, persistence) in [
        (
            "Redis",
            json!({"appendOnly": true, "fsync": "Never", "snapshotInterval": "90s", "snapshotChanges": 9}),
        ),
        ("Valkey", json!({"snapshotInterval": "1h30m"})),
        ("KeyDB", json!({"appendOnly": false})),
        ("Dragonfly", json!({"snapshotInterval": "5m"})),
        ("Garnet", json!({"appendOnly": true, "fsync": "Always"})),
    ] {
        admitted(&schema, &with(engine, persistence));
    }
    let dragonfly = "Dragonfly has snapshots by the clock only: leave out persistence.appendOnly";
    let garnet = "leave out persistence.snapshotInterval, and set persistence.fsync to Always or EverySecond";
    for (engine, persistence, expected) in [
        ("Dragonfly", json!({"appendOnly": true}), dragonfly),
        ("Dragonfly", json!({"snapshotInterval": "5m", "snapshotChanges": 9}), dragonfly),
        ("Dragonfly", json!({"snapshotInterval": "7m"}), dragonfly),
        ("Garnet", json!({"snapshotInterval": "5m"}), garnet),
        ("Garnet", json!({"appendOnly": true, "fsync": "Never"}), garnet),
        ("Custom", json!({"appendOnly": true}), "set that of engine Custom in custom.args"),
        ("Redis", json!({"fsync": "Always"}), "spec.persistence: fsync needs appendOnly: true"),
        ("Redis", json!({"snapshotChanges": 9}), "snapshotChanges needs snapshotInterval"),
        ("Redis", json!({"snapshotInterval": "1500ms"}), "write it without ms, such as 2s"),
    ] {
        refused(&schema, &with(engine, persistence), expected);
    }
}
