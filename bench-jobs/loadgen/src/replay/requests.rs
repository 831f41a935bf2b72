//! Encodes what BullMQ's `Queue.add` sends for a standard job: an EVALSHA of
//! `addStandardJob` with nine keys, a packed list, the job's data and its packed
//! options. Pure, apart from the clock that stamps the jobs.

use std::time::{SystemTime, UNIX_EPOCH};

use rand::RngExt as _;
use rand::rngs::SmallRng;
use rmp::encode::{ByteBuf, ValueWriteError, write_array_len, write_f64, write_nil, write_str};
use sha1::{Digest as _, Sha1};

use crate::replay::plan::{JOB_NAME, ReplayPlan};

/// BullMQ's script, unchanged.
pub(crate) const SCRIPT: &str = include_str!("bullmq/addStandardJob-9.lua");
/// Package and version of [`SCRIPT`].
pub(crate) const SCRIPT_ORIGIN: &str = "bullmq 6.7.0";
/// Keys of the script, in its order.
const KEYS: [&str; 9] = ["wait", "paused", "meta", "id", "completed", "delayed", "active", "events", "marker"];
