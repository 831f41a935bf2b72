//! What the model covers: every property holds in small scenarios, and each rule of the product, once
//! it is removed, breaks one.

use dragstrip_model::{
    checks::{SMALL, check},
    scenario::{ANY, CALM, Declared, Faults, PLAIN, Rule, Scenario, against},
    turns::{ENDS, IN_SEQUENCE, MEASURED_ONCE, ONE_LOAD, UNDISTURBED},
};

/// One: the shortest counterexample comes first.
const THREADS: usize = 1;

#[test]
fn every_property_holds_in_small_scenarios() {
    for scenario in &SMALL {
        let report = check(scenario, THREADS);
        assert!(report.broken.is_none(), "{report}");
        assert!(report.states > 100, "next to nothing was explored: {report}");
    }
}

/// A rule, a scenario that shows what it is for, and the property that breaks without it.
type Row = (Rule, Scenario, &'static str);

fn later(server: u8) -> Declared {
    Declared { server, startable: true, early: false }
}

fn unstartable(server: u8) -> Declared {
    Declared { server, startable: false, early: true }
}

/// Two runs of one server, so many operators, these faults. One interruption of a pass shows what each rule is for.
fn with(operators: usize, faults: Faults) -> Scenario {
    Scenario { operators, faults, interruptions: if operators > 1 { 1 } else { ANY }, ..PLAIN }
}

/// One run.
fn single(operators: usize, faults: Faults) -> Scenario {
    Scenario { runs: [against(0), None, None], ..with(operators, faults) }
}

fn rows() -> Vec<Row> {
    let job_deletion = Faults { job_deletions: 1, ..CALM };
    let stall = Faults { stalls: 1, ..CALM };
    let eviction = Faults { evictions: 1, ..CALM };
    let cancel = Faults { cancels: 1, ..CALM };
    let two_servers = Scenario { runs: [against(0), against(1), None], ..PLAIN };
    vec![
        (Rule::WriteOverTheVersionRead, Scenario { interruptions: 2, ..single(2, cancel) }, ENDS),
        (Rule::CreateLeases, with(2, CALM), ONE_LOAD),
        (Rule::ReserveNodes, two_servers, ONE_LOAD),
        (
            Rule::ReleaseInVain,
            Scenario { runs: [against(0), against(0), against(1)], ..with(2, CALM) },
            ONE_LOAD,
        ),
        (Rule::ReadRunBeforeJob, with(2, cancel), ENDS),
        (Rule::RunIsUnchanged, with(2, cancel), ENDS),
        (Rule::RunIsUnchanged, single(2, Faults { stalls: 1, ..job_deletion }), MEASURED_ONCE),
        (
            Rule::ReadLeasesBeforeJob,
            Scenario {
                runs: [Some(unstartable(0)), against(0), None],
                ..with(2, Faults { stalls: 2, ..CALM })
            },
            ONE_LOAD,
        ),
        (Rule::ReadResultBeforeJob, single(2, eviction), MEASURED_ONCE),
        (Rule::ListClientsBeforeJob, single(2, Faults { stalls: 1, ..job_deletion }), ONE_LOAD),
        (
            Rule::ReadResultBeforeRelease,
            Scenario { phases: 2, interruptions: 0, ..with(2, Faults { crashes: 1, ..stall }) },
            UNDISTURBED,
        ),
        (Rule::NoteStart, single(1, job_deletion), MEASURED_ONCE),
        (Rule::AwaitSilence, with(1, cancel), ONE_LOAD),
        (Rule::ReadHolder, Scenario { runs: [Some(later(0)), against(0), None], ..with(1, stall) }, ONE_LOAD),
        (Rule::RemoveLeases, single(1, CALM), ENDS),
        (Rule::Queue, with(1, CALM), IN_SEQUENCE),
        (
            Rule::SetbacksComeLast,
            Scenario { runs: [Some(unstartable(0)), against(0), None], ..PLAIN },
            IN_SEQUENCE,
        ),
        (Rule::AwaitRemains, single(1, eviction), ONE_LOAD),
        (Rule::AwaitOwnWrites, with(1, stall), ONE_LOAD),
        (Rule::ClearUp, with(1, cancel), ENDS),
    ]
}

/// What is wrong with `row`.
fn fault((rule, scenario, property): &Row) -> Option<String> {
    let report = check(scenario, THREADS);
    if report.broken.is_some() {
        return Some(format!("with {rule:?} and every other rule: {report}"));
    }
    let without = check(&Scenario { without: Some(*rule), ..*scenario }, THREADS);
    let broken = without.broken.as_ref().map(|(property, _)| *property);
    (broken != Some(property))
        .then(|| format!("without {rule:?}, {property:?} is not what breaks: {without}"))
}

#[test]
fn each_rule_is_needed() {
    let faults: Vec<String> = rows().iter().filter_map(fault).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
