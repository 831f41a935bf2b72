//! Bad states made on purpose, and the verdict that names them and nothing else.

use crate::common::{complete, failed, placed, redis, says, whole};
use anyhow::{Context, Result, ensure};
use dragstrip_crds::{
    BenchmarkRun,
    run::{Limiter, PhaseStatus, RunPhase, Verdict},
};
use dragstrip_e2e::{
    Env, Look, SHORT_RUN, alone, faults,
    manifests::{REDIS, against},
    nodes, not_run, processes,
    results::{self, phase},
    until, with_namespace,
};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use std::{
    process::{Child, Command},
    time::Duration,
};

/// The checks that a machine breaks which is every node at once, with few CPUs for all.
const ONE_MACHINE: &str = "
- {check: SharedNode, level: Ignore}
- {check: ForeignLoad, level: Ignore}
- {check: Steal, level: Ignore}
- {check: ClientSaturated, level: Ignore}
- {check: ServerPressure, level: Ignore}
- {check: LittleLawViolated, level: Ignore}
";

/// A run of `phases` against `datastore` whose verdict leaves out what one machine breaks.
pub(crate) fn judged(datastore: &str, phases: &str) -> String {
    format!("{}\nrequirements:{ONE_MACHINE}", against(datastore, phases))
}

pub(crate) fn names(run: &BenchmarkRun) -> Result<Vec<String>> {
    Ok(results::status(run)?.reasons)
}

/// Asserts the run's verdict and all its reasons.
pub(crate) fn is(run: &BenchmarkRun, verdict: Verdict, reasons: &[&str]) -> Result<()> {
    let status = results::status(run)?;
    let evidence: Vec<_> = status.phases.iter().flat_map(|phase| &phase.reasons).collect();
    ensure!(
        status.verdict == Some(verdict) && status.reasons == reasons,
        "the verdict is {:?} for {:?}, not {verdict:?} for {reasons:?}: {evidence:?}",
        status.verdict,
        status.reasons
    );
    Ok(())
}

/// Asserts what limited a phase, and that the evidence says all of `parts`.
pub(crate) fn limited(phase: &PhaseStatus, by: Limiter, parts: &[&str]) -> Result<()> {
    let limited = phase.limited_by.clone().with_context(|| format!("nothing limits {}", phase.name))?;
    ensure!(limited.by == by, "limited by {}, not {by}: {}", limited.by, limited.evidence);
    says(&limited.evidence, parts)
}

pub(crate) async fn succeeded(env: &Env, name: &str, spec: &str) -> Result<BenchmarkRun> {
    env.run(name, spec).await?;
    env.run_in(name, RunPhase::Succeeded, SHORT_RUN).await
}

const RATED: &str = "
phases:
- name: rated
  load: {keyMaximum: 999}
  loadgen: {ratio: '0:1', keyMaximum: 999, duration: 4s, rate: {operationsPerSecond: 2000}}
timeout: 2m
";

#[tokio::test]
async fn a_rate_that_is_met_on_a_quiet_machine_is_valid_and_the_limit() -> Result<()> {
    alone("valid", |env| async move {
        redis(&env).await?;
        let spec = format!("{}- {{check: ScheduleLag, level: Ignore}}\n", judged("redis", RATED));
        let run = succeeded(&env, "rated", &spec).await?;
        complete(&run, "Succeeded")?;
        is(&run, Verdict::Valid, &[])?;
        limited(phase(&results::status(&run)?, "rated")?, Limiter::Rate, &["2,000 operations per second"])?;
        let columns = env.columns("BenchmarkRun", "rated").await?;
        ensure!(columns.get("Verdict").is_some_and(|cell| cell == "Valid"), "{columns:?}");
        ensure!(columns.get("Limited by").is_some_and(|cell| cell == "Rate"), "{columns:?}");
        Ok(())
    })
    .await
}

const CLOSED: &str = "
phases:
- name: read
  load: {keyMaximum: 999}
  loadgen: {ratio: '0:1', keyMaximum: 999, duration: 4s}
timeout: 2m
";
const THEIRS: &str = "
phases:
- name: theirs
  exec:
    image: dragstrip.dev/testbed/redis:7.0
    command: [redis-benchmark]
    args: [-h, '${HOST}', -p, '${PORT}', -t, get, -n, '150000', -c, '20', --csv]
    parser: {redisBenchmarkCsv: {requests: 150000}}
clients: {resources: {limits: {cpu: 200m, memory: 128Mi}}}
timeout: 2m
";

#[tokio::test]
async fn a_cpu_limit_is_reported_for_the_side_that_has_it() -> Result<()> {
    with_namespace("throttled", |env| async move {
        redis(&env).await?;
        let run = succeeded(&env, "weak-client", &judged("redis", THEIRS)).await?;
        // A fifth of a CPU cannot saturate one server thread either.
        is(&run, Verdict::Degraded, &["ClientThrottled", "PlacementNotAsDeclared"])?;
        limited(phase(&results::status(&run)?, "theirs")?, Limiter::Client, &["of its limit of 0.2"])?;
        env.datastore("weak", &REDIS.replace("cpu: 2,", "cpu: 200m,")).await?;
        env.datastore_ready("weak").await?;
        let run = succeeded(&env, "weak-server", &judged("weak", CLOSED)).await?;
        is(&run, Verdict::Degraded, &["ServerThrottled"])?;
        limited(phase(&results::status(&run)?, "read")?, Limiter::Server, &["of its limit of 0.2"])?;
        let event = "Degraded: ServerThrottled";
        env.event("BenchmarkRun", "weak-server", "Degraded", event, dragstrip_e2e::NOTICE).await
    })
    .await
}

