//! The scenarios: what is declared, and when it has ended.

use anyhow::{Result, bail};
use dragstrip_bench_operator::cluster::{Cluster, ROLE};
use dragstrip_crds::{BenchmarkRun, BenchmarkSuite, Datastore};
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};
use std::time::Duration;

/// What the operator does while a fault is injected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Scenario {
    /// A run of two phases with two client pods.
    Run,
    /// A run of two phases that makes its own Datastore.
    Own,
    /// A Datastore that is declared and then edited.
    Datastore,
    /// A suite of four runs.
    Suite,
}

pub const ALL: [Scenario; 4] = [Scenario::Run, Scenario::Own, Scenario::Datastore, Scenario::Suite];

/// The name of every declared object.
const NAME: &str = "sprint";

/// The role of the nodes of one experiment: the clients of two could not share a node.
fn role_in(namespace: &str, role: &str) -> String {
    format!("{namespace}-{role}")
}

/// The nodes that `namespace` has for itself, by name and role.
pub fn nodes(namespace: &str) -> [(String, String); 4] {
    [("server", "1"), ("client", "1"), ("client", "2"), ("client", "3")].map(|(role, number)| {
        let role = role_in(namespace, role);
        (format!("{role}-{number}"), role)
    })
}

fn phases(names: &[&str]) -> Value {
    names.iter().map(|name| json!({"name": name, "loadgen": {"duration": "1s"}})).collect()
}

fn target(host: u8) -> Value {
    json!({"external": {"address": format!("192.0.2.{host}:6379")}})
}

impl Scenario {
    /// The object, whose pods run on the nodes of `namespace`.
    fn manifest(self, namespace: &str) -> Value {
        let nodes = |role: &str| json!({"nodeSelector": {ROLE: role_in(namespace, role)}});
        let clients = |pods: u8| json!({"pods": pods, "placement": nodes("client")});
        let (kind, spec) = match self {
            Self::Run => (
                "BenchmarkRun",
                json!({"target": target(1), "clients": clients(2), "phases": phases(&["write", "read"]), "timeout": "10m"}),
            ),
            Self::Own => {
                // The operator does not query a server without RESP: none is simulated.
                let server = json!({
                    "engine": "Custom", "image": "server", "threads": 1, "maxMemory": "64Mi", "port": 6379,
                    "custom": {"protocol": "Tcp", "command": ["server"]}, "pod": {"labels": {"simulated": "ready"}},
                    "placement": nodes("server"),
                });
                let tool =
                    json!({"image": "client", "command": ["client"], "parser": {"redisBenchmarkCsv": {}}});
                let phase = |name: &str| json!({"name": name, "exec": tool});
                (
                    "BenchmarkRun",
                    json!({"target": {"datastore": server}, "clients": clients(1), "phases": [phase("write"), phase("read")], "timeout": "10m"}),
                )
            }
            Self::Datastore => {
                ("Datastore", json!({"engine": "Redis", "version": "7.0", "threads": 1, "maxMemory": "64Mi"}))
            }
            Self::Suite => {
                let variant = |name: &str, host| json!({"name": name, "target": target(host)});
                (
                    "BenchmarkSuite",
                    json!({
                        "variants": [variant("one", 1), variant("two", 2)], "repetitions": 2,
                        "run": {"phases": phases(&["read"]), "clients": clients(1), "timeout": "10m"},
                    }),
                )
            }
        };
        json!({"apiVersion": "dragstrip.dev/v1alpha1", "kind": kind, "metadata": {"name": NAME}, "spec": spec})
    }

    /// Declares the scenario's object.
    pub async fn declare(self, cluster: &Cluster, namespace: &str) -> Result<()> {
        match self {
            Self::Run | Self::Own => {
                cluster.create::<BenchmarkRun>(namespace, self.manifest(namespace)).await.map(drop)
            }
            Self::Datastore => {
                cluster.create::<Datastore>(namespace, self.manifest(namespace)).await.map(drop)
            }
            Self::Suite => {
                cluster.create::<BenchmarkSuite>(namespace, self.manifest(namespace)).await.map(drop)
            }
        }
    }

    /// Deletes the scenario's object.
    pub async fn delete(self, cluster: &Cluster, namespace: &str) -> Result<()> {
        let parameters = DeleteParams::background();
        match self {
            Self::Run | Self::Own => {
                cluster.api::<BenchmarkRun>(namespace).delete(NAME, &parameters).await.map(drop)?;
            }
            Self::Datastore => {
                cluster.api::<Datastore>(namespace).delete(NAME, &parameters).await.map(drop)?;
            }
            Self::Suite => {
                cluster.api::<BenchmarkSuite>(namespace).delete(NAME, &parameters).await.map(drop)?;
            }
        }
        Ok(())
    }

    /// Whether the scenario has ended; advances it where it has several steps.
    pub async fn has_ended(self, cluster: &Cluster, namespace: &str) -> Result<bool> {
        Ok(match self {
            Self::Run | Self::Own => {
                let run = cluster.api::<BenchmarkRun>(namespace).get(NAME).await?;
                run.status.is_some_and(|status| status.finished_at.is_some())
            }
            Self::Suite => {
                let suite = cluster.api::<BenchmarkSuite>(namespace).get(NAME).await?;
                suite.status.is_some_and(|status| status.finished_at.is_some())
            }
            Self::Datastore => {
                let datastores = cluster.api::<Datastore>(namespace);
                let datastore = datastores.get(NAME).await?;
                let reported = datastore.status.and_then(|status| status.observed_generation);
                match (datastore.metadata.generation, reported) {
                    (Some(1), Some(1)) => {
                        let edit = Patch::Merge(json!({"spec": {"maxMemory": "96Mi"}}));
                        datastores.patch(NAME, &PatchParams::default(), &edit).await?;
                        false
                    }
                    (Some(2), Some(2)) => true,
                    (Some(1 | 2), _) => false,
                    (generation, _) => bail!("somebody changed the Datastore: generation {generation:?}"),
                }
            }
        })
    }

    /// How long it may take without a fault.
    pub fn within(self) -> Duration {
        Duration::from_secs(if self == Self::Suite { 180 } else { 90 })
    }
}

impl std::fmt::Display for Scenario {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Run => "run",
            Self::Own => "own",
            Self::Datastore => "datastore",
            Self::Suite => "suite",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dragstrip_bench_operator::cluster::object;

    #[test]
    fn each_scenario_declares_an_object_of_its_kind() {
        for scenario in ALL {
            let manifest = scenario.manifest("faults-1");
            let decoded = match scenario {
                Scenario::Run | Scenario::Own => object::<BenchmarkRun>(manifest).map(drop),
                Scenario::Datastore => object::<Datastore>(manifest).map(drop),
                Scenario::Suite => object::<BenchmarkSuite>(manifest).map(drop),
            };
            assert!(decoded.is_ok(), "{scenario}: {decoded:?}");
        }
    }
}
