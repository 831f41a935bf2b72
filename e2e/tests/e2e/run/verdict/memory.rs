//! The memory of real servers: right after a phase, and after its settle time.

use crate::common::redis;
use anyhow::{Context, Result, ensure};
use dragstrip_crds::{
    BenchmarkRun,
    run::{MemoryMoment, MemoryReading, RunPhase, SUM},
};
use dragstrip_e2e::{
    Env, SHORT_RUN, alone,
    manifests::{against, against_address},
    message, operator,
    results::{self, phase},
};
use k8s_openapi::api::core::v1::ConfigMap;
use std::collections::BTreeSet;

const KEYS: u64 = 20_000;
const SETTLE_SECONDS: f64 = 10.0;
const PHASES: &str = "
phases:
- name: few
  flush: true
  loadgen: {requestsPerConnection: 400, ratio: '1:0', keyPattern: Sequential, keyMaximum: 1999, dataSize: 500}
- name: many
  memory: {settle: 10s}
  loadgen: {requestsPerConnection: 4000, ratio: '1:0', keyPattern: Sequential, keyMaximum: 19999, dataSize: 500}
- name: read
  loadgen: {duration: 2s, ratio: '0:1', keyMaximum: 19999}
timeout: 5m
";

/// The reading of `member` at `moment`.
fn reading(rows: &[MemoryReading], moment: MemoryMoment, member: &str) -> Result<MemoryReading> {
    let found = rows.iter().find(|row| row.moment == moment && row.member == member);
    found.cloned().with_context(|| format!("no reading {moment:?} of {member} among {rows:?}"))
}

/// What holds of every reading of a server with so many keys.
fn check(row: &MemoryReading, keys: u64) -> Result<()> {
    ensure!(row.keys == Some(keys) && row.unread.is_none(), "{row:?}");
    let used = row.used_bytes.context("used_memory is missing")?;
    ensure!(used > keys * 500 && row.peak_bytes >= row.used_bytes && row.rss_bytes > Some(0), "{row:?}");
    let each = row.bytes_per_key.context("no bytes per key")?;
    ensure!((each - used as f64 / keys as f64).abs() < 0.001, "{row:?}");
    Ok(())
}

async fn jobs_of(env: &Env, name: &str) -> Result<BTreeSet<String>> {
    let maps = env.labelled::<ConfigMap>(&format!("dragstrip.dev/run={name}")).await?;
    Ok(maps.into_iter().filter_map(|map| map.metadata.name).collect())
}

/// A run whose operator is restarted while the memory settles, and what it leaves.
async fn restarted_while_it_settles(env: &Env) -> Result<BenchmarkRun> {
    env.run("sized", &against("redis", PHASES)).await?;
    let settles = |run: &BenchmarkRun| message(run).contains("memory settles");
    env.run_is("sized", "says that the memory settles", SHORT_RUN, settles).await?;
    operator::restart(&env.client).await?;
    env.run_in("sized", RunPhase::Succeeded, SHORT_RUN).await
}

#[tokio::test]
async fn memory_is_reported_right_after_a_phase_and_after_its_settle_time_through_a_restart() -> Result<()> {
    alone("memory", |env| async move {
        redis(&env).await?;
        let run = restarted_while_it_settles(&env).await?;
        let status = results::status(&run)?;
        let (few, many) = (&phase(&status, "few")?.memory, &phase(&status, "many")?.memory);
        ensure!(few.iter().all(|row| row.moment == MemoryMoment::RightAfter), "{few:?}");
        ensure!(many.len() == 4, "two moments of one server and of all: {many:?}");
        let mut used = Vec::new();
        for member in ["redis-0", SUM] {
            let before = reading(few, MemoryMoment::RightAfter, member)?;
            let after = reading(many, MemoryMoment::RightAfter, member)?;
            let settled = reading(many, MemoryMoment::Settled, member)?;
            check(&before, KEYS / 10)?;
            check(&after, KEYS)?;
            check(&settled, KEYS)?;
            ensure!(before.used_bytes < after.used_bytes, "{before:?}, {after:?}");
            ensure!(after.cgroup_bytes > Some(0) && after.cgroup_peak_bytes > Some(0), "{after:?}");
            ensure!((0.0..SETTLE_SECONDS).contains(&after.seconds), "{after:?}");
            ensure!(settled.seconds >= SETTLE_SECONDS, "{settled:?}");
            used.push(settled.used_bytes);
        }
        ensure!(used[0] == used[1], "the sum of one is that one: {used:?}");
        let jobs = jobs_of(&env, "sized").await?;
        let expected = ["sized-few-1", "sized-many-1", "sized-many-1.settled", "sized-read-1"];
        ensure!(jobs.iter().eq(expected), "each was measured once: {jobs:?}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn the_memory_of_an_external_server_is_read_by_its_client() -> Result<()> {
    alone("external-memory", |env| async move {
        redis(&env).await?;
        let address = env.server_address("redis").await?;
        let phases = PHASES.replace("  flush: true\n", "");
        env.run("outside", &against_address(&address, &phases)).await?;
        let run = env.run_in("outside", RunPhase::Succeeded, SHORT_RUN).await?;
        let status = results::status(&run)?;
        let many = &phase(&status, "many")?.memory;
        let settled = reading(many, MemoryMoment::Settled, &address)?;
        check(&settled, KEYS)?;
        ensure!(settled.seconds >= SETTLE_SECONDS && settled.cgroup_bytes.is_none(), "{settled:?}");
        check(&reading(many, MemoryMoment::RightAfter, SUM)?, KEYS)
    })
    .await
}
