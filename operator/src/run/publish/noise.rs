//! How much equal measurements differ in a place: a run with `calibrate: true` measures it, a
//! ConfigMap beside the operator stores it for each pair of a server's and a client's node, and every
//! later run there reports it. [`settle`] and what it calls need the client, the rest is pure.

use crate::run::context::RunContext;
use dragstrip_core::{
    labels::{self, RUN_MANAGER},
    run::{status::Results, validate::ValidatedRun},
};
use dragstrip_crds::run::{NoiseStatus, PhaseStatus};
use dragstrip_results::{error_chain::chain, result::TOTAL, statistics::spread};
use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::ConfigMap,
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time},
};
use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// The ConfigMap's name.
const NOISE: &str = "dragstrip-noise";

/// A step that failed.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("failed to read ConfigMap {NOISE} in the operator's namespace")]
    Read(#[source] kube::Error),
    #[error("failed to write ConfigMap {NOISE} in the operator's namespace")]
    Write(#[source] kube::Error),
    #[error(
        "ConfigMap {NOISE} in the operator's namespace is not Dragstrip's and is left alone: delete or rename it"
    )]
    NotOurs,
}

/// Noise as JSON by pairs of nodes.
type Data = BTreeMap<String, String>;

/// The largest variation of a phase's repetitions.
fn largest(phases: &[PhaseStatus], variation: impl Fn(&PhaseStatus) -> Option<f64>) -> Option<f64> {
    phases.iter().filter_map(variation).reduce(f64::max)
}

fn throughput(phase: &PhaseStatus) -> Option<f64> {
    let total = phase.operations.iter().find(|row| row.operation == TOTAL)?;
    total.operations_per_second.coefficient_of_variation
}

fn p99(phase: &PhaseStatus) -> Option<f64> {
    let latencies: Option<Vec<f64>> = phase.repetitions.iter().map(|row| row.p99_milliseconds).collect();
    spread(&latencies?)?.coefficient_of_variation
}

/// The noise that the repetitions of `run` show; `None` if it does not calibrate.
fn measured(run: &ValidatedRun, phases: &[PhaseStatus], now: Timestamp) -> Option<NoiseStatus> {
    let throughput = largest(phases, throughput).filter(|_| run.spec.calibrate)?;
    Some(NoiseStatus {
        throughput,
        p99: largest(phases, p99),
        found_by: run.holder.reference(),
        measured_at: Time(now),
    })
}

/// The places of `results`, as keys of a ConfigMap: server's node, then client's. Names of
/// nodes have no underscore.
fn pairs(results: &Results) -> BTreeSet<String> {
    let nodes = || results.values().flat_map(|result| &result.nodes);
    let clients = || nodes().filter(|node| node.loads);
    let servers = nodes().filter(|node| node.serves);
    servers.flat_map(|server| clients().map(|client| format!("{}_{}", server.name, client.name))).collect()
}

/// The largest stored noise of any of `pairs`, except noise that cannot be read.
fn usual(stored: &Data, pairs: &BTreeSet<String>) -> Option<NoiseStatus> {
    let noise = |pair: &String| serde_json::from_str::<NoiseStatus>(stored.get(pair)?).ok();
    pairs.iter().filter_map(noise).max_by(|one, other| one.throughput.total_cmp(&other.throughput))
}

/// The `stored` noise with `own` for `pairs`, and without pairs with a node that is not among
/// `nodes`: a ConfigMap has a limit, and an autoscaler's nodes never return.
fn updated(mut stored: Data, own: &NoiseStatus, pairs: BTreeSet<String>, nodes: &BTreeSet<String>) -> Data {
    stored.retain(|pair, _| pair.split('_').all(|node| nodes.contains(node)));
    // A struct of numbers and texts always has a JSON form.
    let value = serde_json::to_string(own).unwrap_or_default();
    stored.extend(pairs.into_iter().map(|pair| (pair, value.clone())));
    stored
}

fn config_maps(ctx: &RunContext) -> Api<ConfigMap> {
    Api::namespaced(ctx.client.clone(), &ctx.settings.namespace)
}

/// The stored noise; `None` if there is no ConfigMap.
async fn read(ctx: &RunContext) -> Result<Option<ConfigMap>, Error> {
    config_maps(ctx).get_opt(NOISE).await.map_err(Error::Read)
}

/// Stores `own` for later runs.
async fn store(ctx: &RunContext, own: &NoiseStatus, pairs: BTreeSet<String>) -> Result<(), Error> {
    let found = read(ctx).await?.unwrap_or_else(|| config_map(Data::new()));
    if found.labels().get(labels::MANAGED_BY).is_none_or(|manager| manager != labels::OPERATOR) {
        return Err(Error::NotOurs);
    }
    let nodes = ctx.world.nodes.state().iter().map(|node| node.name_any()).collect();
    let data = updated(found.data.unwrap_or_default(), own, pairs, &nodes);
    let parameters = PatchParams::apply(RUN_MANAGER).force();
    let written = config_maps(ctx).patch(NOISE, &parameters, &Patch::Apply(config_map(data))).await;
    written.map(drop).map_err(Error::Write)
}

