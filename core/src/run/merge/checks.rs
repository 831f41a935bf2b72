//! The checks of a repetition's numbers: what they found, and which could not be made. Pure.

use crate::run::{
    plan::counted,
    validate::attempt::{Attempt, ValidatedRun},
};
use dragstrip_crds::{run::CheckName, workload::ToolSpec};
use dragstrip_results::{
    commands::Account,
    counters::{Agreement, compared, counters_agree, joined},
    result::{Check, CheckState, Failure, FailureStep, PodResult, RepetitionResult, ServerRecord},
};
use std::collections::{BTreeMap, BTreeSet};

/// Whether a check was made, or why not.
type Made = Result<(), &'static str>;

const NO_RESP: &str = "the target does not speak RESP";

fn check(name: CheckName, made: Made) -> Check {
    let state = if made.is_ok() { CheckState::Passed } else { CheckState::NotMade };
    Check { name: name.to_string(), state, why: made.err().map(str::to_owned) }
}

/// The server as every pod saw it; `None` if one could not query it.
pub fn servers(results: &[PodResult]) -> Option<Vec<&ServerRecord>> {
    results.iter().map(|pod| pod.server.as_ref()).collect()
}

/// Whether all pods measured the same server, which did not restart: each pod's runner checked that.
fn same_server(results: &[PodResult]) -> Result<Made, Failure> {
    let Some(servers) = servers(results) else {
        return Ok(Err(NO_RESP));
    };
    let seen: BTreeSet<BTreeSet<&str>> = servers.iter().map(|server| server.run_ids().collect()).collect();
    if seen.iter().any(BTreeSet::is_empty) {
        return Ok(Err("the server reports nothing that a restart would change"));
    }
    if seen.len() > 1 {
        let each: Vec<String> = seen.into_iter().map(|ids| Vec::from_iter(ids).join(", ")).collect();
        let message = format!(
            "the client pods loaded different servers, by their run ids {}: use an address that leads to a single server",
            each.join(" and ")
        );
        return Err(Failure::new(FailureStep::ServerIdentity, message));
    }
    Ok(Ok(()))
}

/// The commands that all clients together report.
fn account(results: &[PodResult]) -> Account {
    let mut all = Account::default();
    for pod in results {
        all.extend(Account::of(pod));
    }
    all
}

/// Compares what the server counted with what all clients counted together.
fn counters(attempt: &Attempt, results: &[PodResult]) -> Result<(Made, Agreement), Failure> {
    let not_made = |why| Ok((Err(why), Agreement::Unknown));
    if !compared(&attempt.tool) {
        return not_made("counterCheck is not declared");
    }
    let account = account(results);
    if account.sent().is_empty() {
        return not_made("the tool's counts are not of the server's commands");
    }
    let Some(servers) = servers(results) else {
        return not_made(NO_RESP);
    };
    let before = joined(servers.iter().map(|server| &server.before), u64::min);
    let after = servers.iter().map(|server| server.after.as_ref()).collect::<Option<Vec<_>>>();
    let after = after.and_then(|looks| joined(looks, u64::max));
    let (Some(before), Some(after)) = (before, after) else {
        return not_made("the server could not be queried after the load");
    };
    let in_flight = results.iter().map(|pod| pod.in_flight(&attempt.tool)).sum();
    match counters_agree(&account, in_flight, &before, &after) {
        Ok(Agreement::Unknown) => not_made("the server keeps no command counters"),
        Ok(agreement) => Ok((Ok(()), agreement)),
        Err(error) => {
            let message = format!("over {} client pods, {error}", results.len());
            Err(Failure::new(FailureStep::CounterCheck, message))
        }
    }
}

/// Whether tool or server count error replies; each pod's runner has checked that there were none.
fn error_replies(attempt: &Attempt, results: &[PodResult]) -> Made {
    let counts = |server: &ServerRecord| server.after.as_ref().is_some_and(|after| after.counts_errors);
    let counted = servers(results).is_some_and(|servers| servers.into_iter().all(counts));
    match &*attempt.tool {
        ToolSpec::Exec(_) if !counted => Err("neither the tool nor the server is known to count them"),
        _ => Ok(()),
    }
}

/// Operations that could not be compared, if others were.
fn uncounted(attempt: &Attempt, results: &[PodResult]) -> Option<Check> {
    let account = account(results);
    let names = account.others().collect::<Vec<_>>().join(", ");
    let some = compared(&attempt.tool) && !names.is_empty() && !account.sent().is_empty();
    let why = format!("{names}: not a command of the server");
    some.then(|| Check { why: Some(why), ..check(CheckName::CountMismatch, Err("")) })
}

/// Whether every server was read, and none is declared to evict.
fn none_evicts(results: &[PodResult]) -> bool {
    servers(results).is_some_and(|servers| !servers.into_iter().any(|server| server.truth.evicts()))
}

