//! Everything around the operators: Jobs and their pods, the garbage collector, users, and time.

use crate::{
    scenario::Scenario,
    world::{Age, Job, Outcome, Phase, Pod, World},
};

/// Something that happens without an operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The Job controller creates the pod of this run and measurement.
    PodIsCreated(u8, u8),
    /// A client pod gets further.
    PodProgresses(Pod),
    /// The cluster takes a client pod away.
    PodIsEvicted(Pod),
    /// The container of a deleted client pod has stopped.
    PodIsGone(Pod),
    /// The Job controller sees the end of this run's measurement.
    JobEnds(u8, u8),
    /// The garbage collector deletes the Job of this run, which was deleted.
    JobIsCollected(u8, u8),
    /// Time passes for a start line.
    LinePasses(u8, u8),
    /// A client has been held up for longer than the operator has patience.
    PatienceEnds(u8, u8),
    /// The wait after a setback is over.
    SetbackIsOver(u8),
    /// The timeout of a run passes.
    TimeoutPasses(u8),
    /// A user creates a run.
    RunIsCreated(u8),
    /// A user cancels a run.
    RunIsCancelled(u8),
    /// A user deletes a run.
    RunIsDeleted(u8),
    /// A user deletes the Job of this run and measurement.
    JobIsDeleted(u8, u8),
}

fn next(age: Age) -> Option<Age> {
    match age {
        Age::Ahead => Some(Age::Passing),
        Age::Passing => Some(Age::Past),
        Age::Past => Some(Age::Over),
        Age::Over => None,
    }
}

/// The pod of a Job.
fn pod_of(world: &World, run: u8, attempt: u8, job: Job) -> Option<&Pod> {
    world.pods.iter().find(|pod| (pod.run, pod.attempt, pod.job) == (run, attempt, job.uid))
}

/// All Jobs that exist.
fn jobs(world: &World) -> impl Iterator<Item = (u8, u8, Job)> + '_ {
    let rows = (0..).zip(&world.jobs);
    rows.flat_map(|(run, row)| (0..).zip(row).filter_map(move |(attempt, job)| Some((run, attempt, (*job)?))))
}

/// What may happen next without a fault and without that time passes.
pub fn progress(scenario: &Scenario, world: &World, events: &mut Vec<Event>) {
    for (run, attempt, job) in jobs(world).filter(|(_, _, job)| !job.ended) {
        match pod_of(world, run, attempt, job) {
            None => events.push(Event::PodIsCreated(run, attempt)),
            Some(pod) if pod.ended() => events.push(Event::JobEnds(run, attempt)),
            Some(_) => {}
        }
    }
    for pod in &world.pods {
        let startable = scenario.runs[usize::from(pod.run)].is_some_and(|run| run.startable);
        match pod.phase {
            _ if pod.deleted => events.push(Event::PodIsGone(*pod)),
            Phase::Pending if startable => events.push(Event::PodProgresses(*pod)),
            Phase::Preparing | Phase::Loading => events.push(Event::PodProgresses(*pod)),
            _ => {}
        }
    }
    let collected = jobs(world).filter(|(run, ..)| world.runs[usize::from(*run)].deleted);
    events.extend(collected.map(|(run, attempt, _)| Event::JobIsCollected(run, attempt)));
}

/// What time may bring, except a timeout.
pub fn time(scenario: &Scenario, world: &World, events: &mut Vec<Event>) {
    for (run, attempt, job) in jobs(world).filter(|(_, _, job)| !job.ended) {
        let phase = pod_of(world, run, attempt, job).map(|pod| pod.phase);
        // The runner's watchdog ends the load before it counts as lost. While clients that have their
        // command answer, nobody asks for the age of their start line.
        let answers = world.faults.silences == 0;
        let passes = match (job.line, phase) {
            (None, _) | (_, Some(Phase::Done | Phase::Evicted)) => false,
            (Some((_, age)), Some(Phase::Loading)) => !answers && age < Age::Past,
            (Some((_, age)), _) => next(age).is_some(),
        };
        if passes {
            events.push(Event::LinePasses(run, attempt));
        }
        let startable = scenario.runs[usize::from(run)].is_some_and(|run| run.startable);
        if !startable && !job.overdue {
            events.push(Event::PatienceEnds(run, attempt));
        }
    }
    for (run, stored) in (0..).zip(&world.runs) {
        if stored.under_way() && stored.status.setback.is_some_and(|setback| !setback.due) {
            events.push(Event::SetbackIsOver(run));
        }
    }
}

/// Runs whose timeout may pass: a queued run's clock stands.
pub fn timeouts(world: &World, events: &mut Vec<Event>) {
    let runs = (0..).zip(&world.runs);
    let running = runs.filter(|(_, run)| run.under_way() && !run.late && run.status.queue == 0);
    events.extend(running.map(|(run, _)| Event::TimeoutPasses(run)));
}

