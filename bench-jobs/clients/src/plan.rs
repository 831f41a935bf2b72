//! The validated plan of a run through a client library. Pure.

use std::time::Duration;

use dragstrip_crds::workload::{BatchOperation, BatchSpec, Client, ConnectionKind, LibrarySpec};
use dragstrip_loadgen::configuration::{Configuration, Limit, SpecificationError, refuse_if};
use dragstrip_loadgen::specification::{Specification, Task};
use dragstrip_loadgen::workload::{whole_seconds, within};

/// Life of the items of a batch when none is declared.
const DEFAULT_LIFETIME: Duration = Duration::from_secs(300);

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Library {
    RedisRs(ConnectionKind),
    Fred,
    /// The `redis` crate behind a `bb8` pool: a connection serves one request at a time.
    Bb8Redis,
}

/// What a task sends, one request at a time.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum TaskOperation {
    /// INCR of a random key that only this task uses.
    Increment,
    Get,
    Set,
}

/// Tasks that each send one request after the other.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct TaskWork {
    pub operation: TaskOperation,
    pub tasks: usize,
    /// Whether a reply to INCR that is not the task's own count is an error.
    pub assert_expected: bool,
    /// When to stop; requests are counted over all tasks.
    pub limit: Limit,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct BatchWork {
    pub operation: BatchOperation,
    pub items: usize,
    pub batch_size: usize,
    pub parallelism: usize,
    pub key_bytes: usize,
    pub value_bytes: usize,
    /// Life of the items where they expire.
    pub lifetime: Duration,
    /// Length of the measured part.
    pub duration: Duration,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Work {
    Tasks(TaskWork),
    Batches(BatchWork),
}

impl Work {
    pub fn operation_name(self) -> &'static str {
        match self {
            Self::Tasks(work) => match work.operation {
                TaskOperation::Increment => "INCR",
                TaskOperation::Get => "GET",
                TaskOperation::Set => "SET",
            },
            Self::Batches(work) => match work.operation {
                BatchOperation::Mset => "MSET",
                BatchOperation::SetExpire => "SET",
                BatchOperation::MsetExpire => "MSET+EXPIREAT",
                BatchOperation::Mget => "MGET",
            },
        }
    }
}

/// The validated plan of a run through a client library. Server, keys, values and warm-up are
/// those of its [`Configuration`].
#[derive(Clone, Copy, Debug)]
pub struct LibraryPlan {
    pub library: Library,
    /// Connections, or clients with one connection each; requests take turns on them.
    pub pool_size: usize,
    pub work: Work,
}

pub fn read(
    specification: Specification,
    password: Option<String>,
) -> Result<(Configuration, LibraryPlan), SpecificationError> {
    let configuration = Configuration::new(specification, password)?;
    let load = configuration.load();
    let library = match load.client {
        Client::RedisRs => load.library.as_ref().map(|declared| Library::RedisRs(declared.connection_kind)),
        Client::Fred => Some(Library::Fred),
        Client::Bb8Redis => Some(Library::Bb8Redis),
        Client::Raw => None,
    };
    let (Some(library), Some(declared)) = (library, &load.library) else {
        let problem =
            "loadgen.client must be RedisRs, Fred or Bb8Redis, and loadgen.library must have its settings";
        return Err(problem.to_owned().into());
    };
    refuse_if(
        configuration.specification.task != Task::Load,
        "task must be Load: client libraries only send loads",
    )?;
    refuse_if(load.rate.is_some(), "loadgen.rate needs loadgen.client Raw")?;
    refuse_if(
        library == Library::Bb8Redis && configuration.server().cluster,
        "loadgen.client Bb8Redis cannot load a cluster: its pool holds connections to one server",
    )?;
    let work = match &load.batch {
        Some(batch) => Work::Batches(batch_work(batch, &configuration)?),
        None => Work::Tasks(task_work(declared, &configuration)?),
    };
    let pool_size = within("loadgen.library.poolSize", declared.pool_size.into(), 1..=10_000)?;
    Ok((configuration, LibraryPlan { library, pool_size, work }))
}

fn task_work(declared: &LibrarySpec, configuration: &Configuration) -> Result<TaskWork, SpecificationError> {
    let operation = match configuration.load().library_operation()? {
        "incr" => TaskOperation::Increment,
        "get" => TaskOperation::Get,
        _ => TaskOperation::Set,
    };
    let tasks = within("loadgen.library.tasks", declared.tasks.into(), 1..=1_000_000)?;
    let increments = operation == TaskOperation::Increment;
    if !increments {
        configuration.check_keys(tasks as u64)?;
    }
    refuse_if(
        declared.assert_expected && !increments,
        "loadgen.library.assertExpected needs the operation Incr",
    )?;
    refuse_if(
        configuration.load().replica_reads && operation != TaskOperation::Get,
        "loadgen.replicaReads needs reads: ratio 0:1, or the operation Get",
    )?;
    Ok(TaskWork { operation, tasks, assert_expected: declared.assert_expected, limit: configuration.limit })
}

