//! The load generator's operations, clients and schedules, each against a real server.

use crate::common::{complete, redis};
use anyhow::{Context, Result, ensure};
use dragstrip_crds::{BenchmarkRunStatus, run::RunPhase};
use dragstrip_e2e::{
    Env, Look, SHORT_RUN, alone,
    manifests::{REDIS, against, made_for_run},
    results::{self, agrees, operation, phase, plausible, plausible_without_bytes},
    until, with_namespace,
};
use std::time::Duration;

const MIX: &str = "
phases:
- name: mix
  load: {keyMaximum: 9999}
  loadgen:
    duration: 2s
    pipeline: 4
    keyMaximum: 9999
    operations:
    - {operation: Set, expiry: 1h, absoluteExpiry: true, weight: 2}
    - {operation: Get, weight: 4}
    - {operation: Mset, keys: 10}
    - {operation: Mget, keys: 10}
    - {operation: MsetExpireat, keys: 5, expiry: 1h}
    - {operation: Exists}
    - {operation: Exists, missing: true}
    - {operation: Del, missing: true}
    - {command: 'ZADD set:__key__ 1 __data__'}
timeout: 3m
";

#[tokio::test]
async fn a_mix_of_operations_is_counted_as_the_server_counts_it() -> Result<()> {
    with_namespace("mix", |env| async move {
        redis(&env).await?;
        env.run("mixed", &against("redis", MIX)).await?;
        let run = env.run_in("mixed", RunPhase::Succeeded, SHORT_RUN).await?;
        complete(&run, "Succeeded")?;
        let status = results::status(&run)?;
        let mix = phase(&status, "mix")?;
        plausible(mix)?;
        let result = env.results(&run).await?.remove(0);
        agrees(&result, mix)?;
        let gets = operation(mix, "GET")?;
        ensure!(gets.misses == Some(0), "every key was loaded: {gets:?}");
        let server = env.server("redis").await?.calls().await?;
        for (command, tool) in &result.pods[0].commands {
            let server = server.get(command).copied().unwrap_or_default();
            // The load before it writes and counts 10,000 keys.
            let before = if ["set", "exists"].contains(&command.as_str()) { 10_000 } else { 0 };
            ensure!(
                (*tool..=tool + before + 80).contains(&server),
                "the server counted {server} {command}, the tool {tool}"
            );
        }
        for name in ["set", "get", "mset", "mget", "expireat", "exists", "del", "zadd"] {
            ensure!(result.pods[0].commands.contains_key(name), "no {name}: {:?}", result.pods[0].commands);
        }
        Ok(())
    })
    .await
}

/// A server of 16 MB that evicts what was read longest ago.
fn cache() -> String {
    format!("{}evictionPolicy: allkeys-lru\n", REDIS.replace("maxMemory: 256Mi", "maxMemory: 16Mi"))
}

/// Some 60 MB of keys for a cache of 16, which is full from the start.
const LOOK_ASIDE: &str = "
phases:
- name: cache
  load: {keyMaximum: 29999, dataSize: 500}
  warmup: 2s
  loadgen:
    duration: 4s
    ratio: '0:1'
    onMiss: Set
    expiry: 10m
    expiryMaximum: 20m
    keyPattern: Zipfian
    keyMaximum: 99999
    dataSize: 500
clients: {pods: 2}
timeout: 3m
";

#[tokio::test]
async fn a_cache_beside_a_database_is_filled_after_each_miss() -> Result<()> {
    alone("look-aside", |env| async move {
        env.run("cached", &made_for_run(&cache(), LOOK_ASIDE)).await?;
        let run = env.run_in("cached", RunPhase::Succeeded, SHORT_RUN).await?;
        complete(&run, "Succeeded")?;
        let status = results::status(&run)?;
        let cache = phase(&status, "cache")?;
        plausible(cache)?;
        let [get, fill, total] = ["GET", "SET (miss)", "TOTAL"].map(|name| operation(cache, name));
        let (get, fill, total) = (get?, fill?, total?);
        ensure!(get.misses == Some(fill.count), "{} SETs after misses of {get:?}", fill.count);
        ensure!(total.count == get.count, "SETs after misses are in the total: {total:?}");
        let row = &cache.repetitions[0];
        let (ratio, warm) = row.hit_ratio.zip(row.warm_hit_ratio).context("no hit ratios")?;
        ensure!((0.4..0.95).contains(&ratio) && (0.4..0.95).contains(&warm), "{ratio}, warm {warm}");
        ensure!(row.evictions_per_second > Some(0.0), "nothing was evicted: {row:?}");
        let result = env.results(&run).await?.remove(0);
        agrees(&result, cache)?;
        let series = result.hit_series.context("no hits by the second")?;
        let sums = (series.hits.iter().sum(), series.misses.iter().sum());
        ensure!((get.hits, get.misses) == (Some(sums.0), Some(sums.1)), "{series:?} is not of {get:?}");
        Ok(())
    })
    .await
}

const LIBRARIES: &str = "
phases:
- name: raw
  loadgen: {duration: 1s, operations: [{operation: Incr}]}
