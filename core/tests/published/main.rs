//! The suites of examples/published/ against what their authors published: number of runs,
//! every command line, every flag of the servers, every figure. What is expected is written
//! out here as it was published, not derived. Reads those files.

// A manifest that cannot be read fails its test.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod claims;
mod document;
mod machines;
mod rows;

use dragstrip_core::{
    datastore::{server, validate::validate},
    suite::expand::{ChildRun, Expanded, expand},
};
use dragstrip_crds::{BenchmarkSuite, Datastore, DatastoreSpec, measured::Metric, workload::ToolSpec};
use dragstrip_parsers::{Capture, Outputs};
use dragstrip_report::published::{Figure, Scope, Table, parse};
use dragstrip_results::protocol::{JobSpec, JobTarget};
use dragstrip_runner::{Launch, LaunchContext, adapter_for};
use k8s_openapi::api::core::v1::{Container, Node};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
    sync::LazyLock,
};

/// Each suite with its combinations and runs.
const SUITES: [(&str, usize, usize); 16] = [
    // Four servers.
    ("memtier-dragonfly-garnet", 4, 12),
    ("bullmq", 9, 27),
    ("bullmq-tool", 9, 27),
    // Five clients x two batch sizes; two operations each.
    ("rust-client-throughput", 10, 30),
    // Two batch sizes; five clients and two operations each.
    ("rust-client-throughput-criterion", 2, 6),
    // 5 x 5; two operations each.
    ("rust-client-sizes", 25, 75),
    ("rust-client-sizes-criterion", 25, 75),
    ("fred", 6, 18),
    // 2 x 2 x 6; seven operations each.
    ("dkv-cluster", 24, 72),
    ("dkv-three-vs-five", 2, 6),
    // Two systems x two numbers of threads.
    ("dkv-vs-etcd", 4, 12),
    ("dkv-single-node", 6, 18),
    ("dkv-one-vs-two-clients", 2, 6),
    ("dkv-one-vs-two-clients-unix", 2, 6),
    ("dkv-memory", 2, 6),
    ("dkv-in-process", 1, 3),
];

fn file(suite: &str, name: &str) -> String {
    let path: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/published").join(suite);
    fs::read_to_string(path.join(name)).unwrap_or_else(|error| panic!("{suite}/{name}: {error}"))
}

fn suite(name: &str) -> BenchmarkSuite {
    let manifest: Value = serde_yaml::from_str(&file(name, "suite.yaml")).unwrap();
    serde_json::from_value(manifest).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Suites of what a source says without a table.
const WITHOUT_TABLE: [&str; 2] = ["fred-sweep", "fred-tracing"];

/// Every suite with its runs.
static EXPANDED: LazyLock<BTreeMap<&str, Expanded>> = LazyLock::new(|| {
    let expanded = |name| expand(&suite(name)).unwrap_or_else(|invalid| panic!("{name}: {invalid}"));
    SUITES.iter().map(|(name, ..)| *name).chain(WITHOUT_TABLE).map(|name| (name, expanded(name))).collect()
});

/// Every published figure, by suite.
static FIGURES: LazyLock<BTreeMap<&str, Vec<Figure>>> =
    LazyLock::new(|| SUITES.iter().map(|(name, ..)| (*name, table(name).figures)).collect());

fn figures(name: &str) -> &'static [Figure] {
    &FIGURES[name]
}

fn runs(name: &str) -> &'static [ChildRun] {
    &EXPANDED[name].runs
}

/// The first run of a combination.
fn run(name: &str, variant: &str, values: &[&str]) -> ChildRun {
    let found = runs(name).iter().find(|run| run.cell.variant == variant && run.cell.values == values);
    found.unwrap_or_else(|| panic!("{name} has no run of {variant} {values:?}")).clone()
}

fn job(run: &ChildRun, phase: usize) -> JobSpec {
    let target = &run.spec.target;
    let cluster = target.datastore().is_some_and(|spec| spec.cluster.is_some())
        || target.external().is_some_and(|external| external.cluster);
    let members = target.datastore().and_then(|spec| spec.custom.as_ref()).map_or(0, |it| it.members);
    let port = target.datastore().map_or(30001, |spec| u16::try_from(spec.port).unwrap());
    let phase = &run.spec.phases[phase];
    let target: JobTarget = serde_json::from_value(json!({
        "host": "server", "port": port, "cluster": cluster, "protocol": "Resp",
        "members": (0..members).map(|n| json!({"host": format!("m{n}"), "port": port})).collect::<Vec<_>>(),
    }))
    .unwrap();
    JobSpec {
        run: run.name.clone(),
        phase: phase.name.clone(),
        repetition: 1,
        clients: u32::try_from(run.spec.clients.pods).unwrap(),
        token: String::new(),
        verifying_key: None,
        target,
        flush: phase.flush,
        load: None,
        warmup_seconds: phase.warmup.as_ref().and_then(dragstrip_crds::units::Warmup::seconds),
        allow_eviction: false,
        tool: phase.tool.clone(),
        watchdog_seconds: 600.0,
        linger_seconds: 0.0,
        memory: None,
    }
}

