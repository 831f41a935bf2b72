//! Stored results: outcomes, from ConfigMaps' metadata, and contents. Needs the client.

use super::result_cache::Results;
use crate::{
    heavy::off_thread,
    run::context::{Pass, RunContext},
};
use dragstrip_core::{
    labels,
    lease::Holder,
    run::{snapshot::Snapshot, stored_result::stored_result, validate::ValidatedRun},
};
use dragstrip_crds::{BenchmarkRun, run::MemoryReading};
use dragstrip_results::{
    error_chain::chain,
    result::{RepetitionResult, TOTAL},
    stored,
};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, ResourceExt, api::ListParams};
use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("failed to list the stored results")]
    List(#[source] kube::Error),
    #[error("failed to read ConfigMap {1}, which holds a result")]
    Read(#[source] kube::Error, String),
    #[error("a stored result is damaged")]
    Damaged(#[from] stored::Error),
}

/// Outcomes of a run's stored results, and what is wrong with those that cannot be read.
#[derive(Default)]
struct Listed {
    results: Results,
    damaged: Vec<String>,
}

/// Whether `object` is one that the operator wrote for the run of `holder`, by its owner and its name:
/// anybody who may edit ConfigMaps may write labels.
fn is_own(object: &impl ResourceExt, holder: &Holder) -> bool {
    let named = object.name_any().strip_prefix(&holder.name).is_some_and(|rest| rest.starts_with('-'));
    let owned = object.owner_references().iter().any(|owner| owner.uid == holder.uid);
    named && owned && object.namespace().as_ref() == Some(&holder.namespace)
}

/// Lists the stored results of `runs`; the answer is by uid.
async fn list(api: &Api<ConfigMap>, runs: &[Holder]) -> Result<HashMap<String, Listed>, Error> {
    let uids: Vec<&str> = runs.iter().map(|run| run.uid.as_str()).collect();
    let selector = format!("{} in ({})", labels::RUN_UID, uids.join(","));
    let list = api.list_metadata(&ListParams::default().labels(&selector)).await.map_err(Error::List)?;
    let mut listed: HashMap<String, Listed> =
        uids.iter().map(|uid| ((*uid).to_owned(), Listed::default())).collect();
    for holder in runs {
        let own = list.items.iter().filter(|object| is_own(*object, holder));
        let (parts, first): (Vec<_>, Vec<_>) =
            own.partition(|object| object.labels().contains_key(stored::PART));
        let parts: HashSet<String> = parts.iter().map(|part| part.name_any()).collect();
        let run = listed.entry(holder.uid.clone()).or_default();
        for object in first {
            let name = object.name_any();
            match stored_result(&object.metadata) {
                Ok(mut result) => {
                    result.settled = parts.contains(&stored::settled_name(&name));
                    run.results.insert(name, result);
                }
                Err(damage) => run.damaged.push(chain(&damage)),
            }
        }
    }
    Ok(listed)
}

fn under_way(ctx: &RunContext) -> Vec<Holder> {
    let holder = |run: &Arc<BenchmarkRun>| {
        Some(Holder { namespace: run.namespace()?, name: run.name_any(), uid: run.uid()? })
    };
    ctx.world.runs.state().iter().filter_map(holder).collect()
}

fn cache(ctx: &RunContext, uid: &str, listed: &Listed) {
    if listed.damaged.is_empty() {
        let under_way = under_way(ctx).into_iter().map(|run| run.uid).collect();
        ctx.result_cache.insert(uid, listed.results.clone(), &under_way);
    }
}

/// Fills `snapshot` with the outcomes of the run's stored results.
pub async fn outcomes(ctx: &RunContext, run: &ValidatedRun, snapshot: &mut Snapshot) -> Result<(), Error> {
    let uid = &run.holder.uid;
    if let Some(results) = ctx.result_cache.get(uid) {
        snapshot.stored = results;
        return Ok(());
    }
    let listed = list(&config_maps(ctx, run), std::slice::from_ref(&run.holder)).await?;
    for (uid, listed) in listed {
        cache(ctx, &uid, &listed);
        (snapshot.stored, snapshot.damaged) = (listed.results, listed.damaged);
    }
    Ok(())
}

/// Runs whose stored results are listed in one request: their uids are in its address.
const UIDS: usize = 50;

/// Caches the outcomes of all runs under way, which each would otherwise list by itself at the
/// start. A run whose results cannot all be read lists them again, and reports that.
pub async fn cache_all(ctx: &RunContext) -> Result<(), Error> {
    let api: Api<ConfigMap> = ctx.settings.scope().api(&ctx.client);
    for runs in under_way(ctx).chunks(UIDS) {
        for (uid, listed) in list(&api, runs).await? {
            cache(ctx, &uid, &listed);
        }
    }
    Ok(())
}

fn config_maps(ctx: &RunContext, run: &ValidatedRun) -> Api<ConfigMap> {
    Api::namespaced(ctx.client.clone(), &run.holder.namespace)
}

async fn read(api: &Api<ConfigMap>, name: &str) -> Result<Option<ConfigMap>, Error> {
    api.get_opt(name).await.map_err(|error| Error::Read(error, name.to_owned()))
}

/// One complete stored result, from the ConfigMaps of its namespace.
pub async fn result(api: &Api<ConfigMap>, name: &str) -> Result<RepetitionResult, Error> {
    let first = read(api, name).await?.ok_or_else(|| stored::Error::Absent(name.to_owned()))?;
    let mut later = BTreeMap::new();
    for part in stored::later_parts(&first)? {
        later.extend(read(api, &part).await?.map(|map| (part, map)));
    }
    let unpack = move || stored::unpack(&first, |part| later.get(part), stored::MOST_RESULT_BYTES);
    Ok(off_thread(unpack).await?)
}

/// The readings of the servers' memory after the settle time of the result called `name`.
async fn settled_readings(api: &Api<ConfigMap>, name: &str) -> Result<Vec<MemoryReading>, Error> {
    let name = stored::settled_name(name);
    let map = read(api, &name).await?.ok_or(stored::Error::Absent(name))?;
    Ok(stored::settled(&map)?)
}

/// `result` without what no summary of several shows: for many pods and repetitions that would
/// be more than the operator may have in memory at once.
fn reduced(mut result: RepetitionResult) -> RepetitionResult {
    for pod in &mut result.pods {
        // The result has their sums.
        (pod.operations, pod.metrics, pod.notes, pod.memory) = Default::default();
        (pod.errors, pod.commands, pod.warmup) = Default::default();
        (pod.per_second, pod.due_per_second, pod.schedule_lag, pod.batches) = Default::default();
        (pod.workers, pod.client.threads) = Default::default();
        if let Some(server) = &mut pod.server {
            server.shards.clear();
            let counters = [Some(&mut server.before), server.after.as_mut()].into_iter().flatten();
            counters.for_each(|seen| (seen.commands, seen.errors) = Default::default());
        }
    }
    for server in &mut result.servers {
        server.usage.threads.clear();
    }
    result
}

const MOST_HISTOGRAM_BYTES: usize = 24 << 20;

fn histogram_bytes(result: &RepetitionResult) -> usize {
    result.operations.iter().filter_map(|row| row.histogram.as_ref()).map(|it| it.0.len()).sum()
}

/// The result called `name`, with its readings of memory, as far as a summary needs it.
async fn summarised(api: &Api<ConfigMap>, name: &str, settled: bool) -> Result<RepetitionResult, Error> {
    let mut result = result(api, name).await?;
    if settled {
        result.memory.extend(settled_readings(api, name).await?);
    }
    Ok(reduced(result))
}

/// All results by name, as far as a summary needs them, and what is wrong with others.
pub async fn results(
    pass: &Pass<'_>,
    stored: &Results,
) -> Result<(BTreeMap<String, RepetitionResult>, Vec<String>), Error> {
    let (mut results, mut damaged, mut bytes) = (BTreeMap::new(), Vec::new(), 0);
    let api = config_maps(pass, pass.run);
    for (name, stored) in stored {
        match summarised(&api, name, stored.settled).await {
            Ok(mut result) => {
                bytes += histogram_bytes(&result);
                if bytes > MOST_HISTOGRAM_BYTES {
                    // Its latencies are then left out of the summary, which says so.
                    let single = result.operations.iter_mut().filter(|row| row.name != TOTAL);
                    single.for_each(|row| row.histogram = None);
                }
                results.insert(name.clone(), result);
            }
            Err(Error::Damaged(damage)) => damaged.push(chain(&damage)),
            Err(error) => return Err(error),
        }
    }
    Ok((results, damaged))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_what_the_run_owns_under_a_name_of_its_own_is_read() {
        let holder = Holder { namespace: "pits".into(), name: "sprint".into(), uid: "run-uid".into() };
        let is_own = |name: &str, namespace: &str, owner: &str| {
            let map: ConfigMap = serde_json::from_value(json!({"metadata": {
                "name": name, "namespace": namespace, "labels": {labels::RUN_UID: "run-uid"},
                "ownerReferences": [{"apiVersion": "v1", "kind": "BenchmarkRun", "name": "sprint", "uid": owner}],
            }}))
            .unwrap();
            is_own(&map, &holder)
        };
        assert!(is_own("sprint-read-1", "pits", "run-uid"));
        assert!(!is_own("sprint-read-1", "pits", "other"), "a label alone makes nobody's object a result");
        assert!(!is_own("other-read-1", "pits", "run-uid"), "no attempt of the run has this name");
        assert!(!is_own("sprint-read-1", "other", "run-uid"), "it is in another namespace");
    }
}
