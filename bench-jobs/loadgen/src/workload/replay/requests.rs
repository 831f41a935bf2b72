//! Encodes what BullMQ's `Queue.add` sends for a standard job: an EVALSHA of
//! `addStandardJob` with nine keys, a packed list, the job's data and its packed
//! options. Byte for byte what a real add of BullMQ 6.7.0 was seen to send.

use std::fmt::Write as _;
use std::time::{SystemTime, UNIX_EPOCH};

use rand::rngs::SmallRng;
use rand::seq::IndexedRandom as _;
use rmp::encode::{ValueWriteError, write_array_len, write_f64, write_nil, write_str};
use sha1::{Digest as _, Sha1};
use thiserror::Error;

use crate::wire::slots::slot_of;
use crate::workload::replay::plan::{JOB_NAME, ReplayPlan};

/// BullMQ's script, unchanged, as build.rs takes it from the npm package.
pub(crate) const SCRIPT: &str = include_str!(concat!(env!("OUT_DIR"), "/addStandardJob-9.lua"));
/// Package and version of [`SCRIPT`].
pub(crate) const SCRIPT_ORIGIN: &str = concat!("bullmq ", env!("BULLMQ_VERSION"));
/// What BullMQ's `Queue` writes into its meta hash when it is made.
pub(crate) const QUEUE_META: [(&str, &str); 2] =
    [("opts.maxLenEvents", "10000"), ("version", concat!("bullmq:", env!("BULLMQ_VERSION")))];
/// Keys of the script, in its order.
const KEYS: [&str; 9] =
    ["wait", "paused", "meta", "id", "completed", "delayed", "active", "events", "marker"];
/// Options of a job without any: a map of one entry, in the wide form that BullMQ's packer writes.
const PACKED_OPTIONS: &[u8] = b"\xde\x00\x01\xa8attempts\x00";
/// Members of the packed list after the timestamp, all nil: parents, repetition, deduplication.
const NILS: usize = 6;
/// Members of the packed list.
const LIST_MEMBERS: u32 = 10;

