//! Bounds of a status: one that is too large for an object can never be written, and its run would hold its
//! Leases for ever. The stored results have what is left out. Pure.

use dragstrip_crds::{
    BenchmarkRunSpec, BenchmarkRunStatus,
    run::{PhaseStatus, SUM},
};
use dragstrip_results::result::TOTAL;
use serde::Serialize;
use serde_json::Value;

/// Most bytes of all phases as JSON, before what each may have is limited.
const MOST_PHASES: usize = 150_000;
/// Most bytes of a status as JSON: the API server refuses objects of more than 1.5 MiB.
const MOST_STATUS: usize = 400_000;
/// How many entries each list of a phase may have; the first that makes all phases fit counts.
const ENTRIES: [usize; 6] = [300, 100, 30, 10, 4, 2];
/// The same of all lists of a status, and the bytes of each text in it. The smallest leave all
/// phases, conditions and names complete.
const OF_STATUS: [(usize, usize); 3] = [(500, 4000), (200, 1000), (40, 256)];

fn size(value: &impl Serialize) -> usize {
    // What has no JSON form cannot be written either.
    serde_json::to_vec(value).map_or(usize::MAX, |json| json.len())
}

/// `phases` without what makes them too large for a status: first the memory of each
/// server, then the list of each repetition, then rows of single operations, then entries of the
/// other lists, but not the metric that `spec` has as a headline.
pub fn fit(mut phases: Vec<PhaseStatus>, spec: &BenchmarkRunSpec) -> Vec<PhaseStatus> {
    if size(&phases) > MOST_PHASES {
        for phase in &mut phases {
            phase.memory.retain(|reading| reading.member == SUM);
        }
    }
    if size(&phases) > MOST_PHASES {
        for phase in &mut phases {
            phase.repetitions.clear();
            if let Some(search) = &mut phase.search {
                (search.points, search.per_repetition, search.rates) = (Vec::new(), Vec::new(), Vec::new());
            }
            phase.notes.push(
                "the list of repetitions is left out for its size: dragstrip report --results has it"
                    .to_owned(),
            );
        }
    }
    if size(&phases) > MOST_PHASES {
        for phase in &mut phases {
            phase.operations.retain(|row| row.operation == TOTAL);
            phase.notes.push(
                "single operations are left out for their size: dragstrip report --results has them"
                    .to_owned(),
            );
        }
    }
    if size(&phases) <= MOST_PHASES {
        return phases;
    }
    let with = |most: usize| -> Vec<PhaseStatus> {
        phases.iter().map(|phase| with_entries(phase, spec, most)).collect()
    };
    ENTRIES.iter().map(|most| with(*most)).find(|it| size(it) <= MOST_PHASES).unwrap_or_else(|| with(1))
}

fn with_entries(phase: &PhaseStatus, spec: &BenchmarkRunSpec, most: usize) -> PhaseStatus {
    let mut phase = phase.clone();
    let declared = spec.phases.iter().find(|declared| declared.name == phase.name);
    let headline = declared.and_then(|declared| declared.headline.as_deref());
    let more = phase.metrics.len().saturating_sub(most);
    if more > 0 {
        phase.metrics.sort_by_key(|metric| Some(metric.name.as_str()) != headline);
        phase.metrics.truncate(most);
        phase.notes.insert(0, format!("metrics: and {more} more in the result"));
    }
    for texts in [&mut phase.notes, &mut phase.tool.command] {
        let more = texts.len().saturating_sub(most);
        if more > 0 {
            texts.truncate(most);
            texts.push(format!("and {more} more in the result"));
        }
    }
    phase.reasons.truncate(most);
    phase
}

/// `status` so that it can be written, whatever its parts are.
pub(super) fn bounded(status: BenchmarkRunStatus) -> BenchmarkRunStatus {
    if size(&status) <= MOST_STATUS {
        return status;
    }
    let shortened = |(entries, bytes): &(usize, usize)| {
        let mut value = serde_json::to_value(&status).ok()?;
        shorten(&mut value, *entries, *bytes);
        let status: BenchmarkRunStatus = serde_json::from_value(value).ok()?;
        (size(&status) <= MOST_STATUS).then_some(status)
    };
    OF_STATUS.iter().find_map(shortened).unwrap_or_else(|| BenchmarkRunStatus {
        phase: status.phase,
        started_at: status.started_at.clone(),
        finished_at: status.finished_at.clone(),
        clock: status.clock.clone(),
        conditions: status.conditions.clone(),
        message: Some("the status is too large to be shown; the stored results are complete".to_owned()),
        ..BenchmarkRunStatus::default()
    })
}

