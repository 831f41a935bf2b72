//! What the API server and the operator say about one object, whatever the nodes are. Pure.

use super::{admission, documents::Document, kind::Kind};
use dragstrip_core::{
    datastore::validate::validate as validate_datastore,
    problem::Problem,
    run::validate::{unsuitable, validate as validate_run},
    schema,
    suite::{
        expand::{ChildRun, expand},
        schedule::Schedule,
    },
};
use dragstrip_crds::{BenchmarkRun, BenchmarkSuite, Datastore, DatastoreSpec};
use k8s_openapi::api::core::v1::Node;
use kube::{CustomResourceExt, Resource};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// An object without a fault of its own, as its manifest declares it.
#[derive(Debug, Clone)]
pub enum Object {
    Datastore(Box<Datastore>),
    Run(Box<BenchmarkRun>),
    Suite(Box<BenchmarkSuite>),
}

impl Object {
    pub fn kind(&self) -> Kind {
        match self {
            Self::Datastore(_) => Kind::Datastore,
            Self::Run(_) => Kind::Run,
            Self::Suite(_) => Kind::Suite,
        }
    }
}

/// `object` with what the API server gives every object.
fn stored<K: Resource + Clone>(object: &K) -> K {
    let mut object = object.clone();
    object.meta_mut().namespace.get_or_insert_with(|| "offline".to_owned());
    object.meta_mut().uid = Some("offline".to_owned());
    object
}

/// Removes fields without a value, as the API server does.
fn remove_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            fields.values_mut().for_each(remove_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(remove_nulls),
        _ => {}
    }
}

/// `document` as a `K`, checked by the `schema` of its kind, its types and its rules.
fn decoded<K>(document: &Document, schema: fn(&Value) -> Vec<Problem>) -> Result<K, Vec<Problem>>
where
    K: CustomResourceExt + DeserializeOwned,
{
    let mut value = document.value.clone();
    remove_nulls(&mut value);
    let found = schema(&value["spec"]);
    if !found.is_empty() {
        return Err(found);
    }
    if let Some(fields) = value.as_object_mut() {
        fields.remove("status");
    }
    let found = admission::check::<K>(&value);
    if !found.is_empty() {
        return Err(found);
    }
    serde_path_to_error::deserialize(&value)
        .map_err(|error| vec![Problem::new(error.path().to_string(), error.inner().to_string())])
}

fn datastore_problem(datastore: &Datastore) -> Option<String> {
    validate_datastore::<Node>(&stored(datastore), &[]).err().map(|invalid| invalid.to_string())
}

fn own_datastore_problems(run: &BenchmarkRun, spec: &DatastoreSpec) -> Vec<Problem> {
    const WITHIN: &str = "spec.target.datastore";
    let datastore = stored(&Datastore::new(run.metadata.name.as_deref().unwrap_or_default(), spec.clone()));
    let mut found = admission::check::<Datastore>(&json!(datastore));
    for problem in &mut found {
        problem.field = format!("{WITHIN}{}", problem.field.strip_prefix("spec").unwrap_or_default());
    }
    if found.is_empty() {
        let within = |message: String| message.replace("spec.", &format!("{WITHIN}."));
        found.extend(datastore_problem(&datastore).map(|message| Problem::new("", within(message))));
    }
    found.extend(target_problem(run, spec));
    found
}

/// Why the phases of `run` cannot load the server that `target` declares.
pub fn target_problem(run: &BenchmarkRun, target: &DatastoreSpec) -> Option<Problem> {
    unsuitable(&run.spec, target).map(|problem| Problem::new("", format!("spec.{problem}")))
}

/// What the operator says of `run`, whose rules hold.
fn run_problems(run: &BenchmarkRun) -> Vec<Problem> {
    let own = validate_run(&stored(run)).err().map(|invalid| Problem::new("", invalid.to_string()));
    let datastore =
        run.spec.target.datastore().into_iter().flat_map(|spec| own_datastore_problems(run, spec));
    own.into_iter().chain(datastore).collect()
}

/// What the API server and the operator would say of a run of `suite`.
fn child_problems(child: &ChildRun, suite: &BenchmarkSuite) -> Vec<Problem> {
    let mut run = BenchmarkRun::new(&child.name, child.spec.clone());
    run.metadata.namespace.clone_from(&suite.metadata.namespace);
    let found = admission::check::<BenchmarkRun>(&json!(run));
    if found.is_empty() { run_problems(&run) } else { found }
}

/// What is wrong with `suite` and its runs: each problem once, for the first combination that has it.
fn suite_problems(suite: &BenchmarkSuite) -> Vec<Problem> {
    let schedule = suite.spec.schedule.as_ref().and_then(|text| Schedule::parse(text).err());
    let mut found: Vec<_> = schedule.map(|why| Problem::new("spec.schedule", why)).into_iter().collect();
    let expanded = match expand(&stored(suite)) {
        Ok(expanded) => expanded,
        Err(invalid) => {
            found.extend(invalid.0.iter().map(|problem| Problem::new("", problem.as_str())));
            return found;
        }
    };
    let mut seen = Vec::new();
    for child in expanded.runs.iter().filter(|child| child.repetition == 1) {
        for problem in child_problems(child, suite) {
            if !seen.contains(&problem) {
                let cell = child.cell.label(&expanded.axes);
                found.push(Problem::new("", format!("the run of {cell} is invalid: {}", problem.text())));
                seen.push(problem);
            }
        }
    }
    found
}

/// The object that `document` declares, or what is wrong with it.
pub fn check(document: &Document) -> Result<Object, Vec<Problem>> {
    let (object, found) = match document.text("/kind") {
        "Datastore" => {
            let datastore: Datastore = decoded(document, schema::check::<Datastore>)?;
            let found = datastore_problem(&datastore).map(|message| Problem::new("", message));
            (Object::Datastore(Box::new(datastore)), found.into_iter().collect())
        }
        "BenchmarkRun" => {
            let run: BenchmarkRun = decoded(document, schema::check_run)?;
            let found = run_problems(&run);
            (Object::Run(Box::new(run)), found)
        }
        _ => {
            let suite: BenchmarkSuite = decoded(document, schema::check_suite)?;
            let found = suite_problems(&suite);
            (Object::Suite(Box::new(suite)), found)
        }
    };
    if found.is_empty() { Ok(object) } else { Err(found) }
}
