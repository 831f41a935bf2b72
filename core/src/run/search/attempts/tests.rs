//! A search in a run, point by point, as after a restart before each of them.

use super::*;
use crate::{
    fixtures::{lost, searching},
    run::{
        plan::{Place, done, place_of, unmeasured, wanted},
        validate::validate,
    },
};
use dragstrip_crds::{BenchmarkRun, run::OnFailure};
use dragstrip_results::result::{FailureStep, PodFailure};
use serde_json::{Value, json};

type Results = BTreeMap<String, StoredResult>;

/// The run as a pass sees it that finds `stored` and `jobs` alone.
fn settled(run: &BenchmarkRun, stored: &Results, jobs: &BTreeMap<String, JobFacts>) -> ValidatedRun {
    let mut run = validate(run).unwrap();
    settle(&mut run, stored, jobs);
    run
}

fn no_jobs() -> BTreeMap<String, JobFacts> {
    BTreeMap::new()
}

fn to_sixteen() -> Value {
    json!({"raise": "Connections", "to": 16, "until": {"p99": "1ms"}, "rates": ["0.5", "0.9"]})
}

/// A good result of `attempt`: each connection adds 1000/s and a tenth of `bound` milliseconds.
fn good(attempt: &Attempt, bound: f64) -> StoredResult {
    let point = attempt.point.as_ref().map(|point| {
        let value = point.value.expect("a value is known before its point is measured");
        SearchPoint {
            value,
            share: point.share,
            operations_per_second: 1000.0 * value as f64,
            p99_milliseconds: Some(value as f64 / bound),
            server_cpus: None,
            followed: true,
        }
    });
    StoredResult { point, ..StoredResult::default() }
}

fn failed(step: FailureStep) -> StoredResult {
    let mut failure = lost("p").failure.unwrap();
    failure.step = step;
    StoredResult { failure: Some(PodFailure { pod: "p".into(), failure }), ..StoredResult::default() }
}

/// Where the run stands, for reading.
fn stands(run: &ValidatedRun, stored: &Results) -> String {
    match place_of(run, stored) {
        Place::At(index) => {
            let attempt = &run.attempts[index];
            let value = attempt.point.as_ref().and_then(|point| point.value);
            attempt.name["sprint-".len()..].to_owned()
                + &value.map(|value| format!("={value}")).unwrap_or_default()
        }
        Place::Failed(index) => format!("failed in {}", run.attempts[index].name),
        Place::Done => "done".to_owned(),
    }
}

/// Everything measured, in order, until `run` ends; `result` decides what becomes of an attempt.
fn course(run: &BenchmarkRun, result: impl Fn(&Attempt) -> StoredResult) -> (Vec<String>, Results) {
    let (mut course, mut stored) = (Vec::new(), Results::new());
    loop {
        // Each time anew, as an operator that was just started.
        let run = settled(run, &stored, &no_jobs());
        course.push(stands(&run, &stored));
        let Place::At(index) = place_of(&run, &stored) else { return (course, stored) };
        stored.insert(run.attempts[index].name.clone(), result(&run.attempts[index]));
    }
}

#[test]
fn each_value_follows_from_the_figures_before_it_and_what_is_not_needed_is_skipped() {
    let run = searching(to_sixteen(), 2);
    // The second repetition has a slower server.
    let bound = |attempt: &Attempt| if attempt.repetition == 1 { 6.0 } else { 3.0 };
    let (course, stored) = course(&run, |attempt| good(attempt, bound(attempt)));
    let first = ["write-1", "knee-1p1=1", "knee-1p2=2", "knee-1p3=4", "knee-1p4=8", "knee-1p5=8"];
    let then =
        ["knee-1p6=6", "knee-1p7=7", "knee-1p8=7", "knee-1p9=6", "knee-1r1=3000", "knee-1r2=5400", "write-2"];
    let second =
        ["knee-2p1=1", "knee-2p2=2", "knee-2p3=4", "knee-2p4=4", "knee-2p5=3", "knee-2p6=3", "knee-2r1=1500"];
    let expected: Vec<&str> =
        first.into_iter().chain(then).chain(second).chain(["knee-2r2=2700", "done"]).collect();
    assert_eq!(course, expected);
    let run = settled(&run, &stored, &no_jobs());
    assert_eq!((done(&run, &stored), wanted(&run, &stored)), (21, 21), "progress ends at what there was");
}

