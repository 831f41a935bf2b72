//! A real Redis Cluster: keys go where their slots are, also when these move.

use std::collections::BTreeMap;

use dragstrip_loadgen::counts::report::Report;

use crate::support::{RedisServer, Running, run, run_mix, wait_for};

const SLOTS: u16 = 16_384;

struct Cluster {
    nodes: Vec<(RedisServer, u16)>,
}

impl Cluster {
    /// Three primaries, and so many replicas of the first ones.
    fn start(replicas: usize) -> Self {
        let cluster = Self { nodes: (0..3 + replicas).map(|_| RedisServer::start_node()).collect() };
        let (first, bus) = &cluster.nodes[0];
        // Where primaries have the same epoch, one raises its own at any time, and may take a moved slot back.
        for (number, (node, _)) in (1..).zip(&cluster.nodes[..3]) {
            let answer = node.ask(&[&format!("CLUSTER SET-CONFIG-EPOCH {number}")]);
            assert!(answer.starts_with("+OK"), "{answer}");
        }
        for (node, _) in &cluster.nodes[1..] {
            node.ask(&[&format!("CLUSTER MEET 127.0.0.1 {} {bus}", first.port)]);
        }
        for (number, (node, _)) in (0_u16..).zip(&cluster.nodes[..3]) {
            let last = if number == 2 { SLOTS - 1 } else { (number + 1) * 5461 - 1 };
            let answer = node.ask(&[&format!("CLUSTER ADDSLOTSRANGE {} {last}", number * 5461)]);
            assert!(answer.starts_with("+OK"), "{answer}");
        }
        cluster.until_ok();
        for (number, (node, _)) in cluster.nodes[3..].iter().enumerate() {
            let primary = cluster.identity(number);
            wait_for("a replica to know its primary", || {
                node.ask(&[&format!("CLUSTER REPLICATE {primary}")]).starts_with("+OK").then_some(())
            });
        }
        wait_for("the replicas to be in step", || {
            let linked =
                |node: &RedisServer| node.ask(&["INFO replication"]).contains("master_link_status:up");
            let listed = cluster.nodes[0].0.ask(&["CLUSTER SLOTS"]);
            let all_listed =
                cluster.nodes[3..].iter().all(|(node, _)| listed.contains(&format!(":{}\r\n", node.port)));
            (all_listed && cluster.nodes[3..].iter().all(|(node, _)| linked(node))).then_some(())
        });
        cluster
    }

    fn until_ok(&self) {
        wait_for("the cluster to be formed", || {
            let members = format!("cluster_known_nodes:{}\r", self.nodes.len());
            let formed = |node: &RedisServer| {
                let answer = node.ask(&["CLUSTER INFO"]);
                answer.contains("cluster_state:ok") && answer.contains(&members)
            };
            self.nodes.iter().all(|(node, _)| formed(node)).then_some(())
        });
    }

    fn port(&self) -> u16 {
        self.nodes[0].0.port
    }

    fn identity(&self, number: usize) -> String {
        let answer = self.nodes[number].0.ask(&["CLUSTER MYID"]);
        answer.split("\r\n").nth(1).unwrap().to_owned()
    }

    fn reset_counters(&self) {
        for (node, _) in &self.nodes {
            node.ask(&["CONFIG RESETSTAT"]);
        }
    }

    /// How often the nodes answered with MOVED.
    fn moved(&self) -> u64 {
        self.nodes.iter().map(|(node, _)| node.info("errorstats", "errorstat_MOVED:count=")).sum()
    }

    /// How often the nodes answered each of these commands.
    fn answered(&self, commands: &BTreeMap<String, u64>) -> BTreeMap<String, u64> {
        let mut sums: BTreeMap<String, u64> = commands.keys().map(|name| (name.clone(), 0)).collect();
        for (name, count) in self.nodes.iter().flat_map(|(node, _)| node.answered()) {
            if let Some(sum) = sums.get_mut(&name) {
                *sum += count;
            }
        }
        sums
    }

    fn keys(&self) -> u64 {
        self.nodes[..3]
            .iter()
            .map(|(node, _)| {
                let answer = node.ask(&["DBSIZE"]);
                answer.trim_start_matches(':').lines().next().unwrap().parse::<u64>().unwrap()
            })
            .sum()
    }

