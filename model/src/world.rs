//! The state of the modelled world: the objects as the API server stores them, and the operators with
//! their caches and the pass that each of them is in. Small, so that millions of states fit in memory.

use crate::scenario::Faults;

/// Most runs.
pub const RUNS: usize = 3;
/// Measurements of each run's single repetition: of one phase, and once more if a client was lost, or
/// of two phases.
pub const ATTEMPTS: usize = 2;
/// Leases: of two targets, two nodes of servers and two nodes for clients.
pub const KEYS: usize = 6;
/// Operators.
pub const OPERATORS: usize = 2;

/// A set of Leases or of runs by their bits.
pub type Bits = u8;

/// The members of `bits`.
pub fn members(bits: Bits) -> impl Iterator<Item = u8> {
    (0..8).filter(move |index: &u8| bits & (1 << *index) != 0)
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum End {
    /// Every measurement has a usable result.
    Succeeded,
    /// It has a failure.
    Failed,
    /// Its user cancelled it.
    Cancelled,
}

/// What makes a run wait before it takes its turn again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Setback {
    /// Whether the number of setbacks is even: each one makes other nodes come first.
    pub even: bool,
    /// Whether the wait is over.
    pub due: bool,
}

/// What a run's status records.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Status {
    /// The Leases that it is queued for.
    pub queue: Bits,
    /// Its last setback.
    pub setback: Option<Setback>,
    /// The measurement whose load has started.
    pub started: Option<u8>,
    /// Whether a failure is recorded.
    pub failed: bool,
    /// Its end.
    pub end: Option<End>,
}

/// A run. It exists from its creation until a user deletes it.
#[allow(clippy::struct_excessive_bools, reason = "each of them happens by itself")]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Run {
    /// Whether it exists.
    pub exists: bool,
    /// Whether it existed and was deleted.
    pub deleted: bool,
    /// Its version.
    pub version: u8,
    /// Whether its user cancelled it.
    pub cancel: bool,
    /// Whether its timeout has passed.
    pub late: bool,
    /// Its status.
    pub status: Status,
}

impl Run {
    /// Whether it exists and has not ended: the watches of operators show no others.
    pub fn under_way(&self) -> bool {
        self.exists && self.status.end.is_none()
    }
}

/// A Lease that exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lease {
    /// The run that holds it.
    pub holder: u8,
    /// Whether the run has released it.
    pub given_back: bool,
    /// Distinguishes it from earlier ones of its name.
    pub uid: u8,
}

/// How long ago a start line was, or will be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Age {
    /// It is far enough ahead to be sent.
    Ahead,
    /// It is passing: a command that was sent in time may still arrive.
    Passing,
    /// Every command has arrived or failed.
    Past,
    /// The load's watchdog and the time for its result have passed too.
    Over,
}

/// A Job that exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Job {
    /// Distinguishes it from earlier ones of its name.
    pub uid: u8,
    /// Its version.
    pub version: u8,
    /// The node for its client: an index of a client node.
    pub node: u8,
    /// Its start line, numbered, with its age.
    pub line: Option<(u8, Age)>,
    /// Whether it has ended.
    pub ended: bool,
    /// Whether its client has been held up for longer than the operator has patience.
    pub overdue: bool,
}

/// How far a client is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// Its container has not started.
    Pending,
    /// It checks the server and writes keys.
    Preparing,
    /// It waits at the start line.
    Ready,
    /// It loads the server, and is measured.
    Loading,
    /// It has ended with a result.
    Done,
    /// The cluster took it away.
    Evicted,
}

/// A client pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pod {
    /// Its run.
    pub run: u8,
    /// Its measurement.
    pub attempt: u8,
    /// The uid of its Job.
    pub job: u8,
    /// Its node.
    pub node: u8,
    /// How far it is.
    pub phase: Phase,
    /// Whether it is being deleted; its container may still run.
    pub deleted: bool,
}

impl Pod {
    /// Whether its container runs.
    pub fn runs(&self) -> bool {
        matches!(self.phase, Phase::Preparing | Phase::Ready | Phase::Loading)
    }

    /// Whether it has ended.
    pub fn ended(&self) -> bool {
        matches!(self.phase, Phase::Done | Phase::Evicted)
    }
}

/// What a stored result says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outcome {
    /// The measurement counts.
    Good,
    /// A client was lost.
    Lost,
}

/// Stored results of a run, by measurement.
pub type Results = [Option<Outcome>; ATTEMPTS];
/// Jobs by run and measurement.
pub type Jobs = [[Option<Job>; ATTEMPTS]; RUNS];
/// Leases by key.
pub type Leases = [Option<Lease>; KEYS];