/// What the client pod of `run` starts in `phase`.
fn launch(run: &ChildRun, phase: usize) -> Launch {
    let job = job(run, phase);
    let context = LaunchContext {
        address: format!("10.0.0.7:{}", job.target.port).parse().unwrap(),
        members: Vec::new(),
        client_index: 0,
        password: run.spec.target.external().is_some().then(|| "bar".to_owned()),
        tls: None,
        output_directory: "/out".into(),
        start_at_unix_nanos: 1,
        tool_version: None,
        statsd_port: None,
    };
    adapter_for(&job.tool).launch(&job, &context)
}

/// The options of a command line, each with its value, in no order.
fn options(line: &str) -> BTreeSet<String> {
    let mut found: Vec<String> = Vec::new();
    for word in line.split_whitespace() {
        match found.last_mut() {
            Some(option) if !word.starts_with("--") && option.starts_with("--") => {
                *option = format!("{option} {word}");
            }
            _ => found.push(word.to_owned()),
        }
    }
    found.into_iter().collect()
}

/// That `run` starts the published options in `phase`, and beside them `own`, which change
/// nothing of the load.
fn assert_options(run: &ChildRun, phase: usize, published: &str, own: &str) {
    let started = launch(run, phase);
    let expected = options(&format!("{published} {own}"));
    let found = options(&started.arguments.join(" "));
    let (missing, more) =
        (expected.difference(&found).collect::<Vec<_>>(), found.difference(&expected).collect::<Vec<_>>());
    assert!(
        missing.is_empty() && more.is_empty(),
        "{:?}: {missing:?} is missing, {more:?} is not published",
        run.cell
    );
}

/// What is the server's own in its container.
fn server(spec: &DatastoreSpec) -> Container {
    let object = json!({
        "apiVersion": "dragstrip.dev/v1alpha1", "kind": "Datastore",
        "metadata": {"name": "raced", "namespace": "races", "uid": "uid"}, "spec": spec,
    });
    let object: Datastore = serde_json::from_value(object).unwrap();
    let validated = validate::<Node>(&object, &[]).unwrap();
    let (command, arguments) = server::command(&validated.spec);
    Container {
        command: Some(command),
        args: Some(arguments),
        env: Some(server::environment(&validated)),
        image: Some(validated.image),
        resources: Some(validated.resources),
        ..Container::default()
    }
}

fn server_of(run: &ChildRun) -> Container {
    server(run.spec.target.datastore().unwrap_or_else(|| panic!("{:?} has no server", run.cell)))
}

/// The command line of the server of `run`.
fn served(run: &ChildRun) -> String {
    let container = server_of(run);
    [container.command, container.args].into_iter().flatten().flatten().collect::<Vec<_>>().join(" ")
}

fn environment(container: &Container) -> BTreeSet<String> {
    let variables = container.env.iter().flatten();
    variables.map(|it| format!("{}={}", it.name, it.value.clone().unwrap_or_default())).collect()
}

#[test]
fn every_published_benchmark_is_a_suite_of_as_many_runs_as_combinations_were_published() {
    for (name, combinations, expected) in SUITES {
        let runs = runs(name);
        let cells: BTreeSet<_> = runs.iter().map(|run| &run.cell).collect();
        assert_eq!((cells.len(), runs.len()), (combinations, expected), "combinations and runs of {name}");
    }
}

#[test]
fn servers_follow_one_another_on_the_same_machine() {
    for (name, ..) in SUITES {
        let runs = runs(name);
        let mut cells: Vec<_> = runs.iter().map(|run| &run.cell).collect();
        cells.dedup();
        let distinct: BTreeSet<_> = cells.iter().collect();
        assert_eq!(cells.len(), distinct.len(), "{name} comes back to a server that it had left");
    }
}

/// memtier's own defaults, where its result goes, and the server.
const MEMTIER_OWN: &str = "--server 10.0.0.7 --port 6379 --data-size 32 --key-maximum 10000000 --key-pattern R:R \
     --json-out-file /out/memtier.json --print-percentiles 50,90,95,99,99.9,99.99";

#[test]
fn memtier_is_started_as_published() {
    // -t, -c and -n in full.
    let write =
        "--distinct-client-seed --hide-histogram --ratio 1:0 --threads 60 --clients 20 --requests 200000";
    let read =
        "--distinct-client-seed --hide-histogram --ratio 0:1 --threads 60 --clients 20 --requests 200000";
    let pipelined = |n| {
        format!(
            "--ratio 0:1 --threads 60 --clients 5 --requests {n} --distinct-client-seed --hide-histogram --pipeline 10"
        )
    };
    for (variant, requests) in [
        ("dragonfly-c6gn", 200_000),
        ("dragonfly-c7gn", 200_000),
        ("garnet-c6in", 2_000_000),
        ("dragonfly-c6in", 2_000_000),
    ] {
        let run = run("memtier-dragonfly-garnet", variant, &[]);
        let names: Vec<_> = run.spec.phases.iter().map(|phase| (phase.name.as_str(), phase.flush)).collect();
        assert_eq!(
            names,
            [("write-only", false), ("read-only", false), ("pipelined-read", false)],
            "the data stays between the phases"
        );
        assert_options(&run, 0, write, &format!("{MEMTIER_OWN} --pipeline 1"));
        assert_options(&run, 1, read, &format!("{MEMTIER_OWN} --pipeline 1"));
        assert_options(&run, 2, &pipelined(requests), MEMTIER_OWN);
        assert_eq!(launch(&run, 0).program, "memtier_benchmark");
        assert_eq!(run.spec.clients.placement.instance_type.as_deref(), Some("c7gn.16xlarge"));
        let machine = run.spec.target.datastore().unwrap().placement.instance_type.clone().unwrap();
        assert_eq!(machine, format!("{}.12xlarge", variant.rsplit_once('-').unwrap().1));
    }
}

