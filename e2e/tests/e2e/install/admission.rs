//! What the apiserver itself refuses, with a message that names the remedy.

use crate::common::says;
use anyhow::{Result, ensure};
use dragstrip_e2e::{
    Env, kubectl,
    manifests::{REDIS, object},
    with_namespace,
};

const TWO_TARGETS: &str = "
target: {datastoreRef: {name: redis}, external: {address: '10.0.0.7:6379'}}
phases: [{name: write, loadgen: {duration: 2s}}]
";
const NO_WORKLOAD: &str = "
target: {datastoreRef: {name: redis}}
phases: [{name: write}]
";
const TWO_WORKLOADS: &str = "
target: {datastoreRef: {name: redis}}
phases: [{name: write, loadgen: {duration: 2s}, memtier: {testTime: 2s}}]
";
const SAME_NAMES: &str = "
target: {datastoreRef: {name: redis}}
phases: [{name: write, loadgen: {duration: 2s}}, {name: write, loadgen: {duration: 2s}}]
";
const FLUSH_EXTERNAL: &str = "
target: {external: {address: '10.0.0.7:6379'}}
phases: [{name: write, flush: true, loadgen: {duration: 2s}}]
";
const BOTH_BOUNDS: &str = "
target: {datastoreRef: {name: redis}}
phases: [{name: write, loadgen: {duration: 2s, requestsPerConnection: 10}}]
";

async fn refused(env: &Env, kind: &str, spec: &str, texts: &[&str]) -> Result<()> {
    let message = env.refusal(kind, "bad", spec).await?;
    says(&message, texts)
}

#[tokio::test]
async fn bad_manifests_are_refused_with_the_remedy() -> Result<()> {
    with_namespace("admission", |env| async move {
        let cases: [(&str, &str, &[&str]); 8] = [
            (
                "BenchmarkRun",
                TWO_TARGETS,
                &["target needs exactly one of datastoreRef", "external (an address)"],
            ),
            (
                "BenchmarkRun",
                "phases: [{name: write, loadgen: {duration: 2s}}]",
                &["spec.target", "Required"],
            ),
            (
                "BenchmarkRun",
                NO_WORKLOAD,
                &["a phase needs exactly one workload: memtier, bullmq, loadgen or exec"],
            ),
            (
                "BenchmarkRun",
                TWO_WORKLOADS,
                &["a phase needs exactly one workload: memtier, bullmq, loadgen or exec"],
            ),
            ("BenchmarkRun", SAME_NAMES, &["phase names must be unique within a run"]),
            (
                "BenchmarkRun",
                FLUSH_EXTERNAL,
                &["would empty an external server", "target.external.allowFlush: true"],
            ),
            ("BenchmarkRun", BOTH_BOUNDS, &["set exactly one of duration and requestsPerConnection"]),
            ("Datastore", "{engine: Redis, threads: 0}", &["spec.threads", "greater than or equal to 1"]),
        ];
        for (kind, spec, texts) in cases {
            refused(&env, kind, spec, texts).await?;
        }
        refused(
            &env,
            "Datastore",
            "{engine: Memcached, threads: 1}",
            &["spec.engine", "Memcached", "Dragonfly"],
        )
        .await
    })
    .await
}

#[tokio::test]
async fn unknown_fields_are_refused_by_the_apiserver_and_by_plain_kubectl() -> Result<()> {
    with_namespace("unknown", |env| async move {
        let misspelt = format!("{REDIS}\nthread: 2");
        refused(&env, "Datastore", &misspelt, &["spec.thread", "thread"]).await?;
        let manifest = serde_json::to_string(&object("Datastore", "bad", &misspelt)?)?;
        let output = kubectl::run(&["apply", "-n", &env.namespace, "-f", "-"], &manifest).await?;
        ensure!(!output.success, "kubectl apply took a misspelt field: {}", output.stdout);
        says(&output.stderr, &["unknown field \"spec.thread\""])
    })
    .await
}
