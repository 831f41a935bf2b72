//! Runs that want the same server.

use crate::common::{leases_gone, redis, says};
use anyhow::{Context, Result, ensure};
use dragstrip_crds::run::RunPhase;
use dragstrip_e2e::{
    Env, SHORT_RUN,
    manifests::{ONE_PHASE, TWO_PHASES, against},
    results::{self, never_together},
    with_namespace,
};
use k8s_openapi::api::coordination::v1::Lease;

#[tokio::test]
async fn runs_on_one_datastore_queue_and_never_overlap() -> Result<()> {
    with_namespace("queue", |env| async move {
        redis(&env).await?;
        env.run("a-first", &against("redis", TWO_PHASES)).await?;
        env.load_runs("a-first", "write", SHORT_RUN).await?;
        env.run("b-second", &against("redis", ONE_PHASE)).await?;
        queued(&env, "b-second", "a-first", 1).await?;
        env.run("c-third", &against("redis", ONE_PHASE)).await?;
        queued(&env, "c-third", "a-first", 2).await?;
        held_by(&env, "a-first").await?;

        let mut order = Vec::new();
        let mut all = Vec::new();
        for name in ["a-first", "b-second", "c-third"] {
            let run = env.run_in(name, RunPhase::Succeeded, SHORT_RUN).await?;
            let status = results::status(&run)?;
            ensure!(status.queue.is_none(), "{name} has ended and still queues: {:?}", status.queue);
            order.push(status.started_at);
            all.extend(env.results(&run).await?);
            leases_gone(&env, name).await?;
        }
        ensure!(order.is_sorted(), "the runs started out of order: {order:?}");
        ensure!(all.len() == 4, "{} results are stored", all.len());
        never_together(&all)
    })
    .await
}

async fn queued(env: &Env, name: &str, behind: &str, position: i32) -> Result<()> {
    let what = format!("queued behind {behind} at position {position}");
    let run = env
        .run_is(name, &what, SHORT_RUN, |run| {
            let queue = run.status.as_ref().and_then(|status| status.queue.as_ref());
            queue.is_some_and(|queue| queue.position == position)
        })
        .await?;
    let status = results::status(&run)?;
    let queue = status.queue.context("no queue")?;
    ensure!(status.phase == RunPhase::Queued, "{}", status.phase);
    ensure!((&queue.holder.namespace, queue.holder.name.as_str()) == (&env.namespace, behind), "{queue:?}");
    ensure!(queue.lease == format!("{}/dragstrip-redis", env.namespace), "{queue:?}");
    let place = format!("position {position}");
    says(&status.message.unwrap_or_default(), &[&queue.holder.to_string(), &queue.lease, &place])
}

async fn held_by(env: &Env, run: &str) -> Result<()> {
    let lease = env.api::<Lease>().get("dragstrip-redis").await?;
    let holder = lease.spec.and_then(|spec| spec.holder_identity).unwrap_or_default();
    let wanted = format!("{}/{run}/", env.namespace);
    ensure!(holder.starts_with(&wanted), "the Lease names {holder}, not {wanted}");
    Ok(())
}
