//! The JSON result of a run.
//!
//! These types are the format: the generators write them, and the runner uses [`Report::from_json`].
//! Times named `...UnixNanos` are wall-clock nanoseconds since the Unix epoch; everything else is
//! measured on the monotonic clock.

use std::collections::BTreeMap;

use dragstrip_crds::measured::{BatchStatistics, ScheduleRecord};
use dragstrip_results::{
    histogram::EncodedHistogram,
    hit_series::HitSeries,
    latency_series::EncodedSeries,
    result::{Operation, Presence},
    usage::ThreadUsage,
};
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::specification::Specification;

#[skip_serializing_none]
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Report {
    pub tool: String,
    pub version: String,
    /// How the run ended. Only [`RunStatus::Completed`] is a complete result.
    pub status: RunStatus,
    /// Name of the signal that ended the run early.
    pub interrupted: Option<String>,
    pub failure: Option<Failure>,
    pub exit_code: u8,
    /// What was declared; it holds no secret.
    pub specification: Option<Specification>,
    /// Wall time of the first byte sent, or of the begin of an open loop's schedule.
    pub started_at_unix_nanos: Option<u64>,
    /// Seconds until the last reply received; at least until the end of a schedule that was completed.
    pub window_seconds: f64,
    /// Sums over all operations.
    pub totals: Totals,
    /// Results of each operation that was sent: `SET`, `GET`, `MSET+EXPIREAT`, or the command of a
    /// template, with the prefix of its own keys if it has some (`GET page:*`); a second one of the same name
    /// ends in `#2`. `SET (miss)` are those that `onMiss` sent;
    /// their latency begins when the miss was read. The latency of an operation is the
    /// time from just before its batch is handed to the kernel, in an open loop from its intended
    /// time, until the read that brought the last byte of its reply returned. An operation that
    /// was due and never answered is in it with the time that it had waited.
    pub operations: Vec<Operation>,
    pub errors: Vec<ErrorReport>,
    /// What each load thread used in the window, in an open loop without the time that it waited.
    pub threads: Vec<ThreadUsage>,
    pub batches: Option<BatchStatistics>,
    /// Commands sent and answered by their lower-case name, over the complete run:
    /// warm-up, error replies and redirections included, greetings not.
    pub commands: BTreeMap<String, u64>,
    /// How punctual an open loop was.
    pub schedule: Option<ScheduleRecord>,
    /// Requests of the schedule that were due in each of its whole seconds.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub due_per_second: Vec<u64>,
    /// By how much each operation was written after its intended time, or else had waited.
    pub schedule_lag: Option<EncodedHistogram>,
    /// Latencies of all operations but `SET (miss)` by the second.
    pub latency_series: Option<EncodedSeries>,
    /// What reads found by the second.
    pub hit_series: Option<HitSeries>,
    /// What was sent before the measured window.
    pub warmup: Option<WarmupReport>,
    /// Which keys exist, after the task `VerifyKeys`.
    pub verified: Option<Presence>,
}

impl Report {
    pub fn from_json(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }

    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string_pretty(self)
    }

    pub fn operation(&self, name: &str) -> Option<&Operation> {
        self.operations.iter().find(|operation| operation.name == name)
    }
}

#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum RunStatus {
    /// Every connection did its part. Error replies are possible.
    Completed,
    /// A signal ended it; the numbers cover what was done until then.
    Interrupted,
    /// Something failed; the numbers cover what was done until then.
    #[default]
    Failed,
}

#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Failure {
    pub kind: FailureKind,
    /// What failed, where and why, in one line.
    pub message: String,
}

impl Failure {
    /// The failure of a client at a `step` of its own work, and why.
    pub fn of_client(step: &str, problem: &dyn std::fmt::Display) -> Self {
        Self { kind: FailureKind::Client, message: format!("cannot {step}: {problem}") }
    }
}

/// Classes of failure, each with its exit code.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[repr(u8)]
pub enum FailureKind {
    /// The host name has no address.
    NameResolution = 3,
    /// A connection could not be made.
    Connect = 4,
    /// The server refused the credentials or wants some.
    Authentication = 5,
    /// The server refused the protocol version, or the handshake broke.
    Handshake = 6,
    ConnectionLost = 7,
    /// The server fell silent during the run.
    ResponseTimeout = 8,
    /// The server sent something that is not a valid reply.
    Protocol = 9,
    /// The client itself could not do its work.
    #[default]
    Client = 12,
}

/// Sums over all operations.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Totals {
    pub requests: u64,
    pub count: u64,
    pub errors: u64,
    /// Successful replies per second of the window, to all operations but `SET (miss)`.
    pub operations_per_second: f64,
}

/// Load before the measured window; it is in no other figure but `commands`.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WarmupReport {
    /// Declared length.
    pub seconds: f64,
    /// Successful replies by operation.
    pub operations: BTreeMap<String, u64>,
    /// Error replies of all operations.
    pub errors: u64,
}

#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ErrorReport {
    pub operation: String,
    /// First word of the error, such as `OOM`; `(unexpected-reply)` for a reply
    /// whose type cannot answer the operation, `(other)` for kinds beyond 64.
    pub kind: String,
    pub count: u64,
    /// The first of them in full, up to 1024 bytes.
    pub first_message: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use dragstrip_results::histogram;

    #[test]
    fn a_report_is_read_as_it_was_written() {
        let mut histogram = histogram::empty().unwrap();
        (1..=1000).for_each(|value| histogram.record_n(value, 10).unwrap());
        let latencies = histogram::Latencies::from_microseconds(histogram);
        let report = Report {
            tool: "dragstrip-loadgen".into(),
            status: RunStatus::Failed,
            failure: Some(Failure { kind: FailureKind::ResponseTimeout, ..Failure::default() }),
            started_at_unix_nanos: Some(1_790_000_000_123_456_789),
            operations: vec![Operation {
                name: "GET".into(),
                latency_milliseconds: latencies.summary(),
                histogram: Some(latencies.encode().unwrap()),
                ..Operation::default()
            }],
            ..Report::default()
        };
        let text = report.to_json().unwrap();
        assert_eq!(Report::from_json(&text).unwrap(), report);
        assert!(text.contains("\"p999\": 0.999"), "{text}");
    }
}
