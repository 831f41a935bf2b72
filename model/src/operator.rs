//! How an operator carries out a pass: its caches, and one request after the other against the API
//! server, as `carry_out`, `act`, `lease`, `start`, `publish` and the lease cleaner of the operator
//! make them.

use crate::{
    decision::{Rules, Seen},
    scenario::{Rule, Scenario},
    world::{
        ATTEMPTS, Age, Job, Jobs, KINDS, Kind, Lease, Leases, Outcome, Pass, Phase, Pod, RUNS, Request, Run,
        World, job_bit, members,
    },
};

/// What an operator's watches show.
struct View<'a> {
    runs: &'a [Run; RUNS],
    leases: &'a Leases,
    jobs: &'a Jobs,
    pods: &'a [Pod],
}

fn view(world: &World, operator: usize) -> View<'_> {
    let stalled = &world.operators[operator].stalled;
    View {
        runs: stalled.runs.as_ref().unwrap_or(&world.runs),
        leases: stalled.leases.as_ref().unwrap_or(&world.leases),
        jobs: stalled.jobs.as_ref().unwrap_or(&world.jobs),
        pods: stalled.pods.as_ref().unwrap_or(&world.pods),
    }
}

/// What the clients of a run report, of those that the operator's watches show.
fn clients(world: &World, view: &View<'_>, run: u8) -> [Option<Phase>; ATTEMPTS] {
    let mut clients = [None; ATTEMPTS];
    for (attempt, client) in (0_u8..).zip(&mut clients) {
        let Some(job) = view.jobs[usize::from(run)][usize::from(attempt)] else { continue };
        let own = |pod: &&Pod| (pod.run, pod.attempt, pod.job) == (run, attempt, job.uid);
        let reachable = view.pods.iter().any(|pod| own(&pod) && pod.runs());
        let now = world.pods.iter().find(own).filter(|pod| reachable && pod.runs());
        *client = now.map(|pod| pod.phase);
    }
    clients
}

/// The pass over a run that an idle operator begins, if there is something to do; and whether it
/// overtakes another run. If `silent`, no client answers.
pub fn pass_over(
    rules: &Rules,
    world: &World,
    operator: usize,
    run: u8,
    silent: bool,
) -> Option<(Pass, bool)> {
    let memory = &world.operators[operator];
    let view = view(world, operator);
    let index = usize::from(run);
    let waits = memory.newer_runs & 1 << run != 0
        || (0..).take(ATTEMPTS).any(|attempt| memory.newer_jobs & job_bit(run, attempt) != 0);
    if !view.runs[index].under_way() || waits {
        return None;
    }
    let clients = clients(world, &view, run);
    if silent && clients.iter().all(Option::is_none) {
        return None;
    }
    let seen = Seen {
        run,
        runs: *view.runs,
        leases: *view.leases,
        jobs: view.jobs[index],
        pods: view.pods.to_vec(),
        results: memory.results[index].unwrap_or(world.results[index]),
        clients: if silent { [None; ATTEMPTS] } else { clients },
    };
    let decision = rules.decide(seen);
    if decision.requests.is_empty() {
        return None;
    }
    let mut line = 0;
    let requests = decision.requests.iter().map(|request| match *request {
        Request::FixLine(attempt, _) => {
            let job = view.jobs[index][usize::from(attempt)];
            line = job.and_then(|job| job.line).map_or(0, |(line, _)| (line + 1) % 4);
            Request::FixLine(attempt, job.map_or(0, |job| job.version))
        }
        Request::NoteStart(attempt, _) => Request::NoteStart(attempt, view.runs[index].status.started),
        Request::SendStart(attempt, received) => {
            let fixes = decision.requests.iter().any(|one| matches!(one, Request::FixLine(..)));
            let job = view.jobs[index][usize::from(attempt)];
            if let Some((current, _)) = job.and_then(|job| job.line).filter(|_| !fixes) {
                line = current;
            }
            Request::SendStart(attempt, received)
        }
        other => other,
    });
    let requests: Vec<_> = requests.collect();
    let version = view.runs[index].version;
    Some((Pass { run, version, acquired: Vec::new(), line, requests }, decision.overtakes))
}

