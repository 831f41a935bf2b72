//! What exists for a run: its target, its turn, Jobs, pods, runners, and what is
//! known of stored results. Needs the client; [`attempts`](super::attempts) makes sense of it.

use super::{
    attempts::was_started,
    machines,
    result_cache::Results,
    target::{self, Begun},
    turn,
};
use crate::{cluster::pods, context::Context};
use dragstrip_core::{
    labels,
    lease::is_held_by,
    run::{
        decide::{TargetState, Turn},
        plan::{Place, place_of},
        search,
        snapshot::{JobFacts, Snapshot},
        stored_result::{StoredResult, annotation, start_line, stored_result},
        validate::{Attempt, ValidatedRun},
    },
};
use dragstrip_crds::{BenchmarkRunSpec, BenchmarkRunStatus, run::MemoryReading};
use dragstrip_results::error_chain::chain;
use dragstrip_results::{
    protocol::{RUNNER_PORT, RunnerState},
    result::RepetitionResult,
    stored,
};
use futures::future::join_all;
use jiff::Timestamp;
use k8s_openapi::api::{
    batch::v1::Job,
    core::v1::{ConfigMap, Event, Pod},
};
use kube::{Api, ResourceExt, api::ListParams};
use std::{
    collections::{BTreeMap, HashSet},
    net::SocketAddr,
    sync::Arc,
};