/// One kind of watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Runs.
    Runs,
    /// Leases.
    Leases,
    /// Jobs.
    Jobs,
    /// Client pods.
    Pods,
}

/// All kinds.
pub const KINDS: [Kind; 4] = [Kind::Runs, Kind::Leases, Kind::Jobs, Kind::Pods];

/// What stalled watches still show. A watch that has not stalled shows the objects as they are.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stalled {
    /// Runs.
    pub runs: Option<[Run; RUNS]>,
    /// Leases.
    pub leases: Option<Leases>,
    /// Jobs.
    pub jobs: Option<Jobs>,
    /// Pods.
    pub pods: Option<Vec<Pod>>,
}

/// One request of a pass to the API server or to a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Request {
    /// Read whether the run has changed since the pass began; if so, the pass ends.
    ReadRun,
    /// Read whether the run still holds these Leases; if not, the pass ends.
    ReadLeases(Bits),
    /// Read whether the result of this measurement exists; if so, the pass ends.
    ReadResult(u8),
    /// List the run's pods; if a client runs, the pass ends.
    ListClients,
    /// Create this Lease.
    Acquire(u8),
    /// Remove the Lease of this key and uid, which was created in vain.
    Withdraw(u8, u8),
    /// Create the Job of this measurement, with its client on this node.
    CreateJob(u8, u8),
    /// Write the start line on this version of the Job of this measurement.
    FixLine(u8, u8),
    /// Write to the status that the load of this measurement starts; the start that the status had when
    /// the pass began.
    NoteStart(u8, Option<u8>),
    /// Send the client of this measurement its start command; whether it may have it already.
    SendStart(u8, bool),
    /// Store the result of this measurement; the uid of its Job, if the watch shows one.
    Store(u8, Option<u8>),
    /// Delete the Job of this measurement with this uid.
    DeleteJob(u8, u8),
    /// Release this Lease.
    Release(u8, u8),
    /// List the run's Jobs, and delete those whose load has not ended.
    ClearUp,
    /// Write the status.
    Publish(Status),
    /// Read whether the Lease's run has ended; if not, the pass ends.
    ReadHolder,
    /// List the Jobs and pods of the Lease's run; if load may run, the pass ends.
    ListLoad,
    /// Remove the Lease of this key and uid.
    Remove(u8, u8),
}

/// A pass over a run, or over a Lease, that an operator is in.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pass {
    /// The run, or the holder of the Lease.
    pub run: u8,
    /// The version of the run that it began with.
    pub version: u8,
    /// Leases that it created: their keys and uids.
    pub acquired: Vec<(u8, u8)>,
    /// The start line that it chose.
    pub line: u8,
    /// The requests that follow.
    pub requests: Vec<Request>,
}

/// An operator: its memory, all of which it loses when it crashes.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Operator {
    /// What its stalled watches show.
    pub stalled: Stalled,
    /// Runs that it wrote and whose watch does not show that yet.
    pub newer_runs: Bits,
    /// The same for Jobs, by run and measurement.
    pub newer_jobs: Bits,
    /// Its cache of stored results; absent if the next pass lists them.
    pub results: [Option<Results>; RUNS],
    /// The pass that it is in.
    pub pass: Option<Pass>,
}

/// A state of the world.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct World {
    /// Runs.
    pub runs: [Run; RUNS],
    /// Leases.
    pub leases: Leases,
    /// Jobs.
    pub jobs: Jobs,
    /// Client pods, sorted.
    pub pods: Vec<Pod>,
    /// Stored results.
    pub results: [Results; RUNS],
    /// Operators.
    pub operators: [Operator; OPERATORS],
    /// Faults that may still happen.
    pub faults: Faults,
    /// The operator whose pass goes on unless another step interrupts it.
    pub acting: Option<usize>,
    /// How often that may still happen.
    pub interruptions: u8,
    /// How often load began for each measurement; two stands for more.
    pub began: [[u8; ATTEMPTS]; RUNS],
    /// Whether a run took a turn for which another one comes first.
    pub overtaken: bool,
    /// Runs whose server another run loaded between their two phases.
    pub changed: Bits,
    /// Whether such a run was measured all the same.
    pub spoiled: bool,
}

/// The bit of a Job in [`Operator::newer_jobs`].
pub fn job_bit(run: u8, attempt: u8) -> Bits {
    1 << (usize::from(run) * ATTEMPTS + usize::from(attempt))
}

