//! What surrounds a replay: before it, BullMQ's script and the queues' settings
//! are put on the server; after it, the jobs waiting in the queues are counted.
//! It speaks through redis-rs, which finds its way in a cluster.

use redis::{RedisError, cmd};
use thiserror::Error;

use crate::configuration::Configuration;
use crate::exit;
use crate::libraries::error::LibraryError;
use crate::libraries::plan::{ConnectionKind, Library};
use crate::libraries::redis_client::{Dialer, RedisLink};
use crate::libraries::transport::Transport;
use crate::replay::plan::{QueueReport, ReplayPlan};
use crate::replay::requests::{QUEUE_META, SCRIPT, script_sha};
use crate::report::{Failure, FailureKind, Report, RunStatus};
use crate::run;

/// Name of the operation in the report.
const OPERATION: &str = "ADD";
/// What the raw client takes it for: a request that is answered with a value.
const CARRIER: &str = "GET";

/// What surrounds the replay failed.
#[derive(Debug, Error)]
enum SessionError {
    #[error(transparent)]
    Connect(#[from] LibraryError),
    #[error("cannot load BullMQ's script: {0}")]
    LoadScript(#[source] RedisError),
    #[error("the server calls BullMQ's script {found}, not {expected}")]
    NameScript { found: String, expected: String },
    #[error("cannot set up queue {queue}: {source}")]
    SetUpQueue { queue: String, source: RedisError },
    #[error("cannot count the jobs in {key}: {source}")]
    CountJobs { key: String, source: RedisError },
}

impl SessionError {
    fn failure(&self, configuration: &Configuration) -> Failure {
        let address = configuration.target();
        let (kind, step) = match self {
            Self::Connect(error) => {
                return error.failure(Library::RedisRs(ConnectionKind::Multiplexed), &address);
            }
            Self::LoadScript(_) | Self::NameScript { .. } => (FailureKind::Handshake, "load the script"),
            Self::SetUpQueue { .. } => (FailureKind::Handshake, "set up the queues"),
            Self::CountJobs { .. } => (FailureKind::Handshake, "count the jobs"),
        };
        Failure { kind, step: step.into(), message: format!("{address}: {self}"), address }
    }
}

/// Adds jobs as `plan` says and counts them. Whatever happens, the report says
/// how it ended and what was done until then.
pub async fn run(configuration: Configuration, plan: ReplayPlan) -> Report {
    let settings = configuration.clone();
    let (mut link, before) = match set_up(&settings, &plan).await {
        Ok(ready) => ready,
        Err(error) => return not_started(&settings, &plan, error.failure(&settings)),
    };
    let mut report = run::run(configuration).await;
    name_operation(&mut report);
    report.configuration.replay = Some(plan.echo());
    report.commands.insert("evalsha".into(), report.totals.count + report.totals.errors);
    match waiting_jobs(&mut link, &plan).await {
        Ok(found) => {
            let expected = before + report.totals.count;
            judge(&mut report, QueueReport { expected, found });
        }
        Err(error) if report.status == RunStatus::Completed => fail(&mut report, error.failure(&settings)),
        // The run has failed already, and says why.
        Err(_) => {}
    }
    report
}

async fn set_up(configuration: &Configuration, plan: &ReplayPlan) -> Result<(RedisLink, u64), SessionError> {
    let dialer = Dialer::new(configuration, &Transport::default())?;
    let mut link = dialer.connect(ConnectionKind::Multiplexed).await?;
    let load = cmd("SCRIPT").arg("LOAD").arg(SCRIPT).to_owned();
    let found: String = link.query(&load).await.map_err(SessionError::LoadScript)?;
    let expected = script_sha();
    if found != expected {
        return Err(SessionError::NameScript { found, expected });
    }
    for queue in &plan.queues {
        let mut command = cmd("HSET");
        command.arg(format!("{}meta", plan.key_prefix(queue)));
        for (field, value) in QUEUE_META {
            command.arg(field).arg(value);
        }
        let _: i64 = link
            .query(&command)
            .await
            .map_err(|source| SessionError::SetUpQueue { queue: queue.clone(), source })?;
    }
    let before = waiting_jobs(&mut link, plan).await?;
    Ok((link, before))
}

async fn waiting_jobs(link: &mut RedisLink, plan: &ReplayPlan) -> Result<u64, SessionError> {
    let mut sum = 0;
    for key in plan.wait_keys() {
        let length: Result<u64, RedisError> = link.query(cmd("LLEN").arg(&key)).await;
        sum += length.map_err(|source| SessionError::CountJobs { key, source })?;
    }
    Ok(sum)
}

/// The raw client took the jobs for requests that are answered with a value.
fn name_operation(report: &mut Report) {
    let renamed = |name: &mut String| {
        if name == CARRIER {
            OPERATION.clone_into(name);
        }
    };
    for operation in &mut report.operations {
        renamed(&mut operation.operation);
        (operation.hits, operation.misses) = (0, 0);
    }
    report.errors.iter_mut().for_each(|error| renamed(&mut error.operation));
    let seconds = report.per_second.iter_mut().flat_map(|second| &mut second.operations);
    seconds.for_each(|operation| renamed(&mut operation.operation));
}

/// A run that did all its work must leave exactly its jobs.
fn judge(report: &mut Report, queues: QueueReport) {
    report.queues = Some(queues);
    if report.status == RunStatus::Completed && queues.found != queues.expected {
        let QueueReport { expected, found } = queues;
        let message = format!(
            "{found} jobs wait in the queues, {expected} were expected: {} lost or taken by others",
            i128::from(expected) - i128::from(found)
        );
        let address = format!("{}:{}", report.configuration.host, report.configuration.port);
        let step = "count the jobs".into();
        fail(report, Failure { kind: FailureKind::QueueLength, step, address, message });
    }
}

fn fail(report: &mut Report, failure: Failure) {
    report.status = RunStatus::Failed;
    report.exit_code = exit::of_failure(&failure);
    report.failure = Some(failure);
}

fn not_started(configuration: &Configuration, plan: &ReplayPlan, failure: Failure) -> Report {
    let mut report = Report {
        tool: env!("CARGO_PKG_NAME").into(),
        version: env!("CARGO_PKG_VERSION").into(),
        configuration: crate::assemble::echo(configuration, &[]),
        ..Report::default()
    };
    report.configuration.replay = Some(plan.echo());
    fail(&mut report, failure);
    report
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{OperationReport, Totals};

    fn completed(count: u64) -> Report {
        let operation =
            OperationReport { operation: CARRIER.into(), count, hits: count, ..Default::default() };
        let mut report =
            Report { status: RunStatus::Completed, operations: vec![operation], ..Report::default() };
        report.totals = Totals { count, ..Totals::default() };
        name_operation(&mut report);
        report
    }

    #[test]
    fn a_replay_whose_jobs_are_not_in_the_queues_fails() {
        let mut good = completed(7);
        judge(&mut good, QueueReport { expected: 10, found: 10 });
        assert_eq!((good.status, good.operation("ADD").unwrap().hits), (RunStatus::Completed, 0));
        let mut short = completed(7);
        judge(&mut short, QueueReport { expected: 10, found: 9 });
        let failure = short.failure.unwrap();
        assert_eq!((short.status, short.exit_code), (RunStatus::Failed, exit::QUEUE_LENGTH));
        assert!(failure.message.contains("9 jobs wait in the queues, 10 were expected"), "{failure:?}");
    }
}
