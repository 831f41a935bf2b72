//! What a pass decides: the product's own rules, from what the pass sees to the requests that follow.
//! Everything here is a pure function of what is seen, so that each decision is made once.

use crate::{
    objects::{NOW, OPERATOR_NAMESPACE, Objects, runner, under_way},
    scenario::{Rule, Scenario},
    world::{ATTEMPTS, Bits, Job, Lease, Leases, Phase, Pod, RUNS, Request, Results, Run, Status, members},
};
use dragstrip_core::{
    labels,
    loads::Loads,
    run::{
        attempts::{are_preparing, states, was_started},
        decide::{Ending, Step, TargetState, Waiting, decide},
        fetched::Fetched,
        plan::{Place, place_of},
        snapshot::{JobFacts, Snapshot, observe},
        start_line::choose,
        status::{of_step, recorded, worth_reporting},
        stored_result::start_line,
        turn::{self, Progress, TurnCheck},
        validate::ValidatedRun,
    },
};
use kube::ResourceExt;
use std::{
    collections::HashMap,
    hash::Hash,
    sync::{Arc, PoisonError, RwLock},
};

/// What a pass over a run sees.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Seen {
    /// The run.
    pub run: u8,
    /// All runs.
    pub runs: [Run; RUNS],
    /// All Leases.
    pub leases: Leases,
    /// The run's Jobs.
    pub jobs: [Option<Job>; ATTEMPTS],
    /// All client pods.
    pub pods: Vec<Pod>,
    /// The run's stored results.
    pub results: Results,
    /// What the run's clients report.
    pub clients: [Option<Phase>; ATTEMPTS],
}

impl Seen {
    /// Without what no decision depends on: fewer decisions have to be made.
    fn reduced(mut self) -> Self {
        for (index, run) in (0..).zip(&mut self.runs) {
            run.version = 0;
            if index != self.run {
                let Status { queue, setback, end, .. } = run.status;
                let setback = setback.map(|_| crate::world::Setback { even: false, due: false });
                run.status = Status { queue, setback, end, ..Status::default() };
                (run.cancel, run.late) = (false, false);
            }
        }
        for job in self.jobs.iter_mut().flatten() {
            job.version = 0;
        }
        for pod in self.pods.iter_mut().filter(|pod| pod.run != self.run) {
            pod.phase = if pod.ended() { Phase::Done } else { Phase::Loading };
            (pod.attempt, pod.job, pod.deleted) = (0, 0, false);
        }
        self
    }
}

/// What follows from a pass.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Decision {
    /// The requests; none if nothing is to be done.
    pub requests: Vec<Request>,
    /// Whether it takes a turn for which another run comes first.
    pub overtakes: bool,
}

/// A function's results by its argument.
struct Memo<K, V>(RwLock<HashMap<K, V>>);

impl<K: Hash + Eq, V: Clone> Memo<K, V> {
    fn new() -> Self {
        Self(RwLock::new(HashMap::new()))
    }

    fn get(&self, key: K, value: impl FnOnce(&K) -> V) -> V {
        if let Some(found) = self.0.read().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return found.clone();
        }
        let made = value(&key);
        self.0.write().unwrap_or_else(PoisonError::into_inner).insert(key, made.clone());
        made
    }

    fn len(&self) -> usize {
        self.0.read().unwrap_or_else(PoisonError::into_inner).len()
    }
}

/// The run, its Jobs and its pods.
type Load = (u8, [Option<Job>; ATTEMPTS], Vec<Pod>);

/// The rules, and what they decided so far.
pub struct Rules {
    scenario: Scenario,
    objects: Objects,
    decisions: Memo<Seen, Arc<Decision>>,
    starts: Memo<(u8, Run, u8), Status>,
    silences: Memo<Load, bool>,
}

impl Rules {
    /// Those of `scenario`.
    pub fn new(scenario: &Scenario) -> Self {
        Self {
            scenario: *scenario,
            objects: Objects::new(scenario),
            decisions: Memo::new(),
            starts: Memo::new(),
            silences: Memo::new(),
        }
    }

    /// How many different decisions were made.
    pub fn decisions(&self) -> usize {
        self.decisions.len() + self.starts.len() + self.silences.len()
    }

    /// The decision of a pass.
    pub fn decide(&self, seen: Seen) -> Arc<Decision> {
        self.decisions.get(seen.reduced(), |seen| Arc::new(self.decision(seen)))
    }