    /// Moves a slot with its keys from one primary to another.
    fn move_slot(&self, slot: u16, from: usize, to: usize) {
        let (source, target) = (&self.nodes[from].0, &self.nodes[to].0);
        target.ask(&[&format!("CLUSTER SETSLOT {slot} IMPORTING {}", self.identity(from))]);
        source.ask(&[&format!("CLUSTER SETSLOT {slot} MIGRATING {}", self.identity(to))]);
        wait_for("the keys to move", || {
            let answer = source.ask(&[&format!("CLUSTER GETKEYSINSLOT {slot} 100")]);
            let keys: Vec<&str> = answer.lines().filter(|line| line.starts_with("m:")).collect();
            if keys.is_empty() {
                return Some(());
            }
            let moved = source.ask(&[&format!(
                "MIGRATE 127.0.0.1 {} \"\" 0 5000 REPLACE KEYS {}",
                target.port,
                keys.join(" ")
            )]);
            assert!(moved.starts_with("+OK") || moved.starts_with("+NOKEY"), "{moved}");
            None
        });
        let owner = self.identity(to);
        for number in [to, from] {
            let answer = self.nodes[number].0.ask(&[&format!("CLUSTER SETSLOT {slot} NODE {owner}")]);
            assert!(answer.starts_with("+OK"), "{answer}");
        }
    }
}

fn assert_shards(cluster: &Cluster, report: &Report, count: usize) {
    let served = |node: &RedisServer| report.commands.keys().any(|name| node.calls(name) > 0);
    let nodes = cluster.nodes.iter().filter(|(node, _)| served(node)).count();
    assert_eq!(nodes, count, "nodes that answered {:?}", report.commands);
}

#[test]
fn keys_go_to_their_shards_and_a_pass_covers_each_exactly_once() {
    let cluster = Cluster::start(0);
    let keys = "server.cluster=true threads=2 connectionsPerThread=2 keyMaximum=2999";
    let written = run(cluster.port(), &format!("{keys} task=WriteKeys pipeline=7"));
    assert_eq!(written.code, 0, "{written:?}");
    let report = written.report();
    assert_eq!((report.totals.count, cluster.keys()), (3000, 3000));
    assert_shards(&cluster, &report, 3);
    assert_eq!((cluster.moved(), report.totals.errors), (0, 0));
    assert_eq!(cluster.answered(&report.commands), report.commands);
    let reads = format!("{keys} keyPattern=Sequential ratio=0:1 requestsPerConnection=750");
    let read = run(cluster.port(), &reads).report();
    assert_eq!(read.operation("GET").unwrap().hits, Some(3000));
    let verified = run(cluster.port(), "server.cluster=true task=VerifyKeys keyMaximum=2999");
    assert_eq!(verified.code, 0, "{verified:?}");
    assert_eq!(verified.report().verified.unwrap().found, 3000);
    let tagged = run_mix(
        cluster.port(),
        "server.cluster=true connectionsPerThread=2 requestsPerConnection=50 keyPrefix={tag}",
        &["Mset keys=10", "Mget keys=5"],
    );
    assert_eq!((tagged.code, tagged.report().totals.count), (0, 100), "{tagged:?}");
    let sessions = run_mix(
        cluster.port(),
        "server.cluster=true connectionsPerThread=2 requestsPerConnection=50 keyPattern=Sequential",
        &["keyPrefix=session: keyMaximum=99 expiry=60s command HSET __key__ f __data__"],
    );
    let report = sessions.report();
    assert_eq!((sessions.code, report.totals.count), (0, 100), "{sessions:?}");
    let redirected = |node: &RedisServer| node.ask(&["INFO errorstats"]).contains("errorstat_MOVED");
    assert!(!cluster.nodes.iter().any(|(node, _)| redirected(node)), "a key went astray");
    assert_eq!((report.commands["hset"], report.commands["expire"]), (100, 100));
    assert_eq!(cluster.answered(&report.commands), report.commands);
}

#[test]
fn the_declared_keys_are_drawn_over_all_shards_together() {
    let cluster = Cluster::start(0);
    for (options, closed) in [
        ("requestsPerConnection=6000 pipeline=5", true),
        ("rate.operationsPerSecond=6000 duration=1s", false),
    ] {
        cluster.nodes.iter().for_each(|(node, _)| {
            node.ask(&["FLUSHALL"]);
        });
        let report = run_mix(
            cluster.port(),
            &format!(
                "server.cluster=true threads=2 connectionsPerThread=2 keyPrefix=z: keyMaximum=99 \
                 keyPattern=Zipfian zipfExponent=\"1.2\" seed=3 {options}"
            ),
            &["Incr"],
        )
        .report();
        assert_shards(&cluster, &report, 3);
        let total = report.totals.count;
        assert_eq!(total, if closed { 24_000 } else { 6000 });
        let weights: Vec<f64> = (1..=100).map(|rank| f64::from(rank).powf(-1.2)).collect();
        let sum: f64 = weights.iter().sum();
        let counted = |key: usize| -> f64 {
            let get = |node: &RedisServer| node.ask(&[&format!("GET z:{key}")]);
            let answer =
                cluster.nodes.iter().map(|(node, _)| get(node)).find(|answer| answer.starts_with('$'));
            answer.and_then(|answer| answer.lines().nth(1)?.parse().ok()).unwrap_or(0.0)
        };
        let chi_squared: f64 = weights
            .iter()
            .enumerate()
            .map(|(key, weight)| {
                let wanted = weight / sum * total as f64;
                (counted(key) - wanted).powi(2) / wanted
            })
            .sum();
        // 99 degrees of freedom: 99.9 % of samples stay below 148.2.
        assert!(chi_squared < 148.2, "{options}: the keys do not follow the law: chi squared {chi_squared}");
    }
}

