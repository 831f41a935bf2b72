//! Whether figures are good enough, and what a run is known by at a glance.

use crate::common::{complete, redis};
use anyhow::{Context, Result, ensure};
use dragstrip_crds::{
    conditions::{find, types::PASSED},
    run::{RunPhase, Verdict},
};
use dragstrip_e2e::{
    SHORT_RUN,
    manifests::against,
    results::{self, operation, phase},
    with_namespace,
};

const PHASES: &str = "
phases:
- name: write
  flush: true
  loadgen: {requestsPerConnection: 4000, ratio: '1:0', keyPattern: Sequential, keyMaximum: 19999}
- name: read
  loadgen: {duration: 2s, ratio: '0:1', keyMaximum: 19999}
timeout: 5m
";
const MET: &str = "
headline: write
thresholds:
- {metric: OperationsPerSecond, minimum: '100'}
- {metric: P99Milliseconds, phase: read, operation: GET, maximum: '10000'}
- {metric: HitRatio, phase: read, minimum: '1'}
- {metric: BytesPerKey, phase: write, minimum: '32', maximum: '1000'}
";
const MISSED: &str = "
thresholds:
- {metric: OperationsPerSecond, phase: read, minimum: '100'}
- {metric: P99Milliseconds, phase: read, operation: GET, maximum: '0.000001'}
";

#[tokio::test]
async fn thresholds_decide_whether_a_good_run_passed_and_the_headline_comes_from_the_named_phase()
-> Result<()> {
    with_namespace("thresholds", |env| async move {
        redis(&env).await?;
        env.run("good", &against("redis", &format!("{PHASES}{MET}"))).await?;
        env.run("slow", &against("redis", &format!("{PHASES}{MISSED}"))).await?;
        let good = env.run_in("good", RunPhase::Succeeded, SHORT_RUN).await?;
        let status = results::status(&good)?;
        let rows = &status.thresholds;
        ensure!(rows.len() == 5 && rows.iter().all(|row| row.met && row.value.is_some()), "{rows:?}");
        let rate = operation(phase(&status, "write")?, "TOTAL")?.operations_per_second.mean;
        let columns = env.columns("BenchmarkRun", "good").await?;
        let shown: f64 = columns.get("Ops/s").context("no column")?.parse()?;
        ensure!((shown - rate).abs() <= 0.5, "the column shows {shown}, write had {rate}");
        let slow = env.run_in("slow", RunPhase::Succeeded, SHORT_RUN).await?;
        complete(&slow, "Succeeded")?;
        let status = results::status(&slow)?;
        let passed = find(&status.conditions, PASSED).context("no condition Passed")?;
        ensure!(
            passed.status == "False"
                && passed.reason == "ThresholdMissed"
                && passed.message.starts_with("read GET P99Milliseconds ")
                && passed.message.ends_with(" is above maximum 0.000001"),
            "{passed:?}"
        );
        ensure!(status.verdict != Some(Verdict::Invalid), "the number may be believed: {status:?}");
        let met: Vec<bool> = status.thresholds.iter().map(|row| row.met).collect();
        ensure!(met == [true, false], "{:?}", status.thresholds);
        let (one, other) = (results::status(&good)?.comparability, status.comparability);
        let (one, other) = (one.context("no record")?, other.context("no record")?);
        ensure!(one.key == other.key, "the same was measured twice: {one:?}, {other:?}");
        let known = |name: &str| one.facts.iter().any(|fact| fact.name == name && !fact.value.is_empty());
        for name in ["server.version", "server.images", "client.images", "machine.server.kernel"] {
            ensure!(known(name), "{name} is not in {one:?}");
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_threshold_on_an_unknown_name_is_refused_with_the_known_ones() -> Result<()> {
    with_namespace("no-such", |env| async move {
        let phases = |threshold: &str| against("redis", &format!("{PHASES}thresholds: [{threshold}]\n"));
        let reported =
            env.refusal("BenchmarkRun", "no", &phases("{metric: Errors, phase: raed, maximum: '0'}")).await?;
        ensure!(reported.contains("names no phase of this run"), "{reported}");
        let reported = env
            .refusal("BenchmarkRun", "no", &phases("{metric: Errors, relativeTo: Baseline, maximum: '1'}"))
            .await?;
        ensure!(reported.contains("BenchmarkSuite with a baseline"), "{reported}");
        env.run("misspelt", &phases("{metric: Errors, operation: GTE, maximum: '0'}")).await?;
        let run = env.run_in("misspelt", RunPhase::Failed, SHORT_RUN).await?;
        let reported = dragstrip_e2e::message(&run);
        ensure!(reported.contains("did you mean GET?"), "{reported}");
        Ok(())
    })
    .await
}