/// The pass over a Lease that an idle operator begins, if there is something to do.
pub fn clean_up(rules: &Rules, scenario: &Scenario, world: &World, operator: usize, key: u8) -> Option<Pass> {
    let view = view(world, operator);
    let lease = view.leases[usize::from(key)]?;
    let holder = usize::from(lease.holder);
    if !lease.given_back && (view.runs[holder].under_way() || !scenario.has(Rule::RemoveLeases)) {
        return None;
    }
    let silence = scenario.has(Rule::AwaitSilence);
    if silence && !rules.silent(lease.holder, &view.jobs[holder], view.pods) {
        return None;
    }
    let read = (!lease.given_back && scenario.has(Rule::ReadHolder)).then_some(Request::ReadHolder);
    let list = silence.then_some(Request::ListLoad);
    let requests = read.into_iter().chain(list).chain([Request::Remove(key, lease.uid)]).collect();
    Some(Pass { run: lease.holder, version: 0, acquired: Vec::new(), line: 0, requests })
}

/// An operator in one of its passes.
struct Actor<'a> {
    rules: &'a Rules,
    scenario: &'a Scenario,
    world: &'a mut World,
    operator: usize,
    pass: Pass,
}

/// What becomes of a pass after a request.
enum Then {
    /// The next request follows.
    Next,
    /// The pass ends.
    End,
}

/// Carries out the next request of an operator's pass. Reads are carried out together with the
/// request that rests on them, unless operators may freeze between the two.
pub fn advance(rules: &Rules, scenario: &Scenario, world: &mut World, operator: usize) {
    let Some(mut pass) = world.operators[operator].pass.take() else { return };
    loop {
        if pass.requests.is_empty() {
            return;
        }
        let request = pass.requests.remove(0);
        let mut actor = Actor { rules, scenario, world: &mut *world, operator, pass };
        let then = actor.carry_out(request);
        pass = actor.pass;
        let Then::Next = then else { return };
        if pass.requests.is_empty() {
            return;
        }
        if !reads(request) || scenario.freezes {
            world.operators[operator].pass = Some(pass);
            return;
        }
    }
}

fn reads(request: Request) -> bool {
    use Request::{ListClients, ListLoad, ReadHolder, ReadLeases, ReadResult, ReadRun};
    matches!(request, ReadRun | ReadLeases(_) | ReadResult(_) | ListClients | ReadHolder | ListLoad)
}

fn next_if(condition: bool) -> Then {
    if condition { Then::Next } else { Then::End }
}

