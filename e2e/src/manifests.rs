//! Manifests as users write them: specs in YAML, put under a name and a kind.

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

/// A Redis 7.0 with one thread that takes little of a small node.
pub const REDIS: &str = "
engine: Redis
version: '7.0'
image: dragstrip.dev/testbed/redis:7.0
threads: 1
maxMemory: 256Mi
resources:
  requests: {cpu: 100m, memory: 336Mi}
  limits: {cpu: 2, memory: 336Mi}
";

/// An image that no registry has: nobody listens where it should come from, which shows at once.
pub const NO_IMAGE: &str = "localhost:1/no-such-image:1";

/// A Datastore whose image cannot be pulled.
pub fn unpullable() -> String {
    REDIS.replace("dragstrip.dev/testbed/redis:7.0", NO_IMAGE)
}

/// A short write, then a short read, then a short pipelined read.
pub const THREE_PHASES: &str = "
phases:
- name: write
  warmup: 0s
  loadgen: {ratio: '1:0', keyMaximum: 9999, duration: 2s}
- name: read
  warmup: 0s
  loadgen: {ratio: '0:1', keyMaximum: 9999, duration: 2s}
- name: mixed
  warmup: 0s
  loadgen: {ratio: '1:1', keyMaximum: 9999, duration: 2s, pipeline: 8}
timeout: 2m
";

/// A short write, then a short read.
pub const TWO_PHASES: &str = "
phases:
- name: write
  warmup: 0s
  loadgen: {ratio: '1:0', keyMaximum: 9999, duration: 1s}
- name: read
  warmup: 0s
  loadgen: {ratio: '0:1', keyMaximum: 9999, duration: 1s}
timeout: 2m
";

/// One short write.
pub const ONE_PHASE: &str = "
phases:
- name: write
  warmup: 0s
  loadgen: {ratio: '1:0', keyMaximum: 9999, duration: 1s}
timeout: 2m
";

/// One write that lasts until somebody stops it.
pub const LONG_PHASE: &str = "
phases:
- name: endless
  loadgen: {ratio: '1:0', keyMaximum: 9999, duration: 10m}
timeout: 20m
";

/// A Datastore of an engine of the testbed, with `threads` threads.
pub fn engine(engine: &str, version: &str, image: &str, threads: u32) -> String {
    format!(
        "
engine: {engine}
version: '{version}'
image: dragstrip.dev/testbed/{image}
threads: {threads}
maxMemory: 256Mi
resources:
  requests: {{cpu: 100m, memory: 336Mi}}
  limits: {{cpu: 2, memory: 336Mi}}
"
    )
}

/// The spec of a run of `phases` against the Datastore `name`.
pub fn against(name: &str, phases: &str) -> String {
    format!("target: {{datastoreRef: {{name: {name}}}}}\n{phases}")
}

/// The spec of a run of `phases` against `address`.
pub fn against_address(address: &str, phases: &str) -> String {
    format!("target: {{external: {{address: '{address}'}}}}\n{phases}")
}

/// The spec of a run of `phases` against a Datastore of its own.
pub fn made_for_run(datastore: &str, phases: &str) -> String {
    let indented = datastore.trim().replace('\n', "\n    ");
    format!("target:\n  datastore:\n    {indented}\n{phases}")
}

/// A whole object of one of Dragstrip's kinds.
pub fn object(kind: &str, name: &str, spec: &str) -> Result<Value> {
    let spec: Value = serde_yaml::from_str(spec).with_context(|| format!("not YAML: {spec}"))?;
    Ok(json!({
        "apiVersion": "dragstrip.dev/v1alpha1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": spec,
    }))
}

/// Where objects of `kind` are served, below a namespace.
pub fn resource(kind: &str) -> Result<kube::api::ApiResource> {
    let (group, version, plural) = match kind {
        "Datastore" => ("dragstrip.dev", "v1alpha1", "datastores"),
        "BenchmarkRun" => ("dragstrip.dev", "v1alpha1", "benchmarkruns"),
        "BenchmarkSuite" => ("dragstrip.dev", "v1alpha1", "benchmarksuites"),
        other => bail!("the tests make no {other}"),
    };
    Ok(kube::api::ApiResource {
        group: group.to_owned(),
        version: version.to_owned(),
        api_version: format!("{group}/{version}"),
        kind: kind.to_owned(),
        plural: plural.to_owned(),
    })
}