impl World {
    /// The Job of this run and measurement.
    pub fn job(&self, run: u8, attempt: u8) -> Option<&Job> {
        self.jobs[usize::from(run)][usize::from(attempt)].as_ref()
    }

    fn passes(&self) -> impl Iterator<Item = &Pass> {
        self.operators.iter().filter_map(|operator| operator.pass.as_ref())
    }

    /// The smallest number for a new version of `run` that no operator has for an older one.
    /// Versions that nobody remembers need no numbers of their own: that keeps states few.
    fn next_run_version(&self, run: u8) -> u8 {
        let index = usize::from(run);
        let cached = self.operators.iter().filter_map(|operator| Some(operator.stalled.runs?[index].version));
        let read = self.passes().filter(|pass| pass.run == run).map(|pass| pass.version);
        unused(cached.chain(read))
    }

    /// The same for a Job, of its versions.
    fn next_job_version(&self, run: u8, attempt: u8) -> u8 {
        let (row, column) = (usize::from(run), usize::from(attempt));
        let cached =
            self.operators.iter().filter_map(|operator| Some(operator.stalled.jobs?[row][column]?.version));
        let read = self.passes().filter(|pass| pass.run == run).flat_map(|pass| &pass.requests);
        let read = read.filter_map(|request| match request {
            Request::FixLine(of, version) if *of == attempt => Some(*version),
            _ => None,
        });
        unused(cached.chain(read))
    }

    /// The same for the uid of a new Job.
    pub fn next_job_uid(&self, run: u8, attempt: u8) -> u8 {
        let (row, column) = (usize::from(run), usize::from(attempt));
        let cached =
            self.operators.iter().filter_map(|operator| Some(operator.stalled.jobs?[row][column]?.uid));
        let requests = self.passes().filter(|pass| pass.run == run).flat_map(|pass| &pass.requests);
        let read = requests.filter_map(|request| match request {
            Request::DeleteJob(of, uid) | Request::Store(of, Some(uid)) if *of == attempt => Some(*uid),
            _ => None,
        });
        let of_pods = self.operators.iter().flat_map(|operator| operator.stalled.pods.iter().flatten());
        let of_pods = of_pods.chain(&self.pods).filter(|pod| (pod.run, pod.attempt) == (run, attempt));
        unused(cached.chain(read).chain(of_pods.map(|pod| pod.job)))
    }

    /// The same for the uid of a new Lease.
    pub fn next_lease_uid(&self, key: u8) -> u8 {
        let cached = self
            .operators
            .iter()
            .filter_map(|operator| Some(operator.stalled.leases?[usize::from(key)]?.uid));
        let requests = self.passes().flat_map(|pass| &pass.requests);
        let read = requests.filter_map(|request| match request {
            Request::Release(of, uid) | Request::Remove(of, uid) | Request::Withdraw(of, uid) => {
                Some((*of, *uid))
            }
            _ => None,
        });
        let read = read.chain(self.passes().flat_map(|pass| pass.acquired.iter().copied()));
        unused(cached.chain(read.filter(|(of, _)| *of == key).map(|(_, uid)| uid)))
    }

    /// Changes a run: it gets another version.
    pub fn change_run(&mut self, run: u8, change: impl FnOnce(&mut Run)) {
        self.runs[usize::from(run)].version = self.next_run_version(run);
        change(&mut self.runs[usize::from(run)]);
    }

    /// Changes a Job that exists: it gets another version.
    pub fn change_job(&mut self, run: u8, attempt: u8, change: impl FnOnce(&mut Job)) {
        let version = self.next_job_version(run, attempt);
        if let Some(job) = &mut self.jobs[usize::from(run)][usize::from(attempt)] {
            job.version = version;
            change(job);
        }
    }

    /// Deletes a Job; the garbage collector deletes its pods.
    pub fn delete_job(&mut self, run: u8, attempt: u8) {
        let Some(job) = self.jobs[usize::from(run)][usize::from(attempt)].take() else { return };
        let own = |pod: &&mut Pod| (pod.run, pod.attempt, pod.job) == (run, attempt, job.uid);
        self.pods.iter_mut().filter(own).for_each(|pod| pod.deleted = true);
        // A pod that has ended is gone at once.
        self.pods.retain(|pod| !(pod.deleted && (pod.ended() || pod.phase == Phase::Pending)));
        self.pods.sort_unstable();
    }
}

fn unused(numbers: impl Iterator<Item = u8>) -> u8 {
    let used = numbers.fold(0_u8, |used, number| used | 1 << number);
    u8::try_from((!used).trailing_zeros()).unwrap_or(0)
}
