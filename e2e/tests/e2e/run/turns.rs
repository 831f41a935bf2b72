//! Runs that want the same nodes: one at a time, nothing held by who waits.

use crate::common::{
    held, lease_of_datastore, lease_of_node, leases_gone, life, of_run, placed, queued_behind, redis,
    run_reports,
};
use anyhow::{Context, Result, ensure};
use dragstrip_crds::{
    BenchmarkRun, Datastore,
    conditions::{holds, types::READY},
    run::RunPhase,
};
use dragstrip_e2e::{
    Env, LOAD_GONE, Look, NOTICE, SERVER_UP, SHORT_RUN, alone,
    manifests::{LONG_PHASE, ONE_PHASE, REDIS, against},
    nodes::{self, clients_on, server_on},
    operator, phase,
    results::never_together,
    until, with_namespace,
};
use k8s_openapi::api::{batch::v1::Job, core::v1::Pod};
use kube::ResourceExt;
use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

async fn server(env: &Env, name: &str, node: &str) -> Result<()> {
    env.datastore(name, &server_on(REDIS, node)).await?;
    env.datastore_ready(name).await?;
    Ok(())
}

/// A client pod on each of `nodes`.
fn on_each(nodes: &[String]) -> String {
    let pods = nodes.len();
    format!(
        "clients: {{pods: {pods}, spread: OnePerNode, placement: {{nodeSelector: {{dragstrip.dev/role: client}}}}}}\n"
    )
}

#[tokio::test]
async fn a_run_reserves_its_target_and_all_nodes_of_its_pods() -> Result<()> {
    with_namespace("holds", |env| async move {
        let nodes = env.nodes().await?;
        server(&env, "redis", &nodes.servers[0]).await?;
        env.run("wide", &against("redis", &(LONG_PHASE.to_owned() + &on_each(&nodes.clients)))).await?;
        env.load_runs("wide", "endless", SHORT_RUN).await?;
        let mut wanted: Vec<String> = nodes.clients.iter().map(|node| lease_of_node(node)).collect();
        wanted.extend([lease_of_node(&nodes.servers[0]), lease_of_datastore(&env, "redis")]);
        wanted.sort();
        let held = held(&env, "wide").await?;
        ensure!(held == wanted, "it holds {held:?}, not {wanted:?}");
        let pods: Vec<Pod> = env.labelled(&of_run("wide")).await?;
        let used = pods.iter().map(nodes::of).collect::<Result<BTreeSet<_>>>()?;
        ensure!(used == nodes.clients.iter().cloned().collect(), "its clients are on {used:?}");
        Ok(())
    })
    .await
}

/// Shorter than the run has to wait.
const SHORT_TIMEOUT: Duration = Duration::from_secs(25);

#[tokio::test]
async fn a_run_that_waits_for_client_nodes_is_queued_reserves_nothing_and_loses_no_time() -> Result<()> {
    alone("client-nodes", |env| async move {
        let nodes = env.nodes().await?;
        server(&env, "one", &nodes.servers[0]).await?;
        server(&env, "two", &nodes.servers[1]).await?;
        env.run("hog", &against("one", &(LONG_PHASE.to_owned() + &on_each(&nodes.clients)))).await?;
        env.load_runs("hog", "endless", SHORT_RUN).await?;

        // The only other node has no taint, and server one, under load.
        let timeout = format!("timeout: {}s", SHORT_TIMEOUT.as_secs());
        env.run("patient", &against("two", &ONE_PHASE.replace("timeout: 2m", &timeout))).await?;
        let lease = queued_behind(&env, "patient", "hog").await?;
        let of_clients: Vec<String> = nodes.clients.iter().map(|node| lease_of_node(node)).collect();
        ensure!(of_clients.contains(&lease), "it waits for {lease}, not for one of {of_clients:?}");
        run_reports(&env, "patient", &[&format!("{}/hog", env.namespace), &lease], NOTICE).await?;
        stays_queued(&env, "patient", SHORT_TIMEOUT + Duration::from_secs(2)).await?;

        // Its target goes away while it waits, and comes back.
        let before = life(&env, "two").await?;
        env.kill_server("two").await?;
        until("a server two that was started again", SERVER_UP, || async {
            let now = life(&env, "two").await?;
            Ok(if now == before { Look::NotYet(format!("{now:?}")) } else { Look::Done(()) })
        })
        .await?;
        env.datastore_ready("two").await?;
        queued_behind(&env, "patient", "hog").await?;

        env.delete::<BenchmarkRun>("hog").await?;
        env.run_in("patient", RunPhase::Succeeded, SHORT_RUN).await?;
        let used = placed(&env, "patient", NOTICE).await?;
        ensure!(nodes.clients.contains(&used), "its client ran on {used}, beside a server");
        Ok(())
    })
    .await
}

