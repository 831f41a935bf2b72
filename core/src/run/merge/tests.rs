//! Merging the results of pods.

use super::*;
use crate::{
    fixtures::{lost, pod_result, run, server_record},
    run::validate::validate,
};
use dragstrip_crds::measured::BatchStatistics;
use dragstrip_results::{
    histogram::{self, Latencies},
    hit_series::HitSeries,
    latency_series::LatencySeries,
};
use proptest::prelude::*;
use std::sync::Arc;

fn attempt() -> Attempt {
    validate(&run(&["read"], 1)).unwrap().attempts.remove(0)
}

fn failed(pod: &str, step: FailureStep) -> PodResult {
    let mut result = pod_result(pod, 10, 1.0, 100);
    result.failure = Some(Failure::new(step, format!("{step:?}")));
    result
}

fn cause(pods: Vec<PodResult>) -> (String, FailureStep, String) {
    let expected = u32::try_from(pods.len()).unwrap();
    let found = merge(&attempt(), expected, pods).failure.unwrap();
    (found.pod, found.failure.step, found.failure.message)
}

#[test]
fn two_pods_are_summed_and_their_histograms_added() {
    let merged = merge(&attempt(), 2, vec![pod_result("a", 1000, 2.0, 100), pod_result("b", 3000, 2.0, 900)]);
    assert_eq!(merged.failure, None);
    let total = merged.operations.last().unwrap();
    assert_eq!((total.name.as_str(), total.count), ("TOTAL", 4000));
    assert!((total.operations_per_second.unwrap() - 2000.0).abs() < 1e-9);
    // A quarter of all latencies is 100 µs, the rest 900 µs: no average of medians gives that.
    assert!(
        (total.latency_milliseconds.p50.unwrap() - 0.9).abs() < 0.001,
        "{:?}",
        total.latency_milliseconds
    );
    assert!(
        (total.latency_milliseconds.mean.unwrap() - 0.7).abs() < 0.001,
        "{:?}",
        total.latency_milliseconds
    );
}

#[test]
fn latencies_by_the_second_are_merged_and_only_their_percentiles_stored() {
    let series = |micros| {
        let mut series = LatencySeries::new().unwrap();
        series.record(micros, 5_000);
        Some(series.encode().unwrap())
    };
    let pod = |name, micros| PodResult { latency_series: series(micros), ..pod_result(name, 1000, 2.0, 100) };
    let merged = merge(&attempt(), 2, vec![pod("a", 100), pod("b", 40_000)]);
    let p99 = merged.p99_series.unwrap().milliseconds[0].unwrap();
    assert!((40.0..43.0).contains(&p99), "{p99} ms is not the slow pod's");
    assert!(merged.pods.iter().all(|pod| pod.latency_series.is_none()), "stored twice");
    let merged = merge(&attempt(), 2, vec![pod("a", 100), pod_result("b", 1000, 2.0, 100)]);
    assert_eq!((merged.p99_series, merged.failure), (None, None), "a part of the pods is not all of them");
}

/// A pod whose GETs missed a quarter of their keys, each miss followed by a SET of 900 us.
fn look_aside(name: &str, gets: u64) -> PodResult {
    let mut pod = pod_result(name, gets, 3.0, 100);
    let fills = pod_result(name, gets / 4, 3.0, 900).operations.remove(0);
    pod.operations[0].misses = Some(gets / 4);
    pod.operations[0].hits = Some(gets - gets / 4);
    pod.operations[0].per_second = vec![gets / 3; 3];
    pod.operations.push(Operation { name: FILL.into(), hits: None, misses: None, ..fills });
    pod.hit_series = Some(HitSeries::of([(0, gets / 4), (gets / 4, 0), (gets / 2, 0)].into_iter()));
    pod
}

