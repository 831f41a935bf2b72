//! The oracle: compares what a run shows with what its client pods reported and its server executed. Pure.

use crate::{
    plan::Plan,
    witness::{Reading, Seen, Tally},
};
use dragstrip_crds::{
    BenchmarkRunStatus,
    run::{PhaseStatus, RunPhase},
};
use dragstrip_results::result::{Operation, PodResult, RepetitionResult, TOTAL, in_flight};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

/// Between an event and the moment at which the witness sees it, at most.
const SIGHT: Duration = Duration::from_millis(300);

/// A phase as it is shown, and what the oracle counted.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PhaseRecord {
    pub name: String,
    /// Its verdict.
    pub verdict: Option<String>,
    /// Successful operations that the run shows.
    pub shown: u64,
    /// What its client pods reported.
    pub tallied: Option<u64>,
    /// What the server executed meanwhile; absent if it ended before it could be read again.
    pub executed: Option<u64>,
}

/// What the oracle found.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Findings {
    pub phases: Vec<PhaseRecord>,
    /// Why measurements were made again.
    #[serde(default)]
    pub retries: Vec<String>,
    /// Good results that pods left on their nodes, and that the run has as failures.
    #[serde(default)]
    pub unread: Vec<String>,
    /// Results that are lost.
    pub lost: Vec<String>,
    /// Numbers that it contradicts.
    pub contradicted: Vec<String>,
}

/// What a run shows.
pub struct Shown {
    pub status: BenchmarkRunStatus,
    /// Its stored results by the name of their ConfigMap.
    pub results: BTreeMap<String, RepetitionResult>,
}

/// Commands that are load.
const LOAD: [&str; 2] = ["get", "set"];

fn loads(reading: &Reading) -> u64 {
    LOAD.iter().filter_map(|command| reading.calls.get(*command)).sum()
}

fn commands(result: &PodResult) -> u64 {
    result.commands.values().sum()
}

fn successes(operations: &[Operation]) -> u64 {
    operations.iter().filter(|operation| operation.name != TOTAL).map(|operation| operation.count).sum()
}

/// What the server executed from before the first of `tallies` was seen until the last had reported.
#[derive(Debug, PartialEq, Eq)]
enum Executed {
    /// So much.
    Exactly(u64),
    /// It was replaced between two readings; the old process had executed so much when it was last read.
    AtLeast(u64),
    /// It was not read before.
    Unknown,
}

fn executed(readings: &[Reading], from: Instant, until: Instant) -> Executed {
    let Some(first) = readings.iter().rfind(|reading| reading.at <= from) else { return Executed::Unknown };
    let of_process = || readings.iter().filter(|reading| reading.process == first.process);
    let last = readings.iter().find(|reading| reading.at >= until);
    match (last, of_process().next_back()) {
        (Some(last), _) if last.process == first.process => {
            Executed::Exactly(loads(last).saturating_sub(loads(first)))
        }
        (_, Some(last)) => Executed::AtLeast(loads(last).saturating_sub(loads(first))),
        (_, None) => Executed::Unknown,
    }
}

/// Judges what a run shows. The fault was `injected` at that moment, if at all.
pub fn judge(plan: &Plan, shown: &Shown, seen: &Seen, injected: Option<Instant>) -> Findings {
    let mut findings = Findings::default();
    for phase in &shown.status.phases {
        judge_phase(plan, phase, shown, seen, injected, &mut findings);
    }
    findings.retries = shown.status.retries.iter().map(|retry| retry.reason.clone()).collect();
    findings.unread = unread(shown, seen);
    account(plan, shown, seen, &mut findings);
    complete(plan, shown, &mut findings);
    findings
}

/// Pods with a good result on their nodes, which the run stored as failed. Those of a deleted pod or a lost node
/// can be seen by this oracle only.
fn unread(shown: &Shown, seen: &Seen) -> Vec<String> {
    let stored = shown.results.values().filter(|result| result.failure.is_some());
    let failed = stored.flat_map(|result| &result.pods).filter(|pod| pod.failure.is_some());
    let good = |tally: &Tally| {
        tally.result.as_ref().is_some_and(|result| result.complete && result.failure.is_none())
    };
    let unread = failed.filter(|pod| seen.tallies.iter().any(|tally| tally.pod == pod.pod && good(tally)));
    unread.map(|pod| pod.pod.clone()).collect()
}