/// The requests cannot be encoded.
#[derive(Debug, Error)]
pub enum ReplayEncodeError {
    /// The packed list could not be written.
    #[error("cannot pack the arguments of a job: {0}")]
    Pack(#[from] ValueWriteError),
}

/// Name by which the server knows the script.
pub(crate) fn script_sha() -> String {
    let mut text = String::new();
    for byte in Sha1::digest(SCRIPT.as_bytes()) {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// The call that adds a job to one queue; only its timestamp changes.
#[derive(Clone, Debug, Eq, PartialEq)]
struct JobRequest {
    /// Slot of the queue's keys.
    slot: usize,
    before_timestamp: Vec<u8>,
    after_timestamp: Vec<u8>,
}

/// The calls that add jobs, one for each queue.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct JobRequests {
    of_queues: Vec<JobRequest>,
}

impl JobRequests {
    pub(crate) fn new(plan: &ReplayPlan) -> Result<Self, ReplayEncodeError> {
        let sha = script_sha();
        let of_queues =
            plan.queues.iter().map(|queue| JobRequest::new(plan, queue, &sha)).collect::<Result<_, _>>()?;
        Ok(Self { of_queues })
    }

    /// Appends a call that adds a job to a random queue, and returns the slot of
    /// the queue's keys; none without a queue.
    #[inline]
    pub(crate) fn write(&self, buffer: &mut Vec<u8>, random: &mut SmallRng) -> Option<usize> {
        let request = self.of_queues.choose(random)?;
        request.write(buffer, unix_millis());
        Some(request.slot)
    }
}

impl JobRequest {
    fn new(plan: &ReplayPlan, queue: &str, sha: &str) -> Result<Self, ReplayEncodeError> {
        let prefix = plan.key_prefix(queue);
        let (mut packed, mut packed_after) = (Vec::new(), Vec::new());
        write_array_len(&mut packed, LIST_MEMBERS)?;
        for text in [&prefix, "", JOB_NAME] {
            write_str(&mut packed, text)?;
        }
        write_f64(&mut packed, 0.0)?;
        // The bytes of the number itself are written with each job.
        packed.truncate(packed.len() - size_of::<f64>());
        for _ in 0..NILS {
            write_nil(&mut packed_after).map_err(ValueWriteError::InvalidMarkerWrite)?;
        }
        let list_bytes = packed.len() + size_of::<f64>() + packed_after.len();
        let mut before = format!("*{}\r\n", 3 + KEYS.len() + 3).into_bytes();
        for word in ["evalsha", sha, "9"] {
            write_argument(&mut before, word.as_bytes());
        }
        for key in KEYS {
            write_argument(&mut before, format!("{prefix}{key}").as_bytes());
        }
        before.extend_from_slice(format!("${list_bytes}\r\n").as_bytes());
        before.extend_from_slice(&packed);
        let mut after = packed_after;
        after.extend_from_slice(b"\r\n");
        write_argument(&mut after, plan.data.as_bytes());
        write_argument(&mut after, PACKED_OPTIONS);
        let slot = slot_of(prefix.as_bytes());
        Ok(Self { slot, before_timestamp: before, after_timestamp: after })
    }

    #[inline]
    fn write(&self, buffer: &mut Vec<u8>, unix_millis: f64) {
        buffer.extend_from_slice(&self.before_timestamp);
        buffer.extend_from_slice(&unix_millis.to_be_bytes());
        buffer.extend_from_slice(&self.after_timestamp);
    }
}

fn write_argument(buffer: &mut Vec<u8>, argument: &[u8]) {
    buffer.extend_from_slice(format!("${}\r\n", argument.len()).as_bytes());
    buffer.extend_from_slice(argument);
    buffer.extend_from_slice(b"\r\n");
}

/// JavaScript's `Date.now()`: whole milliseconds, as the number BullMQ packs.
fn unix_millis() -> f64 {
    (SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64() * 1000.0).trunc()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng as _;

    fn plan(queues: &[&str]) -> ReplayPlan {
        ReplayPlan {
            prefix: "b".into(),
            queues: queues.iter().map(|&queue| queue.into()).collect(),
            data: r#"{"param1":"value1","param2":"value2"}"#.into(),
        }
    }

    /// Recorded with MONITOR from `new Queue('{queue0}', {prefix: 'b'}).add('test',
    /// {param1: 'value1', param2: 'value2'})` of bullmq 6.7.0 with ioredis 6.0.0.
    #[test]
    fn a_job_is_added_with_the_very_bytes_of_a_real_add() {
        let recorded: [&[u8]; 15] = [
            b"evalsha",
            b"5ab432e88830d573e2fa33392ffbd4ad25a9b100",
            b"9",
            b"b:{queue0}:wait",
            b"b:{queue0}:paused",
            b"b:{queue0}:meta",
            b"b:{queue0}:id",
            b"b:{queue0}:completed",
            b"b:{queue0}:delayed",
            b"b:{queue0}:active",
            b"b:{queue0}:events",
            b"b:{queue0}:marker",
            b"\x9a\xabb:{queue0}:\xa0\xa4test\xcbBz\x1f\xed\xe6\x15\x80\x00\xc0\xc0\xc0\xc0\xc0\xc0",
            b"{\"param1\":\"value1\",\"param2\":\"value2\"}",
            b"\xde\x00\x01\xa8attempts\x00",
        ];
        let mut wanted = b"*15\r\n".to_vec();
        for argument in recorded {
            write_argument(&mut wanted, argument);
        }
        let request = JobRequest::new(&plan(&["{queue0}"]), "{queue0}", &script_sha()).unwrap();
        let mut written = Vec::new();
        request.write(&mut written, 1_795_277_349_208.0);
        assert_eq!(written.escape_ascii().to_string(), wanted.escape_ascii().to_string());
    }

    #[test]
    fn long_prefixes_are_packed_in_their_longer_form() {
        let long = "q".repeat(300);
        let request = JobRequest::new(&plan(&[&long]), &long, &script_sha()).unwrap();
        let text = request.before_timestamp.escape_ascii().to_string();
        assert!(text.contains("\\x9a\\xda\\x01/b:qqq"), "303 bytes take a 16-bit length: {text}");
    }

    #[test]
    fn jobs_go_to_all_queues() {
        let requests = JobRequests::new(&plan(&["{queue0}", "{queue1}"])).unwrap();
        let mut random = SmallRng::seed_from_u64(1);
        let mut buffer = Vec::new();
        (0..100).for_each(|_| assert!(requests.write(&mut buffer, &mut random).is_some()));
        let text = String::from_utf8_lossy(&buffer);
        let jobs = |queue: &str| text.matches(&format!("b:{{{queue}}}:wait")).count();
        assert_eq!(jobs("queue0") + jobs("queue1"), 100);
        assert!(jobs("queue0") > 25 && jobs("queue1") > 25, "{}", jobs("queue0"));
    }
}
