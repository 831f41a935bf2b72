//! Carries out what is next for a suite: makes runs, has them stop, stores the report. Needs
//! the client. What is there already and is not the suite's is never touched.

use super::{
    build::{self, is_own},
    cache::SuiteCache,
};
use crate::context::Context;
use dragstrip_core::{
    labels::{GIVEN_SPEC, SUITE_MANAGER},
    suite::expand::{self, Plan, PlannedCell, spec_of},
};
use dragstrip_crds::{BenchmarkRun, BenchmarkSuite};
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams, PostParams},
    core::{NamespaceResourceScope, Status},
};
use serde::{Serialize, de::DeserializeOwned};
use std::{fmt::Debug, time::Instant};

/// A step that failed. What keeps an object from being made is told in the suite's status.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("failed to make the spec of a run")]
    Expand(#[from] expand::Invalid),
    #[error("{kind} {name} cannot be made")]
    Create { kind: String, name: String, source: kube::Error },
    #[error("{0} {1} exists and does not belong to this suite: delete it, or give the suite another name")]
    Strange(String, String),
    #[error("{0} {1} is still being deleted: the operator creates it again after that")]
    Leaving(String, String),
    #[error(
        "{0} {1} was made from another spec of this suite, and its numbers do not count: delete it, or give the suite another name"
    )]
    OtherSpec(String, String),
    #[error(
        "this version of the operator cannot read BenchmarkRun {name}, which is left alone: {why}: when it is deleted it is made anew"
    )]
    Unreadable { name: String, why: String },
    #[error("{1} cannot be stopped")]
    Cancel(#[source] kube::Error, String),
}

/// Whether `there`, of this `kind`, is the suite's own, as `given` would be made; nothing else
/// is ever touched.
fn is_same(
    kind: &str,
    there: &impl ResourceExt,
    suite_uid: &str,
    given: Option<&String>,
) -> Result<(), Error> {
    let (kind, name) = (kind.to_owned(), there.name_any());
    if there.meta().deletion_timestamp.is_some() {
        return Err(Error::Leaving(kind, name));
    }
    if !is_own(there, suite_uid) {
        return Err(Error::Strange(kind, name));
    }
    match (there.annotations().get(GIVEN_SPEC), given) {
        (Some(there), Some(given)) if there != given => Err(Error::OtherSpec(kind, name)),
        _ => Ok(()),
    }
}

/// Whether an object like `object` is there; what is there and not the suite's is an error.
pub async fn is_there<K>(ctx: &Context, suite_uid: &str, object: &K) -> Result<bool, Error>
where
    K: Made,
{
    let api: Api<K> = Api::namespaced(ctx.client.clone(), &object.namespace().unwrap_or_default());
    let (kind, name) = (K::kind(&()).into_owned(), object.name_any());
    let failed = |source| Error::Create { kind: kind.clone(), name: name.clone(), source };
    let Some(there) = api.get_metadata_opt(&name).await.map_err(failed)? else { return Ok(false) };
    is_same(&kind, &there, suite_uid, object.annotations().get(GIVEN_SPEC)).map(|()| true)
}

/// What a suite makes.
pub trait Made:
    kube::Resource<Scope = NamespaceResourceScope, DynamicType = ()>
    + Clone
    + Debug
    + Serialize
    + DeserializeOwned
{
}
impl Made for BenchmarkRun {}
impl Made for BenchmarkSuite {}
impl Made for ConfigMap {}

/// Makes `object`, unless it is there and the suite's own already.
pub async fn create<K: Made>(ctx: &Context, suite_uid: &str, object: &K) -> Result<(), Error> {
    let api: Api<K> = Api::namespaced(ctx.client.clone(), &object.namespace().unwrap_or_default());
    let parameters = PostParams { field_manager: Some(SUITE_MANAGER.to_owned()), ..PostParams::default() };
    let Err(refused) = api.create(&parameters, object).await else { return Ok(()) };
    let exists = matches!(&refused, kube::Error::Api(status) if status.is_already_exists());
    if exists && is_there(ctx, suite_uid, object).await? {
        return Ok(());
    }
    Err(Error::Create { kind: K::kind(&()).into_owned(), name: object.name_any(), source: refused })
}

