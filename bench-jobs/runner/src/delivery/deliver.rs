//! Delivers a result so that it cannot be lost: the complete one as a line of the
//! log, and again as the container's termination message, or a compact one. Touches stdout
//! and the termination log.

use dragstrip_results::result::{Failure, FailureStep, LOG_MARKER, MOST_LOG_BYTES, PodResult};
use std::{
    collections::BTreeMap,
    io::{self, Write as _},
    path::{Path, PathBuf},
};

/// How much of a termination message Kubernetes stores, in bytes.
pub const MAXIMUM_TERMINATION_BYTES: usize = 4096;

#[derive(Debug, thiserror::Error)]
pub enum DeliverError {
    #[error("cannot encode the result as JSON")]
    Encode(#[source] serde_json::Error),
    #[error("cannot write the result to the log")]
    Log(#[source] io::Error),
    #[error("cannot write the termination message to {path}")]
    Termination { path: PathBuf, source: io::Error },
}

/// Writes the result to both places. A failure of one does not spare the other.
pub fn deliver(result: &PodResult, termination_log: &Path) -> Result<(), DeliverError> {
    let logged = log(result);
    let message = termination_message(result).map_err(DeliverError::Encode)?;
    std::fs::write(termination_log, message)
        .map_err(|source| DeliverError::Termination { path: termination_log.to_path_buf(), source })?;
    logged
}

/// The result for the operator: without series if it is too large, and a failure if still too large.
fn log_message(result: &PodResult) -> Result<String, serde_json::Error> {
    let complete = serde_json::to_string(result)?;
    if complete.len() <= MOST_LOG_BYTES {
        return Ok(complete);
    }
    let most = MOST_LOG_BYTES >> 20;
    let mut less = PodResult { latency_series: None, ..result.clone() };
    less.per_second.clear();
    less.due_per_second.clear();
    less.operations.iter_mut().for_each(|operation| operation.per_second.clear());
    less.notes.push(format!("series by the second are left out: with them, the result exceeds {most} MiB"));
    let less = serde_json::to_string(&less)?;
    if less.len() <= MOST_LOG_BYTES {
        return Ok(less);
    }
    let message = format!("the result has {} MiB, at most {most} are read: print sums", less.len() >> 20);
    let failure = Failure::new(FailureStep::Output, message);
    serde_json::to_string(&PodResult::failed(&result.phase, result.repetition, &result.pod, failure))
}

fn log(result: &PodResult) -> Result<(), DeliverError> {
    let json = log_message(result).map_err(DeliverError::Encode)?;
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{LOG_MARKER}{json}").and_then(|()| stdout.flush()).map_err(DeliverError::Log)
}

/// The complete result if it fits, else a compact one made to fit, which says
/// that it is not complete: the log has the rest.
pub fn termination_message(result: &PodResult) -> Result<String, serde_json::Error> {
    let complete = serde_json::to_string(result)?;
    if complete.len() <= MAXIMUM_TERMINATION_BYTES {
        return Ok(complete);
    }
    let mut compact = result.compact();
    let mut text = serde_json::to_string(&compact)?;
    for shrink in SHRINKS {
        while text.len() > MAXIMUM_TERMINATION_BYTES && shrink(&mut compact) {
            text = serde_json::to_string(&compact)?;
        }
    }
    Ok(text)
}

/// Ways to make a result smaller, the least painful first. Each does one step
/// and returns whether there was anything left to take away.
const SHRINKS: [fn(&mut PodResult) -> bool; 8] = [
    |result| result.failure.as_mut().is_some_and(drop_oldest_line),
    |result| drop_rarest(&mut result.warmup),
    |result| result.metrics.pop().is_some(),
    |result| drop_rarest(&mut result.errors),
    |result| result.failure.as_mut().is_some_and(|failure| halve(&mut failure.message)),
    |result| result.operations.pop().is_some(),
    |result| result.tool.version.as_mut().is_some_and(halve),
    |result| [&mut result.tool.name, &mut result.phase, &mut result.pod].into_iter().any(halve),
];

fn drop_oldest_line(failure: &mut Failure) -> bool {
    let any = !failure.last_lines.is_empty();
    if any {
        failure.last_lines.remove(0);
    }
    any
}

fn drop_rarest(errors: &mut BTreeMap<String, u64>) -> bool {
    let rarest = errors.iter().min_by_key(|(_, count)| **count).map(|(kind, _)| kind.clone());
    rarest.is_some_and(|kind| errors.remove(&kind).is_some())
}

fn halve(text: &mut String) -> bool {
    let characters = text.chars().count();
    *text = text.chars().take(characters / 2).collect();
    characters > 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use dragstrip_crds::{
        measured::{LatencySummary, Metric},
        workload::Merge,
    };
    use dragstrip_results::{histogram::EncodedHistogram, latency_series::EncodedSeries, result::Operation};
    use proptest::prelude::*;

    fn operation(name: String) -> Operation {
        Operation {
            name,
            commands: vec!["get".to_owned(); 8],
            count: u64::MAX,
            hits: Some(u64::MAX),
            misses: Some(u64::MAX),
            errors: u64::MAX,
            bytes: u64::MAX,
            latency_milliseconds: LatencySummary { mean: Some(1.0 / 3.0), ..LatencySummary::default() },
            histogram: Some(EncodedHistogram("x".repeat(10_000))),
            per_second: vec![u64::MAX; 8],
            tool_operations_per_second: Some(1.0 / 3.0),
            operations_per_second: Some(1.0 / 3.0),
        }
    }

    #[test]
    fn an_ordinary_result_loses_no_operation() {
        let failure = Failure {
            step: FailureStep::Tool,
            message: "m".repeat(5_000),
            exit_code: Some(1),
            signal: None,
            last_lines: vec!["line".repeat(500); 40],
        };
        let mut result = PodResult::failed("phase", 1, "pod", failure);
        result.operations = vec![operation("SET".into()), operation("GET".into())];
        let text = termination_message(&result).unwrap();
        assert!(text.len() <= MAXIMUM_TERMINATION_BYTES, "{}", text.len());
        let read: PodResult = serde_json::from_str(&text).unwrap();
        assert_eq!(read.operations.len(), 2);
        assert!(read.failure.unwrap().message.len() >= 500);
    }

    #[test]
    fn a_termination_message_says_whether_it_is_all_there_is() {
        let failure = Failure::new(FailureStep::Tool, "broke");
        let small = PodResult::failed("phase", 1, "pod", failure);
        let read: PodResult = serde_json::from_str(&termination_message(&small).unwrap()).unwrap();
        assert_eq!(read, small, "a result that fits is delivered completely");
        let mut large = small;
        large.operations = vec![operation("GET".into())];
        let read: PodResult = serde_json::from_str(&termination_message(&large).unwrap()).unwrap();
        assert!(!read.complete, "a result without its histogram was called complete");
    }

    #[test]
    fn a_result_that_the_operator_would_not_read_loses_its_series_or_is_a_failure_that_says_so() {
        let read = |result: &PodResult| {
            let message = log_message(result).unwrap();
            assert!(message.len() <= MOST_LOG_BYTES, "{} bytes", message.len());
            serde_json::from_str::<PodResult>(&message).unwrap()
        };
        let mut result =
            PodResult { complete: true, operations: vec![operation("GET".into())], ..PodResult::default() };
        assert_eq!(read(&result), result);
        result.per_second = vec![1_000_000; 604_800];
        let less = read(&result);
        assert!(less.per_second.is_empty() && less.failure.is_none(), "its figures were lost too");
        assert!(less.notes[0].contains("series by the second are left out"), "{:?}", less.notes);
        result.operations = vec![operation("GET".into()); 500];
        let failure = read(&result).failure.expect("a result that nobody reads");
        assert!(failure.message.contains("at most 4 are read"), "{}", failure.message);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn a_termination_message_always_fits(
            message in "\\PC{0,3000}", line in "[\u{0}-\u{ff}😀\"\\\\]{0,400}", lines in 0usize..60,
            operations in 0usize..12, figures in 0usize..25, kinds in 0usize..20, name in "[a-z\"]{0,3000}", version in "\\PC{0,5000}",
        ) {
            let failure = Failure {
                step: FailureStep::Tool, message, exit_code: Some(1), signal: Some(9), last_lines: vec![line; lines],
            };
            let mut result = PodResult::failed(&name, 1, &name, failure);
            result.operations = (0..operations).map(|n| operation(format!("{name}{n}"))).collect();
            result.due_per_second = vec![u64::MAX; 3_600];
            let part = EncodedHistogram("A".repeat(150));
            result.latency_series = Some(EncodedSeries { seconds: 16, parts: vec![part; 240] });
            result.warmup = (0..figures).map(|n| (format!("{name}{n}"), n as u64)).collect();
            let metric = |n| Metric { name: format!("{name}{n}"), value: 1.0 / 3.0, unit: None, merge: Merge::Sum, more_is_better: None };
            result.metrics = (0..figures).map(metric).collect();
            result.errors = (0..kinds).map(|n| (format!("KIND{n}"), n as u64)).collect();
            result.tool.name.clone_from(&name);
            result.tool.version = Some(version);
            let text = termination_message(&result).unwrap();
            prop_assert!(text.len() <= MAXIMUM_TERMINATION_BYTES, "{}", text.len());
            prop_assert!(serde_json::from_str::<PodResult>(&text).is_ok());
        }
    }
}
