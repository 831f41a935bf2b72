//! The measurements, each with its goal.

use crate::{
    Arguments,
    operator::Operator,
    report::{DRAGONFLY_CALLS, DRAGONFLY_TIME, K6_IDLE, K6_THOUSAND, Report},
};
use anyhow::{Context, Result, bail};
use dragstrip_bench_operator::{
    cluster::{Cluster, Object, each, until},
    runners::{LARGE, SILENT},
};
use dragstrip_crds::{BenchmarkRun, Datastore, run::RunPhase};
use k8s_openapi::api::{apps::v1::StatefulSet, batch::v1::Job, core::v1::Pod, core::v1::Service};
use kube::{Api, Resource, ResourceExt, api::ListParams};
use serde_json::{Value, json};
use std::{
    future::Future,
    time::{Duration, Instant},
};

const MINUTE: Duration = Duration::from_secs(60);
/// After this time, requests that are refused again and again must be rare.
const FIRST_ATTEMPTS: Duration = Duration::from_secs(10);
/// Name of the run of three phases.
const SPRINT: &str = "sprint";
/// Placeholder for a name in requests that are sent many times.
const NAME: &str = "name-of-a-run";
/// A run that the operator lists last when it starts.
const LAST: &str = "zz-last";
/// Clients of a run at most.
const PODS: usize = 256;
/// Namespace of the finished and active runs.
const HISTORY: &str = "history";

/// A run against its own address, which the simulated runners do not load.
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

/// Memory and calls of an idle operator.
pub async fn idle(operator: &Operator, report: &mut Report) -> Result<()> {
    operator.await_quiet(operator.started(), MINUTE).await?;
    let rate = operator.rate(10).await?;
    // 14.3 to 15.2 from one start to the next.
    report.judged("idle: memory", operator.memory()?.now, "MiB", 16.0, K6_IDLE);
    report.judged("idle: calls", rate, "per s", 0.0, "");
    Ok(())
}

/// What the operator wrote for [`datastores`], and how long that took.
pub struct Written {
    seconds: f64,
    services: Vec<Service>,
    stateful_sets: Vec<StatefulSet>,
}

/// How long it takes until `count` StatefulSets exist, while `write` writes what belongs to each.
async fn until_stateful_sets<F: Future<Output = Result<()>>>(
    cluster: &Cluster,
    namespace: &str,
    count: usize,
    write: impl Fn(usize) -> F,
) -> Result<f64> {
    cluster.namespace(namespace).await?;
    let stateful_sets: Api<StatefulSet> = cluster.api(namespace);
    let made = async || Ok(stateful_sets.list_metadata(&ListParams::default()).await?.items.len() >= count);
    let (took, written) =
        tokio::join!(until("the StatefulSets of all Datastores", 3 * MINUTE, made), each(count, write));
    written?;
    Ok(took?.as_secs_f64())
}

/// From the creation of Datastores to their StatefulSets.
pub async fn datastores(
    cluster: &Cluster,
    operator: &Operator,
    count: usize,
    report: &mut Report,
) -> Result<Written> {
    let namespace = "datastores";
    let (before, begun) = (operator.calls().await?, Instant::now());
    let seconds = until_stateful_sets(cluster, namespace, count, |index| async move {
        cluster.create::<Datastore>(namespace, datastore(&format!("store-{index}"))).await.map(|_| ())
    })
    .await?;
    let (settled, _) = operator.settled_by(begun, 3 * MINUTE).await?;
    let calls = (settled.calls.all - before.all) as f64;
    let name = format!("{count} Datastores to StatefulSets");
    report.judged(&format!("{name}: calls of each"), calls / count as f64, "calls", 5.0, DRAGONFLY_CALLS);
    report.add_without_goal(&format!("{name}: quiet after"), settled.seconds, "s");
    let all = ListParams::default();
    let written = Written {
        seconds,
        services: cluster.api(namespace).list(&all).await?.items,
        stateful_sets: cluster.api(namespace).list(&all).await?.items,
    };
    cluster.remove_namespace(namespace).await?;
    Ok(written)
}