#[test]
fn a_slot_that_moves_to_a_new_node_is_followed() {
    let mut cluster = Cluster::start(0);
    let added = RedisServer::start_node();
    let (first, bus) = &cluster.nodes[0];
    added.0.ask(&[&format!("CLUSTER MEET 127.0.0.1 {} {bus}", first.port)]);
    cluster.nodes.push(added);
    cluster.until_ok();
    let options = "server.cluster=true keyPrefix=m: keyMaximum=49 connectionsPerThread=3 ratio=1:1 \
        pipeline=3 duration=4s progressInterval=50ms";
    let answer = cluster.nodes[0].0.ask(&["CLUSTER KEYSLOT m:7"]);
    let slot: u16 = answer.trim_start_matches(':').lines().next().unwrap().parse().unwrap();
    let mut running = Running::start(cluster.port(), options, None);
    running.until_loading();
    cluster.move_slot(slot, usize::from(slot / 5461).min(2), 3);
    let ended = running.wait();
    assert_eq!(ended.code, 0, "{ended:?}");
    let report = ended.report();
    assert_eq!((report.totals.errors, report.totals.requests), (0, report.totals.count));
    assert_shards(&cluster, &report, 4);
    assert_eq!(cluster.answered(&report.commands), report.commands);
}

#[test]
fn a_slot_that_moves_under_load_is_followed() {
    let cluster = Cluster::start(0);
    let keys = "server.cluster=true keyPrefix=m: keyMaximum=49";
    let load = format!("{keys} connectionsPerThread=1 task=WriteKeys");
    assert_eq!(run(cluster.port(), &load).code, 0);
    let answer = cluster.nodes[0].0.ask(&["CLUSTER KEYSLOT m:7"]);
    let slot: u16 = answer.trim_start_matches(':').lines().next().unwrap().parse().unwrap();
    let from = usize::from(slot / 5461).min(2);
    cluster.reset_counters();
    let options = format!(
        "{keys} threads=2 connectionsPerThread=3 pipeline=4 ratio=1:3 duration=4s progressInterval=50ms"
    );
    let mut running = Running::start(cluster.port(), &options, None);
    running.until_loading();
    cluster.move_slot(slot, from, (from + 1) % 3);
    let ended = running.wait();
    assert_eq!(ended.code, 0, "{ended:?}");
    let report = ended.report();
    assert!(cluster.moved() > 0, "no MOVED was seen");
    assert_eq!((report.totals.errors, report.operation("GET").unwrap().misses), (0, Some(0)));
    assert_eq!(report.totals.requests, report.totals.count);
    assert_shards(&cluster, &report, 3);
    assert_eq!(cluster.answered(&report.commands), report.commands);
}

#[test]
fn misses_are_filled_where_the_keys_are_also_while_slots_move() {
    let cluster = Cluster::start(0);
    let options = "server.cluster=true keyPrefix=m: keyMaximum=4999 connectionsPerThread=3 ratio=0:1 onMiss=Set \
        pipeline=3 duration=4s progressInterval=50ms expiry=1s";
    let answer = cluster.nodes[0].0.ask(&["CLUSTER KEYSLOT m:7"]);
    let slot: u16 = answer.trim_start_matches(':').lines().next().unwrap().parse().unwrap();
    let from = usize::from(slot / 5461).min(2);
    let mut running = Running::start(cluster.port(), options, None);
    running.until_loading();
    cluster.move_slot(slot, from, (from + 1) % 3);
    let ended = running.wait();
    assert_eq!(ended.code, 0, "{ended:?}");
    let report = ended.report();
    let (get, fill) = (report.operation("GET").unwrap(), report.operation("SET (miss)").unwrap());
    assert!(fill.count > 1_000, "{fill:?}");
    assert_eq!(Some(fill.count), get.misses, "a redirection lost a fill, or repeated it");
    assert_shards(&cluster, &report, 3);
    assert_eq!(cluster.answered(&report.commands), report.commands);
}

/// A cluster of which two nodes name each other as the owner of the slot of m:7, with the number of the one that
/// does not know that it is.
fn disagreeing() -> (Cluster, u16, usize) {
    let cluster = Cluster::start(0);
    let answer = cluster.nodes[0].0.ask(&["CLUSTER KEYSLOT m:7"]);
    let slot: u16 = answer.trim_start_matches(':').lines().next().unwrap().parse().unwrap();
    let from = usize::from(slot / 5461).min(2);
    let owner = (from + 1) % 3;
    cluster.nodes[from].0.ask(&[&format!("CLUSTER SETSLOT {slot} NODE {}", cluster.identity(owner))]);
    (cluster, slot, owner)
}

