//! What is measured, each with its goal.

use crate::{
    Arguments,
    cluster::{Cluster, each, until},
    operator::Operator,
    report::{DRAGONFLY_CALLS, DRAGONFLY_TIME, K6_IDLE, K6_THOUSAND, Report},
    runners::SILENT,
};
use anyhow::{Context, Result, bail};
use dragstrip_crds::{BenchmarkRun, Datastore, run::RunPhase};
use k8s_openapi::api::{apps::v1::StatefulSet, batch::v1::Job, core::v1::Pod, core::v1::Service};
use kube::{Api, Resource, ResourceExt, api::ListParams};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const MINUTE: Duration = Duration::from_secs(60);
/// After this long what is refused again and again must be asked rarely.
const FIRST_TRIES: Duration = Duration::from_secs(10);
/// Name of the run of three phases.
const SPRINT: &str = "sprint";
/// Stands for a name in what is sent many times.
const NAME: &str = "name-of-a-run";
/// A run that the operator sees last when it starts.
const LAST: &str = "zz-last";
/// Where finished and active runs are.
const HISTORY: &str = "history";

/// A run against an address of its own, where the runners that are played load nothing.
fn run(name: &str, number: usize, phases: &[&str], duration: &str) -> Value {
    let phases: Vec<_> =
        phases.iter().map(|name| json!({"name": name, "loadgen": {"duration": duration}})).collect();
    let target =
        json!({"external": {"address": format!("192.0.2.{}:{}", number % 250 + 1, 6379 + number / 250)}});
    json!({
        "apiVersion": "dragstrip.dev/v1alpha1", "kind": "BenchmarkRun", "metadata": {"name": name},
        "spec": {"target": target, "phases": phases, "timeout": "2h"},
    })
}

fn datastore(name: &str) -> Value {
    json!({
        "apiVersion": "dragstrip.dev/v1alpha1", "kind": "Datastore", "metadata": {"name": name},
        "spec": {"engine": "Redis", "version": "7.0", "threads": 1, "maxMemory": "64Mi"},
    })
}

/// The memory and the calls of an operator that has nothing to do.
pub async fn idle(operator: &Operator, report: &mut Report) -> Result<()> {
    operator.await_quiet(operator.started(), MINUTE).await?;
    let rate = operator.rate(10).await?;
    report.judged("idle: memory", operator.memory()?.now, "MiB", 15.0, K6_IDLE);
    report.judged("idle: calls", rate, "per s", 0.0, "");
    Ok(())
}

/// From Datastores to StatefulSets.
pub async fn datastores(
    cluster: &Cluster,
    operator: &Operator,
    count: usize,
    report: &mut Report,
) -> Result<()> {
    let namespace = "datastores";
    cluster.namespace(namespace).await?;
    let (before, begun) = (operator.calls().await?, Instant::now());
    let stateful_sets: Api<StatefulSet> = cluster.api(namespace);
    let made = async || Ok(stateful_sets.list_metadata(&ListParams::default()).await?.items.len() >= count);
    let all =
        async |index| cluster.create::<Datastore>(namespace, datastore(&format!("store-{index}"))).await;
    let (took, created) = tokio::join!(
        until("the StatefulSets of all Datastores", 3 * MINUTE, made),
        each(count, |index| async move { all(index).await.map(|_| ()) })
    );
    created?;
    let (settled, _) = operator.settled_by(begun, 3 * MINUTE).await?;
    let calls = (settled.calls.all - before.all) as f64;
    let name = format!("{count} Datastores to StatefulSets");
    report.judged(&name, took?.as_secs_f64(), "s", 3.0, DRAGONFLY_TIME);
    report.judged(&format!("{name}: calls of each"), calls / count as f64, "calls", 5.0, DRAGONFLY_CALLS);
    report.told(&format!("{name}: quiet after"), settled.seconds, "s");
    cluster.remove_namespace(namespace).await
}

async fn phase_of(runs: &Api<BenchmarkRun>, name: &str) -> Result<RunPhase> {
    Ok(runs.get(name).await?.status.map(|status| status.phase).unwrap_or_default())
}

