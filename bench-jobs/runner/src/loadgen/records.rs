//! The generator's records of schedules, batches and queues as the result keeps
//! them. Pure.

use dragstrip_crds::measured::{BatchStatistics, Estimate, ScheduleRecord};
use dragstrip_loadgen::{
    batches::{BatchReport, Estimate as EstimateReport},
    replay::plan::QueueReport,
    report::ScheduleReport,
};
use dragstrip_results::result::Presence;

pub(super) fn schedule(report: &ScheduleReport) -> ScheduleRecord {
    ScheduleRecord {
        kind: report.kind.clone(),
        operations_per_second: report.operations_per_second,
        scheduled: report.scheduled,
        sent: report.sent,
        answered: report.answered,
        maximum_lag_microseconds: report.maximum_lag_microseconds as f64,
    }
}

pub(super) fn batches(report: &BatchReport) -> BatchStatistics {
    BatchStatistics {
        items: report.items,
        batch_size: report.batch_size,
        bytes_per_item: report.bytes_per_item,
        iterations: report.iterations,
        seconds_per_batch: estimate(report.seconds_per_batch),
        elements_per_second: estimate(report.elements_per_second),
        mebibytes_per_second: estimate(report.mebibytes_per_second),
    }
}

fn estimate(report: EstimateReport) -> Estimate {
    Estimate { low: report.low, mid: report.mid, high: report.high }
}

pub(super) fn queues(report: &QueueReport) -> Presence {
    Presence { expected: report.expected, found: report.found }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dragstrip_loadgen::report::Report;

    #[test]
    fn a_report_without_any_of_it_reads_as_nothing() {
        let report = Report::from_json(r#"{"tool": "x", "totals": {}}"#).unwrap();
        assert_eq!((report.schedule, report.warmup, report.batches), (None, None, None));
        assert_eq!((report.verified, report.queues, report.commands.len()), (None, None, 0));
    }

    #[test]
    fn all_of_it_is_read() {
        let report = Report::from_json(
            r#"{"commands": {"mset": 3}, "warmup": {"seconds": 1.5, "operations": {"GET": 9}},
                "schedule": {"kind": "poisson", "operationsPerSecond": 100, "scheduled": 5, "sent": 5,
                             "answered": 4, "unsentAtEnd": 0, "maximumLagMicroseconds": 1000000},
                "batches": {"items": 10, "batchSize": 5, "bytesPerItem": 100, "iterations": 7,
                            "secondsPerBatch": {"low": 1, "mid": 2, "high": 3}},
                "verified": {"expected": 10, "present": 9}, "queues": {"expected": 4, "found": 4}}"#,
        )
        .unwrap();
        assert_eq!((report.commands["mset"], report.warmup.unwrap().operations["GET"]), (3, 9));
        let schedule = schedule(&report.schedule.unwrap());
        assert_eq!((schedule.kind.as_str(), schedule.scheduled, schedule.answered), ("poisson", 5, 4));
        assert!((schedule.maximum_lag_microseconds - 1_000_000.0).abs() < 1e-6);
        let batches = batches(&report.batches.unwrap());
        assert!((batches.iterations, batches.seconds_per_batch.high > 2.9) == (7, true), "{batches:?}");
        let verified = report.verified.unwrap();
        assert_eq!((verified.expected, verified.present), (10, 9));
        assert_eq!(queues(&report.queues.unwrap()), Presence { expected: 4, found: 4 });
    }
}
