//! The oracles: how an experiment with a fault compares with one without. The end state, the quiet
//! afterwards and the end of the deletion are awaited by the experiment itself. Pure.

use crate::{
    experiment::{RECOVERED_WITHIN, Shown, of_scenario, retries},
    state::{State, differences},
};
use dragstrip_bench_operator::runners::Load;
use dragstrip_fault_proxy::engine::Entry;
use std::collections::{BTreeMap, BTreeSet};

/// How many objects of each kind the operators created and deleted.
fn counts(entries: &[Entry]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for entry in entries.iter().filter(|entry| of_scenario(entry) && entry.request.mutates) {
        let done = entry.status.is_some_and(|status| status < 300);
        let counted = matches!(entry.request.verb, "POST" | "DELETE");
        // Events inform, and the operator's own key is for all runs. A run may return a turn after a conflict,
        // and an operator that starts again may find one that it would have returned.
        let ignored = matches!(entry.request.resource.as_str(), "events" | "secrets" | "leases");
        if done && counted && !ignored {
            *counts.entry(format!("{} {}", entry.request.verb, entry.request.resource)).or_default() += 1;
        }
    }
    counts
}

/// The loads of one measurement.
#[derive(Debug, Default, PartialEq, Eq)]
struct Measured {
    starts: BTreeSet<i64>,
    pods: BTreeSet<String>,
}

type Measurement = (String, String, u32);

fn measured(loads: &[Load]) -> BTreeMap<&Measurement, Measured> {
    let mut measured: BTreeMap<&Measurement, Measured> = BTreeMap::new();
    for load in loads {
        let of = measured.entry(&load.of).or_default();
        of.starts.insert(load.start);
        of.pods.insert(load.pod.clone());
    }
    measured
}

/// Whether each measurement ran once, or as often more as its run says.
fn judge_loads(golden: &[Load], found: &[Load], retried: usize) -> Vec<String> {
    let (expected, found_by) = (measured(golden), measured(found));
    let mut wrong = Vec::new();
    for (of, measured) in &found_by {
        let starts = measured.starts.len();
        if starts > 1 + retried {
            wrong.push(format!(
                "{of:?} was measured {starts} times, and {retried} repetitions are recorded as measured again"
            ));
        }
    }
    for (of, one) in &expected {
        match found_by.get(of) {
            None => wrong.push(format!("{of:?} was not measured")),
            Some(other) if retried == 0 && other.pods.len() != one.pods.len() => {
                wrong.push(format!("{of:?} was loaded by {} pods, not {}", other.pods.len(), one.pods.len()));
            }
            Some(_) => {}
        }
    }
    let twice = found.iter().filter_map(|load| Some((load, load.second_start?)));
    wrong.extend(twice.map(|(load, start)| {
        format!("pod {} received the start line {start} after {}", load.pod, load.start)
    }));
    let mut sorted: Vec<&Load> = found.iter().collect();
    sorted.sort_by_key(|load| load.start);
    let pairs =
        sorted.windows(2).filter(|pair| pair[0].start != pair[1].start && pair[1].start < pair[0].end);
    wrong.extend(pairs.map(|pair| format!("the loads of pods {} and {} overlap", pair[0].pod, pair[1].pod)));
    wrong
}

/// How the runs of a state ended.
fn phases(state: &State) -> BTreeMap<&String, Option<&str>> {
    let ours = |key: &str| key.starts_with("benchmarkruns ") || key.starts_with("benchmarksuites ");
    let objects = state.iter().filter(|(key, _)| ours(key));
    objects
        .map(|(key, object)| (key, object.pointer("/status/phase").and_then(|phase| phase.as_str())))
        .collect()
}

/// The runs and suites of a state that did not succeed.
pub fn failed(state: &State) -> Vec<String> {
    let failed = phases(state).into_iter().filter(|(_, phase)| *phase != Some("Succeeded"));
    failed.map(|(key, phase)| format!("{key} ended {phase:?}: {}", state[key]["status"]["message"])).collect()
}

/// The judgement of one experiment.
#[derive(Debug, Default)]
pub struct Judgement {
    /// What differs from the experiment without a fault.
    pub wrong: Vec<String>,
    /// Repetitions that were measured again.
    pub retries: usize,
    /// How much longer it took, in seconds.
    pub longer: f64,
}

/// Judges `found`, which has ended and is quiet.
pub fn judge(golden: &Shown, found: &Shown) -> Judgement {
    let retries = retries(&found.end);
    let longer = found.took.as_secs_f64() - golden.took.as_secs_f64();
    let mut wrong = judge_loads(&golden.loads, &found.loads, retries);
    if retries == 0 {
        wrong.extend(differences(&golden.end, &found.end));
        let (one, other) = (counts(&golden.entries), counts(&found.entries));
        for what in one.keys().chain(other.keys()).collect::<BTreeSet<_>>() {
            let (one, other) = (one.get(what).unwrap_or(&0), other.get(what).unwrap_or(&0));
            if one != other {
                wrong.push(format!("{what}: {other} times, not {one}"));
            }
        }
    } else if phases(&golden.end) != phases(&found.end) {
        wrong.push(format!("the runs ended {:?}, not {:?}", phases(&found.end), phases(&golden.end)));
    }
    wrong.extend(differences(&golden.left, &found.left));
    if longer > RECOVERED_WITHIN.as_secs_f64() {
        wrong.push(format!("it took {longer:.0} s longer"));
    }
    Judgement { wrong, retries, longer }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(phase: &str, pod: &str, start: i64, end: i64) -> Load {
        let of = ("sprint".to_owned(), phase.to_owned(), 1);
        Load { namespace: "a".to_owned(), of, pod: pod.to_owned(), start, end, second_start: None }
    }

    #[test]
    fn a_phase_that_loads_twice_is_reported_unless_its_run_says_so() {
        let golden = [load("read", "a", 0, 10)];
        let twice = [load("read", "a", 0, 10), load("read", "b", 20, 30)];
        assert_eq!(judge_loads(&golden, &golden, 0), [""; 0]);
        assert!(judge_loads(&golden, &twice, 0)[0].contains("measured 2 times"));
        assert_eq!(judge_loads(&golden, &twice, 1), [""; 0]);
        assert!(judge_loads(&golden, &[], 0)[0].contains("was not measured"));
    }

    #[test]
    fn loads_that_overlap_and_a_second_start_line_are_reported() {
        let golden = [load("write", "a", 0, 10), load("read", "b", 20, 30)];
        let overlapping = [load("write", "a", 0, 10), load("read", "b", 9, 19)];
        assert_eq!(judge_loads(&golden, &overlapping, 0), ["the loads of pods a and b overlap"]);
        let mut second = golden.clone();
        second[0].second_start = Some(5);
        assert_eq!(judge_loads(&golden, &second, 0), ["pod a received the start line 5 after 0"]);
    }
}
