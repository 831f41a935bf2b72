//! The point with twice the connections that confirms whose limit a throughput was. Pure.

use super::validate::attempt::{Attempt, ValidatedRun};
use dragstrip_crds::{
    run::{ConfirmationStatus, LimitedBy, Limiter, PhaseSpec, PhaseStatus},
    units::Period,
    workload::ToolSpec,
};
use dragstrip_results::{confirmation::Gain, result::RepetitionResult, thresholds::operation};
use std::collections::BTreeMap;

/// Longest time that the point is measured, in seconds: it shows a gain and is not a figure.
const LONGEST_SECONDS: u32 = 10;

/// The tool of `phase` with twice the connections per thread, and their number, if the phase declares it.
pub fn doubled(phase: &PhaseSpec) -> Option<(ToolSpec, u64)> {
    let mut tool = phase.confirm.then(|| phase.tool.clone())?;
    let (connections, time) = match &mut tool {
        ToolSpec::Memtier(spec) => (&mut spec.connections_per_thread, &mut spec.test_time),
        ToolSpec::Loadgen(spec) => (&mut spec.connections_per_thread, &mut spec.duration),
        // The schema admits no confirm with them.
        ToolSpec::Bullmq(_) | ToolSpec::Exec(_) => return None,
    };
    *connections = connections.saturating_mul(2);
    let connections = u64::from(connections.unsigned_abs());
    let longest = Period::from_seconds(LONGEST_SECONDS);
    *time = time.take().map(|time| if time.duration() > longest.duration() { longest } else { time });
    Some((tool, connections))
}