#[test]
fn before_a_search_has_ended_the_most_that_it_may_need_is_wanted() {
    let run = searching(to_sixteen(), 1);
    let stored = Results::new();
    let begun = settled(&run, &stored, &no_jobs());
    // 1 to 16 are five, four halvings, fourteen repeats, two shares, and the phase before.
    assert_eq!(wanted(&begun, &stored), 1 + 5 + 4 + 14 + 2);
}

#[test]
fn a_first_value_beyond_the_bound_ends_the_search_without_shares() {
    let (course, _) = course(&searching(to_sixteen(), 1), |attempt| good(attempt, 0.5));
    assert_eq!(course, ["write-1", "knee-1p1=1", "knee-1p2=1", "done"]);
}

#[test]
fn a_lost_point_is_measured_again_with_all_before_it() {
    let run = searching(to_sixteen(), 1);
    let (measured, stored) = course(&run, |attempt| match attempt.name.as_str() {
        "sprint-knee-1p2" => failed(FailureStep::Lost),
        _ => good(attempt, 3.0),
    });
    assert_eq!(measured[..3], ["write-1", "knee-1p1=1", "knee-1p2=2"]);
    assert_eq!(measured[3..7], ["write-1b", "knee-1p1b=1", "knee-1p2b=2", "knee-1p3b=4"], "{measured:?}");
    let run_now = settled(&run, &stored, &no_jobs());
    assert_eq!(done(&run_now, &stored), wanted(&run_now, &stored), "what was lost counts nowhere");
    assert_eq!(measured.last().map(String::as_str), Some("done"));
}

#[test]
fn a_point_that_fails_ends_the_run_or_with_continue_its_search() {
    let error = |attempt: &Attempt| match attempt.name.as_str() {
        "sprint-knee-1p2" => failed(FailureStep::ErrorReplies),
        _ => good(attempt, 6.0),
    };
    let mut run = searching(to_sixteen(), 1);
    run.spec.phases.push(run.spec.phases[0].clone());
    run.spec.phases[2].name = "after".into();
    let (stopped, stored) = course(&run, error);
    assert_eq!(stopped.last().map(String::as_str), Some("failed in sprint-knee-1p2"));
    let now = settled(&run, &stored, &no_jobs());
    let index = now.attempts.iter().position(|attempt| attempt.name == "sprint-knee-1p2").unwrap();
    assert_eq!(unmeasured(&now, index), ["after"]);
    run.spec.phases[1].on_failure = OnFailure::Continue;
    let (went_on, _) = course(&run, error);
    let expected = ["write-1", "knee-1p1=1", "knee-1p2=2", "after-1", "failed in sprint-knee-1p2"];
    assert_eq!(went_on, expected);
}

fn job(value: u64) -> JobFacts {
    JobFacts { search_value: Some(value), ..JobFacts::default() }
}

#[test]
fn a_job_made_by_another_version_is_measured_with_the_value_that_it_has() {
    let run = searching(to_sixteen(), 1);
    let (_, complete) = course(&run, |attempt| good(attempt, 6.0));
    let until = |last: &str| -> Results {
        let points = (1..=9).map(|number| format!("sprint-knee-1p{number}"));
        let names: Vec<String> = std::iter::once("sprint-write-1".to_owned()).chain(points).collect();
        let count = names.iter().position(|name| name == last).unwrap() + 1;
        names[..count].iter().map(|name| (name.clone(), complete[name].clone())).collect()
    };
    let two = until("sprint-knee-1p2");
    let at_five = settled(&run, &two, &[("sprint-knee-1p3".to_owned(), job(5))].into());
    assert_eq!(stands(&at_five, &two), "knee-1p3=5", "its load is of 5 connections, not of 4");
    // A search that has ended for this version: the Job's load must not run beside the next.
    let all = until("sprint-knee-1p9");
    let under_way = settled(&run, &all, &[("sprint-knee-1p10".to_owned(), job(6))].into());
    assert_eq!(stands(&under_way, &all), "knee-1p10=6");
    // And its result, wherever it lies, leads nobody astray.
    let mut odd = all;
    let outside = SearchPoint { value: 99, ..odd["sprint-knee-1p1"].point.clone().unwrap() };
    odd.insert(
        "sprint-knee-1p10".to_owned(),
        StoredResult { point: Some(outside), ..StoredResult::default() },
    );
    assert_eq!(stands(&settled(&run, &odd, &no_jobs()), &odd), "knee-1r1=3000");
}