/// Makes the runs at these places of the order, until something is in the way.
pub async fn make(
    ctx: &Context,
    suite: &BenchmarkSuite,
    plan: &Plan,
    places: &[usize],
    cache: &mut SuiteCache,
) -> Result<(), Error> {
    let uid = suite.uid().unwrap_or_default();
    for (cell, repetition) in places.iter().map(|place| plan.order[*place]) {
        let cell = &plan.cells[cell];
        let name = plan.name(cell, repetition);
        if let Some(why) = cache.unreadable.get(&name) {
            return Err(Error::Unreadable { name, why: why.clone() });
        }
        let run = build::child(suite, plan, (cell, repetition), spec_of(suite, cell)?);
        create(ctx, &uid, &run).await?;
        let (suite, namespace) = (suite.name_any(), suite.namespace());
        tracing::info!(suite, namespace, run = name, cell = cell.words, repetition, "run of a suite made");
        cache.made.insert(name, Some(Instant::now()));
    }
    Ok(())
}

/// Tells an object called `name` to stop; one that is gone needs no telling.
pub async fn cancel<K: Made>(ctx: &Context, namespace: &str, name: &str) -> Result<(), Error> {
    let api: Api<K> = Api::namespaced(ctx.client.clone(), namespace);
    let body = Patch::Merge(serde_json::json!({"spec": {"cancel": true}}));
    let parameters = PatchParams { field_manager: Some(SUITE_MANAGER.to_owned()), ..PatchParams::default() };
    // An answer that this version cannot read would be no failure.
    match api.patch_metadata(name, &parameters, &body).await {
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        Err(error) => Err(Error::Cancel(error, name.to_owned())),
        Ok(_) => Ok(()),
    }
}

/// Whether the apiserver will never take an object, whatever time passes: a rule or policy is
/// against it. A quota is not, nor a right that the operator lacks.
fn is_final(status: &Status) -> bool {
    status.code == 422 || status.is_forbidden() && status.message.contains("ValidatingAdmissionPolicy")
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
        Err(kube::Error::Api(status)) if is_final(&status) => {
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
        let requests = cells.iter().map(|cell| judge_one(&api, suite, plan, cell));
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
    fn what_is_there_is_told_with_the_remedy_and_whose_it_is() {
        let own = json!([{"apiVersion": "v1", "kind": "BenchmarkSuite", "name": "s", "uid": "uid", "controller": true}]);
        let reported = |metadata: Value| {
            let mut map: ConfigMap = serde_json::from_value(json!({"metadata": metadata})).unwrap();
            map.metadata.name = Some(report_name("s"));
            let given = Some("given".to_owned());
            is_same("ConfigMap", &map, "uid", given.as_ref()).err().map(|error| error.to_string())
        };
        let with = |given: &str| json!({"ownerReferences": own, "annotations": {(GIVEN_SPEC): given}});
        assert_eq!(reported(json!({"ownerReferences": own})), None, "an earlier version made it");
        assert_eq!(reported(with("given")), None);
        let says = |metadata: Value, words: &str| {
            let reported = reported(metadata).unwrap_or_default();
            assert!(
                reported.contains("ConfigMap s-report") && reported.contains(words),
                "{words:?}: {reported}"
            );
        };
        says(with("other"), "made from another spec of this suite");
        says(json!({}), "does not belong to this suite: delete it");
        says(json!({"deletionTimestamp": "2026-01-01T00:00:00Z"}), "still being deleted");
        says(
            json!({"ownerReferences": own, "deletionTimestamp": "2026-01-01T00:00:00Z"}),
            "still being deleted: the operator creates it again",
        );
    }
}
