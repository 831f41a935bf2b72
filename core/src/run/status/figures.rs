//! What the status shows of the stored results. Pure.

use crate::run::{merge::checks, plan, summary, validate::attempt::ValidatedRun};
use dragstrip_crds::{
    BenchmarkRunStatus,
    observed::ServerTruth,
    run::{NodeStatus, PhaseStatus, VerdictReason},
};
use dragstrip_results::{
    result::RepetitionResult,
    usage::HostUsage,
    verdict::placed::{Placed, of_result},
};
use std::collections::BTreeMap;

/// Results by name, as far as a summary needs them.
pub type Results = BTreeMap<String, RepetitionResult>;

/// What the status shows of the results: from those just read, else as it was.
#[derive(Default)]
pub struct Figures {
    pub phases: Vec<PhaseStatus>,
    pub nodes: Vec<NodeStatus>,
    pub observed: Option<ServerTruth>,
    pub checks: String,
    /// Why results must not be used that are in no phase.
    pub refused: Vec<VerdictReason>,
    pub placed: Vec<Placed>,
}

impl Figures {
    pub fn of(run: &ValidatedRun, old: &BenchmarkRunStatus, results: Option<&Results>) -> Self {
        match results {
            Some(results) => Self {
                phases: summary::phases(run, results),
                nodes: nodes(results),
                observed: truth_from(results),
                checks: checks::reported(run, results),
                refused: refused(run, results),
                placed: placed(results),
            },
            None => Self { phases: old.phases.clone(), nodes: old.nodes.clone(), ..Self::default() },
        }
    }
}

/// What an external server reported to its clients.
fn truth_from(stored: &Results) -> Option<ServerTruth> {
    let servers = stored.values().flat_map(|result| &result.pods).filter_map(|pod| pod.server.as_ref());
    servers.map(|server| server.truth.clone()).next()
}

/// What clients and servers of `result` saw of their machines, with the nodes' names.
fn hosts(result: &RepetitionResult) -> impl Iterator<Item = (&str, &HostUsage)> {
    let clients = result.pods.iter().map(|pod| (&pod.node, &pod.client));
    let servers = result.servers.iter().map(|server| (&server.node, &server.usage));
    clients.chain(servers).filter_map(|(node, usage)| Some((node.as_deref()?, usage.host.as_ref()?)))
}

/// The nodes of all that is stored, in the order of their names.
fn nodes(stored: &Results) -> Vec<NodeStatus> {
    let mut nodes: BTreeMap<&str, NodeStatus> = BTreeMap::new();
    for record in stored.values().flat_map(|result| &result.nodes) {
        let node = nodes.entry(&record.name).or_default();
        node.name.clone_from(&record.name);
        let fill = |known: &mut Option<String>, reported: &Option<String>| {
            *known = known.take().or_else(|| reported.clone());
        };
        fill(&mut node.instance_type, &record.instance_type);
        fill(&mut node.zone, &record.zone);
        fill(&mut node.placement_group, &record.placement_group);
        fill(&mut node.architecture, &record.architecture);
        fill(&mut node.kernel, &record.kernel);
        node.serves |= record.serves;
        node.loads |= record.loads;
    }
    for (name, host) in stored.values().flat_map(hosts) {
        if let Some(node) = nodes.get_mut(name) {
            node.cpu_model = node.cpu_model.take().or_else(|| host.cpu_model.clone());
            node.cpus = node.cpus.or(Some(host.cpus).filter(|cpus| *cpus > 0));
        }
    }
    nodes.into_values().collect()
}

/// The worst that any of `results` says of each condition of where servers and clients were.
fn placed(results: &Results) -> Vec<Placed> {
    let mut worst: Vec<Placed> = Vec::new();
    let rank = |one: &Placed| one.holds.map_or(1, |holds| if holds { 2 } else { 0 });
    for one in results.values().flat_map(of_result) {
        match worst.iter_mut().find(|known| known.check == one.check) {
            Some(known) if rank(&one) < rank(known) => *known = one,
            Some(_) => {}
            None => worst.push(one),
        }
    }
    worst
}

/// Reasons of the results that failed and were not measured again.
pub(super) fn refused(run: &ValidatedRun, results: &Results) -> Vec<VerdictReason> {
    let confirming = run.attempts.iter().filter(|attempt| attempt.confirms()).map(|one| one.name.as_str());
    let without: Vec<&str> = plan::lost_and_measured_again(run, results).chain(confirming).collect();
    let failed =
        results.iter().filter(|(name, result)| result.failure.is_some() && !without.contains(&name.as_str()));
    failed.flat_map(|(_, result)| result.reasons.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::{super::findings::placed_findings, *};
    use dragstrip_crds::run::CheckName;
    use serde_json::{Value, json};

    #[test]
    fn the_nodes_of_every_stored_measurement_are_listed_once_with_their_instance_types() {
        let measured = |nodes: Value| -> RepetitionResult {
            serde_json::from_value(json!({
                "phase": "read", "repetition": 1, "measurement": 1, "startSkewSeconds": 0.0, "windowSeconds": 1.0, "operations": [], "pods": [], "nodes": nodes
            }))
            .unwrap()
        };
        let node = |name: &str, serves: bool, kind: Option<&str>| json!({"name": name, "serves": serves, "loads": !serves, "instanceType": kind});
        let stored = Results::from([
            ("a".to_owned(), measured(json!([node("server", true, None), node("client", false, None)]))),
            ("b".to_owned(), measured(json!([node("server", true, Some("c7i.2xlarge"))]))),
        ]);
        let reported = serde_json::to_value(nodes(&stored)).unwrap();
        let expected = json!([
            {"name": "client", "serves": false, "loads": true},
            {"name": "server", "instanceType": "c7i.2xlarge", "serves": true, "loads": false},
        ]);
        assert_eq!(reported, expected, "what one measurement does not know another may");
    }

    #[test]
    fn the_worst_of_all_measurements_is_a_runs_condition_and_what_was_seen_before_fills_up() {
        let of = |zone: &str| -> RepetitionResult {
            serde_json::from_value(json!({
                "phase": "read", "repetition": 1, "measurement": 1, "startSkewSeconds": 0.0, "windowSeconds": 1.0, "operations": [], "pods": [], "nodes": [
                    {"name": "s", "serves": true, "loads": false, "zone": "z1"},
                    {"name": "c", "serves": false, "loads": true, "zone": zone},
                ]
            }))
            .unwrap()
        };
        let results = Results::from([("a".to_owned(), of("z2")), ("b".to_owned(), of("z1"))]);
        let before = [Placed {
            check: CheckName::IoUring,
            holds: Some(true),
            reason: "ReportedByServer",
            message: "iouring".into(),
        }];
        let findings = placed_findings(&placed(&results), &before);
        let of = |kind: &str| findings.iter().find(|one| one.kind == kind).unwrap();
        assert_eq!((of("SameZone").status, of("SameZone").reason), (Some(false), "Label"));
        assert!(of("SameZone").message.contains("c in z2"), "{}", of("SameZone").message);
        assert_eq!(of("IoUring").status, Some(true));
        assert_eq!(of("ExclusiveCPUs").status, None, "no CPUs were reported");
    }
}
