//! The command line, and how it becomes a [`Configuration`] and a
//! [`LibraryPlan`]. Every combination that a library cannot do, or that would
//! be ignored, is refused by name.

use std::num::{NonZeroU16, NonZeroU32, NonZeroU64};
use std::time::Duration;

use clap::{ArgGroup, Parser};
use dragstrip_loadgen::cli::{ArgumentError, CommonArguments, check_keys, positive_duration};
use dragstrip_loadgen::configuration::{Configuration, Limit};
use dragstrip_loadgen::counts::exit;
use jiff::SignedDuration;
use thiserror::Error;

use crate::plan::{
    BatchOperation, BatchWork, ClientName, ConnectionKind, Library, LibraryPlan, OperationName, TaskLimit,
    TaskOperation, TaskWork, Work,
};

/// Tasks when --tasks is not given; the same as in fred's own benchmark.
const DEFAULT_TASKS: u32 = 100;
const DEFAULT_BATCH_SIZE: u32 = 10_000;
const DEFAULT_BATCH_KEY_BYTES: u32 = 80;
const DEFAULT_BATCH_TTL: Duration = Duration::from_secs(300);

/// Loads a RESP datastore through a client library and measures it.
///
/// The library runs on a multi-threaded runtime with --threads workers. The password
/// is taken from --password-file or from the environment variable `DRAGSTRIP_PASSWORD`.
#[derive(Debug, Parser)]
#[command(name = "dragstrip-clients", version, after_long_help = exit::HELP)]
#[command(group(ArgGroup::new("limit").required(true).args(["total_requests", "duration"])))]
pub struct Arguments {
    /// Server, keys, values and course of the run.
    #[command(flatten)]
    common: CommonArguments,
    /// Length of the measured part, such as 10s or 1m30s; requests in flight are awaited.
    #[arg(long, value_parser = positive_duration)]
    duration: Option<Duration>,
    /// The library.
    #[arg(long, value_enum)]
    client: ClientName,
    /// What it sends [default: incr]; get and set use --key-* and --data-size, the
    /// operations on batches need --batch-items.
    #[arg(long, value_enum)]
    library_operation: Option<OperationName>,
    /// Tokio tasks, each with one request in flight [default: 100].
    #[arg(long)]
    tasks: Option<NonZeroU32>,
    /// Connections (redis-rs, bb8-redis) or clients with one connection (fred); tasks and chunks
    /// take turns on them [default: 1].
    #[arg(long)]
    pool_size: Option<NonZeroU16>,
    /// Kind of redis-rs connections [default: multiplexed].
    #[arg(long, value_enum)]
    connection_kind: Option<ConnectionKind>,
    /// Requests of all tasks together, taken from one counter (fred's -n).
    #[arg(long, value_name = "N")]
    total_requests: Option<NonZeroU64>,
    /// Replies to INCR must count up by one for each task's own key, from the first
    /// reply on; others are errors.
    #[arg(long)]
    assert_expected: bool,
    /// Write the requests of concurrent tasks together. Changes nothing where it is accepted:
    /// fred 10 and redis-rs connections always do so and have no switch; bb8-redis cannot.
    #[arg(long)]
    auto_pipeline: bool,
    /// Most requests in flight over all tasks; the wait for a turn is not part of the latency.
    #[arg(long, value_name = "N")]
    bounded: Option<NonZeroU32>,
    /// Send batches of this many items, one after the other, and time each as Criterion does.
    #[arg(long, value_name = "N")]
    batch_items: Option<NonZeroU32>,
    /// Items of one MSET, MGET or pipeline, a chunk of the batch [default: 10000].
    #[arg(long, value_name = "N", requires = "batch_items")]
    batch_size: Option<NonZeroU32>,
    /// Chunks of a batch in flight [default: 1].
    #[arg(long, value_name = "N", requires = "batch_items")]
    parallelism: Option<NonZeroU16>,
    /// Bytes of the random alphanumeric keys of a batch; --data-size is that of its random values [default: 80].
    #[arg(long, value_name = "BYTES", requires = "batch_items")]
    batch_key_size: Option<NonZeroU32>,
    /// Life of the items of set-expire and mset-expire [default: 300s].
    #[arg(long, value_name = "DURATION", requires = "batch_items", value_parser = whole_seconds)]
    batch_ttl: Option<Duration>,
}

