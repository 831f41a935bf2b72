//! Engines whose threads wait for work in a busy loop, and look used up when they are not
//! (docs/verdicts.md has the sources). Pure.

use super::evidence::{Busy, Evidence, percent, sorted};
use crate::{judged::limits, measured::observed::MainThreadTime, result::ServerRecord};
use dragstrip_crds::{Engine, observed::ServerTruth};

/// How Redis and Valkey name their I/O threads.
const IO_THREAD: &str = "io_thd_";
/// How Valkey names its main thread, the one that executes commands.
const MAIN_THREAD: &str = "valkey-server";
/// The main threads of engines that execute commands on no other.
pub(super) const MAIN_THREADS: [&str; 2] = ["redis-server", MAIN_THREAD];

/// Which threads of an engine spin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Spinning {
    /// Those that read and write. The main thread spins only until they have done what it waits
    /// for and executes nothing meanwhile: that time is used up.
    InputOutput,
    /// The main thread too, as long as an I/O thread is active.
    All,
}

impl Spinning {
    fn of(truth: &ServerTruth) -> Option<Self> {
        let major: u32 = truth.version.split('.').next()?.parse().ok()?;
        match (truth.engine?, major) {
            (Engine::Redis, 6 | 7) | (Engine::Valkey, ..=7) => Some(Self::InputOutput),
            (Engine::Valkey, _) => Some(Self::All),
            _ => None,
        }
    }
}

/// The threads by which servers are judged, the busiest first.
#[derive(Default)]
pub(super) struct Executing {
    pub threads: Vec<Busy>,
    /// What the shares do not contain, or contain besides work.
    pub notes: Vec<String>,
    /// Whether the CPU time of any thread contains waiting for work.
    pub spins: bool,
    /// Whether the share of the busiest of `threads` may be much too large.
    pub upper_bound: bool,
}

/// The threads of the servers that execute commands, without those that spin.
pub(super) fn executing(evidence: &Evidence) -> Executing {
    let (io, threads): (Vec<Busy>, Vec<Busy>) =
        evidence.server_threads().into_iter().partition(|thread| thread.name.starts_with(IO_THREAD));
    let engine = evidence.server_records().next().map(|server| &server.truth);
    let spinning = engine.and_then(|truth| Some((truth, Spinning::of(truth)?)));
    let (Some((truth, spinning)), Some(busiest)) = (spinning, io.first().map(|thread| thread.share)) else {
        return Executing { threads: sorted([threads, io].concat()), ..Executing::default() };
    };
    let engine = truth.engine.map(|engine| engine.to_string()).unwrap_or_default();
    let note = format!(
        "its I/O threads (up to {}) are not counted: {engine} {} keeps them in a busy loop",
        percent(busiest),
        truth.version
    );
    let executing = Executing { threads, notes: vec![note], spins: true, upper_bound: false };
    if spinning == Spinning::All { main_spins(executing, busiest, evidence) } else { executing }
}

/// `executing` of servers whose main thread spins while an I/O thread is active, the busiest of them
/// for the share `io` of the time.
fn main_spins(mut executing: Executing, io: f64, evidence: &Evidence) -> Executing {
    if let Some(active) = active(evidence) {
        for main in executing.threads.iter_mut().filter(|thread| thread.name.starts_with(MAIN_THREAD)) {
            main.share *= active;
        }
        executing.threads = sorted(executing.threads);
        executing.notes.push(format!(
            "its main thread had work for {} of its CPU time by the server's own account",
            percent(active)
        ));
    } else if let Some(main) = executing.threads.first()
        && main.name.starts_with(MAIN_THREAD)
        // It cannot have spun for longer than an I/O thread was active.
        && main.share >= limits::BUSY
        && main.share - io < limits::BUSY
    {
        executing.upper_bound = true;
        executing.notes.push(
            "its main thread's share is an upper bound, since it spins too: load with more connections to see whether the server has room"
                .to_owned(),
        );
    }
    executing
}

/// The share of their CPU time for which the servers' main threads had work, as they report it
/// themselves; of several servers the largest.
fn active(evidence: &Evidence) -> Option<f64> {
    let shares = evidence.server_records().flat_map(|record: &ServerRecord| {
        let one = record.shards.is_empty().then_some((&record.before, record.after.as_ref()));
        let shards = record.shards.iter().map(|shard| (&shard.before, shard.after.as_ref()));
        one.into_iter().chain(shards).filter_map(|(before, after)| {
            let (before, after) = (before.main_thread?, after?.main_thread?);
            let grown = |of: fn(MainThreadTime) -> u64| of(after).saturating_sub(of(before)) as f64;
            let (active, cpu) = (grown(|time| time.active_micros), grown(|time| time.cpu_micros));
            (cpu > 0.0).then(|| (active / cpu).min(1.0))
        })
    });
    shares.reduce(f64::max)
}
