//! A run that can be decided on, and why another one cannot. Pure.

use crate::{lease::Holder, run::search::point::Point};
use dragstrip_crds::{BenchmarkRunSpec, run::PhaseSpec, workload::ToolSpec};
use jiff::Timestamp;
use std::{collections::BTreeMap, sync::Arc};

/// Why a run cannot be measured; the message names field and remedy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// A rule refuses the spec.
    #[error("spec.{0}")]
    Spec(String),
    /// The object lacks a part that every stored object has.
    #[error("the object has no {0}")]
    Incomplete(&'static str),
}

/// One measurement of a phase.
#[derive(Debug, Clone, PartialEq)]
pub struct Attempt {
    pub phase_index: usize,
    pub phase: String,
    /// Which repetition, from 1.
    pub repetition: u32,
    /// Which measurement of that repetition, from 1: later ones follow a lost one.
    pub measurement: u32,
    /// Name of its Job and its ConfigMap.
    pub name: String,
    pub declared: Arc<PhaseSpec>,
    pub tool: Arc<ToolSpec>,
    pub pods: u32,
    /// Which point of its phase's search it is, or the point that confirms a limit.
    pub point: Option<Point>,
    /// Whether nothing is measured: its search has ended without it, or it is for the last repetition.
    pub skipped: bool,
}

impl Attempt {
    /// Whether it only confirms what limited its phase: it is in no figure and fails no run.
    pub fn confirms(&self) -> bool {
        self.point.is_some() && self.declared.search.is_none()
    }

    /// Its point and its measurement, for people: `, point 5 (16 connections per thread), measurement 2`.
    pub fn details(&self) -> String {
        let point = self.point.as_ref().zip(self.declared.search.as_ref());
        let point = point.map(|(point, search)| format!(", {}", point.reported(search.raise)));
        let confirms = self.confirms().then(|| ", with twice the connections".to_owned());
        let again = (self.measurement > 1).then(|| format!(", measurement {}", self.measurement));
        point.or(confirms).unwrap_or_default() + &again.unwrap_or_default()
    }
}

/// A run that can be decided on.
#[derive(Debug, Clone)]
pub struct ValidatedRun {
    /// Name, namespace and uid: also how it holds a Lease.
    pub holder: Holder,
    pub generation: i64,
    pub created: Timestamp,
    /// The declaration, with the warm-ups that its phases have by default.
    pub spec: BenchmarkRunSpec,
    /// Digest of what of it is measured: all but `cancel`, `ttlAfterFinished`,
    /// `thresholds`, each `headline` and each `confirm`.
    pub spec_hash: String,
    /// Seconds of warm-up of the phases that declare none; `spec` has them too.
    pub default_warmups: BTreeMap<String, u32>,
    /// Everything that may have to be measured, in order: per repetition as many
    /// measurements as are allowed, and all phases in each of them, with as many points
    /// as their searches may need.
    pub attempts: Vec<Attempt>,
    /// How many of them one measurement has.
    pub per_measurement: usize,
}

impl ValidatedRun {
    /// The token that requests to the runners of `attempt` carry.
    pub fn token(&self, attempt: &Attempt) -> String {
        format!("{}/{}", self.holder.uid, attempt.name)
    }

    /// The Datastore that the run loads, its own one or another; none for an external target.
    pub fn datastore_name(&self) -> Option<&str> {
        let name = self.spec.target.name(&self.holder.name);
        self.spec.target.external().is_none().then_some(name)
    }

    pub fn most_pods(&self) -> u32 {
        let of_phase = |phase: &PhaseSpec| most_pods(phase, self.spec.clients.pods);
        count(self.spec.phases.iter().map(of_phase).max().unwrap_or(1))
    }

    /// How long after the load of `attempt` its servers' memory is read once more, in seconds.
    pub fn settle_seconds(&self, attempt: &Attempt) -> Option<f64> {
        attempt.declared.memory.as_ref().filter(|_| !attempt.confirms()).map(|memory| memory.settle.seconds())
    }

    pub fn begins_measurement(&self, index: usize) -> bool {
        index.is_multiple_of(self.per_measurement)
    }
}

pub(super) fn count(number: i32) -> u32 {
    u32::try_from(number).unwrap_or(1)
}

/// Most client pods of `phase`, when the run has `pods`.
pub fn most_pods(phase: &PhaseSpec, pods: i32) -> i32 {
    phase.search.as_ref().map_or(pods, |search| search.most_pods(pods))
}