const CLUSTER: &str = "
engine: Valkey
version: '8.1'
image: dragstrip.dev/testbed/valkey:8.1
threads: 1
port: 7000
maxMemory: 128Mi
cluster: {shards: 3, placement: OneNode}
resources:
  requests: {cpu: 50m, memory: 64Mi}
  limits: {cpu: 2, memory: 208Mi}
";
const ONE_KEY: &str = "
phases:
- name: hot
  loadgen: {ratio: '1:1', keyMinimum: 7, keyMaximum: 7, duration: 4s, pipeline: 4, connectionsPerThread: 20}
timeout: 2m
";

#[tokio::test]
async fn one_hot_shard_of_several_is_named() -> Result<()> {
    with_namespace("hot", |env| async move {
        env.datastore("shards", CLUSTER).await?;
        whole(&env, "shards", 3).await?;
        let run = succeeded(&env, "hot", &judged("shards", ONE_KEY)).await?;
        let status = results::status(&run)?;
        limited(
            phase(&status, "hot")?,
            Limiter::Server,
            &["server thread valkey-server of shards", "the other"],
        )
    })
    .await
}

/// Limits what a pod sends to `rate` while it is there.
pub(crate) async fn shape(env: &Env, run: &str, rate: &str) -> Result<()> {
    placed(env, run, SHORT_RUN).await?;
    let pid = until("a process of the client pod", SHORT_RUN, || async {
        let pods: Vec<Pod> = env.labelled(&format!("dragstrip.dev/run={run}")).await?;
        let uid = pods.first().and_then(ResourceExt::uid).unwrap_or_default();
        let found = if uid.is_empty() { Vec::new() } else { processes::of_pod(&uid)? };
        Ok(found.first().map_or(Look::NotYet("none yet".to_owned()), |process| Look::Done(process.pid)))
    })
    .await?;
    let rule = format!("tc qdisc replace dev eth0 root tbf rate {rate} burst 2kb latency 1s");
    let entered = Command::new("nsenter")
        .args(["--net", "--target", &pid.to_string(), "--"])
        .args(rule.split(' '))
        .output()
        .context("nsenter and tc shape a pod's network: apt-get install util-linux iproute2")?;
    ensure!(entered.status.success(), "{rule}: {}", String::from_utf8_lossy(&entered.stderr));
    Ok(())
}

#[tokio::test]
async fn a_narrow_network_is_the_limit() -> Result<()> {
    alone("narrow", |env| async move {
        if !faults::local() {
            not_run("a narrow network", "only the testbed's nodes share this machine's kernel");
            return Ok(());
        }
        redis(&env).await?;
        env.run("narrow", &judged("redis", CLOSED)).await?;
        shape(&env, "narrow", "4mbit").await?;
        let run = env.run_in("narrow", RunPhase::Succeeded, SHORT_RUN).await?;
        is(&run, Verdict::Valid, &[])?;
        let status = results::status(&run)?;
        limited(phase(&status, "read")?, Limiter::Network, &["the network round trip took"])
    })
    .await
}

const ZONE: &str = "topology.kubernetes.io/zone";

#[tokio::test]
async fn different_zones_and_one_machine_under_two_nodes_are_reported() -> Result<()> {
    alone("zones", |env| async move {
        let all = env.nodes().await?;
        let (server, client) = (&all.servers[0], &all.clients[0]);
        env.datastore("redis", &nodes::server_on(REDIS, server)).await?;
        env.datastore_ready("redis").await?;
        let spec = format!(
            "{}{}- {{check: ScheduleLag, level: Ignore}}\n",
            nodes::clients_on(client),
            judged("redis", RATED).replace("- {check: SharedNode, level: Ignore}\n", "")
        );
        let apart = Box::pin(env.relabelled(client, ZONE, "west", succeeded(&env, "apart", &spec)));
        let run = env.relabelled(server, ZONE, "east", apart).await?;
        let mut reported = names(&run)?;
        reported.retain(|reason| reason != "SharedNode" || !faults::local());
        ensure!(reported == ["PlacementNotAsDeclared"], "{reported:?}");
        let status = results::status(&run)?;
        let evidence: Vec<String> =
            phase(&status, "rated")?.reasons.iter().map(|reason| reason.message.clone()).collect();
        says(&evidence.join("; "), &["in different zones", "in east", "in west"])?;
        if faults::local() {
            says(&evidence.join("; "), &["are one machine, which clients and server shared"])?;
        }
        Ok(())
    })
    .await
}

/// Something that takes one CPU of this machine until it goes out of scope.
pub(crate) struct Burner(Child);

