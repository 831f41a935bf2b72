//! Metrics of the operator's own work and of runs.

pub mod counters;
mod families;
mod history;
mod overview;
mod phases;
mod prices;
pub mod readers;
mod runs;
#[cfg(test)]
mod tests;
mod usage;
mod workload;

pub use counters::{Metrics, MetricsError, Outcome};
pub use history::History;
pub use prices::Prices;
pub use readers::Readers;

use crate::cluster::world::World;
use dragstrip_core::nodes::facts;
use dragstrip_crds::BenchmarkRun;
use families::Families;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::{
    ResourceExt,
    runtime::reflector::{ObjectRef, Store},
};
use phases::Detail;
use std::sync::Arc;

/// Most bytes for finished runs, which are the same at most scrapes. With active runs and everything
/// else, the page stays below 2 MiB.
const MOST_OF_HISTORY: usize = 1_800_000;

fn instance_type(nodes: &Store<Node>, name: &str) -> Option<String> {
    facts(&*nodes.get(&ObjectRef::new(name))?).instance_type
}

#[derive(Clone)]
pub struct Page {
    metrics: Metrics,
    world: World,
    prices: Arc<Prices>,
    /// The newest finished runs.
    pub history: Arc<History>,
}

impl Page {
    /// A page of the own `metrics`, of the objects in `world` and of at most `limit` finished runs.
    pub fn new(metrics: Metrics, world: World, prices: Prices, limit: usize) -> Self {
        let prices = Arc::new(prices);
        let (nodes, for_history) = (world.nodes.clone(), prices.clone());
        let render = move |run: &BenchmarkRun, detail| {
            runs::families(run, detail, &|name| instance_type(&nodes, name), &for_history)
        };
        Self { metrics, world, prices, history: Arc::new(History::new(limit, Box::new(render))) }
    }

    /// The page of an operator that does not lead: only its own process.
    pub fn of_process(&self) -> Result<String, MetricsError> {
        Ok(Families::text(&[&usage::families()?]) + &self.metrics.text()?)
    }

    /// The page at `now`, in Prometheus' text format.
    pub fn text(&self, now: Timestamp) -> Result<String, MetricsError> {
        let mut active = self.world.runs.state();
        let mut ended = self.history.shown();
        // Two watches report the end of a run: no run may be on the page twice, and a later run of the
        // same name counts instead of the earlier one.
        active.retain(|run| {
            !ended.iter().any(|one| one.has_name_of(run) && Some(&one.uid) == run.uid().as_ref())
        });
        ended.retain(|one| !active.iter().any(|run| one.has_name_of(run)));
        let states: Vec<_> = ended.iter().map(|run| run.state).collect();
        let (datastores, leases) = (self.world.datastores.state(), self.world.leases.state());
        let overview = overview::families(&states, &active, &datastores, &leases, now);
        let usage = usage::families()?;
        let instance_types = |name: &str| instance_type(&self.world.nodes, name);
        let render = |run| runs::families(run, Detail::Complete, &instance_types, &self.prices);
        let runs: Vec<Families> = active.iter().map(|run| render(run)).collect();
        let suites = overview::suites(&self.world.suites.state());
        let mut parts = vec![&overview, &usage, &suites];
        parts.extend(history::within(&ended, MOST_OF_HISTORY));
        parts.extend(&runs);
        Ok(Families::text(&parts) + &self.metrics.text()?)
    }
}