/// Cuts each list of `value` to so many entries and each text to so many bytes.
fn shorten(value: &mut Value, entries: usize, bytes: usize) {
    match value {
        Value::String(text) if text.len() > bytes => {
            text.truncate(text.floor_char_boundary(bytes));
            text.push('…');
        }
        Value::Array(list) => {
            let texts = list.first().is_some_and(Value::is_string);
            let more = list.len().saturating_sub(entries);
            list.truncate(entries);
            for entry in list.iter_mut() {
                shorten(entry, entries, bytes);
            }
            if more > 0 && texts {
                list.push(format!("and {more} more in the result").into());
            }
        }
        Value::Object(fields) => {
            for field in fields.values_mut() {
                shorten(field, entries, bytes);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        fixtures::{pod_result, run},
        run::{
            merge::merge,
            summary::phases,
            validate::{Attempt, validate},
        },
    };
    use dragstrip_crds::{
        measured::Metric,
        run::{MemoryMoment, RetryStatus},
        workload::Merge,
    };
    use dragstrip_results::memory::{MemberMemory, readings};

    #[test]
    fn the_largest_run_has_a_status_that_fits() {
        let names: Vec<String> = (0..32).map(|index| format!("phase-number-{index}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut largest = run(&names, 99);
        largest.spec.max_retries = 0;
        let run = validate(&largest).unwrap();
        let good = |attempt: &Attempt| merge(attempt, 1, vec![pod_result("p", 1000, 1.0, 100)]);
        let stored = run.attempts.iter().map(|attempt| (attempt.name.clone(), good(attempt))).collect();
        let phases = fit(phases(&run, &stored), &run.spec);
        let bytes = serde_json::to_vec(&phases).unwrap().len();
        assert!(bytes < 160_000, "32 phases of 99 repetitions have {bytes} bytes");
        assert_eq!(phases[31].operations[0].operations_per_second.repetitions, 99, "the figures are of all");
        assert!(
            phases[0].notes.iter().any(|note| note.contains("left out for its size")),
            "the status does not say so"
        );
    }

    #[test]
    fn of_many_servers_memory_that_of_all_together_is_what_stays() {
        let names: Vec<String> = (0..32).map(|index| format!("phase-{index}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut declared = run(&names, 1);
        declared.spec.max_retries = 0;
        let run = validate(&declared).unwrap();
        let members: Vec<MemberMemory> = (0..64)
            .map(|index| MemberMemory {
                server: format!("shop-{index}"),
                used_bytes: Some(1),
                ..MemberMemory::default()
            })
            .collect();
        let with = |attempt: &Attempt| {
            let mut result = merge(attempt, 1, vec![pod_result("p", 1000, 1.0, 100)]);
            result.memory = readings(MemoryMoment::RightAfter, 1.0, members.clone());
            result
        };
        let first = run.attempts.iter().take(1).map(|attempt| (attempt.name.clone(), with(attempt)));
        assert_eq!(fit(phases(&run, &first.collect()), &run.spec)[0].memory.len(), 65);
        let stored = run.attempts.iter().map(|attempt| (attempt.name.clone(), with(attempt))).collect();
        let phases = fit(phases(&run, &stored), &run.spec);
        let rows: Vec<(&str, Option<u64>)> =
            phases[31].memory.iter().map(|row| (row.member.as_str(), row.used_bytes)).collect();
        assert_eq!(rows, [(SUM, Some(64))]);
        assert_eq!(phases[31].repetitions.len(), 1, "the list of repetitions has room again");
    }

    fn metric(index: usize) -> Metric {
        let name = format!("a metric of the tool's own with a long name, number {index}");
        Metric { name, value: 1.0 / 3.0, unit: Some("MiB".into()), merge: Merge::Sum, more_is_better: None }
    }

    #[test]
    fn phases_with_thousands_of_metrics_show_what_fits_and_the_headline_and_count_the_rest() {
        for (number, metrics) in [(10, 1000), (32, 1000), (1, 15_000)] {
            let names: Vec<String> = (0..number).map(|index| format!("phase-{index}")).collect();
            let mut declared = run(&names.iter().map(String::as_str).collect::<Vec<_>>(), 1);
            declared.spec.max_retries = 0;
            let last = metric(metrics - 1).name;
            declared.spec.phases[0].headline = Some(last.clone());
            let run = validate(&declared).unwrap();
            let with = |attempt: &Attempt| {
                let mut result = merge(attempt, 1, vec![pod_result("p", 1000, 1.0, 100)]);
                result.metrics = (0..metrics).map(metric).collect();
                (attempt.name.clone(), result)
            };
            let stored = run.attempts.iter().map(with).collect();
            let phases = fit(phases(&run, &stored), &run.spec);
            let bytes = size(&phases);
            assert!(bytes <= MOST_PHASES, "{number} phases of {metrics} metrics have {bytes} bytes");
            let shown = phases[0].metrics.len();
            assert!(phases[0].metrics.iter().any(|metric| metric.name == last), "the headline is gone");
            let count = format!("and {} more in the result", metrics - shown);
            assert!(phases[0].notes.iter().any(|note| note.contains(&count)), "{:?}", phases[0].notes);
        }
    }

    #[test]
    fn a_status_of_long_lists_and_texts_is_cut_until_it_can_be_written() {
        let retry = |measurement| RetryStatus {
            repetition: 1,
            phase: "read".into(),
            measurement,
            reason: "\u{1}é".repeat(2_000),
        };
        let status = BenchmarkRunStatus {
            message: Some("m".repeat(500_000)),
            reasons: (0..2_000).map(|index| format!("reason {index}")).collect(),
            retries: (0..1_000).map(retry).collect(),
            ..BenchmarkRunStatus::default()
        };
        let bounded = bounded(status);
        assert!(size(&bounded) <= MOST_STATUS, "{} bytes", size(&bounded));
        assert!(bounded.message.unwrap().starts_with("mmm") && bounded.retries.len() >= 40);
        assert!(
            bounded.reasons.last().unwrap().ends_with("more in the result"),
            "what is left out is not counted"
        );
    }
}
