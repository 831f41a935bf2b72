//! Encrypted servers: observed, joined to a cluster, and replicated.

use crate::{
    certificates::Certificates,
    support::{Encrypted, Observer, PASSWORD, Shard, address, ports, wait_for},
};
use dragstrip_results::{observed::Observation, protocol::TopologyCommand};

const NAME: &str = "racer.pits.svc";

fn start(certificates: &Certificates, port: u16, demanded: &str, more: &[&str]) -> Shard {
    let flags = certificates.flags(port, demanded);
    let options: Vec<&str> = flags.iter().map(String::as_str).chain(more.iter().copied()).collect();
    Shard::start(port, &options)
}

fn encrypted(certificates: &Certificates, client: bool) -> Encrypted {
    Encrypted {
        name: NAME,
        authority: certificates.of("server"),
        client: client.then(|| certificates.of("client")),
    }
}

async fn until_ready(observer: &Observer) {
    wait_for("readiness", async || (observer.get("/ready").await.0 == 200).then_some(())).await;
}

#[tokio::test]
async fn an_encrypted_server_is_observed() {
    let certificates = Certificates::new(NAME);
    let port = ports(1)[0];
    let server = start(&certificates, port, "no", &["--requirepass", PASSWORD]);
    let observer = Observer::start(port, 1, PASSWORD, Some(&encrypted(&certificates, false)));
    until_ready(&observer).await;
    let (_, text) = observer.get("/v1/observed").await;
    let observation: Observation = serde_json::from_str(&text).unwrap();
    assert_eq!(observation.server.run_id, server.run_id());
}

#[tokio::test]
async fn a_certificate_is_shown_where_it_is_demanded() {
    let certificates = Certificates::new(NAME);
    let port = ports(1)[0];
    let _server = start(&certificates, port, "yes", &[]);
    let with = Observer::start(port, 1, "", Some(&encrypted(&certificates, true)));
    until_ready(&with).await;
    let without = Observer::start(port, 1, "", Some(&encrypted(&certificates, false)));
    assert_eq!(without.get("/ready").await.0, 503, "the server takes nobody without a certificate");
}

#[tokio::test]
async fn a_certificate_of_another_name_or_authority_is_refused() {
    let certificates = Certificates::new("other.pits.svc");
    let port = ports(1)[0];
    let server = start(&certificates, port, "no", &[]);
    wait_for("the server", async || (server.ask(&["PING"]) == "PONG").then_some(())).await;
    let other_name = Observer::start(port, 1, "", Some(&encrypted(&certificates, false)));
    let (status, text) = other_name.get("/ready").await;
    assert_eq!(status, 503);
    assert!(text.contains("no TLS connection") && text.contains(NAME), "{text}");
    let other_authority = Certificates::new(NAME);
    let stranger = Observer::start(port, 1, "", Some(&encrypted(&other_authority, false)));
    let (status, text) = stranger.get("/ready").await;
    assert_eq!(status, 503);
    assert!(text.contains("no TLS connection"), "{text}");
}

#[tokio::test]
async fn an_encrypted_cluster_with_a_password_is_formed() {
    let certificates = Certificates::new(NAME);
    let ports = ports(3);
    let options = ["--cluster-enabled", "yes", "--tls-cluster", "yes", "--requirepass", PASSWORD];
    let _shards: Vec<Shard> = ports.iter().map(|port| start(&certificates, *port, "yes", &options)).collect();
    let observer = Observer::start(ports[0], 3, PASSWORD, Some(&encrypted(&certificates, true)));
    until_ready(&observer).await;
    let command = TopologyCommand::Cluster {
        members: ports.iter().map(|port| address(*port)).collect(),
        replicas: Vec::new(),
    };
    let (state, _) = observer.joined(&command).await;
    assert!(state.members.iter().all(|member| member.slots.is_some() && member.truth.is_some()));
}

#[tokio::test]
async fn an_encrypted_replica_follows_with_a_password() {
    let certificates = Certificates::new(NAME);
    let ports = ports(2);
    let options = ["--tls-replication", "yes", "--requirepass", PASSWORD, "--repl-diskless-sync-delay", "0"];
    let servers: Vec<Shard> = ports.iter().map(|port| start(&certificates, *port, "no", &options)).collect();
    let observer = Observer::start(ports[0], 1, PASSWORD, Some(&encrypted(&certificates, false)));
    wait_for("both servers", async || {
        servers.iter().all(|server| server.ask(&["PING"]) == "PONG").then_some(())
    })
    .await;
    assert_eq!(servers[0].ask(&["SET", "key", "value"]), "OK");
    let command =
        TopologyCommand::Replication { primary: address(ports[0]), replicas: vec![address(ports[1])] };
    observer.joined(&command).await;
    assert_eq!(servers[1].ask(&["GET", "key"]), "value");
}