#[test]
fn the_servers_under_memtier_have_the_published_flags() {
    // ./dragonfly --logtostderr --dbfilename=
    let dragonfly = "dragonfly --logtostderr --port=6379 --proactor_threads=48 --maxmemory=77309411328 --dbfilename= \
                     --version_check=false";
    for variant in ["dragonfly-c6gn", "dragonfly-c7gn", "dragonfly-c6in"] {
        let run = run("memtier-dragonfly-garnet", variant, &[]);
        assert_eq!(served(&run), dragonfly, "{variant}");
        let image = server_of(&run).image;
        assert_eq!(
            image.as_deref(),
            Some("docker.dragonflydb.io/dragonflydb/dragonfly:v1.15.0"),
            "{variant}"
        );
    }
    // docker run --network=host ghcr.io/romange/garnet:latest --port=6379
    let garnet = run("memtier-dragonfly-garnet", "garnet-c6in", &[]);
    assert_eq!(served(&garnet), "--port=6379");
    assert_eq!(server_of(&garnet).image.as_deref(), Some("ghcr.io/romange/garnet:latest"));
    assert!(garnet.spec.target.datastore().unwrap().pod.host_network);
}

/// By variant: the server's program with the published flags, and what the operator adds.
const BULLMQ: [(&str, &str, &str); 9] = [
    ("redis-6.2", "redis-server", "docker.io/library/redis:6.2"),
    ("redis-7.2", "redis-server", "docker.io/library/redis:7.2"),
    ("redis-cluster", "redis-server --cluster-enabled yes", "docker.io/library/redis:7.2"),
    (
        "dragonfly-global-locks",
        "dragonfly --default_lua_flags=allow-undeclared-keys",
        "docker.dragonflydb.io/dragonflydb/dragonfly:v1.10.0",
    ),
    (
        "dragonfly-hashtag-locks",
        "dragonfly --cluster_mode=emulated --lock_on_hashtags",
        "docker.dragonflydb.io/dragonflydb/dragonfly:v1.10.0",
    ),
    (
        "dragonfly-fewer-hops-commands",
        "dragonfly --cluster_mode=emulated --lock_on_hashtags",
        "registry.example.com/dragonfly:b91435e36",
    ),
    (
        "dragonfly-fewer-hops-scripts",
        "dragonfly --cluster_mode=emulated --lock_on_hashtags",
        "docker.dragonflydb.io/dragonflydb/dragonfly:v1.11.0",
    ),
    (
        "dragonfly-migration",
        "dragonfly --cluster_mode=emulated --lock_on_hashtags",
        "docker.dragonflydb.io/dragonflydb/dragonfly:v1.12.0",
    ),
    (
        "dragonfly-round-robin",
        "dragonfly --cluster_mode=emulated --lock_on_hashtags --shard_round_robin_prefix=queue",
        "docker.dragonflydb.io/dragonflydb/dragonfly:v1.12.0",
    ),
];

#[test]
fn bullmq_is_started_as_published_against_nine_servers() {
    // node index.js -h <ip> -p 7000 -d 30 -r 0 -w 16 -q 8
    let published = "--host=10.0.0.7 --port=7000 --duration=30000ms --readers=0 --writers=16 --queues=8";
    let own = "--mode=published --reader-concurrency=1 --queue-name={queue%d} --start-at-unix-nanos=1 \
               --progress-interval=1s --json-out-file=/out/bullmq.json --cleanup-timeout=565.000s";
    for (variant, ..) in BULLMQ {
        let run = run("bullmq", variant, &[]);
        let cluster = if variant == "redis-cluster" { "--cluster" } else { "" };
        assert_options(&run, 0, published, &format!("{own} {cluster}"));
        assert_eq!(run.spec.clients.placement.instance_type.as_deref(), Some("c7i.16xlarge"));
    }
}

#[test]
fn the_articles_own_tool_is_started_as_published() {
    for (variant, ..) in BULLMQ {
        let run = run("bullmq-tool", variant, &[]);
        let started = launch(&run, 0);
        let line = format!("{} {}", started.program, started.arguments.join(" "));
        assert_eq!(line, "node index.js -h server -p 7000 -d 30 -r 0 -w 16 -q 8", "{variant}");
        assert_eq!(served(&run), served(&self::run("bullmq", variant, &[])), "{variant}: another server");
        assert_eq!(run.spec.clients.placement.instance_type.as_deref(), Some("c7i.16xlarge"));
    }
}

