//! What exists for a run: its target, its turn, Jobs, pods, runners, and the outcomes of stored
//! results. Needs the client; [`attempts`] makes sense of it.

mod alias;
pub mod machines;
pub mod result_cache;
pub mod servers;
pub mod stored;
pub mod target;

use super::context::{Pass, RunContext};
use crate::cluster::loads::is_of_run;
use attempts::was_started;
pub use dragstrip_core::run::{attempts, fetched};
use dragstrip_core::{
    labels,
    lease::is_held_by,
    run::{
        decide::{TargetState, Turn},
        plan::{Place, place_of},
        search,
        snapshot::{JobFacts, Snapshot},
        stored_result::{annotation, start_line},
        turn::{self, Progress},
        validate::{Attempt, ValidatedRun},
    },
};
use dragstrip_crds::BenchmarkRunStatus;
use dragstrip_results::protocol::RunnerState;
use fetched::Fetched;
use futures::future::join_all;
use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;
use kube::ResourceExt;
use std::{collections::BTreeMap, sync::Arc};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Stored(#[from] stored::Error),
    #[error("failed to read the run's target")]
    Target(#[source] kube::Error),
}

/// The states of the runners of `attempt`, all queried at the same time.
async fn runners(pass: &Pass<'_>, attempt: &Attempt, fetched: &Fetched) -> BTreeMap<String, RunnerState> {
    let token = &pass.run.token(attempt);
    let requests = fetched.reachable(&attempt.name).into_iter().map(|(pod, address)| async move {
        let answer = pass.agents.progress(address, token).await;
        // It may just be ending; then its own end counts.
        let state = answer.inspect_err(|error| tracing::debug!(pod, %error, "runner did not respond"));
        Some((pod, state.ok()?))
    });
    join_all(requests).await.into_iter().flatten().collect()
}

fn facts(job: &Job) -> JobFacts {
    let note = |key| annotation(&job.metadata, key);
    JobFacts {
        start: start_line(&job.metadata),
        spec_hash: note(labels::SPEC_HASH).map(str::to_owned),
        search_value: note(labels::SEARCH_VALUE).and_then(|value| value.parse().ok()),
    }
}

fn seen(ctx: &RunContext, run: &ValidatedRun) -> Fetched {
    let (namespace, uid) = (&run.holder.namespace, &run.holder.uid);
    let jobs = ctx.world.jobs.state_filter(|job| is_of_run(job, namespace, uid));
    let pods = ctx.world.pods.state_filter(|pod| is_of_run(pod, namespace, uid));
    let (of_jobs, of_pods) = (jobs.iter().map(Arc::as_ref), pods.iter().map(Arc::as_ref));
    let unseen = ctx.loads.unseen(uid, of_jobs, of_pods, Timestamp::now());
    let snapshot = Snapshot {
        holds: ctx.leases().iter().any(|lease| is_held_by(lease, &run.holder)),
        jobs: jobs.iter().map(|job| (job.name_any(), facts(job))).collect(),
        ..Snapshot::default()
    };
    let jobs = jobs.into_iter().map(|job| (job.name_any(), job)).collect();
    Fetched { snapshot, jobs, pods, unseen, ..Fetched::default() }
}

/// Why the run has no target any more: the Datastore that it refers to was deleted.
fn target_gone(pass: &Pass<'_>) -> Option<String> {
    let name = pass.run.datastore_name()?;
    let datastore = servers::datastore(pass);
    let there = datastore.is_some_and(|datastore| datastore.metadata.deletion_timestamp.is_none());
    (!there).then(|| format!("Datastore {name} was deleted while the run was under way"))
}

/// The target and the turn, and if the turn is the run's, the answers of its server.
async fn target_and_turn(pass: &Pass<'_>, current: usize, fetched: &mut Fetched) -> Result<(), Error> {
    fetched.snapshot.target = target::find(pass, &fetched.snapshot).await.map_err(Error::Target)?;
    let TargetState::Ready(found) = &fetched.snapshot.target else {
        return Ok(());
    };
    let world = &pass.world;
    let (leases, runs) = (pass.leases(), world.runs.state());
    let (nodes, pods) = (world.nodes.state(), world.pods.state());
    let operator_namespace = &pass.settings.namespace;
    let seen = turn::Seen { leases: &leases, runs: &runs, nodes: &nodes, pods: &pods, operator_namespace };
    let setbacks = pass.old.setback.as_ref().map_or(0, |setback| usize::try_from(setback.count).unwrap_or(0));
    let between_phases = !pass.run.begins_measurement(current);
    let progress = Progress { setbacks, between_phases, measured: current > 0 };
    let turn_check = turn::check(pass.run, found, &seen, progress);
    if turn_check.turn == Turn::Held {
        fetched.snapshot.target = target::question(pass, (**found).clone()).await.map_err(Error::Target)?;
        if let TargetState::Ready(target) = &fetched.snapshot.target {
            fetched.snapshot.placed = machines::placed(pass, &turn_check.client_nodes, Some(target));
        }
    }
    fetched.snapshot.turn = turn_check.turn.clone();
    fetched.turn = Some(turn_check);
    Ok(())
}

/// Fetches everything for one pass over `run`, whose status is `old`. What its searches
/// measure next follows from the stored results, and is then fixed in `run`.
pub async fn fetch(
    ctx: &RunContext,
    run: &mut ValidatedRun,
    old: &BenchmarkRunStatus,
) -> Result<Fetched, Error> {
    let mut fetched = seen(ctx, run);
    stored::outcomes(ctx, run, &mut fetched.snapshot).await?;
    search::settle(run, &fetched.snapshot.stored, &fetched.snapshot.jobs);
    let run = &*run;
    let pass = &Pass { ctx, run, old };
    let (index, current) = match place_of(run, &fetched.snapshot.stored) {
        Place::At(index) => (index, &run.attempts[index]),
        Place::Failed(_) | Place::Done => {
            fetched.snapshot.target_gone = target_gone(pass);
            return Ok(fetched);
        }
    };
    match fetched.jobs.get(&current.name) {
        // Its runners are gone.
        Some(_) if fetched.ended(current) => {}
        // While load runs nobody queries the server: that would cost it something.
        Some(job) if job.annotations().contains_key(labels::START_AT) => {
            fetched.runners = runners(pass, current, &fetched).await;
        }
        Some(job) => {
            let uid = job.metadata.uid.as_deref().unwrap_or_default();
            fetched.unreachable_since = ctx.retries.failing_since(uid, Timestamp::now());
            if attempts::are_preparing(current, &fetched) {
                fetched.runners = runners(pass, current, &fetched).await;
            }
            let bound: Vec<String> = fetched.pods_of(&current.name).filter_map(servers::node_of).collect();
            if bound.len() >= usize::try_from(current.pods).unwrap_or(usize::MAX) {
                fetched.snapshot.placed = machines::placed(pass, &bound, None);
            }
            let namespace = Some(&run.holder.namespace);
            fetched.warnings = ctx
                .world
                .warnings
                .state_filter(|event| event.involved_object.namespace.as_ref() == namespace);
        }
        // It will be stored as lost.
        None if was_started(old, current) => {}
        None => {
            target_and_turn(pass, index, &mut fetched).await?;
            fetched.snapshot.target_gone = target_gone(pass);
            return Ok(fetched);
        }
    }
    // The status that follows a Job's creation was refused, or the operator ended before it.
    if old.target.as_ref().is_none_or(|target| target.address.is_none())
        && let TargetState::Ready(target) =
            target::find(pass, &fetched.snapshot).await.map_err(Error::Target)?
    {
        let clients: Vec<String> = fetched.pods_of(&current.name).filter_map(servers::node_of).collect();
        fetched.snapshot.placed = machines::placed(pass, &clients, Some(&target));
        fetched.snapshot.target = TargetState::Ready(target);
    }
    Ok(fetched)
}
