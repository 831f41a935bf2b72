//! The runs of a soak: a cycle has one of each kind.

use anyhow::{Result, bail, ensure};
use dragstrip_crds::{BenchmarkRun, BenchmarkSuite, run::RunPhase};
use dragstrip_e2e::{
    Env, Look,
    manifests::{REDIS, against, engine, made_for_run, object},
    message, phase, until,
};
use k8s_openapi::api::core::v1::Node;
use kube::{Api, api::ListParams};
use std::time::Duration;

/// How long one kind may take.
const WITHIN: Duration = Duration::from_secs(180);

/// A kind of run, with its spec.
pub struct Kind {
    pub name: &'static str,
    spec: String,
    is_suite: bool,
    /// How it is to end.
    wanted: RunPhase,
}

const CLOSED: &str = "phases: [{name: mixed, loadgen: {ratio: '1:1', keyMaximum: 9999, duration: 2s}}]\n";
const OPEN: &str = "phases: [{name: open, loadgen: {ratio: '1:1', keyMaximum: 9999, duration: 2s, rate: {operationsPerSecond: 2000}}}]\n";
const LOADED: &str = "phases: [{name: read, flush: true, load: {keyMaximum: 9999, dataSize: 16}, loadgen: {ratio: '0:1', keyMaximum: 9999, duration: 1s}}]\n";
const REPEATED: &str = "
phases: [{name: write, loadgen: {ratio: '1:0', keyMaximum: 9999, duration: 1s}}]
repetitions: 3
thresholds: [{metric: OperationsPerSecond, minimum: '1'}, {metric: P99Milliseconds, maximum: '0.000001'}]
";
const SEARCH: &str = "phases: [{name: knee, loadgen: {ratio: '1:0', keyMaximum: 9999, duration: 1s}, search: {raise: Connections, to: 4, until: {gain: '0.2'}}}]\n";
const EXEC: &str = "
phases:
- name: bench
  exec:
    image: dragstrip.dev/testbed/redis:7.0
    command: [redis-benchmark]
    args: [-h, '${HOST}', -p, '${PORT}', -t, 'set,get', -n, '20000', -c, '10', --csv]
    parser: {redisBenchmarkCsv: {requests: 20000}}
    counterCheck: true
";
const FAILING: &str = "
phases:
- name: bench
  exec:
    image: dragstrip.dev/testbed/redis:7.0
    command: [sh, -c, 'echo no such thing >&2; exit 7']
    parser: {regex: {lines: [{pattern: '(?P<operationsPerSecond>[0-9]+)', operation: INCR}]}}
";
const BULLMQ: &str = "phases: [{name: jobs, bullmq: {duration: 2s}}]\n";

fn suite() -> String {
    let server = engine("Redis", "7.0", "redis:7.0", 1).trim().replace('\n', "\n      ");
    format!(
        "
variants:
- name: redis
  target:
    datastore:
      {server}
axes: [{{name: pipeline, paths: [/phases/0/loadgen/pipeline], values: [{{value: 1}}, {{value: 10}}]}}]
run:
  phases: [{{name: write, loadgen: {{ratio: '1:0', keyMaximum: 9999, duration: 1s}}}}]
repetitions: 1
"
    )
}

/// Whether a node has an image whose name begins with `name`.
async fn has_image(env: &Env, name: &str) -> Result<bool> {
    let nodes = Api::<Node>::all(env.client.clone()).list(&ListParams::default()).await?;
    let images = nodes.items.into_iter().filter_map(|node| node.status?.images).flatten();
    Ok(images.flat_map(|image| image.names.unwrap_or_default()).any(|found| found.starts_with(name)))
}

/// All kinds that the cluster has images for.
pub async fn kinds(env: &Env) -> Result<Vec<Kind>> {
    let against_redis = |phases: &str| against("redis", phases);
    let run = |name, spec: String| Kind { name, spec, is_suite: false, wanted: RunPhase::Succeeded };
    let mut kinds = vec![
        run("closed", against_redis(CLOSED)),
        run("open", against_redis(OPEN)),
        run("loaded", against_redis(LOADED)),
        run("repeated", against_redis(REPEATED)),
        run("exec", against_redis(EXEC)),
        run("search", against_redis(SEARCH)),
        run("own", made_for_run(REDIS, CLOSED)),
        Kind { wanted: RunPhase::Failed, ..run("failing", against_redis(FAILING)) },
        Kind { is_suite: true, ..run("suite", suite()) },
    ];
    match std::env::var("DRAGSTRIP_TEST_MEMTIER_IMAGE") {
        Ok(image) => {
            let memtier = format!("{{image: '{image}', threads: 1, connectionsPerThread: 5, testTime: 2s}}");
            kinds.push(run(
                "memtier",
                against_redis(&format!("phases: [{{name: mixed, memtier: {memtier}}}]\n")),
            ));
        }
        Err(_) => dragstrip_e2e::not_run("memtier", "no image: set DRAGSTRIP_TEST_MEMTIER_IMAGE"),
    }
    if has_image(env, "dragstrip.dev/bullmq").await? {
        kinds.push(run("bullmq", against_redis(BULLMQ)));
    } else {
        dragstrip_e2e::not_run("bullmq", "no node has its image: run make image-bullmq");
    }
    Ok(kinds)
}

impl Kind {
    /// Measures it and deletes it.
    pub async fn measure(&self, env: &Env, number: usize) -> Result<()> {
        let name = format!("{}-{number}", self.name);
        if self.is_suite {
            env.create::<BenchmarkSuite>(object("BenchmarkSuite", &name, &self.spec)?).await?;
            let suites = env.api::<BenchmarkSuite>();
            until(&format!("the end of suite {name}"), WITHIN, async || {
                let status = suites.get(&name).await?.status.unwrap_or_default();
                Ok(if status.phase.finished() {
                    Look::Done(())
                } else {
                    Look::NotYet(format!("{} {:?}", status.phase, status.message))
                })
            })
            .await?;
            let status = suites.get(&name).await?.status.unwrap_or_default();
            ensure!(status.rows.len() == 2, "suite {name}: {:?} {} rows", status.message, status.rows.len());
            return env.delete::<BenchmarkSuite>(&name).await;
        }
        env.create::<BenchmarkRun>(object("BenchmarkRun", &name, &self.spec)?).await?;
        let runs = env.api::<BenchmarkRun>();
        let run = until(&format!("the end of run {name}"), WITHIN, async || {
            let run = runs.get(&name).await?;
            Ok(match phase(&run) {
                ended if ended.finished() => Look::Done(run),
                phase => Look::NotYet(format!("{phase} {:?}", message(&run))),
            })
        })
        .await?;
        if phase(&run) != self.wanted {
            bail!("run {name} is {}: {}", phase(&run), message(&run));
        }
        env.delete::<BenchmarkRun>(&name).await
    }
}
