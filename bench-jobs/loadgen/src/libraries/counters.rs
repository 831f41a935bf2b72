//! What the tasks of a run count.
//!
//! Every runtime thread has a shard of its own, so that tasks on different
//! threads never wait for each other; the shards are added up at the end.
//! Counters, histograms and bounded error text only.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use tokio::sync::Notify;
use tokio::time::sleep_until;

use crate::histogram::{self, HistogramError};
use crate::link::ProgressCounters;

/// Distinct kinds of error kept apart; further ones are counted as [`OTHER_KINDS`].
const MAXIMUM_KINDS: usize = 64;
const OTHER_KINDS: &str = "(other)";
/// Longest kind and longest message kept, in bytes.
const MAXIMUM_KIND_BYTES: usize = 64;
const MAXIMUM_MESSAGE_BYTES: usize = 1024;
/// Kind of a reply that cannot be right.
pub(crate) const UNEXPECTED_REPLY: &str = "(unexpected-reply)";

thread_local! {
    static SHARD: Cell<usize> = const { Cell::new(0) };
}

/// Gives every thread that calls [`ShardNumbers::number_this_thread`] a shard of its own.
#[derive(Debug, Default)]
pub(crate) struct ShardNumbers {
    next: AtomicUsize,
}

impl ShardNumbers {
    pub(crate) fn number_this_thread(&self) {
        SHARD.set(self.next.fetch_add(1, Ordering::Relaxed));
    }
}

/// What came back for one request, or for one pipeline of several commands.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Answer {
    pub(crate) successes: u64,
    pub(crate) hits: u64,
    pub(crate) misses: u64,
    /// Error replies in the server's words.
    pub(crate) errors: Vec<String>,
}

impl Answer {
    pub(crate) fn success() -> Self {
        Self { successes: 1, ..Self::default() }
    }

    pub(crate) fn successes(successes: u64) -> Self {
        Self { successes, ..Self::default() }
    }

    pub(crate) fn error(message: String) -> Self {
        Self { errors: vec![message], ..Self::default() }
    }

    /// An answer to a read that found `hits` of `keys` values.
    pub(crate) fn read(hits: u64, keys: u64) -> Self {
        Self { successes: 1, hits, misses: keys - hits, errors: Vec::new() }
    }
}

/// When a request left and when its answer was there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    pub(crate) at: Instant,
    pub(crate) measured: bool,
}

/// Error replies of one kind.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct KindCount {
    pub(crate) count: u64,
    pub(crate) first_message: String,
}

/// One second of the measured part.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct SecondCount {
    pub(crate) count: u64,
    pub(crate) errors: u64,
    pub(crate) max_latency_micros: u64,
}

/// The sums of a run, or of one shard.
#[derive(Clone, Debug)]
pub(crate) struct Sums {
    pub(crate) count: u64,
    pub(crate) hits: u64,
    pub(crate) misses: u64,
    pub(crate) errors: u64,
    pub(crate) kinds: BTreeMap<String, KindCount>,
    pub(crate) latency: Histogram<u64>,
    pub(crate) seconds: Vec<SecondCount>,
    pub(crate) first_send: Option<Instant>,
    pub(crate) last_reply: Option<Instant>,
    /// Successes before the measured part.
    pub(crate) warmup_count: u64,
    /// Error replies before the measured part.
    pub(crate) warmup_errors: u64,
}

impl Sums {
    pub(crate) fn new() -> Result<Self, HistogramError> {
        Ok(Self {
            count: 0,
            hits: 0,
            misses: 0,
            errors: 0,
            kinds: BTreeMap::new(),
            latency: histogram::empty()?,
            seconds: Vec::new(),
            first_send: None,
            last_reply: None,
            warmup_count: 0,
            warmup_errors: 0,
        })
    }

    fn add(&mut self, sent: Instant, arrived: Instant, second: usize, answer: &Answer) {
        let micros = rounded_micros(arrived.saturating_duration_since(sent));
        let errors = answer.errors.len() as u64;
        self.count += answer.successes;
        self.hits += answer.hits;
        self.misses += answer.misses;
        self.errors += errors;
        for message in &answer.errors {
            self.add_error(message);
        }
        if self.seconds.len() <= second {
            self.seconds.resize(second + 1, SecondCount::default());
        }
        if let Some(cell) = self.seconds.get_mut(second) {
            cell.count += answer.successes;
            cell.errors += errors;
            if answer.successes > 0 {
                cell.max_latency_micros = cell.max_latency_micros.max(micros);
            }
        }
        if answer.successes > 0 {
            self.latency.saturating_record_n(micros, answer.successes);
        }
        self.first_send = earliest(self.first_send, Some(sent));
        self.last_reply = self.last_reply.max(Some(arrived));
    }