fn config_map(data: Data) -> ConfigMap {
    let metadata = ObjectMeta {
        name: Some(NOISE.to_owned()),
        labels: Some(labels::common([])),
        ..ObjectMeta::default()
    };
    ConfigMap { metadata, data: Some(data), ..ConfigMap::default() }
}

/// The noise of the place of a run that succeeded: its own if it calibrates, which is then stored,
/// otherwise the stored one. A failure is logged and does not delay the run, which has measured.
pub async fn settle(
    ctx: &RunContext,
    run: &ValidatedRun,
    results: &Results,
    phases: &[PhaseStatus],
    now: Timestamp,
) -> Option<NoiseStatus> {
    let pairs = pairs(results);
    let own = measured(run, phases, now);
    let settled = match &own {
        Some(own) => store(ctx, own, pairs).await.map(|()| None),
        None => read(ctx).await.map(|found| usual(&found?.data?, &pairs)),
    };
    match settled {
        Ok(stored) => {
            ctx.retries.settled(NOISE);
            own.or(stored)
        }
        Err(error) => {
            let cause = chain(&error);
            if ctx.retries.again(NOISE, &cause, Duration::MAX).news {
                tracing::warn!(error = %cause, run = %run.holder.reference(), "the noise of a place is left out");
            }
            own
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{pod_result, run};
    use dragstrip_core::run::{merge::merge, summary::phases, validate::validate};
    use dragstrip_results::result::NodeRecord;

    fn calibrated(rates: [u64; 3], calibrate: bool) -> (ValidatedRun, Results) {
        let mut declared = run(&["read"], 3);
        declared.spec.max_retries = 0;
        declared.spec.calibrate = calibrate;
        let run = validate(&declared).unwrap();
        let node = |name: &str, serves| NodeRecord {
            name: name.into(),
            serves,
            loads: !serves,
            ..NodeRecord::default()
        };
        let stored = run.attempts.iter().zip(rates).map(|(attempt, rate)| {
            let mut result = merge(attempt, 1, vec![pod_result("p", rate, 1.0, 100)]);
            result.nodes = vec![node("client-a", false), node("client-b", false), node("server-a", true)];
            (attempt.name.clone(), result)
        });
        let stored = stored.collect();
        (run, stored)
    }

    #[test]
    fn a_calibrating_run_reports_how_much_its_equal_repetitions_differ() {
        let (run, results) = calibrated([9000, 10_000, 11_000], true);
        let noise = measured(&run, &phases(&run, &results), Timestamp::UNIX_EPOCH).unwrap();
        assert!((noise.throughput - 0.1).abs() < 1e-9, "{noise:?}");
        assert!(noise.p99.is_some_and(|p99| p99 < 1e-9), "every p99 is the same: {noise:?}");
        let (run, results) = calibrated([9000, 10_000, 11_000], false);
        assert_eq!(measured(&run, &phases(&run, &results), Timestamp::UNIX_EPOCH), None);
    }

    #[test]
    fn noise_of_nodes_that_are_gone_is_removed() {
        let (run, results) = calibrated([9000, 10_000, 11_000], true);
        let own = measured(&run, &phases(&run, &results), Timestamp::UNIX_EPOCH).unwrap();
        let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let stored: Data = ["s_gone", "gone_c", "s_c"].map(|pair| (pair.to_owned(), String::new())).into();
        let updated = updated(stored, &own, set(&["s_d"]), &set(&["s", "c", "d"]));
        assert_eq!(updated["s_c"], "", "it stays");
        assert!(updated["s_d"].contains("throughput"));
        assert_eq!(updated.len(), 2, "{updated:?}");
    }

    #[test]
    fn noise_is_stored_for_each_pair_of_nodes_and_the_largest_counts() {
        let (run, results) = calibrated([9000, 10_000, 11_000], true);
        let pairs = pairs(&results);
        assert_eq!(Vec::from_iter(&pairs), ["server-a_client-a", "server-a_client-b"]);
        let noise = measured(&run, &phases(&run, &results), Timestamp::UNIX_EPOCH).unwrap();
        let text = |throughput| serde_json::to_string(&NoiseStatus { throughput, ..noise.clone() }).unwrap();
        let stored = BTreeMap::from([
            ("server-a_client-a".to_owned(), text(0.02)),
            ("server-a_client-b".to_owned(), text(0.04)),
            ("server-b_client-a".to_owned(), text(0.9)),
        ]);
        let found = usual(&stored, &pairs).unwrap();
        assert!((found.throughput - 0.04).abs() < 1e-9, "{found:?}");
        assert_eq!(usual(&BTreeMap::from([("server-a_client-a".into(), "?".into())]), &pairs), None);
    }
}
