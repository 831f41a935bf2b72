//! What a namespace's editor writes on stored results stops nobody else's runs.

use crate::common::{complete, failed, redis};
use anyhow::{Result, ensure};
use dragstrip_crds::run::RunPhase;
use dragstrip_e2e::{
    Env, Look, SHORT_RUN, alone,
    manifests::{ONE_PHASE, against},
    operator, until,
};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use serde_json::json;

const PHASES: &str = "
phases:
- name: write
  loadgen: {ratio: '1:0', keyMaximum: 9999, duration: 2s}
- name: read
  loadgen: {ratio: '0:1', keyMaximum: 9999, duration: 10s}
timeout: 3m
";

/// The operator's pod, and how often its containers were restarted.
async fn life(env: &Env) -> Result<(Option<String>, Vec<i32>)> {
    let pod = operator::await_ready(&env.client, None).await?;
    let containers = pod.status.clone().and_then(|status| status.container_statuses).unwrap_or_default();
    Ok((pod.uid(), containers.iter().map(|container| container.restart_count).collect()))
}

/// A stranger's ConfigMap that looks like a result of the run.
async fn forge(env: &Env, uid: &str) -> Result<ConfigMap> {
    let labels = json!({"dragstrip.dev/run": "edited", "dragstrip.dev/run-uid": uid});
    let annotations = json!({
        "dragstrip.dev/result-format": "1", "dragstrip.dev/outcome": "Good",
        "dragstrip.dev/result-parts": "18446744073709551615",
    });
    let metadata = json!({"name": "edited-read-1-forged", "labels": labels, "annotations": annotations});
    env.create(json!({"metadata": metadata})).await
}

#[tokio::test]
async fn an_edited_result_fails_its_own_run_and_no_other_after_a_restart_either() -> Result<()> {
    alone("edited-result", |env| async move {
        redis(&env).await?;
        env.run("edited", &against("redis", PHASES)).await?;
        let stored = env.api::<ConfigMap>();
        until("the first phase's result", SHORT_RUN, || async {
            let found = stored.get_opt("edited-write-1").await?;
            Ok(found.map_or_else(|| Look::NotYet("it is not stored".to_owned()), |_| Look::Done(())))
        })
        .await?;
        let run = env.api::<dragstrip_crds::BenchmarkRun>().get("edited").await?;
        forge(&env, &run.uid().unwrap_or_default()).await?;
        let parts = json!({"dragstrip.dev/result-parts": "18446744073709551615"});
        let edit = json!({"metadata": {"annotations": parts}});
        env.change::<ConfigMap>("edited-write-1", edit).await?;
        operator::restart(&env.client).await?;
        let before = life(&env).await?;

        let (_, failure) = failed(&env, "edited", SHORT_RUN).await?;
        ensure!(failure.message.contains("result-parts"), "{failure:?}");
        ensure!(!failure.message.contains("forged"), "a stranger's object was read: {failure:?}");
        env.beside("edited-beside", async |beside| {
            redis(&beside).await?;
            beside.run("other", &against("redis", ONE_PHASE)).await?;
            complete(&beside.run_in("other", RunPhase::Succeeded, SHORT_RUN).await?, "Succeeded")
        })
        .await?;
        ensure!(life(&env).await? == before, "the operator ended: {before:?}");
        Ok(())
    })
    .await
}
