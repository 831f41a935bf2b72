//! A server that dies under load.

use crate::common::{complete, failed, redis, says};
use anyhow::{Result, ensure};
use dragstrip_crds::{conditions::find, conditions::types::PASSED};
use dragstrip_e2e::{NOTICE, SHORT_RUN, manifests::against, results, with_namespace};
use kube::ResourceExt;
use std::time::Duration;

const PHASES: &str = "
phases:
- name: before
  loadgen: {ratio: '1:0', keyMaximum: 9999, duration: 1s}
- name: during
  loadgen: {ratio: '0:1', keyMaximum: 9999, duration: 30s}
- name: after
  loadgen: {ratio: '0:1', keyMaximum: 9999, duration: 1s}
timeout: 5m
";

#[tokio::test]
async fn a_server_killed_under_load_fails_the_run_and_shows_no_numbers_of_that_phase() -> Result<()> {
    with_namespace("killed", |env| async move {
        redis(&env).await?;
        env.run("doomed", &against("redis", PHASES)).await?;
        env.load_runs("doomed", "during", SHORT_RUN).await?;
        let pod = crate::common::client_pod(&env, "doomed").await?.name_any();
        env.kill_server("redis").await?;

        // Long before the load would have ended.
        let (run, failure) = failed(&env, "doomed", Duration::from_secs(15)).await?;
        complete(&run, "Failed")?;
        ensure!(failure.phase.as_deref() == Some("during") && failure.repetition == Some(1), "{failure:?}");
        ensure!(failure.pod.as_deref() == Some(pod.as_str()), "pod {pod} failed, not {:?}", failure.pod);
        ensure!(
            !failure.last_lines.is_empty() || failure.exit_code.is_some(),
            "the failure does not mention the tool's end: {failure:?}"
        );
        let status = results::status(&run)?;
        says(&status.message.clone().unwrap_or_default(), &["phase during", &pod, &failure.message])?;
        ensure!(
            status.progress.is_some_and(|progress| progress.measured == 1 && progress.total == 3),
            "{:?}",
            status.progress
        );
        let shown: Vec<&str> = status.phases.iter().map(|phase| phase.name.as_str()).collect();
        ensure!(shown == ["before"], "numbers are shown of {shown:?}");
        let passed = find(&status.conditions, PASSED).map(|c| c.status.as_str());
        ensure!(passed == Some("False"), "Passed is {passed:?}");
        env.event("BenchmarkRun", "doomed", "Failed", "phase during", NOTICE).await?;
        // The server comes back as it was declared.
        env.datastore_ready("redis").await?;
        Ok(())
    })
    .await
}
