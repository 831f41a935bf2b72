//! Servers of several processes: clusters, replicas, encryption.

use crate::common::{complete, datastore_says, whole};
use anyhow::{Context, Result, ensure};
use dragstrip_crds::run::RunPhase;
use dragstrip_e2e::{
    Env, SERVER_UP, SHORT_RUN,
    certificates::Certificates,
    manifests::{REDIS, against},
    results::{self, operation, phase, plausible, plausible_without_bytes},
    with_namespace,
};
use dragstrip_results::observed::ServerCounters;

const CLUSTER: &str = "
engine: Valkey
version: '8.1'
image: dragstrip.dev/testbed/valkey:8.1
threads: 1
port: 7000
maxMemory: 128Mi
cluster: {shards: 3, placement: PLACEMENT}
authSecretRef: {name: password}
resources:
  requests: {cpu: 50m, memory: 64Mi}
  limits: {cpu: 2, memory: 208Mi}
";
const MIXED: &str = "
phases:
- name: mixed
  load: {keyMaximum: 29999}
  minimumHitRatio: '1'
  loadgen: {ratio: '1:4', keyMaximum: 29999, duration: 2s}
timeout: 3m
";

async fn cluster(env: &Env, name: &str, placement: &str) -> Result<()> {
    env.datastore(name, &CLUSTER.replace("PLACEMENT", placement)).await?;
    whole(env, name, 3).await?;
    env.run(&format!("on-{name}"), &against(name, MIXED)).await?;
    let run = env.run_in(&format!("on-{name}"), RunPhase::Succeeded, SHORT_RUN).await?;
    complete(&run, "Succeeded")?;
    let status = results::status(&run)?;
    plausible(phase(&status, "mixed")?)?;
    let result = env.results(&run).await?.remove(0);
    let server = result.pods[0].server.clone().context("no server record")?;
    ensure!(server.shards.len() == 3, "counters of {} shards", server.shards.len());
    ensure!(
        server.shards.iter().all(|shard| {
            let after =
                shard.after.as_ref().and_then(|after| after.commands.get("get")).map_or(0, |c| c.calls);
            after > 0
        }),
        "a shard served no GET: {:?}",
        server.shards
    );
    ensure!(operation(phase(&status, "mixed")?, "GET")?.misses == Some(0), "reads missed");
    Ok(())
}

