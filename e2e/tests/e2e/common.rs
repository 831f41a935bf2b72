//! What several tests do and assert.

use anyhow::{Context, Result, ensure};
use dragstrip_crds::{
    BenchmarkRun, BenchmarkRunStatus, Datastore,
    conditions::find,
    conditions::types::COMPLETE,
    run::{FailureStatus, RunPhase, Verdict},
};
use dragstrip_e2e::{
    Env, LOAD_GONE, Look, NOTICE, SERVER_UP, SHORT_RUN, manifests::REDIS, message, nodes, operator, phase,
    processes, results, until,
};
use k8s_openapi::api::{apps::v1::StatefulSet, batch::v1::Job, coordination::v1::Lease, core::v1::Pod};
use kube::{
    Api, ResourceExt,
    api::{ListParams, WatchEvent, WatchParams},
};
use std::time::Duration;

/// Makes a Redis called redis and waits until it is ready.
pub async fn redis(env: &Env) -> Result<Datastore> {
    env.datastore("redis", REDIS).await?;
    env.datastore_ready("redis").await
}

/// Waits until a run has failed; why it did.
pub async fn failed(env: &Env, name: &str, within: Duration) -> Result<(BenchmarkRun, FailureStatus)> {
    let run = env.run_in(name, RunPhase::Failed, within).await?;
    let failure = results::status(&run)?.failure;
    let failure = failure.with_context(|| format!("run {name} failed without saying why"))?;
    Ok((run, failure))
}

/// Asserts that a condition of a run becomes False with `reason` and says all
/// of `texts`, and that an event says the first, soon enough to be of use.
pub async fn run_says(env: &Env, name: &str, kind: &str, reason: &str, texts: &[&str]) -> Result<()> {
    let what = format!("{kind}=False, {reason}, that says {texts:?}");
    env.run_is(name, &what, NOTICE, |run| {
        let conditions = run.status.clone().unwrap_or_default().conditions;
        find(&conditions, kind).is_some_and(|c| {
            c.status == "False" && c.reason == reason && texts.iter().all(|text| c.message.contains(text))
        })
    })
    .await?;
    env.event("BenchmarkRun", name, "HeldUp", texts[0], NOTICE).await
}

/// Waits until the message of a run's status says all of `texts`, whether it goes
/// on, waits or has ended.
pub async fn run_reports(env: &Env, name: &str, texts: &[&str], within: Duration) -> Result<BenchmarkRun> {
    let api = env.api::<BenchmarkRun>();
    until(&format!("BenchmarkRun {name} reports {texts:?}"), within, || async {
        let run = api.get(name).await?;
        let said = message(&run);
        Ok(if texts.iter().all(|text| said.contains(text)) {
            Look::Done(run)
        } else {
            Look::NotYet(format!("{} {said:?}", phase(&run)))
        })
    })
    .await
}

/// Waits until a run is queued behind another one; the Lease that it waits for.
pub async fn queued_behind(env: &Env, name: &str, holder: &str) -> Result<String> {
    let queue = |run: &BenchmarkRun| run.status.as_ref().and_then(|status| status.queue.clone());
    let run = env
        .run_is(name, &format!("Queued behind {holder}"), SHORT_RUN, |run| {
            phase(run) == RunPhase::Queued
                && queue(run).is_some_and(|queue| {
                    queue.holder.name == holder && queue.holder.namespace == env.namespace
                })
        })
        .await?;
    Ok(queue(&run).context("no queue")?.lease)
}

/// Waits until a client pod of the run is on a node; which one.
pub async fn placed(env: &Env, run: &str, within: Duration) -> Result<String> {
    until(&format!("a client pod of run {run} on a node"), within, || async {
        let pods: Vec<Pod> = env.labelled(&of_run(run)).await?;
        Ok(match pods.iter().find_map(|pod| nodes::of(pod).ok()) {
            Some(node) => Look::Done(node),
            None => Look::NotYet(format!("{} pods, none of them on a node", pods.len())),
        })
    })
    .await
}