impl Burner {
    pub(crate) fn light() -> Result<Self> {
        // Linux shares CPU between sessions first (sched_autogroup): in one session, six take what one takes.
        Ok(Self(Command::new("setsid").args(["sh", "-c", "while :; do :; done"]).spawn()?))
    }
}

impl Drop for Burner {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test]
async fn another_load_on_the_machine_is_reported() -> Result<()> {
    alone("stranger", |env| async move {
        if !faults::local() {
            not_run("a stranger's load", "only the testbed's nodes share this machine's CPUs");
            return Ok(());
        }
        redis(&env).await?;
        let _burner = Burner::light()?;
        let spec = judged("redis", RATED).replace("- {check: ForeignLoad, level: Ignore}\n", "");
        let run =
            succeeded(&env, "disturbed", &format!("{spec}- {{check: ScheduleLag, level: Ignore}}\n")).await?;
        is(&run, Verdict::Degraded, &["ForeignLoad"])?;
        let status = results::status(&run)?;
        says(&phase(&status, "rated")?.reasons[0].message, &["others used", "of the", "CPUs of"])
    })
    .await
}

#[tokio::test]
async fn a_required_check_fails_the_run_and_its_result_stays() -> Result<()> {
    with_namespace("required", |env| async move {
        redis(&env).await?;
        let spec =
            format!("{}- {{check: ShortWindow, level: Required, limit: '60'}}\n", judged("redis", CLOSED));
        env.run("short", &spec).await?;
        let (run, failure) = failed(&env, "short", SHORT_RUN).await?;
        ensure!(failure.step == "Requirement", "{failure:?}");
        says(&failure.message, &["ShortWindow: it was measured for", "limit 60 s"])?;
        is(&run, Verdict::Invalid, &["ShortWindow"])?;
        let stored = env.result("short-read-1").await?;
        ensure!(stored.verdict == Some(Verdict::Invalid) && !stored.operations.is_empty(), "{stored:?}");
        Ok(())
    })
    .await
}

const BRIEF: &str = "
phases:
- name: read
  load: {keyMaximum: 999}
  loadgen: {ratio: '0:1', keyMaximum: 999, duration: 1s}
timeout: 3m
";

#[tokio::test]
async fn noise_of_repetitions_and_starts_is_reported_by_later_runs_of_the_namespace() -> Result<()> {
    with_namespace("noise", |env| async move {
        let nodes = env.nodes().await?;
        let client = nodes::clients_on(&nodes.clients[0]);
        let server = nodes::server_on(REDIS, &nodes.servers[0]).replace('\n', "\n    ");
        let own = format!("target:\n  datastore:{server}\n{BRIEF}{client}repetitions: 3\ncalibrate: true\n");
        let first = results::status(&succeeded(&env, "still", &own).await?)?.noise;
        let first = first.context("a calibrating run found no noise")?;
        ensure!(first.figures.iter().all(|figure| figure.between_starts.is_none()), "{first:?}");
        let second = results::status(&succeeded(&env, "again", &own).await?)?.noise;
        let second = second.context("the second start found no noise")?;
        let figure = second.figures.first().context("no figure")?;
        ensure!(figure.starts == 2 && figure.between_starts.is_some(), "{second:?}");
        let later = succeeded(&env, "later", &own.replace("calibrate: true\n", "")).await?;
        let reported = results::status(&later)?.noise;
        ensure!(reported.as_ref() == Some(&second), "{reported:?} is not {second:?}");
        Ok(())
    })
    .await
}

const REPETITIONS: i32 = 30;
const CLEAN: &str = "
phases:
- name: read
  load: {keyMaximum: 9999}
  warmup: 1s
  loadgen: {ratio: '0:1', keyMaximum: 9999, duration: 4s}
repetitions: 30
timeout: 15m
";

/// Long: see the Makefile's list.
#[tokio::test]
async fn thirty_clean_repetitions_raise_no_alarm() -> Result<()> {
    alone("clean", |env| async move {
        redis(&env).await?;
        env.run("clean", &judged("redis", CLEAN)).await?;
        let run = env.run_in("clean", RunPhase::Succeeded, Duration::from_secs(900)).await?;
        let status = results::status(&run)?;
        let read = phase(&status, "read")?;
        for row in &read.repetitions {
            println!(
                "{:>2}  {:>9.0} ops/s  p99 {:.3} ms  {}  {}",
                row.repetition,
                row.operations_per_second.unwrap_or_default(),
                row.p99_milliseconds.unwrap_or_default(),
                row.verdict.map(|verdict| verdict.to_string()).unwrap_or_default(),
                row.reasons.join(", ")
            );
        }
        println!("{:?}", read.operations.last().map(|total| total.operations_per_second));
        ensure!(
            read.repetitions.len() == usize::try_from(REPETITIONS)?,
            "{} repetitions",
            read.repetitions.len()
        );
        let alarms = read.repetitions.iter().filter(|row| row.verdict != Some(Verdict::Valid)).count();
        ensure!(
            alarms == 0,
            "{alarms} of {REPETITIONS} clean repetitions raised an alarm: {:?}",
            read.reasons
        );
        Ok(())
    })
    .await
}