fn batch_work(batch: &BatchSpec, configuration: &Configuration) -> Result<BatchWork, SpecificationError> {
    let Limit::Duration(duration) = configuration.limit else {
        return Err("loadgen.batch needs loadgen.duration".to_owned().into());
    };
    refuse_if(
        configuration.server().cluster,
        "loadgen.batch cannot load a cluster: one command cannot have keys of different slots",
    )?;
    let lifetime = batch
        .expiry
        .as_ref()
        .map_or(DEFAULT_LIFETIME, |expiry| Duration::from_secs(whole_seconds(expiry.duration())));
    Ok(BatchWork {
        operation: batch.operation,
        items: within("loadgen.batch.items", batch.items.into(), 1..=10_000_000)?,
        batch_size: within("loadgen.batch.batchSize", batch.batch_size.into(), 1..=1_000_000)?,
        parallelism: within("loadgen.batch.parallelism", batch.parallelism.into(), 1..=10_000)?,
        key_bytes: within("loadgen.batch.keySize", batch.key_size.into(), 1..=65_536)?,
        value_bytes: configuration.data_bytes[0],
        lifetime,
        duration,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(loadgen: &str, server: &str) -> Result<LibraryPlan, String> {
        let document = format!(r#"{{"server": {server}, "loadgen": {loadgen}}}"#);
        let specification = serde_json::from_str(&document).map_err(|error| error.to_string())?;
        read(specification, None).map(|(_, plan)| plan).map_err(|error| error.to_string())
    }

    #[test]
    fn the_example_is_a_plan() {
        let example = serde_json::from_str(include_str!("example.json")).unwrap();
        assert_eq!(read(example, None).unwrap().1.pool_size, 4);
    }

    #[test]
    fn freds_benchmark_is_understood() {
        let plan = plan(
            r#"{"client": "Fred", "operations": [{"operation": "Incr"}],
                "library": {"tasks": 10000, "poolSize": 15, "totalRequests": 10000000, "assertExpected": true}}"#,
            "{}",
        )
        .unwrap();
        assert_eq!((plan.library, plan.pool_size), (Library::Fred, 15));
        let Work::Tasks(work) = plan.work else { panic!("{plan:?}") };
        assert_eq!((work.tasks, work.operation), (10_000, TaskOperation::Increment));
        assert_eq!(work.limit, Limit::Requests(10_000_000));
        assert!(work.assert_expected);
    }

    #[test]
    fn criterions_batches_are_understood() {
        let plan = plan(
            r#"{"client": "RedisRs", "library": {"poolSize": 100}, "dataSize": 20, "duration": "5s",
                "batch": {"items": 100000, "batchSize": 1000, "parallelism": 8, "operation": "SetExpire", "expiry": "60s"}}"#,
            "{}",
        )
        .unwrap();
        assert_eq!(plan.pool_size, 100);
        let Work::Batches(work) = plan.work else { panic!("{plan:?}") };
        assert_eq!((work.operation, work.batch_size, work.parallelism), (BatchOperation::SetExpire, 1000, 8));
        assert_eq!((work.key_bytes, work.value_bytes, work.lifetime), (80, 20, Duration::from_secs(60)));
    }

    #[test]
    fn combinations_that_would_be_ignored_are_refused_by_name() {
        let batch = r#""batch": {"items": 5, "batchSize": 5, "operation": "Mset"}"#;
        for (loadgen, server, reason) in [
            (r#""ratio": "1:0""#, "{}", "loadgen.library must have its settings"),
            (r#""library": {}, "ratio": "1:0""#, "{}", "must be RedisRs, Fred or Bb8Redis"),
            (r#""client": "Fred", "library": {}, "ratio": "1:10""#, "{}", "ratio 1:10 mixes SET and GET"),
            (
                r#""client": "Fred", "library": {"assertExpected": true}, "ratio": "0:1""#,
                "{}",
                "assertExpected needs the operation Incr",
            ),
            (
                r#""client": "Bb8Redis", "library": {}, "ratio": "1:0""#,
                r#"{"cluster": true}"#,
                "Bb8Redis cannot load a cluster",
            ),
            (
                &format!(r#""client": "Fred", "library": {{}}, {batch}"#),
                r#"{"cluster": true}"#,
                "loadgen.batch cannot load a cluster",
            ),
            (
                r#""client": "Fred", "library": {}, "ratio": "1:0", "replicaReads": true"#,
                r#"{"cluster": true}"#,
                "loadgen.replicaReads needs reads",
            ),
            (
                r#""client": "Fred", "library": {"tasks": 10}, "ratio": "0:1", "keyPattern": "Sequential", "keyMaximum": 8"#,
                "{}",
                "cannot be divided over 10",
            ),
            (
                r#""client": "Fred", "library": {}, "operations": [{"operation": "Get", "keyPrefix": "a:"}]"#,
                "{}",
                "with the keys and sizes of the load",
            ),
            (
                &format!(r#""client": "Fred", "library": {{}}, "compressibility": "0.5", {batch}"#),
                "{}",
                "are for loadgen.client Raw",
            ),
        ] {
            let refusal = plan(&format!(r#"{{"duration": "5s", {loadgen}}}"#), server).unwrap_err();
            assert!(refusal.contains(reason), "{loadgen}: {refusal}");
        }
        let counted = format!(r#"{{"client": "Fred", "library": {{"totalRequests": 9}}, {batch}}}"#);
        assert!(plan(&counted, "{}").unwrap_err().contains("loadgen.batch needs loadgen.duration"));
        let endless = r#"{"client": "Fred", "library": {}, "ratio": "1:0"}"#;
        assert!(plan(endless, "{}").unwrap_err().contains("exactly one of"), "a run must have an end");
    }
}