#[test]
fn the_servers_under_bullmq_have_the_published_flags() {
    let dragonfly = "--logtostderr --port=7000 --proactor_threads=8 --maxmemory=10737418240 --dbfilename= --version_check=false";
    for (variant, published, image) in BULLMQ {
        let run = run("bullmq", variant, &[]);
        let line = options(&served(&run));
        let missing: Vec<_> = options(published).difference(&line).cloned().collect();
        assert!(missing.is_empty(), "{variant}: {missing:?} is missing of {line:?}");
        if published.starts_with("dragonfly") {
            assert_eq!(line, options(&format!("{published} {dragonfly}")), "{variant}");
        }
        assert_eq!(server_of(&run).image.as_deref(), Some(image), "{variant}");
        let spec = run.spec.target.datastore().unwrap();
        assert_eq!(
            (spec.placement.instance_type.as_deref(), spec.port),
            (Some("c7i.2xlarge"), 7000),
            "{variant}"
        );
    }
    let cluster = run("bullmq", "redis-cluster", &[]);
    let cluster = cluster.spec.target.datastore().unwrap().cluster.as_ref().unwrap();
    assert_eq!(cluster.shards, 8);
}

#[test]
fn threads_equal_to_the_machines_cpus_leave_a_request_that_fits() {
    let dragonfly = run("bullmq", "dragonfly-round-robin", &[]);
    let spec = dragonfly.spec.target.datastore().unwrap();
    let resources = server(spec).resources.unwrap();
    let (limits, requests) = (resources.limits.unwrap(), resources.requests.unwrap());
    assert_eq!((spec.threads, limits["cpu"].0.as_str()), (8, "8"), "a thread on each CPU");
    assert_eq!(requests["cpu"].0, "6", "the node keeps a CPU, and its daemons a part of one");
}

/// That `run` hands the published batches to the client library.
fn rust_client(
    run: &ChildRun,
    kind: &str,
    pool_size: u32,
    parallelism: u32,
    [batch_size, key, value]: [&str; 3],
) {
    for (phase, operation) in ["Mset", "SetExpire"].into_iter().enumerate() {
        let document: Value = serde_json::from_str(&launch(run, phase).input.unwrap()).unwrap();
        let load = &document["loadgen"];
        let found = (&load["client"], &load["library"]["connectionKind"], &load["library"]["poolSize"]);
        assert_eq!(found, (&json!("RedisRs"), &json!(kind), &json!(pool_size)), "{:?}", run.cell);
        let mut batch = json!({
            "items": 100_000, "batchSize": batch_size.parse::<u32>().unwrap(), "parallelism": parallelism,
            "operation": operation, "keySize": key.parse::<u32>().unwrap(),
        });
        if operation == "SetExpire" {
            batch["expiry"] = json!("300s");
        }
        assert_eq!(load["batch"], batch, "{:?}", run.cell);
        assert_eq!(load["dataSize"].to_string(), value, "{:?}", run.cell);
        let measured = (&load["threads"], &load["resp3"], &load["duration"], &document["warmup"]);
        assert_eq!(measured, (&json!(192), &json!(true), &json!("60s"), &json!("5000ms")), "{:?}", run.cell);
    }
}

#[test]
fn the_rust_client_is_started_as_published() {
    for batch_size in ["1000", "10000"] {
        let v1 = run("rust-client-throughput", "v1", &[batch_size]);
        rust_client(&v1, "ConnectionManager", 1, 1, [batch_size, "80", "20"]);
        for parallelism in [1, 2, 4, 8] {
            let pooled = run("rust-client-throughput", &format!("pooled-x{parallelism}"), &[batch_size]);
            rust_client(&pooled, "Multiplexed", 100, parallelism, [batch_size, "80", "20"]);
        }
    }
    let sizes = ["8", "16", "32", "64", "128"];
    for (key, value) in sizes.iter().flat_map(|key| sizes.iter().map(move |value| (*key, *value))) {
        let run = run("rust-client-sizes", "v1", &[key, value]);
        rust_client(&run, "ConnectionManager", 1, 1, ["10000", key, value]);
    }
}

#[test]
fn the_sources_own_benchmark_of_the_rust_client_is_started_as_published() {
    // REDIS_BENCH_SERVER=127.0.0.1:6379 REDIS_BENCH_MULTI_SET=1 cargo bench --bench ...
    for batch_size in ["1000", "10000"] {
        let run = run("rust-client-throughput-criterion", "dragonfly", &[batch_size]);
        let started = launch(&run, 0);
        assert!(
            started.arguments[1].contains("write_throughput --bench --noplot |"),
            "{:?}",
            started.arguments
        );
        for (name, value) in [("REDIS_BENCH_BATCH_SIZE", batch_size), ("REDIS_BENCH_MULTI_SET", "1")] {
            assert!(started.environment.contains(&(name.to_owned(), value.to_owned())), "{name}={value}");
        }
    }
    let run = run("rust-client-sizes-criterion", "v1", &["16", "128"]);
    for (phase, multi_set) in [(0, true), (1, false)] {
        let started = launch(&run, phase);
        // One of the source's 25 benchmarks, by its name.
        assert_eq!(started.arguments[2..], ["payload_latency", "16", "128"], "$0, $1 and $2 of the script");
        assert!(started.arguments[1].contains("\"key size $1, value size $2, \""), "{:?}", started.arguments);
        let has = started.environment.contains(&("REDIS_BENCH_MULTI_SET".to_owned(), "1".to_owned()));
        assert_eq!(has, multi_set, "its presence makes it MSET: {:?}", started.environment);
    }
}