/// A step of fetching that failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("failed to list the run's stored results")]
    List(#[source] kube::Error),
    #[error("failed to read ConfigMap {1}, which holds a result")]
    Read(#[source] kube::Error, String),
    #[error("failed to read the run's target")]
    Target(#[source] kube::Error),
}

/// All that a pass works with.
#[derive(Default)]
pub struct Fetched {
    pub snapshot: Snapshot,
    /// The Leases, and whose turn it is; absent when the target was not ready or not consulted.
    pub turn: Option<turn::TurnCheck>,
    pub jobs: BTreeMap<String, Arc<Job>>,
    pub pods: Vec<Arc<Pod>>,
    /// Runners of the current attempt, by pod, where they answered.
    pub runners: BTreeMap<String, RunnerState>,
    /// Warnings about client pods and those who make them.
    pub warnings: Vec<Arc<Event>>,
    /// By Job until when load of pods that are gone, and were not seen to end, may run.
    pub unseen: BTreeMap<String, Timestamp>,
}

impl Fetched {
    /// The pods of the Job called `job`.
    pub fn pods_of<'a>(&'a self, job: &'a str) -> impl Iterator<Item = &'a Pod> {
        let uid = self.jobs.get(job).and_then(|job| job.metadata.uid.as_deref());
        self.pods.iter().map(Arc::as_ref).filter(move |pod| pods::is_of_job(pod, job, uid))
    }

    /// Whether the attempt needs no more time: its Job has ended, or all its pods
    /// have and the Job controller does not know it yet.
    pub fn ended(&self, attempt: &Attempt) -> bool {
        let expected = usize::try_from(attempt.pods).unwrap_or(usize::MAX);
        self.jobs.get(&attempt.name).is_some_and(|job| job_ended(job))
            || pods::all_ended(self.pods_of(&attempt.name), expected)
    }
}

/// Whether the Job has ended, well or badly.
pub fn job_ended(job: &Job) -> bool {
    job.status.iter().flat_map(|status| status.conditions.iter().flatten()).any(|condition| {
        condition.status == "True" && matches!(condition.type_.as_str(), "Complete" | "Failed")
    })
}

/// Whether an object is of the run with this uid, in its namespace: a later run of the same
/// name is another, and in other namespaces anybody may write labels.
pub fn is_of_run(object: &impl ResourceExt, namespace: &str, uid: &str) -> bool {
    let of_it = object.labels().get(labels::RUN_UID).is_some_and(|of| of == uid);
    of_it && object.namespace().is_some_and(|name| name == namespace)
}

fn own_results(run: &ValidatedRun) -> ListParams {
    ListParams::default().labels(&format!("{}={},!{}", labels::RUN_UID, run.holder.uid, stored::PART))
}

fn config_maps(ctx: &Context, run: &ValidatedRun) -> Api<ConfigMap> {
    Api::namespaced(ctx.client.clone(), &run.holder.namespace)
}

/// A result that an older version stored, whose metadata does not tell its outcome.
async fn kept_whole(
    ctx: &Context,
    run: &ValidatedRun,
    name: &str,
) -> Result<Result<StoredResult, stored::Error>, Error> {
    Ok(result(&config_maps(ctx, run), name)
        .await?
        .map(|result| StoredResult { failure: result.failure, ..StoredResult::default() }))
}

/// Takes note of the results of which the servers' memory was read after the settle time.
async fn settled(ctx: &Context, run: &ValidatedRun, fetched: &mut Fetched) -> Result<(), Error> {
    if !settles(&run.spec) || fetched.snapshot.stored.is_empty() {
        return Ok(());
    }
    let own = format!("{}={},{}={}", labels::RUN_UID, run.holder.uid, stored::PART, stored::SETTLED);
    let list = config_maps(ctx, run).list_metadata(&ListParams::default().labels(&own)).await;
    let read: HashSet<String> = list.map_err(Error::List)?.items.iter().map(ResourceExt::name_any).collect();
    for (name, stored) in &mut fetched.snapshot.stored {
        stored.settled = read.contains(&stored::settled_name(name));
    }
    Ok(())
}

/// Whether any phase has a settle time.
fn settles(spec: &BenchmarkRunSpec) -> bool {
    spec.phases.iter().any(|phase| phase.memory.is_some())
}

/// What is known of the run's stored results, and what is wrong with the others.
async fn stored_results(ctx: &Context, run: &ValidatedRun, fetched: &mut Fetched) -> Result<(), Error> {
    if let Some(known) = ctx.result_cache.of(&run.holder.uid) {
        fetched.snapshot.stored = known;
        return Ok(());
    }
    let list = config_maps(ctx, run).list_metadata(&own_results(run)).await.map_err(Error::List)?;
    for object in list.items {
        let name = object.name_any();
        let known = match stored_result(&object.metadata) {
            Err(stored::Error::Unmarked { found, .. }) if found.is_empty() => {
                kept_whole(ctx, run, &name).await?
            }
            known => known,
        };
        match known {
            Ok(known) => {
                fetched.snapshot.stored.insert(name, known);
            }
            Err(damage) => fetched.snapshot.damaged.push(chain(&damage)),
        }
    }
    settled(ctx, run, fetched).await?;
    if fetched.snapshot.damaged.is_empty() {
        ctx.result_cache.note(&run.holder.uid, fetched.snapshot.stored.clone(), &under_way(ctx));
    }
    Ok(())
}

/// The uids of all runs under way.
fn under_way(ctx: &Context) -> HashSet<String> {
    ctx.world.runs.state().iter().filter_map(|run| run.uid()).collect()
}

/// Runs whose stored results are listed in one request: their uids are in its address.
const UIDS: usize = 50;

/// Remembers what is stored of all runs under way, which each would ask for by itself
/// at the start. One whose results cannot all be read asks again, and tells.
pub async fn remember_all(ctx: &Context) -> Result<(), Error> {
    let api: Api<ConfigMap> = ctx.settings.scope.api(&ctx.client);
    let all = under_way(ctx);
    let here = ctx.world.runs.state();
    // Of a run with settle times there is more to ask: it does so by itself.
    let here: Vec<_> = here.into_iter().filter(|run| !settles(&run.spec)).collect();
    let here: BTreeMap<String, String> =
        here.iter().filter_map(|run| Some((run.uid()?, run.namespace()?))).collect();
    let uids: Vec<&str> = here.keys().map(String::as_str).collect();
    for uids in uids.chunks(UIDS) {
        let of_these = format!("{} in ({}),!{}", labels::RUN_UID, uids.join(","), stored::PART);
        let list = api.list_metadata(&ListParams::default().labels(&of_these)).await.map_err(Error::List)?;
        let mut known: BTreeMap<&str, Option<Results>> =
            uids.iter().map(|uid| (*uid, Some(Results::new()))).collect();
        for object in &list.items {
            let of = object.labels().get(labels::RUN_UID);
            // In other namespaces anybody may write labels.
            let of = of.filter(|uid| here.get(*uid) == object.namespace().as_ref());
            let of = of.and_then(|uid| known.get_mut(uid.as_str()));
            let Some(results) = of else { continue };
            match stored_result(&object.metadata) {
                Ok(result) => results.iter_mut().for_each(|all| {
                    all.insert(object.name_any(), result.clone());
                }),
                Err(_) => *results = None,
            }
        }
        for (uid, results) in known {
            if let Some(results) = results {
                ctx.result_cache.note(uid, results, &all);
            }
        }
    }
    Ok(())
}

/// One whole stored result, from the ConfigMaps of its namespace.
pub async fn result(
    api: &Api<ConfigMap>,
    name: &str,
) -> Result<Result<RepetitionResult, stored::Error>, Error> {
    let read = |name: String| {
        let api = api.clone();
        async move { api.get_opt(&name).await.map_err(|error| Error::Read(error, name)) }
    };
    let Some(first) = read(name.to_owned()).await? else {
        return Ok(Err(stored::Error::Absent(name.to_owned())));
    };
    let mut later = BTreeMap::new();
    for part in stored::later_parts(&first) {
        later.extend(read(part.clone()).await?.map(|map| (part, map)));
    }
    Ok(stored::unpack(&first, |part| later.get(part)))
}

/// What was read of the servers' memory after the settle time of the result called `name`.
async fn settled_readings(
    api: &Api<ConfigMap>,
    name: &str,
) -> Result<Result<Vec<MemoryReading>, stored::Error>, Error> {
    let name = stored::settled_name(name);
    let found = api.get_opt(&name).await.map_err(|error| Error::Read(error, name.clone()))?;
    Ok(found.map_or(Err(stored::Error::Absent(name)), |map| stored::settled(&map)))
}

/// `result` without what no summary of several shows: of many pods and repetitions that would
/// be more than the operator may have in memory at once.
fn reduced(mut result: RepetitionResult) -> RepetitionResult {
    for pod in &mut result.pods {
        // They are added up in the result's own.
        pod.operations.clear();
        pod.per_second.clear();
        pod.schedule_lag = None;
        pod.workers.clear();
        pod.client.threads.clear();
    }
    for server in &mut result.servers {
        server.usage.threads.clear();
    }
    result
}

/// All results by name, as far as a summary needs them, and what is wrong with those that
/// cannot be read.
pub async fn results(
    ctx: &Context,
    run: &ValidatedRun,
    fetched: &Fetched,
) -> Result<(BTreeMap<String, RepetitionResult>, Vec<String>), Error> {
    let (mut results, mut damaged) = (BTreeMap::new(), Vec::new());
    for (name, stored) in &fetched.snapshot.stored {
        let mut found = result(&config_maps(ctx, run), name).await?;
        if let (Ok(result), true) = (&mut found, stored.settled) {
            match settled_readings(&config_maps(ctx, run), name).await? {
                Ok(readings) => result.memory.extend(readings),
                Err(damage) => found = Err(damage),
            }
        }
        match found {
            Ok(result) => {
                results.insert(name.clone(), reduced(result));
            }
            Err(damage) => damaged.push(chain(&damage)),
        }
    }
    Ok((results, damaged))
}

/// Where the runners of `attempt` stand, asked all at the same time.
async fn runners(
    ctx: &Context,
    run: &ValidatedRun,
    attempt: &Attempt,
    fetched: &Fetched,
) -> BTreeMap<String, RunnerState> {
    let token = run.token(attempt);
    let alive = fetched.pods_of(&attempt.name).filter(|pod| !pods::ended(pod));
    let requests =
        alive.filter_map(|pod| Some((pod.name_any(), pods::address(pod)?))).map(|(pod, address)| {
            let token = &token;
            async move {
                let runner = SocketAddr::new(address, RUNNER_PORT);
                let answer = ctx.agents.progress(runner, token).await;
                // It may just be ending; its own end is what counts then.
                let reported =
                    answer.inspect_err(|error| tracing::debug!(pod, %error, "runner did not answer"));
                Some((pod, reported.ok()?))
            }
        });
    join_all(requests).await.into_iter().flatten().collect()
}

/// What the watches have seen for the run.
fn seen(ctx: &Context, run: &ValidatedRun) -> Fetched {
    let (namespace, uid) = (&run.holder.namespace, &run.holder.uid);
    let jobs = ctx.world.jobs.state_filter(|job| is_of_run(job, namespace, uid));
    let pods = ctx.world.pods.state_filter(|pod| is_of_run(pod, namespace, uid));
    let (of_jobs, of_pods) = (jobs.iter().map(Arc::as_ref), pods.iter().map(Arc::as_ref));
    let unseen = ctx.loads.unseen(uid, of_jobs, of_pods, Timestamp::now());
    let facts = |job: &Arc<Job>| {
        let note = |key| annotation(&job.metadata, key);
        let facts = JobFacts {
            start: start_line(&job.metadata),
            spec_hash: note(labels::SPEC_HASH).map(str::to_owned),
            search_value: note(labels::SEARCH_VALUE).and_then(|value| value.parse().ok()),
        };
        (job.name_any(), facts)
    };
    let snapshot = Snapshot {
        holds: ctx.leases().iter().any(|lease| is_held_by(lease, &run.holder)),
        jobs: jobs.iter().map(facts).collect(),
        ..Snapshot::default()
    };
    let jobs = jobs.into_iter().map(|job| (job.name_any(), job)).collect();
    Fetched { snapshot, jobs, pods, unseen, ..Fetched::default() }
}

/// Said of the Datastore that the run refers to, if there is none any more.
fn target_gone(ctx: &Context, run: &ValidatedRun) -> Option<String> {
    let name = run.datastore_name()?;
    let there = ctx.world.datastores.find(|datastore| {
        datastore.name_any() == *name
            && datastore.namespace().as_ref() == Some(&run.holder.namespace)
            && datastore.metadata.deletion_timestamp.is_none()
    });
    there.is_none().then(|| format!("Datastore {name} was deleted while the run was under way"))
}

/// The target and the turn, and once the turn is the run's what its server says.
async fn target_and_turn(
    ctx: &Context,
    run: &ValidatedRun,
    old: &BenchmarkRunStatus,
    fetched: &mut Fetched,
) -> Result<(), Error> {
    let connection = fetched.snapshot.stored.values().find_map(|stored| stored.connection.as_ref());
    let begun = (!fetched.snapshot.stored.is_empty()).then_some(Begun { connection });
    fetched.snapshot.target = target::find(ctx, run, begun).await.map_err(Error::Target)?;
    let TargetState::Ready(found) = &fetched.snapshot.target else {
        return Ok(());
    };
    let world = &ctx.world;
    let (leases, runs) = (ctx.leases(), world.runs.state());
    let (nodes, pods) = (world.nodes.state(), world.pods.state());
    let operator_namespace = &ctx.settings.namespace;
    let seen = turn::Seen { leases: &leases, runs: &runs, nodes: &nodes, pods: &pods, operator_namespace };
    let setbacks = old.setback.as_ref().map_or(0, |setback| usize::try_from(setback.count).unwrap_or(0));
    let turn_check = turn::look(run, found, &seen, setbacks);
    if turn_check.turn == Turn::Held {
        fetched.snapshot.target =
            target::question(ctx, run, (**found).clone()).await.map_err(Error::Target)?;
        if let TargetState::Ready(target) = &fetched.snapshot.target {
            fetched.snapshot.placed = machines::placed(ctx, run, &turn_check.client_nodes, Some(target));
        }
    }
    fetched.snapshot.turn = turn_check.turn.clone();
    fetched.turn = Some(turn_check);
    Ok(())
}

/// Fetches everything for one pass over `run`, whose status is `old`. What its searches
/// measure next follows from what is stored, and is then settled in `run`.
pub async fn fetch(
    ctx: &Context,
    run: &mut ValidatedRun,
    old: &BenchmarkRunStatus,
) -> Result<Fetched, Error> {
    let mut fetched = seen(ctx, run);
    stored_results(ctx, run, &mut fetched).await?;
    search::settle(run, &fetched.snapshot.stored, &fetched.snapshot.jobs);
    let run = &*run;
    let current = match place_of(run, &fetched.snapshot.stored) {
        Place::At(current) => &run.attempts[current],
        Place::Failed(_) | Place::Done => {
            fetched.snapshot.target_gone = target_gone(ctx, run);
            return Ok(fetched);
        }
    };
    match fetched.jobs.get(&current.name) {
        // Its runners have gone: nobody is left to be asked.
        Some(_) if fetched.ended(current) => {}
        // While load runs nobody asks the server anything: it would cost it something.
        Some(job) if job.annotations().contains_key(labels::START_AT) => {
            fetched.runners = runners(ctx, run, current, &fetched).await;
        }
        Some(_) => {
            let bound: Vec<String> = fetched.pods_of(&current.name).filter_map(target::node_of).collect();
            if bound.len() >= usize::try_from(current.pods).unwrap_or(usize::MAX) {
                fetched.snapshot.placed = machines::placed(ctx, run, &bound, None);
            }
            let namespace = Some(&run.holder.namespace);
            fetched.warnings = ctx
                .world
                .warnings
                .state_filter(|event| event.involved_object.namespace.as_ref() == namespace);
        }
        // What is left of it is stored as lost.
        None if was_started(old, current) => {}
        None => {
            target_and_turn(ctx, run, old, &mut fetched).await?;
            fetched.snapshot.target_gone = target_gone(ctx, run);
        }
    }
    Ok(fetched)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{pod_result, run};
    use dragstrip_core::run::{merge::merge, summary::phases, validate::validate};

    #[test]
    fn a_summary_of_reduced_results_says_the_same() {
        let run = validate(&run(&["read"], 2)).unwrap();
        let measured = |attempt: &Attempt| {
            let pods = ["a", "b"].map(|pod| pod_result(pod, 1000, 1.0, 100));
            (attempt.name.clone(), merge(attempt, 2, pods.into()))
        };
        let complete: BTreeMap<_, _> = run.attempts.iter().step_by(2).map(measured).collect();
        let reduced: BTreeMap<_, _> =
            complete.iter().map(|(name, it)| (name.clone(), reduced(it.clone()))).collect();
        assert_eq!(complete.len(), 2);
        assert_eq!(phases(&run, &reduced), phases(&run, &complete), "what is shown was thrown away");
        let operations = reduced.values().flat_map(|result| &result.pods).map(|pod| pod.operations.len());
        assert_eq!(operations.sum::<usize>(), 0, "each pod's histograms are held in memory");
    }

    #[test]
    fn what_another_namespace_labels_as_a_runs_own_is_not() {
        let pod = |namespace: &str, uid: &str| -> Pod {
            serde_json::from_value(serde_json::json!({
                "metadata": {"name": "p", "namespace": namespace, "labels": {labels::RUN_UID: uid}}
            }))
            .unwrap()
        };
        assert!(is_of_run(&pod("races", "run-uid"), "races", "run-uid"));
        assert!(!is_of_run(&pod("races", "former-uid"), "races", "run-uid"));
        assert!(
            !is_of_run(&pod("elsewhere", "run-uid"), "races", "run-uid"),
            "it would hold the run's turn for ever"
        );
    }
}
