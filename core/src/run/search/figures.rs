//! What the searches of a phase found, as the status shows it. Pure.

use super::knee::{Next, next, so_far, without_usage};
use crate::run::validate::attempt::Attempt;
use dragstrip_crds::run::{KneeStatus, OperationStatus, SearchPointStatus, SearchSpec, SearchStatus};
use dragstrip_results::{
    result::{RepetitionResult, TOTAL},
    search::SearchPoint,
};

/// Most points in a status; a search has 38 at most.
const MOST_POINTS: usize = 120;

type Good<'a> = (&'a Attempt, &'a RepetitionResult);

/// What the searches of all repetitions found.
pub struct Searched<'a> {
    pub status: SearchStatus,
    /// The phase's results: those of the knees, or the best so far without a knee.
    pub shown: Vec<Good<'a>>,
    pub notes: Vec<String>,
}

fn point((attempt, result): &Good<'_>, point: &SearchPoint) -> SearchPointStatus {
    SearchPointStatus {
        repetition: attempt.repetition,
        value: point.value,
        share: point.share,
        operations_per_second: point.operations_per_second,
        latency_milliseconds: result.total().map(|total| total.latency_milliseconds).unwrap_or_default(),
        server_cpus: point.server_cpus,
        followed: point.followed,
        verdict: result.verdict,
        config_map: attempt.name.clone(),
    }
}

/// The knee of all repetitions: their median, the lower one of two, between the outermost ends.
fn joined(knees: &[KneeStatus]) -> Option<KneeStatus> {
    let mut by_value: Vec<&KneeStatus> = knees.iter().collect();
    by_value.sort_by_key(|knee| knee.value);
    let median = by_value.get(by_value.len().checked_sub(1)? / 2)?;
    Some(KneeStatus {
        repetition: None,
        low: knees.iter().map(|knee| knee.low).min()?,
        high: knees.iter().map(|knee| knee.high).max()?,
        ..(*median).clone()
    })
}

/// Why the search of these points ended without a knee.
fn without_knee(search: &SearchSpec, points: &[SearchPoint]) -> String {
    let unit = search.raise.unit();
    match without_usage(search, points) {
        Some(value) => format!(
            "the search ended at {value} {unit}: nothing measured the CPUs that the servers used there, which search.until.serverCpus limits; measure servers of a Datastore, or use p99 or gain"
        ),
        None => format!(
            "{} {unit} is beyond the bound already: lower search.from, or allow more in search.until",
            search.from
        ),
    }
}

/// What the `good` results of the phase that `search` belongs to say, in the order measured.
pub fn searched<'a>(search: &SearchSpec, good: &[Good<'a>]) -> Searched<'a> {
    let mut points: Vec<SearchPointStatus> = Vec::new();
    let (mut rates, mut knees, mut notes) = (Vec::new(), Vec::new(), Vec::new());
    let (mut of_knees, mut best) = (Vec::new(), Vec::new());
    let mut left_out = false;
    for repetition in good.chunk_by(|a, b| a.0.repetition == b.0.repetition) {
        let known = repetition.iter().filter_map(|one| Some((one, one.1.point.as_ref()?)));
        let (shares, values): (Vec<_>, Vec<_>) = known.partition(|(_, point)| point.share.is_some());
        let figures: Vec<SearchPoint> = values.iter().map(|(_, point)| (*point).clone()).collect();
        match next(search, &figures) {
            Next::Done(Some(knee)) => {
                let (good, found) = values[knee.point];
                of_knees.push(*good);
                knees.push(KneeStatus {
                    repetition: Some(good.0.repetition),
                    value: found.value,
                    low: knee.low,
                    high: knee.high,
                    operations_per_second: found.operations_per_second,
                    p99_milliseconds: found.p99_milliseconds,
                    why: knee.why,
                });
            }
            Next::Done(None) => {
                let why = without_knee(search, &figures);
                notes.push(format!("repetition {}: {why}", repetition[0].0.repetition));
            }
            Next::Measure(_) => {}
        }
        best.extend(so_far(search, &figures).map(|index| *values[index].0));
        left_out |= points.len() + values.len() > MOST_POINTS;
        if !left_out {
            let from = points.len();
            points.extend(values.iter().map(|(good, figures)| point(good, figures)));
            points[from..].sort_by_key(|point| point.value);
            rates.extend(shares.iter().map(|(good, figures)| point(good, figures)));
        }
    }
    if left_out {
        notes
            .push("points of later repetitions are left out: dragstrip report --results has them".to_owned());
    }
    let knee = joined(&knees);
    let per_repetition = if knees.len() > 1 { knees } else { Vec::new() };
    Searched {
        status: SearchStatus { raise: search.raise, points, knee, per_repetition, rates },
        shown: if of_knees.is_empty() { best } else { of_knees },
        notes,
    }
}

/// `status` with the knee's figures as those of all repetitions, which `operations` has.
pub fn with_figures(mut status: SearchStatus, operations: &[OperationStatus]) -> SearchStatus {
    let total = operations.iter().find(|row| row.operation == TOTAL);
    if let Some((knee, total)) = status.knee.as_mut().zip(total) {
        knee.operations_per_second = total.operations_per_second.mean;
        knee.p99_milliseconds = total.latency_milliseconds.p99;
    }
    status
}

