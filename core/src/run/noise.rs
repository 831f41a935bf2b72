//! How much equal measurements differ, by the calibrating runs of a namespace that put the same load
//! on the same engine and kind of machines. Pure.

use dragstrip_crds::{
    BenchmarkRunStatus,
    run::{NoiseFigure, NoiseStatus, RepetitionStatus, RunPhase, RunReference, Verdict},
    thresholds::MetricName,
};
use dragstrip_results::statistics::{mean, squares};
use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use std::collections::BTreeMap;

/// Runs that ended within this time before the last one belong to the same calibration: what a machine
/// does changes over weeks, and that is not the noise of a comparison.
const ONE_CALIBRATION: SignedDuration = SignedDuration::from_hours(24);

type Figure = fn(&RepetitionStatus) -> Option<f64>;

const FIGURES: [(MetricName, Figure); 2] = [
    (MetricName::OperationsPerSecond, |row| row.operations_per_second),
    (MetricName::P99Milliseconds, |row| row.p99_milliseconds),
];

pub type Calibration<'a> = (RunReference, &'a BenchmarkRunStatus);

fn ended(status: &BenchmarkRunStatus) -> Option<&Time> {
    let usable = status.phase == RunPhase::Succeeded && status.verdict != Some(Verdict::Invalid);
    status.finished_at.as_ref().filter(|_| usable)
}

/// The facts by which noise is kept: engine, machines, and the workload of `phase`.
fn place<'a>(status: &'a BenchmarkRunStatus, phase: &str) -> Option<Vec<(&'a str, &'a str)>> {
    let facts = &status.comparability.as_ref()?.facts;
    let workload = format!("workload.{phase}");
    let counts = |name: &str| name == "server.engine" || name == workload || name.starts_with("machine.");
    Some(facts.iter().filter(|fact| counts(&fact.name)).map(|fact| (&*fact.name, &*fact.value)).collect())
}

fn same_place(status: &BenchmarkRunStatus, other: &BenchmarkRunStatus, phase: &str) -> bool {
    let own = place(status, phase);
    own.is_some() && place(other, phase) == own
}

/// Whether `other` measured a phase of `status` in the same place, and ended with usable figures.
pub fn calibrates(status: &BenchmarkRunStatus, other: &BenchmarkRunStatus) -> bool {
    ended(other).is_some() && status.phases.iter().any(|phase| same_place(status, other, &phase.name))
}

