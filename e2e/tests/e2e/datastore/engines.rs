//! Datastores: what was declared is what runs, or it says so.

use crate::common::{datastore_says, failed, of_run, redis, says};
use anyhow::{Context, Result, ensure};
use dragstrip_crds::{
    Datastore,
    conditions::types::VERIFIED,
    conditions::{find, holds},
};
use dragstrip_e2e::{
    Env, NOTICE, SHORT_RUN, faults,
    manifests::{ONE_PHASE, REDIS, against, engine},
    processes, results, with_namespace,
};
use k8s_openapi::api::{
    apps::v1::StatefulSet,
    batch::v1::Job,
    core::v1::{Pod, Service},
};
use kube::ResourceExt;
use std::time::Duration;

/// Name, engine, version, image.
const ENGINES: [(&str, &str, &str, &str); 4] = [
    ("redis-6", "Redis", "6.2", "redis:6.2"),
    ("redis-7", "Redis", "7.0", "redis:7.0"),
    ("redis-8", "Redis", "8.0", "redis:8.0"),
    ("valkey-8", "Valkey", "8.1", "valkey:8.1"),
];
const THREADS: u32 = 2;

#[tokio::test]
async fn every_engine_runs_with_the_threads_declared_and_leaves_nothing() -> Result<()> {
    with_namespace("engines", |env| async move {
        for (name, kind, version, image) in ENGINES {
            env.datastore(name, &engine(kind, version, image, THREADS)).await?;
        }
        for (name, kind, version, _) in ENGINES {
            let datastore = env.datastore_ready(name).await?;
            check(&datastore, kind, version).with_context(|| name.to_owned())?;
            check_threads(&env.server_pod(name).await?).with_context(|| name.to_owned())?;
        }
        for (name, ..) in ENGINES {
            env.delete::<Datastore>(name).await?;
        }
        for (name, ..) in ENGINES {
            nothing_left(&env, name).await?;
        }
        Ok(())
    })
    .await
}

fn check(datastore: &Datastore, kind: &str, version: &str) -> Result<()> {
    let status = datastore.status.clone().context("no status")?;
    ensure!(
        holds(&status.conditions, VERIFIED, datastore.metadata.generation),
        "not Verified: {:?}",
        status.conditions
    );
    let observed = status.observed.context("nothing observed")?;
    ensure!(observed.threads == Some(2), "observed {:?} threads", observed.threads);
    ensure!(
        observed.engine.is_some_and(|engine| engine.to_string() == kind)
            && observed.version.starts_with(version),
        "observed {observed:?}"
    );
    ensure!(observed.max_memory_bytes == Some(256 << 20), "observed {observed:?}");
    ensure!(observed.io_interface.as_deref() == Some("epoll"), "observed {observed:?}");
    let node = status.node.context("no node")?;
    ensure!(
        node.instance_type.is_some()
            && node.zone.is_some()
            && node.placement_group.is_some()
            && node.cpus.is_some_and(|cpus| cpus > 0)
            && node.kernel.is_some()
            && node.cpu_model.is_some(),
        "facts are missing: {node:?}"
    );
    let endpoint = status.endpoint.context("no endpoint")?;
    ensure!(endpoint.starts_with(&format!("{}.", datastore.name_any())), "endpoint {endpoint}");
    Ok(())
}

/// The kernel's own account, where it can be read: one main thread and one more for I/O.
fn check_threads(pod: &Pod) -> Result<()> {
    if !faults::local() {
        return Ok(());
    }
    let processes = processes::of_pod(&pod.uid().unwrap_or_default())?;
    let threads: Vec<&String> = processes.iter().flat_map(|process| &process.threads).collect();
    let io = threads.iter().filter(|name| name.starts_with("io_thd")).count();
    ensure!(io == 1, "two I/O threads are the main one and one more: {threads:?}");
    Ok(())
}

async fn nothing_left(env: &Env, name: &str) -> Result<()> {
    let label = format!("dragstrip.dev/datastore={name}");
    let within = Duration::from_secs(30);
    env.none_labelled::<StatefulSet>(&label, within).await?;
    env.none_labelled::<Service>(&label, within).await?;
    env.none_labelled::<Pod>(&label, within).await
}

#[tokio::test]
async fn a_server_with_other_threads_than_declared_is_not_measured() -> Result<()> {
    with_namespace("mismatch", |env| async move {
        env.datastore("sly", &format!("{REDIS}\nextraArgs: ['--io-threads', '2']")).await?;
        let both = "threads: declared 1, the server runs 2";
        env.datastore_is("sly", both, Duration::from_secs(30), |datastore| {
            let conditions = datastore.status.clone().unwrap_or_default().conditions;
            find(&conditions, VERIFIED).is_some_and(|c| c.status == "False" && c.message == both)
        })
        .await?;
        datastore_says(&env, "sly", "Ready", "NotAsDeclared", &[both]).await?;

        env.run("fooled", &against("sly", ONE_PHASE)).await?;
        let (run, failure) = failed(&env, "fooled", SHORT_RUN).await?;
        says(&failure.message, &["Datastore sly", both])?;
        ensure!(failure.step == "Verification", "{failure:?}");
        no_load(&env, "fooled").await?;
        ensure!(results::status(&run)?.phases.is_empty(), "numbers are shown");
        env.event("BenchmarkRun", "fooled", "Failed", both, NOTICE).await
    })
    .await
}

async fn no_load(env: &Env, run: &str) -> Result<()> {
    let jobs: Vec<Job> = env.labelled(&of_run(run)).await?;
    ensure!(jobs.is_empty(), "load was sent: {} Jobs", jobs.len());
    Ok(())
}

#[tokio::test]
async fn a_server_changed_behind_our_back_is_not_measured() -> Result<()> {
    with_namespace("changed", |env| async move {
        redis(&env).await?;
        env.server("redis").await?.configure("maxmemory", "100000000").await?;
        let both = "maxMemory: declared 268435456 bytes, the server has 100000000";
        env.run("fooled", &against("redis", ONE_PHASE)).await?;
        let (_, failure) = failed(&env, "fooled", SHORT_RUN).await?;
        says(&failure.message, &[both])?;
        no_load(&env, "fooled").await?;
        // The run's finding shows at the Datastore too.
        datastore_says(&env, "redis", VERIFIED, "NotAsDeclared", &[both]).await
    })
    .await
}
