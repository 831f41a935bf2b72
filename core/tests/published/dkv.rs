//! The suites of dKV: its servers, its own client, etcd beside it, and its benchmarks within a process.

use super::{environment, launch, run, served, server_of};
use dragstrip_core::suite::expand::ChildRun;
use std::collections::BTreeSet;

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
