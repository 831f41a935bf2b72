//! Spec to [`ValidatedRun`]: what the run measures, as a list of attempts. Pure.

pub(super) mod attempt;
mod rules;
mod thresholds;

use super::{
    confirm::doubled,
    search::point::{Point, points},
};
use crate::{datastore::resources::ClientNeeds, digest::digest, lease::Holder};
use attempt::count;
pub use attempt::{Attempt, Invalid, ValidatedRun};
use dragstrip_crds::{BenchmarkRun, BenchmarkRunSpec, run::PhaseSpec, units::Warmup, workload::ToolSpec};
use jiff::Timestamp;
use kube::ResourceExt;
pub use rules::{protocol, unsuitable};
use std::{collections::BTreeMap, sync::Arc};

/// What the clients of `spec` request by default; `placed` says that nodes exist for them.
pub fn client_needs(spec: &BenchmarkRunSpec, placed: bool) -> ClientNeeds {
    let threads = spec.phases.iter().filter_map(rules::load_threads).map(|(_, threads)| threads);
    ClientNeeds { threads: u64::from(count(threads.max().unwrap_or(1))).max(1), placed }
}

/// Splits `HOST:PORT`; IPv6 addresses stand in brackets.
pub fn host_and_port(address: &str) -> Option<(String, u16)> {
    let (host, port) = address.rsplit_once(':')?;
    let port: u16 = port.parse().ok().filter(|port| *port > 0)?;
    Some((host.trim_start_matches('[').trim_end_matches(']').to_owned(), port))
}

/// Nothing for the first measurement, then b, c, ... With a run's and a phase's
/// longest names and 99 repetitions, the Job's name and its pods' host names then
/// have at most 63 characters.
fn suffix(measurement: u32) -> String {
    let letter = u8::try_from(measurement).ok().and_then(|measurement| b'a'.checked_add(measurement - 1));
    match letter {
        Some(letter) if measurement > 1 => char::from(letter).to_string(),
        _ => String::new(),
    }
}

fn attempts(run: &BenchmarkRun) -> Vec<Attempt> {
    let (name, spec) = (run.name_any(), &run.spec);
    let shared = |phase: &PhaseSpec| (Arc::new(phase.clone()), Arc::new(phase.tool.clone()));
    let phases: Vec<_> = spec.phases.iter().map(shared).collect();
    let measurements = u32::try_from(spec.max_retries).unwrap_or(0) + 1;
    let mut attempts = Vec::new();
    for repetition in 1..=count(spec.repetitions) {
        for measurement in 1..=measurements {
            let attempt = |phase_index: usize, tool: &Arc<ToolSpec>, place: String, point: Option<Point>| {
                let phase = &phases[phase_index].0;
                Attempt {
                    phase_index,
                    phase: phase.name.clone(),
                    declared: Arc::clone(phase),
                    repetition,
                    measurement,
                    name: format!("{name}-{}-{place}{}", phase.name, suffix(measurement)),
                    tool: Arc::clone(tool),
                    pods: count(spec.clients.pods),
                    point,
                    skipped: false,
                }
            };
            for (index, (phase, tool)) in phases.iter().enumerate() {
                attempts.extend(points(phase).into_iter().map(|point| {
                    let of_search = point.as_ref().map(Point::suffix).unwrap_or_default();
                    attempt(index, tool, format!("{repetition}{of_search}"), point)
                }));
            }
            // After all phases: each of them needs the data as the one before it leaves them.
            for (index, (phase, _)) in phases.iter().enumerate() {
                attempts.extend(doubled(phase).map(|(tool, connections)| {
                    let point = Point { number: 1, share: None, value: Some(connections) };
                    let all = attempt(index, &Arc::new(tool), format!("x{repetition}"), Some(point));
                    Attempt { skipped: repetition < count(spec.repetitions), ..all }
                }));
            }
        }
    }
    attempts
}

