//! Client libraries on a real Redis Cluster of three shards with a replica each.

use std::time::{Duration, Instant};

use crate::support::{RedisServer, free_port, run};

const DEADLINE: Duration = Duration::from_secs(40);

/// Three primaries, then the replica of each.
struct Cluster {
    nodes: Vec<RedisServer>,
}

impl Cluster {
    fn form() -> Self {
        let bus_ports: Vec<String> = (0..6).map(|_| free_port().to_string()).collect();
        let nodes: Vec<RedisServer> = bus_ports
            .iter()
            .map(|bus| RedisServer::start(&["--cluster-enabled", "yes", "--cluster-port", bus]))
            .collect();
        for (node, range) in nodes.iter().zip(["0 5460", "5461 10922", "10923 16383"]) {
            let answer = node.ask(&[&format!("CLUSTER ADDSLOTSRANGE {range}")]);
            assert!(answer.starts_with("+OK"), "{answer}");
        }
        for (node, bus) in nodes.iter().zip(&bus_ports).skip(1) {
            let answer = nodes[0].ask(&[&format!("CLUSTER MEET 127.0.0.1 {} {bus}", node.port)]);
            assert!(answer.starts_with("+OK"), "{answer}");
        }
        let cluster = Self { nodes };
        for primary in 0..3 {
            let id = cluster.nodes[primary].ask(&["CLUSTER MYID"]);
            let id = id.lines().nth(1).unwrap().to_owned();
            cluster.until(&format!("a replica of node {primary}"), || {
                cluster.nodes[primary + 3].ask(&[&format!("CLUSTER REPLICATE {id}")]).starts_with("+OK")
            });
        }
        cluster.until("every node to see all others", || {
            cluster.nodes.iter().all(|node| {
                let info = node.ask(&["CLUSTER INFO", "CLUSTER NODES"]);
                info.contains("cluster_state:ok") && info.matches("slave").count() == 3
            })
        });
        cluster.until("the replicas to be in step", || {
            let linked =
                |node: &RedisServer| node.ask(&["INFO replication"]).contains("master_link_status:up");
            cluster.nodes[3..].iter().all(linked)
        });
        cluster
    }

    fn until(&self, what: &str, mut reached: impl FnMut() -> bool) {
        let deadline = Instant::now() + DEADLINE;
        while !reached() {
            let nodes = self.nodes[0].ask(&["CLUSTER NODES"]);
            assert!(Instant::now() < deadline, "waited {DEADLINE:?} in vain for {what}: {nodes}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn calls(&self, nodes: std::ops::Range<usize>, command: &str) -> u64 {
        self.nodes[nodes].iter().map(|node| node.calls(command)).sum()
    }
}

#[test]
fn libraries_find_all_shards_and_replicas() {
    let cluster = Cluster::form();
    for (number, client) in ["RedisRs", "Fred"].into_iter().enumerate() {
        let passes = number as u64 + 1;
        let options = format!(
            "client={client} server.cluster=true library.tasks=60 library.poolSize=2 library.totalRequests=900 library.assertExpected=true \
             operations=[{{\"operation\":\"Incr\"}}]"
        );
        let ended = run(cluster.nodes[0].port, &options);
        assert_eq!(ended.code, 0, "{client}: {ended:?}");
        let report = ended.report();
        assert_eq!(report.operation("INCR").unwrap().count, 900, "{client}");
        assert_eq!(cluster.calls(0..3, "incr"), 900 * passes, "{client}: replicas count separately");
        for primary in 0..3 {
            assert!(cluster.nodes[primary].calls("incr") > 0, "{client}: node {primary} had no load");
        }
        // A replica is named only once its primary has sent it something.
        cluster.until("the replicas to be named as such", || {
            let slots = cluster.nodes[0].ask(&["CLUSTER SLOTS"]);
            cluster.nodes[3..].iter().all(|replica| slots.contains(&format!(":{}\r\n", replica.port)))
        });
        let reads = format!(
            "client={client} server.cluster=true replicaReads=true ratio=0:1 library.tasks=20 library.totalRequests=300"
        );
        let before = cluster.calls(3..6, "get");
        let ended = run(cluster.nodes[0].port, &reads);
        assert_eq!(ended.code, 0, "{client}: {ended:?}");
        let of_replicas = cluster.calls(3..6, "get") - before;
        assert_eq!(of_replicas, 300, "{client}: reads that replicas answered");
    }
}
