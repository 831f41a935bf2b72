//! The order of a run's measurements. A repetition that lost a client is
//! measured again from its first phase: never a sum of parts. Pure.
//!
//! A run's attempts are laid out as repetition × measurement × phase; measurements
//! after the first exist only when the one before was lost.

pub mod clock;
pub mod timing;

use super::{
    observe::stored_result::StoredResult,
    validate::attempt::{Attempt, ValidatedRun},
};
use dragstrip_crds::run::OnFailure;
use dragstrip_results::result::{FailureStep, PodFailure, RepetitionResult};
use std::collections::BTreeMap;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Open,
    Good,
    /// A client was lost: the repetition may be measured again.
    Lost,
    /// Its result must not be used.
    Failed,
}

impl Outcome {
    /// The outcome of a stored result with this failure.
    pub fn of_failure(failure: Option<&PodFailure>) -> Self {
        match failure {
            None => Self::Good,
            Some(failure) if failure.failure.step == FailureStep::Lost => Self::Lost,
            Some(_) => Self::Failed,
        }
    }

    /// What it means for the run if it is that of `attempt`: a point that only confirms a limit fails
    /// nothing, and nothing is measured again for it.
    #[must_use]
    pub fn for_run(self, attempt: &Attempt) -> Self {
        if attempt.confirms() && self != Self::Open { Self::Good } else { self }
    }
}

/// The outcome of `attempt`, whose result may be among those `stored`.
fn outcome(attempt: &Attempt, stored: &BTreeMap<String, StoredResult>) -> Outcome {
    let failure = |result: &StoredResult| Outcome::of_failure(result.failure.as_ref());
    stored.get(&attempt.name).map_or(Outcome::Open, failure).for_run(attempt)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// The attempt with this index has no result yet and is the next to get one.
    At(usize),
    /// The failure of the attempt with this index ends the run.
    Failed(usize),
    Done,
}

/// Index of the first attempt of the next measurement of the repetition that
/// `attempt` (with `index`) belongs to; `None` when there are no more.
fn again(run: &ValidatedRun, index: usize, attempt: &Attempt) -> Option<usize> {
    let next = index - index % run.per_measurement + run.per_measurement;
    run.attempts.get(next).filter(|other| other.repetition == attempt.repetition).map(|_| next)
}

/// Index of the first attempt of the repetition after that of the attempt with `index`.
fn next_repetition(run: &ValidatedRun, index: usize) -> usize {
    let repetition = run.attempts[index].repetition;
    index + run.attempts[index..].iter().take_while(|attempt| attempt.repetition == repetition).count()
}

/// Whether the phases after a failed attempt are measured anyway.
fn goes_on(attempt: &Attempt) -> bool {
    attempt.declared.on_failure == OnFailure::Continue
}

/// How far `run` came; `outcome` gives the outcome of the attempt with an index.
/// A failure that did not stop it ends it as soon as nothing is left to measure.
pub fn place(run: &ValidatedRun, outcome: impl Fn(usize) -> Outcome) -> Place {
    let mut failed: Option<usize> = None;
    let mut index = 0;
    while let Some(attempt) = run.attempts.get(index) {
        let of_attempt = outcome(index);
        index = match of_attempt {
            Outcome::Open if !attempt.skipped => return Place::At(index),
            Outcome::Failed if !goes_on(attempt) => return Place::Failed(index),
            Outcome::Open | Outcome::Good | Outcome::Failed => {
                failed = failed.or((of_attempt == Outcome::Failed).then_some(index));
                if run.begins_measurement(index + 1) { next_repetition(run, index) } else { index + 1 }
            }
            Outcome::Lost => match again(run, index, attempt) {
                Some(next) => {
                    // What failed in the lost measurement is measured again too.
                    failed = failed.filter(|index| run.attempts[*index].repetition != attempt.repetition);
                    next
                }
                None => return Place::Failed(index),
            },
        };
    }
    failed.map_or(Place::Done, Place::Failed)
}

/// The phases that were not measured after `index` failed; none if it did not stop the run.
pub fn unmeasured(run: &ValidatedRun, index: usize) -> Vec<&str> {
    let attempt = &run.attempts[index];
    if goes_on(attempt) {
        return Vec::new();
    }
    run.spec.phases[attempt.phase_index + 1..].iter().map(|phase| phase.name.as_str()).collect()
}

/// How far `run` came by its stored results.
pub fn place_of(run: &ValidatedRun, stored: &BTreeMap<String, StoredResult>) -> Place {
    place(run, |index| outcome(&run.attempts[index], stored))
}

