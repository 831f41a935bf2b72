//! The end of a test: what it declared is deleted, and what that made must follow.

use crate::{Env, Look, operator, phase, until, wait::PAUSE};
use anyhow::Result;
use dragstrip_core::pods;
use dragstrip_crds::{BenchmarkRun, BenchmarkSuite, Datastore};
use k8s_openapi::{
    NamespaceResourceScope,
    api::{
        apps::v1::StatefulSet,
        batch::v1::Job,
        coordination::v1::Lease,
        core::v1::{ConfigMap, Namespace, Pod, Service},
    },
};
use kube::{
    Api, Resource, ResourceExt,
    api::{DeleteParams, ListParams},
};
use serde::de::DeserializeOwned;
use std::{
    fmt::Debug,
    time::{Duration, Instant},
};

const OURS: &str = "app.kubernetes.io/managed-by=dragstrip-operator";
/// The label of every client pod.
const CLIENTS: &str = "dragstrip.dev/run";
/// How long what runs and Datastores made may take to go.
const GONE_WITHIN: Duration = Duration::from_secs(60);
/// How long a test that goes on may wait until its turn is the next test's.
const IDLE_WITHIN: Duration = Duration::from_secs(3);

/// Deletes all suites and runs, passes the turn to send load on when they are gone, deletes
/// all Datastores, waits until nothing of theirs is left, and deletes the
/// namespace. Kubernetes takes five seconds for that, whatever is in it; nothing
/// is gained by waiting for an empty one.
pub(crate) async fn remove(env: &Env) -> Result<()> {
    let stopped = until(&format!("no load of namespace {} left", env.namespace), GONE_WITHIN, || async {
        let all = (DeleteParams::background(), ListParams::default());
        // First: they make runs.
        env.api::<BenchmarkSuite>().delete_collection(&all.0, &all.1).await?;
        env.api::<BenchmarkRun>().delete_collection(&all.0, &all.1).await?;
        Ok(nothing(&load(env).await?))
    })
    .await;
    env.turn.pass_on().await;
    let emptied =
        until(&format!("nothing of Dragstrip left in namespace {}", env.namespace), GONE_WITHIN, || async {
            let all = (DeleteParams::background(), ListParams::default());
            env.api::<Datastore>().delete_collection(&all.0, &all.1).await?;
            Ok(nothing(&left(env).await?))
        })
        .await;
    let namespaces: Api<Namespace> = Api::all(env.client.clone());
    namespaces.delete(&env.namespace, &DeleteParams::default()).await?;
    stopped.and(emptied)
}

fn nothing(left: &[String]) -> Look<()> {
    if left.is_empty() { Look::Done(()) } else { Look::NotYet(left.join(", ")) }
}

/// What keeps the load of other tests from the nodes.
async fn load(env: &Env) -> Result<Vec<String>> {
    let mut left = names::<BenchmarkRun>(env, "").await?;
    left.extend(clients(env).await?);
    Ok(left)
}

/// Whether all runs of the namespace have ended, and what sent their load is soon gone. Not with [`until`],
/// whose future cannot be spawned.
pub(crate) async fn idle(env: &Env) -> Result<bool> {
    let begun = Instant::now();
    while begun.elapsed() < IDLE_WITHIN {
        let runs = env.labelled::<BenchmarkRun>("").await?;
        let ended = runs.iter().all(|run| phase(run).finished());
        if !ended || !names::<BenchmarkSuite>(env, "").await?.is_empty() {
            return Ok(false);
        }
        if clients(env).await?.is_empty() {
            return Ok(true);
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(false)
}

async fn clients(env: &Env) -> Result<Vec<String>> {
    let mut left = held(env).await?;
    let pods: Vec<Pod> = env.labelled(CLIENTS).await?;
    left.extend(pods.iter().filter(|pod| !pods::ended(pod)).map(|pod| format!("Pod {}", pod.name_any())));
    Ok(left)
}

async fn left(env: &Env) -> Result<Vec<String>> {
    let mut left = names::<BenchmarkRun>(env, "").await?;
    left.extend(names::<Datastore>(env, "").await?);
    left.extend(names::<StatefulSet>(env, OURS).await?);
    left.extend(names::<Service>(env, OURS).await?);
    left.extend(names::<Job>(env, OURS).await?);
    left.extend(names::<Pod>(env, "").await?);
    left.extend(names::<ConfigMap>(env, OURS).await?);
    left.extend(names::<Lease>(env, OURS).await?);
    left.extend(held(env).await?);
    Ok(left)
}

/// Leases that runs of the namespace hold.
pub(crate) async fn held(env: &Env) -> Result<Vec<String>> {
    let ours = format!("{}/", env.namespace);
    let mut held = Vec::new();
    for namespace in [&env.namespace, operator::NAMESPACE] {
        let leases: Api<Lease> = Api::namespaced(env.client.clone(), namespace);
        for lease in leases.list(&ListParams::default()).await?.items {
            let holder = lease.spec.as_ref().and_then(|spec| spec.holder_identity.clone());
            if holder.is_some_and(|holder| holder.starts_with(&ours)) {
                held.push(format!("Lease {namespace}/{}", lease.name_any()));
            }
        }
    }
    Ok(held)
}

async fn names<K>(env: &Env, label: &str) -> Result<Vec<String>>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    let found = env.labelled::<K>(label).await?;
    Ok(found.iter().map(|object| format!("{} {}", K::kind(&()), object.name_any())).collect())
}
