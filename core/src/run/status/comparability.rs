//! What was measured, on which machines and with which software: what two runs must have in
//! common to be compared, and what is needed to measure them again. Pure.

use super::figures::{Figures, Results};
use crate::{digest::digest, run::validate::attempt::ValidatedRun};
use dragstrip_crds::run::{ComparabilityStatus, Fact, NodeStatus, ProvenanceStatus, TargetStatus};
use dragstrip_results::{result::EnvironmentRecord, usage::ContainerUsage, verdict::placed::Placed};
use std::collections::{BTreeMap, BTreeSet};

/// Values by the fact's name; unknown values are left out.
#[derive(Default)]
struct Facts(BTreeMap<String, BTreeSet<String>>);

impl Facts {
    fn add(&mut self, name: &str, value: Option<impl ToString>) {
        let value = value.map(|value| value.to_string()).filter(|value| !value.is_empty());
        self.0.entry(name.to_owned()).or_default().extend(value);
    }

    fn reported(self) -> Vec<Fact> {
        let known = self.0.into_iter().filter(|(_, values)| !values.is_empty());
        let fact = |(name, values): (String, BTreeSet<String>)| Fact {
            name,
            value: values.into_iter().collect::<Vec<_>>().join(", "),
        };
        known.map(fact).collect()
    }
}

/// The record of `run`, from its stored `results` and what its status shows of its `target` and nodes.
pub(super) fn comparability(
    run: &ValidatedRun,
    results: &Results,
    target: &TargetStatus,
    figures: &Figures,
) -> ComparabilityStatus {
    let mut facts = Facts::default();
    server(&mut facts, run, results, target);
    client(&mut facts, run, results);
    machines(&mut facts, &figures.nodes, &figures.placed);
    for phase in &run.spec.phases {
        // A spec that came as JSON has a JSON form.
        let declared = digest(&serde_json::to_string(&phase.measured()).unwrap_or_default());
        facts.add(&format!("workload.{}", phase.name), Some(declared));
    }
    let facts = facts.reported();
    // A list of texts always has a JSON form.
    ComparabilityStatus { key: digest(&serde_json::to_string(&facts).unwrap_or_default()), facts }
}

fn environments(results: &Results) -> impl Iterator<Item = &EnvironmentRecord> {
    results.values().filter_map(|result| result.environment.as_ref())
}

fn network(host: bool) -> &'static str {
    if host { "Host" } else { "Pod" }
}

fn server(facts: &mut Facts, run: &ValidatedRun, results: &Results, target: &TargetStatus) {
    if let Some(seen) = &target.observed {
        facts.add("server.engine", seen.engine.map(|engine| format!("{engine:?}")));
        facts.add("server.version", Some(&seen.version));
        facts.add("server.threads", seen.threads);
        facts.add("server.ioInterface", seen.io_interface.as_ref());
        facts.add("server.maxMemoryBytes", seen.max_memory_bytes);
        facts.add("server.maxMemoryPolicy", seen.max_memory_policy.as_ref());
        for (name, value) in &seen.persistence {
            facts.add("server.persistence", Some(format!("{name} {value:?}")));
        }
    }
    facts.add("server.servers", target.servers);
    facts.add("server.address", run.spec.target.external().map(|external| &external.address));
    for seen in environments(results) {
        seen.server_images.iter().for_each(|image| facts.add("server.images", Some(image)));
        facts.add("server.declaration", seen.server_declaration.as_ref());
        // The network of an external server is unknown.
        let known = run.spec.target.external().is_none();
        facts.add("server.network", known.then(|| network(seen.server_host_network)));
    }
    for server in results.values().flat_map(|result| &result.servers) {
        facts.add("server.cpuLimit", cpu_limit(&server.usage));
        settings(facts, "server", &server.usage);
    }
}

fn client(facts: &mut Facts, run: &ValidatedRun, results: &Results) {
    facts.add("client.pods", Some(run.spec.clients.pods));
    for seen in environments(results) {
        seen.client_images.iter().for_each(|image| facts.add("client.images", Some(image)));
        facts.add("client.network", Some(network(seen.client_host_network)));
    }
    for pod in results.values().flat_map(|result| &result.pods) {
        let tool = [Some(&pod.tool.name), pod.tool.version.as_ref(), pod.tool.mode.as_ref()];
        let words: Vec<&str> = tool.into_iter().flatten().map(String::as_str).collect();
        facts.add("client.tools", Some(words.join(" ")));
        facts.add("client.cpuLimit", cpu_limit(&pod.client));
        settings(facts, "client", &pod.client);
    }
}

/// The CPU limit of a container, which has all CPUs of its machine without one; `None` if nobody read it.
fn cpu_limit(usage: &ContainerUsage) -> Option<String> {
    usage.cgroup.is_some().then(|| usage.cpu_limit.map_or_else(|| "none".to_owned(), |cpus| cpus.to_string()))
}

/// The settings of the machine that a container ran on.
fn settings(facts: &mut Facts, role: &str, usage: &ContainerUsage) {
    for (name, value) in usage.host.iter().flat_map(|host| &host.settings) {
        facts.add(&format!("machine.{role}.{name}"), Some(value));
    }
}

