//! Whether the servers' counts confirm a measurement. Pure.

use crate::server::members::{Counts, Member};
use dragstrip_crds::units::thousands;
use dragstrip_results::{
    complaints::{error_replies, evicted_keys},
    observed::ServerCounters,
    result::{Failure, FailureStep, Operation},
};
use std::collections::BTreeMap;

/// Whether the servers that end the run are the ones that began it. `after` is
/// what they reported then, or why one did not answer. Counters, which a restart sets to 0,
/// identify a server that reports nothing else that a restart would change.
pub fn same_servers<'a>(
    members: &[Member],
    before: &Counts,
    after: Result<&'a Counts, &str>,
) -> Result<&'a Counts, Failure> {
    let identity = |message| Failure::new(FailureStep::ServerIdentity, message);
    let after =
        after.map_err(|reason| identity(format!("the server is unreachable after the load: {reason}")))?;
    for ((member, before), counters) in members.iter().zip(&before.0).zip(&after.0) {
        let fell = counters.commands_processed < before.commands_processed;
        if member.run_id.is_empty() && counters.run_id.is_empty() && fell {
            return Err(identity(format!(
                "the server {} was restarted during the load: its count of commands fell",
                member.name
            )));
        }
        if counters.run_id != member.run_id {
            return Err(identity(format!(
                "the server {} was restarted or replaced during the load: it began as {} and ended as {}",
                member.name, member.run_id, counters.run_id
            )));
        }
    }
    Ok(after)
}

/// Whether the tool did anything, and everything without error replies. A tool
/// that reports `figures` or rates alone did something too.
pub fn replies_are_good(
    operations: &[Operation],
    errors: &BTreeMap<String, u64>,
    figures: bool,
) -> Result<(), Failure> {
    let total: u64 = operations.iter().map(|operation| operation.count).sum();
    let failed: u64 = operations.iter().map(|operation| operation.errors).sum();
    let failed = failed.max(errors.values().sum());
    if failed > 0 {
        let message =
            format!("the server answered {} requests with errors{}", thousands(failed), listed(errors));
        return Err(Failure::new(FailureStep::ErrorReplies, message));
    }
    let rates = operations.iter().any(|o| o.operations_per_second.is_some_and(|rate| rate > 0.0));
    if total == 0 && !rates && !figures {
        return Err(Failure::new(FailureStep::Tool, "the tool ended without a single answered request"));
    }
    Ok(())
}

/// Whether the server's own statistics, before the load and after it, show no error or eviction
/// that a tool may have counted as an operation.
pub fn server_is_content(
    before: &ServerCounters,
    after: &ServerCounters,
    allow_eviction: bool,
) -> Result<(), Failure> {
    let errors = error_replies(before, after);
    if errors.count > 0 {
        let message = format!(
            "the server counted {} requests with errors{} while the load ran, which the tool does not report",
            thousands(errors.count),
            listed(&errors.kinds)
        );
        return Err(Failure::new(FailureStep::ErrorReplies, message));
    }
    let evicted = evicted_keys(before, after);
    if evicted > 0 && !allow_eviction {
        let message = format!(
            "the server evicted {} keys while the load ran: give it more memory or the load fewer keys, or set \
             allowEviction: true where eviction is a part of what is measured",
            thousands(evicted)
        );
        return Err(Failure::new(FailureStep::Eviction, message));
    }
    Ok(())
}