#[tokio::test]
async fn a_cluster_with_a_password_is_formed_measured_and_repaired() -> Result<()> {
    with_namespace("cluster", |env| async move {
        env.secret("password", "a secret").await?;
        cluster(&env, "one-node", "OneNode").await?;
        let before = whole(&env, "one-node", 3).await?.status.context("no status")?.members;
        env.kill_server("one-node").await?;
        env.datastore_is("one-node", "repaired after its servers died", SERVER_UP * 2, |datastore| {
            let members = datastore.status.as_ref().map(|status| status.members.clone()).unwrap_or_default();
            members.len() == 3
                && members.iter().all(|member| !member.slots.is_empty())
                && members.iter().zip(&before).all(|(now, then)| now.run_id != then.run_id)
        })
        .await?;
        env.datastore_ready("one-node").await?;
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_cluster_of_pods_is_formed_and_measured() -> Result<()> {
    with_namespace("cluster-pods", |env| async move {
        env.secret("password", "a secret").await?;
        cluster(&env, "spread", "Spread").await
    })
    .await
}

const REPLICA_READS: &str = "
phases:
- name: read
  load: {keyMaximum: 9999}
  loadgen: {ratio: '0:1', replicaReads: true, keyMaximum: 9999, duration: 2s}
timeout: 3m
";

#[tokio::test]
async fn reads_of_a_cluster_go_to_the_replicas_of_its_shards() -> Result<()> {
    with_namespace("cluster-replicas", |env| async move {
        env.secret("password", "a secret").await?;
        env.datastore("six", &CLUSTER.replace("PLACEMENT", "OneNode, replicas: 1")).await?;
        let members = env.datastore_ready("six").await?.status.context("no status")?.members;
        let roles: Vec<&str> = members.iter().map(|member| member.role.as_str()).collect();
        ensure!(roles == ["shard", "shard", "shard", "replica", "replica", "replica"], "{members:?}");
        env.run("on-six", &against("six", REPLICA_READS)).await?;
        let run = env.run_in("on-six", RunPhase::Succeeded, SHORT_RUN).await?;
        complete(&run, "Succeeded")?;
        plausible(phase(&results::status(&run)?, "read")?)?;
        let result = env.results(&run).await?.remove(0);
        let server = result.pods[0].server.clone().context("no server record")?;
        let gets = server.shards.iter().map(|shard| {
            let calls = |counters: &ServerCounters| counters.commands.get("get").map_or(0, |get| get.calls);
            shard.after.as_ref().map_or(0, calls) - calls(&shard.before)
        });
        let gets: Vec<u64> = gets.collect();
        ensure!(gets.len() == 6 && gets[..3].iter().all(|gets| *gets == 0), "shards served GETs: {gets:?}");
        ensure!(gets[3..].iter().all(|gets| *gets > 0), "a replica served no GET: {gets:?}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn replicas_follow_their_primary() -> Result<()> {
    with_namespace("replicas", |env| async move {
        env.datastore("redis", &format!("{REDIS}\nreplicas: 2")).await?;
        env.datastore_ready("redis").await?;
        let members = env.datastore_ready("redis").await?.status.context("no status")?.members;
        let roles: Vec<&str> = members.iter().map(|member| member.role.as_str()).collect();
        ensure!(roles == ["primary", "replica", "replica"], "{members:?}");
        env.server("redis").await?.set("written", "to the primary").await?;
        for member in &members[1..] {
            let mut replica = dragstrip_e2e::server::Server::connect(&member.address, None).await?;
            dragstrip_e2e::until("the key at the replica", SERVER_UP, async || {
                Ok(match replica.keys().await? {
                    1 => dragstrip_e2e::Look::Done(()),
                    keys => dragstrip_e2e::Look::NotYet(format!("{keys} keys")),
                })
            })
            .await?;
        }
        Ok(())
    })
    .await
}

const ENCRYPTED: &str = "
authSecretRef: {name: password}
tls: {secretName: server-certificate, clientSecretName: client-certificate}
";
const READ: &str = "
phases:
- name: mixed
  load: {keyMaximum: 9999}
  loadgen: {ratio: '1:1', keyMaximum: 9999, duration: 1s}
- name: fred
  loadgen: {client: Fred, library: {tasks: 20, poolSize: 2}, duration: 1s, operations: [{operation: Incr}]}
- name: jobs
  bullmq: {writers: 1, queues: 2, duration: 1s, concurrency: 8}
timeout: 4m
";

#[tokio::test]
async fn a_server_with_tls_and_a_password_is_measured_by_clients_with_certificates() -> Result<()> {
    with_namespace("tls", |env| async move {
        env.secret("password", "a secret").await?;
        let certificates = Certificates::of(&["redis", &format!("redis.{}.svc", env.namespace)])?;
        env.tls_secret("client-certificate", &certificates.client, &certificates.authority).await?;
        env.datastore("redis", &format!("{REDIS}{ENCRYPTED}")).await?;
        // Said at once, not after a timeout of the kubelet's.
        datastore_says(&env, "redis", "Ready", "ConfigurationMissing", &["server-certificate"]).await?;
        env.tls_secret("server-certificate", &certificates.server, &certificates.authority).await?;
        env.datastore_ready("redis").await?;
        env.run("encrypted", &against("redis", READ)).await?;
        let run = env.run_in("encrypted", RunPhase::Succeeded, SHORT_RUN * 2).await?;
        complete(&run, "Succeeded")?;
        let status = results::status(&run)?;
        plausible(phase(&status, "mixed")?)?;
        plausible_without_bytes(phase(&status, "fred")?)?;
        ensure!(operation(phase(&status, "jobs")?, "ADD")?.count > 100, "{:?}", status.phases);
        Ok(())
    })
    .await
}