    /// The status of `run`, which is `seen`, when the load of `attempt` starts.
    pub fn started(&self, run: u8, seen: &Run, attempt: u8) -> Status {
        let seen = Run { version: 0, ..*seen };
        self.starts.get((run, seen, attempt), |(run, seen, attempt)| {
            let validated = &self.objects.runs[usize::from(*run)];
            let old = self.objects.status(*run, seen);
            let name = validated.attempts[usize::from(*attempt)].name.clone();
            let start = JobFacts { start: Some(NOW), ..JobFacts::default() };
            let snapshot = Snapshot { jobs: [(name, start)].into(), ..Snapshot::default() };
            let step = Step::Wait(Waiting::Load(usize::from(*attempt)), None);
            let status = of_step(validated, &old, &snapshot, None, &step, NOW);
            self.objects.recorded(*run, seen, &status)
        })
    }

    /// Whether certainly nothing of a run loads, by its Jobs and pods.
    pub fn silent(&self, run: u8, jobs: &[Option<Job>; ATTEMPTS], pods: &[Pod]) -> bool {
        let own: Vec<Pod> = pods.iter().filter(|pod| pod.run == run).copied().collect();
        self.silences.get((run, *jobs, own), |(run, jobs, pods)| {
            let jobs: Vec<_> = self.jobs(*run, jobs).map(|(_, job)| job).collect();
            let pods: Vec<_> = pods.iter().map(|pod| self.objects.pod(pod)).collect();
            let (jobs, pods) = (jobs.iter().map(Arc::as_ref), pods.iter().map(Arc::as_ref));
            let silent = Loads::default().silence(self.objects.holder(*run), jobs, pods, NOW);
            silent.is_some_and(|from| from <= NOW)
        })
    }