    fn add_error(&mut self, message: &str) {
        let kind = message.split_ascii_whitespace().next().unwrap_or_default();
        let kind = truncated(kind, MAXIMUM_KIND_BYTES);
        if let Some(known) = self.kinds.get_mut(kind) {
            known.count += 1;
            return;
        }
        let first_message = truncated(message, MAXIMUM_MESSAGE_BYTES).to_owned();
        self.add_kind(kind, &KindCount { count: 1, first_message });
    }

    fn add_kind(&mut self, kind: &str, added: &KindCount) {
        let full = self.kinds.len() >= MAXIMUM_KINDS && !self.kinds.contains_key(kind);
        let entry = self.kinds.entry(if full { OTHER_KINDS } else { kind }.to_owned()).or_default();
        if entry.count == 0 {
            entry.first_message.clone_from(&added.first_message);
        }
        entry.count += added.count;
    }

    fn merge(&mut self, other: &Self) -> Result<(), HistogramError> {
        self.count += other.count;
        self.hits += other.hits;
        self.misses += other.misses;
        self.errors += other.errors;
        self.warmup_count += other.warmup_count;
        self.warmup_errors += other.warmup_errors;
        for (kind, added) in &other.kinds {
            self.add_kind(kind, added);
        }
        if self.seconds.len() < other.seconds.len() {
            self.seconds.resize(other.seconds.len(), SecondCount::default());
        }
        for (total, second) in self.seconds.iter_mut().zip(&other.seconds) {
            total.count += second.count;
            total.errors += second.errors;
            total.max_latency_micros = total.max_latency_micros.max(second.max_latency_micros);
        }
        self.first_send = earliest(self.first_send, other.first_send);
        self.last_reply = self.last_reply.max(other.last_reply);
        self.latency.add(&other.latency).map_err(HistogramError::Merge)
    }
}

fn earliest(one: Option<Instant>, other: Option<Instant>) -> Option<Instant> {
    [one, other].into_iter().flatten().min()
}

fn truncated(text: &str, bytes: usize) -> &str {
    text.get(..text.floor_char_boundary(bytes.min(text.len()))).unwrap_or_default()
}

/// Nearest whole microsecond, and never 0.
fn rounded_micros(latency: Duration) -> u64 {
    let nanos = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
    (nanos.saturating_add(500) / 1000).max(1)
}

/// Shards lie on cache lines of their own.
#[derive(Debug)]
#[repr(align(128))]
struct Shard {
    /// Requests of the measured part that left.
    sent: AtomicU64,
    sums: Mutex<Sums>,
    progress: Arc<ProgressCounters>,
}

/// Everything the tasks of a run count.
#[derive(Debug)]
pub(crate) struct Counters {
    shards: Box<[Shard]>,
    /// Second 0 of the measured part begins here; nothing is measured before it is known.
    measured_from: OnceLock<Instant>,
    measured_from_known: Notify,
    /// Commands the server answered, by lower-case name, where the operation alone does not tell.
    commands: Mutex<BTreeMap<&'static str, u64>>,
}

impl Counters {
    /// Counters for `threads` runtime threads.
    pub(crate) fn new(threads: usize) -> Result<Self, HistogramError> {
        let shards = (0..threads.max(1))
            .map(|_| {
                let sums = Mutex::new(Sums::new()?);
                Ok(Shard { sent: AtomicU64::new(0), sums, progress: Arc::default() })
            })
            .collect::<Result<_, HistogramError>>()?;
        Ok(Self {
            shards,
            measured_from: OnceLock::new(),
            measured_from_known: Notify::new(),
            commands: Mutex::default(),
        })
    }

    /// Says when the measured part begins. Only the first call counts.
    pub(crate) fn measure_from(&self, instant: Instant) -> Instant {
        let first = *self.measured_from.get_or_init(|| instant);
        self.measured_from_known.notify_one();
        first
    }

    /// Waits until the measured part begins. One waiter at a time.
    pub(crate) async fn measuring(&self) {
        let begin = loop {
            match self.measured_from.get() {
                Some(begin) => break *begin,
                None => self.measured_from_known.notified().await,
            }
        };
        sleep_until(begin.into()).await;
    }

    /// Whether what leaves at `instant` is measured.
    pub(crate) fn is_measured(&self, instant: Instant) -> bool {
        self.measured_from.get().is_some_and(|begin| instant >= *begin)
    }