/// `object` as a client would create it in another namespace.
fn anew<K: Object>(object: &K) -> Result<String> {
    let meta = object.meta();
    let mut anew = serde_json::to_value(object)?;
    anew["metadata"] = json!({"name": meta.name, "labels": meta.labels, "annotations": meta.annotations});
    if let Some(object) = anew.as_object_mut() {
        object.remove("status");
    }
    if let Some(spec) = anew["spec"].as_object_mut() {
        spec.retain(|field, _| !["clusterIP", "clusterIPs"].contains(&field.as_str()));
    }
    Ok(anew.to_string())
}

/// The same writes until the last StatefulSet exists as in [`datastores`], by a client that decides nothing, while no operator runs.
pub async fn bare_datastores(cluster: &Cluster, written: &Written, report: &mut Report) -> Result<()> {
    let namespace = "bare";
    let count = written.stateful_sets.len();
    let services = written.services.iter().map(anew).collect::<Result<Vec<_>>>()?;
    let stateful_sets = written.stateful_sets.iter().map(anew).collect::<Result<Vec<_>>>()?;
    let (services, stateful_sets, of_each) = (&services, &stateful_sets, services.len() / count);
    let seconds = until_stateful_sets(cluster, namespace, count, |index| async move {
        let store = datastore(&format!("store-{index}")).to_string();
        cluster.send("POST", &Datastore::url_path(&(), Some(namespace)), store).await?;
        for service in &services[index * of_each..(index + 1) * of_each] {
            cluster.send("POST", &Service::url_path(&(), Some(namespace)), service.clone()).await?;
        }
        let path = StatefulSet::url_path(&(), Some(namespace));
        cluster.send("POST", &path, stateful_sets[index].clone()).await
    })
    .await?;
    let name = format!("{count} Datastores to StatefulSets");
    report.judged_by_bare(&name, written.seconds, seconds, DRAGONFLY_TIME);
    cluster.remove_namespace(namespace).await
}

async fn phase_of(runs: &Api<BenchmarkRun>, name: &str) -> Result<RunPhase> {
    Ok(runs.get(name).await?.status.map(|status| status.phase).unwrap_or_default())
}

/// One complete run of three phases, as it ended.
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
    report.add_without_goal(&format!("{name}: all calls"), (settled.calls.all - before.all) as f64, "calls");
    Ok(run)
}

/// Foreign objects with the names that a Datastore and a run need. The finished run shows how Jobs are
/// named.
pub async fn collisions(cluster: &Cluster, operator: &Operator, report: &mut Report) -> Result<()> {
    let namespace = "collisions";
    cluster.namespace(namespace).await?;
    let jobs = cluster.api::<Job>(HISTORY).list_metadata(&ListParams::default()).await?;
    let mut names = jobs.items.iter().map(ResourceExt::name_any);
    let job = names.find(|name| name.contains("write")).context("no Job has the name of its phase")?;
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
    tokio::time::sleep(FIRST_ATTEMPTS).await;
    report.judged("names taken by strangers: calls after 10 s", operator.rate(10).await?, "per s", 1.0, "");
    cluster.remove_namespace(namespace).await
}

/// Creates `count` runs and waits until the client pod of each runs.
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
    report.add_without_goal(&format!("{name}: first 10 s"), early, "per s");
    report.judged(&format!("{name}: then"), rate, "per s", 20.0, "");
    report.judged(&format!("{name}: warnings of each"), warnings / count as f64, "lines", 1.0, "");
    cluster.remove_namespace(SILENT).await
}

/// The largest run: as many clients as a run may have, each with the largest result. Its pods are on a node
/// whose kubelet is this program.
pub async fn large_results(
    cluster: &Cluster,
    operator: &Operator,
    kubelet: u16,
    report: &mut Report,
) -> Result<()> {
    cluster.node("large", "client", json!({"dragstrip.dev/kubelet-port": kubelet.to_string()})).await?;
    cluster.namespace(LARGE).await?;
    let mut manifest = run("large", 2, &["read"], "1s");
    let placement = json!({"nodeSelector": {"kubernetes.io/hostname": "large"}});
    manifest["spec"]["clients"] = json!({"pods": PODS, "placement": placement});
    cluster.create::<BenchmarkRun>(LARGE, manifest).await?;
    let runs: Api<BenchmarkRun> = cluster.api(LARGE);
    let ended = async || Ok(phase_of(&runs, "large").await?.finished());
    let seconds = until("the end of the largest run", 10 * MINUTE, ended).await?.as_secs_f64();
    let status = runs.get("large").await?.status.context("a run without a status")?;
    if status.phase != RunPhase::Succeeded {
        bail!("the largest run ended {}: {status:?}", status.phase);
    }
    let name = format!("the largest results of {PODS} clients");
    report.judged(&format!("{name}: most memory"), operator.memory()?.most, "MiB", 100.0, "");
    report.add_without_goal(&format!("{name}: the run took"), seconds, "s");
    cluster.remove_namespace(LARGE).await
}

