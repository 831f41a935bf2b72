//! Whether a measurement may be believed. Pure: counts in, verdict out.

use crate::failure::failure;
use dragstrip_crds::{
    observed::ServerCounters,
    result::{Failure, FailureStep, OperationResult},
    units::thousands,
};
use std::collections::BTreeMap;

/// Whether the server that ends the run is the one that began it. `after` is
/// what it said then, or why it said nothing.
pub fn same_server<'a>(
    before: &str,
    after: Result<&'a ServerCounters, &str>,
) -> Result<&'a ServerCounters, Failure> {
    let identity = |message| failure(FailureStep::ServerIdentity, message);
    match after {
        Err(reason) => Err(identity(format!("the server {before} is unreachable after the load: {reason}"))),
        Ok(after) if after.run_id != before => Err(identity(format!(
            "the server was restarted or replaced during the load: it began as {before} and ended as {}",
            after.run_id
        ))),
        Ok(after) => Ok(after),
    }
}

/// Whether the tool did anything, and everything without error replies.
pub fn replies_are_good(
    operations: &[OperationResult],
    errors: &BTreeMap<String, u64>,
) -> Result<(), Failure> {
    let total: u64 = operations.iter().map(|operation| operation.count).sum();
    let failed: u64 = operations.iter().map(|operation| operation.errors).sum();
    let failed = failed.max(errors.values().sum());
    if failed > 0 {
        let kinds: Vec<_> =
            errors.iter().map(|(kind, count)| format!("{} {kind}", thousands(*count))).collect();
        let kinds = if kinds.is_empty() { String::new() } else { format!(" ({})", kinds.join(", ")) };
        let message = format!("the server answered {} requests with errors{kinds}", thousands(failed));
        return Err(failure(FailureStep::ErrorReplies, message));
    }
    if total == 0 {
        return Err(failure(FailureStep::Tool, "the tool ended without a single answered request"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use dragstrip_crds::histogram::LatencySummary;

    fn operation(name: &str, count: u64, errors: u64) -> OperationResult {
        OperationResult {
            operation: name.into(),
            count,
            hits: None,
            misses: None,
            errors,
            bytes: 0,
            latency_milliseconds: LatencySummary::default(),
            histogram: None,
        }
    }

    #[test]
    fn the_server_must_stay_the_same() {
        let after = ServerCounters { run_id: "b".into(), ..ServerCounters::default() };
        assert!(same_server("b", Ok(&after)).is_ok());
        let failure = same_server("a", Ok(&after)).unwrap_err();
        assert_eq!(failure.step, FailureStep::ServerIdentity);
        assert!(failure.message.contains("began as a and ended as b"), "{}", failure.message);
        let failure = same_server("a", Err("connection refused")).unwrap_err();
        assert!(failure.message.contains("unreachable after the load: connection refused"));
    }

    #[test]
    fn error_replies_and_silence_are_failures() {
        let errors = BTreeMap::from([("OOM".to_owned(), 1_200), ("LOADING".to_owned(), 3)]);
        let failure = replies_are_good(&[operation("SET", 10, 1_203)], &errors).unwrap_err();
        assert_eq!(failure.step, FailureStep::ErrorReplies);
        assert_eq!(failure.message, "the server answered 1,203 requests with errors (3 LOADING, 1,200 OOM)");
        let failure = replies_are_good(&[operation("SET", 0, 0)], &BTreeMap::new()).unwrap_err();
        assert_eq!(failure.step, FailureStep::Tool);
        assert!(replies_are_good(&[operation("SET", 1, 0)], &BTreeMap::new()).is_ok());
    }
}
