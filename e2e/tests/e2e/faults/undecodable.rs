//! An object that the operator cannot read stops no other, after a restart either.

use crate::common::redis;
use anyhow::{Context, Result, ensure};
use dragstrip_crds::{conditions::types::DECODABLE, run::RunPhase};
use dragstrip_e2e::{
    Env, Look, NOTICE, SERVER_UP, SHORT_RUN, alone, kubectl,
    manifests::{ONE_PHASE, REDIS, against},
    operator, until,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{Api, Client, api::PostParams};
use serde_json::{Value, json};

/// Kind, plural, and a field of its spec with rules of its own.
const LOOSENED: [(&str, &str, &str); 2] =
    [("BenchmarkRun", "benchmarkruns", "timeout"), ("Datastore", "datastores", "maxMemory")];

async fn change(client: &Client, plural: &str, edit: impl Fn(&mut Value) -> Result<()>) -> Result<()> {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let name = format!("{plural}.dragstrip.dev");
    let mut definition = serde_json::to_value(definitions.get(&name).await?)?;
    edit(&mut definition["spec"])?;
    definitions.replace(&name, &PostParams::default(), &serde_json::from_value(definition)?).await?;
    Ok(())
}

/// Takes the rules off a field, as a version had it that knew none.
fn loosen(spec: &mut Value, field: &str) -> Result<()> {
    let schema = spec.pointer_mut("/versions/0/schema/openAPIV3Schema").context("no schema")?;
    let rules = "x-kubernetes-validations";
    schema.as_object_mut().context("no object")?.remove(rules);
    let spec = schema.pointer_mut("/properties/spec").and_then(Value::as_object_mut).context("no spec")?;
    spec.remove(rules);
    spec.get_mut("properties").context("no properties")?[field] = json!({"type": "string"});
    Ok(())
}

/// Runs `test` with loosened definitions. They are put back, and what only they let
/// pass is removed, however it ends.
async fn loosened(env: &Env, test: impl Future<Output = Result<()>>) -> Result<()> {
    let definitions: Api<CustomResourceDefinition> = Api::all(env.client.clone());
    let mut originals = Vec::new();
    for (_, plural, field) in LOOSENED {
        let name = format!("{plural}.dragstrip.dev");
        originals.push((plural, serde_json::to_value(definitions.get(&name).await?)?["spec"].clone()));
        change(&env.client, plural, |spec| loosen(spec, field)).await?;
    }
    let outcome = test.await;
    for (kind, ..) in LOOSENED {
        let delete =
            ["delete", kind, "garbled", "-n", &env.namespace, "--ignore-not-found", "--timeout", "30s"];
        kubectl::must(&delete, "").await?;
    }
    for (plural, was) in originals {
        change(&env.client, plural, |spec| {
            *spec = was.clone();
            Ok(())
        })
        .await?;
    }
    outcome
}

/// The apiserver takes a while to follow a definition.
async fn garbled(env: &Env) -> Result<()> {
    let run = against("redis", &ONE_PHASE.replace("timeout: 2m", "timeout: soon"));
    until("a garbled run taken", SERVER_UP, || async { Ok(Look::Done(env.run("garbled", &run).await?)) })
        .await?;
    let datastore = REDIS.replace("maxMemory: 256Mi", "maxMemory: lots");
    until("a garbled Datastore taken", SERVER_UP, || async {
        Ok(Look::Done(env.datastore("garbled", &datastore).await?))
    })
    .await
}

/// Waits until the object says of itself that it cannot be read.
async fn says_so(env: &Env, kind: &str) -> Result<()> {
    let get = ["get", kind, "garbled", "-n", &env.namespace, "-o", "json"];
    until(&format!("{kind} garbled says that it cannot be decoded"), NOTICE, || async {
        let object: Value = serde_json::from_str(&kubectl::must(&get, "").await?)?;
        let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let reported = conditions.iter().any(|c| c["type"] == DECODABLE && c["status"] == "False");
        Ok(if reported { Look::Done(()) } else { Look::NotYet(format!("{conditions:?}")) })
    })
    .await
}

async fn others_go_on(env: &Env, datastore: &str, run: &str) -> Result<()> {
    env.datastore(datastore, REDIS).await?;
    env.datastore_ready(datastore).await?;
    env.run(run, &against(datastore, ONE_PHASE)).await?;
    env.run_in(run, RunPhase::Succeeded, SHORT_RUN).await?;
    Ok(())
}

#[tokio::test]
async fn objects_that_cannot_be_decoded_stop_no_other_even_after_a_restart() -> Result<()> {
    alone("garbled", |env| async move {
        redis(&env).await?;
        loosened(&env, async {
            garbled(&env).await?;
            for (kind, ..) in LOOSENED {
                says_so(&env, kind).await?;
            }
            others_go_on(&env, "before", "before").await?;
            operator::restart(&env.client).await?;
            others_go_on(&env, "after", "after").await?;
            let counted = operator::metric(&env.client, "dragstrip_undecodable_objects").await?;
            let sum: f64 = counted.values().sum();
            ensure!(sum >= 2.0, "the operator counts {counted:?}");
            Ok(())
        })
        .await
    })
    .await
}
