//! What is printed about a namespace when its test failed.

use crate::{Env, events, operator};
use dragstrip_crds::{BenchmarkRun, Datastore};
use k8s_openapi::{
    api::{
        batch::v1::Job,
        coordination::v1::Lease,
        core::v1::{Event, Pod},
    },
    apimachinery::pkg::apis::meta::v1::Condition,
};
use kube::{Api, Resource, ResourceExt, api::ListParams};
use serde::de::DeserializeOwned;
use std::{fmt::Debug, io::Write};

fn conditions(of: &[Condition]) -> String {
    of.iter()
        .map(|c| format!("{}={} {}: {}", c.type_, c.status, c.reason, c.message))
        .collect::<Vec<_>>()
        .join("; ")
}

/// A Datastore as a line.
pub(crate) fn datastore_line(datastore: &Datastore) -> String {
    let status = datastore.status.clone().unwrap_or_default();
    format!("{} [{}]", datastore.name_any(), conditions(&status.conditions))
}

/// A run as a line.
pub(crate) fn run_line(run: &BenchmarkRun) -> String {
    let status = run.status.clone().unwrap_or_default();
    format!(
        "{} {} {:?} {:?} failure={:?} queue={:?} [{}]",
        run.name_any(),
        status.phase,
        status.progress,
        status.message,
        status.failure,
        status.queue,
        conditions(&status.conditions),
    )
}

fn pod_line(pod: &Pod) -> String {
    let status = pod.status.clone().unwrap_or_default();
    let states: Vec<String> = status
        .init_container_statuses
        .iter()
        .flatten()
        .chain(status.container_statuses.iter().flatten())
        .map(|c| {
            let state = serde_json::to_string(&c.state).unwrap_or_default();
            format!("{} ready={} restarts={} {state}", c.name, c.ready, c.restart_count)
        })
        .collect();
    format!(
        "{} on {} {} {} {:?}",
        pod.name_any(),
        pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or("no node"),
        status.phase.unwrap_or_default(),
        status.pod_ip.unwrap_or_default(),
        states,
    )
}

fn job_line(job: &Job) -> String {
    let status = serde_json::to_string(&job.status).unwrap_or_default();
    format!("{} {:?} {status}", job.name_any(), job.annotations())
}

fn lease_line(lease: &Lease) -> String {
    let holder = lease.spec.as_ref().and_then(|spec| spec.holder_identity.clone());
    format!("{} held by {holder:?}", lease.name_any())
}

async fn section<K>(env: &Env, line: impl Fn(&K) -> String)
where
    K: Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>
        + Clone
        + Debug
        + DeserializeOwned,
{
    eprintln!("--- {}", K::plural(&()));
    match env.api::<K>().list(&ListParams::default()).await {
        Ok(list) => list.items.iter().for_each(|item| eprintln!("  {}", line(item))),
        Err(error) => eprintln!("  cannot be listed: {error}"),
    }
}

/// Nodes are taken in the operator's namespace, by runs of all.
async fn node_leases(env: &Env) {
    eprintln!("--- leases in {}", operator::NAMESPACE);
    let leases: Api<Lease> = Api::namespaced(env.client.clone(), operator::NAMESPACE);
    match leases.list(&ListParams::default()).await {
        Ok(list) => list.items.iter().for_each(|lease| eprintln!("  {}", lease_line(lease))),
        Err(error) => eprintln!("  cannot be listed: {error}"),
    }
}

/// Prints what a namespace holds and what the operator logged last.
pub(crate) async fn print(env: &Env) {
    eprintln!("===== namespace {} as the test left it =====", env.namespace);
    section::<Datastore>(env, datastore_line).await;
    section::<BenchmarkRun>(env, run_line).await;
    section::<Job>(env, job_line).await;
    section::<Pod>(env, pod_line).await;
    section::<Lease>(env, lease_line).await;
    node_leases(env).await;
    section::<Event>(env, events::line).await;
    eprintln!("--- operator");
    match operator::log_tail(&env.client, 40).await {
        Ok(log) => log.lines().for_each(|line| eprintln!("  {line:.400}")),
        Err(error) => eprintln!("  no log: {error:#}"),
    }
    eprintln!("=====");
}

/// Adds the failure of the test whose namespace has this `name` to the file that E2E_FAILURES names:
/// what [`print`] prints about several tests hides the one line that matters.
pub(crate) fn list_failure(name: &str, failure: &str) {
    let Some(path) = std::env::var_os("E2E_FAILURES") else { return };
    let file = std::fs::OpenOptions::new().create(true).append(true).open(&path);
    if let Err(error) = file.and_then(|mut file| writeln!(file, "{name}: {failure}")) {
        eprintln!("{name}: {failure}; not listed in {}: {error}", path.display());
    }
}
