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

/// A rule, after it rules that can take its place and do not hold either; a scenario that shows what it is
/// for, and the property that breaks without it.
type Row = (&'static [Rule], Scenario, &'static str);

/// Two runs of one server, so many operators, these faults. One interruption of a pass shows what each rule is for.
fn with(operators: usize, faults: Faults) -> Scenario {
    Scenario { operators, faults, interruptions: if operators > 1 { 1 } else { ANY }, ..PLAIN }
}

/// One run.
fn single(operators: usize, faults: Faults) -> Scenario {
    Scenario { runs: [against(0), None, None], ..with(operators, faults) }
}

/// Three runs of these servers.
fn three(servers: [u8; 3], operators: usize) -> Scenario {
    Scenario { runs: servers.map(against), ..with(operators, CALM) }
}

fn rows() -> Vec<Row> {
    let job_deletion = Faults { job_deletions: 1, ..CALM };
    let job_deletion_and_stall = Faults { stalls: 1, ..job_deletion };
    let stall = Faults { stalls: 1, ..CALM };
    let eviction = Faults { evictions: 1, ..CALM };
    let cancel = Faults { cancels: 1, ..CALM };
    let two_servers = Scenario { runs: [against(0), against(1), None], ..PLAIN };
    let later = Some(Declared { server: 0, startable: true, early: false });
    let unstartable = Some(Declared { server: 0, startable: false, early: true });
    let between_phases =
        Scenario { runs: [later, against(0), None], phases: 2, interruptions: 0, ..with(2, stall) };
    vec![
        (&[Rule::WriteOverTheVersionRead], with(2, job_deletion), MEASURED_ONCE),
        (&[Rule::CreateLeases], with(2, CALM), ONE_LOAD),
        (&[Rule::ReserveNodes], two_servers, ONE_LOAD),
        (&[Rule::ReleaseInVain], three([0, 0, 1], 2), ONE_LOAD),
        (&[Rule::ReadRunBeforeJob], with(2, cancel), ENDS),
        (&[Rule::RunIsUnchanged], single(2, job_deletion_and_stall), MEASURED_ONCE),
        (&[Rule::ReadResultBeforeJob], single(2, eviction), ENDS),
        (&[Rule::ListClientsBeforeJob], single(2, job_deletion_and_stall), ONE_LOAD),
        (&[Rule::NoteStart], single(1, job_deletion), MEASURED_ONCE),
        (&[Rule::AwaitSilence], with(1, cancel), ONE_LOAD),
        (&[Rule::ReadHolder], between_phases, UNDISTURBED),
        (&[Rule::RemoveLeases], single(1, CALM), ENDS),
        (&[Rule::Queue], three([0, 0, 0], 1), IN_SEQUENCE),
        (&[Rule::SetbacksComeLast], Scenario { runs: [unstartable, against(0), None], ..PLAIN }, IN_SEQUENCE),
        (
            &[Rule::AwaitRemains, Rule::ListClientsBeforeJob],
            single(1, Faults { silences: 1, ..eviction }),
            ONE_LOAD,
        ),
        (&[Rule::ClearUp], with(1, cancel), ENDS),
    ]
}

/// What is wrong with `row`.
fn fault((rules, scenario, property): &Row) -> Option<String> {
    let (rule, others) = rules.split_first()?;
    let report = check(&Scenario { without: others, ..*scenario }, THREADS);
    if report.broken.is_some() {
        return Some(format!("with {rule:?}, without {others:?}: {report}"));
    }
    let without = check(&Scenario { without: rules, ..*scenario }, THREADS);
    let broken = without.broken.as_ref().map(|(property, _)| *property);
    (broken != Some(property))
        .then(|| format!("without {rules:?}, {property:?} is not what breaks: {without}"))
}

#[test]
fn each_rule_is_needed() {
    let faults: Vec<String> = rows().iter().filter_map(fault).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
