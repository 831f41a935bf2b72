//! Clusters of three and of eight shards.

use crate::support::{Observer, Shard, address, ports, wait_for};
use dragstrip_results::{observed::Observation, protocol::TopologyCommand};
use std::time::Duration;

const CLUSTER: [&str; 10] = [
    "--cluster-enabled",
    "yes",
    "--cluster-node-timeout",
    "5000",
    "--cluster-allow-replica-migration",
    "no",
    "--cluster-replica-no-failover",
    "yes",
    "--repl-diskless-sync-delay",
    "0",
];

struct Cluster {
    shards: Vec<Shard>,
    command: TopologyCommand,
    observer: Observer,
}

impl Cluster {
    async fn start(count: u16) -> Self {
        Self::start_with(count, 0).await
    }

    /// A cluster of `count` shards, and as many servers behind them as `replicas`.
    async fn start_with(count: u16, replicas: u16) -> Self {
        let ports = ports(count + replicas);
        let shards: Vec<Shard> = ports.iter().map(|port| Shard::start(*port, &CLUSTER)).collect();
        let observer = Observer::start(ports[0], shards.len(), "", None);
        let mut members: Vec<_> = ports.iter().map(|port| address(*port)).collect();
        let replicas = members.split_off(usize::from(count));
        let command = TopologyCommand::Cluster { members, replicas };
        let cluster = Self { shards, command, observer };
        cluster.until_ready().await;
        cluster
    }

    async fn until_ready(&self) {
        wait_for("every server to answer", async || {
            (self.observer.get("/ready").await.0 == 200).then_some(())
        })
        .await;
    }

    /// What must be true of a cluster that is called complete.
    fn check(&self) {
        for shard in &self.shards {
            let info = shard.ask(&["CLUSTER", "INFO"]);
            let count = self.shards.len();
            for line in
                ["cluster_state:ok", "cluster_slots_ok:16384", &format!("cluster_known_nodes:{count}")]
            {
                assert!(info.lines().any(|found| found.trim() == line), "{line} is not in {info}");
            }
            // Where clients look for replicas.
            let listed = shard.ask(&["CLUSTER", "SLOTS"]);
            for Shard { port, .. } in &self.shards {
                let port = port.to_string();
                assert!(listed.lines().any(|line| line.trim() == port), "{port} is not in {listed}");
            }
        }
    }

    async fn joined(&self) -> Vec<String> {
        let (_, changes) = self.observer.joined(&self.command).await;
        self.check();
        changes
    }
}

#[tokio::test]
async fn three_shards_are_formed_and_a_second_order_changes_nothing() {
    let cluster = Cluster::start(3).await;
    let (state, changes) = cluster.observer.joined(&cluster.command).await;
    cluster.check();
    assert!(changes.iter().any(|change| change.contains("CLUSTER MEET")), "{changes:?}");
    let slots: Vec<_> = state.members.iter().map(|member| member.slots.as_deref().unwrap()).collect();
    assert_eq!(slots, ["0-5460", "5461-10922", "10923-16383"]);
    for (member, shard) in state.members.iter().zip(&cluster.shards) {
        let truth = member.truth.as_ref().unwrap();
        assert_eq!((member.role.as_str(), &truth.run_id), ("shard", &shard.run_id()));
        assert!(truth.cluster_enabled);
    }
    let again = cluster.observer.join(&cluster.command).await.unwrap();
    assert!(again.complete, "{}", again.message);
    assert_eq!(again.changes, Vec::<String>::new(), "a second command must change nothing");
}

#[tokio::test]
async fn eight_shards_are_formed_and_observed_together() {
    let cluster = Cluster::start(8).await;
    cluster.joined().await;
    let (_, text) = cluster.observer.get("/v1/observed").await;
    let observation: Observation = serde_json::from_str(&text).unwrap();
    let seen: Vec<_> = observation.shards.iter().map(|shard| shard.run_id.clone()).collect();
    let running: Vec<_> = cluster.shards.iter().map(Shard::run_id).collect();
    assert_eq!(seen, running, "the shards in the sequence of their ports");
    assert_eq!(observation.server.run_id, running[0]);
    let (_, metrics) = cluster.observer.get("/metrics").await;
    for shard in &cluster.shards {
        let line = format!("dragstrip_server_up{{engine=\"Redis\",port=\"{}\"}} 1", shard.port);
        assert!(metrics.contains(&line), "{line} is not in {metrics}");
    }
}