    /// Notes that the server answered `count` commands called `name`.
    pub(crate) fn note_commands(&self, name: &'static str, count: u64) {
        *self.commands.lock().unwrap_or_else(PoisonError::into_inner).entry(name).or_default() += count;
    }

    /// The commands noted so far.
    pub(crate) fn commands(&self) -> BTreeMap<String, u64> {
        let noted = self.commands.lock().unwrap_or_else(PoisonError::into_inner);
        noted.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
    }

    /// Counters that the progress lines read.
    pub(crate) fn progress(&self) -> Vec<Arc<ProgressCounters>> {
        self.shards.iter().map(|shard| Arc::clone(&shard.progress)).collect()
    }

    /// Answers so far, warm-up included: as long as it grows, the server answers.
    pub(crate) fn answers(&self) -> u64 {
        let of = |shard: &Shard| {
            shard.progress.operations.load(Ordering::Relaxed) + shard.progress.errors.load(Ordering::Relaxed)
        };
        self.shards.iter().map(of).sum()
    }

    /// Notes that `commands` leave now.
    pub(crate) fn note_sent(&self, commands: u64) -> Sent {
        let at = Instant::now();
        let measured = self.is_measured(at);
        if measured && let Some(shard) = self.shard() {
            shard.sent.fetch_add(commands, Ordering::Relaxed);
        }
        Sent { at, measured }
    }

    /// Notes the answer to what left as `sent`, and returns its instant.
    pub(crate) fn note_answer(&self, sent: Sent, answer: &Answer) -> Instant {
        let arrived = Instant::now();
        let Some(shard) = self.shard() else { return arrived };
        let errors = answer.errors.len() as u64;
        shard.progress.operations.fetch_add(answer.successes, Ordering::Relaxed);
        shard.progress.errors.fetch_add(errors, Ordering::Relaxed);
        let mut sums = shard.sums.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(begin) = self.measured_from.get().filter(|_| sent.measured) {
            let since = arrived.saturating_duration_since(*begin);
            let second = usize::try_from(since.as_secs()).unwrap_or(usize::MAX - 1);
            sums.add(sent.at, arrived, second, answer);
        } else {
            sums.warmup_count += answer.successes;
            sums.warmup_errors += errors;
        }
        arrived
    }

    /// Requests of the measured part that left, and the sums over all shards.
    pub(crate) fn sum(&self) -> Result<(u64, Sums), HistogramError> {
        let mut total = Sums::new()?;
        for shard in &self.shards {
            total.merge(&shard.sums.lock().unwrap_or_else(PoisonError::into_inner))?;
        }
        Ok((self.shards.iter().map(|shard| shard.sent.load(Ordering::Relaxed)).sum(), total))
    }

    fn shard(&self) -> Option<&Shard> {
        self.shards.get(SHARD.get() % self.shards.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_of_all_threads_add_up_and_the_warm_up_stays_out() {
        let counters = Arc::new(Counters::new(2).unwrap());
        assert!(!counters.note_sent(5).measured);
        counters.measure_from(Instant::now());
        let numbers = Arc::new(ShardNumbers::default());
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let (counters, numbers) = (Arc::clone(&counters), Arc::clone(&numbers));
                std::thread::spawn(move || {
                    numbers.number_this_thread();
                    for number in 0..100 {
                        let sent = counters.note_sent(1);
                        let answer = if number % 4 == 0 {
                            Answer::error("OOM no room".into())
                        } else {
                            Answer::read(1, 1)
                        };
                        counters.note_answer(sent, &answer);
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        let early = Sent { at: Instant::now(), measured: false };
        counters.note_answer(early, &Answer::successes(7));
        let (sent, sums) = counters.sum().unwrap();
        assert_eq!((sent, sums.count, sums.errors, sums.hits), (400, 300, 100, 300));
        assert_eq!((sums.latency.len(), sums.warmup_count), (300, 7));
        assert_eq!(sums.kinds["OOM"], KindCount { count: 100, first_message: "OOM no room".into() });
        assert_eq!(sums.seconds.iter().map(|second| second.count).sum::<u64>(), 300);
        assert_eq!(counters.answers(), 407);
    }

    #[test]
    fn kinds_of_error_are_bounded() {
        let mut sums = Sums::new().unwrap();
        for number in 0..1000 {
            sums.add_error(&format!("KIND{number} text"));
        }
        assert_eq!(sums.kinds.len(), MAXIMUM_KINDS + 1);
        assert_eq!(sums.kinds.values().map(|kind| kind.count).sum::<u64>(), 1000);
    }
}