    fn jobs<'a>(
        &'a self,
        run: u8,
        jobs: &'a [Option<Job>; ATTEMPTS],
    ) -> impl Iterator<Item = (String, Arc<k8s_openapi::api::batch::v1::Job>)> + 'a {
        let named = move |(attempt, job): (u8, &Option<Job>)| {
            let job = self.objects.job(run, attempt, job.as_ref()?);
            Some((job.name_any(), job))
        };
        (0..).zip(jobs).filter_map(named)
    }

    /// The decision of a pass, as `reconcile` of the operator makes it.
    fn decision(&self, seen: &Seen) -> Decision {
        let (index, objects) = (usize::from(seen.run), &self.objects);
        let run = &objects.runs[index];
        let mut run = run.clone();
        run.spec.cancel = seen.runs[index].cancel;
        let old = objects.status(seen.run, &seen.runs[index]);
        let fetched = self.fetched(seen, &run, &old);
        let attempts = states(&run, &old, &fetched);
        let observed = observe(&run, &old, &fetched.snapshot, attempts, NOW);
        let step = decide(&run, &observed, NOW);
        let mut decision = Decision::default();
        self.carry_out(seen, &run, &fetched, &step, &mut decision);
        if let Some(status) = recorded(&old, &step) {
            let status = objects.recorded(seen.run, &seen.runs[index], &status);
            return Decision { requests: vec![Request::Publish(status)], ..decision };
        }
        if worth_reporting(&step) {
            let status = of_step(&run, &old, &fetched.snapshot, None, &step, NOW);
            let status = objects.recorded(seen.run, &seen.runs[index], &status);
            if matches!(step, Step::Finish(_)) && self.scenario.has(Rule::ClearUp) {
                decision.requests.push(Request::ClearUp);
            }
            if status != seen.runs[index].status {
                decision.requests.push(Request::Publish(status));
            }
        }
        decision
    }

    /// What exists for the run, as the operator's `fetch` finds it.
    fn fetched(
        &self,
        seen: &Seen,
        run: &dragstrip_core::run::validate::ValidatedRun,
        old: &dragstrip_crds::BenchmarkRunStatus,
    ) -> Fetched {
        let objects = &self.objects;
        let lost = |attempt: u8| {
            let stored = seen.results[usize::from(attempt)].is_some();
            stored && !self.scenario.has(Rule::AwaitRemains)
        };
        let own = seen.pods.iter().filter(|pod| pod.run == seen.run && !lost(pod.attempt));
        let pods: Vec<_> = own.map(|pod| objects.pod(pod)).collect();
        let mut jobs = seen.jobs;
        (0..).zip(&mut jobs).filter(|(attempt, _)| lost(*attempt)).for_each(|(_, job)| *job = None);
        let jobs: std::collections::BTreeMap<_, _> = self.jobs(seen.run, &jobs).collect();
        let facts = |job: &k8s_openapi::api::batch::v1::Job| JobFacts {
            start: start_line(&job.metadata),
            spec_hash: job.annotations().get(labels::SPEC_HASH).cloned(),
            search_value: None,
        };
        let (of_jobs, of_pods) = (jobs.values().map(Arc::as_ref), pods.iter().map(Arc::as_ref));
        let unseen = Loads::default().unseen(&run.holder.uid, of_jobs, of_pods, NOW);
        let holds = seen.leases.iter().flatten().any(|lease| lease.holder == seen.run && !lease.given_back);
        let mut fetched = Fetched {
            snapshot: Snapshot {
                holds,
                jobs: jobs.iter().map(|(name, job)| (name.clone(), facts(job))).collect(),
                stored: objects.stored(seen.run, &seen.results),
                ..Snapshot::default()
            },
            jobs,
            pods,
            unseen,
            ..Fetched::default()
        };
        let Place::At(index) = place_of(run, &fetched.snapshot.stored) else { return fetched };
        let current = &run.attempts[index];
        let runners = |fetched: &Fetched| {
            let answer = seen.clients[index].and_then(runner);
            let reachable = fetched.reachable(&current.name).into_iter();
            reachable.filter_map(|(pod, _)| Some((pod, answer?))).collect()
        };
        match fetched.jobs.get(&current.name) {
            Some(_) if fetched.ended(current) => {}
            Some(job) if job.annotations().contains_key(labels::START_AT) => {
                fetched.runners = runners(&fetched);
            }
            Some(_) => {
                if are_preparing(current, &fetched) {
                    fetched.runners = runners(&fetched);
                }
            }
            None if was_started(old, current) => {}
            None => {
                let check = self.turn(seen, run, !run.begins_measurement(index));
                fetched.snapshot.target =
                    TargetState::Ready(Box::new(objects.targets[usize::from(seen.run)].clone()));
                fetched.snapshot.turn = check.turn.clone();
                fetched.turn = Some(check);
            }
        }
        fetched
    }

    /// The turn of the run.
    fn turn(&self, seen: &Seen, run: &ValidatedRun, between_phases: bool) -> TurnCheck {
        let (objects, scenario) = (&self.objects, &self.scenario);
        let mut leases = seen.leases;
        let mut pods = seen.pods.clone();
        if !scenario.has(Rule::ReserveNodes) {
            leases[2..].fill(Some(Lease { holder: seen.run, given_back: false, uid: 0 }));
            pods.clear();
        }
        let mut runs = seen.runs;
        let mut setbacks = match runs[usize::from(seen.run)].status.setback {
            None => 0,
            Some(setback) if setback.even => 2,
            Some(_) => 1,
        };
        if !scenario.has(Rule::SetbacksComeLast) {
            for run in &mut runs {
                run.status.setback = None;
            }
            setbacks = 0;
        }
        let leases: Vec<_> =
            (0..).zip(leases).filter_map(|(key, lease)| Some(objects.lease(key, lease?))).collect();
        let runs: Vec<_> = under_way(&runs)
            .filter(|_| scenario.has(Rule::Queue))
            .map(|(index, run)| objects.run(index, run))
            .collect();
        let pods = objects.pods(&pods);
        let seen_by_turn = turn::Seen {
            leases: &leases,
            runs: &runs,
            nodes: &objects.nodes,
            pods: &pods,
            operator_namespace: OPERATOR_NAMESPACE,
        };
        let progress = Progress { setbacks, between_phases, measured: between_phases };
        turn::check(run, &objects.targets[usize::from(seen.run)], &seen_by_turn, progress)
    }

    /// The requests of `step`, as the operator's `act` makes them.
    fn carry_out(
        &self,
        seen: &Seen,
        run: &ValidatedRun,
        fetched: &Fetched,
        step: &Step,
        decision: &mut Decision,
    ) {
        let attempt = |index: &usize| u8::try_from(*index).unwrap_or(0);
        let requests = &mut decision.requests;
        let has = |rule| self.scenario.has(rule);
        match step {
            Step::TakeTurn => {
                let missing = fetched.turn.iter().flat_map(|check| &check.missing);
                let missing: Vec<u8> = missing.filter_map(|key| self.objects.key(key)).collect();
                requests.push(Request::ReadRun);
                requests.extend(missing.iter().map(|key| Request::Acquire(*key)));
                let taken = missing.iter().fold(0, |bits, key| bits | 1 << key);
                let begins = |current| run.begins_measurement(current);
                decision.overtakes = matches!(place_of(run, &fetched.snapshot.stored), Place::At(at) if begins(at))
                    && Self::overtakes(seen, taken);
            }
            Step::CreateJob(index) => {
                let node = fetched.turn.iter().flat_map(|check| &check.client_nodes).next();
                let node = node.and_then(|node| Objects::node(node)).unwrap_or(0);
                requests.extend(has(Rule::ReadRunBeforeJob).then_some(Request::ReadRun));
                requests.push(Request::ReadLeases(own(seen)));
                requests
                    .extend(has(Rule::ReadResultBeforeJob).then_some(Request::ReadResult(attempt(index))));
                requests.extend(has(Rule::ListClientsBeforeJob).then_some(Request::ListClients));
                requests.push(Request::CreateJob(attempt(index), node));
            }
            Step::SendStart(index) => {
                let Some(job) = fetched.jobs.get(&run.attempts[*index].name) else { return };
                let receipt = fetched.receipt(&run.attempts[*index]);
                let Some((_, received, write)) = choose(&run.attempts[*index], job, receipt, NOW) else {
                    return;
                };
                requests.extend(write.then_some(Request::FixLine(attempt(index), 0)));
                requests.extend(has(Rule::NoteStart).then_some(Request::NoteStart(attempt(index), None)));
                requests.push(Request::SendStart(attempt(index), received));
            }
            Step::Collect(index) => {
                let job = seen.jobs[*index].map(|job| job.uid);
                requests.push(Request::Store(attempt(index), job));
            }
            Step::RemoveLost(index) | Step::RemoveOutdated(index) => {
                requests.extend(seen.jobs[*index].map(|job| Request::DeleteJob(attempt(index), job.uid)));
            }
            Step::StandBack { attempt: of, .. } => {
                let job = of.and_then(|index| Some((attempt(&index), seen.jobs[index]?.uid)));
                requests.extend(Self::unmeasured(run, fetched));
                requests.extend(job.map(|(attempt, uid)| Request::DeleteJob(attempt, uid)));
                requests.extend(releases(seen));
            }
            Step::ReturnTurn => {
                requests.extend(Self::unmeasured(run, fetched).into_iter().chain(releases(seen)));
            }
            Step::Wait(..)
            | Step::Finish(Ending::Succeeded | Ending::Failed(_) | Ending::Cancelled)
            | Step::MakeDatastore
            | Step::RemoveDatastore
            | Step::ReadMemory(_) => {}
        }
    }

    /// What a run reads before it releases its turn.
    fn unmeasured(run: &ValidatedRun, fetched: &Fetched) -> Option<Request> {
        match place_of(run, &fetched.snapshot.stored) {
            Place::At(current) => Some(Request::ReadResult(u8::try_from(current).unwrap_or(0))),
            _ => None,
        }
    }

    /// Whether a run that takes the Leases `missing` overtakes another: one that waits for a Lease of
    /// them and is older, where those without a setback come before all others.
    fn overtakes(seen: &Seen, missing: Bits) -> bool {
        let rank = |(index, run): (u8, &Run)| (run.status.setback.is_some(), index);
        let own = rank((seen.run, &seen.runs[usize::from(seen.run)]));
        under_way(&seen.runs)
            .filter(|(index, _)| *index != seen.run)
            .any(|other| other.1.status.queue & missing != 0 && rank(other) < own)
    }
}

/// The Leases that the run holds.
fn own(seen: &Seen) -> Bits {
    let held = |lease: &Option<Lease>| lease.is_some_and(|it| it.holder == seen.run && !it.given_back);
    (0..).zip(&seen.leases).filter(|(_, lease)| held(lease)).fold(0, |bits, (key, _)| bits | 1 << key)
}

fn releases(seen: &Seen) -> impl Iterator<Item = Request> {
    members(own(seen)).filter_map(|key| Some(Request::Release(key, seen.leases[usize::from(key)]?.uid)))
}