/// A phase's figures are those of its client pods, and the server executed as much.
fn judge_phase(
    plan: &Plan,
    phase: &PhaseStatus,
    shown: &Shown,
    seen: &Seen,
    injected: Option<Instant>,
    findings: &mut Findings,
) {
    let name = &phase.name;
    let rows = phase.operations.iter().filter(|row| row.operation != TOTAL);
    let mut record = PhaseRecord {
        name: name.clone(),
        verdict: phase.verdict.map(|verdict| format!("{verdict:?}")),
        shown: rows.map(|row| row.count).sum(),
        tallied: None,
        executed: None,
    };
    let stored = phase.repetitions.first().and_then(|repetition| shown.results.get(&repetition.config_map));
    let Some(stored) = stored.filter(|_| phase.repetitions.len() == 1) else {
        findings.lost.push(format!("{name} is shown without a stored result of its one repetition"));
        findings.phases.push(record);
        return;
    };
    let mut contradict = |what: String| findings.contradicted.push(format!("{name}: {what}"));
    if stored.pods.len() != plan.pods as usize || stored.failure.is_some() {
        contradict(format!("{} pods were measured, failure {:?}", stored.pods.len(), stored.failure));
    }
    let tallies: Vec<&Tally> =
        seen.tallies.iter().filter(|tally| stored.pods.iter().any(|pod| pod.pod == tally.pod)).collect();
    let results: Vec<&PodResult> = tallies.iter().filter_map(|tally| tally.result.as_ref()).collect();
    let good = results.iter().filter(|result| result.complete && result.failure.is_none()).count();
    if good == stored.pods.len() {
        let tallied = results.iter().map(|result| successes(&result.operations)).sum();
        record.tallied = Some(tallied);
        if tallied != record.shown {
            contradict(format!("{} operations are shown, its pods report {tallied}", record.shown));
        }
        let from = tallies.iter().map(|tally| tally.seen).min();
        let until = tallies.iter().map(|tally| tally.reported).max();
        let sent: u64 = results.iter().map(|result| commands(result)).sum();
        let most = sent + in_the_air(&results);
        let growth = from.zip(until).map(|(from, until)| (executed(&seen.readings, from, until), until));
        match growth {
            Some((Executed::Exactly(count), _)) => {
                record.executed = Some(count);
                if !(sent..=most).contains(&count) {
                    contradict(format!("the server executed {count} commands, its pods report {sent}"));
                }
            }
            Some((Executed::AtLeast(count), until)) => {
                // A server that ended after the load could not be read a last time.
                let after = injected.is_some_and(|injected| injected + SIGHT >= until);
                if count > most || count < sent && !after {
                    contradict(format!("the server ended under the load: {count} of {sent} commands"));
                }
            }
            Some((Executed::Unknown, _)) | None => {}
        }
    } else {
        contradict(format!("{good} of its {} pods have a good result of their own", stored.pods.len()));
    }
    findings.phases.push(record);
}

/// Requests whose replies the clients may not have seen when the time was over.
fn in_the_air(results: &[&PodResult]) -> u64 {
    results.iter().map(|result| in_flight(result.tool.connections, result.tool.pipeline, 1)).sum()
}

/// A run without retries sent nothing that is in no result.
fn account(plan: &Plan, shown: &Shown, seen: &Seen, findings: &mut Findings) {
    let status = &shown.status;
    let (Some(first), Some(last)) = (seen.readings.first(), seen.readings.last()) else { return };
    if status.phase != RunPhase::Succeeded || !status.retries.is_empty() || first.process != last.process {
        return;
    }
    let of_pods: Vec<&PodResult> = shown.results.values().flat_map(|result| &result.pods).collect();
    let sent: u64 = of_pods.iter().map(|pod| commands(pod)).sum();
    let executed = loads(last).saturating_sub(loads(first));
    if !(sent..=sent + in_the_air(&of_pods)).contains(&executed) {
        let phases = plan.phases.len();
        findings.contradicted.push(format!(
            "the server executed {executed} commands, the results of {phases} phases have {sent}: something was measured twice"
        ));
    }
}