#[tokio::test]
async fn a_shard_that_restarts_empty_is_taken_in_again() {
    let mut cluster = Cluster::start(3).await;
    cluster.joined().await;
    // "foo" is in slot 12182, the third shard's; "hello" in 866, the first one's.
    assert_eq!(cluster.shards[0].ask(&["SET", "hello", "stays"]), "OK");
    cluster.shards[2].restart_empty();
    cluster.until_ready().await;
    let changes = cluster.joined().await;
    assert!(changes.iter().any(|change| change.contains("CLUSTER FORGET")), "{changes:?}");
    assert!(changes.iter().any(|change| change.contains("ADDSLOTSRANGE 10923 16383")), "{changes:?}");
    assert_eq!(cluster.shards[0].ask(&["GET", "hello"]), "stays", "no other shard may lose its data");
    assert_eq!(cluster.shards[2].ask(&["SET", "foo", "new"]), "OK");
    // The first one again, which meets all others.
    cluster.shards[0].restart_empty();
    cluster.until_ready().await;
    cluster.joined().await;
    assert_eq!(cluster.shards[2].ask(&["GET", "foo"]), "new");
    let again = cluster.observer.join(&cluster.command).await.unwrap();
    assert_eq!((again.complete, again.changes), (true, Vec::new()));
}

#[tokio::test]
async fn a_restarted_container_finds_back_by_itself() {
    let mut cluster = Cluster::start(3).await;
    cluster.joined().await;
    cluster.shards[1].restart();
    cluster.until_ready().await;
    assert_eq!(cluster.joined().await, Vec::<String>::new());
}

#[tokio::test]
async fn a_silent_shard_is_named_and_nothing_is_changed() {
    let mut cluster = Cluster::start(3).await;
    cluster.shards[1].kill();
    let state = cluster.observer.join(&cluster.command).await.unwrap();
    assert!(!state.complete);
    let silent = format!("127.0.0.1:{} does not answer: no TCP connection", cluster.shards[1].port);
    assert!(state.message.starts_with(&silent), "{}", state.message);
    assert_eq!(state.changes, Vec::<String>::new());
    assert!(state.members[1].truth.is_none() && state.members[0].truth.is_some());
}

#[tokio::test]
async fn an_observer_killed_while_forming_is_continued_by_the_next() {
    let mut cluster = Cluster::start(3).await;
    // Some of these instants lie between two commands, whatever the machine's speed.
    for milliseconds in [1, 2, 3, 5, 8, 13, 21, 34, 55, 210, 420] {
        let observer = Observer::start(cluster.shards[0].port, 3, "", None);
        let cut = tokio::time::timeout(Duration::from_millis(milliseconds), observer.join(&cluster.command));
        let cut = cut.await;
        drop(observer); // kill -9
        assert!(!matches!(cut, Ok(None)), "the observer died by itself");
    }
    cluster.observer.kill();
    cluster.observer = Observer::start(cluster.shards[0].port, 3, "", None);
    cluster.joined().await;
}

#[tokio::test]
async fn an_empty_cluster_of_another_layout_is_made_anew_and_one_with_data_is_not() {
    let cluster = Cluster::start(3).await;
    assert_eq!(cluster.shards[0].ask(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]), "OK");
    wait_for("the lone server to serve", async || {
        (cluster.shards[0].ask(&["SET", "hello", "world"]) == "OK").then_some(())
    })
    .await;
    let state = cluster.observer.join(&cluster.command).await.unwrap();
    assert!(!state.complete && state.message.contains("never moved"), "{}", state.message);
    assert_eq!(state.changes, Vec::<String>::new());
    assert_eq!(cluster.shards[0].ask(&["GET", "hello"]), "world");
    assert_eq!(cluster.shards[0].ask(&["FLUSHALL"]), "OK");
    cluster.joined().await;
}

#[tokio::test]
async fn a_server_out_of_cluster_mode_is_reported() {
    let port = ports(1)[0];
    let _server = Shard::start(port, &[]);
    let observer = Observer::start(port, 1, "", None);
    wait_for("the server", async || (observer.get("/ready").await.0 == 200).then_some(())).await;
    let command = TopologyCommand::Cluster { members: vec![address(port)], replicas: Vec::new() };
    let state = observer.join(&command).await.unwrap();
    assert!(!state.complete && state.message.contains("cluster support disabled"), "{}", state.message);
}

#[tokio::test]
async fn shards_with_a_replica_each_are_formed_and_repaired() {
    let mut cluster = Cluster::start_with(3, 3).await;
    let (state, changes) = cluster.observer.joined(&cluster.command).await;
    cluster.check();
    let replicating = changes.iter().filter(|change| change.contains("CLUSTER REPLICATE")).count();
    assert_eq!(replicating, 3, "{changes:?}");
    let roles: Vec<_> = state.members.iter().map(|member| member.role.as_str()).collect();
    assert_eq!(roles, ["shard", "shard", "shard", "replica", "replica", "replica"]);
    assert!(state.members[3].slots.is_none(), "a replica serves no slots: {:?}", state.members[3]);
    // A shard, and the replica of another one.
    for restarted in [1, 3] {
        cluster.shards[restarted].restart_empty();
        cluster.until_ready().await;
        let changes = cluster.joined().await;
        assert!(!changes.is_empty(), "server {restarted} came back empty, and nothing was done");
        for replica in &cluster.shards[3..] {
            let info = replica.ask(&["INFO", "replication"]);
            assert!(info.contains("role:slave") && info.contains("master_link_status:up"), "{info}");
        }
    }
    assert!(cluster.joined().await.is_empty(), "what is joined is left alone");
}