/// ` (1,200 OOM, 3 LOADING)`; empty where the kinds are unknown.
fn listed(kinds: &BTreeMap<String, u64>) -> String {
    let kinds: Vec<_> = kinds.iter().map(|(kind, count)| format!("{} {kind}", thousands(*count))).collect();
    if kinds.is_empty() { String::new() } else { format!(" ({})", kinds.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        server::{access::Access, members::counts},
        tests::fake_dragonfly::FakeDragonfly,
    };
    use dragstrip_results::observed::ServerCounters;

    fn operation(name: &str, count: u64, errors: u64) -> Operation {
        Operation { name: name.into(), count, errors, ..Operation::default() }
    }

    #[test]
    fn every_server_must_stay_the_same() {
        let member = |name: &str| Member {
            name: name.into(),
            address: "127.0.0.1:1".parse().unwrap(),
            run_id: name.into(),
            replica: false,
        };
        let counters = |id: &str| ServerCounters { run_id: id.into(), ..ServerCounters::default() };
        let members = [member("a"), member("b")];
        let same = Counts(vec![counters("a"), counters("b")]);
        let same_servers = |after| same_servers(&members, &same, after);
        assert!(same_servers(Ok(&same)).is_ok());
        let other = Counts(vec![counters("a"), counters("c")]);
        let failure = same_servers(Ok(&other)).unwrap_err();
        assert_eq!(failure.step, FailureStep::ServerIdentity);
        assert!(failure.message.contains("the server b was restarted"), "{}", failure.message);
        assert!(failure.message.contains("began as b and ended as c"), "{}", failure.message);
        let failure = same_servers(Err("b: connection refused")).unwrap_err();
        assert!(failure.message.contains("unreachable after the load: b: connection refused"));
    }

    #[tokio::test]
    async fn a_replica_of_dragonfly_that_was_killed_under_the_load_is_found() {
        let replica = FakeDragonfly::up_for(100);
        let access = Access::default();
        let mut member =
            Member { name: "replica".into(), address: replica.address, run_id: String::new(), replica: true };
        let before = counts(&access, std::slice::from_ref(&member)).await.unwrap();
        member.run_id.clone_from(&before.0[0].run_id);
        let members = [member];
        let after = counts(&access, &members).await.unwrap();
        assert!(same_servers(&members, &before, Ok(&after)).is_ok(), "nothing happened to it");
        replica.restarted(1);
        let after = counts(&access, &members).await.unwrap();
        let failure = same_servers(&members, &before, Ok(&after)).unwrap_err();
        assert!(failure.message.contains("the server replica was restarted or replaced"), "{failure:?}");
    }

    #[test]
    fn counters_that_fell_reveal_a_restart_of_a_server_without_an_id() {
        let member = Member {
            name: "db".into(),
            address: "127.0.0.1:1".parse().unwrap(),
            run_id: String::new(),
            replica: false,
        };
        let counted = |commands_processed| {
            Counts(vec![ServerCounters { commands_processed, ..ServerCounters::default() }])
        };
        let verdict = |before, after| {
            let (before, after) = (counted(before), counted(after));
            same_servers(std::slice::from_ref(&member), &before, Ok(&after))
                .err()
                .map(|failure| failure.message)
        };
        assert_eq!(verdict(Some(5), Some(9)), None);
        assert_eq!(verdict(None, None), None);
        let message = verdict(Some(900), Some(5)).unwrap();
        assert!(message.contains("the server db was restarted during the load"), "{message}");
    }

    #[test]
    fn what_the_server_counts_as_errors_is_a_failure_whatever_the_tool_reports() {
        let look = |errors: u64, evicted_keys| ServerCounters {
            errors: BTreeMap::from([("OOM".to_owned(), errors)]),
            evicted_keys,
            ..ServerCounters::default()
        };
        let judged =
            |errors, evicted, allowed| server_is_content(&look(5, 7), &look(errors, evicted), allowed);
        assert_eq!(judged(5, 7, false), Ok(()), "errors before the load do not count");
        let failure = judged(1_205, 7, true).unwrap_err();
        assert_eq!(failure.step, FailureStep::ErrorReplies);
        assert!(failure.message.contains("1,200 requests with errors (1,200 OOM)"), "{failure:?}");
        let failure = judged(5, 1_007, false).unwrap_err();
        assert_eq!(failure.step, FailureStep::Eviction);
        assert!(failure.message.contains("evicted 1,000 keys") && failure.message.contains("allowEviction"));
        assert_eq!(judged(5, 1_007, true), Ok(()));
    }

    #[test]
    fn rates_and_figures_count_as_work() {
        let rate = Operation { operations_per_second: Some(5.0), ..operation("SET", 0, 0) };
        assert!(replies_are_good(&[rate], &BTreeMap::new(), false).is_ok());
        assert!(replies_are_good(&[], &BTreeMap::new(), true).is_ok());
    }

    #[test]
    fn error_replies_and_silence_are_failures() {
        let errors = BTreeMap::from([("OOM".to_owned(), 1_200), ("LOADING".to_owned(), 3)]);
        let failure = replies_are_good(&[operation("SET", 10, 1_203)], &errors, false).unwrap_err();
        assert_eq!(failure.step, FailureStep::ErrorReplies);
        assert_eq!(failure.message, "the server answered 1,203 requests with errors (3 LOADING, 1,200 OOM)");
        let failure = replies_are_good(&[operation("SET", 0, 0)], &BTreeMap::new(), false).unwrap_err();
        assert_eq!(failure.step, FailureStep::Tool);
        assert!(replies_are_good(&[operation("SET", 1, 0)], &BTreeMap::new(), false).is_ok());
    }
}