/// A run that succeeded has its numbers; one that failed says why; what was lost is recorded.
fn complete(plan: &Plan, shown: &Shown, findings: &mut Findings) {
    let status = &shown.status;
    let lost = &mut findings.lost;
    if status.phase == RunPhase::Succeeded {
        for name in (0..plan.phases.len()).map(Plan::phase_name) {
            let has_numbers =
                |phase: &PhaseStatus| phase.name == name && phase.operations.iter().any(|row| row.count > 0);
            if !status.phases.iter().any(has_numbers) {
                lost.push(format!("the run succeeded without the numbers of {name}"));
            }
        }
    } else if status.failure.as_ref().is_none_or(|failure| failure.message.is_empty()) {
        lost.push(format!("the run is {} and says no reason", status.phase));
    }
    let is_lost = |result: &&RepetitionResult| {
        let step = result.failure.as_ref().map(|failure| failure.failure.step);
        step == Some(dragstrip_results::result::FailureStep::Lost)
    };
    let stored = shown.results.values().filter(is_lost).count();
    let fatal = status.failure.as_ref().is_some_and(|failure| failure.step == "Lost");
    let recorded = status.retries.len() + usize::from(fatal);
    // A lost repetition after which something else failed is shown by that alone.
    if stored > recorded && (status.phase == RunPhase::Succeeded || stored > recorded + 1) {
        lost.push(format!("{stored} measurements were lost, the status shows {recorded}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dragstrip_crds::run::{FailureStatus, OperationStatus, RepetitionStatus};
    use dragstrip_results::result::ToolRecord;
    use serde_json::json;

    fn reading(at: Instant, process: &str, sets: u64) -> Reading {
        Reading { at, process: process.to_owned(), calls: [("set".to_owned(), sets)].into() }
    }

    fn pod(count: u64) -> PodResult {
        let operation = Operation { name: "SET".to_owned(), count, ..Operation::default() };
        PodResult {
            pod: "client".to_owned(),
            complete: true,
            operations: vec![operation],
            commands: [("set".to_owned(), count)].into(),
            tool: ToolRecord { connections: 20, pipeline: 1, ..ToolRecord::default() },
            ..PodResult::default()
        }
    }

    /// A run of one phase that shows `shown` operations.
    fn run(shown: u64) -> Shown {
        let row: OperationStatus = serde_json::from_value(json!({
            "operation": "SET", "count": shown, "errors": 0, "bytesPerSecond": 0,
            "operationsPerSecond": {"repetitions": 1, "mean": 1},
        }))
        .unwrap();
        let repetition: RepetitionStatus = serde_json::from_value(json!({
            "repetition": 1, "configMap": "result", "windowSeconds": 1, "clientCpus": 1,
        }))
        .unwrap();
        let mut phase: PhaseStatus = serde_json::from_value(
            json!({"name": "phase-1", "tool": {"name": "loadgen"}, "operations": [], "repetitions": []}),
        )
        .unwrap();
        phase.operations.push(row);
        phase.repetitions.push(repetition);
        let status =
            BenchmarkRunStatus { phase: RunPhase::Succeeded, phases: vec![phase], ..Default::default() };
        let result = RepetitionResult { pods: vec![pod(shown)], ..RepetitionResult::default() };
        Shown { status, results: [("result".to_owned(), result)].into() }
    }

    fn plan() -> Plan {
        let mut plan = Plan::of(1);
        (plan.pods, plan.phases) = (1, vec![plan.phases[0]]);
        plan
    }

    /// The server executed `sets`, the pod reported `tallied`, and the last reading is of `process`.
    fn seen(tallied: u64, sets: u64, process: &str) -> Seen {
        let now = Instant::now();
        let later = |seconds| now + Duration::from_secs(seconds);
        let tally = Tally {
            pod: "client".to_owned(),
            uid: String::new(),
            seen: later(1),
            reported: later(3),
            result: Some(pod(tallied)),
        };
        let readings = vec![reading(now, "one", 100), reading(later(4), process, 100 + sets)];
        Seen { readings, tallies: vec![tally] }
    }

    #[test]
    fn numbers_that_pods_and_server_confirm_are_contradicted_by_nothing() {
        for executed in [500, 520] {
            let findings = judge(&plan(), &run(500), &seen(500, executed, "one"), None);
            assert!(findings.lost.is_empty() && findings.contradicted.is_empty(), "{findings:?}");
            assert_eq!(findings.phases[0].executed, Some(executed));
        }
    }

    #[test]
    fn numbers_that_the_pods_or_the_server_do_not_have_are_contradicted() {
        let table = [
            ("another count than the pods'", 400, 500, "one", "pods report 400"),
            ("more than the server executed", 500, 499, "one", "executed 499"),
            ("a load that was sent twice", 500, 1000, "one", "measured twice"),
            ("a server that ended under the load", 500, 0, "other", "ended under the load"),
        ];
        for (sentence, tallied, executed, process, expected) in table {
            let findings = judge(&plan(), &run(500), &seen(tallied, executed, process), None);
            assert!(findings.contradicted.join(" ").contains(expected), "{sentence}: {findings:?}");
        }
        let mut without = seen(500, 500, "one");
        without.tallies.clear();
        let findings = judge(&plan(), &run(500), &without, None);
        assert!(findings.contradicted[0].contains("0 of its 1 pods"), "{findings:?}");
    }

    #[test]
    fn a_run_that_succeeded_without_numbers_or_failed_without_a_reason_has_lost_them() {
        let mut empty = run(500);
        empty.status.phases.clear();
        let findings = judge(&plan(), &empty, &seen(500, 500, "one"), None);
        assert!(findings.lost[0].contains("without the numbers"), "{findings:?}");
        empty.status.phase = RunPhase::Failed;
        let findings = judge(&plan(), &empty, &seen(500, 500, "one"), None);
        assert!(findings.lost[0].contains("no reason"), "{findings:?}");
        empty.status.failure =
            Some(FailureStatus { step: "Lost".to_owned(), message: "gone".to_owned(), ..Default::default() });
        let findings = judge(&plan(), &empty, &seen(500, 500, "one"), None);
        assert!(findings.lost.is_empty(), "{findings:?}");
    }
}