#[test]
fn the_server_under_the_rust_client_is_as_published_and_on_the_same_machine() {
    for (suite, variant, values) in [
        ("rust-client-throughput", "pooled-x8", vec!["1000"]),
        ("rust-client-throughput-criterion", "dragonfly", vec!["1000"]),
        ("rust-client-sizes", "v1", vec!["8", "8"]),
        ("rust-client-sizes-criterion", "v1", vec!["8", "8"]),
    ] {
        let run = run(suite, variant, &values);
        let container = server_of(&run);
        // DFLY_maxmemory is a flag here.
        for expected in [
            "DFLY_max_multi_bulk_len=2000100",
            "DFLY_pipeline_buffer_limit=872415232",
            "DFLY_pipeline_queue_limit=2000100",
        ] {
            assert!(environment(&container).contains(expected), "{suite}: {expected}");
        }
        assert!(served(&run).contains("--maxmemory=42949672960"), "40g: {}", served(&run));
        assert_eq!(container.image.as_deref(), Some("ghcr.io/dragonflydb/dragonfly:v1.34.2"));
        let limits = container.resources.unwrap().limits.unwrap();
        assert_eq!((limits["cpu"].0.as_str(), limits["memory"].0.as_str()), ("32", "48Gi"));
        let server = run.spec.target.datastore().unwrap();
        assert!(
            server.cpu.exclusive && run.spec.clients.share_server_node,
            "{suite}: CPUs of its own, one machine"
        );
        assert_eq!(server.placement.instance_type, run.spec.clients.placement.instance_type);
    }
}

#[test]
fn freds_benchmark_is_started_as_published() {
    let common = "-n 10000000 -c 10000 -P 15";
    for (variant, published, redis_rs) in [
        ("cluster-no-pipeline", format!("--cluster -h server -p 30001 {common} no-pipeline"), false),
        ("cluster-pipeline", format!("--cluster -h server -p 30001 {common} pipeline"), false),
        ("cluster-replicas", format!("--cluster --replicas -h server -p 30001 {common} pipeline"), false),
        ("no-pipeline", format!("-h server -p 6379 {common} no-pipeline"), false),
        ("bb8-redis", "-h server -p 6379 -n 10000000 -P 15 -c 10000".to_owned(), true),
        ("pipeline", format!("-h server -p 6379 {common} pipeline"), false),
    ] {
        let run = run("fred", variant, &[]);
        let started = launch(&run, 0);
        assert_eq!(
            (started.program.as_str(), started.arguments.join(" ")),
            ("fred_benchmark", published),
            "{variant}"
        );
        // Without a user's name the tool's URL has the password in its place.
        for (name, value) in [("USE_REDIS_RS", "1"), ("REDIS_USERNAME", "default")] {
            let sets = started.environment.contains(&(name.to_owned(), value.to_owned()));
            assert_eq!(sets, redis_rs, "{variant}: {name} in {:?}", started.environment);
        }
        let cluster = run.spec.target.datastore().unwrap().cluster.as_ref();
        let servers = cluster.map(|cluster| (cluster.shards, cluster.replicas));
        assert_eq!(servers, variant.starts_with("cluster").then_some((3, 1)), "{variant}");
    }
}

/// The environment that dKV's compose files give servers and clients alike.
const DKV: [&str; 11] = [
    "GOGC=80",
    "GOMEMLIMIT=64GiB",
    "GOMAXPROCS=48",
    "DKV_TIMEOUT=15",
    "DKV_SERIALIZER=binary",
    "DKV_TRANSPORT=tcp",
    "DKV_TRANSPORT_WRITE_BUFFER=512",
    "DKV_TRANSPORT_READ_BUFFER=512",
    "DKV_TRANSPORT_TCP_NODELAY=true",
    "DKV_TRANSPORT_TCP_KEEP_ALIVE=60",
    "DKV_TRANSPORT_TCP_LINGER=10",
];
/// The same, of servers of a cluster alone.
const DKV_CLUSTER: [&str; 7] = [
    "DKV_SHARDS=100=dstore",
    "DKV_LOG_LEVEL=info",
    "DKV_RTT_MILLISECOND=100",
    "DKV_ELECTION_RTT_FACTOR=10",
    "DVK_HEARTBEAT_RTT_FACTOR=2",
    "DKV_SNAPSHOT_ENTRIES=100000",
    "DKV_COMPACTION_OVERHEAD=50000",
];

fn members(count: usize) -> String {
    let member = |n| format!("$(DATASTORE)-{n}=$(DATASTORE)-{n}.$(SERVICE):63001");
    format!("DKV_CLUSTER_MEMBERS={}", (0..count).map(member).collect::<Vec<_>>().join(","))
}

fn assert_dkv_server(run: &ChildRun, nodes: usize, workers: &str) {
    let container = server_of(run);
    let found = environment(&container);
    let mut expected: Vec<String> = DKV.iter().chain(&DKV_CLUSTER).map(|it| (*it).to_owned()).collect();
    expected.extend([
        format!("DKV_TRANSPORT_WORKERS={workers}"),
        members(nodes),
        "DKV_REPLICA_ID=$(POD_NAME)".to_owned(),
    ]);
    for expected in expected {
        assert!(found.contains(&expected), "{:?}: {expected} is missing of {found:?}", run.cell);
    }
    assert_eq!(served(run), "/app/dkv serve");
    let count = run.spec.target.datastore().unwrap().custom.as_ref().unwrap().members;
    assert_eq!(usize::try_from(count).unwrap(), nodes);
}

