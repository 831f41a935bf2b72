//! The start command: one instant for all pods of an attempt, and how far their
//! clocks are from the operator's. Needs the client and the runners.

use super::{
    evidence,
    fetch::{Fetched, is_of_run, job_ended},
};
use crate::{cluster::pods, context::Context};
use dragstrip_agents::{ANSWER_WITHIN, AgentError, Agents};
use dragstrip_core::{
    labels::{self, RUN_MANAGER},
    lease::Holder,
    run::{
        identity::Identity,
        stored_result::{identity, start_line},
        timing::{ends_at, lead},
        validate::{Attempt, ValidatedRun},
    },
};
use dragstrip_results::protocol::{ClockOffset, RUNNER_PORT, StartCommand};
use futures::future::join_all;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::{batch::v1::Job, core::v1::Pod};
use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams},
};
use std::{net::SocketAddr, sync::Arc};

/// Longest time that telling all pods may take.
const TELLING: SignedDuration = SignedDuration::from_millis(300);

/// A step that failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("failed to read the clock of pod {1}")]
    ReadClock(#[source] AgentError, String),
    #[error("failed to write the start line on Job {1}")]
    FixStartLine(#[source] kube::Error, String),
    #[error("the start line on Job {0} passed before a pod was told; another is given in a moment")]
    Passing(String),
    #[error("failed to send pod {1} its start command")]
    SendStart(#[source] AgentError, String),
}

/// Whether `pods`, built for this `generation` of their Datastore, are those that `holder`
/// verified before its load that runs now; `None` when it runs none.
pub(crate) fn same_under_load(
    jobs: &[Arc<Job>],
    holder: &Holder,
    pods: &[Arc<Pod>],
    generation: Option<i64>,
) -> Option<bool> {
    let loads = |job: &&Arc<Job>| {
        is_of_run(&***job, &holder.namespace, &holder.uid)
            && start_line(&job.metadata).is_some()
            && !job_ended(job)
    };
    let verified = identity(&jobs.iter().find(loads)?.metadata);
    let same = |verified: Identity| {
        let processes = verified.processes.iter().cloned().collect();
        verified.change_to(&Identity::of(pods.iter(), generation).with_processes(processes)).is_none()
    };
    Some(verified.is_some_and(same))
}

/// A runner that is to be told.
struct Runner {
    pod: String,
    address: SocketAddr,
    clock: ClockOffset,
}

/// Whether some pod of `job` has a start line, so that the others must not get another.
fn told_to_some(job: &str, fetched: &Fetched) -> bool {
    fetched.pods_of(job).any(|pod| match fetched.runners.get(&pod.name_any()) {
        Some(runner) => runner.start_at_unix_nanos.is_some(),
        // A pod that does not answer may have it.
        None => true,
    })
}

/// What may be done with a start line that stands on a Job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Line {
    Tell,
    /// Nothing: it is too late to tell it, and another operator's command may be on its way.
    Await,
    /// Replaced: nobody has it, and nobody can get it any more.
    Replace,
}

/// Two operators at once, the old and the new one of an upgrade, must never tell two
/// lines: none is told within [`TELLING`] of it, and none is replaced before every command
/// that was sent earlier has arrived or been given up.
fn line(start: Timestamp, now: Timestamp, told_to_some: bool) -> Line {
    if told_to_some || start > now + TELLING {
        Line::Tell
    } else if now < start + ANSWER_WITHIN {
        Line::Await
    } else {
        Line::Replace
    }
}

/// The start line of `job`, written on it first: an operator that dies between
/// writing and telling finds it again, and replaces it only if it has passed
/// before anybody was told. `None` when the Job changed since it was looked at: another
/// operator may have written its line.
async fn fix_start_line(
    ctx: &Context,
    run: &ValidatedRun,
    attempt: &Attempt,
    job: &Job,
    fetched: &Fetched,
) -> Result<Option<Timestamp>, Error> {
    let now = Timestamp::now();
    if let Some(start) = start_line(&job.metadata) {
        match line(start, now, told_to_some(&job.name_any(), fetched)) {
            Line::Tell => return Ok(Some(start)),
            Line::Await => return Err(Error::Passing(job.name_any())),
            Line::Replace => {}
        }
    }
    let start = now + lead(attempt.pods, attempt.tool.head_start());
    let patch = serde_json::json!({"metadata": {
        "resourceVersion": job.resource_version(),
        "annotations": {
            labels::START_AT: start.as_nanosecond().to_string(),
            labels::LOAD_ENDS_AT: ends_at(run, attempt, start).as_nanosecond().to_string(),
        },
    }});
    let jobs: Api<Job> = Api::namespaced(ctx.client.clone(), &run.holder.namespace);
    let parameters = PatchParams { field_manager: Some(RUN_MANAGER.to_owned()), ..PatchParams::default() };
    match jobs.patch(&job.name_any(), &parameters, &Patch::Merge(&patch)).await {
        Ok(written) => {
            ctx.overlay.record(&written);
            Ok(Some(start))
        }
        Err(kube::Error::Api(status)) if status.is_conflict() => Ok(None),
        Err(error) => Err(Error::FixStartLine(error, job.name_any())),
    }
}

fn nanoseconds(instant: Timestamp) -> i64 {
    // Fits until the year 2262.
    i64::try_from(instant.as_nanosecond()).unwrap_or(i64::MAX)
}

/// The first error, once all have had their chance: a pod that does not answer
/// must not keep the others from being told.
fn all<T, E>(results: Vec<Result<T, E>>) -> Result<Vec<T>, E> {
    results.into_iter().collect()
}

/// The runners of `attempt` and their clocks, asked all at the same time.
async fn runners(
    agents: &Agents,
    token: &str,
    attempt: &Attempt,
    fetched: &Fetched,
) -> Result<Vec<Runner>, Error> {
    let alive = fetched.pods_of(&attempt.name).filter(|pod| !pods::ended(pod));
    let found: Vec<(String, SocketAddr)> = alive
        .filter_map(|pod| Some((pod.name_any(), SocketAddr::new(pods::address(pod)?, RUNNER_PORT))))
        .collect();
    let requests = found.into_iter().map(|(pod, address)| async move {
        match agents.clock(address, token).await {
            Ok(clock) => Ok(Runner { pod, address, clock }),
            Err(error) => Err(Error::ReadClock(error, pod)),
        }
    });
    all(join_all(requests).await)
}

/// Sends all runners of `attempt` the start command for one instant. Repeating it changes nothing.
/// Whether they were told or the Job had changed meanwhile, its own event brings the next look.
pub async fn send(
    ctx: &Context,
    run: &ValidatedRun,
    attempt: &Attempt,
    fetched: &Fetched,
) -> Result<(), Error> {
    let Some(job) = fetched.jobs.get(&attempt.name) else {
        return Ok(());
    };
    let token = run.token(attempt);
    // Before the start line is fixed: it takes time that the pods need to be told.
    let clocks = runners(&ctx.agents, &token, attempt, fetched);
    let (runners, ()) = tokio::join!(clocks, evidence::start_sampling(ctx, run, attempt));
    let runners = runners?;
    let Some(start) = fix_start_line(ctx, run, attempt, job, fetched).await? else {
        return Ok(());
    };
    // Writing it may have taken long.
    if line(start, Timestamp::now(), told_to_some(&attempt.name, fetched)) != Line::Tell {
        return Err(Error::Passing(attempt.name.clone()));
    }
    let start_at_unix_nanos = nanoseconds(start);
    let (agents, token) = (&ctx.agents, token.as_str());
    let commands = runners.into_iter().map(|runner| async move {
        let sent_at_unix_nanos = nanoseconds(Timestamp::now());
        let command = StartCommand { start_at_unix_nanos, sent_at_unix_nanos, clock: runner.clock };
        let reported = agents.start(runner.address, token, command).await;
        reported.map_err(|error| Error::SendStart(error, runner.pod))
    });
    all(join_all(commands).await).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datastore::tests::{Cluster, context};
    use crate::fixtures::run;
    use dragstrip_core::run::timing::watchdog_seconds;
    use dragstrip_core::run::validate::validate;
    use serde_json::json;

    #[tokio::test]
    async fn a_start_line_is_known_before_the_watch_tells_it() {
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
        let start = fix_start_line(&ctx, &run, &run.attempts[0], &seen, &Fetched::default()).await.unwrap();
        assert!(ctx.overlay.is_ahead_of(&seen), "a Job that loads would be taken for one at the start line");
        let sent = calls.lock().unwrap()[0].1["metadata"].clone();
        assert_eq!(sent["resourceVersion"], "7");
        let written = |key: &str| sent["annotations"][key].as_str().unwrap().parse::<i128>().unwrap();
        assert_eq!(Some(written(labels::START_AT)), start.map(Timestamp::as_nanosecond));
        let watchdog = watchdog_seconds(&run, &run.attempts[0]);
        let ends_after =
            SignedDuration::from_nanos_i128(written(labels::LOAD_ENDS_AT) - written(labels::START_AT));
        assert_eq!(ends_after, SignedDuration::try_from_secs_f64(watchdog).unwrap());
    }

    #[test]
    fn a_start_line_is_replaced_only_when_nobody_can_be_told_it_any_more() {
        let start = Timestamp::from_second(1_000_000).unwrap();
        let after = |milliseconds| start + SignedDuration::from_millis(milliseconds);
        for (now, reported, expected) in [
            (-1000, false, Line::Tell),
            (-200, false, Line::Await),
            (0, false, Line::Await),
            (2999, false, Line::Await),
            (3000, false, Line::Replace),
            (-200, true, Line::Tell),
            (60_000, true, Line::Tell),
        ] {
            assert_eq!(
                line(start, after(now), reported),
                expected,
                "{now} ms after it, told to some: {reported}"
            );
        }
        // A command that is sent while it may be told has ended before the line is replaced.
        assert!(SignedDuration::try_from(ANSWER_WITHIN).unwrap() >= TELLING);
    }
}
