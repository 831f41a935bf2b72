//! Suites: each combination is measured once, in turn, and reported at the end.

use crate::common::says;
use anyhow::{Context, Result, ensure};
use dragstrip_crds::{
    BenchmarkRun, BenchmarkSuite, BenchmarkSuiteStatus,
    conditions::find,
    conditions::types::{COMPLETE, PASSED},
    run::RunPhase,
    suite::SuitePhase,
    thresholds::ClaimState,
};
use dragstrip_e2e::{
    Env, Look, NOTICE, SHORT_RUN, alone,
    manifests::{engine, object},
    operator, until, with_namespace,
};
use k8s_openapi::api::core::v1::{ConfigMap, ResourceQuota};
use kube::ResourceExt;
use serde_json::json;
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// A suite of these engines (engine, version, image) with pipelines 1 and 10 and `threads`, whose
/// runs load for a second.
pub fn spec(engines: &[(&str, &str, &str)], threads: &[u32], repetitions: u32, more: &str) -> String {
    let variants: Vec<_> = engines
        .iter()
        .map(|(name, version, image)| {
            let server = engine(name, version, image, 1).trim().replace('\n', "\n      ");
            format!("- name: {}-{version}\n  target:\n    datastore:\n      {server}\n", name.to_lowercase())
        })
        .collect();
    let variants = variants.concat();
    let threads: Vec<String> = threads.iter().map(|threads| format!("{{value: {threads}}}")).collect();
    format!(
        "
variants:
{variants}
axes:
- {{name: threads, paths: [/target/datastore/threads], values: [{}]}}
- {{name: pipeline, paths: [/phases/0/loadgen/pipeline], values: [{{value: 1}}, {{value: 10}}]}}
run:
  phases: [{{name: write, loadgen: {{ratio: '1:0', keyMaximum: 9999, duration: 1s}}}}]
  timeout: 5m
repetitions: {repetitions}
{more}
",
        threads.join(", ")
    )
}

const REDIS_7: (&str, &str, &str) = ("Redis", "7.0", "redis:7.0");
const VALKEY_8: (&str, &str, &str) = ("Valkey", "8.1", "valkey:8.1");

/// Makes a suite when it is this test's turn.
pub async fn suite(env: &Env, name: &str, spec: &str) -> Result<()> {
    env.turn().await;
    env.create::<BenchmarkSuite>(object("BenchmarkSuite", name, spec)?).await?;
    Ok(())
}

pub fn status(suite: &BenchmarkSuite) -> BenchmarkSuiteStatus {
    suite.status.clone().unwrap_or_default()
}

/// Waits until a suite is as `wanted` says.
pub async fn suite_is(
    env: &Env,
    name: &str,
    what: &str,
    within: Duration,
    wanted: impl Fn(&BenchmarkSuiteStatus) -> bool,
) -> Result<BenchmarkSuite> {
    let api = env.api::<BenchmarkSuite>();
    until(&format!("BenchmarkSuite {name}: {what}"), within, || async {
        let suite = api.get(name).await?;
        let status = status(&suite);
        Ok(if wanted(&status) {
            Look::Done(suite)
        } else {
            Look::NotYet(format!("{} {:?}", status.phase, status.message))
        })
    })
    .await
}

pub async fn ended(env: &Env, name: &str, within: Duration) -> Result<BenchmarkSuite> {
    suite_is(env, name, "ended", within, |status| status.phase.finished()).await
}

/// Reason and message of its condition Passed.
pub fn passed(suite: &BenchmarkSuite) -> Result<(String, String, String)> {
    let conditions = status(suite).conditions;
    let passed = find(&conditions, PASSED).context("no condition Passed")?.clone();
    Ok((passed.status, passed.reason, passed.message))
}

async fn runs(env: &Env, suite: &str) -> Result<Vec<BenchmarkRun>> {
    env.labelled(&format!("dragstrip.dev/suite={suite}")).await
}