- name: redis-rs
  loadgen: {client: RedisRs, library: {tasks: 20, poolSize: 4, assertExpected: true}, duration: 1s, operations: [{operation: Incr}]}
- name: fred
  loadgen: {client: Fred, library: {tasks: 20, poolSize: 4, assertExpected: true}, duration: 1s, operations: [{operation: Incr}]}
- name: bb8
  loadgen: {client: Bb8Redis, library: {tasks: 20, poolSize: 4, assertExpected: true}, duration: 1s, operations: [{operation: Incr}]}
timeout: 4m
";

#[tokio::test]
async fn every_client_library_counts_what_the_server_counts() -> Result<()> {
    with_namespace("libraries", |env| async move {
        redis(&env).await?;
        env.run("compared", &against("redis", LIBRARIES)).await?;
        let run = env.run_in("compared", RunPhase::Succeeded, SHORT_RUN).await?;
        let status = results::status(&run)?;
        plausible(phase(&status, "raw")?)?;
        for name in ["redis-rs", "fred", "bb8"] {
            plausible_without_bytes(phase(&status, name)?)?;
        }
        let tool = env.sent(&status, "INCR").await?;
        let server = env.server("redis").await?.calls().await?.get("incr").copied().unwrap_or_default();
        ensure!((tool..=tool + 80).contains(&server), "the server counted {server} INCRs, the tools {tool}");
        Ok(())
    })
    .await
}

const BATCHES: &str = "
phases:
- name: mset
  loadgen:
    client: RedisRs
    library: {poolSize: 2, tasks: 1}
    batch: {items: 10000, batchSize: 1000, parallelism: 2, operation: Mset, keySize: 80}
    dataSize: 20
    duration: 3s
timeout: 3m
";

#[tokio::test]
async fn batches_are_timed_one_by_one() -> Result<()> {
    with_namespace("batches", |env| async move {
        redis(&env).await?;
        env.run("timed", &against("redis", BATCHES)).await?;
        let run = env.run_in("timed", RunPhase::Succeeded, SHORT_RUN).await?;
        let status = results::status(&run)?;
        let batches = phase(&status, "mset")?.batches.clone().context("no batches in the status")?;
        let time = batches.seconds_per_batch;
        ensure!(0.0 < time.low && time.low <= time.mid && time.mid <= time.high, "{time:?}");
        ensure!(batches.iterations > 3 && batches.bytes_per_item == 100, "{batches:?}");
        // MiB/s = items x bytes / 2^20 / time.
        let expected = 10_000.0 * 100.0 / f64::from(1 << 20) / time.mid;
        ensure!((batches.mebibytes_per_second.mid / expected - 1.0).abs() < 0.02, "{batches:?}");
        Ok(())
    })
    .await
}

const STALLED: &str = "
phases:
- name: open
  warmup: 0s
  loadgen: {rate: {operationsPerSecond: 2000}, duration: 6s, ratio: '0:1', keyMaximum: 9999}
- name: closed
  warmup: 0s
  loadgen: {duration: 6s, ratio: '0:1', keyMaximum: 9999}
timeout: 4m
";
const STALL: Duration = Duration::from_secs(1);

#[tokio::test]
async fn a_stalled_server_shows_in_an_open_loop_and_hides_in_a_closed_one() -> Result<()> {
    alone("stall", |env| async move {
        redis(&env).await?;
        env.run("stalled", &against("redis", STALLED)).await?;
        for name in ["open", "closed"] {
            env.load_runs("stalled", name, SHORT_RUN).await?;
            reads_arrive(&env).await?;
            env.freeze_server("redis", STALL).await?;
        }
        let run = env.run_in("stalled", RunPhase::Succeeded, SHORT_RUN).await?;
        check_stall(&results::status(&run)?)
    })
    .await
}

/// The run says that load runs once the start line is fixed; this is when it is crossed.
async fn reads_arrive(env: &Env) -> Result<()> {
    let mut server = env.server("redis").await?;
    let before = server.calls().await?.get("get").copied().unwrap_or_default();
    until("reads at the server", SHORT_RUN, async || {
        let now = server.calls().await?.get("get").copied().unwrap_or_default();
        Ok(if now > before { Look::Done(()) } else { Look::NotYet(format!("{now} GETs, as before")) })
    })
    .await
}

/// One second of six is a sixth of all requests of a schedule, and next to none
/// of a loop that waits itself.
fn check_stall(status: &BenchmarkRunStatus) -> Result<()> {
    let (open, closed) = (phase(status, "open")?, phase(status, "closed")?);
    let schedule = open.schedule.clone().context("no schedule in the status")?;
    ensure!(
        schedule.scheduled == schedule.answered && schedule.scheduled.abs_diff(12_000) < 120,
        "{schedule:?}"
    );
    let open = operation(open, "GET")?.latency_milliseconds;
    ensure!(open.p99 >= Some(850.0) && open.p90 >= Some(250.0), "the stall does not show: {open:?}");
    let closed = operation(closed, "GET")?.latency_milliseconds;
    ensure!(
        closed.p99 < Some(500.0) && closed.max >= Some(900.0),
        "a closed loop cannot show it: {closed:?}"
    );
    Ok(())
}
