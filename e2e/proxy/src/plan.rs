//! The plans: every fault at every place where it can happen. Pure.

use crate::scenario::Scenario;
use dragstrip_core::digest::digest;
use dragstrip_fault_proxy::{
    engine::{Entry, Place},
    fault::{Fault, Moment, WatchFault},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// How long a request hangs.
const HANG: Duration = Duration::from_secs(15);
/// How long the API server answers 503.
const OUTAGE: Duration = Duration::from_secs(5);
/// How late the events of a watch come.
const LATE: Duration = Duration::from_secs(2);
/// How long a watch says nothing.
const STALL: Duration = Duration::from_secs(15);

/// What the test does when a request is halted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deed {
    /// Kills the operator and starts it again.
    Kill,
    /// The same, and the new operator first sees old lists.
    KillAndServeOldLists,
    /// Stops the operator until another one leads, and resumes it.
    Stop,
}

/// A kind of fault.
#[derive(Debug, Clone, Copy)]
pub enum Injected {
    Request(Fault, Option<Deed>),
    Watch(WatchFault),
}

/// Which requests a fault of a request can hit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    Writes,
    All,
    Watches,
}

/// A kind of fault with its name.
#[derive(Debug, Clone, Copy)]
pub struct Kind {
    pub name: &'static str,
    pub injected: Injected,
    at: At,
}

const fn halt(name: &'static str, moment: Moment, deed: Deed) -> Kind {
    Kind { name, injected: Injected::Request(Fault::Halt(moment), Some(deed)), at: At::Writes }
}

const fn request(name: &'static str, fault: Fault, at: At) -> Kind {
    Kind { name, injected: Injected::Request(fault, None), at }
}

const fn watch(name: &'static str, fault: WatchFault) -> Kind {
    Kind { name, injected: Injected::Watch(fault), at: At::Watches }
}

/// All kinds.
pub const KINDS: [Kind; 21] = [
    halt("kill before", Moment::Before, Deed::Kill),
    halt("kill after commit", Moment::Committed, Deed::Kill),
    halt("kill after answer", Moment::Answered, Deed::Kill),
    request("409", Fault::Answer(409), At::Writes),
    request("429", Fault::Answer(429), At::All),
    request("500", Fault::Answer(500), At::All),
    request("503", Fault::Answer(503), At::All),
    request("503 for 5 s", Fault::Outage(OUTAGE), At::Writes),
    request("reset", Fault::Reset, At::All),
    request("answer lost", Fault::LoseAnswer, At::Writes),
    request("hang for 15 s", Fault::Hang(HANG), At::All),
    watch("watches end after each event", WatchFault::End(1)),
    watch("watches reset after each event", WatchFault::Reset(1)),
    watch("watches gone after each event", WatchFault::Gone(1)),
    watch("watches gone after 3 events", WatchFault::Gone(3)),
    watch("events late by 2 s", WatchFault::Delay(LATE)),
    watch("events of 2 s coalesced", WatchFault::Coalesce(LATE)),
    watch("first watch silent for 15 s", WatchFault::Stall(STALL)),
    halt("kill, then old lists", Moment::Answered, Deed::KillAndServeOldLists),
    halt("stopped before a write", Moment::Before, Deed::Stop),
    halt("stopped after a write", Moment::Committed, Deed::Stop),
];

impl Kind {
    /// How long the fault lasts by itself.
    pub fn lasts(&self) -> Duration {
        match self.injected {
            Injected::Request(Fault::Hang(time) | Fault::Outage(time), _)
            | Injected::Watch(WatchFault::Stall(time)) => time,
            _ => Duration::ZERO,
        }
    }

    /// What the test does when a request is halted.
    pub fn deed(&self) -> Option<Deed> {
        if let Injected::Request(_, deed) = self.injected { deed } else { None }
    }

    fn hits(&self, entry: &Entry) -> bool {
        match self.at {
            At::Writes => entry.request.mutates,
            At::All => true,
            At::Watches => entry.request.verb == "WATCH",
        }
    }
}