#[test]
fn sets_after_misses_are_a_row_of_their_own_and_not_in_the_total() {
    let merged = merge(&attempt(), 2, vec![look_aside("a", 1200), look_aside("b", 600)]);
    assert_eq!(merged.failure, None);
    let rows: Vec<_> = merged.operations.iter().map(|row| (row.name.as_str(), row.count)).collect();
    assert_eq!(rows, [("GET", 1800), (FILL, 450), (TOTAL, 1800)]);
    let [get, fill, total] = merged.operations.as_slice() else { panic!("{rows:?}") };
    assert_eq!(get.latency_milliseconds, total.latency_milliseconds, "SETs are in the total's latency");
    assert_eq!(get.operations_per_second, total.operations_per_second);
    assert!(fill.latency_milliseconds.p50 > Some(0.8), "{fill:?}");
}

#[test]
fn hits_by_the_second_are_added_over_pods_and_the_last_third_is_warm() {
    let merged = merge(&attempt(), 2, vec![look_aside("a", 1200), look_aside("b", 600)]);
    let series = merged.hit_series.clone().unwrap();
    assert_eq!((series.hits, series.misses), (vec![0, 450, 900], vec![450, 0, 0]));
    assert_eq!((merged.hit_ratio, merged.hit_series.unwrap().warm_ratio()), (Some(0.75), Some(1.0)));
    assert!(merged.pods.iter().all(|pod| pod.hit_series.is_none()), "stored twice");
    let merged = merge(&attempt(), 2, vec![look_aside("a", 1200), pod_result("b", 1000, 3.0, 100)]);
    assert_eq!((merged.hit_series, merged.failure), (None, None), "a part of the pods is not all of them");
    let mut all_found = look_aside("a", 1200);
    all_found.hit_series = Some(HitSeries::of([(1, 0)].into_iter()));
    assert_eq!(merge(&attempt(), 1, vec![all_found]).hit_series, None, "nothing was missed");
}

#[test]
fn evictions_are_per_second_of_load_with_its_warm_up_for_servers_that_evict() {
    let pod = |name: &str, policy: &str, before: u64, after: u64| {
        let mut server = server_record("get", 0, 0);
        server.truth.max_memory_policy = Some(policy.to_owned());
        server.before.evicted_keys = before;
        server.after.as_mut().unwrap().evicted_keys = after;
        PodResult { server: Some(server), ..pod_result(name, 10, 3.0, 100) }
    };
    let mut declared = attempt();
    Arc::make_mut(&mut declared.declared).warmup =
        Some(serde_json::from_value(serde_json::json!("2s")).unwrap());
    let pods = |policy| vec![pod("a", policy, 100, 590), pod("b", policy, 110, 600)];
    let evictions = |policy| evictions_per_second(&declared, &pods(policy));
    assert_eq!(evictions("allkeys-lru"), Some(100.0), "500 keys in 5 s, which both pods saw");
    assert_eq!(evictions("noeviction"), None);
    let mut unseen = pods("allkeys-lru");
    unseen[1].server.as_mut().unwrap().after = None;
    assert_eq!(evictions_per_second(&declared, &unseen), None, "unknown is not 0");
}

#[test]
fn a_missing_pod_is_a_lost_one() {
    let merged = merge(&attempt(), 2, vec![pod_result("a", 1000, 2.0, 100)]);
    let found = merged.failure.unwrap().failure;
    assert_eq!(found.step, FailureStep::Lost);
    assert!(found.message.contains("1 of 2 client pods left a result"), "{}", found.message);
}

#[test]
fn a_part_of_a_result_is_never_merged_and_the_repetition_is_lost() {
    let part = pod_result("b", 3000, 2.0, 900).compact();
    let merged = merge(&attempt(), 2, vec![pod_result("a", 1000, 2.0, 100), part]);
    let found = merged.failure.unwrap();
    assert_eq!((found.pod.as_str(), found.failure.step), ("b", FailureStep::Lost));
    assert!(found.failure.message.contains("only part of its result"), "{}", found.failure.message);
    assert_eq!(merged.operations, vec![], "half a sum was shown");
    assert_eq!((merged.pods.len(), merged.hit_ratio, merged.checks), (2, None, vec![]));
}

#[test]
fn a_part_with_a_failure_has_the_cause() {
    let (pod, step, _) = cause(vec![lost("a"), failed("b", FailureStep::Tool).compact()]);
    assert_eq!((pod.as_str(), step), ("b", FailureStep::Tool));
}

