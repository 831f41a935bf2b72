//! Batches, one after the other, each timed as a Criterion iteration: all items
//! in chunks, a bounded number of chunks in flight.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use rand::Rng as _;
use rand::distr::{Alphanumeric, SampleString as _};
use rand::rngs::SmallRng;

use crate::clients::error::LibraryError;
use crate::clients::link::{Link, Prepared};
use crate::clients::request::{Chunk, Item};
use crate::plan::BatchWork;
use crate::report::batch_statistics::BatchShape;
use crate::report::counters::Counters;
use dragstrip_crds::workload::BatchOperation;

/// Random alphanumeric keys and random bytes as values.
pub(crate) fn items(work: BatchWork, mut random: SmallRng) -> Vec<Item> {
    let mut item = || {
        let key = Alphanumeric.sample_string(&mut random, work.key_bytes);
        let mut value = vec![0; work.value_bytes];
        random.fill_bytes(&mut value);
        Item { key, value: Bytes::from(value) }
    };
    (0..work.items).map(|_| item()).collect()
}

/// What the report has about the batches besides their times.
pub(crate) fn shape(work: BatchWork) -> BatchShape {
    BatchShape {
        items: work.items as u64,
        batch_size: work.batch_size.min(work.items) as u64,
        bytes_per_item: (work.key_bytes + work.value_bytes) as u64,
    }
}

pub(crate) struct BatchLoader {
    pub(crate) work: BatchWork,
    pub(crate) items: Arc<[Item]>,
    pub(crate) links: Vec<Link>,
    pub(crate) counters: Arc<Counters>,
    /// Set to end after the current batch.
    pub(crate) stop: Arc<AtomicBool>,
    /// Turns on the links so far.
    pub(crate) turns: usize,
}

impl BatchLoader {
    /// Sends batches for `warmup`, then for the measured time, and returns the
    /// times of the measured ones. At least one batch is measured.
    pub(crate) async fn run(&mut self, warmup: Duration) -> Result<Vec<Duration>, LibraryError> {
        let begin = Instant::now();
        while begin.elapsed() < warmup && !self.stopped() {
            self.batch(self.work.operation).await?;
        }
        let measured_from = self.counters.measure_from(Instant::now());
        let mut times = Vec::new();
        while !self.stopped() && (times.is_empty() || measured_from.elapsed() < self.work.duration) {
            let started = Instant::now();
            self.batch(self.work.operation).await?;
            times.push(started.elapsed());
        }
        Ok(times)
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// One batch. As in the published bench, the chunks of a batch are all
    /// prepared before the first is sent; the time for it belongs to the batch.
    pub(crate) async fn batch(&mut self, operation: BatchOperation) -> Result<(), LibraryError> {
        let items = Arc::clone(&self.items);
        let expires_at = unix_seconds_after(self.work.lifetime);
        let mut sends = Vec::with_capacity(items.len().div_ceil(self.work.batch_size));
        let links = self.links.iter().cycle().skip(self.turns % self.links.len().max(1));
        for (chunk, link) in items.chunks(self.work.batch_size).zip(links) {
            let ready = link.prepare(Chunk { operation, items: chunk, expires_at });
            sends.push(send(&self.counters, link.clone(), ready));
        }
        self.turns += sends.len();
        stream::iter(sends).buffer_unordered(self.work.parallelism).try_collect().await
    }
}

async fn send(counters: &Counters, mut link: Link, ready: Prepared<'_>) -> Result<(), LibraryError> {
    let chunk = ready.chunk;
    let sent = counters.note_sent(chunk.operations());
    let answer = link.send(ready).await?;
    counters.note_answer(sent, &answer);
    for (name, count) in chunk.commands() {
        counters.note_commands(name, count);
    }
    Ok(())
}

fn unix_seconds_after(lifetime: Duration) -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from((now + lifetime).as_secs()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng as _;

    #[test]
    fn items_have_their_sizes_and_differ() {
        let work = BatchWork {
            operation: BatchOperation::Mset,
            items: 500,
            batch_size: 1000,
            parallelism: 1,
            key_bytes: 80,
            value_bytes: 20,
            lifetime: Duration::from_secs(1),
            duration: Duration::from_secs(1),
        };
        let made = items(work, SmallRng::seed_from_u64(3));
        assert!(made.iter().all(|item| item.key.len() == 80 && item.value.len() == 20));
        let keys: std::collections::BTreeSet<_> = made.iter().map(|item| &item.key).collect();
        assert_eq!(keys.len(), 500);
        assert_eq!(shape(work), BatchShape { items: 500, batch_size: 500, bytes_per_item: 100 });
    }
}
