//! The start command: one instant for all pods of an attempt, and how far their
//! clocks are from the operator's. Needs the client and the runners.

use crate::run::{
    collect::evidence,
    context::{Pass, StepPass},
    fetch::{attempts::was_started, fetched::Fetched},
    publish::{price, publish},
};
use dragstrip_agents::{AgentError, Agents};
use dragstrip_core::{
    labels::{self, RUN_MANAGER},
    run::{
        decide::{Step, Waiting},
        start_line::{Line, choose, line},
        status::of_step,
        timing::ends_at,
        validate::Attempt,
    },
};
use dragstrip_crds::BenchmarkRun;
use dragstrip_results::protocol::{ClockOffset, StartCommand};
use futures::future::join_all;
use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;
use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams},
    runtime::reflector::ObjectRef,
};
use std::net::SocketAddr;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("failed to read the clock of pod {1}")]
    ReadClock(#[source] AgentError, String),
    #[error("failed to write the start line on Job {1}")]
    FixStartLine(#[source] kube::Error, String),
    #[error("failed to write the start to the run's status")]
    NoteStart(#[source] kube::Error),
    #[error("the start line on Job {0} passed before a pod received it; the run sends another in a moment")]
    Passing(String),
    #[error("failed to send pod {1} its start command")]
    SendStart(#[source] AgentError, String),
}

/// A runner that is to get the start command.
struct Runner {
    pod: String,
    address: SocketAddr,
    clock: ClockOffset,
}

/// Writes the start line on `job`; `false` if it changed meanwhile: another operator may have a line.
async fn fix_start_line(
    pass: &Pass<'_>,
    attempt: &Attempt,
    job: &Job,
    start: Timestamp,
) -> Result<bool, Error> {
    let patch = serde_json::json!({"metadata": {
        "resourceVersion": job.resource_version(),
        "annotations": {
            labels::START_AT: start.as_nanosecond().to_string(),
            labels::LOAD_ENDS_AT: ends_at(pass.run, attempt, start).as_nanosecond().to_string(),
        },
    }});
    let jobs: Api<Job> = Api::namespaced(pass.client.clone(), &pass.run.holder.namespace);
    let parameters = PatchParams { field_manager: Some(RUN_MANAGER.to_owned()), ..PatchParams::default() };
    match jobs.patch(&job.name_any(), &parameters, &Patch::Merge(&patch)).await {
        Ok(written) => {
            pass.overlay.record(&written);
            Ok(true)
        }
        Err(kube::Error::Api(status)) if status.is_conflict() => Ok(false),
        Err(error) => Err(Error::FixStartLine(error, job.name_any())),
    }
}

/// Writes the status of the run under load before any pod receives the command: if the Job disappears
/// from now on, the repetition is lost and not silently measured again. `false` if the run changed
/// since it was read, or another operator noted a start since the pass began.
async fn note_start(
    at: &StepPass<'_>,
    attempt: &Attempt,
    index: usize,
    start: Timestamp,
) -> Result<bool, Error> {
    let key = ObjectRef::<BenchmarkRun>::new(&at.run.holder.name).within(&at.run.holder.namespace);
    let Some(seen) = at.world.runs.get(&key).filter(|seen| seen.uid().as_ref() == Some(&at.run.holder.uid))
    else {
        return Ok(false);
    };
    let old = seen.status.clone().unwrap_or_default();
    if was_started(&old, attempt) {
        return Ok(true);
    }
    // An operator that stood still would write the start of an earlier attempt over that of the current one.
    if old.started != at.old.started {
        return Ok(false);
    }
    let mut snapshot = at.fetched.snapshot.clone();
    snapshot.jobs.entry(attempt.name.clone()).or_default().start = Some(start);
    let step = Step::Wait(Waiting::Load(index), None);
    let mut status = of_step(at.run, &old, &snapshot, None, &step, Timestamp::now());
    price::price(&mut status, &at.prices);
    publish(at, &seen, &old, &status).await.map_err(Error::NoteStart)
}

fn nanoseconds(instant: Timestamp) -> i64 {
    // Fits until the year 2262.
    i64::try_from(instant.as_nanosecond()).unwrap_or(i64::MAX)
}

/// The runners of `attempt` and their clocks, all queried at the same time.
async fn runners(
    agents: &Agents,
    token: &str,
    attempt: &Attempt,
    fetched: &Fetched,
) -> Result<Vec<Runner>, Error> {
    let requests = fetched.reachable(&attempt.name).into_iter().map(|(pod, address)| async move {
        match agents.clock(address, token).await {
            Ok(clock) => Ok(Runner { pod, address, clock }),
            Err(error) => Err(Error::ReadClock(error, pod)),
        }
    });
    join_all(requests).await.into_iter().collect()
}

/// Sends all runners of the attempt with this `index` the start command for one instant. Safe to repeat. Whether they
/// received it or the Job had changed meanwhile, the Job's own event brings the next pass.
pub async fn send(at: &StepPass<'_>, index: usize) -> Result<(), Error> {
    let attempt = &at.run.attempts[index];
    let Some(job) = at.fetched.jobs.get(&attempt.name) else {
        return Ok(());
    };
    let token = at.run.token(attempt);
    // Before the start line is fixed: after that, time is short.
    let clocks = runners(&at.agents, &token, attempt, at.fetched);
    let (runners, ()) = tokio::join!(clocks, evidence::start_sampling(at, attempt));
    let runners = runners?;
    let chosen = choose(attempt, job, at.fetched.receipt(attempt), Timestamp::now());
    let (start, received, write) = chosen.ok_or_else(|| Error::Passing(attempt.name.clone()))?;
    if write && !fix_start_line(at, attempt, job, start).await? {
        return Ok(());
    }
    if !note_start(at, attempt, index, start).await? {
        return Ok(());
    }
    // Writing it may have taken long.
    if line(start, Timestamp::now(), received) != Line::Send {
        return Err(Error::Passing(attempt.name.clone()));
    }
    let start_at_unix_nanos = nanoseconds(start);
    let (agents, token) = (&at.agents, token.as_str());
    let commands = runners.into_iter().map(|runner| async move {
        let sent_at_unix_nanos = nanoseconds(Timestamp::now());
        let command = StartCommand { start_at_unix_nanos, sent_at_unix_nanos, clock: runner.clock };
        let sent = agents.start(runner.address, token, command).await;
        sent.map_err(|error| Error::SendStart(error, runner.pod))
    });
    // The first error, after all have had their command.
    join_all(commands).await.into_iter().collect::<Result<Vec<_>, _>>().map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::{context::Context, world::World};
    use crate::datastore::tests::seen;
    use crate::fixtures::run;
    use crate::run::context::RunContext;
    use crate::run::tests::{Cluster, context};
    use dragstrip_agents::ANSWER_WITHIN;
    use dragstrip_core::run::{start_line::ARRIVES_WITHIN, timing::watchdog_seconds, validate::validate};
    use dragstrip_crds::BenchmarkRunStatus;
    use jiff::SignedDuration;
    use serde_json::json;
    use std::sync::Arc;

    #[tokio::test]
    async fn a_start_line_counts_before_the_watch_shows_it() {
        let answer = |call: &str| {
            let job = json!({"metadata": {"name": "sprint-read-1", "uid": "job", "resourceVersion": "8"}});
            call.ends_with("jobs sprint-read-1").then_some((200, job))
        };
        let (ctx, calls) = context(Cluster::default(), answer);
        let run = validate(&run(&["read"], 1)).unwrap();
        let seen: Job = serde_json::from_value(
            json!({"metadata": {"name": "sprint-read-1", "uid": "job", "resourceVersion": "7"}}),
        )
        .unwrap();
        let start = Timestamp::from_second(1_000_000).unwrap();
        let pass = Pass { ctx: &ctx, run: &run, old: &BenchmarkRunStatus::default() };
        assert!(fix_start_line(&pass, &run.attempts[0], &seen, start).await.unwrap());
        assert!(ctx.overlay.is_ahead_of(&seen), "a Job that loads would be taken for one at the start line");
        let sent = calls.lock().unwrap()[0].1["metadata"].clone();
        assert_eq!(sent["resourceVersion"], "7");
        let written = |key: &str| sent["annotations"][key].as_str().unwrap().parse::<i128>().unwrap();
        assert_eq!(written(labels::START_AT), start.as_nanosecond());
        let watchdog = watchdog_seconds(&run, &run.attempts[0]);
        let ends_after =
            SignedDuration::from_nanos_i128(written(labels::LOAD_ENDS_AT) - written(labels::START_AT));
        assert_eq!(ends_after, SignedDuration::try_from_secs_f64(watchdog).unwrap());
    }

    #[tokio::test]
    async fn the_status_shows_a_start_before_any_pod_receives_the_command_and_it_is_written_once() {
        let declared = || {
            let mut declared = run(&["read"], 1);
            declared.metadata.namespace = Some("pits".into());
            declared
        };
        let start = Timestamp::from_second(1_000_000).unwrap();
        let noted = async |seen_run: BenchmarkRun| {
            let answer = |call: &str| {
                let mut written = run(&["read"], 1);
                written.metadata.resource_version = Some("8".into());
                let written = serde_json::to_value(written).unwrap();
                call.starts_with("PATCH benchmarkruns").then_some((200, written))
            };
            let (shared, calls) = crate::datastore::tests::context(Cluster::default(), answer);
            let world = World { runs: seen(vec![seen_run]), ..shared.world.clone() };
            let ctx = RunContext::new(Context { world, ..(*shared).clone() }, Arc::default());
            let run = validate(&declared()).unwrap();
            let pass = Pass { ctx: &ctx, run: &run, old: &BenchmarkRunStatus::default() };
            let at = StepPass { pass, fetched: &Fetched::default(), deadline: Timestamp::MAX };
            let goes_on = note_start(&at, &run.attempts[0], 0, start).await.unwrap();
            let calls = calls.lock().unwrap();
            let writes = calls.iter().filter(|(call, _)| call.starts_with("PATCH"));
            (goes_on, writes.map(|(_, body)| body["status"]["started"].clone()).collect::<Vec<_>>())
        };
        let started = |job: &str| {
            let started = json!({"job": job, "startAt": "1970-01-12T13:46:40Z"});
            let status = json!({"started": started, "phase": "Preparing"});
            BenchmarkRun { status: Some(serde_json::from_value(status).unwrap()), ..declared() }
        };
        let expected = json!({"job": "sprint-read-1", "startAt": "1970-01-12T13:46:40Z"});
        assert_eq!(noted(declared()).await, (true, vec![expected]));
        let again = noted(started("sprint-read-1")).await;
        assert_eq!(again, (true, vec![]), "a restarted operator sends the same line again");
        let late = noted(started("sprint-read-1-again")).await;
        assert_eq!(late, (false, vec![]), "another operator started a later attempt during the pass");
    }

    #[test]
    fn no_start_line_is_replaced_while_a_command_may_arrive() {
        assert_eq!(SignedDuration::try_from(ANSWER_WITHIN).unwrap(), ARRIVES_WITHIN);
    }
}