#[test]
fn the_cause_is_named_before_those_it_took_along() {
    let (pod, step, _) =
        cause(vec![failed("a", FailureStep::Interrupted), lost("b"), failed("c", FailureStep::ErrorReplies)]);
    assert_eq!(
        (pod.as_str(), step),
        ("c", FailureStep::ErrorReplies),
        "a failure of its own is never retried"
    );
}

#[test]
fn a_pod_that_was_stopped_without_another_ones_failure_is_lost() {
    let (pod, step, message) =
        cause(vec![pod_result("a", 10, 1.0, 100), failed("b", FailureStep::Interrupted)]);
    assert_eq!((pod.as_str(), step), ("b", FailureStep::Lost));
    assert!(message.contains("the measurement is lost: Interrupted"), "{message}");
}

#[test]
fn loads_that_never_ran_together_are_no_measurement() {
    let mut late = pod_result("b", 10, 1.0, 100);
    late.window.start_unix_nanos += 5_000_000_000;
    assert_eq!(cause(vec![pod_result("a", 10, 1.0, 100), late]).1, FailureStep::StartLine);
}

#[test]
fn reads_that_find_too_little_are_refused_with_both_figures() {
    let mut declared = attempt();
    Arc::make_mut(&mut declared.declared).minimum_hit_ratio =
        Some(serde_json::from_value(serde_json::json!("0.9")).unwrap());
    let reads = |hits, misses| {
        let mut pod = pod_result("a", hits + misses, 1.0, 100);
        pod.operations[0].hits = Some(hits);
        pod.operations[0].misses = Some(misses);
        pod
    };
    let good = merge(&declared, 2, vec![reads(100, 0), reads(80, 20)]);
    assert_eq!((good.failure.clone(), good.hit_ratio), (None, Some(0.9)), "all pods together count");
    let found = merge(&declared, 2, vec![reads(100, 0), reads(79, 21)]).failure.unwrap().failure;
    assert_eq!(found.step, FailureStep::HitRatio);
    assert!(found.message.contains("179 of 200 reads found their key (0.8950)"), "{}", found.message);
    let mut writes = pod_result("a", 10, 1.0, 100);
    (writes.operations[0].hits, writes.operations[0].misses) = (None, None);
    let found = merge(&declared, 1, vec![writes]).failure.unwrap().failure;
    assert!(found.message.contains("counted no reads"), "{}", found.message);
}

fn printed(pod: &str, p99: f64) -> PodResult {
    let mut result = pod_result(pod, 2000, 1.0, 100);
    result.operations[0].histogram = None;
    result.operations[0].latency_milliseconds =
        LatencySummary { p99: Some(p99), ..LatencySummary::default() };
    result
}

#[test]
fn printed_percentiles_of_one_pod_stay_and_those_of_several_are_left_out() {
    let one = merge(&attempt(), 1, vec![printed("a", 3.0)]);
    let reported = LatencySummary { p99: Some(3.0), ..LatencySummary::default() };
    assert_eq!(one.operations[0].latency_milliseconds, reported, "what was not printed is not 0");
    assert_eq!(one.notes, ["latencies of GET, TOTAL are loadgen's own figures: it has no histogram"]);
    let two = merge(&attempt(), 2, vec![printed("a", 3.0), printed("b", 5.0)]);
    assert_eq!(two.operations[0].latency_milliseconds, LatencySummary::default(), "4 ms would be an average");
    assert!(two.notes[0].contains("latencies of GET, TOTAL are left out"), "{:?}", two.notes);
}

#[test]
fn a_rate_without_a_count_is_the_tools_own() {
    let rated = |pod: &str| {
        let mut result = printed(pod, 1.0);
        result.operations[0].count = 0;
        result.operations[0].operations_per_second = Some(500.0);
        result
    };
    let merged = merge(&attempt(), 2, vec![rated("a"), rated("b")]);
    assert_eq!(merged.failure, None);
    let rates: Vec<f64> = merged.operations.iter().filter_map(|row| row.operations_per_second).collect();
    assert_eq!((merged.operations.len(), rates[0], rates[1]), (2, 1000.0, 1000.0));
}

