//! One server is one turn, however it is addressed.

use crate::common::{held, ip, lease_of_datastore, of_run, queued_behind, redis};
use anyhow::{Context, Result, ensure};
use dragstrip_crds::{BenchmarkRun, run::RunPhase};
use dragstrip_e2e::{
    Env, Look, SERVER_UP, SHORT_RUN,
    manifests::{LONG_PHASE, ONE_PHASE, against, against_address},
    nodes, operator,
    results::never_together,
    until, with_namespace,
};
use k8s_openapi::api::core::v1::Pod;

#[tokio::test]
async fn a_datastore_addressed_as_external_uses_its_own_lease_in_any_spelling() -> Result<()> {
    with_namespace("spelt", |env| async move {
        redis(&env).await?;
        let (namespace, upper) = (&env.namespace, env.namespace.to_uppercase());
        let spellings = [
            ("short", format!("redis.{namespace}:6379")),
            ("upper", format!("REDIS.{upper}.SVC:6379")),
            ("dotted", format!("redis.{namespace}.svc.cluster.local.:6379")),
            ("pod", env.server_address("redis").await?),
        ];
        env.run("holder", &against("redis", LONG_PHASE)).await?;
        env.load_runs("holder", "endless", SHORT_RUN).await?;
        for (name, address) in &spellings {
            env.run(name, &against_address(address, ONE_PHASE)).await?;
            let lease = queued_behind(&env, name, "holder").await.with_context(|| address.clone())?;
            ensure!(lease == lease_of_datastore(&env, "redis"), "{address} takes the turn of {lease}");
        }
        env.delete::<BenchmarkRun>("holder").await?;
        let server = nodes::of(&env.server_pod("redis").await?)?;
        let mut results = Vec::new();
        for (name, address) in &spellings {
            let run =
                env.run_in(name, RunPhase::Succeeded, SHORT_RUN).await.with_context(|| address.clone())?;
            results.extend(env.results(&run).await?);
            for pod in env.labelled::<Pod>(&of_run(name)).await? {
                ensure!(nodes::of(&pod)? != server, "a client of {address} ran beside the server");
            }
        }
        never_together(&results)
    })
    .await
}

/// A server that Dragstrip knows nothing of.
async fn outsider(env: &Env) -> Result<String> {
    let pod: Pod = env
        .create(serde_json::json!({
            "metadata": {"name": "outsider"},
            "spec": {"terminationGracePeriodSeconds": 1, "containers": [{
                "name": "server", "image": "dragstrip.dev/testbed/redis:7.0", "imagePullPolicy": "IfNotPresent",
                "command": ["redis-server", "--protected-mode", "no", "--save", ""],
                "readinessProbe": {"tcpSocket": {"port": 6379}, "periodSeconds": 1},
            }]}
        }))
        .await?;
    let name = pod.metadata.name.context("a pod without name")?;
    let pods = env.api::<Pod>();
    until("a ready pod outsider", SERVER_UP, || async {
        let pod = pods.get(&name).await?;
        let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
        let ready = conditions.clone().any(|c| c.type_ == "Ready" && c.status == "True");
        Ok(if ready {
            Look::Done(format!("{}:6379", ip(&pod)?))
        } else {
            Look::NotYet("not ready".to_owned())
        })
    })
    .await
}

#[tokio::test]
async fn a_server_that_is_not_a_datastore_has_its_own_turn() -> Result<()> {
    with_namespace("outsider", |env| async move {
        let address = outsider(&env).await?;
        env.run("holder", &against_address(&address, LONG_PHASE)).await?;
        env.load_runs("holder", "endless", SHORT_RUN).await?;
        let prefix = format!("{}/dragstrip-external.", operator::NAMESPACE);
        let held = held(&env, "holder").await?;
        let lease = held.iter().find(|lease| lease.starts_with(&prefix));
        let lease = lease.with_context(|| format!("no Lease of an external target in {held:?}"))?;
        // From every run, whichever it is.
        env.run("next", &against_address(&address, ONE_PHASE)).await?;
        let waits_for = queued_behind(&env, "next", "holder").await?;
        ensure!(waits_for == *lease, "it waits for {waits_for}");
        env.delete::<BenchmarkRun>("holder").await?;
        env.run_in("next", RunPhase::Succeeded, SHORT_RUN).await?;
        env.delete::<Pod>("outsider").await
    })
    .await
}