const OF_ONE_SLOT: &str =
    "server.cluster=true keyPrefix=m: keyMinimum=7 keyMaximum=7 connectionsPerThread=1 ratio=1:0";

#[test]
fn nodes_that_disagree_about_a_slot_for_a_moment_lose_no_request() {
    let (cluster, slot, owner) = disagreeing();
    let running = Running::start(cluster.port(), &format!("{OF_ONE_SLOT} requestsPerConnection=50"), None);
    let node = &cluster.nodes[owner].0;
    wait_for("more redirections than a client follows", || {
        let answer = node.ask(&["INFO errorstats"]);
        let count = answer.split_once("errorstat_MOVED:count=")?.1.lines().next()?.parse::<u64>().ok()?;
        (count > 100).then_some(())
    });
    node.ask(&[&format!("CLUSTER SETSLOT {slot} NODE {}", cluster.identity(owner))]);
    let ended = running.wait();
    assert_eq!(ended.code, 0, "{ended:?}");
    let totals = ended.report().totals;
    assert_eq!((totals.count, totals.errors), (50, 0));
}

#[test]
fn nodes_that_never_agree_about_a_slot_end_the_load() {
    let (cluster, ..) = disagreeing();
    let ended = run(cluster.port(), &format!("{OF_ONE_SLOT} duration=60s"));
    assert_eq!(ended.code, 7, "{ended:?}");
    assert!(ended.stderr.contains("times in a row"), "{ended:?}");
}

#[test]
fn redirections_of_a_cluster_that_is_not_declared_are_errors_also_with_fills() {
    let cluster = Cluster::start(0);
    let ended = run(cluster.port(), "ratio=0:1 onMiss=Set requestsPerConnection=50 keyMaximum=99");
    assert_eq!(ended.code, 10, "{ended:?}");
    let report = ended.report();
    assert_eq!((report.errors[0].kind.as_str(), report.errors[0].operation.as_str()), ("MOVED", "GET"));
    let gets = |number: usize| cluster.nodes[number].0.calls("get");
    assert_eq!((gets(1), gets(2)), (0, 0), "a server that is not the declared one was loaded");
}

#[test]
fn replicas_take_the_reads() {
    let cluster = Cluster::start(3);
    let keys = "server.cluster=true connectionsPerThread=2 keyMaximum=999";
    assert_eq!(run(cluster.port(), &format!("{keys} task=WriteKeys")).code, 0);
    wait_for("the replicas to have all keys", || {
        let count = |node: &RedisServer| node.ask(&["DBSIZE"]);
        (0..3)
            .all(|number| count(&cluster.nodes[number].0) == count(&cluster.nodes[number + 3].0))
            .then_some(())
    });
    cluster.reset_counters();
    let report = run(
        cluster.port(),
        &format!("{keys} keyPattern=Sequential requestsPerConnection=500 replicaReads=true ratio=0:1"),
    )
    .report();
    assert_eq!(report.operation("GET").unwrap().hits, Some(1000), "{report:?}");
    assert_shards(&cluster, &report, 3);
    let reads = |range: std::ops::Range<usize>| {
        cluster.nodes[range].iter().map(|(node, _)| node.calls("get")).sum::<u64>()
    };
    assert_eq!((reads(0..3), reads(3..6)), (0, 1000));
}

#[test]
fn an_open_loop_reaches_every_shard() {
    let cluster = Cluster::start(0);
    let options =
        "server.cluster=true connectionsPerThread=2 rate.operationsPerSecond=600 duration=1s keyMaximum=99";
    let report = run(cluster.port(), options).report();
    let schedule = report.schedule.as_ref().unwrap();
    assert_eq!((schedule.scheduled, schedule.answered), (600, 600));
    assert_shards(&cluster, &report, 3);
}

#[test]
fn a_server_outside_a_cluster_and_a_cluster_without_replicas_are_refused() {
    let server = RedisServer::start(&[]);
    let ended = run(server.port, "server.cluster=true requestsPerConnection=1");
    assert_eq!(ended.code, 6, "{ended:?}");
    assert!(
        ended.stderr.contains("CLUSTER SLOTS") && ended.stderr.contains("cluster support disabled"),
        "{}",
        ended.stderr
    );
    let cluster = Cluster::start(0);
    let ended =
        run(cluster.port(), "server.cluster=true replicaReads=true ratio=0:1 requestsPerConnection=1");
    assert_eq!(ended.code, 6, "{ended:?}");
    assert!(ended.stderr.contains("no replica of this server is listed"), "{}", ended.stderr);
}