fn assert_dkv_client(run: &ChildRun, threads: Option<&str>, connections: &str, endpoints: &str) {
    let started = launch(run, 0);
    assert_eq!(started.program, "/app/dkv");
    assert_eq!(started.arguments[..2], ["kv", "perf"]);
    let found: BTreeSet<String> =
        started.environment.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let mut expected: Vec<String> = DKV.iter().map(|it| (*it).to_owned()).collect();
    expected.push(format!("DKV_TRANSPORT_CONN_PER_ENDPOINT={connections}"));
    expected.push(format!("DKV_TRANSPORT_ENDPOINTS={endpoints}"));
    expected.extend(threads.map(|threads| format!("DKV_THREADS={threads}")));
    for expected in expected {
        assert!(found.contains(&expected), "{:?}: {expected} is missing of {found:?}", run.cell);
    }
}

const THREE: &str = "m0:8080,m1:8080,m2:8080";

#[test]
fn dkv_and_its_client_are_started_as_published() {
    for threads in ["50", "10"] {
        for workers in ["50", "10"] {
            for connections in ["1", "10", "20", "30", "40", "50"] {
                let run = run("dkv-cluster", "dkv", &[threads, workers, connections]);
                assert_dkv_server(&run, 3, workers);
                assert_dkv_client(&run, Some(threads), connections, THREE);
            }
        }
    }
    for (variant, nodes, endpoints) in
        [("three", 3, THREE.to_owned()), ("five", 5, format!("{THREE},m3:8080,m4:8080"))]
    {
        let run = run("dkv-three-vs-five", variant, &[]);
        assert_dkv_server(&run, nodes, "10");
        assert_dkv_client(&run, Some("50"), "10", &endpoints);
    }
    for variant in ["right-after", "a-minute-after"] {
        let run = run("dkv-memory", variant, &[]);
        assert_dkv_server(&run, 3, "50");
        assert_dkv_client(&run, Some("50"), "20", THREE);
    }
}

#[test]
fn one_dkv_server_and_its_clients_are_started_as_published() {
    for connections in ["1", "10", "20", "30", "40", "50"] {
        let run = run("dkv-single-node", "dkv-single", &[connections]);
        let found = environment(&server_of(&run));
        for expected in ["DKV_SHARDS=100=lstore", "DKV_TRANSPORT_WORKERS=10"].iter().chain(&DKV) {
            assert!(found.contains(*expected), "{expected} is missing of {found:?}");
        }
        assert_dkv_client(&run, Some("50"), connections, "m0:8080");
    }
    for (variant, pods, threads) in [("two-clients", 2, "100"), ("one-client", 1, "200")] {
        let run = run("dkv-one-vs-two-clients", variant, &[]);
        assert_eq!(run.spec.clients.pods, pods, "{variant}");
        let found = launch(&run, 0).environment;
        for (name, value) in [
            ("DKV_THREADS", threads),
            ("DKV_TRANSPORT_CONN_PER_ENDPOINT", "100"),
            ("DKV_LARGE_VALUE_SIZE", "256"),
        ] {
            assert!(found.contains(&(name.to_owned(), value.to_owned())), "{variant}: {name}={value}");
        }
        assert!(environment(&server_of(&run)).contains("DKV_TRANSPORT_WORKERS=100"), "{variant}");
    }
}

#[test]
fn dkvs_clients_over_a_unix_socket_are_started_as_published() {
    for (variant, clients, threads) in [("two-clients", "2", "100"), ("one-client", "1", "200")] {
        let started = launch(&run("dkv-one-vs-two-clients-unix", variant, &[]), 0);
        assert_eq!(started.arguments[2..], ["perf", clients], "$0 and $1 of the script");
        for (name, value) in [
            ("DKV_THREADS", threads),
            ("DKV_TRANSPORT", "unix"),
            ("DKV_TRANSPORT_CONN_PER_ENDPOINT", "100"),
            ("DKV_TRANSPORT_WORKERS", "100"),
            ("DKV_LARGE_VALUE_SIZE", "256"),
            ("GOMAXPROCS", "48"),
        ] {
            assert!(
                started.environment.contains(&(name.to_owned(), value.to_owned())),
                "{variant}: {name}={value}"
            );
        }
    }
}

#[test]
fn dkv_and_etcd_are_compared_as_published() {
    for threads in ["10", "50"] {
        let dkv = run("dkv-vs-etcd", "dkv", &[threads]);
        assert_dkv_server(&dkv, 3, "10");
        assert_dkv_client(&dkv, None, "40", THREE);
        assert_eq!(launch(&dkv, 0).arguments.join(" "), format!("kv perf --threads={threads}"));
        let etcd = run("dkv-vs-etcd", "etcd", &[threads]);
        let started = launch(&etcd, 0);
        // go run etcdBench/main.go --threads=50
        assert_eq!(
            (started.program.as_str(), started.arguments.join(" ")),
            ("etcdBench", format!("--endpoints=m0:2379,m1:2379,m2:2379 --threads={threads}"))
        );
        let peer = |n| format!("$(DATASTORE)-{n}=http://$(DATASTORE)-{n}.$(SERVICE):2380");
        let expected = format!(
            "/usr/local/bin/etcd --name=$(POD_NAME) --data-dir=/data/etcd --listen-client-urls=http://0.0.0.0:2379 \
             --advertise-client-urls=http://$(POD_NAME).$(SERVICE):2379 --listen-peer-urls=http://0.0.0.0:2380 \
             --initial-advertise-peer-urls=http://$(POD_NAME).$(SERVICE):2380 --initial-cluster={},{},{} \
             --initial-cluster-state=new --initial-cluster-token=etcd-cluster",
            peer(0),
            peer(1),
            peer(2)
        );
        assert_eq!(served(&etcd), expected);
        assert_eq!(server_of(&etcd).image.as_deref(), Some("quay.io/coreos/etcd:v3.5.9"));
    }
}