fn whole_seconds(text: &str) -> Result<Duration, String> {
    let parsed: SignedDuration = text.parse().map_err(|error: jiff::Error| error.to_string())?;
    match Duration::try_from(parsed) {
        Ok(duration) if duration.as_secs() > 0 && duration.subsec_nanos() == 0 => Ok(duration),
        _ => Err("must be whole seconds above 0".into()),
    }
}

/// Options do not fit together.
#[derive(Debug, Error)]
pub enum LibraryArgumentError {
    /// The options that every program has are not usable.
    #[error(transparent)]
    Common(#[from] ArgumentError),
    /// The library cannot do it.
    #[error("--client {client} cannot do --{option}: {reason}")]
    NotSupported {
        /// The library.
        client: &'static str,
        /// The option.
        option: &'static str,
        /// Why not.
        reason: &'static str,
    },
    /// Batches without an operation on them.
    #[error(
        "--batch-items needs --library-operation mset, set-expire, mset-expire, mget or ping, and these need it"
    )]
    BatchOperation,
    /// Batches are bounded by time.
    #[error("--batch-items needs --duration, the length of the measured part")]
    BatchDuration,
    /// Two options contradict each other.
    #[error("--{option} cannot be used with --{other}")]
    Conflict {
        /// One.
        option: &'static str,
        /// The other.
        other: &'static str,
    },
    /// Only INCR has an expected reply.
    #[error("--assert-expected needs --library-operation incr")]
    AssertOperation,
    /// Only reads go to replicas.
    #[error("--replica-reads needs --library-operation get")]
    ReplicaOperation,
}

use LibraryArgumentError::{Conflict, NotSupported};

impl Arguments {
    /// What these arguments and the environment describe.
    pub fn into_plan(self) -> Result<(Configuration, LibraryPlan), LibraryArgumentError> {
        let kind = self.connection_kind.unwrap_or_default();
        let library = match self.client {
            ClientName::RedisRs => Library::RedisRs(kind),
            ClientName::Fred => Library::Fred,
            ClientName::Bb8Redis => Library::Bb8Redis,
        };
        let work = self.work()?;
        self.check_abilities(library)?;
        let pool_size = self.pool_size.map_or(1, |size| usize::from(size.get()));
        let limit = match (self.total_requests, self.duration) {
            (Some(total), _) => Limit::Requests(total),
            (None, duration) => Limit::Duration(duration.unwrap_or_default()),
        };
        let configuration = self.common.configuration(limit)?;
        check_transport(library, &configuration)?;
        check_work(work, &configuration)?;
        if let Work::Tasks(TaskWork { operation: TaskOperation::Get | TaskOperation::Set, tasks, .. }) = work
        {
            check_keys(&configuration, tasks as u64)?;
        }
        Ok((configuration, LibraryPlan { library, pool_size, work }))
    }

    fn check_abilities(&self, library: Library) -> Result<(), LibraryArgumentError> {
        let client = library.name();
        if self.connection_kind.is_some() && !matches!(library, Library::RedisRs(_)) {
            let reason = "only redis-rs has several kinds of connection";
            return Err(NotSupported { client, option: "connection-kind", reason });
        }
        if self.auto_pipeline && library == Library::Bb8Redis {
            let reason = "a connection of the pool serves one request at a time";
            return Err(NotSupported { client, option: "auto-pipeline", reason });
        }
        Ok(())
    }

