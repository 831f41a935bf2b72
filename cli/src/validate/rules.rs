//! What the apiserver's rules and the operator's own say of one object, on nodes that are
//! large enough for anything. Pure.

use super::{
    admission::{BrokenRule, Ruled, broken_rules},
    fields::{dotted, named, pointer},
    schema::{self, Misfit},
};
use crate::{cluster::Kind, manifest::Document};
use dragstrip_core::{
    datastore::validate::validate as validate_datastore,
    nodes::wants,
    run::validate::{unsuitable, validate as validate_run},
};
use dragstrip_crds::{BenchmarkRun, BenchmarkSuite, Datastore, DatastoreSpec, datastore::Placement};
use k8s_openapi::{
    api::core::v1::{Node, NodeStatus},
    apimachinery::pkg::api::resource::Quantity,
};
use kube::{CustomResourceExt, Resource};
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;

/// An object that has no fault of its own.
#[derive(Debug, Clone)]
pub enum Object {
    /// A Datastore.
    Datastore(Box<Datastore>),
    /// A run.
    Run(Box<BenchmarkRun>),
    /// A suite.
    Suite,
}

impl Object {
    /// Its kind.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Datastore(_) => Kind::Datastore,
            Self::Run(_) => Kind::Run,
            Self::Suite => Kind::Suite,
        }
    }
}

/// What stands for everything that only the apiserver gives.
const GIVEN: &str = "offline";

/// A node that is larger than any server needs, where `placement` looks for it.
fn large_node(placement: &Placement) -> Node {
    let labels: BTreeMap<_, _> =
        wants(placement).into_iter().filter_map(|want| want.labels.into_iter().next()).collect();
    let amounts = [("cpu", "1024"), ("memory", "16Ti")];
    let amounts = amounts.map(|(name, amount)| (name.to_owned(), Quantity(amount.to_owned())));
    let mut node = Node::default();
    node.metadata.labels = Some(labels);
    node.status = Some(NodeStatus { allocatable: Some(amounts.into()), ..NodeStatus::default() });
    node
}

/// A fault in `document` that `message` tells, at or below `base`.
fn told(document: &Document, base: &str, message: String) -> Misfit {
    Misfit { pointer: named(document, base, &message), message }
}

/// The fault that `rule`, which is about `base`, tells.
fn of_rule(document: &Document, base: &str, rule: BrokenRule) -> Misfit {
    let path = match (base, rule.path.as_str()) {
        (_, "") => String::new(),
        // Of an object within another the path begins at the inner one's spec.
        ("", path) => path.to_owned(),
        (base, path) => format!("{}{}", dotted(base), path.strip_prefix("spec").unwrap_or(path)),
    };
    let at = if path.is_empty() { base.to_owned() } else { pointer(document, &path) };
    told(document, &at, rule.message)
}

/// `document` as an object of `K`: by its schema, its types and its rules.
fn decoded<K>(document: &Document) -> Result<Result<K, Vec<Misfit>>, schema::Error>
where
    K: CustomResourceExt + DeserializeOwned + Resource + Ruled,
{
    let mut value = document.value.clone();
    let misfits = schema::check::<K>(&value["spec"])?;
    if !misfits.is_empty() {
        let below = |misfit: Misfit| Misfit { pointer: format!("/spec{}", misfit.pointer), ..misfit };
        return Ok(Err(misfits.into_iter().map(below).collect()));
    }
    if let Some(fields) = value.as_object_mut() {
        fields.remove("status");
    }
    let mut object: K = match serde_path_to_error::deserialize(&value) {
        Ok(object) => object,
        Err(error) => {
            let at = pointer(document, &error.path().to_string());
            return Ok(Err(vec![Misfit { pointer: at, message: error.into_inner().to_string() }]));
        }
    };
    if object.meta().name.is_none() {
        // What generateName ends with.
        let prefix = object.meta().generate_name.clone().unwrap_or_default();
        object.meta_mut().name = Some(format!("{prefix}abcde"));
    }
    object.meta_mut().namespace.get_or_insert_with(|| GIVEN.to_owned());
    object.meta_mut().uid = Some(GIVEN.to_owned());
    let broken = broken_rules(&object);
    let misfits = broken.into_iter().map(|rule| of_rule(document, "", rule)).collect::<Vec<_>>();
    Ok(if misfits.is_empty() { Ok(object) } else { Err(misfits) })
}