#[cfg(test)]
mod tests {
    use crate::{
        fixtures::{pod_result, searching},
        run::{
            merge::merge,
            plan::{Place, place_of},
            search::settle,
            stored_result::StoredResult,
            summary::phases,
            validate::validate,
        },
    };
    use dragstrip_crds::{
        BenchmarkRun,
        run::{KneeReason, PhaseStatus},
    };
    use serde_json::{Value, json};
    use std::collections::BTreeMap;

    /// The status of phase knee of `run` after so many measurements, of a server that adds 1000/s
    /// and 100 µs for each connection.
    fn measured(run: &BenchmarkRun, most: usize) -> PhaseStatus {
        let (mut known, mut stored) = (BTreeMap::new(), BTreeMap::new());
        loop {
            let mut run = validate(run).unwrap();
            settle(&mut run, &known, &BTreeMap::new());
            let Place::At(index) = place_of(&run, &known) else { return phases(&run, &stored).remove(1) };
            if stored.len() == most {
                return phases(&run, &stored).remove(1);
            }
            let attempt = &run.attempts[index];
            let value = attempt.point.as_ref().and_then(|point| point.value).unwrap_or(1);
            let result = merge(attempt, attempt.pods, vec![pod_result("p", 1000 * value, 1.0, 100 * value)]);
            known.insert(
                attempt.name.clone(),
                StoredResult { point: result.point.clone(), ..StoredResult::default() },
            );
            stored.insert(attempt.name.clone(), result);
        }
    }

    fn search(until: &Value) -> Value {
        json!({"raise": "Connections", "to": 8, "until": until, "rates": ["0.5"]})
    }

    #[test]
    fn the_phases_figures_are_those_of_the_knee_and_the_curve_is_beside_them() {
        let phase = measured(&searching(search(&json!({"p99": "550us"})), 1), usize::MAX);
        let found = phase.search.unwrap();
        let curve: Vec<(u64, String)> =
            found.points.iter().map(|point| (point.value, point.config_map.clone())).collect();
        let expected = [(1, 1), (2, 2), (4, 3), (5, 8), (5, 9), (6, 6), (6, 7), (8, 4), (8, 5)];
        assert_eq!(curve, expected.map(|(value, number)| (value, format!("sprint-knee-1p{number}"))));
        let knee = found.knee.unwrap();
        assert_eq!((knee.value, knee.low, knee.high, knee.why), (5, 5, 6, KneeReason::P99));
        assert!((knee.operations_per_second - 5000.0).abs() < 1e-6 && knee.repetition.is_none());
        assert_eq!(found.per_repetition, []);
        assert_eq!(phase.repetitions.len(), 1);
        assert_eq!(phase.repetitions[0].config_map, "sprint-knee-1p8");
        assert!(
            (phase.operations[0].operations_per_second.mean - 5000.0).abs() < 1e-6,
            "the headline is the knee's"
        );
        assert_eq!(found.rates[0].value, 2500);
        assert_eq!(found.rates[0].config_map, "sprint-knee-1r1");
    }

    #[test]
    fn each_repetition_finds_its_own_knee_and_the_median_stands_for_them() {
        let phase = measured(&searching(search(&json!({"p99": "550us"})), 3), usize::MAX);
        let found = phase.search.unwrap();
        assert_eq!(found.per_repetition.len(), 3);
        assert_eq!(found.per_repetition[2].repetition, Some(3));
        assert_eq!(found.knee.map(|knee| (knee.repetition, knee.value)), Some((None, 5)));
        assert_eq!(phase.repetitions.len(), 3, "one row for each repetition's knee");
        assert_eq!((found.points.len(), found.rates.len()), (27, 3));
    }

    #[test]
    fn a_status_holds_the_points_of_so_many_repetitions_as_fit() {
        let phase = measured(&searching(search(&json!({"p99": "550us"})), 30), usize::MAX);
        let found = phase.search.unwrap();
        assert_eq!(found.points.len(), 117, "a search is there as a whole");
        assert_eq!(found.per_repetition.len(), 30, "the knees are all there");
        assert!(
            phase.notes.iter().any(|note| note.starts_with("points of later repetitions")),
            "{:?}",
            phase.notes
        );
    }

    #[test]
    fn before_its_end_a_search_shows_its_best_value_and_no_knee() {
        let phase = measured(&searching(search(&json!({"p99": "550us"})), 1), 5);
        let found = phase.search.unwrap();
        assert_eq!((found.points.len(), found.knee), (4, None));
        assert_eq!(phase.repetitions[0].config_map, "sprint-knee-1p3", "4 is the last within the bound");
    }

    #[test]
    fn a_first_value_beyond_the_bound_is_reported_with_the_remedy() {
        let phase = measured(&searching(search(&json!({"p99": "50us"})), 1), usize::MAX);
        let found = phase.search.unwrap();
        assert_eq!((found.knee, found.rates.len(), found.points.len()), (None, 0, 2));
        assert!(
            phase.notes[0].contains("repetition 1: 1 connections per thread is beyond the bound"),
            "{:?}",
            phase.notes
        );
    }

    #[test]
    fn a_search_by_the_servers_cpus_without_their_usage_ends_at_once_and_says_why() {
        let phase = measured(&searching(search(&json!({"serverCpus": "0.7"})), 1), usize::MAX);
        let found = phase.search.unwrap();
        assert_eq!((found.knee, found.rates.len(), found.points.len()), (None, 0, 1));
        let note = &phase.notes[0];
        assert!(note.contains("repetition 1: the search ended at 1 connections per thread"), "{note}");
        assert!(note.contains("search.until.serverCpus limits; measure servers of a Datastore"), "{note}");
    }
}