/// The attempts of measurements that lost no client.
fn complete(run: &ValidatedRun, lost: impl Fn(&Attempt) -> bool) -> impl Iterator<Item = &Attempt> {
    let measurements = run.attempts.chunks(run.per_measurement);
    measurements.filter(move |measurement| !measurement.iter().any(&lost)).flatten()
}

/// How many good results measurements have that lost no client.
pub fn done(run: &ValidatedRun, stored: &BTreeMap<String, StoredResult>) -> usize {
    let complete = complete(run, |attempt| outcome(attempt, stored) == Outcome::Lost);
    complete.filter(|attempt| outcome(attempt, stored) == Outcome::Good).count()
}

/// How many results the run will have: in each repetition those of its first measurement that was
/// not lost. A search under way counts with as many points as it may need.
pub fn wanted(run: &ValidatedRun, stored: &BTreeMap<String, StoredResult>) -> usize {
    let lost = |attempt: &Attempt| outcome(attempt, stored) == Outcome::Lost;
    let repetitions = run.attempts.chunk_by(|one, other| one.repetition == other.repetition);
    let needed = |repetition: &[Attempt]| {
        let mut measurements = repetition.chunks(run.per_measurement);
        let first = measurements.find(|measurement| !measurement.iter().any(lost));
        let last = repetition.rchunks(run.per_measurement).next();
        first.or(last).unwrap_or_default().iter().filter(|attempt| !attempt.skipped).count()
    };
    repetitions.map(needed).sum()
}

/// The attempts whose results count, with them: good ones of measurements that lost no client.
/// Results of a lost measurement are never added to another's.
pub fn counted<'a>(
    run: &'a ValidatedRun,
    stored: &'a BTreeMap<String, RepetitionResult>,
) -> impl Iterator<Item = (&'a Attempt, &'a RepetitionResult)> {
    let result = |attempt: &Attempt| stored.get(&attempt.name);
    let lost = move |attempt: &Attempt| {
        let outcome = |it: &RepetitionResult| Outcome::of_failure(it.failure.as_ref()).for_run(attempt);
        result(attempt).is_some_and(|it| outcome(it) == Outcome::Lost)
    };
    complete(run, lost)
        .filter_map(move |attempt| Some((attempt, result(attempt)?)))
        .filter(|(_, result)| result.failure.is_none())
}

/// Attempts that were lost and whose repetition was, or is to be, measured again.
pub fn retried<'a>(
    run: &'a ValidatedRun,
    stored: &'a BTreeMap<String, StoredResult>,
) -> impl Iterator<Item = (&'a Attempt, &'a PodFailure)> {
    run.attempts.iter().enumerate().filter_map(|(index, attempt)| {
        let failure = stored.get(&attempt.name)?.failure.as_ref()?;
        let lost = Outcome::of_failure(Some(failure)).for_run(attempt) == Outcome::Lost;
        (lost && again(run, index, attempt).is_some()).then_some((attempt, failure))
    })
}

