//! A primary and its replicas, with a password.

use crate::support::{Observer, PASSWORD, Shard, address, ports, wait_for};
use dragstrip_results::protocol::TopologyCommand;

const OPTIONS: [&str; 4] = ["--requirepass", PASSWORD, "--repl-diskless-sync-delay", "0"];

async fn start() -> (Vec<Shard>, Observer, TopologyCommand) {
    let ports = ports(3);
    let servers: Vec<Shard> = ports.iter().map(|port| Shard::start(*port, &OPTIONS)).collect();
    let observer = Observer::start(ports[0], 1, PASSWORD, None);
    let command = TopologyCommand::Replication {
        primary: address(ports[0]),
        replicas: ports[1..].iter().map(|port| address(*port)).collect(),
    };
    until_ready(&servers).await;
    (servers, observer, command)
}

async fn until_ready(servers: &[Shard]) {
    wait_for("every server to answer", async || {
        servers.iter().all(|server| server.ask(&["PING"]) == "PONG").then_some(())
    })
    .await;
}

#[tokio::test]
async fn replicas_follow_the_primary_and_hold_its_data() {
    let (servers, observer, command) = start().await;
    assert_eq!(servers[0].ask(&["SET", "key", "value"]), "OK");
    let (state, changes) = observer.joined(&command).await;
    assert_eq!(changes.len(), 2, "{changes:?}");
    let roles: Vec<_> = state.members.iter().map(|member| member.role.as_str()).collect();
    assert_eq!(roles, ["primary", "replica", "replica"]);
    for (member, server) in state.members.iter().zip(&servers) {
        assert_eq!(server.ask(&["GET", "key"]), "value", "a replica in step has the data");
        assert_eq!(member.truth.as_ref().unwrap().run_id, server.run_id());
    }
    let truth_of = |index: usize| state.members[index].truth.as_ref().unwrap().role.clone().unwrap();
    assert_eq!((truth_of(0), truth_of(2)), ("master".to_owned(), "slave".to_owned()));
    let again = observer.join(&command).await.unwrap();
    assert_eq!((again.complete, again.changes), (true, Vec::new()), "a second command must change nothing");
    let said = format!("{state:?}{changes:?}");
    assert!(!said.contains(PASSWORD), "the password is in {said}");
    assert!(!observer.command_line().contains(PASSWORD));
}

#[tokio::test]
async fn replicas_follow_a_primary_that_restarted_empty() {
    let (mut servers, observer, command) = start().await;
    observer.joined(&command).await;
    assert_eq!(servers[0].ask(&["SET", "old", "data"]), "OK");
    servers[0].restart_empty();
    until_ready(&servers[..1]).await;
    observer.joined(&command).await;
    assert_eq!(servers[0].ask(&["SET", "new", "data"]), "OK");
    observer.joined(&command).await;
    for server in &servers {
        assert_eq!(server.ask(&["DBSIZE"]), "1", "replicas hold what the primary holds and no more");
        assert_eq!(server.ask(&["GET", "new"]), "data");
    }
}

#[tokio::test]
async fn a_replica_that_restarted_follows_again() {
    let (mut servers, observer, command) = start().await;
    observer.joined(&command).await;
    servers[2].restart_empty();
    until_ready(&servers[2..]).await;
    let (_, changes) = observer.joined(&command).await;
    let port = servers[0].port;
    assert_eq!(
        changes,
        [format!("127.0.0.1:{}: REPLICAOF 127.0.0.1 {port}", servers[2].port)],
        "only the restarted one gets a command"
    );
}

#[tokio::test]
async fn a_wrong_password_is_reported_but_not_shown() {
    let (servers, _, command) = start().await;
    let observer = Observer::start(servers[0].port, 1, "another-password", None);
    let state = observer.join(&command).await.unwrap();
    assert!(!state.complete && state.message.contains("WRONGPASS"), "{}", state.message);
    assert!(!state.message.contains("another-password"), "{}", state.message);
}