/// One whole run of three phases, and how it ended.
pub async fn three_phases(
    cluster: &Cluster,
    operator: &Operator,
    report: &mut Report,
) -> Result<BenchmarkRun> {
    let runs: Api<BenchmarkRun> = cluster.api(HISTORY);
    cluster.namespace(HISTORY).await?;
    operator.await_quiet(Instant::now(), MINUTE).await?;
    let (before, begun) = (operator.calls().await?, Instant::now());
    let manifest = run(SPRINT, 0, &["write", "read", "mixed"], "1s");
    cluster.create::<BenchmarkRun>(HISTORY, manifest).await?;
    let ended = async || Ok(phase_of(&runs, SPRINT).await?.finished());
    until("the end of a run of three phases", 2 * MINUTE, ended).await?;
    let (settled, _) = operator.settled_by(begun, 2 * MINUTE).await?;
    let run = runs.get(SPRINT).await?;
    let status = run.status.as_ref().context("a run without a status")?;
    if status.phase != RunPhase::Succeeded {
        bail!("the run of three phases ended {}: {status:?}", status.phase);
    }
    let name = "one run of three phases";
    report.judged(
        &format!("{name}: writes"),
        (settled.calls.writes - before.writes) as f64,
        "calls",
        40.0,
        "",
    );
    report.told(&format!("{name}: all calls"), (settled.calls.all - before.all) as f64, "calls");
    Ok(run)
}

/// Objects of strangers where a Datastore and a run would put theirs. The run that
/// has ended tells how Jobs are called.
pub async fn collisions(cluster: &Cluster, operator: &Operator, report: &mut Report) -> Result<()> {
    let namespace = "collisions";
    cluster.namespace(namespace).await?;
    let jobs = cluster.api::<Job>(HISTORY).list_metadata(&ListParams::default()).await?;
    let mut names = jobs.items.iter().map(ResourceExt::name_any);
    let job = names.find(|name| name.contains("write")).context("no Job is called by its phase")?;
    let job = job.replacen(SPRINT, "taken", 1);
    let labels = json!({"app": "stranger"});
    let template = json!({
        "metadata": {"labels": labels},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "stranger", "image": "stranger"}]}
    });
    let job = json!({"metadata": {"name": job}, "spec": {"suspend": true, "template": template}});
    cluster.create::<Job>(namespace, job).await?;
    let mut always = template;
    always["spec"]["restartPolicy"] = json!("Always");
    let stateful_set = json!({
        "metadata": {"name": "taken"},
        "spec": {"serviceName": "taken", "selector": {"matchLabels": labels}, "template": always}
    });
    cluster.create::<StatefulSet>(namespace, stateful_set).await?;
    let service = json!({"metadata": {"name": "taken"}, "spec": {"clusterIP": "None", "selector": labels}});
    cluster.create::<Service>(namespace, service).await?;
    cluster.create::<Datastore>(namespace, datastore("taken")).await?;
    cluster.create::<BenchmarkRun>(namespace, run("taken", 1, &["write"], "1s")).await?;
    tokio::time::sleep(FIRST_TRIES).await;
    report.judged("names taken by strangers: calls after 10 s", operator.rate(10).await?, "per s", 1.0, "");
    cluster.remove_namespace(namespace).await
}

/// Makes `count` runs and waits until the client pod of each runs.
async fn make_runs(cluster: &Cluster, namespace: &str, count: usize) -> Result<()> {
    let make = |index: usize| async move {
        let manifest = run(&format!("active-{index}"), index, &["write"], "1h");
        cluster.create::<BenchmarkRun>(namespace, manifest).await.map(|_| ())
    };
    each(count, make).await?;
    let pods: Api<Pod> = cluster.api(namespace);
    let running =
        ListParams::default().fields("status.phase=Running").labels("dragstrip.dev/component=client");
    let all = async || Ok(pods.list_metadata(&running).await?.items.len() >= count);
    until("the client pods of all active runs", 5 * MINUTE, all).await.map(|_| ())
}

/// Runs whose runners refuse connections.
pub async fn refusing_runners(
    cluster: &Cluster,
    operator: &Operator,
    count: usize,
    report: &mut Report,
) -> Result<()> {
    cluster.namespace(SILENT).await?;
    let warned = operator.warnings();
    make_runs(cluster, SILENT, count).await?;
    let early = operator.rate(10).await?;
    let rate = operator.rate(20).await?;
    let warnings = (operator.warnings() - warned) as f64;
    let name = format!("{count} runs whose runners refuse connections");
    report.told(&format!("{name}: first 10 s"), early, "per s");
    report.judged(&format!("{name}: then"), rate, "per s", 20.0, "");
    report.judged(&format!("{name}: warnings of each"), warnings / count as f64, "lines", 1.0, "");
    cluster.remove_namespace(SILENT).await
}

/// Makes runs that are under load.
pub async fn make_active(cluster: &Cluster, count: usize) -> Result<()> {
    make_runs(cluster, HISTORY, count).await?;
    let runs: Api<BenchmarkRun> = cluster.api(HISTORY);
    let all = async || {
        let running =
            |run: &BenchmarkRun| run.status.as_ref().is_some_and(|status| status.phase == RunPhase::Running);
        Ok(runs.list(&ListParams::default()).await?.items.iter().filter(|run| running(run)).count() >= count)
    };
    until("all active runs to be under load", 2 * MINUTE, all).await.map(|_| ())
}

