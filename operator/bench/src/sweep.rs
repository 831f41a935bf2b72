//! Measures the end of a large suite: after a restart, the operator reads all its runs again and writes
//! its report.

use crate::{Arguments, operator::Operator, report::Report};
use anyhow::{Context, Result, bail, ensure};
use dragstrip_bench_operator::cluster::{Cluster, each, until};
use dragstrip_core::{
    labels,
    suite::expand::{expand, plan},
};
use dragstrip_crds::{BenchmarkRun, BenchmarkSuite, suite::SuitePhase};
use kube::Resource;
use serde_json::{Value, json};
use std::time::Duration;

const NAMESPACE: &str = "sweeps";
const NAME: &str = "sweep";
/// Measurements of each combination.
const REPETITIONS: usize = 10;
/// Longest wait for the end.
const WITHIN: Duration = Duration::from_secs(300);

/// A suite of `count` runs as `like`.
fn suite(like: &BenchmarkRun, count: usize) -> Result<Value> {
    let address =
        |index: usize| json!({"value": format!("192.0.2.{}:{}", index % 250 + 1, 6379 + index / 250)});
    let values: Vec<_> = (0..count / REPETITIONS).map(address).collect();
    let mut run = serde_json::to_value(&like.spec)?;
    let target =
        run.as_object_mut().and_then(|run| run.remove("target")).context("a run without a target")?;
    Ok(json!({
        "apiVersion": "dragstrip.dev/v1alpha1", "kind": "BenchmarkSuite", "metadata": {"name": NAME},
        "spec": {
            "variants": [{"name": "alone", "target": target}], "run": run, "repetitions": REPETITIONS, "maxRuns": count,
            "axes": [{"name": "address", "paths": ["/target/external/address"], "values": values}],
        },
    }))
}

/// Creates a suite whose runs have all ended like `like`, while no operator runs.
pub async fn make(cluster: &Cluster, like: &BenchmarkRun, count: usize) -> Result<()> {
    cluster.namespace(NAMESPACE).await?;
    let suite: BenchmarkSuite = cluster.create(NAMESPACE, suite(like, count)?).await?;
    let owner = suite.controller_owner_ref(&()).context("a suite without a uid")?;
    let own = json!({(labels::SUITE): NAME, (labels::SUITE_UID): owner.uid});
    let status = json!({"status": like.status}).to_string();
    let runs = expand(&suite)?.runs;
    ensure!(runs.len() == count, "the suite has {} runs, not {count}", runs.len());
    let plan = plan(&suite, &|_| Ok(()))?;
    let (runs, plan, own, owner, status) = (&runs, &plan, &own, &owner, &status);
    each(count, |index| async move {
        let run = &runs[index];
        let given = json!({(labels::GIVEN_SPEC): plan.cells[plan.order[index].0].given_spec});
        let manifest = json!({
            "apiVersion": "dragstrip.dev/v1alpha1", "kind": "BenchmarkRun", "spec": run.spec,
            "metadata": {"name": run.name, "labels": own, "annotations": given, "ownerReferences": [owner]},
        });
        let path = BenchmarkRun::url_path(&(), Some(NAMESPACE));
        cluster.send("POST", &path, manifest.to_string()).await?;
        cluster.send("PATCH", &format!("{path}/{}/status", run.name), status.clone()).await
    })
    .await
}

/// From the operator's start to the suite's report.
pub async fn end(
    cluster: &Cluster,
    operator: &Operator,
    arguments: &Arguments,
    report: &mut Report,
) -> Result<()> {
    let suites = cluster.api::<BenchmarkSuite>(NAMESPACE);
    let ended = async || Ok(suites.get(NAME).await?.status.is_some_and(|it| it.finished_at.is_some()));
    until("the end of the suite", WITHIN, ended).await?;
    let took = operator.started().elapsed();
    let (settled, _) = operator.settled_by(operator.started(), WITHIN).await?;
    let status = suites.get(NAME).await?.status.context("a suite without a status")?;
    if status.phase != SuitePhase::Succeeded {
        bail!("the suite ended {}: {:?}", status.phase, status.message);
    }
    let name = format!("the end of a suite of {} runs", arguments.suite_runs);
    let bytes = serde_json::to_vec(&status)?.len();
    report.judged(&format!("{name}: most memory"), operator.memory()?.most, "MiB", 128.0, "");
    report.judged(&format!("{name}: after"), took.as_secs_f64(), "s", 30.0, "");
    report.judged(&format!("{name}: calls"), settled.calls.all as f64, "calls", 100.0, "");
    report.judged(&format!("{name}: status"), bytes as f64 / 1024.0, "KiB", 200.0, "");
    Ok(())
}
