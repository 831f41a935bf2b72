//! The runs of a suite under way, so that a pass costs no calls. After a restart the operator lists
//! them again, all but the failures to announce. Pure except for the clock in its entries.

use super::ended::Ended;
use dragstrip_core::suite::{decide::Child, expand::Plan};
use dragstrip_crds::run::RunPhase;
use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Instant,
};

#[derive(Debug, Default)]
pub struct SuiteCache {
    /// The generation of its spec, and its plan. All else is about runs of this plan.
    pub plan: Option<(i64, Arc<Plan>)>,
    /// Its runs that have ended, by name.
    pub ended: BTreeMap<String, Ended>,
    /// Its runs that have not, by name, with the time of their creation until the watch shows them.
    pub created: HashMap<String, Option<Instant>>,
    /// Its runs that this version cannot read, by name, with the reason.
    pub unreadable: BTreeMap<String, String>,
    /// Failed runs that were not announced yet, with their messages.
    pub unannounced: Vec<(String, String)>,
    /// Whether its runs were listed since the process started.
    pub listed: bool,
    pub written: Option<Instant>,
}

impl SuiteCache {
    /// Stores the plan of this generation, and drops the runs of another plan.
    pub fn follow(&mut self, generation: i64, plan: Arc<Plan>) {
        if self.plan.as_ref().is_some_and(|(_, before)| *before != plan) {
            *self = Self::default();
        }
        self.plan = Some((generation, plan));
    }

    /// The state of the run called `name`, in a suite that is `cancelled` or not; `seen` is
    /// whether the run is cancelled, if the watch shows it.
    pub fn child(&self, name: &str, seen: Option<bool>, cancelled: bool) -> Child {
        match (self.ended.get(name), seen, self.created.contains_key(name)) {
            (Some(run), ..) if cancelled && run.phase == RunPhase::Cancelled => Child::Cancelled,
            (Some(run), ..) => Child::Ended { failed: run.failed },
            (None, Some(cancelled), _) => Child::UnderWay { cancelled },
            (None, None, true) => Child::UnderWay { cancelled: false },
            (None, None, false) => Child::Missing,
        }
    }

    /// Whether a run was created that the watch has not shown, and whose end may bring no event.
    pub fn awaits(&self) -> bool {
        self.created.values().any(Option::is_some)
    }
}