/// What changes when a server is rolled or restarted: uid and restarts of its
/// pod, and the StatefulSet's revision.
pub async fn life(env: &Env, datastore: &str) -> Result<(String, Vec<i32>, String)> {
    let pod = env.server_pod(datastore).await?;
    let status = pod.status.clone().unwrap_or_default();
    let containers = status
        .init_container_statuses
        .into_iter()
        .flatten()
        .chain(status.container_statuses.into_iter().flatten());
    let set = env.api::<StatefulSet>().get(datastore).await?;
    let revision = set.status.and_then(|status| status.update_revision).unwrap_or_default();
    Ok((
        pod.uid().unwrap_or_default(),
        containers.map(|container| container.restart_count).collect(),
        revision,
    ))
}

/// The same of a Datastore, whose events carry the condition's reason.
pub async fn datastore_says(env: &Env, name: &str, kind: &str, reason: &str, texts: &[&str]) -> Result<()> {
    let what = format!("{kind}=False, {reason}, that says {texts:?}");
    env.datastore_is(name, &what, NOTICE, |datastore| {
        let conditions = datastore.status.clone().unwrap_or_default().conditions;
        find(&conditions, kind).is_some_and(|c| {
            c.status == "False" && c.reason == reason && texts.iter().all(|text| c.message.contains(text))
        })
    })
    .await?;
    env.event("Datastore", name, reason, texts[0], NOTICE).await
}

/// Waits until Kubernetes itself says that a pod's image cannot be pulled. How
/// long that takes is the registry's business, not the operator's.
pub async fn unpulled(env: &Env, label: &str) -> Result<()> {
    until(&format!("a pod {label} whose image cannot be pulled"), SHORT_RUN, || async {
        let pods: Vec<Pod> = env.labelled(label).await?;
        let waits: Vec<String> = pods
            .iter()
            .flat_map(|pod| pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten()))
            .filter_map(|container| container.state.as_ref()?.waiting.as_ref()?.reason.clone())
            .collect();
        let unpulled = |reason: &String| ["ErrImagePull", "ImagePullBackOff"].contains(&reason.as_str());
        Ok(if waits.iter().any(unpulled) {
            Look::Done(())
        } else {
            Look::NotYet(format!("containers wait for {waits:?}"))
        })
    })
    .await
}

/// Asserts that `text` holds all of `parts`.
pub fn says(text: &str, parts: &[&str]) -> Result<()> {
    for part in parts {
        ensure!(text.contains(part), "{text:?} does not say {part:?}");
    }
    Ok(())
}

/// The reason of the event for a run's good end: on nodes that are one machine
/// its verdict is Degraded.
pub fn end_event(run: &BenchmarkRun) -> Result<&'static str> {
    let verdict = results::status(run)?.verdict.context("a run that has ended has no verdict")?;
    Ok(if verdict == Verdict::Degraded { "Degraded" } else { "Succeeded" })
}

/// Asserts that a condition Complete says how the run ended.
pub fn complete(run: &BenchmarkRun, reason: &str) -> Result<()> {
    let conditions = results::status(run)?.conditions;
    let complete = find(&conditions, COMPLETE).context("no condition Complete")?;
    ensure!(complete.status == "True" && complete.reason == reason, "{complete:?}");
    Ok(())
}

/// The label of what a run made.
pub fn of_run(name: &str) -> String {
    format!("dragstrip.dev/run={name}")
}

/// The only client pod of a run that has not ended.
pub async fn client_pod(env: &Env, run: &str) -> Result<Pod> {
    let pods: Vec<Pod> = env.labelled(&of_run(run)).await?;
    let ended = |pod: &Pod| {
        let phase = pod.status.as_ref().and_then(|status| status.phase.clone());
        matches!(phase.as_deref(), Some("Succeeded" | "Failed"))
    };
    let mut alive: Vec<Pod> = pods.into_iter().filter(|pod| !ended(pod)).collect();
    ensure!(alive.len() == 1, "{} client pods of run {run} are alive", alive.len());
    alive.pop().context("no client pod")
}

/// The address of a pod.
pub fn ip(pod: &Pod) -> Result<String> {
    let ip = pod.status.as_ref().and_then(|status| status.pod_ip.clone());
    ip.with_context(|| format!("pod {} has no address", pod.name_any()))
}

