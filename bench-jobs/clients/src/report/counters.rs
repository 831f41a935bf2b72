//! What the tasks of a run count.
//!
//! Every runtime thread has a shard of its own, so that tasks on different
//! threads never wait for each other; the shards are added up at the end.
//! Counters, histograms and bounded error text only.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use crate::clients::request::Answer;
use dragstrip_loadgen::counts::recorder::{Origin, Recorder, Tally};
use dragstrip_loadgen::driver::{Detail, ProgressCounters};
use dragstrip_loadgen::workload::{Found, OperationIndex};
use dragstrip_results::histogram::HistogramError;
use tokio::sync::Notify;
use tokio::time::sleep_until;

const MAXIMUM_MESSAGE_BYTES: usize = 1024;
const ONLY: OperationIndex = OperationIndex(0);

thread_local! {
    static SHARD: Cell<usize> = const { Cell::new(0) };
}

/// Gives the calling thread a shard of its own.
pub(crate) fn number_this_thread() {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    SHARD.set(NEXT.fetch_add(1, Ordering::Relaxed));
}

/// Shards lie on cache lines of their own.
#[derive(Debug)]
#[repr(align(128))]
struct Shard {
    /// Requests of the measured part that left.
    sent: AtomicU64,
    recorder: Mutex<Recorder>,
    progress: Arc<ProgressCounters>,
}

impl Shard {
    fn lock(&self) -> MutexGuard<'_, Recorder> {
        self.recorder.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The recorder, once nothing more is to come.
    fn finished(&self) -> MutexGuard<'_, Recorder> {
        let mut recorder = self.lock();
        if let Some(record) = recorder.operations.first_mut() {
            record.requests = self.sent.load(Ordering::Relaxed);
        }
        recorder.finish();
        recorder
    }
}

fn truncated(text: &str) -> &str {
    text.get(..text.floor_char_boundary(MAXIMUM_MESSAGE_BYTES.min(text.len()))).unwrap_or_default()
}

#[derive(Debug)]
pub(crate) struct Counters {
    shards: Box<[Shard]>,
    /// Second 0 of the measured part begins here; nothing is measured before it is set.
    measured_from: OnceLock<Instant>,
    measured_from_set: Notify,
    /// Commands the server answered, by lower-case name, where the operation alone does not determine them.
    commands: Mutex<BTreeMap<&'static str, u64>>,
}

impl Counters {
    pub(crate) fn new(threads: usize) -> Result<Self, HistogramError> {
        let shards = (0..threads.max(1))
            .map(|_| {
                let recorder = Mutex::new(Recorder::new(1, Instant::now())?);
                Ok(Shard { sent: AtomicU64::new(0), recorder, progress: Arc::default() })
            })
            .collect::<Result<_, HistogramError>>()?;
        Ok(Self {
            shards,
            measured_from: OnceLock::new(),
            measured_from_set: Notify::new(),
            commands: Mutex::default(),
        })
    }

    /// Says when the measured part begins. Only the first call counts.
    pub(crate) fn measure_from(&self, instant: Instant) -> Instant {
        let first = *self.measured_from.get_or_init(|| {
            for shard in &self.shards {
                shard.lock().set_origin(instant);
            }
            instant
        });
        self.measured_from_set.notify_one();
        first
    }

    /// Waits until the measured part begins. One waiter at a time.
    pub(crate) async fn measuring(&self) {
        let begin = loop {
            match self.measured_from.get() {
                Some(begin) => break *begin,
                None => self.measured_from_set.notified().await,
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

    pub(crate) fn commands(&self) -> BTreeMap<String, u64> {
        let noted = self.commands.lock().unwrap_or_else(PoisonError::into_inner);
        noted.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
    }

    /// Counters that the progress lines read.
    pub(crate) fn progress(&self) -> Vec<Arc<ProgressCounters>> {
        self.shards.iter().map(|shard| Arc::clone(&shard.progress)).collect()
    }

    /// Shows the progress lines what was counted until now, over so many connections.
    pub(crate) fn publish_detail(&self, connections: usize) {
        for (number, shard) in self.shards.iter().enumerate() {
            let (bytes, latency) = shard.lock().so_far();
            // The connections belong to no thread: they are reported once.
            let connections = if number == 0 { connections as u64 } else { 0 };
            shard.progress.publish(Detail { bytes, connections, latency });
        }
    }

    /// Answers so far, warm-up included: as long as it grows, the server answers.
    pub(crate) fn answers(&self) -> u64 {
        let of = |shard: &Shard| {
            shard.progress.operations.load(Ordering::Relaxed) + shard.progress.errors.load(Ordering::Relaxed)
        };
        self.shards.iter().map(of).sum()
    }

    pub(crate) fn note_sent(&self, commands: u64) -> Origin {
        let instant = Instant::now();
        let measured = self.is_measured(instant);
        if measured && let Some(shard) = self.shard() {
            shard.sent.fetch_add(commands, Ordering::Relaxed);
        }
        Origin { instant, measured }
    }

    /// Notes the answer to what left at `origin`, and returns its instant.
    pub(crate) fn note_answer(&self, origin: Origin, answer: &Answer) -> Instant {
        let arrived = Instant::now();
        let Some(shard) = self.shard() else { return arrived };
        let errors = answer.errors.len() as u64;
        shard.progress.operations.fetch_add(answer.successes, Ordering::Relaxed);
        shard.progress.errors.fetch_add(errors, Ordering::Relaxed);
        let found = Found { hits: answer.hits, misses: answer.misses };
        let tally = Tally { count: answer.successes, found, errors, bytes: 0 };
        let mut recorder = shard.lock();
        recorder.record(ONLY, tally, origin, arrived);
        if origin.measured {
            if recorder.first_send.is_none_or(|first| origin.instant < first) {
                recorder.note_first_send(origin.instant);
            }
            for message in &answer.errors {
                recorder.note_error(ONLY, truncated(message).as_bytes());
            }
        }
        arrived
    }

    /// What every thread recorded. Nothing more may be noted.
    pub(crate) fn recorders(&self) -> Vec<MutexGuard<'_, Recorder>> {
        self.shards.iter().map(Shard::finished).collect()
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
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let counters = Arc::clone(&counters);
                std::thread::spawn(move || {
                    number_this_thread();
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
        let early = Origin { instant: Instant::now(), measured: false };
        counters.note_answer(early, &Answer::successes(7));
        assert_eq!(counters.answers(), 407);
        let recorders = counters.recorders();
        let sum = |count: fn(&Recorder) -> u64| recorders.iter().map(|recorder| count(recorder)).sum::<u64>();
        assert_eq!(sum(|recorder| recorder.operations[0].requests), 400);
        assert_eq!(sum(|recorder| recorder.operations[0].answered()), 407);
    }
}
