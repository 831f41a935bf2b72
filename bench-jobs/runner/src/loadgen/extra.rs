//! What a report holds beside its numbers per operation. Read by itself, with
//! defaults for all of it, so that the reports of older generators stay readable.

use dragstrip_crds::result::{BatchStatistics, Estimate, Presence, ScheduleRecord};
use serde::Deserialize;
use std::collections::BTreeMap;

/// The members of a report that not every run has.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Extra {
    /// Commands sent and answered, by the server's names, warm-up and retries included.
    pub commands: BTreeMap<String, u64>,
    /// An open loop's schedule.
    pub schedule: Option<Schedule>,
    /// What was done before the measured part.
    pub warmup: Option<WarmupReport>,
    /// Timed batches.
    pub batches: Option<Batches>,
    /// Keys that were looked for.
    pub verified: Option<Verified>,
    /// Jobs that were looked for in their queues.
    pub queues: Option<Presence>,
}

/// An open loop's schedule.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Schedule {
    /// fixed or poisson.
    pub kind: String,
    /// Operations per second that were asked for.
    pub operations_per_second: f64,
    /// Requests that were due.
    pub scheduled: u64,
    /// Requests sent.
    pub sent: u64,
    /// Requests answered.
    pub answered: u64,
    /// Longest time a request was sent after it was due, in microseconds.
    pub maximum_lag_microseconds: f64,
}

/// What was done before the measured part.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WarmupReport {
    /// How long, in seconds.
    pub seconds: f64,
    /// Operations by name.
    pub operations: BTreeMap<String, u64>,
}

/// Timed batches.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Batches {
    /// Items of one batch.
    pub items: u64,
    /// Items of one command or pipeline.
    pub batch_size: u64,
    /// Key and value of one item, in bytes.
    pub bytes_per_item: u64,
    /// Batches that were timed.
    pub iterations: u64,
    /// Time per batch in seconds.
    pub seconds_per_batch: Estimate,
    /// Items per second.
    pub elements_per_second: Estimate,
    /// MiB per second.
    pub mebibytes_per_second: Estimate,
}

/// Keys that were looked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Verified {
    /// How many there must be.
    pub expected: u64,
    /// How many there are.
    pub present: u64,
}

impl From<Schedule> for ScheduleRecord {
    fn from(schedule: Schedule) -> Self {
        let Schedule { kind, operations_per_second, scheduled, sent, answered, maximum_lag_microseconds } =
            schedule;
        Self { kind, operations_per_second, scheduled, sent, answered, maximum_lag_microseconds }
    }
}

impl From<Batches> for BatchStatistics {
    fn from(batches: Batches) -> Self {
        Self {
            items: batches.items,
            batch_size: batches.batch_size,
            bytes_per_item: batches.bytes_per_item,
            iterations: batches.iterations,
            seconds_per_batch: batches.seconds_per_batch,
            elements_per_second: batches.elements_per_second,
            mebibytes_per_second: batches.mebibytes_per_second,
        }
    }
}

impl From<Verified> for Presence {
    fn from(verified: Verified) -> Self {
        Self { expected: verified.expected, found: verified.present }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_without_any_of_it_reads_as_nothing() {
        assert_eq!(
            serde_json::from_str::<Extra>(r#"{"tool": "x", "totals": {}}"#).unwrap(),
            Extra::default()
        );
    }

    #[test]
    fn all_of_it_is_read() {
        let extra: Extra = serde_json::from_str(
            r#"{"commands": {"mset": 3}, "warmup": {"seconds": 1.5, "operations": {"GET": 9}},
                "schedule": {"kind": "poisson", "operationsPerSecond": 100, "scheduled": 5, "sent": 5,
                             "answered": 4, "unsentAtEnd": 0, "maximumLagMicroseconds": 1000000.5},
                "batches": {"items": 10, "batchSize": 5, "bytesPerItem": 100, "iterations": 7,
                            "secondsPerBatch": {"low": 1, "mid": 2, "high": 3}},
                "verified": {"expected": 10, "present": 9}, "queues": {"expected": 4, "found": 4}}"#,
        )
        .unwrap();
        assert_eq!((extra.commands["mset"], extra.warmup.unwrap().operations["GET"]), (3, 9));
        let schedule = ScheduleRecord::from(extra.schedule.unwrap());
        assert_eq!((schedule.kind.as_str(), schedule.scheduled, schedule.answered), ("poisson", 5, 4));
        assert!((schedule.maximum_lag_microseconds - 1_000_000.5).abs() < 1e-6);
        let batches = BatchStatistics::from(extra.batches.unwrap());
        assert!((batches.iterations, batches.seconds_per_batch.high > 2.9) == (7, true), "{batches:?}");
        assert_eq!(Presence::from(extra.verified.unwrap()), Presence { expected: 10, found: 9 });
        assert_eq!(extra.queues, Some(Presence { expected: 4, found: 4 }));
    }
}
