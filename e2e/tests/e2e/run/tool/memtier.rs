//! memtier_benchmark: for real where an image with it is given.

use crate::common::{of_run, redis, run_says, unpulled};
use anyhow::{Context, Result, ensure};
use dragstrip_crds::{conditions::types::CLIENTS_READY, run::RunPhase, workload::ToolSpec};
use dragstrip_e2e::{
    Env, Look, SHORT_RUN,
    manifests::{NO_IMAGE, against},
    not_run,
    results::{self, agrees, operation, phase, plausible},
    until, with_namespace,
};
use dragstrip_results::protocol::{JOB_VARIABLE, JobSpec};
use k8s_openapi::api::batch::v1::Job;

pub(crate) const IMAGE_VARIABLE: &str = "DRAGSTRIP_TEST_MEMTIER_IMAGE";

fn phases(image: &str) -> String {
    format!(
        "
phases:
- name: write
  memtier: {{image: '{image}', threads: 1, connectionsPerThread: 5, testTime: 2s, ratio: '1:0', keyMaximum: 9999}}
- name: read
  memtier: {{image: '{image}', threads: 1, connectionsPerThread: 5, testTime: 2s, ratio: '0:1', keyMaximum: 9999, pipeline: 4}}
timeout: 2m
"
    )
}

#[tokio::test]
async fn memtier_measures_with_its_own_unchanged_image() -> Result<()> {
    let Ok(image) = std::env::var(IMAGE_VARIABLE) else {
        not_run("memtier against a server", &format!("no memtier image: set {IMAGE_VARIABLE}"));
        return Ok(());
    };
    with_namespace("memtier", |env| async move {
        redis(&env).await?;
        env.run("upstream", &against("redis", &phases(&image))).await?;
        let run = env.run_in("upstream", RunPhase::Succeeded, SHORT_RUN).await?;
        let status = results::status(&run)?;
        for (result, (name, command)) in
            env.results(&run).await?.iter().zip([("write", "SET"), ("read", "GET")])
        {
            let phase = phase(&status, name)?;
            plausible(phase)?;
            operation(phase, command)?;
            agrees(result, phase)?;
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_memtier_phase_runs_its_image_under_our_runner() -> Result<()> {
    with_namespace("memtier-job", |env| async move {
        redis(&env).await?;
        env.run("upstream", &against("redis", &phases(NO_IMAGE))).await?;
        let job = job(&env, "upstream-write-1").await?;
        check_job(&job)?;
        // As far as it gets without the image.
        unpulled(&env, &of_run("upstream")).await?;
        run_says(&env, "upstream", CLIENTS_READY, "HeldUp", &[NO_IMAGE]).await
    })
    .await
}

async fn job(env: &Env, name: &str) -> Result<Job> {
    let jobs = env.api::<Job>();
    until(&format!("Job {name}"), SHORT_RUN, || async {
        let found = jobs.get_opt(name).await?;
        Ok(found.map_or_else(|| Look::NotYet("it does not exist".to_owned()), Look::Done))
    })
    .await
}

fn check_job(job: &Job) -> Result<()> {
    let spec = job.spec.clone().context("no spec")?;
    ensure!(spec.backoff_limit == Some(0), "a failed measurement would be repeated");
    ensure!(spec.completion_mode.as_deref() == Some("Indexed"), "{:?}", spec.completion_mode);
    let pod = spec.template.spec.context("no pod")?;
    let client = pod.containers.first().context("no container")?;
    ensure!(client.image.as_deref() == Some(NO_IMAGE), "image {:?}", client.image);
    let command = client.command.clone().unwrap_or_default();
    ensure!(
        command.first().is_some_and(|program| program.ends_with("/dragstrip-runner")),
        "the runner does not start the tool: {command:?}"
    );
    let installers = pod.init_containers.unwrap_or_default();
    let installer = installers.first().context("the runner is not copied into the pod")?;
    let shared = |container: &k8s_openapi::api::core::v1::Container| -> Vec<String> {
        let mounts = container.volume_mounts.iter().flatten();
        mounts.map(|mount| mount.name.clone()).collect()
    };
    ensure!(
        shared(installer).iter().any(|volume| shared(client).contains(volume)),
        "runner and tool share no volume"
    );
    let mut variables = client.env.iter().flatten();
    let reported =
        variables.find(|variable| variable.name == JOB_VARIABLE).and_then(|variable| variable.value.clone());
    let reported: JobSpec = serde_json::from_str(&reported.context("the runner has no job")?)?;
    let ToolSpec::Memtier(memtier) = reported.tool else {
        anyhow::bail!("the runner's job is {:?}", reported.tool);
    };
    ensure!(
        memtier.threads == 1 && memtier.connections_per_thread == 5 && memtier.ratio == "1:0",
        "{memtier:?}"
    );
    ensure!(
        (reported.phase.as_str(), reported.repetition, reported.clients) == ("write", 1, 1),
        "{} {}",
        reported.phase,
        reported.clients
    );
    Ok(())
}
