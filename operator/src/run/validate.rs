//! Spec to [`ValidatedRun`]: what is to be measured, as a flat list of attempts
//! in order. Pure.

use crate::cluster::lease::Holder;
use dragstrip_crds::{BenchmarkRun, BenchmarkRunSpec, protocol::JobTool, run::PhaseSpec};
use jiff::Timestamp;
use kube::ResourceExt;

/// A run nothing can be made of; the message names field and remedy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// A phase with no tool or two: admission refuses it, but an older rule may not have.
    #[error("spec.phases[{0}] needs exactly one workload: memtier or loadgen")]
    Workload(String),
    /// memtier counts whole seconds.
    #[error("spec.phases[{phase}].memtier.testTime is {given}: memtier measures whole seconds, such as 60s")]
    TestTime {
        /// The phase.
        phase: String,
        /// What was written.
        given: String,
    },
    /// The address does not end in a port.
    #[error("spec.target.external.address {0:?} is not HOST:PORT with a port from 1 to 65535")]
    Address(String),
    /// Neither of the three targets.
    #[error("spec.target needs exactly one of datastoreRef, datastore and external")]
    Target,
    /// The object has no uid or namespace, which only happens before it is stored.
    #[error("the object has no {0}")]
    Incomplete(&'static str),
}

/// One measurement: a phase in a repetition.
#[derive(Debug, Clone, PartialEq)]
pub struct Attempt {
    /// Position of the phase in the spec.
    pub phase_index: usize,
    /// The phase's name.
    pub phase: String,
    /// Which repetition, from 1.
    pub repetition: u32,
    /// Name of its Job and its ConfigMap.
    pub name: String,
    /// FLUSHALL first.
    pub flush: bool,
    /// The tool.
    pub tool: JobTool,
}

/// A run that can be decided on.
#[derive(Debug, Clone)]
pub struct ValidatedRun {
    /// Name, namespace and uid: also how it holds a Lease.
    pub holder: Holder,
    /// Its generation.
    pub generation: i64,
    /// When it was made.
    pub created: Timestamp,
    /// The declaration.
    pub spec: BenchmarkRunSpec,
    /// Everything to measure, in order: all phases of the first repetition,
    /// then all of the second.
    pub attempts: Vec<Attempt>,
}

impl ValidatedRun {
    /// The token that requests to the runners of `attempt` carry.
    pub fn token(&self, attempt: &Attempt) -> String {
        format!("{}/{}", self.holder.uid, attempt.name)
    }

    /// Number of client pods.
    pub fn pods(&self) -> u32 {
        u32::try_from(self.spec.clients.pods).unwrap_or(1)
    }
}

fn tool(phase: &PhaseSpec) -> Result<JobTool, Invalid> {
    match (&phase.loadgen, &phase.memtier) {
        (Some(loadgen), None) => Ok(JobTool::Loadgen(loadgen.clone())),
        (None, Some(memtier)) => {
            if let Some(time) = memtier.test_time.as_ref().filter(|time| time.duration().subsec_nanos() != 0)
            {
                return Err(Invalid::TestTime { phase: phase.name.clone(), given: time.to_string() });
            }
            Ok(JobTool::Memtier(memtier.clone()))
        }
        _ => Err(Invalid::Workload(phase.name.clone())),
    }
}

/// Splits `HOST:PORT`; IPv6 addresses stand in brackets.
pub fn host_and_port(address: &str) -> Result<(String, u16), Invalid> {
    let refuse = || Invalid::Address(address.to_owned());
    let (host, port) = address.rsplit_once(':').ok_or_else(refuse)?;
    let port: u16 = port.parse().ok().filter(|port| *port > 0).ok_or_else(refuse)?;
    Ok((host.trim_start_matches('[').trim_end_matches(']').to_owned(), port))
}

/// Checks the whole run and lays out its attempts.
pub fn validate(run: &BenchmarkRun) -> Result<ValidatedRun, Invalid> {
    let name = run.name_any();
    let mut attempts = Vec::new();
    for repetition in 1..=u32::try_from(run.spec.repetitions).unwrap_or(1) {
        for (phase_index, phase) in run.spec.phases.iter().enumerate() {
            attempts.push(Attempt {
                phase_index,
                phase: phase.name.clone(),
                repetition,
                name: format!("{name}-{}-{repetition}", phase.name),
                flush: phase.flush,
                tool: tool(phase)?,
            });
        }
    }
    let target = &run.spec.target;
    match (&target.datastore_ref, &target.datastore, &target.external) {
        (Some(_), None, None) | (None, Some(_), None) => {}
        (None, None, Some(external)) => host_and_port(&external.address).map(|_| ())?,
        _ => return Err(Invalid::Target),
    }
    Ok(ValidatedRun {
        holder: Holder {
            namespace: run.namespace().ok_or(Invalid::Incomplete("namespace"))?,
            name,
            uid: run.uid().ok_or(Invalid::Incomplete("uid"))?,
        },
        generation: run.metadata.generation.unwrap_or(0),
        created: run.metadata.creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0),
        spec: run.spec.clone(),
        attempts,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::fixtures::run;

    #[test]
    fn a_repetition_holds_all_phases_before_the_next_begins() {
        let names: Vec<String> =
            validate(&run(&["write", "read"], 2)).unwrap().attempts.into_iter().map(|a| a.name).collect();
        assert_eq!(names, ["sprint-write-1", "sprint-read-1", "sprint-write-2", "sprint-read-2"]);
    }

    #[test]
    fn addresses_are_split_at_the_last_colon() {
        assert_eq!(host_and_port("10.0.0.7:6379"), Ok(("10.0.0.7".into(), 6379)));
        assert_eq!(host_and_port("[fd00::7]:6380"), Ok(("fd00::7".into(), 6380)));
        for bad in ["redis", "redis:0", "redis:99999", "redis:"] {
            assert!(host_and_port(bad).is_err(), "{bad:?} was taken for an address");
        }
    }

    #[test]
    fn memtier_cannot_measure_parts_of_seconds() {
        let mut bad = run(&["write"], 1);
        bad.spec.phases[0].loadgen = None;
        bad.spec.phases[0].memtier =
            serde_json::from_value(serde_json::json!({"testTime": "1500ms"})).unwrap();
        let message = validate(&bad).unwrap_err().to_string();
        assert!(message.contains("spec.phases[write].memtier.testTime is 1500ms"), "{message}");
    }
}