    fn work(&self) -> Result<Work, LibraryArgumentError> {
        let tasks = |operation| self.task_work(operation).map(Work::Tasks);
        let batches = |operation| self.batch_work(operation).map(Work::Batches);
        match self.library_operation.unwrap_or_default() {
            OperationName::Incr => tasks(TaskOperation::Increment),
            OperationName::Get => tasks(TaskOperation::Get),
            OperationName::Set => tasks(TaskOperation::Set),
            OperationName::Mset => batches(BatchOperation::MultiSet),
            OperationName::SetExpire => batches(BatchOperation::SetExpire),
            OperationName::MsetExpire => batches(BatchOperation::MultiSetExpire),
            OperationName::Mget => batches(BatchOperation::MultiGet),
            OperationName::Ping => batches(BatchOperation::Ping),
        }
    }

    fn task_work(&self, operation: TaskOperation) -> Result<TaskWork, LibraryArgumentError> {
        if self.batch_items.is_some() {
            return Err(LibraryArgumentError::BatchOperation);
        }
        if self.assert_expected && operation != TaskOperation::Increment {
            return Err(LibraryArgumentError::AssertOperation);
        }
        let limit = match (self.total_requests, self.duration) {
            (Some(total), _) => TaskLimit::TotalRequests(total),
            // The parser demands one of them.
            (None, duration) => TaskLimit::Duration(duration.unwrap_or_default()),
        };
        Ok(TaskWork {
            operation,
            tasks: self.tasks.map_or(DEFAULT_TASKS, NonZeroU32::get) as usize,
            bounded: self.bounded.map(|bound| bound.get() as usize),
            assert_expected: self.assert_expected,
            limit,
        })
    }

    fn batch_work(&self, operation: BatchOperation) -> Result<BatchWork, LibraryArgumentError> {
        let items = self.batch_items.ok_or(LibraryArgumentError::BatchOperation)?.get();
        let duration = self.duration.ok_or(LibraryArgumentError::BatchDuration)?;
        let of_tasks = [
            ("tasks", self.tasks.is_some()),
            ("bounded", self.bounded.is_some()),
            ("assert-expected", self.assert_expected),
        ];
        if let Some((option, _)) = of_tasks.into_iter().find(|(_, given)| *given) {
            return Err(Conflict { option, other: "batch-items" });
        }
        let number = |option: Option<NonZeroU32>, default| option.map_or(default, NonZeroU32::get) as usize;
        Ok(BatchWork {
            operation,
            items: items as usize,
            batch_size: number(self.batch_size, DEFAULT_BATCH_SIZE),
            parallelism: self.parallelism.map_or(1, |chunks| usize::from(chunks.get())),
            key_bytes: number(self.batch_key_size, DEFAULT_BATCH_KEY_BYTES),
            value_bytes: usize::try_from(self.common.data_size).unwrap_or(usize::MAX),
            ttl: self.batch_ttl.unwrap_or(DEFAULT_BATCH_TTL),
            duration,
        })
    }
}

fn check_transport(library: Library, configuration: &Configuration) -> Result<(), LibraryArgumentError> {
    let client = library.name();
    if configuration.cluster && library == Library::Bb8Redis {
        let reason = "its pool holds connections to one server";
        return Err(NotSupported { client, option: "cluster", reason });
    }
    if configuration.cluster && library == Library::RedisRs(ConnectionKind::ConnectionManager) {
        let reason = "redis-rs has a connection of its own for clusters; leave --connection-kind out";
        return Err(NotSupported {
            client,
            option: "connection-kind connection-manager with --cluster",
            reason,
        });
    }
    let Some(tls) = &configuration.tls else { return Ok(()) };
    if tls.server_name.is_some() && library != Library::Fred {
        let reason = "the certificate must bear the name given as --host";
        return Err(NotSupported { client, option: "tls-server-name", reason });
    }
    Ok(())
}