#[test]
fn benchmarks_within_one_process_are_gos_own() {
    let run = run("dkv-in-process", "in-process", &[]);
    for (phase, program) in [(0, "/benchmarks/maple.test"), (1, "/benchmarks/serializer.test")] {
        let started = launch(&run, phase);
        assert_eq!(started.program, program);
        assert_eq!(started.arguments, ["-test.run=^$", "-test.bench=.", "-test.benchmem"]);
    }
}

const MIB: f64 = 1024.0 * 1024.0;

/// For each suite's table: the number of figures of the metrics that begin and end like this,
/// and their sum, each column added up as it was published.
const TABLES: [(&str, &str, &str, usize, f64); 36] = [
    ("memtier-dragonfly-garnet", "toolOperationsPerSecond", "", 12, 83_837_866.95),
    ("memtier-dragonfly-garnet", "MeanMilliseconds", "", 12, 3.84744),
    ("memtier-dragonfly-garnet", "P50Milliseconds", "", 6, 2.026),
    ("memtier-dragonfly-garnet", "P99Milliseconds", "", 6, 3.578),
    ("memtier-dragonfly-garnet", "P999Milliseconds", "", 12, 29.916),
    ("memtier-dragonfly-garnet", "BytesPerSecond", "", 6, 2_617_380.03 * 1024.0),
    ("memtier-dragonfly-garnet", "HitRatio", "", 4, 4.0),
    ("bullmq", "nominalAddJobsPerSecond", "", 9, 986_489.0),
    ("bullmq-tool", "OperationsPerSecond", "", 9, 986_489.0),
    ("rust-client-throughput", "SecondsPerBatch", "", 20, 1.695_081),
    ("rust-client-throughput", "ElementsPerSecond", "", 20, 40_156_980.0),
    ("rust-client-throughput", "payload", "", 20, 3_829.69),
    ("rust-client-sizes", "SecondsPerBatch", "", 50, 6.789_435),
    ("rust-client-sizes", "ElementsPerSecond", "", 50, 51_752_700.0),
    ("rust-client-throughput-criterion", "", " time", 20, 1_695.081),
    ("rust-client-throughput-criterion", "", " elements", 20, 2_967.306_9),
    ("rust-client-sizes-criterion", "time", "", 50, 6_789.435),
    ("rust-client-sizes-criterion", "elements", "", 50, 12_262.329_9),
    ("fred", "OperationsPerSecond", "", 6, 8_174_813.0),
    ("dkv-cluster", "OperationsPerSecond", "", 168, 25_978_618.0),
    ("dkv-cluster", "ServerPeakBytes", "", 24, 109_440.76 * MIB),
    ("dkv-three-vs-five", "OperationsPerSecond", "", 14, 1_777_643.0),
    ("dkv-three-vs-five", "ServerPeakBytes", "", 2, 12_574.73 * MIB),
    ("dkv-vs-etcd", "OperationsPerSecond", "", 28, 4_103_673.0),
    ("dkv-vs-etcd", "ServerPeakBytes", "", 4, 14_665.0 * MIB),
    ("dkv-single-node", "OperationsPerSecond", "", 42, 18_189_395.0),
    ("dkv-single-node", "ServerPeakBytes", "", 6, 2_835.2 * MIB),
    ("dkv-one-vs-two-clients", "OperationsPerSecond", "", 14, 10_444_583.0),
    ("dkv-one-vs-two-clients-unix", "OperationsPerSecond", "", 28, 16_313_250.0),
    ("dkv-memory", "ServerRssBytes", "", 2, 4_580.29 * MIB),
    ("dkv-memory", "ServerPeakBytes", "", 2, 12_036.10 * MIB),
    // The source's own sum of the first three is 0.15 MiB less than they are.
    ("dkv-memory", "member ", " RSS", 6, 4_580.44),
    ("dkv-memory", "member ", " peak", 6, 12_036.10),
    ("dkv-in-process", "/", "", 39, 9_971_739.0 + 135_299.0 + 20_434_636.82),
    ("dkv-in-process", "", "e/Binary_Empty ns/op", 2, 19.34 + 36.91),
    ("dkv-in-process", "Size/", " bytes", 18, 59_555.0),
];

fn table(name: &str) -> Table {
    let suite = suite(name);
    let known = Scope {
        variants: suite.spec.variants.iter().map(|variant| variant.name.clone()).collect(),
        axes: EXPANDED[name].axes.clone(),
        phases: runs(name)[0].spec.phases.iter().map(|phase| phase.name.clone()).collect(),
    };
    let table = parse(&file(name, "published.csv"), &known).unwrap_or_else(|error| panic!("{name}: {error}"));
    assert_eq!(table.omitted, 0, "{name}: every published row is one of the suite's");
    table
}