/// The values of each start of a server that `calibrations` measured in `phase`, in the place of `status`.
fn starts(
    status: &BenchmarkRunStatus,
    calibrations: &[&Calibration<'_>],
    phase: &str,
    figure: Figure,
) -> Vec<Vec<f64>> {
    let mut starts = BTreeMap::<&str, Vec<f64>>::new();
    for (_, other) in calibrations.iter().filter(|(_, other)| same_place(status, other, phase)) {
        // Without an identity, nobody knows whether the server started anew.
        let server = other.target.as_ref().and_then(|target| target.identity.as_deref()).unwrap_or_default();
        let measured = other.phases.iter().filter(|one| one.name == phase);
        let values = measured.flat_map(|one| one.repetitions.iter().filter_map(figure));
        starts.entry(server).or_default().extend(values);
    }
    starts.into_values().filter(|values| !values.is_empty()).collect()
}

/// The components of variance of repetitions within `starts`, and of the starts themselves (one-way
/// analysis of variance, unequal groups by their harmonic mean), as shares of the mean.
fn components(starts: &[Vec<f64>]) -> Option<(f64, Option<f64>)> {
    let measured: usize = starts.iter().map(Vec::len).sum();
    let degrees = measured.checked_sub(starts.len()).filter(|degrees| *degrees > 0)?;
    let within = starts.iter().map(|values| squares(values)).sum::<f64>() / degrees as f64;
    let means: Vec<f64> = starts.iter().map(|values| mean(values)).collect();
    let overall = mean(&means);
    let of_repetitions =
        starts.iter().map(|values| 1.0 / values.len() as f64).sum::<f64>() / means.len() as f64;
    let between = (means.len() > 1)
        .then(|| (squares(&means) / (means.len() - 1) as f64 - within * of_repetitions).max(0.0));
    (overall > 0.0).then(|| (within.sqrt() / overall, between.map(|between| between.sqrt() / overall)))
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// The noise that `calibrations` found for what `status` measured; `None` if none measured the same load
/// on the same engine and machines.
pub fn noise(status: &BenchmarkRunStatus, calibrations: &[Calibration<'_>]) -> Option<NoiseStatus> {
    let alike = calibrations.iter().filter(|(_, other)| calibrates(status, other));
    let alike: Vec<(&Calibration<'_>, &Time)> =
        alike.filter_map(|calibration| Some((calibration, ended(calibration.1)?))).collect();
    let (last, at) = alike.iter().max_by_key(|(_, ended)| ended.0)?;
    let recent = alike.iter().filter(|(_, ended)| at.0.duration_since(ended.0) <= ONE_CALIBRATION);
    let recent: Vec<&Calibration<'_>> = recent.map(|(calibration, _)| *calibration).collect();
    let figures = status.phases.iter().flat_map(|phase| FIGURES.map(|figure| (phase, figure)));
    let figures = figures.filter_map(|(phase, (metric, figure))| {
        let starts = starts(status, &recent, &phase.name, figure);
        let (between_repetitions, between_starts) = components(&starts)?;
        Some(NoiseFigure {
            phase: phase.name.clone(),
            metric,
            between_repetitions,
            between_starts,
            starts: count(starts.len()),
            repetitions: count(starts.iter().map(Vec::len).sum()),
        })
    });
    let figures: Vec<NoiseFigure> = figures.collect();
    (!figures.is_empty()).then(|| NoiseStatus {
        figures,
        found_by: last.0.clone(),
        measured_at: (*at).clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A run on one start of a server, with the facts `engine` and `workload`.
    fn status(
        server: &str,
        (engine, workload): (&str, &str),
        hour: i64,
        rates: &[f64],
    ) -> BenchmarkRunStatus {
        let repetitions: Vec<_> = (1..).zip(rates).map(|(number, rate)| {
            json!({"repetition": number, "configMap": "c", "windowSeconds": 5.0, "operationsPerSecond": rate,
                "p99Milliseconds": 1.0, "clientCpus": 1.0})
        }).collect();
        let ended = jiff::Timestamp::from_second(1_800_000_000 + hour * 3600).unwrap();
        serde_json::from_value(json!({
            "phase": "Succeeded", "verdict": "Valid", "finishedAt": ended.to_string(),
            "target": {"name": "redis", "identity": server},
            "comparability": {"key": "k", "facts": [{"name": "machine.server.cpuModel", "value": "Xeon"},
                {"name": "server.engine", "value": engine}, {"name": "server.version", "value": server},
                {"name": "workload.read", "value": workload}]},
            "phases": [{"name": "read", "tool": {"name": "loadgen"}, "operations": [], "repetitions": repetitions}]
        }))
        .unwrap()
    }

    fn found(of: &BenchmarkRunStatus, runs: &[BenchmarkRunStatus]) -> Option<NoiseStatus> {
        let named = |(number, status)| {
            (RunReference { namespace: "races".into(), name: format!("still-{number}") }, status)
        };
        noise(of, &runs.iter().enumerate().map(named).collect::<Vec<_>>())
    }

    const READS: (&str, &str) = ("Redis", "w1");

    #[test]
    fn repetitions_and_starts_are_two_levels_of_noise() {
        // Repetitions differ by 1 %, starts by 10 %.
        let runs = [
            status("a", READS, 1, &[890.0, 900.0, 910.0]),
            status("b", READS, 2, &[990.0, 1000.0, 1010.0]),
            status("c", READS, 3, &[1090.0, 1100.0, 1110.0]),
        ];
        let noise = found(&status("other", READS, 9, &[5.0]), &runs).unwrap();
        let figure = &noise.figures[0];
        assert_eq!(
            (figure.metric, figure.starts, figure.repetitions),
            (MetricName::OperationsPerSecond, 3, 9)
        );
        assert!((figure.between_repetitions - 0.01).abs() < 1e-9, "{figure:?}");
        let expected = (0.1_f64.powi(2) - 0.01_f64.powi(2) / 3.0).sqrt();
        assert!((figure.between_starts.unwrap() - expected).abs() < 1e-9, "{figure:?}");
        assert_eq!(
            (noise.found_by.name.as_str(), Some(&noise.measured_at)),
            ("still-2", runs[2].finished_at.as_ref())
        );
        assert!(noise.figures[1].between_repetitions.abs() < 1e-9, "every p99 is the same: {noise:?}");
    }

    #[test]
    fn one_start_says_nothing_of_the_next() {
        let runs = [status("a", READS, 1, &[890.0, 900.0, 910.0]), status("a", READS, 2, &[900.0, 900.0])];
        let figure = found(&runs[0], &runs).unwrap().figures.remove(0);
        assert_eq!((figure.between_starts, figure.starts, figure.repetitions), (None, 1, 5));
    }

    #[test]
    fn noise_is_that_of_the_same_engine_and_workload_and_of_one_day() {
        let of = status("own", READS, 90, &[5.0]);
        let calibration = |place, hour| status("a", place, hour, &[890.0, 900.0, 910.0]);
        assert_eq!(found(&of, &[calibration(("Valkey", "w1"), 1)]), None, "another engine");
        assert_eq!(found(&of, &[calibration(("Redis", "w2"), 1)]), None, "another workload");
        let old = status("b", READS, 1, &[1.0, 2.0, 3.0]);
        let figure = found(&of, &[old.clone(), calibration(READS, 40)]).unwrap().figures.remove(0);
        assert_eq!(figure.starts, 1, "the one of another day is not part of it: {figure:?}");
        let failed = BenchmarkRunStatus { verdict: Some(Verdict::Invalid), ..old };
        assert_eq!(found(&of, &[failed]), None, "an Invalid run calibrates nothing");
    }
}