/// `phase` with what the point of `declared` showed, if one was measured.
pub fn confirmed(
    run: &ValidatedRun,
    declared: &PhaseSpec,
    stored: &BTreeMap<String, RepetitionResult>,
    mut phase: PhaseStatus,
) -> PhaseStatus {
    let own = |attempt: &&Attempt| attempt.confirms() && attempt.phase == declared.name;
    let points = run.attempts.iter().filter(own);
    // The last repetition may have been measured several times: its last measurement counts.
    let point = points.rev().find_map(|attempt| Some((attempt, stored.get(&attempt.name)?)));
    let Some((attempt, result)) = point else { return phase };
    let failure = result.failure.as_ref().map(|failure| failure.failure.message.as_str());
    let rate = result.point.as_ref().filter(|_| failure.is_none());
    let total = operation(&phase, None).map(|total| total.operations_per_second);
    let Some((point, repetitions)) = rate.zip(total) else {
        let why = failure.unwrap_or("its throughput is unknown");
        phase.notes.push(format!("the point with twice the connections confirms nothing: {why}"));
        return phase;
    };
    let gain = Gain::of(&repetitions, point.operations_per_second);
    let found = phase.limited_by.as_ref().map_or(Limiter::NothingFound, |found| found.by);
    let saturated = result.limited_by.as_ref();
    let saturated = saturated.is_some_and(|limit| matches!(limit.by, Limiter::Client | Limiter::Both));
    let limiter = gain.limiter(found, saturated);
    if let Some(found) = phase.limited_by.as_mut().filter(|found| found.by != limiter) {
        let evidence = format!("shown by a point with twice the connections; {}", found.evidence);
        *found = LimitedBy { by: limiter, evidence };
    }
    phase.confirmation = Some(ConfirmationStatus {
        connections_per_thread: point.value,
        operations_per_second: point.operations_per_second,
        gain: gain.share,
        explained_by_noise: gain.explained_by_noise,
        message: gain.sentence(limiter, point.value),
        config_map: attempt.name.clone(),
    });
    phase
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        fixtures::{lost, pod_result, run},
        run::{
            merge::merge,
            plan::{Place, done, place_of, retried, wanted},
            stored_result::StoredResult,
            summary::phases,
            validate::validate,
        },
    };
    use dragstrip_crds::{BenchmarkRun, run::Verdict};
    use dragstrip_results::result::{Failure, FailureStep, PodResult};

    /// Two phases, of which the first is confirmed.
    fn declared(repetitions: i32) -> BenchmarkRun {
        let mut run = run(&["write", "read"], repetitions);
        run.spec.max_retries = 1;
        run.spec.phases[0].confirm = true;
        run
    }

    type Measured = (BTreeMap<String, StoredResult>, BTreeMap<String, RepetitionResult>);

    /// The run measured to its end with 1000 operations in each second, except the pods of the point,
    /// and the names of its measurements in order.
    fn measured(run: &BenchmarkRun, point: &PodResult) -> (ValidatedRun, Measured, Vec<String>) {
        let run = validate(run).unwrap();
        let (mut stored, mut results, mut order) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        while let Place::At(index) = place_of(&run, &stored) {
            let attempt = &run.attempts[index];
            let usual = pod_result("p", 1000, 1.0, 100);
            let pod = if attempt.confirms() { point.clone() } else { usual };
            let mut result = merge(attempt, attempt.pods, vec![pod]);
            if result.failure.is_none() {
                let evidence = "server thread at 97 %, or waiting".to_owned();
                result.limited_by = Some(LimitedBy { by: Limiter::Unknown, evidence });
                result.verdict = Some(Verdict::Valid);
            }
            let failure = result.failure.clone();
            stored.insert(attempt.name.clone(), StoredResult { failure, ..StoredResult::default() });
            order.push(attempt.name.clone());
            results.insert(attempt.name.clone(), result);
        }
        (run, (stored, results), order)
    }

    #[test]
    fn the_point_comes_after_all_phases_of_the_last_repetition() {
        let (run, (stored, _), order) = measured(&declared(2), &pod_result("p", 1800, 1.0, 100));
        assert_eq!(
            order,
            ["sprint-write-1", "sprint-read-1", "sprint-write-2", "sprint-read-2", "sprint-write-x2"]
        );
        assert_eq!((done(&run, &stored), wanted(&run, &stored)), (5, 5));
        assert_eq!(place_of(&run, &stored), Place::Done);
    }

    #[test]
    fn the_point_has_twice_the_connections_and_at_most_ten_seconds() {
        let mut run = declared(1);
        let loadgen = serde_json::json!({"duration": "60s", "connectionsPerThread": 20});
        run.spec.phases[0].tool = ToolSpec::Loadgen(serde_json::from_value(loadgen).unwrap());
        let (tool, connections) = doubled(&run.spec.phases[0]).unwrap();
        let ToolSpec::Loadgen(spec) = &tool else { panic!("{tool:?}") };
        assert_eq!((connections, spec.connections_per_thread), (40, 40));
        assert_eq!(tool.planned_seconds(), Some(10.0));
        assert_eq!(doubled(&run.spec.phases[1]), None);
        let without = PhaseSpec { confirm: false, ..run.spec.phases[0].clone() };
        assert_eq!(run.spec.phases[0].measured(), without, "runs with and without the point are comparable");
    }

    #[test]
    fn a_gain_makes_the_connections_the_limit_and_is_in_no_figure() {
        let (run, (_, results), _) = measured(&declared(3), &pod_result("p", 1800, 1.0, 100));
        let phases = phases(&run, &results);
        let confirmation = phases[0].confirmation.as_ref().expect("no confirmation");
        assert!((confirmation.gain - 0.8).abs() < 1e-6, "{confirmation:?}");
        assert!(confirmation.message.contains("the server had room"), "{confirmation:?}");
        assert_eq!(confirmation.config_map, "sprint-write-x3");
        assert_eq!(phases[0].limited_by.as_ref().unwrap().by, Limiter::Connections);
        assert_eq!(phases[0].repetitions.len(), 3, "the point is not a repetition");
        assert!((phases[0].operations[0].operations_per_second.mean - 1000.0).abs() < 1e-6);
        assert_eq!(phases[1].confirmation, None);
    }

    #[test]
    fn no_gain_makes_the_server_the_limit() {
        let (run, (_, results), _) = measured(&declared(3), &pod_result("p", 1010, 1.0, 100));
        let limit = phases(&run, &results)[0].limited_by.clone().unwrap();
        assert_eq!(limit.by, Limiter::Server, "{limit:?}");
        assert!(limit.evidence.starts_with("shown by a point with twice the connections"), "{limit:?}");
    }

    #[test]
    fn a_point_that_fails_or_loses_its_client_fails_no_run_and_is_not_measured_again() {
        let refused = Failure::new(FailureStep::ErrorReplies, "max number of clients reached".to_owned());
        let failed = PodResult { failure: Some(refused), ..pod_result("p", 0, 1.0, 100) };
        for (point, why) in [(failed, "max number of clients reached"), (lost("p"), "is lost")] {
            let (run, (stored, results), order) = measured(&declared(2), &point);
            assert_eq!(order.len(), 5, "{order:?}");
            assert_eq!(place_of(&run, &stored), Place::Done);
            assert_eq!(retried(&run, &stored).count(), 0);
            let phases = phases(&run, &results);
            assert_eq!(phases[0].repetitions.len(), 2, "the repetitions count");
            assert_eq!(phases[0].confirmation, None);
            let note = phases[0].notes.iter().find(|note| note.contains("confirms nothing"));
            assert!(note.is_some_and(|note| note.contains(why)), "{:?}", phases[0].notes);
            assert_eq!(phases[0].limited_by.as_ref().unwrap().by, Limiter::Unknown);
        }
    }
}
