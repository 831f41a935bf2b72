//! What surrounds a replay of BullMQ: before it, BullMQ's script and the queues'
//! settings are put on the server; after it, the jobs waiting in the queues are
//! counted. Opens connections of its own for that.

use dragstrip_results::result::Presence;
use redis::Value;
use thiserror::Error;

use crate::configuration::{Configuration, host_and_port};
use crate::counts::echo::echo;
use crate::counts::exit;
use crate::counts::report::{Failure, FailureKind, Report, RunStatus};
use crate::driver::run;
use crate::wire::cluster::{self, ClusterError};
use crate::wire::connect::{self, ConnectError, HandshakeStep};
use crate::wire::exchange::encode_command;
use crate::wire::slots::{SlotMap, slot_of};
use crate::wire::stream::LoadStream;
use crate::wire::tls::{TlsClient, TlsError};
use crate::workload::replay::plan::ReplayPlan;
use crate::workload::replay::requests::{QUEUE_META, SCRIPT, script_sha};

/// What surrounds the replay failed.
#[derive(Debug, Error)]
enum SessionError {
    #[error("cannot set up TLS: {0}")]
    SetUpTls(#[from] TlsError),
    #[error(transparent)]
    Route(#[from] ClusterError),
    #[error(transparent)]
    Ask(#[from] ConnectError),
    #[error("cannot {} with {address}: no node has the key {key}", step.name())]
    FindNode { step: HandshakeStep, address: String, key: String },
    #[error("cannot {} with {address}: the answer has another form", step.name())]
    Form { step: HandshakeStep, address: String },
    #[error("{address} calls BullMQ's script {found}, not {expected}")]
    NameScript { address: String, found: String, expected: String },
}

impl SessionError {
    fn failure(&self, configuration: &Configuration) -> Failure {
        let (kind, step, address) = match self {
            Self::SetUpTls(_) => (FailureKind::Client, "set up TLS", configuration.target()),
            Self::Route(error) => return error.failure(),
            Self::Ask(error) => return error.failure(),
            Self::FindNode { step, address, .. } | Self::Form { step, address } => {
                (FailureKind::Handshake, step.name(), address.clone())
            }
            Self::NameScript { address, .. } => {
                (FailureKind::Handshake, HandshakeStep::LoadScript.name(), address.clone())
            }
        };
        Failure { kind, step: step.into(), message: self.to_string(), address }
    }
}

/// A connection to the server, or to each shard of a cluster.
struct Session<'a> {
    configuration: &'a Configuration,
    nodes: Vec<(LoadStream, String)>,
    slots: Option<SlotMap>,
}

impl<'a> Session<'a> {
    async fn open(configuration: &'a Configuration) -> Result<Self, SessionError> {
        let security = configuration.tls.as_ref().map(TlsClient::new).transpose()?;
        let routes = cluster::find(configuration, security.as_ref()).await?;
        let mut nodes = Vec::with_capacity(routes.nodes.len());
        for node in &routes.nodes {
            let (stream, address) = connect::establish(configuration, security.as_ref(), node).await?;
            nodes.push((stream, address.to_string()));
        }
        // One node takes each shard's load: a replay writes, so replicas take none.
        let slots = routes.cluster.then(|| SlotMap::new(routes.shards.iter().map(|shard| &shard.slots)));
        Ok(Self { configuration, nodes, slots })
    }

    /// Asks the node that has `key`.
    async fn ask_about(
        &mut self,
        step: HandshakeStep,
        key: &str,
        words: &[&str],
    ) -> Result<(Value, String), SessionError> {
        let place = self.slots.as_ref().map_or(Some(0), |slots| slots.shard_of(slot_of(key.as_bytes())));
        let Some(node) = place.and_then(|place| self.nodes.get_mut(place)) else {
            let address = self.configuration.target();
            return Err(SessionError::FindNode { step, address, key: key.to_owned() });
        };
        ask(self.configuration, node, step, words).await
    }

    /// Puts the script on every node.
    async fn load_script(&mut self) -> Result<(), SessionError> {
        let (step, expected) = (HandshakeStep::LoadScript, script_sha());
        for node in &mut self.nodes {
            let (value, address) = ask(self.configuration, node, step, &["SCRIPT", "LOAD", SCRIPT]).await?;
            let found: String = redis::from_redis_value(value)
                .map_err(|_| SessionError::Form { step, address: address.clone() })?;
            if found != expected {
                return Err(SessionError::NameScript { address, found, expected });
            }
        }
        Ok(())
    }

    async fn set_up_queues(&mut self, plan: &ReplayPlan) -> Result<(), SessionError> {
        for queue in &plan.queues {
            let key = format!("{}meta", plan.key_prefix(queue));
            let fields = QUEUE_META.into_iter().flat_map(|(field, value)| [field, value]);
            let words: Vec<&str> = ["HSET", &key].into_iter().chain(fields).collect();
            self.ask_about(HandshakeStep::SetUpQueues, &key, &words).await?;
        }
        Ok(())
    }

    async fn waiting_jobs(&mut self, plan: &ReplayPlan) -> Result<u64, SessionError> {
        let (step, mut sum) = (HandshakeStep::CountJobs, 0);
        for key in plan.wait_keys() {
            let (value, address) = self.ask_about(step, &key, &["LLEN", &key]).await?;
            let length: u64 =
                redis::from_redis_value(value).map_err(|_| SessionError::Form { step, address })?;
            sum += length;
        }
        Ok(sum)
    }
}

/// Asks one node; returns what it said, and its address.
async fn ask(
    configuration: &Configuration,
    (stream, address): &mut (LoadStream, String),
    step: HandshakeStep,
    words: &[&str],
) -> Result<(Value, String), SessionError> {
    let (request, mut raw) = (encode_command(words), Vec::new());
    connect::ask(stream, address, step, &request, configuration.connect_timeout, Some(&mut raw)).await?;
    let value = redis::parse_redis_value(&raw);
    value
        .map(|value| (value, address.clone()))
        .map_err(|_| SessionError::Form { step, address: address.clone() })
}

/// Adds jobs as `plan` says and counts them. Whatever happens, the report says
/// how it ended and what was done until then.
pub async fn run(configuration: Configuration, plan: ReplayPlan) -> Report {
    let settings = configuration.clone();
    let before = match set_up(&settings, &plan).await {
        Ok(before) => before,
        Err(error) => return not_started(&settings, &plan, error.failure(&settings)),
    };
    let mut report = run::run(configuration).await;
    report.configuration.replay = Some(plan.echo());
    match count(&settings, &plan).await {
        Ok(found) => {
            let expected = before + jobs_added(&report);
            judge(&mut report, Presence { expected, found });
        }
        Err(error) if report.status == RunStatus::Completed => fail(&mut report, error.failure(&settings)),
        // The run has failed already, and says why.
        Err(_) => {}
    }
    report
}

/// Makes everything ready; returns how many jobs wait already.
async fn set_up(configuration: &Configuration, plan: &ReplayPlan) -> Result<u64, SessionError> {
    let mut session = Session::open(configuration).await?;
    session.load_script().await?;
    session.set_up_queues(plan).await?;
    session.waiting_jobs(plan).await
}

/// Counts the jobs where the keys are now: slots may have moved meanwhile.
async fn count(configuration: &Configuration, plan: &ReplayPlan) -> Result<u64, SessionError> {
    Session::open(configuration).await?.waiting_jobs(plan).await
}

/// Jobs that the server said it added, in the warm-up too.
fn jobs_added(report: &Report) -> u64 {
    let answered: u64 = report.commands.values().sum();
    let warmup_errors = report.warmup.as_ref().map_or(0, |warmup| warmup.errors);
    answered.saturating_sub(report.totals.errors + warmup_errors)
}

/// A run that did all its work must leave exactly its jobs.
fn judge(report: &mut Report, queues: Presence) {
    report.queues = Some(queues);
    if report.status == RunStatus::Completed && queues.found != queues.expected {
        let Presence { expected, found } = queues;
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
    use crate::counts::report::{Totals, WarmupReport};

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
        judge(&mut good, Presence { expected: 10, found: 10 });
        assert_eq!(good.status, RunStatus::Completed);
        let mut short = completed();
        judge(&mut short, Presence { expected: 10, found: 9 });
        let failure = short.failure.unwrap();
        assert_eq!((short.status, short.exit_code), (RunStatus::Failed, exit::QUEUE_LENGTH));
        assert!(failure.message.contains("9 jobs wait in the queues, 10 were expected"), "{failure:?}");
    }
}
