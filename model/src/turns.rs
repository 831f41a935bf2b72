//! The model as stateright explores it: what may happen in each state, and what must hold in all of
//! them.

use crate::{
    calm::Calm,
    decision::Rules,
    kubernetes::{self, Event},
    operator,
    scenario::{ANY, Declared, Scenario},
    world::{ATTEMPTS, KEYS, KINDS, Kind, Operator, RUNS, Run, World},
};
use stateright::{Model, Property};

/// A step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// An operator begins a pass over a run.
    PassOver(usize, u8),
    /// The same, while the run's clients do not answer.
    PassOverSilent(usize, u8),
    /// An operator begins a pass over a Lease.
    CleanUp(usize, u8),
    /// An operator carries out the next request of its pass.
    Advance(usize),
    /// An operator ends and starts again.
    Crash(usize),
    /// A watch of an operator stalls.
    Stall(usize, Kind),
    /// A watch of an operator goes on.
    Resume(usize, Kind),
    /// Something happens without an operator.
    Event(Event),
}

/// The model of one scenario.
pub struct Turns {
    /// The scenario.
    pub scenario: Scenario,
    /// The product's rules.
    pub rules: Rules,
    calm: Calm,
}

/// Two clients never load one server or one node at the same time.
pub const ONE_LOAD: &str = "no server and no node has two loads";
/// No measurement is repeated without a record.
pub const MEASURED_ONCE: &str = "no repetition is measured twice without a record";
/// Runs take turns in the sequence of the queue.
pub const IN_SEQUENCE: &str = "no run takes a turn before another one that comes first";
/// Later phases need the data that earlier ones left.
pub const UNDISTURBED: &str = "no run loads a server between two phases of another";
/// Once nothing fails any more, everything ends.
pub const ENDS: &str = "every run ends and no Lease outlives its run";

impl Turns {
    /// The model of `scenario`.
    pub fn new(scenario: &Scenario) -> Self {
        Self { scenario: *scenario, rules: Rules::new(scenario), calm: Calm::default() }
    }

    /// The first state.
    pub fn first(&self) -> World {
        let run = |declared: Option<Declared>| Run {
            exists: declared.is_some_and(|declared| declared.early),
            ..Run::default()
        };
        let operator = Operator { results: [Some([None; ATTEMPTS]); RUNS], ..Operator::default() };
        World {
            runs: self.scenario.runs.map(run),
            leases: [None; KEYS],
            jobs: [[None; ATTEMPTS]; RUNS],
            pods: Vec::new(),
            results: [[None; ATTEMPTS]; RUNS],
            operators: [operator.clone(), operator],
            faults: self.scenario.faults,
            acting: None,
            interruptions: self.scenario.interruptions,
            began: [[0; ATTEMPTS]; RUNS],
            overtaken: false,
            changed: 0,
            spoiled: false,
        }
    }

    fn server(&self, run: u8) -> u8 {
        self.scenario.runs[usize::from(run)].map_or(0, |run| run.server)
    }

    /// Whether at most one client loads each server and each node.
    fn one_load(&self, world: &World) -> bool {
        let loads: Vec<_> = world.pods.iter().filter(|pod| pod.runs()).collect();
        let mut pairs = loads
            .iter()
            .enumerate()
            .flat_map(|(at, one)| loads[at + 1..].iter().map(move |other| (one, other)));
        let node = |server: u8| if self.scenario.shared_server_node { 0 } else { server };
        pairs.all(|(one, other)| {
            let (server, another) = (self.server(one.run), self.server(other.run));
            server != another && node(server) != node(another) && one.node != other.node
        })
    }