/// One fault in one run of a scenario.
#[derive(Debug, Clone)]
pub struct Plan {
    pub scenario: Scenario,
    pub kind: Kind,
    /// The request; for watches only its words count.
    pub place: Place,
    /// The resource whose watches are disturbed; all if it is `None`.
    pub resource: Option<String>,
}

impl Plan {
    /// Its name, by which it can be selected and is recorded.
    pub fn name(&self) -> String {
        let place = match (&self.kind.injected, &self.resource) {
            (Injected::Watch(_), Some(resource)) => format!("WATCH {resource}"),
            (Injected::Watch(_), None) => "all watches".to_owned(),
            _ => self.place.to_string(),
        };
        format!("{} / {} / {place}", self.scenario, self.kind.name)
    }
}

/// All plans for a scenario whose requests without a fault are `entries`.
pub fn plans(scenario: Scenario, entries: &[Entry]) -> Vec<Plan> {
    let mut plans = Vec::new();
    for kind in KINDS {
        let mut seen = BTreeSet::new();
        for entry in entries.iter().filter(|entry| kind.hits(entry)) {
            let place = Place(entry.request.words(), entry.number);
            let resource = (kind.at == At::Watches).then(|| entry.request.resource.clone());
            let new = resource.as_ref().is_none_or(|resource| seen.insert(resource.clone()));
            if new {
                plans.push(Plan { scenario, kind, place, resource });
            }
        }
        if kind.at == At::Watches {
            plans.push(Plan { scenario, kind, place: Place(String::new(), 0), resource: None });
        }
    }
    plans
}

/// Up to `most` of `plans`, as the seed has it: of each kind in turn.
pub fn sample(plans: Vec<Plan>, seed: u64, most: usize) -> Vec<Plan> {
    let mut by_kind: BTreeMap<(&str, Scenario), Vec<(String, Plan)>> = BTreeMap::new();
    for plan in plans {
        let place = digest(&format!("{seed} {}", plan.name()));
        by_kind.entry((plan.kind.name, plan.scenario)).or_default().push((place, plan));
    }
    let mut ranked: Vec<(usize, String, Plan)> = Vec::new();
    for mut of_kind in by_kind.into_values() {
        of_kind.sort_by(|one, other| one.0.cmp(&other.0));
        ranked.extend(of_kind.into_iter().enumerate().map(|(rank, (place, plan))| (rank, place, plan)));
    }
    ranked.sort_by(|one, other| (one.0, &one.1).cmp(&(other.0, &other.1)));
    ranked.into_iter().take(most).map(|(_, _, plan)| plan).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use dragstrip_fault_proxy::request::Request;
    use std::time::Instant;

    fn entry(verb: &'static str, resource: &str, mutates: bool) -> Entry {
        let request = Request { verb, resource: resource.to_owned(), name: "a".to_owned(), mutates };
        Entry { request, number: 1, operator: 0, at: Instant::now(), status: Some(200) }
    }

    fn all() -> Vec<Plan> {
        plans(
            Scenario::Run,
            &[entry("POST", "jobs", true), entry("GET", "jobs", false), entry("WATCH", "pods", false)],
        )
    }

    fn of(kind: &str) -> Vec<String> {
        all().iter().filter(|plan| plan.kind.name == kind).map(Plan::name).collect()
    }

    #[test]
    fn the_operator_is_killed_at_writes_and_errors_come_at_every_request() {
        assert_eq!(of("kill before"), ["run / kill before / POST jobs a #1"]);
        assert_eq!(of("500").len(), 3);
        assert_eq!(
            of("events late by 2 s"),
            ["run / events late by 2 s / WATCH pods", "run / events late by 2 s / all watches"]
        );
    }

    #[test]
    fn a_sample_has_every_kind_and_is_the_same_for_the_same_seed() {
        let names =
            |seed| -> Vec<String> { sample(all(), seed, KINDS.len()).iter().map(Plan::name).collect() };
        let kinds: BTreeSet<&str> = sample(all(), 1, KINDS.len()).iter().map(|plan| plan.kind.name).collect();
        assert_eq!(kinds.len(), KINDS.len());
        assert_eq!(names(1), names(1));
        assert_ne!(names(1), names(2));
    }
}
