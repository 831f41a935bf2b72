//! Carries out the next step of a suite: creates runs, cancels them, stores the report. Needs the
//! client. Existing objects that are not the suite's are never touched.

use super::{
    build::{self, is_own},
    cache::SuiteCache,
    context::PlannedPass,
};
use crate::cluster::{
    apply::{self, Namespaced},
    context::Context,
};
use dragstrip_core::{
    labels::{GIVEN_SPEC, SUITE_MANAGER},
    suite::expand::{self, PlannedCell, spec_of},
};
use dragstrip_crds::BenchmarkRun;
use futures::future::try_join_all;
use kube::{
    Api, ResourceExt,
    api::{PartialObjectMeta, Patch, PatchParams, PostParams},
    core::Status,
};
use serde::Serialize;
use std::time::Instant;

/// A step that failed. The suite's status shows why an object was not created.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("failed to expand the spec of a run")]
    Expand(#[from] expand::Invalid),
    #[error("{kind} {name} cannot be created")]
    Create { kind: String, name: String, source: kube::Error },
    #[error("{0} {1} exists and does not belong to this suite: delete it, or give the suite another name")]
    Strange(String, String),
    #[error("{0} {1} is still being deleted: the operator creates it again after that")]
    Leaving(String, String),
    #[error(
        "{0} {1} was created from another spec of this suite, and its numbers do not count: delete it, or give the suite another name"
    )]
    OtherSpec(String, String),
    #[error(
        "this version of the operator cannot read BenchmarkRun {name}, which it does not change: {why}: delete the run, and the operator creates it again"
    )]
    Unreadable { name: String, why: String },
    #[error("{1} cannot be cancelled")]
    Cancel(#[source] kube::Error, String),
}

fn check<K: Namespaced>(existing: &PartialObjectMeta<K>, suite_uid: &str, planned: &K) -> Result<(), Error> {
    let (kind, name) = (K::kind(&()).into_owned(), planned.name_any());
    if existing.metadata.deletion_timestamp.is_some() {
        return Err(Error::Leaving(kind, name));
    }
    if !is_own(existing, suite_uid) {
        return Err(Error::Strange(kind, name));
    }
    if existing.annotations().get(GIVEN_SPEC) != planned.annotations().get(GIVEN_SPEC) {
        return Err(Error::OtherSpec(kind, name));
    }
    Ok(())
}

fn failed<K: Namespaced>(object: &K, source: kube::Error) -> Error {
    Error::Create { kind: K::kind(&()).into_owned(), name: object.name_any(), source }
}

/// Whether an object like `planned` exists; an existing object that is not the suite's is an error.
pub async fn exists<K: Namespaced>(ctx: &Context, suite_uid: &str, planned: &K) -> Result<bool, Error> {
    let existing = apply::api(&ctx.client, planned).get_metadata_opt(&planned.name_any()).await;
    let Some(existing) = existing.map_err(|source| failed(planned, source))? else { return Ok(false) };
    check(&existing, suite_uid, planned).map(|()| true)
}

/// Creates `object`, unless it exists and is the suite's own.
pub async fn create<K: Namespaced + Serialize>(ctx: &Context, uid: &str, object: &K) -> Result<(), Error> {
    let existing = apply::create(&ctx.client, SUITE_MANAGER, object).await;
    match existing.map_err(|source| failed(object, source))? {
        Some(existing) => check(&existing, uid, object),
        None => Ok(()),
    }
}

/// Creates the runs at these places of the plan, until one fails.
pub async fn create_runs(
    at: &PlannedPass<'_>,
    places: &[usize],
    cache: &mut SuiteCache,
) -> Result<(), Error> {
    let (suite, plan, uid) = (at.suite, at.plan, at.uid());
    for (cell, repetition) in places.iter().map(|place| plan.order[*place]) {
        let cell = &plan.cells[cell];
        let name = plan.name(cell, repetition);
        if let Some(why) = cache.unreadable.get(&name) {
            return Err(Error::Unreadable { name, why: why.clone() });
        }
        let run = build::child(suite, plan, (cell, repetition), spec_of(suite, cell)?);
        create(at, &uid, &run).await?;
        let (suite, namespace) = (suite.name_any(), suite.namespace());
        tracing::info!(suite, namespace, run = name, cell = cell.words, repetition, "run of a suite created");
        cache.created.insert(name, Some(Instant::now()));
    }
    Ok(())
}

