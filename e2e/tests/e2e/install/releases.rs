//! Several operators on purpose: replicas with one leader, and two releases, each in a namespace of its own.

use crate::common::redis;
use anyhow::{Context, Result, ensure};
use dragstrip_crds::{BenchmarkRun, Datastore, run::RunPhase};
use dragstrip_e2e::{
    Env, Look, SHORT_RUN, alone,
    helm::{self, CHART, upgraded},
    kubectl::must,
    manifests::{ONE_PHASE, REDIS, against},
    operator::NAMESPACE,
    phase, until,
};
use k8s_openapi::api::{
    coordination::v1::Lease,
    core::v1::{Namespace, Pod},
};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ObjectMeta, PostParams},
};
use std::time::Duration;

const LEASE: &str = "dragstrip-operator.leader";

/// Waits until a replica other than `not` leads; its pod.
async fn leader(env: &Env, not: &str) -> Result<String> {
    let leases: Api<Lease> = Api::namespaced(env.client.clone(), NAMESPACE);
    until("a leader", Duration::from_secs(60), || async {
        let lease = leases.get_opt(LEASE).await?;
        let holder = lease.and_then(|lease| lease.spec?.holder_identity).unwrap_or_default();
        let other = !holder.is_empty() && holder != not;
        Ok(if other { Look::Done(holder) } else { Look::NotYet(format!("held by {holder:?}")) })
    })
    .await
}

#[tokio::test]
async fn one_of_two_replicas_leads_and_the_other_takes_over_when_it_is_killed() -> Result<()> {
    alone("replicas", |env| async move {
        let measured = Box::pin(async {
            let first = leader(&env, "").await?;
            redis(&env).await?;
            env.run("sprint", &against("redis", ONE_PHASE)).await?;
            env.run_in("sprint", RunPhase::Succeeded, SHORT_RUN).await?;
            let pods: Api<Pod> = Api::namespaced(env.client.clone(), NAMESPACE);
            pods.delete(&first, &DeleteParams::default().grace_period(0)).await?;
            let second = leader(&env, &first).await?;
            let restarts = |pod: &Pod| -> i32 {
                pod.status
                    .iter()
                    .flat_map(|s| s.container_statuses.iter().flatten())
                    .map(|c| c.restart_count)
                    .sum()
            };
            ensure!(restarts(&pods.get(&second).await?) == 0, "the replica that stood by was restarted");
            env.run("again", &against("redis", ONE_PHASE)).await?;
            env.run_in("again", RunPhase::Succeeded, SHORT_RUN).await?;
            Ok(())
        });
        upgraded(&["replicas=2"], measured).await
    })
    .await
}

/// Creates a namespace in addition to the test's own, and deletes it however `test` ends.
async fn with_second<T>(env: &Env, name: &str, test: impl Future<Output = Result<T>>) -> Result<T> {
    let namespaces: Api<Namespace> = Api::all(env.client.clone());
    let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
    namespaces.create(&PostParams::default(), &Namespace { metadata, ..Namespace::default() }).await?;
    let outcome = test.await;
    namespaces.delete(name, &DeleteParams::default()).await?;
    outcome
}

#[tokio::test]
async fn two_releases_work_in_their_own_namespaces_and_in_no_other() -> Result<()> {
    alone("releases", |env| async move {
        let second = format!("{}-second", env.namespace);
        let measured = Box::pin(with_second(&env, &second, async {
            let install = [
                "install",
                "second",
                &CHART,
                "--wait",
                "--timeout",
                "120s",
                "--set",
                "crds.install=false,ownNamespaceOnly=true",
            ];
            helm::in_namespace(&second, &install).await?;
            let outcome = runs_in_both(&env, &second).await;
            helm::in_namespace(&second, &["uninstall", "second", "--wait"]).await?;
            outcome
        }));
        upgraded(&["ownNamespaceOnly=true"], measured).await
    })
    .await
}

/// A run in the namespace of each release. No release touches a Datastore in the test's namespace.
async fn runs_in_both(env: &Env, second: &str) -> Result<()> {
    let manifest = |kind: &str, name: &str, spec: &str| -> Result<String> {
        Ok(serde_json::to_string(&dragstrip_e2e::manifests::object(kind, name, spec)?)?)
    };
    env.datastore("redis", REDIS).await?;
    let datastore = manifest("Datastore", "redis-releases", REDIS)?;
    let run = manifest("BenchmarkRun", "sprint-releases", &against("redis-releases", ONE_PHASE))?;
    // One after the other: each release knows only its own Leases of nodes.
    for namespace in [NAMESPACE, second] {
        let outcome = run_in(env, namespace, &[&datastore, &run]).await;
        for object in [&run, &datastore] {
            must(&["delete", "--wait", "-n", namespace, "-f", "-"], object).await?;
        }
        outcome.with_context(|| format!("the release in {namespace}"))?;
    }
    // Both have handled later Datastores of their own, so both have had time to see this one.
    let datastores: Api<Datastore> = Api::namespaced(env.client.clone(), &env.namespace);
    let untouched = datastores.get("redis").await?;
    ensure!(untouched.status.is_none(), "a release works in {}: {:?}", env.namespace, untouched.status);
    let managers = untouched.managed_fields().iter().filter_map(|entry| entry.manager.clone());
    let ours: Vec<String> = managers.filter(|manager| manager.starts_with("dragstrip/")).collect();
    ensure!(ours.is_empty(), "{ours:?} wrote to a Datastore in {}", env.namespace);
    Ok(())
}

/// Applies `objects` in `namespace` and waits for the run.
async fn run_in(env: &Env, namespace: &str, objects: &[&String]) -> Result<()> {
    for object in objects {
        must(&["apply", "-n", namespace, "-f", "-"], object).await?;
    }
    let runs: Api<BenchmarkRun> = Api::namespaced(env.client.clone(), namespace);
    until("the run", SHORT_RUN, || async {
        let run = runs.get("sprint-releases").await?;
        Ok(match phase(&run) {
            RunPhase::Succeeded => Look::Done(()),
            ended if ended.finished() => Look::Never(format!("{:?}", run.status)),
            other => Look::NotYet(format!("{other}")),
        })
    })
    .await
}
