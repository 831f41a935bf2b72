//! How much equal measurements differ in a place: measured by a run with
//! `calibrate: true`, kept for each pair of a server's and a client's node in a ConfigMap
//! beside the operator, told by every later run there. Needs the client but for
//! [`measured`], [`pairs`] and [`usual`].

use super::{status::Results, validate::ValidatedRun};
use crate::context::Context;
use dragstrip_crds::run::{NoiseStatus, PhaseStatus};
use dragstrip_results::{result::TOTAL, statistics::spread};
use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::ConfigMap,
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time},
};
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
};
use std::collections::{BTreeMap, BTreeSet};

/// The ConfigMap's name.
const NOISE: &str = "dragstrip-noise";

/// The larger of what the phases' repetitions differ by.
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

/// What the repetitions of `run` say of the place; `None` where it is not to calibrate.
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

/// The largest noise that is known of any of `pairs`. What cannot be read is as good as none.
fn usual(known: &BTreeMap<String, String>, pairs: &BTreeSet<String>) -> Option<NoiseStatus> {
    let of = |pair: &String| serde_json::from_str::<NoiseStatus>(known.get(pair)?).ok();
    pairs.iter().filter_map(of).max_by(|one, other| one.throughput.total_cmp(&other.throughput))
}

/// The noise of the place of a run that ended well: its own where it calibrates, which is
/// kept for later ones, else what is known.
pub async fn settle(
    ctx: &Context,
    run: &ValidatedRun,
    results: &Results,
    phases: &[PhaseStatus],
    now: Timestamp,
) -> kube::Result<Option<NoiseStatus>> {
    let pairs = pairs(results);
    let config_maps: Api<ConfigMap> = Api::namespaced(ctx.client.clone(), &ctx.settings.namespace);
    let Some(own) = measured(run, phases, now) else {
        let known = config_maps.get_opt(NOISE).await?;
        return Ok(known.and_then(|known| usual(&known.data?, &pairs)));
    };
    // A struct of numbers and texts always has a JSON form.
    let value = serde_json::to_string(&own).unwrap_or_default();
    let data: BTreeMap<String, String> = pairs.into_iter().map(|pair| (pair, value.clone())).collect();
    let patch = Patch::Merge(serde_json::json!({"data": data}));
    let kept = match config_maps.patch(NOISE, &PatchParams::default(), &patch).await {
        Err(kube::Error::Api(status)) if status.is_not_found() => {
            let metadata = ObjectMeta { name: Some(NOISE.to_owned()), ..ObjectMeta::default() };
            let all = ConfigMap { metadata, data: Some(data), ..ConfigMap::default() };
            config_maps.create(&PostParams::default(), &all).await
        }
        other => other,
    };
    kept.map(|_| Some(own))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::{
        fixtures::{pod_result, run},
        merge::merge,
        summary::phases,
        validate::validate,
    };
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
    fn a_calibrating_run_tells_how_much_its_equal_repetitions_differ() {
        let (run, results) = calibrated([900, 1000, 1100], true);
        let noise = measured(&run, &phases(&run, &results), Timestamp::UNIX_EPOCH).unwrap();
        assert!((noise.throughput - 0.1).abs() < 1e-9, "{noise:?}");
        assert!(noise.p99.is_some_and(|p99| p99 < 1e-9), "every p99 is the same: {noise:?}");
        let (run, results) = calibrated([900, 1000, 1100], false);
        assert_eq!(measured(&run, &phases(&run, &results), Timestamp::UNIX_EPOCH), None);
    }

    #[test]
    fn noise_is_known_of_each_pair_of_nodes_and_the_largest_counts() {
        let (run, results) = calibrated([900, 1000, 1100], true);
        let pairs = pairs(&results);
        assert_eq!(Vec::from_iter(&pairs), ["server-a_client-a", "server-a_client-b"]);
        let noise = measured(&run, &phases(&run, &results), Timestamp::UNIX_EPOCH).unwrap();
        let text = |throughput| serde_json::to_string(&NoiseStatus { throughput, ..noise.clone() }).unwrap();
        let known = BTreeMap::from([
            ("server-a_client-a".to_owned(), text(0.02)),
            ("server-a_client-b".to_owned(), text(0.04)),
            ("server-b_client-a".to_owned(), text(0.9)),
        ]);
        let found = usual(&known, &pairs).unwrap();
        assert!((found.throughput - 0.04).abs() < 1e-9, "{found:?}");
        assert_eq!(usual(&BTreeMap::from([("server-a_client-a".into(), "?".into())]), &pairs), None);
    }
}
