//! The command line of the BullMQ replay.

use std::num::NonZeroU16;

use clap::Args;
use thiserror::Error;

use crate::workload::replay::plan::ReplayPlan;

const DEFAULT_PREFIX: &str = "bull";
const DEFAULT_QUEUE_NAME: &str = "{queue%d}";
/// Data of a job when no size is given: that of the published BullMQ benchmark.
const DEFAULT_DATA: &str = r#"{"param1":"value1","param2":"value2"}"#;
/// Longest data of a job.
const MAXIMUM_PAYLOAD_BYTES: u32 = 64 * 1024 * 1024;

/// Options of `--bullmq-add`.
#[allow(clippy::struct_field_names)] // the names of the options
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "BullMQ replay")]
pub struct ReplayArguments {
    /// Add jobs to BullMQ queues: every request is the EVALSHA of a real BullMQ Queue.add, and
    /// the jobs waiting in the queues are counted afterwards. Other clients must leave the
    /// queues alone meanwhile.
    #[arg(long, conflicts_with_all = ["ratio", "operation", "expiry_range", "verify_keys"])]
    bullmq_add: bool,
    /// Number of queues; each job goes to a random one, and in a cluster to a random one of
    /// the connection's shard [default: 1].
    #[arg(long, value_name = "N", requires = "bullmq_add")]
    bullmq_queues: Option<NonZeroU16>,
    /// BullMQ's key prefix [default: bull].
    #[arg(long, value_name = "PREFIX", requires = "bullmq_add")]
    bullmq_prefix: Option<String>,
    /// Name of the queues; %d is the number of the queue, from 0 [default: {queue%d}].
    #[arg(long, value_name = "TEMPLATE", requires = "bullmq_add")]
    bullmq_queue_name: Option<String>,
    /// Data of a job: a text of so many bytes [default: {"param1":"value1","param2":"value2"}].
    #[arg(long, value_name = "N", requires = "bullmq_add", value_parser = clap::value_parser!(u32).range(..=i64::from(MAXIMUM_PAYLOAD_BYTES)))]
    bullmq_payload_bytes: Option<u32>,
}

/// The queues cannot be named as wanted.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
pub enum ReplayArgumentError {
    /// Several queues would have one name.
    #[error(
        "--bullmq-queue-name {template:?} names all queues alike; put %d, the number of the queue, into it"
    )]
    SameNames {
        /// The template.
        template: String,
    },
    /// BullMQ refuses such a name.
    #[error("--bullmq-queue-name {template:?} {problem}")]
    Name {
        /// The template.
        template: String,
        /// What is wrong.
        problem: &'static str,
    },
    /// The keys of a queue would be in different slots.
    #[error(
        "in a cluster all keys of a queue must have one slot: put a {{hashtag}} into \
         --bullmq-queue-name, such as {{queue%d}}"
    )]
    NoHashtag,
}

impl ReplayArguments {
    /// Whether a replay is wanted.
    pub fn is_wanted(&self) -> bool {
        self.bullmq_add
    }

    /// The plan, or none without `--bullmq-add`.
    pub fn plan(&self) -> Result<Option<ReplayPlan>, ReplayArgumentError> {
        if !self.bullmq_add {
            return Ok(None);
        }
        let template = self.bullmq_queue_name.as_deref().unwrap_or(DEFAULT_QUEUE_NAME);
        let count = self.bullmq_queues.map_or(1, NonZeroU16::get);
        let refused = |problem| Err(ReplayArgumentError::Name { template: template.into(), problem });
        if template.is_empty() {
            return refused("is empty");
        }
        if template.contains(':') {
            return refused("holds a colon, which BullMQ refuses");
        }
        if count > 1 && !template.contains("%d") {
            return Err(ReplayArgumentError::SameNames { template: template.into() });
        }
        Ok(Some(ReplayPlan {
            prefix: self.bullmq_prefix.clone().unwrap_or_else(|| DEFAULT_PREFIX.into()),
            queues: (0..count).map(|number| template.replace("%d", &number.to_string())).collect(),
            data: self.bullmq_payload_bytes.map_or_else(|| DEFAULT_DATA.into(), text_of),
        }))
    }
}

/// JSON of a text of so many bytes.
fn text_of(bytes: u32) -> String {
    format!("\"{}\"", "x".repeat(bytes as usize))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        replay: ReplayArguments,
        #[arg(long)]
        ratio: Option<String>,
        #[arg(long)]
        expiry_range: Option<String>,
        #[arg(long)]
        operation: Option<String>,
        #[arg(long)]
        verify_keys: bool,
        #[arg(long)]
        cluster: bool,
    }

    fn plan(words: &str) -> Result<Option<ReplayPlan>, String> {
        let words = std::iter::once("loadgen").chain(words.split_whitespace());
        let line = Line::try_parse_from(words).map_err(|error| error.to_string())?;
        line.replay.plan().map_err(|error| error.to_string())
    }

    #[test]
    fn the_published_queues_are_named() {
        let plan = plan("--bullmq-add --bullmq-queues 2 --bullmq-prefix b").unwrap().unwrap();
        assert_eq!(plan.wait_keys(), ["b:{queue0}:wait", "b:{queue1}:wait"]);
        assert_eq!(plan.data, DEFAULT_DATA);
        assert_eq!(super::tests::plan("").unwrap(), None);
        let sized = super::tests::plan("--bullmq-add --bullmq-payload-bytes 3").unwrap().unwrap();
        assert_eq!((sized.data.as_str(), sized.prefix.as_str()), ("\"xxx\"", "bull"));
    }

    #[test]
    fn unusable_queues_are_refused() {
        for (words, reason) in [
            ("--bullmq-queues 2", "--bullmq-add"),
            ("--bullmq-add --ratio 1:0", "cannot be used with"),
            ("--bullmq-add --bullmq-queues 2 --bullmq-queue-name q", "put %d"),
            ("--bullmq-add --bullmq-queue-name a:b", "holds a colon"),
            ("--bullmq-add --bullmq-payload-bytes 99999999", "99999999 is not in"),
        ] {
            let refusal = plan(words).unwrap_err();
            assert!(refusal.contains(reason), "{words}: {refusal}");
        }
    }
}
