//! What must happen at last: from every state, once nothing fails any more and everybody gets to act,
//! every run ends, and no Lease outlives its run. A checker of single paths cannot show this where
//! paths have cycles, such as a run that tries again and again; so the one fair path is followed.

use crate::{
    kubernetes::{self, Event},
    operator,
    turns::{Action, Turns},
    world::World,
};
use std::{
    collections::HashSet,
    hash::{DefaultHasher, Hash, Hasher},
    sync::{Mutex, PoisonError},
};

/// Rounds after which the world counts as one that never comes to rest.
const MOST_ROUNDS: usize = 120;
/// Most requests of one pass.
const MOST_REQUESTS: usize = 40;
/// Parts of what is known, so that threads seldom wait for each other.
const PARTS: usize = 64;

/// States from which everything ends.
pub struct Calm(Vec<Mutex<HashSet<u64>>>);

impl Default for Calm {
    fn default() -> Self {
        Self((0..PARTS).map(|_| Mutex::default()).collect())
    }
}

fn fingerprint(world: &World) -> u64 {
    let mut hasher = DefaultHasher::new();
    world.hash(&mut hasher);
    hasher.finish()
}

impl Calm {
    fn part(&self, fingerprint: u64) -> std::sync::MutexGuard<'_, HashSet<u64>> {
        let part = usize::try_from(fingerprint % 64).unwrap_or(0);
        self.0[part].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether everything ends from `world`.
    pub fn ends(&self, turns: &Turns, world: &World) -> bool {
        let mut world = world.clone();
        calm_down(turns, &mut world);
        let mut seen = Vec::new();
        for _ in 0..MOST_ROUNDS {
            let now = fingerprint(&world);
            if self.part(now).contains(&now) {
                break;
            }
            seen.push(now);
            if round(turns, &mut world) {
                continue;
            }
            if at_rest(&world) {
                break;
            }
            if !let_time_pass(turns, &mut world) {
                return false;
            }
        }
        let last = fingerprint(&world);
        let ended = at_rest(&world) || self.part(last).contains(&last);
        if ended {
            for state in seen {
                self.part(state).insert(state);
            }
        }
        ended
    }
}

/// No fault is left, no watch has stalled, every run exists.
fn calm_down(turns: &Turns, world: &mut World) {
    world.faults = crate::scenario::CALM;
    (world.overtaken, world.changed, world.spoiled) = (false, 0, false);
    world.began = [[0; crate::world::ATTEMPTS]; crate::world::RUNS];
    for at in turns.scenario.operators() {
        let stalled: Vec<_> = operator::stalled(world, at).collect();
        for kind in stalled {
            operator::resume(world, at, kind);
        }
    }
    let mut events = Vec::new();
    kubernetes::creations(&turns.scenario, world, &mut events);
    for event in events {
        kubernetes::happen(&turns.scenario, world, event);
    }
}

/// Every operator carries out its passes, and Kubernetes does its part; whether anything happened.
fn round(turns: &Turns, world: &mut World) -> bool {
    let mut happened = false;
    for at in turns.scenario.operators() {
        happened |= complete(turns, world, at);
        for (run, _) in turns.scenario.declared() {
            turns.act(world, Action::PassOver(at, run));
            happened |= complete(turns, world, at);
        }
        for (key, _) in (0..).zip(world.leases) {
            turns.act(world, Action::CleanUp(at, key));
            happened |= complete(turns, world, at);
        }
    }
    let mut events = Vec::new();
    kubernetes::progress(&turns.scenario, world, &mut events);
    happened |= !events.is_empty();
    for event in events {
        kubernetes::happen(&turns.scenario, world, event);
    }
    happened
}

/// Completes the pass that an operator is in; whether it was in one.
fn complete(turns: &Turns, world: &mut World, at: usize) -> bool {
    let begun = world.operators[at].pass.is_some();
    for _ in 0..MOST_REQUESTS {
        if world.operators[at].pass.is_none() {
            break;
        }
        turns.act(world, Action::Advance(at));
    }
    begun
}

/// Whether every run has ended, no Lease is left, and nothing loads.
fn at_rest(world: &World) -> bool {
    world.runs.iter().all(|run| !run.under_way())
        && world.leases.iter().all(Option::is_none)
        && world.pods.iter().all(|pod| !pod.runs() && !pod.deleted)
}

/// Time passes; whether that changes anything. Runs that gave their turn back again and again, or
/// that nothing else gets further, come to their timeout.
fn let_time_pass(turns: &Turns, world: &mut World) -> bool {
    let (mut events, mut timeouts) = (Vec::new(), Vec::new());
    kubernetes::time(&turns.scenario, world, &mut events);
    kubernetes::timeouts(world, &mut timeouts);
    let again = |event: &Event| match event {
        Event::TimeoutPasses(run) => {
            world.runs[usize::from(*run)].status.setback.is_some_and(|setback| setback.even)
        }
        _ => false,
    };
    let nothing = events.is_empty();
    events.extend(timeouts.into_iter().filter(|event| nothing || again(event)));
    let passed = !events.is_empty();
    for event in events {
        kubernetes::happen(&turns.scenario, world, event);
    }
    passed
}