/// Waits until so many runs of a suite have ended.
pub async fn done(env: &Env, name: &str, number: i32, within: Duration) -> Result<()> {
    suite_is(env, name, &format!("{number} runs done"), within, |status| {
        status.progress.is_some_and(|progress| progress.done >= number)
    })
    .await?;
    Ok(())
}

/// Asserts that `suite` measured each of its `total` runs once, one repetition after the
/// other, and stored a report of them.
pub async fn measured_once(env: &Env, suite: &BenchmarkSuite, total: usize) -> Result<()> {
    let name = suite.name_any();
    let mut runs = runs(env, &name).await?;
    ensure!(runs.len() == total, "{} runs instead of {total}", runs.len());
    runs.sort_by_key(|run| run.status.clone().unwrap_or_default().started_at.map(|time| time.0));
    let repetitions: Vec<&str> = runs
        .iter()
        .filter_map(|run| run.labels().get("dragstrip.dev/repetition"))
        .map(String::as_str)
        .collect();
    ensure!(repetitions.is_sorted(), "not interleaved: {repetitions:?}");
    let mut cells: BTreeMap<&str, usize> = BTreeMap::new();
    for run in &runs {
        ensure!(run.status.as_ref().is_some_and(|status| status.phase == RunPhase::Succeeded), "{run:?}");
        *cells.entry(&run.labels()["dragstrip.dev/cell"]).or_default() += 1;
    }
    ensure!(cells.values().all(|count| count * cells.len() == total), "{cells:?}");
    let status = status(suite);
    ensure!(status.progress.is_some_and(|progress| progress.done == progress.total), "{status:?}");
    let reported: BTreeSet<&str> = status.rows.iter().map(|row| row.cell.as_str()).collect();
    ensure!(reported.len() == cells.len().min(32), "{:?}", status.rows);
    let report = status.report.context("no report")?;
    ensure!(report.config_map == format!("{name}-report") && report.parts >= 1, "{report:?}");
    let markdown = env.api::<ConfigMap>().get(&format!("{name}-report.md")).await?;
    let markdown = markdown.data.and_then(|mut data| data.remove("report.md")).context("no Markdown")?;
    ensure!(
        status.rows.iter().all(|row| markdown.contains(row.cell.split(' ').next().unwrap_or("?"))),
        "{markdown}"
    );
    env.api::<ConfigMap>().get(&format!("{name}-report.html")).await?;
    Ok(())
}

/// A suite of these engines, measured whole with the operator killed in between.
pub async fn measured_through_restarts(
    env: &Env,
    engines: &[(&str, &str, &str)],
    threads: &[u32],
    repetitions: u32,
) -> Result<BenchmarkSuite> {
    let total = engines.len() * threads.len() * 2 * usize::try_from(repetitions)?;
    suite(env, "engines", &spec(engines, threads, repetitions, "baseline: {variant: redis-7.0}")).await?;
    let patience = SHORT_RUN * u32::try_from(total)?;
    done(env, "engines", 1, patience).await?;
    operator::restart(&env.client).await?;
    done(env, "engines", i32::try_from(total / 2)?, patience).await?;
    operator::restart(&env.client).await?;
    let suite = ended(env, "engines", patience).await?;
    ensure!(status(&suite).phase == SuitePhase::Succeeded, "{:?}", status(&suite).message);
    let conditions = status(&suite).conditions;
    ensure!(find(&conditions, COMPLETE).is_some_and(|complete| complete.status == "True"), "{conditions:?}");
    measured_once(env, &suite, total).await?;
    Ok(suite)
}

