//! Tasks that send one request after the other, as fred's own benchmark does.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use bytes::Bytes;
use rand::distr::{Alphanumeric, SampleString as _};
use rand::rngs::SmallRng;

use crate::clients::error::LibraryError;
use crate::clients::link::Link;
use crate::clients::request::{Answer, Reply, Request};
use crate::plan::{TaskOperation, TaskWork};
use crate::report::counters::Counters;
use dragstrip_loadgen::configuration::{Configuration, Limit};
use dragstrip_loadgen::counts::UNEXPECTED_REPLY;
use dragstrip_loadgen::workload::keys::{KeyError, KeyPicker, Share};
use dragstrip_loadgen::workload::streams::{Purpose, stream};

/// Length of a task's own key, the same as in fred's benchmark.
const OWN_KEY_CHARACTERS: usize = 15;

#[derive(Debug)]
pub(crate) struct SharedWork {
    pub(crate) work: TaskWork,
    pub(crate) counters: Arc<Counters>,
    /// Requests of the measured part taken so far, for a limit of requests.
    pub(crate) taken: AtomicU64,
    /// Set to end every task after its current request.
    pub(crate) stop: Arc<AtomicBool>,
}

impl SharedWork {
    /// Whether there is one more request to send; `now` is when the last reply came.
    fn next_request(&self, now: Instant, measured_from: Instant) -> bool {
        if self.stop.load(Ordering::Relaxed) {
            return false;
        }
        match self.work.limit {
            Limit::Requests(_) if now < measured_from => true,
            Limit::Requests(total) => self.taken.fetch_add(1, Ordering::Relaxed) < total,
            Limit::Duration(duration) => now < measured_from + duration,
            Limit::AllKeys => false,
        }
    }
}

pub(crate) struct LoadTask {
    shared: Arc<SharedWork>,
    link: Link,
    /// The key of the current request: the task's own, or a prefix and a drawn number.
    key: String,
    prefix_bytes: usize,
    /// None of a task with a key of its own.
    picker: Option<KeyPicker>,
    value: Bytes,
    random: SmallRng,
    /// Replies to INCR so far.
    counted: Option<i64>,
}

impl LoadTask {
    pub(crate) fn new(
        configuration: &Configuration,
        shared: Arc<SharedWork>,
        link: Link,
        value: Bytes,
        index: usize,
    ) -> Result<Self, KeyError> {
        let mut random = stream(configuration.seed, configuration.crowd, Purpose::Requests, index as u64);
        let (key, picker) = if shared.work.operation == TaskOperation::Increment {
            (Alphanumeric.sample_string(&mut random, OWN_KEY_CHARACTERS), None)
        } else {
            let share = Share { index: index as u64, connections: shared.work.tasks as u64 };
            (configuration.keys.prefix.clone(), Some(KeyPicker::new(&configuration.keys, share)?))
        };
        Ok(Self { shared, link, prefix_bytes: key.len(), key, picker, value, random, counted: None })
    }

    pub(crate) async fn run(mut self, measured_from: Instant) -> Result<(), LibraryError> {
        let shared = Arc::clone(&self.shared);
        let mut now = Instant::now();
        while shared.next_request(now, measured_from) {
            now = self.one_request(&shared).await?;
        }
        Ok(())
    }

    async fn one_request(&mut self, shared: &SharedWork) -> Result<Instant, LibraryError> {
        if let Some(picker) = &mut self.picker {
            self.key.truncate(self.prefix_bytes);
            self.key.push_str(&picker.next(&mut self.random).to_string());
        }
        let key = self.key.as_str();
        let request = match shared.work.operation {
            TaskOperation::Increment => Request::Increment { key },
            TaskOperation::Get => Request::Get { key },
            TaskOperation::Set => Request::Set { key, value: self.value.clone() },
        };
        let sent = shared.counters.note_sent(1);
        let reply = self.link.request(request).await?;
        let answer = judged(shared.work, reply, &mut self.counted);
        Ok(shared.counters.note_answer(sent, &answer))
    }
}

/// What a reply counts as. `counted` follows the replies to INCR; the first one is the
/// number to start from, since an earlier load may have written the key.
fn judged(work: TaskWork, reply: Reply, counted: &mut Option<i64>) -> Answer {
    match (work.operation, reply) {
        (_, Reply::Error(message)) => Answer::error(message),
        (TaskOperation::Increment, Reply::Number(number)) => {
            // One foreign INCR makes one wrong reply, not all later ones wrong.
            let expected = counted.replace(number).map_or(number, |counted| counted.wrapping_add(1));
            if work.assert_expected && number != expected {
                let message = format!("{UNEXPECTED_REPLY} INCR answered {number}, expected {expected}");
                return Answer::error(message);
            }
            Answer::successes(1)
        }
        (TaskOperation::Get, Reply::Found(found)) => Answer::read(u64::from(found), 1),
        (TaskOperation::Set, Reply::Done) => Answer::successes(1),
        (_, reply) => Answer::error(format!("{UNEXPECTED_REPLY} {reply:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn work(limit: Limit, assert_expected: bool) -> TaskWork {
        TaskWork { operation: TaskOperation::Increment, tasks: 1, assert_expected, limit }
    }

    #[test]
    fn a_wrong_count_is_one_error_and_only_on_request() {
        let (mut strict, mut lax) = (None, None);
        let replies = [1, 2, 4, 5, 5];
        let errors = |assert, counted: &mut Option<i64>| -> usize {
            let judge = |number| {
                judged(work(Limit::Requests(3), assert), Reply::Number(number), counted).errors.len()
            };
            replies.into_iter().map(judge).sum()
        };
        assert_eq!(errors(true, &mut strict), 2);
        assert_eq!(errors(false, &mut lax), 0);
        let wrong_type = judged(work(Limit::Requests(3), false), Reply::Done, &mut lax);
        assert!(wrong_type.errors[0].starts_with(UNEXPECTED_REPLY), "{wrong_type:?}");
    }

    #[test]
    fn a_key_that_an_earlier_load_counted_goes_on_from_there() {
        let mut counted = None;
        let judge =
            |number| judged(work(Limit::Requests(3), true), Reply::Number(number), &mut counted).errors.len();
        assert_eq!([8166, 8167, 8168, 8170].map(judge), [0, 0, 0, 1]);
    }

    #[test]
    fn limits_hold_and_the_warm_up_takes_nothing_from_them() {
        let begin = Instant::now();
        let shared = |limit| SharedWork {
            work: work(limit, false),
            counters: Arc::new(Counters::new(1).unwrap()),
            taken: AtomicU64::new(0),
            stop: Arc::default(),
        };
        let by_count = shared(Limit::Requests(3));
        let early = begin.checked_sub(Duration::from_secs(1)).unwrap();
        assert!((0..10).all(|_| by_count.next_request(early, begin)));
        assert_eq!((0..10).filter(|_| by_count.next_request(begin, begin)).count(), 3);
        let by_time = shared(Limit::Duration(Duration::from_secs(2)));
        assert!(by_time.next_request(begin + Duration::from_millis(1999), begin));
        assert!(!by_time.next_request(begin + Duration::from_secs(2), begin));
        by_time.stop.store(true, Ordering::Relaxed);
        assert!(!by_time.next_request(begin, begin));
    }
}
