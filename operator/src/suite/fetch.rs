//! The states of a suite's runs: those under way from the watch, those that have ended read once
//! each, and after a restart listed. Needs the client.

use super::{
    build::is_own,
    cache::SuiteCache,
    context::{Pass, PlannedPass},
    ended::Ended,
};
use dragstrip_core::{
    labels,
    suite::{decide::Child, expand::PlannedCell},
};
use dragstrip_crds::{BenchmarkRun, run::RunPhase};
use kube::{Api, ResourceExt, api::ListParams, core::DeserializeGuard};
use std::{
    collections::{HashMap, HashSet},
    time::{Duration, Instant},
};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("failed to list the runs of the suite")]
    List(#[source] kube::Error),
    #[error("failed to read BenchmarkRun {1}")]
    Read(#[source] kube::Error, String),
    #[error("failed to compress BenchmarkRun {1}")]
    Compress(#[source] serde_json::Error, String),
}

const PAGE: u32 = 100;
/// How long the watch may not show a run that was just created before the operator reads it.
pub const WATCH_LAGS: Duration = Duration::from_secs(10);

type Names<'a> = HashMap<String, &'a PlannedCell>;

#[derive(Debug)]
enum Found {
    Ended(Box<BenchmarkRun>),
    UnderWay,
    /// This version cannot read it.
    Unreadable(String),
    /// It belongs to somebody else, or to another declaration of the suite.
    Other,
}

fn has_ended(run: &BenchmarkRun) -> bool {
    run.status.as_ref().is_some_and(|status| status.finished_at.is_some())
        && run.metadata.deletion_timestamp.is_none()
}

/// Whether `run` was created for the suite with this uid, with the spec that its plan has for it.
fn is_planned(run: &impl ResourceExt, uid: &str, names: &Names<'_>) -> bool {
    let planned = names.get(&run.name_any()).map(|cell| &cell.given_spec);
    is_own(run, uid) && planned.is_some() && run.annotations().get(labels::GIVEN_SPEC) == planned
}

fn classify(run: DeserializeGuard<BenchmarkRun>, uid: &str, names: &Names<'_>) -> Found {
    if !is_planned(&run, uid, names) {
        return Found::Other;
    }
    match run.0 {
        Ok(run) if has_ended(&run) => Found::Ended(Box::new(run)),
        Ok(_) => Found::UnderWay,
        Err(invalid) => Found::Unreadable(invalid.error),
    }
}

fn record(cache: &mut SuiteCache, name: String, found: Found) -> Result<(), Error> {
    cache.created.remove(&name);
    cache.unreadable.remove(&name);
    match found {
        Found::Ended(mut run) => {
            // Nobody reads them.
            run.managed_fields_mut().clear();
            let ended = Ended::of(&run).map_err(|error| Error::Compress(error, name.clone()))?;
            cache.ended.insert(name, ended);
        }
        Found::UnderWay => {
            cache.created.insert(name, Some(Instant::now()));
        }
        Found::Unreadable(why) => {
            cache.unreadable.insert(name, why);
        }
        Found::Other => {}
    }
    Ok(())
}

/// The runs of a suite in the API server.
struct Runs<'a> {
    api: Api<DeserializeGuard<BenchmarkRun>>,
    uid: &'a str,
    names: &'a Names<'a>,
    cancelled: bool,
}

fn of_suite(uid: &str) -> ListParams {
    ListParams::default().labels(&format!("{}={uid}", labels::SUITE_UID))
}

impl Runs<'_> {
    /// Records all runs that exist.
    async fn list(&self, cache: &mut SuiteCache) -> Result<(), Error> {
        let mut page = of_suite(self.uid).limit(PAGE);
        loop {
            let listed = self.api.list(&page).await.map_err(Error::List)?;
            for run in listed.items {
                let name = run.name_any();
                record(cache, name, classify(run, self.uid, self.names))?;
            }
            match listed.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => page = page.continue_token(&token),
                None => break,
            }
        }
        cache.listed = true;
        Ok(())
    }

    /// Reads and records the run called `name`, which the watch does not show, or not yet.
    async fn read(&self, name: String, cache: &mut SuiteCache) -> Result<(), Error> {
        let found = self.api.get_opt(&name).await.map_err(|error| Error::Read(error, name.clone()))?;
        let found = found.map_or(Found::Other, |run| classify(run, self.uid, self.names));
        let message = match &found {
            Found::Ended(run) => run.status.as_ref().and_then(|status| status.message.clone()),
            _ => None,
        };
        record(cache, name.clone(), found)?;
        if cache.child(&name, None, self.cancelled) == (Child::Ended { failed: true }) {
            cache.unannounced.push((name, message.unwrap_or_default()));
        }
        Ok(())
    }
}