    /// Everything that operators may do in `world`.
    fn operators(&self, world: &World, actions: &mut Vec<Action>) {
        for at in self.scenario.operators() {
            if world.operators[at].pass.is_some() {
                actions.push(Action::Advance(at));
            } else {
                for (run, _) in self.scenario.declared() {
                    let pass = |silent| operator::pass_over(&self.rules, world, at, run, silent).is_some();
                    actions.extend(pass(false).then_some(Action::PassOver(at, run)));
                    let silent = world.faults.silences > 0 && pass(true);
                    actions.extend(silent.then_some(Action::PassOverSilent(at, run)));
                }
                for (key, _) in (0..).zip(&world.leases) {
                    let pass = operator::clean_up(&self.rules, &self.scenario, world, at, key);
                    actions.extend(pass.map(|_| Action::CleanUp(at, key)));
                }
            }
            let idle = Operator { results: world.results.map(Some), ..Operator::default() };
            if world.faults.crashes > 0 && world.operators[at] != idle {
                actions.push(Action::Crash(at));
            }
            for kind in KINDS {
                if operator::has_stalled(world, at, kind) {
                    actions.push(Action::Resume(at, kind));
                } else if world.faults.stalls > 0 {
                    actions.push(Action::Stall(at, kind));
                }
            }
        }
    }

    /// The state after `action`.
    pub fn after(&self, world: &World, action: Action) -> World {
        let mut next = world.clone();
        self.act(&mut next, action);
        if self.scenario.interruptions != ANY {
            let goes_on = |at| [Action::Advance(at), Action::Crash(at)].contains(&action);
            let interrupts = world.acting.is_some_and(|at| !goes_on(at));
            next.interruptions -= u8::from(interrupts);
            next.acting = match action {
                Action::PassOver(at, _)
                | Action::PassOverSilent(at, _)
                | Action::CleanUp(at, _)
                | Action::Advance(at) => next.operators[at].pass.is_some().then_some(at),
                Action::Crash(_) | Action::Stall(..) | Action::Resume(..) | Action::Event(_) => None,
            };
        }
        next
    }

    /// Carries out `action`.
    pub fn act(&self, world: &mut World, action: Action) {
        let (rules, scenario) = (&self.rules, &self.scenario);
        match action {
            Action::PassOver(at, run) => self.begin(world, at, run, false),
            Action::PassOverSilent(at, run) => {
                world.faults.silences -= 1;
                self.begin(world, at, run, true);
            }
            Action::CleanUp(at, key) => {
                world.operators[at].pass = operator::clean_up(rules, scenario, world, at, key);
            }
            Action::Advance(at) => operator::advance(rules, scenario, world, at),
            Action::Crash(at) => {
                world.faults.crashes -= 1;
                operator::crash(world, at);
            }
            Action::Stall(at, kind) => {
                world.faults.stalls -= 1;
                operator::stall(world, at, kind);
            }
            Action::Resume(at, kind) => operator::resume(world, at, kind),
            Action::Event(event) => kubernetes::happen(scenario, world, event),
        }
    }

    fn begin(&self, world: &mut World, at: usize, run: u8, silent: bool) {
        let Some((pass, overtakes)) = operator::pass_over(&self.rules, world, at, run, silent) else {
            return;
        };
        world.overtaken |= overtakes;
        let index = usize::from(run);
        // It lists the results unless it has them.
        let results = world.results[index];
        world.operators[at].results[index].get_or_insert(results);
        world.operators[at].pass = Some(pass);
    }
}

impl Model for Turns {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![self.first()]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        if let Some(at) = world.acting.filter(|_| world.interruptions == 0) {
            actions.push(Action::Advance(at));
            actions.extend((world.faults.crashes > 0).then_some(Action::Crash(at)));
            return;
        }
        self.operators(world, actions);
        let mut events = Vec::new();
        kubernetes::progress(&self.scenario, world, &mut events);
        kubernetes::time(&self.scenario, world, &mut events);
        kubernetes::creations(&self.scenario, world, &mut events);
        kubernetes::faults(world, &mut events);
        actions.extend(events.into_iter().map(Action::Event));
    }

    fn next_state(&self, world: &World, action: Action) -> Option<World> {
        Some(self.after(world, action))
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(ONE_LOAD, Self::one_load),
            Property::always(MEASURED_ONCE, |_, world: &World| {
                world.began.iter().flatten().all(|times| *times < 2)
            }),
            Property::always(IN_SEQUENCE, |_, world: &World| !world.overtaken),
            Property::always(UNDISTURBED, |_, world: &World| !world.spoiled),
            Property::always(ENDS, |turns: &Self, world: &World| turns.calm.ends(turns, world)),
        ]
    }
}
