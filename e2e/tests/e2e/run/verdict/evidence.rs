//! What a verdict rests on: what server, client, machines and network did while a load ran.

use crate::common::{complete, redis};
use anyhow::{Context, Result, ensure};
use dragstrip_crds::run::RunPhase;
use dragstrip_e2e::{SHORT_RUN, manifests::against, with_namespace};
use dragstrip_results::usage::{ContainerUsage, HostUsage};

const PHASES: &str = "
phases:
- name: read
  warmup: 1s
  loadgen: {threads: 2, duration: 4s, ratio: '0:1'}
timeout: 3m
";

fn host(usage: &ContainerUsage) -> Result<&HostUsage> {
    let host = usage.host.as_ref().with_context(|| format!("no machine: {usage:?}"))?;
    ensure!(host.cpus > 0 && host.busy_seconds > 0.0, "a machine that did nothing: {host:?}");
    Ok(host)
}

#[tokio::test]
async fn a_result_shows_what_servers_clients_and_the_network_did() -> Result<()> {
    with_namespace("evidence", |env| async move {
        redis(&env).await?;
        env.run("seen", &against("redis", PHASES)).await?;
        let run = env.run_in("seen", RunPhase::Succeeded, SHORT_RUN).await?;
        complete(&run, "Succeeded")?;
        let result = env.results(&run).await?.remove(0);

        let [server] = &result.servers[..] else { anyhow::bail!("not one server: {:?}", result.servers) };
        ensure!(server.server == "redis-0" && server.node.is_some(), "{server:?}");
        let used = &server.usage;
        ensure!((2.0..=4.1).contains(&used.seconds), "4 s of load, of which {} s were seen", used.seconds);
        let main = used.threads.iter().find(|thread| thread.name == "redis-server");
        let main = main.with_context(|| format!("no thread of the server: {used:?}"))?;
        ensure!(main.cpu_seconds > 0.01 && main.cpu_seconds <= used.seconds, "{main:?}");
        ensure!(used.cpu_seconds >= 0.8 * main.cpu_seconds, "less than one of its threads: {used:?}");
        host(used)?;
        ensure!(used.network.as_ref().is_some_and(|network| network.sent_segments > 100), "{used:?}");

        let client = &result.pods[0].client;
        ensure!(client.threads.len() == 2, "two load threads: {client:?}");
        ensure!(client.threads.iter().all(|thread| thread.cpu_seconds > 0.01), "{client:?}");
        ensure!((3.5..6.0).contains(&client.seconds), "the load and no more: {client:?}");
        host(client)?;
        let round_trip = client.round_trip.as_ref().context("the network was not measured")?;
        ensure!(round_trip.samples > 3, "{round_trip:?}");
        ensure!((0.0..50.0).contains(&round_trip.median_milliseconds), "{round_trip:?}");
        ensure!(round_trip.median_milliseconds > 0.0, "{round_trip:?}");
        Ok(())
    })
    .await
}