/// The open attempt of a run with this search in a phase with `tool`, after `stored`.
fn open(search: Value, tool: Value, stored: &[(&str, SearchPoint)]) -> Attempt {
    let mut run = searching(search, 1);
    let mut phase = tool;
    (phase["name"], phase["search"]) =
        (json!("knee"), serde_json::to_value(&run.spec.phases[1].search).unwrap());
    run.spec.phases = vec![serde_json::from_value(phase).unwrap()];
    let stored: Results = stored
        .iter()
        .map(|(name, point)| {
            ((*name).to_owned(), StoredResult { point: Some(point.clone()), ..StoredResult::default() })
        })
        .collect();
    let run = settled(&run, &stored, &no_jobs());
    match place_of(&run, &stored) {
        Place::At(index) => run.attempts[index].clone(),
        other => panic!("nothing is open: {other:?}"),
    }
}

/// What is sent: connections per thread, pipeline, rate, and pods.
fn sent(attempt: &Attempt) -> (i32, i32, Option<i64>, u32) {
    match &*attempt.tool {
        ToolSpec::Loadgen(spec) => {
            let rate = spec.rate.as_ref().map(|rate| rate.operations_per_second);
            (spec.connections_per_thread, spec.pipeline, rate, attempt.pods)
        }
        ToolSpec::Memtier(spec) => (spec.connections_per_thread, spec.pipeline, None, attempt.pods),
        other => panic!("not raised: {other:?}"),
    }
}

#[test]
fn only_what_is_raised_changes_in_the_tool() {
    let loadgen = || json!({"loadgen": {"duration": "5s", "connectionsPerThread": 7, "pipeline": 2}});
    let memtier = || json!({"memtier": {"testTime": "5s", "connectionsPerThread": 7, "pipeline": 2}});
    let raise = |raise: &str| json!({"raise": raise, "from": 3, "to": 12, "until": {"gain": "0.02"}});
    let table = [
        (raise("Connections"), loadgen(), (3, 2, None, 1)),
        (raise("Pipeline"), loadgen(), (7, 3, None, 1)),
        (raise("Pods"), loadgen(), (7, 2, None, 3)),
        (raise("Rate"), loadgen(), (7, 2, Some(3), 1)),
        (raise("Connections"), memtier(), (3, 2, None, 1)),
        (raise("Pipeline"), memtier(), (7, 3, None, 1)),
        (raise("Pods"), memtier(), (7, 2, None, 3)),
    ];
    for (search, tool, expected) in table {
        assert_eq!(sent(&open(search.clone(), tool.clone(), &[])), expected, "{search} of {tool}");
    }
}

#[test]
fn a_share_is_measured_with_the_value_found() {
    let search = json!({"raise": "Pods", "from": 4, "to": 4, "until": {"p99": "1ms"}, "rates": ["0.5"], "arrival": "Poisson"});
    let found = SearchPoint {
        value: 4,
        share: None,
        operations_per_second: 9001.0,
        p99_milliseconds: Some(0.5),
        server_cpus: None,
        followed: true,
    };
    let points = [("sprint-knee-1p1", found.clone()), ("sprint-knee-1p2", found)];
    let attempt = open(search, json!({"loadgen": {"duration": "5s"}}), &points);
    assert_eq!(sent(&attempt), (20, 1, Some(4501), 4));
    let ToolSpec::Loadgen(spec) = &*attempt.tool else { panic!("{:?}", attempt.tool) };
    assert_eq!(serde_json::to_value(&spec.rate).unwrap()["arrival"], "Poisson");
    assert_eq!(attempt.point.unwrap().reported(Raise::Pods), "share 0.5 (4501 operations/s)");
    assert_eq!(rate_at(0.1, 7.0, 4), 4, "each pod needs a request per second at least");
}

#[test]
fn nodes_are_taken_for_the_most_pods_that_a_search_may_need() {
    let run = searching(json!({"raise": "Pods", "to": 6, "until": {"gain": "0.1"}}), 1);
    assert_eq!(settled(&run, &Results::new(), &no_jobs()).most_pods(), 6);
}