impl Actor<'_> {
    fn run(&self) -> &Run {
        &self.world.runs[usize::from(self.pass.run)]
    }

    fn carry_out(&mut self, request: Request) -> Then {
        let run = self.pass.run;
        match request {
            Request::ReadRun => {
                let same = self.run().version == self.pass.version;
                next_if(self.run().under_way() && (same || !self.scenario.has(Rule::RunIsUnchanged)))
            }
            Request::ReadLeases(held) => next_if(members(held).all(|key| self.holds(key))),
            Request::ReadResult(attempt) => self.read_result(attempt),
            Request::ListClients => next_if(!self.world.pods.iter().any(|pod| pod.run == run && pod.runs())),
            Request::Acquire(key) => self.acquire(key),
            Request::CreateJob(attempt, node) => {
                self.create_job(attempt, node);
                Then::Next
            }
            Request::FixLine(attempt, version) => self.fix_line(attempt, version),
            Request::NoteStart(attempt, last) => self.note_start(attempt, last),
            Request::SendStart(attempt, received) => {
                self.send_start(attempt, received);
                Then::Next
            }
            Request::Store(attempt, job) => {
                self.store(attempt, job);
                Then::Next
            }
            Request::DeleteJob(attempt, uid) => {
                if self.world.job(run, attempt).is_some_and(|job| job.uid == uid) {
                    self.world.delete_job(run, attempt);
                }
                Then::Next
            }
            Request::Release(key, uid) => {
                let found = self.world.leases[usize::from(key)].as_mut().filter(|lease| lease.uid == uid);
                if let Some(lease) = found {
                    lease.given_back = true;
                    self.wrote_lease(key);
                }
                Then::Next
            }
            Request::ClearUp => self.clear_up(),
            Request::Publish(status) => {
                let version = self.pass.version;
                next_if(self.publish(version, status))
            }
            Request::ReadHolder => next_if(!self.run().under_way()),
            Request::ListLoad => {
                let jobs = &self.world.jobs[usize::from(run)];
                next_if(self.rules.silent(run, jobs, &self.world.pods))
            }
            Request::Withdraw(key, uid) | Request::Remove(key, uid) => {
                let found = &mut self.world.leases[usize::from(key)];
                if found.is_some_and(|lease| lease.uid == uid) {
                    *found = None;
                    self.wrote_lease(key);
                } else if let Some(seen) = &mut self.world.operators[self.operator].stalled.leases {
                    // It is gone already.
                    let seen = &mut seen[usize::from(key)];
                    *seen = seen.filter(|lease| lease.uid != uid);
                }
                Then::Next
            }
        }
    }

    fn holds(&self, key: u8) -> bool {
        self.world.leases[usize::from(key)]
            .is_some_and(|lease| lease.holder == self.pass.run && !lease.given_back)
    }

    /// The overlay: an operator sees its own writes of Leases at once, whatever its watch shows.
    fn wrote_lease(&mut self, key: u8) {
        let now = self.world.leases[usize::from(key)];
        if let Some(seen) = &mut self.world.operators[self.operator].stalled.leases {
            seen[usize::from(key)] = now;
        }
    }

    fn acquire(&mut self, key: u8) -> Then {
        let run = self.pass.run;
        let exists = self.world.leases[usize::from(key)].is_some();
        if !exists || !self.scenario.has(Rule::CreateLeases) {
            let uid = self.world.next_lease_uid(key);
            self.world.leases[usize::from(key)] = Some(Lease { holder: run, given_back: false, uid });
            self.pass.acquired.push((key, uid));
            self.wrote_lease(key);
            return Then::Next;
        }
        // Somebody has it; an earlier pass may have created it.
        self.wrote_lease(key);
        if !self.holds(key) {
            let acquired = self.pass.acquired.drain(..);
            let release = self.scenario.has(Rule::ReleaseInVain);
            let request =
                |(key, uid)| if release { Request::Release(key, uid) } else { Request::Withdraw(key, uid) };
            self.pass.requests = acquired.map(request).collect();
        }
        Then::Next
    }

    fn read_result(&mut self, attempt: u8) -> Then {
        let run = usize::from(self.pass.run);
        if self.world.results[run][usize::from(attempt)].is_none() {
            return Then::Next;
        }
        self.world.operators[self.operator].results[run] = None;
        Then::End
    }

    fn create_job(&mut self, attempt: u8, node: u8) {
        let run = self.pass.run;
        let uid = self.world.next_job_uid(run, attempt);
        let job = &mut self.world.jobs[usize::from(run)][usize::from(attempt)];
        job.get_or_insert(Job { uid, version: 0, node, line: None, ended: false, overdue: false });
    }

    fn fix_line(&mut self, attempt: u8, version: u8) -> Then {
        let (run, line) = (self.pass.run, self.pass.line);
        let over = self.scenario.has(Rule::WriteOverTheVersionRead);
        let found = self.world.job(run, attempt);
        if found.is_none_or(|job| over && job.version != version) {
            return Then::End;
        }
        self.world.change_job(run, attempt, |job| job.line = Some((line, Age::Ahead)));
        let memory = &mut self.world.operators[self.operator];
        if memory.stalled.jobs.is_some() {
            memory.newer_jobs |= job_bit(run, attempt);
        }
        Then::Next
    }

    fn note_start(&mut self, attempt: u8, last: Option<u8>) -> Then {
        let run = self.pass.run;
        let seen = view(self.world, self.operator).runs[usize::from(run)];
        if !seen.under_way() {
            return Then::End;
        }
        if seen.status.started == Some(attempt) {
            return Then::Next;
        }
        if seen.status.started != last && self.scenario.has(Rule::RunIsUnchanged) {
            return Then::End;
        }
        let status = self.rules.started(run, &seen, attempt);
        next_if(self.publish(seen.version, status))
    }

    fn send_start(&mut self, attempt: u8, received: bool) {
        let run = self.pass.run;
        let Some(job) = self.world.job(run, attempt).copied() else { return };
        // Another line means that this one passed long ago.
        let ahead = job.line == Some((self.pass.line, Age::Ahead));
        if !received && !ahead {
            return;
        }
        let waits = |pod: &&mut Pod| {
            (pod.run, pod.attempt, pod.job) == (run, attempt, job.uid) && pod.phase == Phase::Ready
        };
        if let Some(pod) = self.world.pods.iter_mut().find(waits) {
            pod.phase = Phase::Loading;
            let began = &mut self.world.began[usize::from(run)][usize::from(attempt)];
            *began = (*began + 1).min(2);
            self.world.spoiled |= self.world.changed & 1 << run != 0;
            self.world.pods.sort_unstable();
        }
    }

    fn store(&mut self, attempt: u8, job: Option<u8>) {
        let (run, index) = (self.pass.run, usize::from(self.pass.run));
        if job.is_none() && self.world.job(run, attempt).is_some() {
            return;
        }
        let own =
            |pod: &&Pod| (pod.run, pod.attempt) == (run, attempt) && job.is_none_or(|uid| pod.job == uid);
        let good =
            job.is_some() && self.world.pods.iter().find(own).is_some_and(|pod| pod.phase == Phase::Done);
        let outcome = if good { Outcome::Good } else { Outcome::Lost };
        self.world.results[index][usize::from(attempt)].get_or_insert(outcome);
        self.world.operators[self.operator].results[index] = None;
    }

    fn clear_up(&mut self) -> Then {
        let run = self.pass.run;
        let view = view(self.world, self.operator);
        let ended = |attempt: u8, job: &Job| {
            let own = |pod: &&Pod| (pod.run, pod.attempt, pod.job) == (run, attempt, job.uid);
            job.ended || view.pods.iter().any(|pod| own(&pod) && pod.ended())
        };
        let jobs = (0..).zip(&self.world.jobs[usize::from(run)]);
        let left = jobs.filter_map(|(attempt, job)| Some((attempt, job.as_ref()?)));
        let left = left.filter(|(attempt, job)| !ended(*attempt, job));
        let deletions: Vec<_> = left.map(|(attempt, job)| Request::DeleteJob(attempt, job.uid)).collect();
        drop(self.pass.requests.splice(0..0, deletions));
        Then::Next
    }

    /// Writes the status over `version` of the run; whether it was written.
    fn publish(&mut self, version: u8, status: crate::world::Status) -> bool {
        let run = self.pass.run;
        let over = self.scenario.has(Rule::WriteOverTheVersionRead);
        let found = self.run();
        if !found.exists || over && found.version != version {
            return false;
        }
        self.world.change_run(run, |run| run.status = status);
        let memory = &mut self.world.operators[self.operator];
        if memory.stalled.runs.is_some() {
            memory.newer_runs |= 1 << run;
        }
        true
    }
}

