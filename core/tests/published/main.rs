//! The suites of examples/published/ against what their authors published: number of runs,
//! every command line, every flag of the servers, every figure. What is expected is written
//! out here as it was published, not derived. Reads those files.

// A manifest that cannot be read fails its test.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod claims;
mod dkv;
mod document;
mod machines;
mod rows;
mod rust_client;

use dragstrip_core::{
    datastore::{server, validate::validate},
    suite::expand::{ChildRun, Expanded, expand},
};
use dragstrip_crds::{BenchmarkSuite, Datastore, DatastoreSpec};
use dragstrip_report::published::{Figure, Scope, Table, parse};
use dragstrip_results::protocol::{JobSpec, JobTarget};
use dragstrip_runner::{Launch, LaunchContext, adapter_for};
use k8s_openapi::api::core::v1::{Container, Node};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
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