/// Whether the keys of `load` were counted, and none was missing.
fn all_keys_are_there(results: &[PodResult]) -> bool {
    let complete = |pod: &PodResult| pod.load.is_none_or(|keys| keys.found == keys.expected);
    results.iter().any(|pod| pod.load.is_some()) && results.iter().all(complete)
}

/// How the good `results` of `attempt` were checked; the error is what is wrong with them.
pub fn of(attempt: &Attempt, results: &[PodResult]) -> Result<Vec<Check>, Failure> {
    let mut checks = vec![check(CheckName::ServerRestarted, same_server(results)?)];
    let (made, agreement) = counters(attempt, results)?;
    let compared = check(CheckName::CountMismatch, made);
    checks.push(match agreement {
        Agreement::Total => Check { why: Some("all commands together".to_owned()), ..compared },
        Agreement::PerCommand | Agreement::Unknown => compared,
    });
    checks.extend(uncounted(attempt, results));
    checks.push(check(CheckName::ErrorReplies, error_replies(attempt, results)));
    let declared = [
        (CheckName::Evictions, !attempt.declared.allow_eviction && none_evicts(results)),
        (CheckName::MissingKeys, all_keys_are_there(results)),
        (CheckName::LowHitRatio, attempt.declared.minimum_hit_ratio.is_some()),
        (CheckName::MissingJobs, results.iter().any(|pod| pod.queues.is_some())),
    ];
    checks.extend(declared.into_iter().filter(|(_, made)| *made).map(|(name, _)| check(name, Ok(()))));
    Ok(checks)
}