fn machines(facts: &mut Facts, nodes: &[NodeStatus], placed: &[Placed]) {
    for node in nodes {
        let roles = [(node.serves, "server"), (node.loads, "client")];
        for (_, role) in roles.into_iter().filter(|(has, _)| *has) {
            let mut add = |name: &str, value: Option<String>| {
                facts.add(&format!("machine.{role}.{name}"), value);
            };
            add("instanceType", node.instance_type.clone());
            add("architecture", node.architecture.clone());
            add("cpuModel", node.cpu_model.clone());
            add("cpus", node.cpus.map(|cpus| cpus.to_string()));
            add("kernel", node.kernel.clone());
        }
    }
    for one in placed {
        facts.add(&format!("machine.{}", one.check), one.holds);
    }
}

/// What else is needed to measure `run` again.
pub(super) fn provenance(run: &ValidatedRun, results: &Results) -> ProvenanceStatus {
    let all = |pick: fn(&EnvironmentRecord) -> &BTreeSet<String>| -> Vec<String> {
        let images: BTreeSet<&String> = environments(results).flat_map(pick).collect();
        images.into_iter().cloned().collect()
    };
    ProvenanceStatus {
        spec_hash: run.spec_hash.clone(),
        operator_version: env!("CARGO_PKG_VERSION").to_owned(),
        server_images: all(|seen| &seen.server_images),
        server_command: environments(results)
            .next()
            .map(|seen| seen.server_command.clone())
            .unwrap_or_default(),
        client_images: all(|seen| &seen.client_images),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        fixtures::{pod_result, run, truth},
        run::{merge::merge, validate::validate},
    };
    use dragstrip_crds::observed::ServerTruth;

    /// The record of a run named `name` whose server ran `image` on a machine of `kind`.
    fn record(name: &str, image: &str, kind: &str, rate: u64) -> ComparabilityStatus {
        let mut declared = run(&["write", "read"], 2);
        declared.metadata.name = Some(name.into());
        let run = validate(&declared).unwrap();
        let environment =
            EnvironmentRecord { server_images: [image.to_owned()].into(), ..EnvironmentRecord::default() };
        let stored = run.attempts.iter().map(|attempt| {
            let mut result = merge(attempt, 1, vec![pod_result("p", rate, 1.0, 100)]);
            result.environment = Some(environment.clone());
            (attempt.name.clone(), result)
        });
        let target = TargetStatus { observed: Some(truth()), servers: Some(1), ..TargetStatus::default() };
        let node = NodeStatus {
            name: format!("{name}-node"),
            instance_type: Some(kind.into()),
            serves: true,
            ..NodeStatus::default()
        };
        let figures = Figures { nodes: vec![node], ..Figures::default() };
        comparability(&run, &stored.collect(), &target, &figures)
    }

    #[test]
    fn the_same_measured_twice_has_one_key_whatever_the_figures_and_names() {
        let (first, second) =
            (record("sprint", "redis@sha256:1", "c7i", 1000), record("again", "redis@sha256:1", "c7i", 900));
        assert_eq!(first, second);
        let names: Vec<&str> = first.facts.iter().map(|fact| fact.name.as_str()).collect();
        assert!(names.is_sorted(), "{names:?}");
        for expected in ["server.version", "client.tools", "machine.server.instanceType", "workload.read"] {
            assert!(names.contains(&expected), "{expected} is not among {names:?}");
        }
    }

    #[test]
    fn what_a_server_writes_to_disk_is_one_fact() {
        let shown = |settings: [(&str, &str); 2]| {
            let persistence = settings.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
            let seen = ServerTruth { persistence, ..truth() };
            let target = TargetStatus { observed: Some(seen), ..TargetStatus::default() };
            let mut facts = Facts::default();
            server(&mut facts, &validate(&run(&["read"], 1)).unwrap(), &Results::new(), &target);
            facts.reported().into_iter().find(|fact| fact.name == "server.persistence").unwrap().value
        };
        // It is there if nothing is written, too: reports compare only facts that both sides have.
        assert_eq!(shown([("appendonly", "no"), ("save", "")]), r#"appendonly "no", save """#);
        assert_eq!(shown([("appendonly", "no"), ("save", "300 1")]), r#"appendonly "no", save "300 1""#);
    }

    #[test]
    fn what_differs_is_one_fact_and_another_key() {
        let first = record("sprint", "redis@sha256:1", "c7i", 1000);
        for (other, name) in [
            (record("sprint", "redis@sha256:2", "c7i", 1000), "server.images"),
            (record("sprint", "redis@sha256:1", "c6i", 1000), "machine.server.instanceType"),
        ] {
            assert_ne!(first.key, other.key);
            let differing = first.facts.iter().zip(&other.facts).filter(|(one, other)| one != other);
            let differing: Vec<&str> = differing.map(|(one, _)| one.name.as_str()).collect();
            assert_eq!(differing, [name]);
        }
    }
}