/// Waits until the load of `pod` is gone: no connection at the server, no process.
pub async fn load_gone(env: &Env, datastore: &str, pod: &Pod) -> Result<()> {
    let (ip, uid) = (ip(pod)?, pod.uid().unwrap_or_default());
    let mut server = env.server(datastore).await?;
    until(&format!("no connection from {ip}"), LOAD_GONE, async || {
        Ok(match server.connections_from(&ip).await? {
            0 => Look::Done(()),
            some => Look::NotYet(format!("{some} connections")),
        })
    })
    .await?;
    processes::await_none(&uid).await
}

/// The Leases that a run holds, as namespace/name, in order.
pub async fn held(env: &Env, run: &str) -> Result<Vec<String>> {
    let holder = format!("{}/{run}/", env.namespace);
    let mut held = Vec::new();
    for namespace in [env.namespace.as_str(), operator::NAMESPACE] {
        let leases: Api<Lease> = Api::namespaced(env.client.clone(), namespace);
        for lease in leases.list(&ListParams::default()).await?.items {
            let of = lease.spec.clone().and_then(|spec| spec.holder_identity);
            if of.is_some_and(|of| of.starts_with(&holder)) {
                held.push(format!("{namespace}/{}", lease.name_any()));
            }
        }
    }
    held.sort();
    Ok(held)
}

/// The Lease of a node.
pub fn lease_of_node(node: &str) -> String {
    format!("{}/dragstrip-node.{node}", operator::NAMESPACE)
}

/// The Lease of a Datastore.
pub fn lease_of_datastore(env: &Env, name: &str) -> String {
    format!("{}/dragstrip-{name}", env.namespace)
}

/// Waits until no Lease names the run.
pub async fn leases_gone(env: &Env, run: &str) -> Result<()> {
    until(&format!("no Lease of run {run}"), LOAD_GONE, || async {
        let held = held(env, run).await?;
        Ok(if held.is_empty() { Look::Done(()) } else { Look::NotYet(held.join(", ")) })
    })
    .await
}

/// A point in the history of a namespace's Jobs.
pub async fn jobs_now(env: &Env) -> Result<String> {
    let list = env.api::<Job>().list(&ListParams::default()).await?;
    list.metadata.resource_version.context("no resource version")
}

/// Names of all Jobs made since, one for each time one was made, in order.
pub async fn jobs_made_since(env: &Env, then: &str) -> Result<Vec<String>> {
    use futures::TryStreamExt;
    let jobs = env.api::<Job>();
    // The apiserver replays history at once, then ends the watch.
    let events = jobs.watch(&WatchParams::default().timeout(1), then).await?;
    let made = events.try_filter_map(async |event| {
        Ok(match event {
            WatchEvent::Added(job) => Some(job.name_any()),
            WatchEvent::Error(status) => return Err(kube::Error::Api(status)),
            _ => None,
        })
    });
    Ok(made.try_collect().await?)
}

/// Asserts that the server redis did nothing that is not in the results of its
/// only run: whatever was measured was measured once.
pub async fn confirmed(env: &Env, status: &BenchmarkRunStatus) -> Result<()> {
    let calls = env.server("redis").await?.calls().await?;
    // When time is over, each of 20 connections has one batch in flight.
    let repetitions = status.phases.iter().map(|phase| phase.repetitions.len() as u64);
    let in_flight = 20 * repetitions.sum::<u64>();
    for command in ["SET", "GET"] {
        let tool = env.sent(status, command).await?;
        let server = calls.get(&command.to_lowercase()).copied().unwrap_or_default();
        ensure!(
            (tool..=tool + in_flight).contains(&server),
            "the server counted {server} {command}, the results {tool}: something was measured twice"
        );
    }
    Ok(())
}

/// Waits until a cluster has all its shards and is ready.
pub async fn whole(env: &Env, name: &str, shards: usize) -> Result<Datastore> {
    env.datastore_is(name, "every shard with its slots", SERVER_UP * 2, |datastore| {
        let members = datastore.status.as_ref().map(|status| status.members.clone()).unwrap_or_default();
        members.len() == shards && members.iter().all(|member| !member.slots.is_empty())
    })
    .await?;
    env.datastore_ready(name).await
}