fn check_work(work: Work, configuration: &Configuration) -> Result<(), LibraryArgumentError> {
    match work {
        // Items of a chunk fall into different slots, which one command cannot span.
        Work::Batches(_) if configuration.cluster => {
            Err(Conflict { option: "batch-items", other: "cluster" })
        }
        Work::Tasks(tasks) if configuration.replica_reads && tasks.operation != TaskOperation::Get => {
            Err(LibraryArgumentError::ReplicaOperation)
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(words: &str) -> Result<LibraryPlan, String> {
        let words = std::iter::once("clients").chain(words.split_whitespace());
        let arguments = Arguments::try_parse_from(words).map_err(|error| error.to_string())?;
        arguments.into_plan().map(|(_, plan)| plan).map_err(|error| error.to_string())
    }

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory as _;
        Arguments::command().debug_assert();
    }

    #[test]
    fn freds_benchmark_is_understood() {
        let words = "--client fred --tasks 10000 --pool-size 15 --total-requests 10000000 --assert-expected --auto-pipeline";
        let plan = plan(words).unwrap();
        assert_eq!((plan.library, plan.pool_size), (Library::Fred, 15));
        let Work::Tasks(work) = plan.work else { panic!("{plan:?}") };
        assert_eq!((work.tasks, work.operation), (10_000, TaskOperation::Increment));
        assert_eq!(work.limit, TaskLimit::TotalRequests(NonZeroU64::new(10_000_000).unwrap()));
        assert!(work.assert_expected);
    }

    #[test]
    fn criterions_batches_are_understood() {
        let words = "--client redis-rs --pool-size 100 --library-operation set-expire --batch-items 100000 \
            --batch-size 1000 --parallelism 8 --batch-ttl 60s --data-size 20 --duration 5s";
        let plan = plan(words).unwrap();
        assert_eq!(plan.pool_size, 100);
        let Work::Batches(work) = plan.work else { panic!("{plan:?}") };
        assert_eq!((work.operation, work.batch_size, work.parallelism), (BatchOperation::SetExpire, 1000, 8));
        assert_eq!((work.key_bytes, work.value_bytes, work.ttl), (80, 20, Duration::from_secs(60)));
    }

    #[test]
    fn combinations_that_would_be_ignored_are_refused_by_name() {
        for (words, reason) in [
            ("--tasks 5", "--client"),
            ("--client fred --pipeline 2", "--pipeline"),
            ("--client fred --connection-kind multiplexed", "cannot do --connection-kind"),
            ("--client bb8-redis --auto-pipeline", "one request at a time"),
            ("--client fred --library-operation mset", "--batch-items needs --library-operation"),
            ("--client fred --batch-items 5", "--batch-items needs --library-operation"),
            ("--client fred --batch-size 5", "--batch-items"),
            ("--client fred --library-operation mset --batch-items 5 --tasks 3", "--tasks cannot be used"),
            ("--client fred --library-operation get --assert-expected", "needs --library-operation incr"),
            ("--client redis-rs --batch-ttl 1500ms", "whole seconds"),
            ("--client bb8-redis --cluster", "cannot do --cluster"),
            ("--client fred --library-operation mset --batch-items 5 --cluster", "used with --cluster"),
            ("--client fred --cluster --replica-reads", "needs --library-operation get"),
            ("--client redis-rs --tls --tls-server-name name", "cannot do --tls-server-name"),
            (
                "--client fred --library-operation get --key-pattern sequential --key-maximum 8 --tasks 10",
                "cannot be divided over 10",
            ),
        ] {
            let refusal = plan(&format!("{words} --duration 5s")).unwrap_err();
            assert!(refusal.contains(reason), "{words}: {refusal}");
        }
        plan("--client fred --tls --tls-server-name name --duration 5s").unwrap();
        let refusal =
            plan("--client fred --library-operation mset --batch-items 5 --total-requests 9").unwrap_err();
        assert!(refusal.contains("needs --duration"), "{refusal}");
        assert!(plan("--client fred").unwrap_err().contains("--total-requests"), "a run must have an end");
    }
}