/// What BullMQ's writers and then its readers did: 4000 adds in 2 s, 900 jobs in 3 s.
fn jobs(pod: &str) -> PodResult {
    let mut result = pod_result(pod, 4000, 5.0, 100);
    let add = result.operations.remove(0);
    let of = |name: &str, count, seconds: f64| Operation {
        name: name.into(),
        count,
        bytes: count * 100,
        operations_per_second: Some(count as f64 / seconds),
        ..add.clone()
    };
    result.operations = vec![of("ADD", 4000, 2.0), of("PROCESS", 900, 3.0)];
    result.notes = vec!["the latency of ADD is the time from the call".into()];
    result
}

#[test]
fn operations_with_a_time_of_their_own_have_its_rates_and_no_total() {
    let merged = merge(&attempt(), 2, vec![jobs("a"), jobs("b")]);
    assert_eq!(merged.failure, None);
    let rows: Vec<_> =
        merged.operations.iter().map(|row| (row.name.as_str(), row.operations_per_second.unwrap())).collect();
    assert_eq!(rows, [("ADD", 4000.0), ("PROCESS", 600.0)], "seconds of load, and no sum of two things");
    assert!(
        merged.operations[0].bytes == 100 * merged.operations[0].count,
        "100 bytes for each add and client"
    );
    assert_eq!(merged.notes, ["the latency of ADD is the time from the call"], "what both say is said once");
}

#[test]
fn operations_that_ran_one_after_the_other_have_their_own_rates_and_no_total() {
    let sequence = |pod: &str| {
        let mut result = printed(pod, 1.0);
        let mut set = result.operations[0].clone();
        (set.name, set.hits, set.misses) = ("SET".into(), None, None);
        set.commands = vec!["set".into()];
        result.operations.insert(0, set);
        for (operation, rate) in result.operations.iter_mut().zip([26_810.0, 28_490.0]) {
            operation.operations_per_second = Some(rate);
            operation.tool_operations_per_second = Some(rate);
        }
        result
    };
    let merged = merge(&attempt(), 1, vec![sequence("a")]);
    let rates: Vec<(&str, f64, Option<f64>)> = merged
        .operations
        .iter()
        .map(|row| (row.name.as_str(), row.operations_per_second.unwrap(), row.tool_operations_per_second))
        .collect();
    let expected = [("SET", 26_810.0, Some(26_810.0)), ("GET", 28_490.0, Some(28_490.0))];
    assert_eq!(rates, expected, "not the count over a window that all tests share");
    assert_eq!(merged.hit_ratio, Some(1.0), "hits are counted without a total too");
    let two = merge(&attempt(), 2, vec![sequence("a"), sequence("b")]);
    assert!((two.operations[0].operations_per_second.unwrap() - 53_620.0).abs() < 1e-9);
}

#[test]
fn the_tools_own_rate_stands_beside_ours() {
    let reported = |pod: &str, rate| {
        let mut result = pod_result(pod, 1000, 2.0, 100);
        result.operations[0].tool_operations_per_second = rate;
        result.tool.reported_operations_per_second = rate;
        result
    };
    let merged = merge(&attempt(), 2, vec![reported("a", Some(480.0)), reported("b", Some(490.0))]);
    let rates: Vec<_> = merged
        .operations
        .iter()
        .map(|row| (row.operations_per_second.unwrap(), row.tool_operations_per_second))
        .collect();
    assert_eq!(rates, [(1000.0, Some(970.0)); 2]);
    let half = merge(&attempt(), 2, vec![reported("a", Some(480.0)), reported("b", None)]);
    assert_eq!(
        half.operations[0].tool_operations_per_second, None,
        "the rate of some pods is not the rate of all"
    );
}

fn figured(pod: &str, values: &[(&str, f64, Merge)]) -> PodResult {
    let mut result = pod_result(pod, 0, 1.0, 100);
    result.operations.clear();
    let metric = |(name, value, merge): &(&str, f64, Merge)| Metric {
        name: (*name).to_owned(),
        value: *value,
        unit: None,
        merge: *merge,
        more_is_better: None,
    };
    result.metrics = values.iter().map(metric).collect();
    result
}

