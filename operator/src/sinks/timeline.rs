//! From a stored repetition to what its pods did in each second, over all of them, by
//! the operator's clock. Pure.

use super::write_request::Sample;
use dragstrip_results::result::{PodResult, RepetitionResult, TOTAL};
use std::collections::BTreeMap;

/// What ends a series: without it Prometheus would repeat the last value for 5 minutes.
pub const STALE: u64 = 0x7ff0_0000_0000_0002;
/// A load ends within a second. A rate over less of it than this share would be noise.
const SHORTEST_SECOND: f64 = 0.5;
const MILLISECONDS: i64 = 1000;

/// Operations per second of one operation, or of all together.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// Its name as in the result, or TOTAL.
    pub operation: String,
    /// One for each second of the load, at its end, and one that ends the series.
    pub samples: Vec<Sample>,
}

/// What `pod` counted of `operation` in each second: empty where it never did it, none
/// where it did not tell.
fn counts<'a>(pod: &'a PodResult, operation: &str) -> Option<&'a [u64]> {
    let per_second = match pod.operations.iter().find(|own| own.operation == operation) {
        _ if operation == TOTAL => &pod.per_second,
        Some(own) if own.count > 0 => &own.per_second,
        _ => return Some(&[]),
    };
    Some(per_second.as_slice()).filter(|counts| !counts.is_empty())
}

/// The seconds of `operation` over all `pods`; none where one of them did not tell.
fn series(pods: &[&PodResult], operation: &str) -> Option<Series> {
    let origin = pods.iter().map(|pod| pod.started_unix_nanos()).min()?;
    let mut rates: BTreeMap<i64, f64> = BTreeMap::new();
    for pod in pods {
        // Pods start together but for milliseconds; one that came later counts in later seconds.
        let later = (pod.started_unix_nanos() - origin + 500_000_000) / 1_000_000_000;
        for (second, count) in (0_i32..).zip(counts(pod, operation)?) {
            let length = (pod.window.seconds - f64::from(second)).min(1.0);
            if length >= SHORTEST_SECOND {
                *rates.entry(later + i64::from(second)).or_default() += *count as f64 / length;
            }
        }
    }
    let end = |second: i64| origin / 1_000_000 + (second + 1) * MILLISECONDS;
    let last = *rates.keys().next_back()?;
    let stale = Sample { value: f64::from_bits(STALE), timestamp: end(last + 1) };
    let samples = rates.into_iter().map(|(second, value)| Sample { value, timestamp: end(second) });
    Some(Series { operation: operation.to_owned(), samples: samples.chain([stale]).collect() })
}

/// What was done in each second, a series per operation that all pods tell of. Empty
/// where the numbers must not be used, or no tool counts by the second.
pub fn timeline(result: &RepetitionResult) -> Vec<Series> {
    if result.failure.is_some() {
        return Vec::new();
    }
    let loaded: Vec<&PodResult> = result.pods.iter().filter(|pod| pod.window.seconds > 0.0).collect();
    result.operations.iter().filter_map(|row| series(&loaded, &row.operation)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sinks::fixtures::{START, pod, repetition};
    use dragstrip_results::result::{Failure, FailureStep, PodFailure};

    /// Milliseconds after [`START`], and values, of GET's samples but for the last.
    fn seconds(pods: Vec<PodResult>) -> Vec<(i64, f64)> {
        let all = timeline(&repetition(pods));
        let get = &all.iter().find(|series| series.operation == "GET").expect("no series GET").samples;
        let (last, others) = get.split_last().unwrap();
        assert_eq!(last.value.to_bits(), STALE, "the series does not end");
        assert_eq!(last.timestamp, others.last().unwrap().timestamp + 1000);
        others.iter().map(|sample| (sample.timestamp - START, sample.value)).collect()
    }

    fn names(pods: Vec<PodResult>) -> Vec<String> {
        timeline(&repetition(pods)).into_iter().map(|series| series.operation).collect()
    }

    #[test]
    fn each_second_is_told_at_its_end_by_the_operators_clock() {
        let mut behind = pod(&[5, 6], 2.0);
        assert_eq!(seconds(vec![behind.clone()]), [(1000, 5.0), (2000, 6.0)]);
        behind.window.clock_offset_seconds = -0.25;
        assert_eq!(seconds(vec![behind]), [(1250, 5.0), (2250, 6.0)], "the pod's clock is 250 ms behind");
    }

    #[test]
    fn pods_are_added_second_by_second_and_a_late_one_counts_later() {
        let mut late = pod(&[10, 20], 2.0);
        late.window.start_unix_nanos += 3_000_000;
        assert_eq!(seconds(vec![pod(&[1, 2], 2.0), late.clone()]), [(1000, 11.0), (2000, 22.0)]);
        late.window.start_unix_nanos += 1_000_000_000;
        let told = seconds(vec![pod(&[1, 2], 2.0), late]);
        assert_eq!(told, [(1000, 1.0), (2000, 12.0), (3000, 20.0)]);
    }

    #[test]
    fn a_second_cut_short_is_told_as_a_rate_or_not_at_all() {
        assert_eq!(seconds(vec![pod(&[8, 6], 1.75)]), [(1000, 8.0), (2000, 8.0)]);
        assert_eq!(seconds(vec![pod(&[8, 1], 1.01)]), [(1000, 8.0)], "10 ms tell no rate");
    }

    #[test]
    fn what_one_pod_does_not_tell_is_no_series() {
        let mut silent = pod(&[1, 2], 2.0);
        silent.operations[0].per_second.clear();
        let told = names(vec![pod(&[1, 2], 2.0), silent.clone()]);
        assert_eq!(told, [TOTAL], "a part would look like all of it");
        silent.per_second.clear();
        assert_eq!(names(vec![silent]), [""; 0]);
        let mut never = pod(&[1, 2], 2.0);
        never.operations.clear();
        assert_eq!(names(vec![pod(&[1, 2], 2.0), never]), ["GET", TOTAL], "it had no GET to tell of");
    }

    #[test]
    fn what_must_not_be_used_has_no_timeline() {
        let mut result = repetition(vec![pod(&[1, 2], 2.0)]);
        assert_eq!(timeline(&result).len(), 2, "GET and TOTAL");
        let failure = Failure {
            step: FailureStep::Lost,
            message: String::new(),
            exit_code: None,
            signal: None,
            last_lines: vec![],
        };
        result.failure = Some(PodFailure { pod: "a".into(), failure });
        assert_eq!(timeline(&result), []);
    }
}
