//! More bad states made on purpose, of a machine with nothing else on it. Long: see the Makefile's list.

use crate::{
    common::redis,
    run::verdict::findings::{Burner, is, judged, limited, names, shape, succeeded},
};
use anyhow::{Context, Result, ensure};
use dragstrip_crds::run::{Limiter, RunPhase, Verdict};
use dragstrip_e2e::{
    Env, Look, SHORT_RUN, alone, faults,
    manifests::REDIS,
    not_run, processes,
    results::{self, phase},
    until,
};
use k8s_openapi::api::{batch::v1::Job, core::v1::Pod};
use kube::ResourceExt;
use std::{
    process::Command,
    time::{Duration, SystemTime},
};

const STORM: &str = "
phases:
- name: storm
  load: {keyMaximum: 999}
  loadgen: {ratio: '0:1', keyMaximum: 999, duration: 4s, threads: 1, rate: {operationsPerSecond: 1000000}}
timeout: 2m
";

#[tokio::test]
async fn a_rate_that_no_server_follows() -> Result<()> {
    alone("storm", |env| async move {
        env.datastore("weak", &REDIS.replace("cpu: 2,", "cpu: 300m,")).await?;
        env.datastore_ready("weak").await?;
        // A throttled server answers the flood at once, or after seconds.
        let storm = judged("weak", STORM) + "- {check: NotSteady, level: Ignore}\n";
        let run = succeeded(&env, "storm", &storm).await?;
        is(&run, Verdict::Degraded, &["ScheduleLag", "RateNotKept", "ServerThrottled"])
    })
    .await
}

const SLOW_TOOL: &str = "
phases:
- name: theirs
  exec:
    image: dragstrip.dev/testbed/redis:7.0
    command: [redis-benchmark]
    args: [-h, '${HOST}', -p, '${PORT}', -t, get, -n, '300000', -c, '20', --csv]
    parser: {redisBenchmarkCsv: {requests: 300000}}
timeout: 2m
";

/// redis-benchmark needs more CPU for a request than Redis does.
#[tokio::test]
async fn a_tool_that_is_slower_than_its_server() -> Result<()> {
    alone("slow-tool", |env| async move {
        redis(&env).await?;
        let spec = judged("redis", SLOW_TOOL).replace("- {check: ClientSaturated, level: Ignore}\n", "");
        let run = succeeded(&env, "theirs", &spec).await?;
        is(&run, Verdict::Degraded, &["ClientSaturated"])?;
        limited(phase(&results::status(&run)?, "theirs")?, Limiter::Client, &["load thread redis-benchmark"])
    })
    .await
}

const TWO_CLIENTS: &str = "
phases:
- name: read
  load: {keyMaximum: 999}
  loadgen: {ratio: '0:1', keyMaximum: 999, requestsPerConnection: 2000}
clients: {pods: 2}
timeout: 2m
";

#[tokio::test]
async fn a_client_that_loads_on_when_the_other_has_ended() -> Result<()> {
    alone("overlap", |env| async move {
        if !faults::local() {
            not_run("a narrow network", "only the testbed's nodes share this machine's kernel");
            return Ok(());
        }
        redis(&env).await?;
        env.run("apart", &judged("redis", TWO_CLIENTS)).await?;
        shape(&env, "apart", "8mbit").await?;
        let run = env.run_in("apart", RunPhase::Succeeded, SHORT_RUN).await?;
        let reported = names(&run)?;
        ensure!(reported.iter().any(|reason| reason == "ShortOverlap"), "{reported:?}");
        let known = ["ShortOverlap", "ShortWindow"];
        ensure!(reported.iter().all(|reason| known.contains(&reason.as_str())), "{reported:?}");
        Ok(())
    })
    .await
}

const THRICE: &str = "
phases:
- name: read
  load: {keyMaximum: 999}
  loadgen: {ratio: '0:1', keyMaximum: 999, duration: 10s}
repetitions: 3
timeout: 3m
";

