//! The validated description of a run through a client library.

use std::num::NonZeroU64;
use std::time::Duration;

use clap::ValueEnum;
use dragstrip_loadgen::counts::report::LibraryEcho;

/// Values of `--client`.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub enum ClientName {
    /// The `redis` crate.
    RedisRs,
    /// The `fred` crate.
    Fred,
    /// The `redis` crate behind a `bb8` pool: a connection serves one request at a time.
    Bb8Redis,
}

/// Values of `--connection-kind`.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, ValueEnum)]
pub enum ConnectionKind {
    /// `MultiplexedConnection`: concurrent requests share a connection.
    #[default]
    Multiplexed,
    /// `ConnectionManager`: a multiplexed connection that reconnects.
    ConnectionManager,
}

/// A client library and how it is used.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Library {
    /// The `redis` crate.
    RedisRs(ConnectionKind),
    /// The `fred` crate.
    Fred,
    /// The `redis` crate behind a `bb8` pool.
    Bb8Redis,
}

impl Library {
    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::RedisRs(_) => "redis-rs",
            Self::Fred => "fred",
            Self::Bb8Redis => "bb8-redis",
        }
    }
}

/// Values of `--library-operation`.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, ValueEnum)]
pub enum OperationName {
    /// INCR of a random 15-character key that each task keeps to itself.
    #[default]
    Incr,
    /// GET of a key of the key space.
    Get,
    /// SET of a key of the key space.
    Set,
    /// Batches: one MSET for each chunk.
    Mset,
    /// Batches: a pipeline of SET key value EXAT instant for each chunk.
    SetExpire,
    /// Batches: a pipeline of one MSET and an EXPIREAT for every key for each chunk.
    MsetExpire,
    /// Batches: one MGET for each chunk; the keys are written once before.
    Mget,
    /// Batches: a pipeline of PINGs for each chunk.
    Ping,
}

/// What a task sends, one request at a time.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum TaskOperation {
    /// INCR of the task's own key.
    Increment,
    /// GET of the key space.
    Get,
    /// SET of the key space.
    Set,
}

/// What is sent for each chunk of a batch.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum BatchOperation {
    /// MSET.
    MultiSet,
    /// A pipeline of SETs with EXAT.
    SetExpire,
    /// A pipeline of MSET and EXPIREATs.
    MultiSetExpire,
    /// MGET.
    MultiGet,
    /// A pipeline of PINGs.
    Ping,
}

/// When the tasks are done.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum TaskLimit {
    /// After this many requests of all tasks together, drawn from one counter.
    TotalRequests(NonZeroU64),
    /// After this time; requests in flight are awaited.
    Duration(Duration),
}

/// Tasks that each send one request after the other.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct TaskWork {
    /// What is sent.
    pub operation: TaskOperation,
    /// Number of tasks.
    pub tasks: usize,
    /// Most requests in flight over all tasks.
    pub bounded: Option<usize>,
    /// Whether a reply to INCR that is not the task's own count is an error.
    pub assert_expected: bool,
    /// When to stop.
    pub limit: TaskLimit,
}

/// Batches, one after the other.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct BatchWork {
    /// What is sent for each chunk.
    pub operation: BatchOperation,
    /// Items of a batch.
    pub items: usize,
    /// Items of a chunk.
    pub batch_size: usize,
    /// Chunks in flight.
    pub parallelism: usize,
    /// Bytes of a key.
    pub key_bytes: usize,
    /// Bytes of a value.
    pub value_bytes: usize,
    /// Life of the items where they expire.
    pub ttl: Duration,
    /// Length of the measured part.
    pub duration: Duration,
}

/// What is done.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Work {
    /// Tasks with single requests.
    Tasks(TaskWork),
    /// Batches as in a Criterion bench.
    Batches(BatchWork),
}

/// The validated description of a run through a client library. Server, keys,
/// values and warm-up are those of the [`dragstrip_loadgen::configuration::Configuration`]
/// it is part of.
#[derive(Clone, Debug)]
pub struct LibraryPlan {
    /// Which library.
    pub library: Library,
    /// Connections, or clients with one connection each; requests take turns on them.
    pub pool_size: usize,
    /// What is done.
    pub work: Work,
}

impl Work {
    /// Name of the operation in the report.
    pub fn operation_name(self) -> &'static str {
        match self {
            Self::Tasks(work) => match work.operation {
                TaskOperation::Increment => "INCR",
                TaskOperation::Get => "GET",
                TaskOperation::Set => "SET",
            },
            Self::Batches(work) => match work.operation {
                BatchOperation::MultiSet => "MSET",
                BatchOperation::SetExpire => "SET",
                BatchOperation::MultiSetExpire => "MSET+EXPIREAT",
                BatchOperation::MultiGet => "MGET",
                BatchOperation::Ping => "PING",
            },
        }
    }
}

impl LibraryPlan {
    /// The plan in the notation of the command line.
    pub fn echo(&self) -> LibraryEcho {
        let mut echo = LibraryEcho {
            client: self.library.name().into(),
            connection_kind: match self.library {
                Library::RedisRs(ConnectionKind::Multiplexed) => Some("multiplexed".into()),
                Library::RedisRs(ConnectionKind::ConnectionManager) => Some("connection-manager".into()),
                Library::Fred | Library::Bb8Redis => None,
            },
            operation: self.work.operation_name().into(),
            pool_size: self.pool_size,
            ..LibraryEcho::default()
        };
        match self.work {
            Work::Tasks(work) => {
                (echo.tasks, echo.bounded) = (Some(work.tasks), work.bounded);
                echo.assert_expected = work.assert_expected;
                if let TaskLimit::TotalRequests(total) = work.limit {
                    echo.total_requests = Some(total.get());
                }
            }
            Work::Batches(work) => {
                echo.parallelism = Some(work.parallelism);
                echo.key_bytes = Some(work.key_bytes);
                echo.ttl_seconds = Some(work.ttl.as_secs_f64());
            }
        }
        echo
    }
}
