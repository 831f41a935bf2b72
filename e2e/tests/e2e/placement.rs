//! Where clients and servers run.

use crate::common::of_run;
use anyhow::{Result, ensure};
use dragstrip_crds::{conditions::types::CLIENTS_READY, run::RunPhase};
use dragstrip_e2e::{
    Env, SHORT_RUN,
    manifests::{ONE_PHASE, against},
    with_namespace,
};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{Api, ResourceExt};

const ROLE: &str = "dragstrip.dev/role";

/// Asserts that the run's client pods and the server redis are where they belong.
pub async fn apart(env: &Env, run: &str) -> Result<()> {
    let pods: Vec<Pod> = env.labelled(&of_run(run)).await?;
    ensure!(!pods.is_empty(), "no client pods");
    for pod in &pods {
        let role = env.role(&nodes::of(pod)?).await?;
        ensure!(role == "client", "{} ran on a node for {role}s", pod.name_any());
    }
    let role = env.role(&nodes::of(&env.server_pod("redis").await?)?).await?;
    ensure!(role == "server", "the server runs on a node for {role}s");
    Ok(())
}

#[tokio::test]
async fn a_client_is_never_put_beside_the_server_it_measures() -> Result<()> {
    with_namespace("separation", |env| async move {
        redis(&env).await?;
        let beside = format!("timeout: 8s\nclients: {{placement: {{nodeSelector: {{{ROLE}: server}}}}}}");
        env.run("beside", &against("redis", &ONE_PHASE.replace("timeout: 2m", &beside))).await?;
        env.run_in("beside", RunPhase::Preparing, SHORT_RUN).await?;
        let texts = ["Unschedulable", "anti-affinity"];
        run_says(&env, "beside", CLIENTS_READY, "HeldUp", &texts).await?;
        let pods: Vec<Pod> = env.labelled(&of_run("beside")).await?;
        ensure!(
            pods.iter().all(|pod| pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_none())),
            "scheduled"
        );
        let (_, failure) = failed(&env, "beside", SHORT_RUN).await?;
        ensure!(failure.step == "Timeout", "{failure:?}");
        says(&failure.message, &["spec.timeout (8s)", "anti-affinity"])
    })
    .await
}