#[tokio::test]
async fn a_machine_that_is_slower_from_the_middle_of_one_repetition_on() -> Result<()> {
    alone("storms", |env| async move {
        if !faults::local() {
            not_run("a stranger's load", "only the testbed's nodes share this machine's CPUs");
            return Ok(());
        }
        redis(&env).await?;
        env.run("read", &judged("redis", THRICE)).await?;
        let start = start_line(&env, "read", 2).await?;
        // The middle of what is measured of the repetition, after a second of warm-up.
        tokio::time::sleep(time_until(start + Duration::from_secs(6))?).await;
        let burners = (0..6).map(|_| Burner::light()).collect::<Result<Vec<_>>>()?;
        tokio::time::sleep(Duration::from_secs(5)).await;
        drop(burners);
        let run = env.run_in("read", RunPhase::Succeeded, SHORT_RUN).await?;
        // How much the mean of one repetition falls depends on how fast the machine is.
        let reported = names(&run)?;
        ensure!(reported == ["NotSteady"] || reported == ["NotSteady", "HighVariance"], "{reported:?}");
        Ok(())
    })
    .await
}

const TOGETHER: &str = "
phases:
- name: read
  load: {keyMaximum: 999}
  warmup: 0s
  loadgen: {ratio: '0:1', keyMaximum: 999, duration: 40s}
clients: {pods: 2}
timeout: 2m
";

/// When the clients of a run's first Job start, or of its second: `number` counts from 1.
async fn start_line(env: &Env, run: &str, number: usize) -> Result<Duration> {
    until("the start command", 2 * SHORT_RUN, || async {
        let jobs: Vec<Job> = env.labelled(&format!("dragstrip.dev/run={run}")).await?;
        let start = |job: &Job| job.annotations().get("dragstrip.dev/start-at-unix-nanos").cloned();
        let starts = jobs.iter().filter_map(start).map(|nanos| nanos.parse());
        let mut starts = starts.collect::<Result<Vec<u64>, _>>()?;
        starts.sort_unstable();
        Ok(match starts.get(number - 1) {
            Some(nanos) => Look::Done(Duration::from_nanos(*nanos)),
            None => Look::NotYet(format!("{} Jobs have one", starts.len())),
        })
    })
    .await
}

/// How long it is until this instant of the clock.
fn time_until(instant: Duration) -> Result<Duration> {
    Ok(instant.saturating_sub(SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?))
}

/// Sends `signal` to every process of a pod.
fn signal(pod: &Pod, signal: &str) -> Result<()> {
    for process in processes::of_pod(&pod.uid().unwrap_or_default())? {
        // One that has ended meanwhile needs none.
        let _ = Command::new("kill").args([signal, &process.pid.to_string()]).status()?;
    }
    Ok(())
}

#[tokio::test]
async fn a_client_that_is_frozen_at_the_start_line() -> Result<()> {
    alone("skew", |env| async move {
        if !faults::local() {
            not_run("a frozen client", "only the testbed's nodes share this machine's kernel");
            return Ok(());
        }
        redis(&env).await?;
        // A virtual machine may be slower for some of so many seconds.
        let spec = format!("{}- {{check: NotSteady, level: Ignore}}\n", judged("redis", TOGETHER));
        env.run("skewed", &spec).await?;
        let start = start_line(&env, "skewed", 1).await?;
        let pods: Vec<Pod> = env.labelled("dragstrip.dev/run=skewed").await?;
        let late = pods.last().context("the run has no pod")?;
        // The start command has reached the runner by then, and its tool waits for the instant.
        tokio::time::sleep(time_until(start)?.saturating_sub(Duration::from_millis(100))).await;
        signal(late, "-STOP")?;
        tokio::time::sleep(Duration::from_millis(1600)).await;
        signal(late, "-CONT")?;
        let run = env.run_in("skewed", RunPhase::Succeeded, SHORT_RUN).await?;
        is(&run, Verdict::Degraded, &["StartSkew"])
    })
    .await
}