/// Runs that users have yet to create.
pub fn creations(scenario: &Scenario, world: &World, events: &mut Vec<Event>) {
    let later = scenario.declared().filter(|(run, declared)| {
        let run = &world.runs[usize::from(*run)];
        !declared.early && !run.exists && !run.deleted
    });
    events.extend(later.map(|(run, _)| Event::RunIsCreated(run)));
}

/// The faults and interventions that may still happen.
pub fn faults(world: &World, events: &mut Vec<Event>) {
    let left = &world.faults;
    if left.evictions > 0 {
        let pods = world.pods.iter().filter(|pod| !pod.deleted && !pod.ended());
        events.extend(pods.map(|pod| Event::PodIsEvicted(*pod)));
    }
    if left.timeouts > 0 {
        timeouts(world, events);
    }
    for (run, _) in (0..).zip(&world.runs).filter(|(_, run)| run.under_way()) {
        if left.cancels > 0 && !world.runs[usize::from(run)].cancel {
            events.push(Event::RunIsCancelled(run));
        }
        if left.deletions > 0 {
            events.push(Event::RunIsDeleted(run));
        }
    }
    if left.job_deletions > 0 {
        let open = jobs(world).filter(|(_, _, job)| !job.ended);
        events.extend(open.map(|(run, attempt, _)| Event::JobIsDeleted(run, attempt)));
    }
}

fn replace(world: &mut World, pod: Pod, by: Option<Pod>) {
    world.pods.retain(|one| *one != pod);
    world.pods.extend(by);
    world.pods.sort_unstable();
}

/// `run` changes the data of its server: that of runs which are between two phases.
fn disturb(scenario: &Scenario, world: &mut World, run: u8) {
    let server = |run: u8| scenario.runs[usize::from(run)].map(|run| run.server);
    let between = |other: u8| {
        let [first, second] = world.results[usize::from(other)];
        scenario.phases > 1 && first == Some(Outcome::Good) && second.is_none()
    };
    let others = scenario.declared().map(|(other, _)| other).filter(|other| *other != run);
    let changed = others.filter(|other| server(*other) == server(run) && between(*other));
    world.changed |= changed.fold(0, |bits, other| bits | 1 << other);
}

/// `event` happens.
pub fn happen(scenario: &Scenario, world: &mut World, event: Event) {
    match event {
        Event::PodIsCreated(run, attempt) => {
            if let Some(job) = world.job(run, attempt).copied() {
                let (job, node) = (job.uid, job.node);
                let pod = Pod { run, attempt, job, node, phase: Phase::Pending, deleted: false };
                world.pods.push(pod);
                world.pods.sort_unstable();
            }
        }
        Event::PodProgresses(pod) => {
            let phase = match pod.phase {
                Phase::Pending => Phase::Preparing,
                Phase::Preparing => Phase::Ready,
                _ => Phase::Done,
            };
            replace(world, pod, Some(Pod { phase, ..pod }));
            if phase == Phase::Preparing {
                disturb(scenario, world, pod.run);
            }
        }
        Event::PodIsEvicted(pod) => {
            world.faults.evictions -= 1;
            replace(world, pod, Some(Pod { phase: Phase::Evicted, ..pod }));
        }
        Event::PodIsGone(pod) => replace(world, pod, None),
        Event::JobEnds(run, attempt) => world.change_job(run, attempt, |job| job.ended = true),
        Event::JobIsCollected(run, attempt) => world.delete_job(run, attempt),
        Event::LinePasses(run, attempt) => {
            // Time changes no version.
            if let Some(job) = &mut world.jobs[usize::from(run)][usize::from(attempt)] {
                job.line = job.line.map(|(line, age)| (line, next(age).unwrap_or(age)));
            }
        }
        Event::PatienceEnds(run, attempt) => {
            if let Some(job) = &mut world.jobs[usize::from(run)][usize::from(attempt)] {
                job.overdue = true;
            }
        }
        Event::SetbackIsOver(run) => {
            if let Some(setback) = &mut world.runs[usize::from(run)].status.setback {
                setback.due = true;
            }
        }
        Event::TimeoutPasses(run) => {
            world.faults.timeouts = world.faults.timeouts.saturating_sub(1);
            world.runs[usize::from(run)].late = true;
        }
        Event::RunIsCreated(run) => world.runs[usize::from(run)].exists = true,
        Event::RunIsCancelled(run) => {
            world.faults.cancels -= 1;
            world.change_run(run, |run| run.cancel = true);
        }
        Event::RunIsDeleted(run) => {
            world.faults.deletions -= 1;
            world.change_run(run, |run| (run.exists, run.deleted) = (false, true));
        }
        Event::JobIsDeleted(run, attempt) => {
            world.faults.job_deletions -= 1;
            world.delete_job(run, attempt);
        }
    }
}
