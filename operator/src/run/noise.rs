//! How much equal measurements differ in a place: measured by a run with
//! `calibrate: true`, kept for each pair of a server's and a client's node in a ConfigMap
//! beside the operator, told by every later run there. [`settle`] and what it calls need the
//! client, the rest is pure.

use crate::context::Context;
use dragstrip_core::{
    labels,
    run::{status::Results, validate::ValidatedRun},
};
use dragstrip_crds::run::{NoiseStatus, PhaseStatus};
use dragstrip_results::error_chain::chain;
use dragstrip_results::{result::TOTAL, statistics::spread};
use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::ConfigMap,
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time},
};
use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::json;
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
    Look(#[source] kube::Error),
    #[error("failed to write ConfigMap {NOISE} in the operator's namespace")]
    Keep(#[source] kube::Error),
    #[error(
        "ConfigMap {NOISE} in the operator's namespace is not Dragstrip's and is left alone: delete or rename it"
    )]
    NotOurs,
}

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

fn noise(value: &str) -> Option<NoiseStatus> {
    serde_json::from_str(value).ok()
}

/// The largest noise that is known of any of `pairs`. What cannot be read is as good as none.
fn usual(known: &BTreeMap<String, String>, pairs: &BTreeSet<String>) -> Option<NoiseStatus> {
    let of = |pair: &String| noise(known.get(pair)?);
    pairs.iter().filter_map(of).max_by(|one, other| one.throughput.total_cmp(&other.throughput))
}

/// Whether `found` is what runs that calibrate keep; the one that version 0.2 made has no labels.
fn is_ours(found: &ConfigMap) -> bool {
    let all_noise = || found.data.iter().flatten().all(|(_, value)| noise(value).is_some());
    match found.labels().get(labels::MANAGED_BY) {
        Some(manager) => manager == labels::OPERATOR,
        None => all_noise(),
    }
}

/// What is to be written: `own` for `pairs`, and nothing any more for what is `known` of `nodes`
/// that are gone. A ConfigMap has an end, and an autoscaler's nodes never come back.
fn written(
    own: &NoiseStatus,
    pairs: BTreeSet<String>,
    known: &BTreeMap<String, String>,
    nodes: &BTreeSet<String>,
) -> BTreeMap<String, Option<String>> {
    let there = |pair: &String| pair.split('_').all(|node| nodes.contains(node));
    let gone = known.keys().filter(|pair| !there(pair)).map(|pair| (pair.clone(), None));
    // A struct of numbers and texts always has a JSON form.
    let value = serde_json::to_string(own).unwrap_or_default();
    gone.chain(pairs.into_iter().map(|pair| (pair, Some(value.clone())))).collect()
}

/// Keeps `own` for later runs.
async fn keep(
    ctx: &Context,
    config_maps: &Api<ConfigMap>,
    own: &NoiseStatus,
    pairs: BTreeSet<String>,
) -> Result<(), Error> {
    let found = config_maps.get_opt(NOISE).await.map_err(Error::Look)?;
    let nodes = ctx.world.nodes.state().iter().map(|node| node.name_any()).collect();
    let stored = match found {
        None => {
            let data = written(own, pairs, &BTreeMap::new(), &nodes);
            let metadata = ObjectMeta {
                name: Some(NOISE.to_owned()),
                labels: Some(labels::common([])),
                ..ObjectMeta::default()
            };
            let data = data.into_iter().filter_map(|(pair, value)| Some((pair, value?))).collect();
            let all = ConfigMap { metadata, data: Some(data), ..ConfigMap::default() };
            config_maps.create(&PostParams::default(), &all).await
        }
        Some(found) if is_ours(&found) => {
            let data = written(own, pairs, &found.data.clone().unwrap_or_default(), &nodes);
            let metadata = json!({"uid": found.uid(), "labels": labels::common([])});
            let patch = Patch::Merge(json!({"metadata": metadata, "data": data}));
            config_maps.patch(NOISE, &PatchParams::default(), &patch).await
        }
        Some(_) => return Err(Error::NotOurs),
    };
    stored.map(drop).map_err(Error::Keep)
}

/// What is known of `pairs`.
async fn known(config_maps: &Api<ConfigMap>, pairs: &BTreeSet<String>) -> Result<Option<NoiseStatus>, Error> {
    let found = config_maps.get_opt(NOISE).await.map_err(Error::Look)?;
    Ok(found.and_then(|found| usual(&found.data?, pairs)))
}

/// The noise of the place of a run that ended well: its own where it calibrates, which is
/// kept for later ones, else what is known. What cannot be kept or looked up is logged and
/// holds up no run, which has measured what it was to measure.
pub async fn settle(
    ctx: &Context,
    run: &ValidatedRun,
    results: &Results,
    phases: &[PhaseStatus],
    now: Timestamp,
) -> Option<NoiseStatus> {
    let pairs = pairs(results);
    let config_maps: Api<ConfigMap> = Api::namespaced(ctx.client.clone(), &ctx.settings.namespace);
    let own = measured(run, phases, now);
    let settled = match &own {
        Some(own) => keep(ctx, &config_maps, own, pairs).await.map(|()| None),
        None => known(&config_maps, &pairs).await,
    };
    match settled {
        Ok(known) => {
            ctx.retries.settled(NOISE);
            own.or(known)
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
    use serde_json::Value;

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

    fn found(labels: &Value, value: &str) -> ConfigMap {
        serde_json::from_value(json!({"metadata": {"labels": labels}, "data": {"a_b": value}})).unwrap()
    }

    #[test]
    fn what_somebody_else_keeps_under_the_name_is_left_alone() {
        let own = r#"{"throughput": 0.1, "foundBy": {"namespace": "n", "name": "r"}, "measuredAt": "2026-01-01T00:00:00Z"}"#;
        assert!(is_ours(&found(&json!({"app.kubernetes.io/managed-by": "dragstrip-operator"}), "?")));
        assert!(is_ours(&found(&json!({}), own)), "version 0.2 made it without labels");
        assert!(!is_ours(&found(&json!({}), "theirs")));
        assert!(!is_ours(&found(&json!({"app.kubernetes.io/managed-by": "Helm"}), own)));
    }

    #[test]
    fn what_was_found_on_nodes_that_are_gone_is_removed() {
        let (run, results) = calibrated([900, 1000, 1100], true);
        let own = measured(&run, &phases(&run, &results), Timestamp::UNIX_EPOCH).unwrap();
        let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let known: BTreeMap<String, String> =
            ["s_gone", "gone_c", "s_c"].map(|pair| (pair.to_owned(), String::new())).into();
        let reported: BTreeMap<_, _> = written(&own, set(&["s_d"]), &known, &set(&["s", "c", "d"]))
            .into_iter()
            .map(|(pair, value)| (pair, value.is_some()))
            .collect();
        let expected = [("gone_c", false), ("s_d", true), ("s_gone", false)];
        assert_eq!(reported, expected.map(|(pair, stored)| (pair.to_owned(), stored)).into());
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