#[test]
fn figures_of_the_tools_own_are_joined_as_declared() {
    let pod = |pod, x| {
        let all =
            [("sum", Merge::Sum), ("mean", Merge::Mean), ("max", Merge::Maximum), ("min", Merge::Minimum)];
        figured(pod, &all.map(|(name, merge)| (name, x, merge)))
    };
    let mut extra = pod("b", 4.0);
    extra.metrics.extend(figured("b", &[("only-here", 1.0, Merge::Sum)]).metrics);
    let merged = merge(&attempt(), 2, vec![pod("a", 2.0), extra]);
    let values: Vec<(&str, f64)> = merged.metrics.iter().map(|m| (m.name.as_str(), m.value)).collect();
    assert_eq!(values, [("sum", 6.0), ("mean", 3.0), ("max", 4.0), ("min", 2.0)]);
    assert!(merged.notes[0].contains("metric only-here is left out: only 1 of 2"), "{:?}", merged.notes);
    assert_eq!(merged.operations, vec![], "a tool without operations has no row of zeroes");
}

#[test]
fn schedules_are_added_and_batches_are_of_one_pod_only() {
    let pod = |pod, longest: u64| {
        let mut result = pod_result(pod, 10, 1.0, 100);
        result.schedule = Some(ScheduleRecord {
            kind: "fixed".into(),
            operations_per_second: 50.0,
            scheduled: 12,
            sent: 11,
            answered: 10,
            unanswered: 2,
            answered_in_time: None,
            lag_milliseconds: LatencySummary::default(),
            wake_lag_p99_milliseconds: Some(longest as f64),
        });
        let mut lag = histogram::empty().unwrap();
        (1..=100).for_each(|late| lag.record(late * longest).unwrap());
        result.schedule_lag = Some(Latencies::from_microseconds(lag).encode().unwrap());
        result.batches = Some(BatchStatistics { iterations: 3, ..BatchStatistics::default() });
        result
    };
    let one = merge(&attempt(), 1, vec![pod("a", 1)]);
    assert_eq!(one.batches.map(|batches| batches.iterations), Some(3));
    let two = merge(&attempt(), 2, vec![pod("a", 1), pod("b", 100)]);
    assert_eq!(two.batches, None);
    let sum = two.schedule.unwrap();
    assert_eq!((sum.scheduled, sum.sent, sum.answered, sum.unanswered), (24, 22, 20, 4));
    let lag = sum.lag_milliseconds;
    assert_eq!(lag.max.map(f64::round), Some(10.0));
    assert!((lag.p50.unwrap() - 0.1).abs() < 0.01, "the median of both pods, not of either: {lag:?}");
    assert_eq!(Latencies::decode(&two.schedule_lag.unwrap()).unwrap().count(), 200);
    assert_eq!(sum.wake_lag_p99_milliseconds, Some(100.0), "that of the later pod");
    assert!((sum.operations_per_second - 100.0).abs() < 1e-9);
}

/// A pod that measured `latencies` (in microseconds) as GETs within `seconds`.
fn sample(pod: &str, latencies: &[u64], seconds: f64) -> PodResult {
    let mut histogram = hdrhistogram::Histogram::new_with_bounds(1, 3_600_000_000, 3).unwrap();
    for latency in latencies {
        histogram.record(*latency).unwrap();
    }
    let recorded = Latencies::from_microseconds(histogram);
    let mut result = pod_result(pod, latencies.len() as u64, seconds, 1);
    result.operations[0].latency_milliseconds = recorded.summary();
    result.operations[0].histogram = Some(recorded.encode().unwrap());
    result
}

