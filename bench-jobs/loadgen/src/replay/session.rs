//! What surrounds a replay: before it, BullMQ's script and the queues' settings
//! are put on the server; after it, the jobs waiting in the queues are counted.
//! It speaks through redis-rs, which finds its way in a cluster.

use redis::{RedisError, cmd};
use thiserror::Error;

use crate::configuration::{Configuration, host_and_port};
use crate::echo::echo;
use crate::exit;
use crate::libraries::error::LibraryError;
use crate::libraries::loss::LossWatch;
use crate::libraries::plan::{ConnectionKind, Library};
use crate::libraries::redis_client::{Dialer, RedisLink};
use crate::replay::plan::{QueueReport, ReplayPlan};
use crate::replay::requests::{QUEUE_META, SCRIPT, script_sha};
use crate::report::{Failure, FailureKind, Report, RunStatus};
use crate::run;

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
    report.configuration.replay = Some(plan.echo());
    match waiting_jobs(&mut link, &plan).await {
        Ok(found) => {
            let expected = before + jobs_added(&report);
            judge(&mut report, QueueReport { expected, found });
        }
        Err(error) if report.status == RunStatus::Completed => fail(&mut report, error.failure(&settings)),
        // The run has failed already, and says why.
        Err(_) => {}
    }
    report
}

async fn set_up(configuration: &Configuration, plan: &ReplayPlan) -> Result<(RedisLink, u64), SessionError> {
    let dialer = Dialer::new(configuration)?;
    let mut link = dialer.connect(ConnectionKind::Multiplexed, &LossWatch::new()).await?;
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

/// Jobs that the server said it added, in the warm-up too.
fn jobs_added(report: &Report) -> u64 {
    let answered: u64 = report.commands.values().sum();
    let warmup_errors = report.warmup.as_ref().map_or(0, |warmup| warmup.errors);
    answered.saturating_sub(report.totals.errors + warmup_errors)
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
        let echo = &report.configuration;
        let address = echo.unix_socket.clone().unwrap_or_else(|| host_and_port(&echo.host, echo.port));
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
        configuration: echo(configuration, &[]),
        ..Report::default()
    };
    report.configuration.replay = Some(plan.echo());
    fail(&mut report, failure);
    report
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Totals, WarmupReport};

    fn completed() -> Report {
        Report {
            status: RunStatus::Completed,
            commands: [("evalsha".to_owned(), 12)].into(),
            totals: Totals { count: 7, errors: 2, ..Totals::default() },
            warmup: Some(WarmupReport { errors: 1, ..WarmupReport::default() }),
            ..Report::default()
        }
    }

    #[test]
    fn a_replay_whose_jobs_are_not_in_the_queues_fails() {
        let mut good = completed();
        assert_eq!(jobs_added(&good), 9);
        judge(&mut good, QueueReport { expected: 10, found: 10 });
        assert_eq!(good.status, RunStatus::Completed);
        let mut short = completed();
        judge(&mut short, QueueReport { expected: 10, found: 9 });
        let failure = short.failure.unwrap();
        assert_eq!((short.status, short.exit_code), (RunStatus::Failed, exit::QUEUE_LENGTH));
        assert!(failure.message.contains("9 jobs wait in the queues, 10 were expected"), "{failure:?}");
    }
}
