//! Checks of scenarios, and how a counterexample reads.

use crate::{
    scenario::{ANY, CALM, Declared, Faults, PLAIN, Scenario, against},
    turns::{Action, Turns},
    world::{Request, World},
};
use stateright::{Checker, HasDiscoveries, Model};
use std::{
    fmt,
    time::{Duration, Instant},
};

/// Steps after which an exploration ends: its properties then hold in the states up to there, the nearest first.
const MOST_STEPS: usize = 12_000_000;

/// What a check found.
pub struct Report {
    /// The scenario.
    pub scenario: &'static str,
    /// Different states.
    pub states: usize,
    /// Steps between states.
    pub steps: usize,
    /// The longest path.
    pub depth: usize,
    /// Different decisions of the product's rules.
    pub decisions: usize,
    /// How long it took.
    pub took: Duration,
    /// The property that does not hold, and the steps that show it.
    pub broken: Option<(&'static str, Vec<String>)>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { scenario, states, steps, depth, decisions, took, broken } = self;
        let verdict = match broken {
            Some(_) => "BROKEN",
            None if *steps >= MOST_STEPS => "holds as far as it was explored",
            None => "holds",
        };
        write!(
            f,
            "{scenario}: {verdict}; {states} states, {steps} steps, depth {depth}, {decisions} decisions, {:.1} s",
            took.as_secs_f64()
        )?;
        if let Some((property, path)) = broken {
            write!(f, "\nnot true: {property}")?;
            for (number, step) in (1..).zip(path) {
                write!(f, "\n{number:4}. {step}")?;
            }
        }
        Ok(())
    }
}

/// Checks `scenario` with so many threads.
pub fn check(scenario: &Scenario, threads: usize) -> Report {
    let began = Instant::now();
    let checker = Turns::new(scenario).checker().threads(threads);
    let checker = checker.finish_when(HasDiscoveries::AnyFailures).target_state_count(MOST_STEPS);
    let checker = checker.spawn_bfs().join();
    let broken = checker.discoveries().into_iter().map(|(property, path)| {
        let steps = path.into_vec();
        (property, steps.iter().filter_map(|(world, action)| Some(describe(world, (*action)?))).collect())
    });
    Report {
        scenario: scenario.name,
        states: checker.unique_state_count(),
        steps: checker.state_count(),
        depth: checker.max_depth(),
        decisions: checker.model().rules.decisions(),
        took: began.elapsed(),
        broken: broken.min_by_key(|(_, path): &(_, Vec<String>)| path.len()),
    }
}

/// What `action` in `world` means, for people.
fn describe(world: &World, action: Action) -> String {
    let requests = |requests: &[Request]| {
        requests.iter().map(|request| format!("{request:?}")).collect::<Vec<_>>().join(", ")
    };
    match action {
        Action::PassOver(at, run) => format!("operator {at} begins a pass over run {run}"),
        Action::PassOverSilent(at, run) => {
            format!("operator {at} begins a pass over run {run}, whose client does not answer")
        }
        Action::CleanUp(at, key) => format!("operator {at} begins a pass over Lease {key}"),
        Action::Advance(at) => {
            let pass = world.operators[at].pass.as_ref();
            let of = pass.map_or(0, |pass| pass.run);
            let next = pass.map_or_else(String::new, |pass| requests(&pass.requests));
            format!("operator {at} continues its pass of run {of}: {next}")
        }
        Action::Crash(at) => format!("operator {at} crashes and starts again"),
        Action::Stall(at, kind) => format!("operator {at}: the watch of {kind:?} stalls"),
        Action::Resume(at, kind) => format!("operator {at}: the watch of {kind:?} goes on"),
        Action::Event(event) => format!("{event:?}"),
    }
}

const fn two_servers(faults: Faults, operators: usize) -> Scenario {
    Scenario {
        runs: [against(0), against(0), against(1)],
        faults,
        operators,
        interruptions: if operators > 1 { 1 } else { ANY },
        ..PLAIN
    }
}

const UNSTARTABLE: Option<Declared> = Some(Declared { server: 0, startable: false, early: true });
const LATER: Option<Declared> = Some(Declared { server: 0, startable: true, early: false });

/// Two operators, and one interruption of a pass: with more there are tens of millions of states.
const PAIR: Scenario = Scenario { operators: 2, interruptions: 1, ..PLAIN };

/// Scenarios that are explored in seconds.
pub const SMALL: [Scenario; 3] = [
    PLAIN,
    Scenario {
        name: "two runs of one server, an operator that crashes, a watch that stalls",
        faults: Faults { crashes: 1, stalls: 1, ..CALM },
        ..PLAIN
    },
    Scenario {
        name: "two runs of one server, two operators, a user who cancels one",
        faults: Faults { cancels: 1, ..CALM },
        ..PAIR
    },
];

/// Scenarios that together have millions of states.
pub const LARGE: [Scenario; 7] = [
    Scenario {
        name: "two runs of two phases, two operators, a crash, a watch that stalls",
        phases: 2,
        interruptions: 0,
        faults: Faults { crashes: 1, stalls: 1, ..CALM },
        ..PAIR
    },
    Scenario {
        name: "three runs of two servers, one node for clients, two operators",
        client_nodes: 1,
        ..two_servers(CALM, 2)
    },
    Scenario {
        name: "three runs of two servers on one node, an operator that crashes twice",
        shared_server_node: true,
        ..two_servers(Faults { crashes: 2, ..CALM }, 1)
    },
    Scenario {
        name: "three runs of two servers, an eviction and a crash",
        ..two_servers(Faults { crashes: 1, evictions: 1, ..CALM }, 1)
    },
    Scenario {
        name: "two runs of one server, two operators, a crash, a watch that stalls",
        interruptions: 0,
        faults: Faults { crashes: 1, stalls: 1, ..CALM },
        ..PAIR
    },
    Scenario {
        name: "two runs of one server, one whose clients cannot start, two operators, a stall, a timeout",
        runs: [UNSTARTABLE, against(0), None],
        interruptions: 0,
        faults: Faults { stalls: 1, timeouts: 1, ..CALM },
        ..PAIR
    },
    Scenario {
        name: "a run and a later one, two operators, users who cancel, delete a run and a Job",
        runs: [against(0), LATER, None],
        interruptions: 0,
        faults: Faults { cancels: 1, deletions: 1, job_deletions: 1, silences: 1, ..CALM },
        ..PAIR
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_property_holds_for_two_runs_of_one_server() {
        let report = check(&PLAIN, 1);
        assert!(report.broken.is_none(), "{report}");
        assert!(report.states > 1000, "next to nothing was explored: {report}");
    }
}