/// Cancels the object called `name`; one that is gone is fine.
pub async fn cancel<K: Namespaced>(ctx: &Context, namespace: &str, name: &str) -> Result<(), Error> {
    let api: Api<K> = Api::namespaced(ctx.client.clone(), namespace);
    let body = Patch::Merge(serde_json::json!({"spec": {"cancel": true}}));
    let parameters = PatchParams { field_manager: Some(SUITE_MANAGER.to_owned()), ..PatchParams::default() };
    // This version may not be able to read the complete object.
    match api.patch_metadata(name, &parameters, &body).await {
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        Err(error) => Err(Error::Cancel(error, name.to_owned())),
        Ok(_) => Ok(()),
    }
}

/// Whether the API server refuses an object for good, because of a rule or policy. A quota is not
/// final, nor a permission that the operator lacks.
fn is_final(status: &Status) -> bool {
    status.code == 422 || status.is_forbidden() && status.message.contains("ValidatingAdmissionPolicy")
}

const CONCURRENCY: usize = 8;

/// Why the API server refuses the first run of `cell`.
async fn judge_one(
    api: &Api<BenchmarkRun>,
    at: &PlannedPass<'_>,
    cell: &PlannedCell,
) -> Result<Option<String>, Error> {
    let run = build::child(at.suite, at.plan, (cell, 1), spec_of(at.suite, cell)?);
    let dry = PostParams { dry_run: true, field_manager: Some(SUITE_MANAGER.to_owned()) };
    match api.create(&dry, &run).await {
        Err(kube::Error::Api(status)) if is_final(&status) => {
            Ok(Some(format!("the run of {} is refused: {}", cell.words, status.message)))
        }
        // Its owner is checked when the run is to be created.
        Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(None),
        Err(source) => Err(Error::Create { kind: "BenchmarkRun".to_owned(), name: run.name_any(), source }),
        Ok(_) => Ok(None),
    }
}

/// Why the API server refuses runs of a suite before its first: by a dry run of each combination.
pub async fn judge(at: &PlannedPass<'_>) -> Result<Option<String>, Error> {
    let api: Api<BenchmarkRun> = at.api();
    let (mut first, mut more) = (None, 0);
    for cells in at.plan.cells.chunks(CONCURRENCY) {
        let requests = cells.iter().map(|cell| judge_one(&api, at, cell));
        for reported in try_join_all(requests).await?.into_iter().flatten() {
            if first.is_none() {
                first = Some(reported);
            } else {
                more += 1;
            }
        }
    }
    Ok(first.map(|first| if more == 0 { first } else { format!("{first}; and {more} more combinations") }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::build::report_name;
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::{Value, json};

    #[test]
    fn only_rules_and_policies_refuse_a_suite_for_good() {
        let status = |code: u16, reason: &str, message: &str| {
            *Status::failure(message, reason).with_code(code).boxed()
        };
        let quota = "benchmarkruns.dragstrip.dev \"s-1\" is forbidden: exceeded quota: few";
        assert!(!is_final(&status(403, "Forbidden", quota)), "others' runs end, and then there is room");
        let policy = "benchmarkruns.dragstrip.dev \"s-1\" is forbidden: ValidatingAdmissionPolicy 'p' with \
                      binding 'b' denied request: no";
        assert!(is_final(&status(403, "Forbidden", policy)));
        assert!(is_final(&status(422, "Invalid", "spec.timeout: Invalid value")));
        assert!(!is_final(&status(500, "InternalError", "etcd is away")));
    }

    #[test]
    fn an_existing_object_is_reported_with_its_owner_and_the_remedy() {
        let own = json!([{"apiVersion": "v1", "kind": "BenchmarkSuite", "name": "s", "uid": "uid", "controller": true}]);
        let map = |metadata: Value| -> PartialObjectMeta<ConfigMap> {
            let mut map: PartialObjectMeta<ConfigMap> =
                serde_json::from_value(json!({"metadata": metadata})).unwrap();
            map.metadata.name = Some(report_name("s"));
            map
        };
        let with = |given: &str| json!({"ownerReferences": own, "annotations": {(GIVEN_SPEC): given}});
        let planned = ConfigMap { metadata: map(with("given")).metadata, ..ConfigMap::default() };
        let reported =
            |metadata: Value| check(&map(metadata), "uid", &planned).err().map(|error| error.to_string());
        assert_eq!(reported(with("given")), None);
        let says = |metadata: Value, words: &str| {
            let reported = reported(metadata).unwrap_or_default();
            assert!(
                reported.contains("ConfigMap s-report") && reported.contains(words),
                "{words:?}: {reported}"
            );
        };
        says(with("other"), "created from another spec of this suite");
        says(json!({}), "does not belong to this suite: delete it");
        says(json!({"deletionTimestamp": "2026-01-01T00:00:00Z"}), "still being deleted");
        says(
            json!({"ownerReferences": own, "deletionTimestamp": "2026-01-01T00:00:00Z"}),
            "still being deleted: the operator creates it again",
        );
    }
}