/// A watch of an operator stalls.
pub fn stall(world: &mut World, operator: usize, kind: Kind) {
    let World { runs, leases, jobs, pods, operators, .. } = world;
    let stalled = &mut operators[operator].stalled;
    match kind {
        Kind::Runs => stalled.runs = Some(*runs),
        Kind::Leases => stalled.leases = Some(*leases),
        Kind::Jobs => stalled.jobs = Some(*jobs),
        Kind::Pods => stalled.pods = Some(pods.clone()),
    }
}

/// Whether a watch of an operator has stalled.
pub fn has_stalled(world: &World, operator: usize, kind: Kind) -> bool {
    let stalled = &world.operators[operator].stalled;
    match kind {
        Kind::Runs => stalled.runs.is_some(),
        Kind::Leases => stalled.leases.is_some(),
        Kind::Jobs => stalled.jobs.is_some(),
        Kind::Pods => stalled.pods.is_some(),
    }
}

/// A watch of an operator goes on.
pub fn resume(world: &mut World, operator: usize, kind: Kind) {
    let memory = &mut world.operators[operator];
    match kind {
        Kind::Runs => (memory.stalled.runs, memory.newer_runs) = (None, 0),
        Kind::Leases => memory.stalled.leases = None,
        Kind::Jobs => (memory.stalled.jobs, memory.newer_jobs) = (None, 0),
        Kind::Pods => memory.stalled.pods = None,
    }
}

/// An operator ends and starts again: it lists everything.
pub fn crash(world: &mut World, operator: usize) {
    let results = world.results.map(Some);
    world.operators[operator] = crate::world::Operator { results, ..crate::world::Operator::default() };
}

/// The watches of an operator that have stalled.
pub fn stalled(world: &World, operator: usize) -> impl Iterator<Item = Kind> + '_ {
    KINDS.into_iter().filter(move |kind| has_stalled(world, operator, *kind))
}