/// Creates runs that are under load.
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

/// Creates a run whose Datastore is missing: it only gets a status.
pub async fn make_last(cluster: &Cluster) -> Result<()> {
    let mut last = run(LAST, 0, &["write"], "1s");
    last["spec"]["target"] = json!({"datastoreRef": {"name": "nowhere"}});
    cluster.create::<BenchmarkRun>(HISTORY, last).await?;
    // After ten thousand writes the API server's cache is a minute behind and refuses lists with a
    // selector; a real history is older than that.
    let runs = cluster.api::<BenchmarkRun>(HISTORY);
    let selected = ListParams::default().fields("status.finishedAt=");
    let listed = async || Ok(runs.list_metadata(&selected).await.is_ok());
    until("the API server to list the runs", 5 * MINUTE, listed).await.map(|_| ())
}

/// Creates finished runs like `like`.
pub async fn make_finished(cluster: &Cluster, like: &BenchmarkRun, count: usize) -> Result<()> {
    let name = |index: usize| format!("finished-{index}");
    // Encoded once, and responses are not decoded: for thousands of runs it would take minutes.
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

/// The start of an operator with many finished runs and some under load. Before the run that is listed
/// last has a status, an operator without calls still waits for a response.
pub async fn start_beside_history(
    cluster: &Cluster,
    operator: &Operator,
    arguments: &Arguments,
    report: &mut Report,
) -> Result<()> {
    let last = async || {
        operator.calls().await?;
        Ok(cluster.api::<BenchmarkRun>(HISTORY).get(LAST).await?.status.is_some())
    };
    until("the status of the run that is listed last", 3 * MINUTE, last).await?;
    // One response lists all of them and takes seconds: an operator without calls may still read it.
    let shown = arguments.finished.min(SHOWN);
    let listed = async || Ok(operator.page().await?.matches(ENDED).count() >= shown);
    until("the metrics of the newest finished runs", MINUTE, listed).await?;
    let shown_after = operator.started().elapsed();
    let (settled, _) = operator.settled_by(operator.started(), 4 * MINUTE).await?;
    let memory = operator.memory()?;
    let name = format!("{} finished and {} active runs", arguments.finished, arguments.active);
    report.judged(&format!("{name}: memory"), memory.now, "MiB", 64.0, K6_THOUSAND);
    report.judged(&format!("{name}: most memory"), memory.most, "MiB", 64.0, "");
    let mut lists = Vec::new();
    for _ in 0..3 {
        lists.push(cluster.bare_list().await?.as_secs_f64());
    }
    lists.sort_by(f64::total_cmp);
    report.judged_by_bare(&format!("{name}: quiet after"), settled.seconds, lists[1], "");
    report.judged_by_bare(
        &format!("{name}: metrics complete after"),
        shown_after.as_secs_f64(),
        lists[1],
        "",
    );
    report.judged(&format!("{name}: calls"), settled.calls.all as f64, "calls", 100.0, "");
    // An operator that never had a request in flight misses the goal: NaN is not at most anything.
    let most = Some(operator.most_in_flight()).filter(|most| *most > 0).map_or(f64::NAN, |most| most as f64);
    report.judged(&format!("{name}: in flight at most"), most, "calls", 64.0, "");
    metrics_page(operator, shown, report).await
}

/// Finished runs in the metrics by default.
const SHOWN: usize = 200;
/// The metric that every finished run has.
const ENDED: &str = "dragstrip_run_end_timestamp_seconds{";

/// The page of metrics with `shown` finished runs.
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