#[tokio::test]
async fn a_suite_measures_each_run_once_through_restarts_of_the_operator_and_reports_the_table() -> Result<()>
{
    alone("suite", |env| async move {
        let suite = measured_through_restarts(&env, &[REDIS_7, VALKEY_8], &[1], 2).await?;
        let rows = status(&suite).rows;
        let compared = rows.iter().filter(|row| row.comparison.is_some());
        ensure!(compared.count() >= 2, "valkey is not compared with redis: {rows:?}");
        env.event("BenchmarkSuite", "engines", "Succeeded", "8 runs ended", NOTICE).await?;
        env.delete::<BenchmarkSuite>("engines").await?;
        env.none_labelled::<BenchmarkRun>("dragstrip.dev/suite=engines", SHORT_RUN).await?;
        env.none_labelled::<ConfigMap>("dragstrip.dev/suite=engines", SHORT_RUN).await
    })
    .await
}

#[tokio::test]
async fn a_claim_about_two_figures_of_a_suite_holds_or_not_by_their_interval() -> Result<()> {
    with_namespace("suite-claim", |env| async move {
        let claim = |minimum: &str| {
            format!("{{metric: OperationsPerSecond, values: {{pipeline: '10'}}, times: {{values: {{pipeline: '1'}}}}, minimum: '{minimum}'}}")
        };
        let thresholds = format!("thresholds: [{}, {}]", claim("1.1"), claim("100"));
        suite(&env, "pipelining", &spec(&[REDIS_7], &[1], 3, &thresholds)).await?;
        let suite = ended(&env, "pipelining", SHORT_RUN * 6).await?;
        let found = status(&suite).thresholds;
        let states: Vec<_> = found.iter().map(|row| (row.state, row.met)).collect();
        let expected = [(Some(ClaimState::DoesNotHold), false), (Some(ClaimState::Holds), true)];
        ensure!(states == expected, "failures come first: {found:#?}");
        says(&found[1].message, &["claim holds", "times that of redis-7.0 threads=1 pipeline=1 (minimum 1.1)"])?;
        let (passed, reason, message) = passed(&suite)?;
        ensure!((passed.as_str(), reason.as_str()) == ("False", "ThresholdMissed"), "{message}");
        says(&message, &["1 threshold not met", "claim does not hold"])?;
        let text = env.api::<ConfigMap>().get("pipelining-report.md").await?.data.unwrap_or_default();
        says(&text["report.md"], &["claim holds", "claim does not hold"])?;
        for run in runs(&env, "pipelining").await? {
            let phase = run.status.as_ref().and_then(|status| status.phases.first()).context("no phase")?;
            let (cpus, work) = (phase.server_cpus, phase.operations_per_core_second);
            ensure!(cpus.zip(work).is_some_and(|(cpus, work)| cpus > 0.0 && work > 0.0), "{cpus:?} {work:?}");
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_suite_is_suspended_resumed_and_cancelled() -> Result<()> {
    with_namespace("suite-suspend", |env| async move {
        suite(&env, "stopped", &spec(&[REDIS_7], &[1], 3, "suspend: true")).await?;
        suite_is(&env, "stopped", "Suspended", NOTICE, |status| status.phase == SuitePhase::Suspended)
            .await?;
        ensure!(runs(&env, "stopped").await?.is_empty(), "a suspended suite makes no run");
        env.change::<BenchmarkSuite>("stopped", json!({"spec": {"suspend": false}})).await?;
        done(&env, "stopped", 1, SHORT_RUN * 2).await?;
        env.change::<BenchmarkSuite>("stopped", json!({"spec": {"cancel": true}})).await?;
        let suite = ended(&env, "stopped", SHORT_RUN).await?;
        ensure!(status(&suite).phase == SuitePhase::Cancelled, "{:?}", status(&suite).message);
        let runs = runs(&env, "stopped").await?;
        ensure!(runs.len() < 6, "all runs were made");
        let ended = |run: &BenchmarkRun| run.status.as_ref().is_some_and(|status| status.phase.finished());
        ensure!(runs.iter().all(ended), "a run goes on after its suite was cancelled");
        ensure!(status(&suite).report.is_some(), "what was measured is lost");
        let refused = env.change::<BenchmarkSuite>("stopped", json!({"spec": {"repetitions": 9}})).await;
        says(&format!("{:#}", refused.err().context("the spec was changed")?), &["the suite has started"])
    })
    .await
}

#[tokio::test]
async fn the_first_run_that_fails_stops_a_suite_that_says_so() -> Result<()> {
    with_namespace("suite-stop", |env| async move {
        let fails = "
variants:
- {name: nowhere, target: {external: {address: 'no-such-host.example.invalid:6379'}}}
run:
  phases: [{name: write, loadgen: {duration: 1s}}]
  timeout: 1m
repetitions: 3
onFailure: Stop
";
        suite(&env, "stops", fails).await?;
        let suite = ended(&env, "stops", SHORT_RUN * 2).await?;
        let status = status(&suite);
        ensure!(status.phase == SuitePhase::Failed, "{:?}", status.message);
        ensure!(runs(&env, "stops").await?.len() == 1, "a run was made after one had failed");
        says(&status.message.unwrap_or_default(), &["stopped after 1 of 3 runs"])?;
        ensure!(passed(&suite)?.1 == "RunsFailed", "{:?}", passed(&suite)?);
        env.event("BenchmarkSuite", "stops", "RunFailed", "stops-", NOTICE).await
    })
    .await
}

#[tokio::test]
async fn a_suite_that_cannot_be_measured_is_refused_before_its_first_run() -> Result<()> {
    with_namespace("suite-bad", |env| async move {
        let good = spec(&[REDIS_7], &[1], 1, "");
        let many = spec(&[REDIS_7], &[1], 99, "maxRuns: 100");
        for (name, spec, reported) in [
            ("misspelt", good.replace("/pipeline]", "/pipelin]"), "did you mean /phases/0/loadgen/pipeline?"),
            ("many", many, "198 runs"),
            // The operator has no such rule: only the apiserver refuses.
            ("long", good.replace("timeout: 5m", "timeout: 500ms"), "shorter than the declared load"),
            ("secret", good.replace("values: [{value: 1}]", "values: [{value: 1, patches: [{path: /target/datastore/authSecretRef, value: {name: theirs, key: password}}]}]"), "Secret theirs"),
        ] {
            suite(&env, name, &spec).await?;
            let suite = ended(&env, name, NOTICE * 2).await?;
            let status = status(&suite);
            ensure!(status.phase == SuitePhase::Failed, "{name}: {status:?}");
            says(&status.message.unwrap_or_default(), &[reported])?;
            ensure!(runs(&env, name).await?.is_empty(), "{name} made runs");
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_suite_reports_a_quota_on_runs_and_waits_for_room() -> Result<()> {
    with_namespace("suite-quota", |env| async move {
        let hard = |runs: &str| json!({"hard": {"count/benchmarkruns.dragstrip.dev": runs}});
        let quota = json!({"metadata": {"name": "few"}, "spec": hard("1")});
        env.create::<ResourceQuota>(quota).await?;
        until("a quota that is enforced", SHORT_RUN, || async {
            let status = env.api::<ResourceQuota>().get("few").await?.status;
            let used = status.and_then(|status| status.used);
            Ok(if used.is_some() { Look::Done(()) } else { Look::NotYet("not counted".to_owned()) })
        })
        .await?;
        suite(&env, "many", &spec(&[REDIS_7], &[1], 1, "")).await?;
        let reported = suite_is(&env, "many", "a message about the quota", SHORT_RUN * 2, |status| {
            status.message.as_ref().is_some_and(|message| message.contains("exceeded quota"))
        });
        let reported = status(&reported.await?);
        ensure!(reported.progress.is_some_and(|progress| progress.done == 1), "{reported:?}");
        env.change::<ResourceQuota>("few", json!({"spec": hard("9")})).await?;
        let suite = ended(&env, "many", SHORT_RUN * 2).await?;
        measured_once(&env, &suite, 2).await
    })
    .await
}

#[tokio::test]
async fn a_started_suite_cannot_be_changed_and_no_limit_ends_it() -> Result<()> {
    with_namespace("suite-started", |env| async move {
        suite(&env, "goes-on", &spec(&[REDIS_7], &[1], 1, "")).await?;
        suite_is(&env, "goes-on", "started", NOTICE * 2, |status| status.started_at.is_some()).await?;
        for changed in [json!({"schedule": "0 3 * * *"}), json!({"seed": 7})] {
            let refused = env.change::<BenchmarkSuite>("goes-on", json!({"spec": changed})).await;
            says(&format!("{:#}", refused.err().context("it was changed")?), &["the suite has started"])?;
        }
        env.change::<BenchmarkSuite>("goes-on", json!({"spec": {"maxRuns": 1}})).await?;
        let suite = ended(&env, "goes-on", SHORT_RUN * 2).await?;
        ensure!(status(&suite).phase == SuitePhase::Succeeded, "{:?}", status(&suite).message);
        measured_once(&env, &suite, 2).await
    })
    .await
}

#[tokio::test]
async fn a_foreign_run_is_reported_and_left_alone() -> Result<()> {
    with_namespace("suite-stranger", |env| async move {
        let spec = spec(&[REDIS_7], &[1], 1, "exclude: [{values: {pipeline: '10'}}]");
        // The names of its runs are always the same.
        suite(&env, "crowded", &spec).await?;
        suite_is(&env, "crowded", "a run made", NOTICE * 2, |status| {
            status.progress.is_some_and(|progress| progress.running == 1)
        })
        .await?;
        let name = runs(&env, "crowded").await?.first().map(ResourceExt::name_any).context("no run")?;
        env.delete::<BenchmarkSuite>("crowded").await?;
        env.none_labelled::<BenchmarkRun>("dragstrip.dev/suite=crowded", SHORT_RUN).await?;
        let stranger = "target: {external: {address: '10.255.255.1:6379'}}\nphases: [{name: write, loadgen: {duration: 1s}}]\ncancel: true";
        env.run(&name, stranger).await?;
        suite(&env, "crowded", &spec).await?;
        suite_is(&env, "crowded", "a message about the foreign run", NOTICE * 2, |status| {
            let reported = status.message.clone().unwrap_or_default();
            reported.contains(&name) && reported.contains("does not belong to this suite")
        })
        .await?;
        ensure!(env.api::<BenchmarkRun>().get(&name).await?.owner_references().is_empty(), "it was adopted");
        env.delete::<BenchmarkRun>(&name).await?;
        let suite = ended(&env, "crowded", SHORT_RUN * 2).await?;
        measured_once(&env, &suite, 1).await
    })
    .await
}

#[tokio::test]
async fn a_suite_has_no_more_rights_than_its_author() -> Result<()> {
    with_namespace("suite-tenant", |env| async move {
        let tenant = env.as_user("e2e-suite-tenant", &["dragstrip-edit"]).await?;
        let phases = "run: {phases: [{name: write, loadgen: {duration: 1s}}]}\nsuspend: true";
        let with = |target: &str| format!("variants: [{{name: v, target: {target}}}]\n{phases}");
        let secret = "{name: theirs, key: password}";
        for (target, reported) in [
            (format!("{{datastore: {{engine: Redis, threads: 1, authSecretRef: {secret}}}}}"), "you may not read secrets/theirs"),
            (format!("{{external: {{address: 'redis.example.com:6379', authSecretRef: {secret}}}}}"), "you may not read secrets/theirs"),
            (format!("{{datastore: {{engine: Redis, threads: 1, env: [{{name: X, valueFrom: {{secretKeyRef: {secret}}}}}]}}}}"), "needs get on all Secrets"),
            ("{datastore: {engine: Redis, threads: 1, pod: {hostNetwork: true}}}".to_owned(), "hostNetwork"),
            ("{datastore: {engine: Redis, threads: 1, pod: {serviceAccountName: admin}}}".to_owned(), "serviceAccountName"),
        ] {
            says(&tenant.refusal("BenchmarkSuite", "greedy", &with(&target)).await?, &[reported])?;
        }
        let plain = with("{datastore: {engine: Redis, threads: 1}}");
        let published = format!("{plain}\nbaseline: {{published: {{configMap: theirs}}}}");
        says(&tenant.refusal("BenchmarkSuite", "greedy", &published).await?, &["configmaps/theirs"])?;
        tenant.create::<BenchmarkSuite>(object("BenchmarkSuite", "modest", &plain)?).await?;

        // A user without access to a suite's Secrets can stop it, but change nothing that names one.
        let target = format!("{{datastore: {{engine: Redis, threads: 1, authSecretRef: {secret}}}}}");
        env.create::<BenchmarkSuite>(object("BenchmarkSuite", "guarded", &with(&target))?).await?;
        let changed = json!({"spec": {"repetitions": 2, "run": {"timeout": "3m"}}});
        let refused = tenant.change::<BenchmarkSuite>("guarded", changed).await.err();
        says(&format!("{:#}", refused.context("a tenant changed it")?), &["you may not read secrets/theirs"])?;
        tenant.change::<BenchmarkSuite>("guarded", json!({"spec": {"cancel": true}})).await?;
        Ok(())
    })
    .await
}

/// A suite of one Redis with `cpu`, compared with an earlier one.
fn gate(cpu: &str, baseline: &str) -> String {
    let server = engine("Redis", "7.0", "redis:7.0", 1).replace("cpu: 2", &format!("cpu: {cpu}"));
    let server = server.trim().replace('\n', "\n      ");
    let threshold = if baseline.is_empty() {
        String::new()
    } else {
        format!(
            "baseline: {{suite: {baseline}}}\nthresholds:\n- {{metric: OperationsPerSecond, minimum: '0.8', relativeTo: Baseline}}"
        )
    };
    format!(
        "
variants:
- name: redis
  target:
    datastore:
      {server}
run:
  phases: [{{name: write, loadgen: {{ratio: '1:0', keyMaximum: 9999, duration: 2s, pipeline: 16}}}}]
  timeout: 5m
repetitions: 3
{threshold}
"
    )
}

#[tokio::test]
async fn a_slowed_server_fails_the_gate_and_an_equal_one_passes() -> Result<()> {
    alone("suite-gate", |env| async move {
        suite(&env, "before", &gate("500m", "")).await?;
        let before = ended(&env, "before", SHORT_RUN * 3).await?;
        ensure!(status(&before).phase == SuitePhase::Succeeded, "{:?}", status(&before).message);
        suite(&env, "same", &gate("500m", "before")).await?;
        let same = ended(&env, "same", SHORT_RUN * 3).await?;
        ensure!(passed(&same)?.0 == "True", "the same server twice: {:?}", passed(&same)?);
        suite(&env, "slowed", &gate("250m", "before")).await?;
        let slowed = ended(&env, "slowed", SHORT_RUN * 3).await?;
        let (is, reason, message) = passed(&slowed)?;
        ensure!(is == "False" && reason == "ThresholdMissed", "half the CPU: {reason} {message}");
        ensure!(status(&slowed).thresholds.iter().any(|threshold| !threshold.met), "{slowed:?}");
        suite(&env, "lonely", &gate("500m", "nobody").replace("repetitions: 3", "repetitions: 1")).await?;
        let lonely = ended(&env, "lonely", SHORT_RUN * 2).await?;
        let (_, reason, message) = passed(&lonely)?;
        ensure!(
            reason == "BaselineMissing" && message.contains("there is no BenchmarkSuite nobody"),
            "{message}"
        );
        ensure!(status(&lonely).report.is_some() && !status(&lonely).rows.is_empty(), "its numbers are lost");
        Ok(())
    })
    .await
}
