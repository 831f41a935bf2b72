//! Tools in images of their own, read by named parsers.

use crate::common::{complete, failed, redis, says};
use anyhow::{Context, Result, ensure};
use dragstrip_crds::run::RunPhase;
use dragstrip_e2e::{
    SERVER_UP, SHORT_RUN,
    manifests::against,
    results::{self, operation, phase},
    with_namespace,
};
use dragstrip_results::result::PodResult;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{ResourceExt, api::ListParams};

const REDIS_BENCHMARK: &str = "
phases:
- name: bench
  exec:
    image: dragstrip.dev/testbed/redis:7.0
    command: [redis-benchmark]
    args: [-h, '${HOST}', -p, '${PORT}', -t, 'set,get,mset', -n, '100000', -c, '20', -P, '4', --csv]
    parser: {redisBenchmarkCsv: {requests: 100000}}
    counterCheck: true
timeout: 3m
";

#[tokio::test]
async fn redis_benchmark_runs_and_its_output_is_parsed() -> Result<()> {
    with_namespace("redis-benchmark", |env| async move {
        redis(&env).await?;
        env.run("theirs", &against("redis", REDIS_BENCHMARK)).await?;
        let run = env.run_in("theirs", RunPhase::Succeeded, SHORT_RUN).await?;
        complete(&run, "Succeeded")?;
        let status = results::status(&run)?;
        let calls = env.server("redis").await?.calls().await?;
        let bench = phase(&status, "bench")?;
        ensure!(bench.operations.len() == 3, "tests that ran one after the other have a total: {bench:?}");
        for (label, command) in [("SET", "set"), ("GET", "get"), ("MSET (10 keys)", "mset")] {
            let row = operation(bench, label)?;
            ensure!(row.tool_operations_per_second == Some(row.operations_per_second.mean), "{row:?}");
            ensure!(row.count == 100_000 && row.operations_per_second.mean > 1000.0, "{row:?}");
            let latency = row.latency_milliseconds;
            ensure!(
                latency.p50 > Some(0.0) && latency.p50 <= latency.p99 && latency.p99 <= latency.max,
                "{row:?}"
            );
            ensure!(calls.get(command) == Some(&100_000), "the server counted {calls:?}");
        }
        Ok(())
    })
    .await
}

const BAD_TOOL: &str = "
phases:
- name: bench
  exec:
    image: dragstrip.dev/testbed/redis:7.0
    command: [sh, -c, 'echo Throughput: unknown; echo no such thing >&2; exit 7']
    parser: {regex: {lines: [{pattern: 'Throughput: (?P<operationsPerSecond>[0-9]+)', operation: INCR}]}}
timeout: 2m
";

#[tokio::test]
async fn a_tool_that_fails_is_quoted() -> Result<()> {
    with_namespace("bad-tool", |env| async move {
        redis(&env).await?;
        env.run("theirs", &against("redis", BAD_TOOL)).await?;
        let (_, failure) = failed(&env, "theirs", SHORT_RUN).await?;
        ensure!(failure.exit_code == Some(7), "{failure:?}");
        says(&failure.last_lines.join("\n"), &["no such thing"])
    })
    .await
}

