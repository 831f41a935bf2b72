//! What a check explores: the runs and the machines, how many faults may happen, and the rules that
//! hold. A rule that is switched off is a mutation, which the check must find.

use crate::world::{OPERATORS, RUNS};

/// How many faults of each kind may happen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Faults {
    /// An operator ends and starts again with an empty memory.
    pub crashes: u8,
    /// A watch of an operator shows nothing new until it goes on.
    pub stalls: u8,
    /// The cluster takes a client pod away.
    pub evictions: u8,
    /// A client does not answer a query.
    pub silences: u8,
    /// A user cancels a run.
    pub cancels: u8,
    /// A user deletes a run.
    pub deletions: u8,
    /// A user deletes a Job.
    pub job_deletions: u8,
    /// The timeout of a run passes.
    pub timeouts: u8,
}

/// What a run loads, and whether its clients can start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Declared {
    /// Its server.
    pub server: u8,
    /// Whether its clients can start: their image may be missing.
    pub startable: bool,
    /// Whether it exists from the beginning, or is created at any time.
    pub early: bool,
}

/// Rules that the model can break in a mutation. Others always hold: removed alone, they break nothing
/// in what can be explored, and tests of the operator guard them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Rule {
    /// The API server writes a status or a start line only over the version that was read.
    WriteOverTheVersionRead,
    /// Acquiring a Lease is creating it: one that exists is held.
    CreateLeases,
    /// Leases that a run acquired in vain are released, and not removed: another operator may have
    /// begun the run's turn with them.
    ReleaseInVain,
    /// A turn needs the Leases of nodes too.
    ReserveNodes,
    /// Before a Job is created, its run is read: it may have ended.
    ReadRunBeforeJob,
    /// Nothing is created for a run that changed since the pass began, and its start is not noted over
    /// another one.
    RunIsUnchanged,
    /// Before a Job is created, its result is looked up: another operator may have stored it.
    ReadResultBeforeJob,
    /// Before a Job is created, the run's pods are listed: a watch may not show a client of an earlier one.
    ListClientsBeforeJob,
    /// The status shows a start before any client receives the command.
    NoteStart,
    /// A Lease is removed when no load can run any more.
    AwaitSilence,
    /// A Lease is removed only if its run has ended, as the API server has it.
    ReadHolder,
    /// The Lease of a run that has ended is removed.
    RemoveLeases,
    /// A run waits for every run that is queued before it.
    Queue,
    /// A run that gave its turn back comes after those that did not.
    SetbacksComeLast,
    /// A lost measurement's clients are gone before the next one begins.
    AwaitRemains,
    /// A run that ends deletes its Jobs that may still load.
    ClearUp,
}

/// What is explored.
#[derive(Debug, Clone, Copy)]
pub struct Scenario {
    /// Its name.
    pub name: &'static str,
    /// The runs; the oldest first.
    pub runs: [Option<Declared>; RUNS],
    /// Phases of each run: one, which is measured again if a client is lost, or two, which are not.
    pub phases: u8,
    /// Nodes for clients: one or two.
    pub client_nodes: u8,
    /// Whether both servers share a node.
    pub shared_server_node: bool,
    /// Operators that act.
    pub operators: usize,
    /// Faults.
    pub faults: Faults,
    /// How often other steps may come between two requests of a pass, in all passes together; [`ANY`] explores all
    /// interleavings, of which two operators have too many. Few are enough to show most faults: Musuvathi and Qadeer,
    /// "Iterative Context Bounding for Systematic Testing of Multithreaded Programs", PLDI 2007.
    pub interruptions: u8,
    /// Whether an operator may stop between a read and the write that rests on it, for as long as
    /// others need for anything.
    pub freezes: bool,
    /// Rules that do not hold.
    pub without: &'static [Rule],
}

impl Scenario {
    /// Whether `rule` holds.
    pub fn has(&self, rule: Rule) -> bool {
        !self.without.contains(&rule)
    }

    /// The runs and their indices.
    pub fn declared(&self) -> impl Iterator<Item = (u8, Declared)> {
        (0..).zip(self.runs).filter_map(|(index, declared)| Some((index, declared?)))
    }

    /// Indices of the operators.
    pub fn operators(&self) -> std::ops::Range<usize> {
        0..self.operators.min(OPERATORS)
    }
}

/// Any number of interruptions.
pub const ANY: u8 = u8::MAX;

/// A run against `server` that exists from the beginning.
pub const fn against(server: u8) -> Option<Declared> {
    Some(Declared { server, startable: true, early: true })
}

/// No fault.
pub const CALM: Faults = Faults {
    crashes: 0,
    stalls: 0,
    evictions: 0,
    silences: 0,
    cancels: 0,
    deletions: 0,
    job_deletions: 0,
    timeouts: 0,
};

/// Two runs against one server, one operator, no fault: what all others extend.
pub const PLAIN: Scenario = Scenario {
    name: "two runs of one server",
    runs: [against(0), against(0), None],
    phases: 1,
    client_nodes: 2,
    shared_server_node: false,
    operators: 1,
    faults: CALM,
    interruptions: ANY,
    freezes: false,
    without: &[],
};
