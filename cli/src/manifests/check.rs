//! The checks of whole manifests: the frame of each object, the objects themselves, and what
//! does not fit between them. Pure.

pub use super::rules::Object;

use super::{
    documents::{Document, KINDS},
    rules,
};
use dragstrip_core::problem::Problem;
use dragstrip_crds::{DatastoreSpec, near::near_or_all, run::Target};
use serde::Serialize;
use std::fmt;

const TOP_FIELDS: [&str; 5] = ["apiVersion", "kind", "metadata", "spec", "status"];
const VERSION: &str = "dragstrip.dev/v1alpha1";

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Weight {
    /// The API server or the operator would refuse the object.
    Error,
    Note,
}

/// One line about a manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Remark {
    pub file: String,
    pub weight: Weight,
    pub object: String,
    /// The field; empty if the message names it, or for the whole object.
    pub field: String,
    pub message: String,
}

impl Remark {
    pub fn error(document: &Document, field: &str, message: impl Into<String>) -> Self {
        Self::new(document, Weight::Error, Problem::new(field, message))
    }

    fn new(document: &Document, weight: Weight, problem: Problem) -> Self {
        let Problem { field, message } = problem;
        Self { file: document.file.clone(), weight, object: document.title(), field, message }
    }
}

impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let weight = if self.weight == Weight::Error { "error" } else { "note" };
        let text = Problem::new(&self.field, &self.message).text();
        write!(f, "{}: {weight}: {}: {text}", self.file, self.object)
    }
}

/// The valid objects of manifests, and what is to be said of the others.
#[derive(Debug, Default)]
pub struct Checked {
    pub remarks: Vec<Remark>,
    /// Each with the document that declares it.
    pub objects: Vec<(Document, Object)>,
}

impl Checked {
    pub fn errors(&self) -> usize {
        self.remarks.iter().filter(|remark| remark.weight == Weight::Error).count()
    }
}

/// What is wrong with the frame of `document`, which belongs to the project's group.
fn frame(document: &Document) -> Vec<Remark> {
    let error = |field: &str, message: String| Remark::error(document, field, message);
    let mut found = Vec::new();
    let kind = document.text("/kind");
    if kind.is_empty() {
        found.push(error("kind", format!("is missing: use one of {}", KINDS.join(", "))));
    } else if !KINDS.contains(&kind) {
        found.push(error(
            "kind",
            format!("there is no kind {kind:?}{}", near_or_all(kind, KINDS.into_iter())),
        ));
    }
    let version = document.text("/apiVersion");
    if version.is_empty() {
        found.push(error("apiVersion", format!("is missing: use {VERSION}")));
    } else if version != VERSION {
        found.push(error("apiVersion", format!("is {version:?}, and must be {VERSION}")));
    }
    if document.text("/metadata/name").is_empty() {
        found.push(error("metadata", "needs a name".to_owned()));
    }
    let fields = document.value.as_object().into_iter().flat_map(|fields| fields.keys());
    for field in fields.filter(|field| !TOP_FIELDS.contains(&field.as_str())) {
        found.push(error(
            field,
            format!("there is no such field{}", near_or_all(field, TOP_FIELDS.into_iter())),
        ));
    }
    found
}

/// The remark about a document of no group, or of another project's.
fn foreign(document: &Document) -> Remark {
    if document.text("/kind").is_empty() || document.text("/apiVersion").is_empty() {
        return Remark::error(document, "", "is not a Kubernetes object: it needs apiVersion and kind");
    }
    Remark::new(
        document,
        Weight::Note,
        Problem::new("", "is not one of Dragstrip's kinds and was not checked"),
    )
}

/// The Datastore called `name` among `objects`, in the namespace of `document`.
fn datastore<'a>(
    objects: &'a [(Document, Object)],
    document: &Document,
    name: &str,
) -> Option<&'a DatastoreSpec> {
    let namespace = document.text("/metadata/namespace");
    objects.iter().find_map(|(other, object)| match object {
        Object::Datastore(datastore)
            if other.text("/metadata/name") == name && other.text("/metadata/namespace") == namespace =>
        {
            Some(&datastore.spec)
        }
        _ => None,
    })
}

/// What is wrong between objects: two of one name, and a run that does not suit its target.
fn between(objects: &[(Document, Object)]) -> Vec<Remark> {
    let mut found = Vec::new();
    let place = |document: &Document| (document.title(), document.text("/metadata/namespace").to_owned());
    for (index, (document, object)) in objects.iter().enumerate() {
        if objects.iter().take(index).any(|(other, _)| place(other) == place(document)) {
            let message = "is declared twice: the second would replace the first";
            found.push(Remark::error(document, "metadata.name", message));
        }
        let Object::Run(run) = object else { continue };
        let Target::DatastoreRef(reference) = &run.spec.target else { continue };
        let target = datastore(objects, document, &reference.name);
        let problem = target.and_then(|target| rules::target_problem(run, target));
        found.extend(problem.map(|problem| Remark::new(document, Weight::Error, problem)));
    }
    found
}

/// Checks `documents` as the API server and the operator would.
pub fn check(documents: Vec<Document>) -> Checked {
    let mut checked = Checked::default();
    for document in documents {
        if !document.is_ours() {
            checked.remarks.push(foreign(&document));
            continue;
        }
        let wrong = frame(&document);
        if !wrong.is_empty() {
            checked.remarks.extend(wrong);
            continue;
        }
        match rules::check(&document) {
            Ok(object) => checked.objects.push((document, object)),
            Err(found) => checked
                .remarks
                .extend(found.into_iter().map(|problem| Remark::new(&document, Weight::Error, problem))),
        }
    }
    checked.remarks.extend(between(&checked.objects));
    checked
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
