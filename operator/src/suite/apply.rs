//! Carries out what is next for a suite: makes runs, has them stop, stores the report. Needs
//! the client. What is there already and is not the suite's is never touched.

use super::{
    build::{self, is_own},
    expand::{self, Plan, PlannedCell, spec_of},
    known::Known,
};
use crate::{context::Context, labels::SUITE_MANAGER};
use dragstrip_crds::{BenchmarkRun, BenchmarkSuite};
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams, PostParams},
    core::NamespaceResourceScope,
};
use serde::{Serialize, de::DeserializeOwned};
use std::{fmt::Debug, time::Instant};

/// A step that failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A run's spec could not be made.
    #[error("failed to make the spec of a run")]
    Expand(#[from] expand::Invalid),
    /// An object could not be made.
    #[error("failed to make {kind} {name}")]
    Create {
        /// Its kind.
        kind: String,
        /// Its name.
        name: String,
        /// What the apiserver said.
        source: kube::Error,
    },
    /// A run could not be told to stop.
    #[error("failed to cancel {1}")]
    Cancel(#[source] kube::Error, String),
}

/// An object of that name, which is not the suite's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InTheWay {
    /// What is there, and the remedy.
    pub message: String,
}

/// Makes `object`, unless it is there and the suite's own already.
pub async fn create<K>(ctx: &Context, suite_uid: &str, object: &K) -> Result<Option<InTheWay>, Error>
where
    K: kube::Resource<Scope = NamespaceResourceScope, DynamicType = ()>
        + Clone
        + Debug
        + Serialize
        + DeserializeOwned,
{
    let api: Api<K> = Api::namespaced(ctx.client.clone(), &object.namespace().unwrap_or_default());
    let (kind, name) = (K::kind(&()).into_owned(), object.name_any());
    let failed = |source| Error::Create { kind: kind.clone(), name: name.clone(), source };
    match api
        .create(
            &PostParams { field_manager: Some(SUITE_MANAGER.to_owned()), ..PostParams::default() },
            object,
        )
        .await
    {
        Ok(_) => return Ok(None),
        Err(kube::Error::Api(status)) if status.is_already_exists() => {}
        Err(error) => return Err(failed(error)),
    }
    let Some(there) = api.get_metadata_opt(&name).await.map_err(failed)? else {
        return Ok(Some(InTheWay { message: format!("{kind} {name} of an earlier suite was just removed") }));
    };
    if is_own(&there, suite_uid) && there.metadata.deletion_timestamp.is_none() {
        return Ok(None);
    }
    let message = if there.metadata.deletion_timestamp.is_some() {
        format!("{kind} {name} of an earlier suite is still being removed")
    } else {
        format!(
            "{kind} {name} is there already and is not this suite's: delete it, or give the suite another name"
        )
    };
    Ok(Some(InTheWay { message }))
}

/// Makes the runs at these places of the order, until something is in the way.
pub async fn make(
    ctx: &Context,
    suite: &BenchmarkSuite,
    plan: &Plan,
    places: &[usize],
    known: &mut Known,
) -> Result<Option<InTheWay>, Error> {
    let uid = suite.uid().unwrap_or_default();
    for (cell, repetition) in places.iter().map(|place| plan.order[*place]) {
        let cell = &plan.cells[cell];
        let run = build::child(suite, plan, (cell, repetition), spec_of(suite, cell)?);
        if let Some(in_the_way) = create(ctx, &uid, &run).await? {
            return Ok(Some(in_the_way));
        }
        known.made.insert(run.name_any(), Some(Instant::now()));
        let (suite, namespace) = (suite.name_any(), suite.namespace());
        tracing::info!(
            suite,
            namespace,
            run = run.name_any(),
            cell = cell.words,
            repetition,
            "run of a suite made"
        );
    }
    Ok(None)
}

/// Tells an object called `name` to stop; one that is gone needs no telling.
pub async fn cancel<K>(ctx: &Context, namespace: &str, name: &str) -> Result<(), Error>
where
    K: kube::Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    let api: Api<K> = Api::namespaced(ctx.client.clone(), namespace);
    let body = Patch::Merge(serde_json::json!({"spec": {"cancel": true}}));
    let parameters = PatchParams { field_manager: Some(SUITE_MANAGER.to_owned()), ..PatchParams::default() };
    match api.patch(name, &parameters, &body).await {
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        Err(error) => Err(Error::Cancel(error, name.to_owned())),
        Ok(_) => Ok(()),
    }
}

/// Questions to the apiserver under way at the same time.
const ASKED_AT_ONCE: usize = 8;

/// What the apiserver has against the first run of `cell`.
async fn judge_one(
    api: &Api<BenchmarkRun>,
    suite: &BenchmarkSuite,
    plan: &Plan,
    cell: &PlannedCell,
) -> Result<Option<String>, Error> {
    let run = build::child(suite, plan, (cell, 1), spec_of(suite, cell)?);
    let dry = PostParams { dry_run: true, field_manager: Some(SUITE_MANAGER.to_owned()) };
    match api.create(&dry, &run).await {
        Err(kube::Error::Api(status)) if status.code == 422 || status.is_forbidden() => {
            Ok(Some(format!("the run of {} is refused: {}", cell.words, status.message)))
        }
        // Whose it is, is looked at when it is made.
        Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(None),
        Err(source) => Err(Error::Create { kind: "BenchmarkRun".to_owned(), name: run.name_any(), source }),
        Ok(_) => Ok(None),
    }
}

/// What the apiserver has against the runs of a suite, of which none was made yet: its rules
/// are asked about the first run of each combination, without making it.
pub async fn judge(ctx: &Context, suite: &BenchmarkSuite, plan: &Plan) -> Result<Option<String>, Error> {
    let api: Api<BenchmarkRun> = Api::namespaced(ctx.client.clone(), &suite.namespace().unwrap_or_default());
    let (mut first, mut more) = (None, 0);
    for cells in plan.cells.chunks(ASKED_AT_ONCE) {
        let asked = cells.iter().map(|cell| judge_one(&api, suite, plan, cell));
        for told in try_join_all(asked).await?.into_iter().flatten() {
            if first.is_none() {
                first = Some(told);
            } else {
                more += 1;
            }
        }
    }
    Ok(first.map(|first| if more == 0 { first } else { format!("{first}; and {more} more combinations") }))
}

/// Stores these ConfigMaps, until something is in the way.
pub async fn store(ctx: &Context, suite_uid: &str, maps: &[ConfigMap]) -> Result<Option<InTheWay>, Error> {
    for map in maps {
        if let Some(in_the_way) = create(ctx, suite_uid, map).await? {
            return Ok(Some(in_the_way));
        }
    }
    Ok(None)
}