/// Drops deleted ended runs from the cache, to be measured again; returns whether there are any.
pub async fn drop_deleted(pass: &Pass<'_>, cache: &mut SuiteCache) -> Result<bool, Error> {
    let api = pass.api::<BenchmarkRun>();
    let listed = api.list_metadata(&of_suite(&pass.uid())).await.map_err(Error::List)?;
    let there: HashSet<String> = listed.items.iter().map(ResourceExt::name_any).collect();
    let before = cache.ended.len();
    cache.ended.retain(|name, _| there.contains(name));
    Ok(cache.ended.len() < before)
}

/// What a run waits for before its load: why the suite does not progress.
pub fn waiting(pass: &Pass<'_>) -> Option<String> {
    let (namespace, uid) = (pass.suite.namespace(), pass.uid());
    let waits = |run: &BenchmarkRun| {
        let before_load = [RunPhase::Pending, RunPhase::Provisioning, RunPhase::Queued];
        let phase = run.status.as_ref().map(|status| status.phase);
        phase.is_some_and(|phase| before_load.contains(&phase))
            && run.namespace() == namespace
            && is_own(run, &uid)
    };
    let mut runs = pass.world.runs.state_filter(waits);
    runs.sort_by_key(|run| run.metadata.creation_timestamp.clone());
    let run = runs.first()?;
    let status = run.status.as_ref()?;
    Some(format!("{} is {}: {}", run.name_any(), status.phase, status.message.as_deref()?))
}

/// The states of the runs of `plan`, in its sequence.
pub async fn children(at: &PlannedPass<'_>, cache: &mut SuiteCache) -> Result<Vec<Child>, Error> {
    let PlannedPass { pass: Pass { suite, .. }, plan } = at;
    let (uid, names) = (at.uid(), plan.names());
    let runs = Runs { api: at.api(), uid: &uid, names: &names, cancelled: suite.spec.cancel };
    if !cache.listed {
        runs.list(cache).await?;
    }
    let namespace = suite.namespace();
    let seen =
        at.world.runs.state_filter(|run| run.namespace() == namespace && is_planned(run, &uid, &names));
    let seen: HashMap<String, bool> =
        seen.iter().filter(|run| !has_ended(run)).map(|run| (run.name_any(), run.spec.cancel)).collect();
    let under_way = seen.keys().filter(|name| !cache.ended.contains_key(*name));
    cache.created.extend(under_way.map(|name| (name.clone(), None)));
    let unseen = |(name, since): (&String, &Option<Instant>)| {
        let lags = since.is_some_and(|since| since.elapsed() < WATCH_LAGS);
        (!seen.contains_key(name) && !lags).then(|| name.clone())
    };
    let unseen = cache.created.iter().filter_map(unseen).chain(cache.unreadable.keys().cloned());
    for name in unseen.collect::<Vec<_>>() {
        runs.read(name, cache).await?;
    }
    let state = |(place, repetition): &(usize, u32)| {
        let name = plan.name(&plan.cells[*place], *repetition);
        cache.child(&name, seen.get(&name).copied(), runs.cancelled)
    };
    Ok(plan.order.iter().map(state).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{spec, suite_of};
    use crate::suite::build;
    use dragstrip_core::suite::expand::{plan, spec_of};
    use serde_json::{Value, json};

    /// What the first run of a suite is after this `change`.
    fn found(change: impl FnOnce(&mut Value)) -> Found {
        let suite = suite_of(spec());
        let plan = plan(&suite, &|_| Ok(())).unwrap();
        let cell = &plan.cells[0];
        let run = build::child(&suite, &plan, (cell, 1), spec_of(&suite, cell).unwrap());
        let mut run = serde_json::to_value(run).unwrap();
        change(&mut run);
        classify(serde_json::from_value(run).unwrap(), "suite-uid", &plan.names())
    }

    fn end(run: &mut Value) {
        run["status"] = json!({"phase": "Succeeded", "finishedAt": "2026-01-01T00:01:05Z"});
    }

    #[test]
    fn numbers_of_another_declaration_of_the_suite_never_count() {
        assert!(matches!(found(end), Found::Ended(_)), "its own run counts");
        let other = found(|run| {
            end(run);
            run["metadata"]["annotations"][labels::GIVEN_SPEC] = json!("0123456789abcdef");
        });
        assert!(matches!(other, Found::Other), "numbers of two specs would be mixed: {other:?}");
        let unplanned = found(|run| run["metadata"]["name"] = json!("pipelines-00000000-1"));
        assert!(matches!(unplanned, Found::Other), "{unplanned:?}");
    }

    #[test]
    fn a_run_that_cannot_be_read_stops_no_other_and_is_reported_by_name() {
        let found = found(|run| run["spec"] = json!(7));
        assert!(matches!(&found, Found::Unreadable(why) if !why.is_empty()), "{found:?}");
        let mut cache = SuiteCache::default();
        record(&mut cache, "s-1".into(), found).unwrap();
        assert_eq!(cache.child("s-1", None, false), Child::Missing);
        assert!(cache.unreadable.contains_key("s-1"));
        record(&mut cache, "s-1".into(), Found::Other).unwrap();
        assert!(cache.unreadable.is_empty(), "it was deleted");
    }
}
