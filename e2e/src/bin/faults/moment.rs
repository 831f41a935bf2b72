//! Waits for the moment at which a run's fault is injected.

use crate::plan::{Moment, Plan};
use anyhow::Result;
use dragstrip_core::labels::{PHASE, RUN, START_AT};
use dragstrip_crds::BenchmarkRun;
use dragstrip_e2e::{Env, phase};
use k8s_openapi::api::{batch::v1::Job, core::v1::ConfigMap};
use kube::ResourceExt;
use std::time::{Duration, SystemTime};

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(60);
/// How long the clients of a phase take to come to the start line, about.
const PREPARATION: f64 = 1.5;
/// How long a result takes to be delivered, read and stored, about.
const COLLECTION: f64 = 1.0;

/// The Jobs that a run made for `phase`, from the first to the last.
pub async fn jobs(env: &Env, run: &str, phase: &str) -> Result<Vec<Job>> {
    let mut jobs: Vec<Job> = env.labelled(&format!("{RUN}={run},{PHASE}={phase}")).await?;
    jobs.sort_by_key(ResourceExt::creation_timestamp);
    Ok(jobs)
}

/// When the load of a Job starts, if it has a start line.
fn start(job: &Job) -> Option<SystemTime> {
    let nanos = job.annotations().get(START_AT)?.parse().ok()?;
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_nanos(nanos))
}

/// How long to wait until the moment, if what it depends on is there.
async fn due(env: &Env, plan: &Plan) -> Result<Option<Duration>> {
    let (run, declared) = (plan.run(), &plan.phases[plan.phase]);
    let after = |seconds: f64| Duration::from_secs_f64(seconds * plan.fraction);
    if plan.moment == Moment::BeforeStart {
        return Ok(Some(after(PREPARATION)));
    }
    if plan.moment == Moment::BetweenPhases {
        let stored = env.api::<ConfigMap>().get_opt(&format!("{run}-{}-1", Plan::phase_name(0))).await?;
        return Ok(stored.map(|_| after(PREPARATION)));
    }
    let jobs = jobs(env, &run, &Plan::phase_name(plan.phase)).await?;
    let Some(job) = jobs.last() else { return Ok(None) };
    let until = |start: SystemTime| start.duration_since(SystemTime::now()).unwrap_or_default();
    Ok(match (plan.moment, start(job)) {
        (Moment::Preparing, _) => Some(after(PREPARATION)),
        (Moment::StartLine, Some(start)) => Some(until(start).mul_f64(plan.fraction)),
        (Moment::InLoad, Some(start)) => Some(until(start) + declared.duration.mul_f64(plan.fraction)),
        (_, Some(start)) => Some(until(start + declared.duration) + after(COLLECTION)),
        (_, None) => None,
    })
}

/// Waits for the moment; whether it came before the end of the run. An API server that is away is waited for.
pub async fn come(env: &Env, plan: &Plan) -> bool {
    loop {
        if let Ok(Some(wait)) = due(env, plan).await {
            tokio::time::sleep(wait).await;
            return true;
        }
        let run = env.api::<BenchmarkRun>().get_opt(&plan.run()).await;
        if run.is_ok_and(|run| run.is_none_or(|run| phase(&run).finished())) {
            return false;
        }
        tokio::time::sleep(PAUSE).await;
    }
}
