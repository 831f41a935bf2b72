//! Several operators that are meant: replicas of which one leads, and two releases, each
//! with namespaces of its own.

use crate::common::redis;
use anyhow::{Context, Result, ensure};
use dragstrip_crds::{BenchmarkRun, Datastore, run::RunPhase};
use dragstrip_e2e::{
    Env, Look, SHORT_RUN, alone,
    helm::{self, CHART, upgraded},
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

/// Makes a namespace beside the test's own, and removes it, however `test` ends.
async fn beside<T>(env: &Env, name: &str, test: impl Future<Output = Result<T>>) -> Result<T> {
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
        let (own, second) = (env.namespace.clone(), format!("{}-second", env.namespace));
        let measured = Box::pin(beside(&env, &second, async {
            let watched = format!("watchNamespaces={{{second}}}");
            let install = [
                "install",
                "second",
                CHART,
                "--wait",
                "--timeout",
                "120s",
                "--set",
                "crds.install=false",
                "--set",
                "rbac.scope=namespace",
                "--set",
                &watched,
            ];
            helm::in_namespace(&second, &install).await?;
            let outcome = races_in_both(&env, &second).await;
            helm::in_namespace(&second, &["uninstall", "second", "--wait"]).await?;
            outcome
        }));
        upgraded(&["rbac.scope=namespace", &format!("watchNamespaces={{{own}}}")], measured).await
    })
    .await
}

/// A run in the test's namespace, which the first release watches, and one in `second`; in
/// a third namespace nobody touches a Datastore.
async fn races_in_both(env: &Env, second: &str) -> Result<()> {
    redis(env).await?;
    env.run("sprint", &against("redis", ONE_PHASE)).await?;
    env.run_in("sprint", RunPhase::Succeeded, SHORT_RUN).await?;
    let manifest = |kind: &str, name: &str, spec: &str| -> Result<String> {
        Ok(serde_json::to_string(&dragstrip_e2e::manifests::object(kind, name, spec)?)?)
    };
    let datastore = manifest("Datastore", "redis", REDIS)?;
    let run = manifest("BenchmarkRun", "sprint", &against("redis", ONE_PHASE))?;
    for object in [&datastore, &run] {
        dragstrip_e2e::kubectl::must(&["apply", "-n", second, "-f", "-"], object).await?;
    }
    let runs: Api<BenchmarkRun> = Api::namespaced(env.client.clone(), second);
    until("the second release's run", SHORT_RUN, || async {
        let run = runs.get("sprint").await?;
        Ok(match phase(&run) {
            RunPhase::Succeeded => Look::Done(()),
            ended if ended.finished() => Look::Never(format!("{:?}", run.status)),
            other => Look::NotYet(format!("{other}")),
        })
    })
    .await?;
    let third = format!("{second}-third");
    beside(env, &third, async {
        dragstrip_e2e::kubectl::must(&["apply", "-n", &third, "-f", "-"], &datastore).await?;
        // Both have passed over a later Datastore of their own: they would have seen this one.
        env.datastore("later", REDIS).await?;
        env.datastore_ready("later").await?;
        let datastores: Api<Datastore> = Api::namespaced(env.client.clone(), &third);
        let untouched = datastores.get("redis").await?;
        ensure!(untouched.status.is_none(), "somebody works in {third}: {:?}", untouched.status);
        let account = untouched.managed_fields().iter().filter_map(|entry| entry.manager.clone());
        let strangers: Vec<String> = account.filter(|manager| manager.starts_with("dragstrip")).collect();
        ensure!(strangers.is_empty(), "{strangers:?} wrote to a Datastore in {third}");
        Ok(())
    })
    .await
    .context("a namespace that nobody watches")
}
