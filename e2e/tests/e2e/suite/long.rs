//! Suites that take too long for every change.

use crate::{
    install::cli::{cache, dragstrip},
    suite::life::{ended, measured_through_restarts, passed, status, suite, suite_is},
};
use anyhow::{Context, Result, ensure};
use dragstrip_crds::BenchmarkSuite;
use dragstrip_e2e::{Env, SHORT_RUN, alone, with_namespace};
use kube::ResourceExt;
use std::{fs, time::Duration};

#[tokio::test]
async fn four_engines_with_two_thread_counts_and_pipelines_are_compared_in_48_runs() -> Result<()> {
    alone("suite-48", |env| async move {
        let engines = [
            ("Redis", "6.2", "redis:6.2"),
            ("Redis", "7.0", "redis:7.0"),
            ("Redis", "8.0", "redis:8.0"),
            ("Valkey", "8.1", "valkey:8.1"),
        ];
        measured_through_restarts(&env, &engines, &[1, 2], 3).await?;
        keep_report(&env, "engines").await
    })
    .await
}

/// Leaves the stored report of `suite` in the cache, to be looked at.
async fn keep_report(env: &Env, suite: &str) -> Result<()> {
    let directory = cache().join("reports");
    fs::create_dir_all(&directory)?;
    for (format, extension) in [("markdown", "md"), ("html", "html"), ("csv", "csv")] {
        let file = directory.join(format!("{suite}.{extension}"));
        let file = file.to_str().context("the cache's path is not text")?;
        let said = dragstrip(env, &["report", "suite", suite, "--format", format, "--output-file", file], "")
            .await?;
        ensure!(said.code == 0, "{}", said.all());
        println!("{file}");
    }
    Ok(())
}

#[tokio::test]
async fn a_schedule_makes_rounds_that_are_compared_with_the_one_before() -> Result<()> {
    with_namespace("suite-rounds", |env| async move {
        let spec = "
schedule: '* * * * *'
passedHistoryLimit: 2
variants:
- {name: redis, target: {datastore: {engine: Redis, version: '7.0', image: dragstrip.dev/testbed/redis:7.0, threads: 1, maxMemory: 256Mi}}}
run:
  phases: [{name: write, loadgen: {ratio: '1:0', keyMaximum: 9999, duration: 1s}}]
  timeout: 5m
repetitions: 1
baseline: {previous: true}
thresholds: [{metric: OperationsPerSecond, minimum: '0.01', relativeTo: Baseline}]
";
        suite(&env, "often", spec).await?;
        let first = suite_is(&env, "often", "a round", Duration::from_secs(90), |status| status.last_round.is_some());
        let first = status(&first.await?).last_round.unwrap_or_default();
        ensure!(ended(&env, &first, SHORT_RUN).await?.spec.baseline.is_none(), "the first has nothing before it");
        let second = suite_is(&env, "often", "another round", Duration::from_secs(150), |status| {
            status.last_round.as_ref().is_some_and(|round| *round != first)
        });
        let second = status(&second.await?).last_round.unwrap_or_default();
        let second = ended(&env, &second, SHORT_RUN).await?;
        let baseline = second.spec.baseline.clone().and_then(|baseline| baseline.suite);
        ensure!(baseline.as_deref() == Some(&*first), "compared with {baseline:?}");
        ensure!(passed(&second)?.0 == "True", "{:?}", passed(&second)?);
        suite_is(&env, "often", "the last round's Passed", SHORT_RUN, |status| {
            status.conditions.iter().any(|condition| condition.type_ == "Passed" && condition.status == "True")
        })
        .await?;
        let round = env.api::<BenchmarkSuite>().get(&second.name_any()).await?;
        ensure!(round.owner_references().iter().any(|owner| owner.name == "often"), "{round:?}");
        Ok(())
    })
    .await
}