/// Digest of what `spec` has measured.
fn spec_hash(spec: &BenchmarkRunSpec) -> String {
    let measured = BenchmarkRunSpec {
        cancel: false,
        ttl_after_finished: None,
        thresholds: Vec::new(),
        headline: None,
        phases: spec.phases.iter().map(PhaseSpec::measured).collect(),
        ..spec.clone()
    };
    // A spec that came as JSON has a JSON form.
    digest(&serde_json::to_string(&measured).unwrap_or_default())
}

/// The warm-ups of the phases of `run` that declare none. Once a run has started, its status has them:
/// an operator that knows no default, or another one, may have started it.
fn default_warmups(run: &BenchmarkRun) -> BTreeMap<String, u32> {
    if let Some(status) = run.status.as_ref().filter(|status| status.started_at.is_some()) {
        return status.default_warmup_seconds.clone();
    }
    let without = run.spec.phases.iter().filter(|phase| phase.warmup.is_none());
    without.filter_map(|phase| Some((phase.name.clone(), phase.default_warmup_seconds()?))).collect()
}

/// `run` with the warm-ups that its phases have by default.
fn warmed_up(run: &BenchmarkRun, defaults: &BTreeMap<String, u32>) -> BenchmarkRun {
    let mut run = run.clone();
    for phase in &mut run.spec.phases {
        let default = defaults.get(&phase.name).copied().map(Warmup::from_seconds);
        phase.warmup = phase.warmup.take().or(default);
    }
    run
}

/// What is wrong with a run's `spec`: the field below `spec`, and the remedy.
pub fn problem(spec: &BenchmarkRunSpec) -> Option<String> {
    rules::problem(spec).or_else(|| thresholds::problem(spec))
}