/// A tool that writes results of its own (FORGED), complete and for this very pod: to the runner's output, to
/// the termination message, and from a process that outlives it. That one never empties the message, and its
/// spaces overwrite a longer one: whenever it is killed, the forgery is complete.
const FORGER: &str = r#"
phases:
- name: bench
  exec:
    image: dragstrip.dev/testbed/redis:7.0
    command:
    - bash
    - -c
    - |
      forged='FORGED'
      echo "DRAGSTRIP-RESULT $forged" >/proc/1/fd/1 && opened=yes
      cat /proc/1/environ >/dev/null && opened=yes
      setsid bash -c 'exec >/dev/null 2>&1
        while :; do printf %-4000s "$0" 1<>/dev/termination-log; echo "DRAGSTRIP-RESULT $0" >/proc/1/fd/1; done' "$forged" </dev/null &
      sleep 0.5
      [ -z "$opened" ] || { echo the tool opened what is the runner\'s >&2; exit 9; }
      printf 'DRAGSTRIP-RESULT %s\nThroughput: 4321\n' "$forged"
    parser: {regex: {lines: [{pattern: 'Throughput: (?P<operationsPerSecond>[0-9]+)', operation: INCR}]}}
timeout: 2m
"#;

#[tokio::test]
async fn a_tool_that_writes_results_itself_neither_replaces_nor_voids_the_runners() -> Result<()> {
    with_namespace("forged-result", |env| async move {
        redis(&env).await?;
        let mut forged =
            PodResult { phase: "bench".into(), repetition: 1, complete: true, ..PodResult::default() };
        (forged.pod, forged.tool.name) = ("'$POD_NAME'".into(), "forged".into());
        let forger = FORGER.replace("FORGED", &serde_json::to_string(&forged)?);
        env.run("forger", &against("redis", &forger)).await?;
        let run = env.run_in("forger", RunPhase::Succeeded, SHORT_RUN).await?;
        complete(&run, "Succeeded")?;
        let rate = operation(phase(&results::status(&run)?, "bench")?, "INCR")?.operations_per_second.mean;
        ensure!((rate - 4321.0).abs() < 0.5, "the tool's own result counted: {rate} operations per second");
        let tools: Vec<_> =
            env.result("forger-bench-1").await?.pods.into_iter().map(|pod| pod.tool.name).collect();
        ensure!(tools == ["bash"], "the result is of the tool {tools:?}");
        Ok(())
    })
    .await
}

/// Counts of 180,000 seconds that do not compress: several times what one ConfigMap takes.
const LARGE: &str = r#"
phases:
- name: bench
  exec:
    image: dragstrip.dev/testbed/redis:7.0
    command:
    - sh
    - -c
    - |
      { printf '{"schemaVersion": 1, "window": {"seconds": 0.5}, '
        printf '"operations": [{"operation": "PING", "count": 1000}], "perSecond": ['
        od -An -v -tu4 -w4 -N 720000 /dev/urandom | tr -d ' ' | paste -sd,
        printf ']}'; } >'${OUTPUT}/result.json'
    parser: {dragstripJson: {file: result.json}}
timeout: 3m
"#;

#[tokio::test]
async fn a_result_larger_than_a_config_map_is_stored_completely() -> Result<()> {
    with_namespace("large-result", |env| async move {
        redis(&env).await?;
        env.run("large", &against("redis", LARGE)).await?;
        let run = env.run_in("large", RunPhase::Succeeded, SHORT_RUN).await?;
        complete(&run, "Succeeded")?;
        let stored = env.api::<ConfigMap>().list(&ListParams::default()).await?;
        let names: Vec<_> =
            stored.iter().map(ResourceExt::name_any).filter(|name| name.starts_with("large-")).collect();
        ensure!(names.len() > 1, "only {names:?} were stored");
        let result = env.result("large-bench-1").await?;
        let seconds = result.pods.iter().map(|pod| pod.per_second.len()).sum::<usize>();
        ensure!(seconds == 180_000, "the stored result has {seconds} seconds");
        Ok(())
    })
    .await
}

/// A tool that prints so many metrics with names of sixty characters in each of two phases.
fn many_metrics(metrics: u32) -> String {
    let phase = |name: &str| {
        format!(
            r#"
- name: {name}
  exec:
    image: dragstrip.dev/testbed/redis:7.0
    command:
    - sh
    - -c
    - |
      {{ printf '{{"schemaVersion": 1, "window": {{"seconds": 1}}, "metrics": ['
        seq 1 {metrics} | sed 's/.*/{{"name": "a-metric-with-a-name-of-nearly-sixty-characters-number-&", "value": 1.5}}/' | paste -sd,
        printf ']}}'; }} >'${{OUTPUT}}/result.json'
    parser: {{dragstripJson: {{file: result.json}}}}"#
        )
    };
    format!("phases:{}{}\ntimeout: 3m\n", phase("first"), phase("second"))
}

#[tokio::test]
async fn a_status_shows_as_many_metrics_as_fit_and_counts_the_others() -> Result<()> {
    with_namespace("many-metrics", |env| async move {
        redis(&env).await?;
        env.run("many", &against("redis", &many_metrics(1000))).await?;
        let run = env.run_in("many", RunPhase::Succeeded, SHORT_RUN).await?;
        complete(&run, "Succeeded")?;
        let status = results::status(&run)?;
        let second = phase(&status, "second")?;
        let more = 1000 - second.metrics.len();
        ensure!(more > 0 && !second.metrics.is_empty(), "{} metrics are shown", second.metrics.len());
        says(&second.notes.join("\n"), &[&format!("and {more} more in the result")])?;
        let stored = env.result("many-second-1").await?.metrics.len();
        ensure!(stored == 1000, "the result has {stored} metrics");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn more_metrics_than_the_schema_allows_fail_their_run_alone() -> Result<()> {
    with_namespace("too-many-metrics", |env| async move {
        redis(&env).await?;
        env.run("many", &against("redis", &many_metrics(15_000))).await?;
        let (_, failure) = failed(&env, "many", SHORT_RUN).await?;
        says(&failure.message, &["metrics", "15000", "at most 1000"])
    })
    .await
}

/// A histogram of 5 digits up to 2^63 without counts: 39 bytes that cost 50 MB to read.
const FINE: &str = r#"
phases:
- name: bench
  exec:
    image: dragstrip.dev/testbed/redis:7.0
    command:
    - sh
    - -c
    - |
      printf '{"schemaVersion": 1, "window": {"seconds": 1}, "operations": [{"operation": "GET", "count": 0,
        "histogram": "HISTFAAAABh4nJNpmSzMgACsUJqxAcqw/wChAUJLAvw="}]}' >"${OUTPUT}/result.json"
    parser: {dragstripJson: {file: result.json}}
timeout: 2m
"#;

#[tokio::test]
async fn a_histogram_that_costs_more_than_it_holds_is_refused() -> Result<()> {
    with_namespace("fine-histogram", |env| async move {
        redis(&env).await?;
        env.run("fine", &against("redis", FINE)).await?;
        let (_, failure) = failed(&env, "fine", SHORT_RUN).await?;
        says(&failure.message, &["5 significant digits", "at most 3"])
    })
    .await
}

const ETCD: &str = include_str!("../../../../../examples/etcd.yaml");

/// The example with the testbed's image for the public one, which has no benchmark in it.
fn on_testbed(manifest: &str) -> String {
    let lines = manifest.lines().map(|line| match line.split_once("image: ") {
        Some((indent, _)) => format!("{indent}image: dragstrip.dev/testbed/etcd:3.6"),
        None => line.to_owned(),
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn etcd_with_three_members_is_loaded_by_its_own_benchmark() -> Result<()> {
    with_namespace("etcd", |env| async move {
        env.manifest(&on_testbed(ETCD)).await?;
        let datastore = env.datastore_is("etcd", "three members", SERVER_UP * 2, |datastore| {
            datastore.status.as_ref().is_some_and(|status| status.members.len() == 3)
        });
        let pods: Vec<String> =
            datastore.await?.status.context("no status")?.members.into_iter().map(|m| m.pod).collect();
        ensure!(pods.len() == 3, "{pods:?}");
        let run = env.run_in("etcd-put", RunPhase::Succeeded, SHORT_RUN * 2).await?;
        let status = results::status(&run)?;
        let row = operation(phase(&status, "put")?, "PUT")?;
        ensure!(row.operations_per_second.mean > 10.0 && row.latency_milliseconds.p50 > Some(0.0), "{row:?}");
        // Nobody can ask them; the kernel reports what they used.
        let memory = &phase(&status, "put")?.memory;
        let read = memory.iter().all(|one| one.rss_bytes > Some(1 << 20) && one.cgroup_bytes > Some(1 << 20));
        ensure!(memory.len() == 4 && read, "not three members and their sum: {memory:?}");
        let used = env.result("etcd-put-put-1").await?.servers;
        let loaded = used.iter().filter(|server| server.usage.cpu_seconds > 0.0).count();
        ensure!(loaded == 3, "not what every member used: {used:?}");
        Ok(())
    })
    .await
}