/// The names of results that are in no figure because their repetition was measured again.
pub fn lost_and_measured_again<'a>(
    run: &'a ValidatedRun,
    stored: &'a BTreeMap<String, RepetitionResult>,
) -> impl Iterator<Item = &'a str> {
    let mut newest: BTreeMap<u32, u32> = BTreeMap::new();
    for attempt in run.attempts.iter().filter(|attempt| stored.contains_key(&attempt.name)) {
        let known = newest.entry(attempt.repetition).or_default();
        *known = attempt.measurement.max(*known);
    }
    let superseded = move |attempt: &&Attempt| {
        newest.get(&attempt.repetition).is_some_and(|newest| attempt.measurement < *newest)
    };
    run.attempts.iter().filter(superseded).map(|attempt| attempt.name.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        fixtures::{lost, pod_result, run},
        run::{merge::merge, validate::validate},
    };
    use Outcome::{Failed, Good, Lost, Open};

    fn plan(repetitions: i32, max_retries: i32) -> ValidatedRun {
        let mut run = run(&["write", "read"], repetitions);
        run.spec.max_retries = max_retries;
        validate(&run).unwrap()
    }

    fn at(run: &ValidatedRun, outcomes: &[(&str, Outcome)]) -> String {
        let of = |index: usize| {
            let name = &run.attempts[index].name;
            outcomes.iter().find(|(attempt, _)| attempt == name).map_or(Open, |(_, outcome)| *outcome)
        };
        match place(run, of) {
            Place::At(index) => run.attempts[index].name.clone(),
            Place::Failed(index) => format!("failed in {}", run.attempts[index].name),
            Place::Done => "done".to_owned(),
        }
    }

    #[test]
    fn a_lost_repetition_is_measured_again_from_its_first_phase_and_at_most_so_often() {
        type Row<'a> = (&'a str, &'a [(&'a str, Outcome)], &'a str);
        let (w1, r1) = ("sprint-write-1", "sprint-read-1");
        let (w1b, r1b) = ("sprint-write-1b", "sprint-read-1b");
        let table: [Row<'_>; 12] = [
            ("the first phase comes first", &[], w1),
            ("phases follow each other", &[(w1, Good)], r1),
            ("repetitions follow each other", &[(w1, Good), (r1, Good)], "sprint-write-2"),
            ("a lost first phase is measured again", &[(w1, Lost)], w1b),
            ("a lost second phase starts from the first", &[(w1, Good), (r1, Lost)], w1b),
            ("the second measurement goes on", &[(w1, Good), (r1, Lost), (w1b, Good)], r1b),
            (
                "the next repetition follows the second measurement",
                &[(w1, Lost), (w1b, Good), (r1b, Good)],
                "sprint-write-2",
            ),
            ("a second loss is one too many", &[(w1, Lost), (w1b, Lost)], "failed in sprint-write-1b"),
            (
                "a second loss in another phase too",
                &[(w1, Good), (r1, Lost), (w1b, Good), (r1b, Lost)],
                "failed in sprint-read-1b",
            ),
            ("another failure is not measured again", &[(w1, Failed)], "failed in sprint-write-1"),
            ("nor in a second measurement", &[(w1, Lost), (w1b, Failed)], "failed in sprint-write-1b"),
            (
                "every repetition has its own measurements",
                &[(w1, Lost), (w1b, Good), (r1b, Good), ("sprint-write-2", Lost)],
                "sprint-write-2b",
            ),
        ];
        for (sentence, outcomes, expected) in table {
            assert_eq!(at(&plan(2, 1), outcomes), expected, "{sentence}");
        }
    }

    #[test]
    fn without_retries_a_loss_ends_the_run() {
        assert_eq!(at(&plan(1, 0), &[("sprint-write-1", Lost)]), "failed in sprint-write-1");
        assert_eq!(at(&plan(1, 0), &[("sprint-write-1", Good), ("sprint-read-1", Good)]), "done");
    }

    #[test]
    fn a_phase_may_fail_without_stopping_the_others() {
        let mut run = run(&["write", "read"], 2);
        run.spec.max_retries = 1;
        run.spec.phases[0].on_failure = OnFailure::Continue;
        let run = validate(&run).unwrap();
        let (w1, r1, w2, r2) = ("sprint-write-1", "sprint-read-1", "sprint-write-2", "sprint-read-2");
        assert_eq!(at(&run, &[(w1, Failed)]), r1, "the next phase is measured");
        assert_eq!(at(&run, &[(w1, Failed), (r1, Good)]), w2, "and the next repetition");
        let end = [(w1, Failed), (r1, Good), (w2, Good), (r2, Good)];
        assert_eq!(at(&run, &end), "failed in sprint-write-1", "the run is failed in the end");
        assert_eq!(
            at(&run, &[(w1, Good), (r1, Failed)]),
            "failed in sprint-read-1",
            "another phase stops it"
        );
        let again = [
            (w1, Failed),
            (r1, Lost),
            ("sprint-write-1b", Good),
            ("sprint-read-1b", Good),
            (w2, Good),
            (r2, Good),
        ];
        assert_eq!(at(&run, &again), "done", "what failed in a lost measurement was measured again");
        assert_eq!(unmeasured(&run, 0), Vec::<&str>::new());
        let run = plan(1, 0);
        assert_eq!(unmeasured(&run, 0), ["read"]);
    }

    #[test]
    fn nothing_of_a_lost_measurement_counts() {
        let run = plan(1, 1);
        let stored: BTreeMap<_, _> = run
            .attempts
            .iter()
            .map(|attempt| {
                let pods = match attempt.name.as_str() {
                    "sprint-read-1" => vec![lost("p")],
                    _ => vec![pod_result("p", 1000, 1.0, 100)],
                };
                (attempt.name.clone(), merge(attempt, 1, pods))
            })
            .collect();
        let names: Vec<&str> = counted(&run, &stored).map(|(attempt, _)| attempt.name.as_str()).collect();
        assert_eq!(names, ["sprint-write-1b", "sprint-read-1b"], "the good first phase must not count twice");
        let stored: BTreeMap<_, _> = stored
            .iter()
            .map(|(name, result)| {
                (name.clone(), StoredResult { failure: result.failure.clone(), ..StoredResult::default() })
            })
            .collect();
        assert_eq!(done(&run, &stored), 2);
        let again: Vec<_> = retried(&run, &stored).map(|(attempt, _)| attempt.name.as_str()).collect();
        assert_eq!(again, ["sprint-read-1"]);
        assert_eq!(place_of(&run, &stored), Place::Done);
    }
}
