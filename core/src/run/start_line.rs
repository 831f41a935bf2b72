//! The start line of an attempt: the instant at which all its clients begin their load. Pure.

use super::{decide::Receipt, stored_result::start_line, timing::lead, validate::Attempt};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::Job;

/// Longest time that sending the start command to all pods may take.
pub const SENDING: SignedDuration = SignedDuration::from_millis(300);
/// After this time, a start command has arrived or failed.
pub const ARRIVES_WITHIN: SignedDuration = SignedDuration::from_secs(3);
/// Time that is added to a start line if it replaces one that passed before it was sent.
const MORE_TIME: SignedDuration = SignedDuration::from_secs(2);

/// What to do with a start line that is written on a Job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Line {
    Send,
    /// It is too late to send it, and another operator's command may be on its way.
    Await,
    /// No pod has it, and none can get it any more.
    Replace,
}

/// Two operators at once, the old and the new one of an upgrade, must never send two lines: none
/// sends a line in its last [`SENDING`], and none replaces it before every command that was sent
/// earlier has arrived or failed.
pub fn line(start: Timestamp, now: Timestamp, received: bool) -> Line {
    if received || start > now + SENDING {
        Line::Send
    } else if now < start + ARRIVES_WITHIN {
        Line::Await
    } else {
        Line::Replace
    }
}

/// The start line of `attempt`, whether some pod may have it already, and whether it is to be written
/// on `job`: an operator that dies in between finds it again, and replaces it only if it has passed
/// before any pod received it. A line that was too early once gets more time. `None` as long as it can
/// be neither sent nor replaced.
pub fn choose(
    attempt: &Attempt,
    job: &Job,
    receipt: Receipt,
    now: Timestamp,
) -> Option<(Timestamp, bool, bool)> {
    let next = now + lead(attempt.pods, attempt.tool.head_start());
    let received = receipt != Receipt::Missing;
    let Some(start) = start_line(&job.metadata) else { return Some((next, false, true)) };
    match line(start, now, received) {
        Line::Send => Some((start, received, false)),
        Line::Await => None,
        Line::Replace => Some((next + MORE_TIME, false, true)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{fixtures::run, labels, run::validate::validate};
    use serde_json::json;

    #[test]
    fn a_start_line_is_replaced_only_once_no_pod_can_receive_it() {
        let start = Timestamp::from_second(1_000_000).unwrap();
        let after = |milliseconds| start + SignedDuration::from_millis(milliseconds);
        for (now, sent, expected) in [
            (-1000, false, Line::Send),
            (-200, false, Line::Await),
            (0, false, Line::Await),
            (2999, false, Line::Await),
            (3000, false, Line::Replace),
            (-200, true, Line::Send),
            (60_000, true, Line::Send),
        ] {
            assert_eq!(line(start, after(now), sent), expected, "{now} ms after it, sent to some: {sent}");
        }
        let late = |receipt, now| {
            let annotations = json!({labels::START_AT: start.as_nanosecond().to_string()});
            let job: Job = serde_json::from_value(json!({"metadata": {"annotations": annotations}})).unwrap();
            let run = validate(&run(&["read"], 1)).unwrap();
            choose(&run.attempts[0], &job, receipt, after(now))
        };
        assert_eq!(late(Receipt::Unknown, 2000), Some((start, true, false)), "some may load by it");
        assert_eq!(late(Receipt::Missing, 2000), None, "another operator's command may be on its way");
        let (next, received, write) = late(Receipt::Missing, 5000).unwrap();
        assert!(!received && write && next > after(7000), "the API server needs its time: {next}");
        // A command that is sent in time has ended before the line is replaced.
        assert!(ARRIVES_WITHIN >= SENDING);
    }
}