/// Makes a run whose Datastore is missing: a status is all that it needs.
pub async fn make_last(cluster: &Cluster) -> Result<()> {
    let mut last = run(LAST, 0, &["write"], "1s");
    last["spec"]["target"] = json!({"datastoreRef": {"name": "nowhere"}});
    cluster.create::<BenchmarkRun>(HISTORY, last).await?;
    // After ten thousand writes the apiserver's own cache is a minute behind and refuses
    // to list what is selected from it; a history is older than that.
    let runs = cluster.api::<BenchmarkRun>(HISTORY);
    let selected = ListParams::default().fields("status.finishedAt=");
    let listed = async || Ok(runs.list_metadata(&selected).await.is_ok());
    until("the apiserver to list the runs", 5 * MINUTE, listed).await.map(|_| ())
}

/// Makes runs that have ended as `like` did.
pub async fn make_finished(cluster: &Cluster, like: &BenchmarkRun, count: usize) -> Result<()> {
    let name = |index: usize| format!("finished-{index}");
    // Written once, and answers are not read: thousands of times it would take minutes.
    let mut run = BenchmarkRun::new(NAME, like.spec.clone());
    run.metadata.labels = like.metadata.labels.clone();
    let run = serde_json::to_string(&run)?;
    let status = json!({"status": like.status}).to_string();
    let (run, status) = (&run, &status);
    let make = |index: usize| async move {
        let path = BenchmarkRun::url_path(&(), Some(HISTORY));
        cluster.send("POST", &path, run.replace(NAME, &name(index))).await?;
        cluster.send("PATCH", &format!("{path}/{}/status", name(index)), status.clone()).await
    };
    each(count, make).await
}

/// The start of an operator where many runs have ended and some are under load.
///
/// It is not quiet before the run that is listed last has a status: until then a
/// silent operator waits for an answer.
pub async fn start_beside_history(
    cluster: &Cluster,
    operator: &Operator,
    arguments: &Arguments,
    report: &mut Report,
) -> Result<()> {
    let seen = async || {
        operator.calls().await?;
        Ok(cluster.api::<BenchmarkRun>(HISTORY).get(LAST).await?.status.is_some())
    };
    until("the status of the run that is listed last", 3 * MINUTE, seen).await?;
    // All are told in one answer that goes on for seconds: silence alone says nothing of them.
    let shown = arguments.finished.min(SHOWN);
    let told = async || Ok(operator.page().await?.matches(ENDED).count() >= shown);
    until("the metrics of the runs that ended last", MINUTE, told).await?;
    let told_after = operator.started().elapsed();
    let (settled, _) = operator.settled_by(operator.started(), 4 * MINUTE).await?;
    let memory = operator.memory()?;
    let name = format!("{} finished and {} active runs", arguments.finished, arguments.active);
    report.judged(&format!("{name}: memory"), memory.now, "MiB", 64.0, K6_THOUSAND);
    report.judged(&format!("{name}: most memory"), memory.most, "MiB", 64.0, "");
    report.judged(&format!("{name}: quiet after"), settled.seconds, "s", 5.0, "");
    report.judged(&format!("{name}: metrics whole after"), told_after.as_secs_f64(), "s", 5.0, "");
    report.judged(&format!("{name}: calls"), settled.calls.all as f64, "calls", 100.0, "");
    // One that was never found waiting does not tell, and misses the goal: NaN is at most nothing.
    let most = Some(operator.most_in_flight()).filter(|most| *most > 0).map_or(f64::NAN, |most| most as f64);
    report.judged(&format!("{name}: in flight at most"), most, "calls", 64.0, "");
    metrics_page(operator, shown, report).await
}

/// Runs that have ended and are told by metrics, unless the operator is told otherwise.
const SHOWN: usize = 200;
/// What a run that has ended is told by.
const ENDED: &str = "dragstrip_run_end_timestamp_seconds{";

/// The page of metrics, which tells of `shown` runs that ended.
async fn metrics_page(operator: &Operator, shown: usize, report: &mut Report) -> Result<()> {
    let (mut fastest, mut bytes) = (f64::INFINITY, 0);
    for _ in 0..20 {
        let begun = Instant::now();
        bytes = operator.page().await?.len();
        fastest = fastest.min(begun.elapsed().as_secs_f64() * 1000.0);
    }
    let name = format!("metrics of {shown} finished runs");
    report.judged(&format!("{name}: fastest of 20 answers"), fastest, "ms", 50.0, "");
    report.judged(&format!("{name}: size"), bytes as f64 / f64::from(1 << 20), "MiB", 2.0, "");
    Ok(())
}