/// Asserts that a run is Queued for so long, holds no Lease and makes no Job.
async fn stays_queued(env: &Env, name: &str, how_long: Duration) -> Result<()> {
    let begun = Instant::now();
    until(&format!("run {name} queued for {how_long:?}"), how_long + NOTICE, || async {
        let run = env.api::<BenchmarkRun>().get(name).await?;
        let (held, jobs) = (held(env, name).await?, env.labelled::<Job>(&of_run(name)).await?.len());
        if phase(&run) != RunPhase::Queued || !held.is_empty() || jobs > 0 {
            return Ok(Look::Never(format!("it is {}, holds {held:?} and has {jobs} Jobs", phase(&run))));
        }
        let over = begun.elapsed() >= how_long;
        Ok(if over { Look::Done(()) } else { Look::NotYet("queued".to_owned()) })
    })
    .await
}

#[tokio::test]
async fn a_run_starts_within_seconds_of_its_client_node_becoming_free() -> Result<()> {
    alone("free-node", |env| async move {
        let nodes = env.nodes().await?;
        server(&env, "one", &nodes.servers[0]).await?;
        server(&env, "two", &nodes.servers[1]).await?;
        let there = clients_on(&nodes.clients[0]);
        env.run("hog", &against("one", &format!("{LONG_PHASE}{there}"))).await?;
        env.load_runs("hog", "endless", SHORT_RUN).await?;
        // Beside it another node for clients is empty all the time.
        env.run("next", &against("two", &format!("{ONE_PHASE}{there}"))).await?;
        queued_behind(&env, "next", "hog").await?;
        env.delete::<BenchmarkRun>("hog").await?;
        leases_gone(&env, "hog").await?;
        let node = placed(&env, "next", NOTICE).await?;
        ensure!(node == nodes.clients[0], "it started on {node}");
        env.run_in("next", RunPhase::Succeeded, SHORT_RUN).await?;
        Ok(())
    })
    .await
}

const FOUR_SECONDS: &str = "
phases:
- name: write
  loadgen: {ratio: '1:0', keyMaximum: 9999, duration: 4s}
timeout: 1m
";

#[tokio::test]
async fn two_runs_created_together_on_two_servers_of_one_node_take_turns_and_both_succeed() -> Result<()> {
    with_namespace("together", |env| async move {
        let node = env.nodes().await?.servers.remove(0);
        server(&env, "one", &node).await?;
        server(&env, "two", &node).await?;
        for round in 1..=2 {
            let (one, two) = (format!("one-{round}"), format!("two-{round}"));
            let (on_one, on_two) = (against("one", FOUR_SECONDS), against("two", FOUR_SECONDS));
            tokio::try_join!(env.run(&one, &on_one), env.run(&two, &on_two))?;
            let loser = the_queued_one(&env, &[&one, &two]).await?;
            let winner = if loser == one { &two } else { &one };
            ensure!(
                queued_behind(&env, &loser, winner).await? == lease_of_node(&node),
                "{loser} does not wait for the node"
            );
            // What it took before it lost is given back while the other one runs.
            leases_gone(&env, &loser).await?;
            ensure!(
                !held(&env, winner).await?.is_empty(),
                "{winner} ended before {loser} gave its Leases back"
            );
            let mut results = Vec::new();
            for name in [winner, &loser] {
                let run = env.run_in(name, RunPhase::Succeeded, SHORT_RUN).await?;
                results.extend(env.results(&run).await?);
            }
            never_together(&results).with_context(|| format!("round {round}"))?;
            // Else both would wait for these in the next round, in the order of their names.
            leases_gone(&env, winner).await?;
            leases_gone(&env, &loser).await?;
        }
        Ok(())
    })
    .await
}

async fn the_queued_one(env: &Env, names: &[&str]) -> Result<String> {
    until(&format!("one of {names:?} queued"), SHORT_RUN, || async {
        let mut phases = Vec::new();
        for name in names {
            let run = env.api::<BenchmarkRun>().get(name).await?;
            if phase(&run) == RunPhase::Queued && run.status.is_some_and(|status| status.queue.is_some()) {
                return Ok(Look::Done((*name).to_owned()));
            }
            phases.push(env.api::<BenchmarkRun>().get(name).await.map(|run| phase(&run).to_string())?);
        }
        Ok(Look::NotYet(format!("{phases:?}")))
    })
    .await
}