proptest! {
    #[test]
    fn any_split_over_pods_merges_to_the_unsplit_sample(
        latencies in prop::collection::vec((1u64..100_000_000, 0usize..5), 1..400),
        seconds in 0.5f64..100.0,
    ) {
        let all: Vec<u64> = latencies.iter().map(|(latency, _)| *latency).collect();
        let complete = merge(&attempt(), 1, vec![sample("whole", &all, seconds)]);
        let part = |index: usize| {
            let own: Vec<u64> = latencies.iter().filter(|(_, pod)| *pod == index).map(|(l, _)| *l).collect();
            sample(&format!("pod-{index}"), &own, seconds)
        };
        let split = merge(&attempt(), 5, (0..5).map(part).collect());
        prop_assert_eq!(&split.failure, &None);
        prop_assert_eq!(complete.operations.len(), split.operations.len());
        for (one, many) in complete.operations.iter().zip(&split.operations) {
            prop_assert_eq!((one.count, one.hits, one.misses), (many.count, many.hits, many.misses));
            prop_assert_eq!(one.latency_milliseconds, many.latency_milliseconds);
            let decode = |row: &Operation| Latencies::decode(row.histogram.as_ref().unwrap()).unwrap();
            prop_assert_eq!(decode(one), decode(many));
            let (one, many) = (one.operations_per_second.unwrap(), many.operations_per_second.unwrap());
            let difference = (one - many).abs();
            prop_assert!(difference <= 1e-9 * one, "rates differ by {}", difference);
        }
    }
}

#[test]
fn large_results_of_many_pods_are_merged_one_by_one_into_an_account_that_is_bounded() {
    let pods = 16;
    let mut merging = Merging::new(pods);
    for index in 0..pods {
        let mut pod = pod_result(&format!("p-{index:02}"), 1000, 2.0, 100);
        let row = pod.operations[0].clone();
        let rows = (0..400).map(|number| Operation { name: format!("op-{number}"), ..row.clone() });
        pod.operations = rows.collect();
        // 3 MB, as a tool with many operations reports it.
        pod.operations.iter_mut().for_each(|row| row.per_second = vec![1_000_000; 1000]);
        assert!(serde_json::to_vec(&pod).unwrap().len() > 3_000_000);
        merging.add(pod);
    }
    let merged = merging.finish(&attempt());
    assert_eq!(merged.failure, None);
    let bytes = serde_json::to_vec(&merged).unwrap().len() as u64;
    assert!(bytes < dragstrip_results::stored::MOST_RESULT_BYTES, "{bytes} bytes could never be read again");
    let total = merged.operations.last().unwrap();
    assert_eq!(total.count, 16 * 400 * 1000);
    let reserved = |row: &Operation| row.per_second.capacity();
    let reserved: usize = merged.pods.iter().flat_map(|pod| &pod.operations).map(reserved).sum();
    assert_eq!(reserved, 0, "what is left out still takes memory");
    assert!(total.latency_milliseconds.p99.is_some(), "the histograms were left out before they were added");
}

#[test]
fn hours_of_many_pods_are_merged_without_their_series_if_these_are_too_many() {
    let mut merging = Merging::new(64);
    for index in 0..64 {
        let mut pod = pod_result(&format!("p-{index:02}"), 1000, 5200.0, 100);
        (pod.per_second, pod.due_per_second) = (vec![10_u64.pow(18); 5200], vec![10_u64.pow(18); 5200]);
        pod.schedule = Some(ScheduleRecord { answered_in_time: Some(0.5), ..ScheduleRecord::default() });
        pod.schedule_lag = pod.operations[0].histogram.clone();
        merging.add(pod);
    }
    let merged = merging.finish(&attempt());
    assert_eq!(merged.failure, None);
    assert!(
        merged.pods[0].notes[0].contains("series by the second are left out"),
        "{:?}",
        merged.pods[0].notes
    );
    let schedule = merged.schedule.unwrap();
    assert_eq!(schedule.answered_in_time, Some(0.5), "what the pods themselves counted went with the series");
}

#[test]
fn a_pod_with_more_than_a_runner_writes_fails_its_repetition_and_costs_nothing() {
    let mut pod = pod_result("p", 10, 1.0, 100);
    pod.operations = vec![pod.operations[0].clone(); 1001];
    let (pod, step, message) = cause(vec![pod]);
    assert_eq!((pod.as_str(), step), ("p", FailureStep::Output));
    assert!(message.contains("1001 rows, at most 1000"), "{message}");
    let mut pod = pod_result("p", 10, 1.0, 100);
    pod.notes = vec!["x".repeat(13 << 20)];
    let message = cause(vec![pod]).2;
    assert!(message.contains("exceed 12 MiB"), "{message}");
}