#[test]
fn every_published_figure_is_in_the_table_beside_its_suite() {
    for (name, begin, end, count, sum) in TABLES {
        let figures = table(name).figures;
        let meant = figures.iter().filter(|it| it.metric.starts_with(begin) && it.metric.ends_with(end));
        let values: Vec<f64> = meant.map(|figure| figure.value).collect();
        let total: f64 = values.iter().sum();
        assert_eq!(values.len(), count, "{name}: {begin}{end}");
        assert!((total - sum).abs() < sum * 1e-9, "{name}: {begin}{end} adds up to {total}, not {sum}");
    }
}

#[test]
fn every_combination_has_a_published_figure() {
    for (name, ..) in SUITES {
        let published: BTreeSet<_> = table(name).figures.into_iter().map(|figure| figure.cell).collect();
        let measured: BTreeSet<_> = runs(name).iter().map(|run| run.cell.clone()).collect();
        assert_eq!(published, measured, "{name}");
    }
}

/// What Criterion prints of `figures`: names with the lower bound, the estimate and the upper bound
/// of time and throughput.
fn criterion(figures: &[(&str, [&str; 3], [&str; 3])]) -> String {
    let of = |(name, time, elements): &(&str, [&str; 3], [&str; 3])| {
        let indent = " ".repeat(24);
        format!(
            "{name}\n{indent}time:   [{}]\n{indent}thrpt:  [{}]\nFound 2 outliers among 100 measurements (2.00%)\n",
            time.join(" "),
            elements.join(" ")
        )
    };
    figures.iter().map(of).collect()
}

/// The metrics that the parser of `run`'s phase reads where its tool prints `output`.
fn criterion_metrics(run: &ChildRun, phase: usize, tool: &str, output: &str) -> Vec<(String, String)> {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("criterion-{tool}-{phase}"));
    fs::create_dir_all(&directory).unwrap();
    fs::write(directory.join("printed"), output).unwrap();
    let program = directory.join(tool);
    fs::write(&program, format!("#!/bin/sh\ncat '{}'\n", directory.join("printed").display())).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let started = launch(run, phase);
    let path = format!("{}:{}", directory.display(), std::env::var("PATH").unwrap());
    let ended = Command::new(&started.program).args(&started.arguments).env("PATH", path).output().unwrap();
    assert!(ended.status.success(), "{ended:?}");
    let ToolSpec::Exec(exec) = &run.spec.phases[phase].tool else { panic!("{tool} is not an exec tool") };
    let stdout = Capture::complete(String::from_utf8(ended.stdout).unwrap());
    let outputs = Outputs { stdout, ..Outputs::default() };
    let parsed = dragstrip_parsers::parse(&exec.parser, &outputs).unwrap();
    let metric =
        |it: &Metric| (it.name.clone(), format!("{} {}", it.value, it.unit.as_deref().unwrap_or("")));
    parsed.metrics.iter().map(metric).collect()
}

#[test]
fn what_criterion_prints_is_read_as_it_was_published() {
    let (time, elements) =
        (["78.317 ms", "78.589 ms", "78.828 ms"], ["1.2686 Melem/s", "1.2724 Melem/s", "1.2769 Melem/s"]);
    let slow = ["502.31 Kelem/s", "504.66 Kelem/s", "507.38 Kelem/s"];
    let pool = "Dragonfly using  AsyncRedisClientPooled, 100k items";
    // Criterion numbers what has the same name; the tool prints its parameters in between.
    let output = criterion(&[
        (
            "Using AsyncRedisClientV1 with params: batch_size: 1000\nDragonfly using AsyncRedisClientV1, 100k items/multi_set",
            time,
            elements,
        ),
        ("Dragonfly using AsyncRedisClientV1, 100k items/pipelined_set_with_expiry_manual", time, slow),
        (&format!("{pool}/multi_set"), time, elements),
        (&format!("{pool}/pipelined_set_with_expiry_manual #4"), time, elements),
    ]);
    let throughput = run("rust-client-throughput-criterion", "dragonfly", &["1000"]);
    let found = criterion_metrics(&throughput, 0, "write_throughput", &output);
    for (name, value) in [
        ("v1 multi_set time", "78.589 ms"),
        ("v1 multi_set elements", "1.2724 Melem/s"),
        ("v1 pipelined_set elements", "504.66 Kelem/s"),
        ("x1 multi_set elements", "1.2724 Melem/s"),
        ("x8 pipelined_set time", "78.589 ms"),
    ] {
        assert!(found.contains(&(name.to_owned(), value.to_owned())), "{name} = {value}: {found:?}");
    }
    assert_eq!(found.len(), 8, "{found:?}");
    let sizes = run("rust-client-sizes-criterion", "v1", &["8", "8"]);
    let output =
        criterion(&[("AsyncRedisClientV1 key size 8, value size 8, 100k items/multi_set", time, elements)]);
    let found = criterion_metrics(&sizes, 0, "payload_latency", &output);
    let expected = [("time", "78.589 ms"), ("elements", "1.2724 Melem/s")];
    assert_eq!(found, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
}