/// Checks the complete run and lays out its attempts.
pub fn validate(run: &BenchmarkRun) -> Result<ValidatedRun, Invalid> {
    if let Some(problem) = problem(&run.spec) {
        return Err(Invalid::Spec(problem));
    }
    let spec_hash = spec_hash(&run.spec);
    let default_warmups = default_warmups(run);
    let run = &warmed_up(run, &default_warmups);
    let attempts = attempts(run);
    Ok(ValidatedRun {
        holder: Holder {
            namespace: run.namespace().ok_or(Invalid::Incomplete("namespace"))?,
            name: run.name_any(),
            uid: run.uid().ok_or(Invalid::Incomplete("uid"))?,
        },
        generation: run.metadata.generation.unwrap_or(0),
        created: run.metadata.creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0),
        spec: run.spec.clone(),
        spec_hash,
        default_warmups,
        per_measurement: attempts
            .iter()
            .take_while(|one| (one.repetition, one.measurement) == (1, 1))
            .count()
            .max(1),
        attempts,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::run;
    use serde_json::json;

    fn names(run: &BenchmarkRun) -> Vec<String> {
        validate(run).unwrap().attempts.into_iter().map(|attempt| attempt.name).collect()
    }

    #[test]
    fn a_repetition_holds_all_phases_before_the_next_begins() {
        let mut once = run(&["write", "read"], 2);
        once.spec.max_retries = 0;
        assert_eq!(names(&once), ["sprint-write-1", "sprint-read-1", "sprint-write-2", "sprint-read-2"]);
    }

    #[test]
    fn a_load_by_the_clock_warms_up_by_default_and_a_run_that_has_started_keeps_its_plan() {
        let mut declared = run(&["read", "long", "none", "own", "count"], 1);
        let phase = |value| serde_json::from_value(value).unwrap();
        declared.spec.phases = vec![
            phase(json!({"name": "read", "loadgen": {"duration": "15s"}})),
            phase(json!({"name": "long", "memtier": {"testTime": "1h"}})),
            phase(json!({"name": "none", "loadgen": {"duration": "15s"}, "warmup": "0s"})),
            phase(json!({"name": "own", "loadgen": {"duration": "15s"}, "warmup": "1500ms"})),
            phase(json!({"name": "count", "loadgen": {"requestsPerConnection": 100}})),
        ];
        let warmups = |run: &BenchmarkRun| -> Vec<Option<f64>> {
            let run = validate(run).unwrap();
            let of = |attempt: &Attempt| attempt.declared.warmup.as_ref().and_then(Warmup::seconds);
            run.attempts[..5].iter().map(of).collect()
        };
        let decided = [Some(2.0), Some(10.0), None, Some(1.5), None];
        assert_eq!(warmups(&declared), decided);
        let hash = validate(&declared).unwrap().spec_hash;
        let mut status = dragstrip_crds::BenchmarkRunStatus {
            started_at: Some(serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap()),
            ..Default::default()
        };
        declared.status = Some(status.clone());
        assert_eq!(warmups(&declared), [None, None, None, Some(1.5), None], "an older operator started it");
        status.default_warmup_seconds = [("read".to_owned(), 7)].into();
        declared.status = Some(status);
        assert_eq!(warmups(&declared)[..2], [Some(7.0), None], "the status decides");
        assert_eq!(validate(&declared).unwrap().spec_hash, hash, "the run is the same");
    }

    #[test]
    fn later_measurements_have_letters() {
        let mut thrice = run(&["read"], 1);
        thrice.spec.max_retries = 2;
        assert_eq!(names(&thrice), ["sprint-read-1", "sprint-read-1b", "sprint-read-1c"]);
    }

    #[test]
    fn the_longest_names_leave_room_for_the_pods_host_names() {
        let phase = "p".repeat(20);
        let mut long = run(&[&phase], 99);
        long.metadata.name = Some("r".repeat(33));
        long.spec.max_retries = 9;
        let names = names(&long);
        assert!(names.last().unwrap().ends_with("-99j"), "{:?}", names.last());
        let longest = names.iter().map(|name| format!("{name}-255").len()).max();
        assert!(longest <= Some(63), "a pod's host name would have {longest:?} characters");
    }

    #[test]
    fn a_search_is_laid_out_with_all_the_points_that_it_may_need() {
        let mut knee = run(&["write", "knee"], 1);
        let search = json!({"raise": "Connections", "to": 3, "until": {"p99": "1ms"}, "rates": ["0.5"]});
        knee.spec.phases[1].search = Some(serde_json::from_value(search).unwrap());
        let names = names(&knee);
        let points = (1..=21).map(|number| format!("sprint-knee-1p{number}"));
        let first: Vec<String> = std::iter::once("sprint-write-1".to_owned()).chain(points).collect();
        assert_eq!(names[..22], first, "from, two doublings, four halvings and fourteen repeats");
        assert_eq!(names[22..24], ["sprint-knee-1r1", "sprint-write-1b"]);
        assert_eq!(names.last().map(String::as_str), Some("sprint-knee-1r1b"));
        let phase = "p".repeat(16);
        let mut long = run(&[&phase], 99);
        long.metadata.name = Some("r".repeat(33));
        let search = json!({"raise": "Connections", "to": 4096, "until": {"p99": "1ms"}, "rates": ["0.5"]});
        long.spec.phases[0].search = Some(serde_json::from_value(search).unwrap());
        let longest = self::names(&long).iter().map(|name| format!("{name}-255").len()).max();
        assert!(longest <= Some(63), "a pod's host name would have {longest:?} characters");
    }

    #[test]
    fn a_search_with_more_measurements_than_can_be_looked_at_is_refused() {
        let mut many = run(&["knee"], 99);
        many.spec.max_retries = 9;
        let until = json!({"p99": "1ms"});
        let search = json!({"raise": "Rate", "to": 524_288, "until": until, "rates": vec!["0.5"; 8]});
        many.spec.phases = vec![many.spec.phases[0].clone(); 2];
        many.spec.phases[1].search = Some(serde_json::from_value(search).unwrap());
        let refusal = validate(&many).unwrap_err().to_string();
        assert!(refusal.contains("up to 46,530 measurements"), "{refusal}");
    }

    #[test]
    fn addresses_are_split_at_the_last_colon() {
        assert_eq!(host_and_port("10.0.0.7:6379"), Some(("10.0.0.7".into(), 6379)));
        assert_eq!(host_and_port("[fd00::7]:6380"), Some(("fd00::7".into(), 6380)));
        for bad in ["redis", "redis:0", "redis:99999", "redis:"] {
            assert_eq!(host_and_port(bad), None, "{bad:?} was taken for an address");
        }
    }
}