#[tokio::test]
async fn a_queued_run_sends_no_request_to_the_server_that_another_run_loads() -> Result<()> {
    alone("unquestioned", |env| async move {
        redis(&env).await?;
        env.run("loading", &against("redis", LONG_PHASE)).await?;
        env.load_runs("loading", "endless", SHORT_RUN).await?;
        env.run("waiting", &against("redis", ONE_PHASE)).await?;
        queued_behind(&env, "waiting", "loading").await?;
        let mut server = env.server("redis").await?;
        // The runner reads the server's counters before the first of them.
        until("writes at the server", SHORT_RUN, async || {
            let written = server.calls().await?.get("set").copied().unwrap_or_default();
            Ok(if written > 0 { Look::Done(()) } else { Look::NotYet("none".to_owned()) })
        })
        .await?;
        let (begun, before) = (Instant::now(), server.calls().await?);
        for wake in 1..=5 {
            let passes = operator::passes_over_runs(&env.client).await?;
            let label = serde_json::json!({"metadata": {"labels": {"wake": wake.to_string()}}});
            env.change::<BenchmarkRun>("waiting", label).await?;
            until("a pass over the queued run", NOTICE, || async {
                let now = operator::passes_over_runs(&env.client).await?;
                Ok(if now > passes { Look::Done(()) } else { Look::NotYet(format!("{now} passes")) })
            })
            .await?;
        }
        let after = server.calls().await?;
        let calls = |command: &str| {
            let calls =
                |of: &std::collections::BTreeMap<String, u64>| of.get(command).copied().unwrap_or_default();
            calls(&after) - calls(&before)
        };
        // One INFO is this test's own, and one a second the observer's, who reports to the kubelet
        // whether the server is ready.
        let own = 2 + begun.elapsed().as_secs();
        let questions = (calls("info").saturating_sub(own), calls("config|get"), calls("hello"));
        ensure!(questions == (0, 0, 0), "INFO, CONFIG GET and HELLO under load: {questions:?}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn no_lease_is_released_while_a_job_of_its_run_can_still_create_pods() -> Result<()> {
    with_namespace("lease-last", |env| async move {
        let nodes = env.nodes().await?;
        server(&env, "redis", &nodes.servers[0]).await?;
        let spec = against("redis", &(LONG_PHASE.to_owned() + &on_each(&nodes.clients)));
        env.run("stopped", &spec).await?;
        env.load_runs("stopped", "endless", SHORT_RUN).await?;
        let all = held(&env, "stopped").await?.len();
        env.run("stopped", &format!("{spec}cancel: true\n")).await?;
        until("all Leases free", LOAD_GONE, || async {
            // Leases first: what is seen afterwards was there when they were free.
            let held = held(&env, "stopped").await?.len();
            let alive = alive(&env, "stopped").await?;
            Ok(match held {
                some if some < all && !alive.is_empty() => {
                    Look::Never(format!("{some} Leases left and {alive:?}"))
                }
                0 => Look::Done(()),
                some => Look::NotYet(format!("{some} Leases, {alive:?}")),
            })
        })
        .await
    })
    .await
}

/// Jobs of the run that have not ended and are not being deleted, and pods that have not ended.
async fn alive(env: &Env, run: &str) -> Result<Vec<String>> {
    let ended = |job: &Job| {
        let conditions = job.status.iter().flat_map(|status| status.conditions.iter().flatten());
        conditions.clone().any(|c| ["Complete", "Failed"].contains(&c.type_.as_str()) && c.status == "True")
    };
    let jobs = env.labelled::<Job>(&of_run(run)).await?.into_iter();
    let jobs = jobs.filter(|job| !ended(job) && job.metadata.deletion_timestamp.is_none());
    let pods = env.labelled::<Pod>(&of_run(run)).await?.into_iter().filter(|pod| {
        let phase = pod.status.as_ref().and_then(|status| status.phase.clone());
        !matches!(phase.as_deref(), Some("Succeeded" | "Failed"))
    });
    Ok(jobs
        .map(|job| format!("Job {}", job.name_any()))
        .chain(pods.map(|pod| format!("Pod {}", pod.name_any())))
        .collect())
}

#[tokio::test]
async fn clients_keep_off_nodes_with_servers_of_other_namespaces() -> Result<()> {
    alone("near", |env| async move {
        let nodes = env.nodes().await?;
        server(&env, "redis", &nodes.servers[1]).await?;
        env.beside("far", async |far| {
            server(&far, "redis", &nodes.servers[0]).await?;
            let phases = format!("{ONE_PHASE}{}", clients_on(&nodes.servers[0]));
            env.run("held-off", &against("redis", &phases)).await?;
            run_reports(&env, "held-off", &["no node for clients", &nodes.servers[0]], SERVER_UP).await?;
            let pods: Vec<Pod> = env.labelled(&of_run("held-off")).await?;
            ensure!(pods.iter().all(|pod| nodes::of(pod).is_err()), "a client is beside a server: {pods:?}");
            far.delete::<Datastore>("redis").await
        })
        .await?;
        // The node is empty now, and the run goes on by itself.
        let run = env.run_in("held-off", RunPhase::Succeeded, SHORT_RUN).await?;
        ensure!(placed(&env, "held-off", NOTICE).await? == nodes.servers[0], "it ran elsewhere: {run:?}");
        let redis = env.api::<Datastore>().get("redis").await?;
        let conditions = redis.status.unwrap_or_default().conditions;
        ensure!(holds(&conditions, READY, redis.metadata.generation), "{conditions:?}");
        Ok(())
    })
    .await
}