/// What the operator says against a Datastore, in words.
fn against_datastore(datastore: &Datastore) -> Option<String> {
    let nodes = [large_node(&datastore.spec.placement)];
    validate_datastore(datastore, &nodes).err().map(|invalid| invalid.to_string())
}

/// The Datastore that is made for `run`, where it declares one.
fn own_datastore(run: &BenchmarkRun) -> Option<Datastore> {
    let spec = run.spec.target.datastore.clone()?;
    let mut datastore = Datastore::new(run.metadata.name.as_deref().unwrap_or_default(), spec);
    datastore.metadata.namespace.clone_from(&run.metadata.namespace);
    datastore.metadata.uid = Some(GIVEN.to_owned());
    Some(datastore)
}

/// What the rules and the operator say against the parts of `run`, each with the part that it is about.
pub fn own_faults(run: &BenchmarkRun) -> Vec<(&'static str, BrokenRule)> {
    const WITHIN: &str = "/spec/target/datastore";
    let said = |message: String| BrokenRule { path: String::new(), message };
    let mut found: Vec<_> =
        validate_run(run).err().map(|invalid| ("/spec", said(invalid.to_string()))).into_iter().collect();
    if let Some(datastore) = own_datastore(run) {
        let broken = broken_rules(&datastore);
        if broken.is_empty() {
            found.extend(against_datastore(&datastore).map(|message| (WITHIN, said(message))));
        }
        found.extend(broken.into_iter().map(|rule| (WITHIN, rule)));
        found.extend(
            unsuitable(&run.spec, &datastore.spec).map(|problem| ("/spec", said(format!("spec.{problem}")))),
        );
    }
    found
}

/// Why the phases of `run` cannot load a server that is declared so.
pub fn against_target(document: &Document, run: &BenchmarkRun, target: &DatastoreSpec) -> Option<Misfit> {
    unsuitable(&run.spec, target).map(|problem| told(document, "/spec", format!("spec.{problem}")))
}

/// Whether two faults are one, said by two who judge.
fn distinct(mut misfits: Vec<Misfit>) -> Vec<Misfit> {
    let mut seen = std::collections::BTreeSet::new();
    misfits.retain(|misfit| seen.insert((misfit.pointer.clone(), misfit.message.clone())));
    misfits
}

/// The object that `document` declares, or what is wrong with it.
pub fn judge(document: &Document) -> Result<Result<Object, Vec<Misfit>>, schema::Error> {
    let judged = match document.text("/kind") {
        "Datastore" => {
            decoded::<Datastore>(document)?.and_then(|datastore| match against_datastore(&datastore) {
                None => Ok(Object::Datastore(Box::new(datastore))),
                Some(message) => Err(vec![told(document, "/spec", message)]),
            })
        }
        "BenchmarkRun" => decoded::<BenchmarkRun>(document)?.and_then(|run| {
            let faults = own_faults(&run).into_iter();
            let found: Vec<Misfit> = faults.map(|(base, rule)| of_rule(document, base, rule)).collect();
            if found.is_empty() { Ok(Object::Run(Box::new(run))) } else { Err(found) }
        }),
        _ => decoded::<BenchmarkSuite>(document)?.and_then(|suite| {
            let found = super::suite::against(document, &suite);
            if found.is_empty() { Ok(Object::Suite) } else { Err(found) }
        }),
    };
    Ok(judged.map_err(distinct))
}