/// The checks of `run`, and in which phases they could not be made, for people.
pub fn reported(run: &ValidatedRun, stored: &BTreeMap<String, RepetitionResult>) -> String {
    let counted: Vec<_> = counted(run, stored).collect();
    let made = |(attempt, result): &(&Attempt, &RepetitionResult)| {
        result.checks.iter().map(|check| (check.clone(), attempt.phase.clone())).collect::<Vec<_>>()
    };
    let mut phases: Vec<(Check, Vec<String>)> = Vec::new();
    for (check, phase) in counted.iter().flat_map(made) {
        match phases.iter_mut().find(|(known, _)| *known == check) {
            Some((_, known)) if known.contains(&phase) => {}
            Some((_, known)) => known.push(phase),
            None => phases.push((check, vec![phase])),
        }
    }
    let all = run.spec.phases.len();
    let reported = |state: CheckState| {
        let of_state = phases.iter().filter(move |(check, _)| check.state == state);
        let texts = of_state.map(move |(check, phases)| {
            let place = if phases.len() < all { format!(" in {}", phases.join(", ")) } else { String::new() };
            let why = check.why.as_ref().map(|why| format!(" ({why})")).unwrap_or_default();
            format!("{}{place}{why}", check.name)
        });
        Some(texts.collect::<Vec<_>>().join("; ")).filter(|text| !text.is_empty())
    };
    let checked = reported(CheckState::Passed).map(|text| format!(". Checked: {text}"));
    let not_checked = reported(CheckState::NotMade).map(|text| format!(". Not checked: {text}"));
    format!("every phase was measured{}{}", checked.unwrap_or_default(), not_checked.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        fixtures::{pod_result, run, server_record},
        run::{merge::merge, validate::validate},
    };
    use dragstrip_results::result::Operation;
    use serde_json::json;
    use std::sync::Arc;

    fn attempt() -> Attempt {
        validate(&run(&["read"], 1)).unwrap().attempts.remove(0)
    }

    fn seen(pod: &str, count: u64, before: u64, after: u64) -> PodResult {
        let mut result = pod_result(pod, count, 1.0, 100);
        result.server = Some(server_record("get", before, after));
        result
    }

    fn by(tool: ToolSpec) -> Attempt {
        Attempt { tool: Arc::new(tool), ..attempt() }
    }

    fn not_made(attempt: &Attempt, results: &[PodResult], name: &str) -> Option<String> {
        let checks = of(attempt, results).unwrap();
        checks.into_iter().find(|check| check.name == name).unwrap_or_else(|| panic!("no {name}")).why
    }

    #[test]
    fn the_servers_count_is_compared_with_that_of_all_clients() {
        let agreeing = [seen("a", 1000, 0, 1900), seen("b", 1000, 100, 2000)];
        assert_eq!(not_made(&attempt(), &agreeing, "CountMismatch"), None);
        let more = [seen("a", 1000, 0, 1900), seen("b", 1000, 100, 9000)];
        let found = of(&attempt(), &more).unwrap_err();
        assert_eq!(found.step, FailureStep::CounterCheck);
        let words = "over 2 client pods, the server counted 9,000 GET";
        assert!(found.message.contains(words), "{}", found.message);
    }

    #[test]
    fn requests_in_flight_to_every_shard_are_not_a_disagreement() {
        let mut pods = [seen("a", 100, 0, 108), seen("b", 100, 0, 208)];
        for pod in &mut pods {
            pod.tool.connections = 2;
        }
        assert!(of(&attempt(), &pods).is_err(), "two connections explain four requests, not eight");
        for pod in &mut pods {
            let server = pod.server.as_mut().unwrap();
            server.truth.cluster_enabled = true;
            let shard = json!({"address": "db:1", "before": server.before});
            server.shards = vec![serde_json::from_value(shard).unwrap(); 2];
        }
        assert!(of(&attempt(), &pods).is_ok(), "each connection is one to each shard");
    }

    #[test]
    fn a_check_that_cannot_be_made_says_why() {
        let alone = [seen("a", 1000, 0, 1000)];
        let bullmq = by(ToolSpec::Bullmq(serde_json::from_value(json!({"duration": "1s"})).unwrap()));
        let mut jobs = alone.clone();
        jobs[0].operations[0].commands.clear();
        let exec = json!({"image": "i", "command": ["x"], "parser": {"goBench": {}}, "counterCheck": false});
        let exec = by(ToolSpec::Exec(serde_json::from_value(exec).unwrap()));
        let mut silent = alone.clone();
        silent[0].server.as_mut().unwrap().after.as_mut().unwrap().commands.clear();
        let mut nameless = alone.clone();
        let server = nameless[0].server.as_mut().unwrap();
        server.before.run_id.clear();
        server.after.as_mut().unwrap().run_id.clear();
        let tcp = [pod_result("a", 1000, 1.0, 100)];
        let identity = "ServerRestarted";
        let table = [
            (
                "a tool that names no commands",
                &bullmq,
                &jobs,
                "CountMismatch",
                "not of the server's commands",
            ),
            ("another tool", &exec, &alone, "CountMismatch", "counterCheck is not declared"),
            ("another tool without RESP", &exec, &tcp, "ErrorReplies", "neither the tool nor the server"),
            ("a server without counters", &attempt(), &silent, "CountMismatch", "keeps no command counters"),
            ("a server without a run id", &attempt(), &nameless, identity, "reports nothing"),
            ("a target that is only TCP", &attempt(), &tcp, identity, "does not speak RESP"),
            ("its counters", &attempt(), &tcp, "CountMismatch", "does not speak RESP"),
        ];
        for (sentence, attempt, results, name, expected) in table {
            let why =
                not_made(attempt, results, name).unwrap_or_else(|| panic!("{sentence}: {name} was made"));
            assert!(why.contains(expected), "{sentence}: {why}");
        }
    }

    #[test]
    fn operations_that_are_not_commands_raise_no_alarm_and_are_listed() {
        let mut pod = seen("a", 1000, 0, 1000);
        let job = Operation { name: "add-job".into(), count: 70, ..Operation::default() };
        pod.operations.push(job);
        let checks = of(&attempt(), &[pod]).unwrap();
        let not_made = |check: &&Check| check.state == CheckState::NotMade;
        let why = checks.iter().find(not_made).and_then(|check| check.why.clone());
        assert_eq!(why.as_deref(), Some("add-job: not a command of the server"), "{checks:?}");
        assert!(checks.contains(&check(CheckName::CountMismatch, Ok(()))), "{checks:?}");
    }

    #[test]
    fn clients_that_loaded_different_servers_measured_none() {
        let mut other = seen("b", 1000, 0, 2000);
        let server = other.server.as_mut().unwrap();
        server.before.run_id = "another".into();
        server.after.as_mut().unwrap().run_id = "another".into();
        let found = of(&attempt(), &[seen("a", 1000, 0, 2000), other]).unwrap_err();
        assert_eq!(found.step, FailureStep::ServerIdentity);
        assert!(found.message.contains("another and server-process"), "{}", found.message);
    }

    #[test]
    fn a_total_of_all_commands_is_shown_as_the_looser_check_that_it_is() {
        let mut total = seen("a", 1000, 0, 0);
        let server = total.server.as_mut().unwrap();
        for (look, processed) in [(&mut server.before, 5), (server.after.as_mut().unwrap(), 1010)] {
            look.commands.clear();
            look.commands_processed = Some(processed);
        }
        let checks = of(&attempt(), &[total]).unwrap();
        assert!(
            checks.iter().any(|check| check.why.as_deref() == Some("all commands together")),
            "{checks:?}"
        );
    }

    #[test]
    fn checks_are_listed_over_all_phases() {
        let run = validate(&run(&["write", "read"], 2)).unwrap();
        let stored = run.attempts.iter().filter(|attempt| attempt.measurement == 1).map(|attempt| {
            let mut pod = seen("p", 1000, 0, 1000);
            if attempt.phase == "read" {
                pod.server.as_mut().unwrap().after.as_mut().unwrap().commands.clear();
            }
            (attempt.name.clone(), merge(attempt, 1, vec![pod]))
        });
        assert_eq!(
            reported(&run, &stored.collect()),
            "every phase was measured. Checked: ServerRestarted; CountMismatch in write; ErrorReplies; \
             Evictions. Not checked: CountMismatch in read (the server keeps no command counters)"
        );
    }
}
