//! `dragstrip validate`: what the apiserver and the operator would say against manifests,
//! without either. Reads files; the judging is pure.

mod admission;
mod fields;
mod rules;
mod schema;
mod suite;

pub use rules::Object;

use crate::{
    manifest::{self, Document, KINDS, Position},
    output::{self, Form},
};
use clap::Args;
use dragstrip_crds::{Datastore, near::did_you_mean};
use serde::Serialize;
use std::{fmt, path::PathBuf, process::ExitCode};

/// The fields of every object.
const TOP_FIELDS: [&str; 5] = ["apiVersion", "kind", "metadata", "spec", "status"];
/// The version that there is.
const VERSION: &str = "dragstrip.dev/v1alpha1";

/// What is to be looked at.
#[derive(Debug, Clone, Args)]
pub struct Options {
    /// Manifests: files, directories, or - for standard input.
    #[arg(short, long = "filename", value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// The form.
    #[command(flatten)]
    pub output: output::Options,
}

/// Manifests that could not be judged.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file is none.
    #[error(transparent)]
    Manifest(#[from] manifest::Error),
    /// A CRD's schema is none.
    #[error(transparent)]
    Schema(#[from] schema::Error),
    /// It could not be told.
    #[error(transparent)]
    Output(#[from] output::Error),
}

/// How much something matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Weight {
    /// It is refused, or cannot be run.
    Error,
    /// It is worth knowing.
    Note,
}

impl fmt::Display for Weight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Error => "error",
            Self::Note => "note",
        })
    }
}

/// One thing to say of a manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Remark {
    /// The file.
    pub file: String,
    /// Where in it.
    #[serde(flatten)]
    pub position: Position,
    /// How much it matters.
    pub weight: Weight,
    /// The object.
    pub object: String,
    /// The field, as people write it; empty where it is about the whole object.
    pub field: String,
    /// What is to be said.
    pub message: String,
}

impl Remark {
    /// About the field at `pointer` of `document`.
    pub fn of(document: &Document, weight: Weight, pointer: &str, message: impl Into<String>) -> Self {
        Self {
            file: document.file.clone(),
            position: document.position(pointer),
            weight,
            object: document.title(),
            field: fields::dotted(pointer),
            message: message.into(),
        }
    }
}

impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, position, weight, object, field, message } = self;
        // Many messages name the field themselves.
        let field = if field.is_empty() || message.starts_with(field.as_str()) {
            String::new()
        } else {
            format!("{field}: ")
        };
        write!(f, "{file}:{position}: {weight}: {object}: {field}{message}")
    }
}

/// What manifests hold, and what is to be said of them.
#[derive(Debug, Default)]
pub struct Judged {
    /// In the order of the files.
    pub remarks: Vec<Remark>,
    /// The objects without a fault, each with the document that declares it.
    pub objects: Vec<(Document, Object)>,
}

impl Judged {
    /// Whether the apiserver or the operator would refuse something.
    pub fn refused(&self) -> bool {
        self.remarks.iter().any(|remark| remark.weight == Weight::Error)
    }
}

/// What is wrong with the frame of `document`, which is of our group.
fn frame(document: &Document) -> Vec<Remark> {
    let error = |pointer: &str, message: String| Remark::of(document, Weight::Error, pointer, message);
    let mut found = Vec::new();
    let kind = document.text("/kind");
    if kind.is_empty() {
        found.push(error("/kind", format!("is missing: say one of {}", KINDS.join(", "))));
    } else if !KINDS.contains(&kind) {
        found.push(error("/kind", format!("there is no kind {kind:?}{}", did_you_mean(kind, KINDS))));
    }
    let version = document.text("/apiVersion");
    if version.is_empty() {
        found.push(error("/apiVersion", format!("is missing: say {VERSION}")));
    } else if version != VERSION {
        found.push(error("/apiVersion", format!("is {version:?}, and must be {VERSION}")));
    }
    let name = |field: &str| !document.text(&format!("/metadata/{field}")).is_empty();
    if !name("name") && !name("generateName") {
        found.push(error("/metadata", "needs a name".to_owned()));
    }
    for field in document.value.as_object().into_iter().flat_map(|fields| fields.keys()) {
        if !TOP_FIELDS.contains(&field.as_str()) {
            let near = did_you_mean(field, TOP_FIELDS);
            found.push(error(
                &format!("/{}", manifest::escaped(field)),
                format!("there is no such field{near}"),
            ));
        }
    }
    found
}

/// What is to be said of a document that is of nobody's group, or of another's.
fn not_ours(document: &Document) -> Remark {
    if document.text("/kind").is_empty() || document.text("/apiVersion").is_empty() {
        let message = "is no object of Kubernetes: it needs apiVersion and kind";
        return Remark::of(document, Weight::Error, "", message);
    }
    Remark::of(document, Weight::Note, "", "is none of Dragstrip's kinds and was not looked at")
}

/// What is wrong between objects: two of one name, a run that does not suit its target.
fn between(objects: &[(Document, Object)]) -> Vec<Remark> {
    let mut found = Vec::new();
    let place = |document: &Document| (document.title(), document.text("/metadata/namespace").to_owned());
    for (index, (document, object)) in objects.iter().enumerate() {
        let named = !document.text("/metadata/name").is_empty();
        if named && objects.iter().take(index).any(|(other, _)| place(other) == place(document)) {
            let message = "is declared twice: the second would replace the first";
            found.push(Remark::of(document, Weight::Error, "/metadata/name", message));
        }
        let Object::Run(run) = object else { continue };
        let Some(reference) = &run.spec.target.datastore_ref else { continue };
        let declared = |(other, object): &(Document, Object)| match object {
            Object::Datastore(datastore)
                if other.text("/metadata/name") == reference.name
                    && other.text("/metadata/namespace") == document.text("/metadata/namespace") =>
            {
                Some((**datastore).clone())
            }
            _ => None,
        };
        let target: Option<Datastore> = objects.iter().find_map(declared);
        let misfit = target.and_then(|target| rules::against_target(document, run, &target.spec));
        found.extend(
            misfit.map(|misfit| Remark::of(document, Weight::Error, &misfit.pointer, misfit.message)),
        );
    }
    found
}

/// Judges `documents` as the apiserver and the operator would.
pub fn judge(documents: Vec<Document>) -> Result<Judged, schema::Error> {
    let mut judged = Judged::default();
    for document in documents {
        if !document.is_ours() {
            judged.remarks.push(not_ours(&document));
            continue;
        }
        let wrong = frame(&document);
        if !wrong.is_empty() {
            judged.remarks.extend(wrong);
            continue;
        }
        match rules::judge(&document)? {
            Ok(object) => judged.objects.push((document, object)),
            Err(misfits) => judged.remarks.extend(
                misfits.into_iter().map(|it| Remark::of(&document, Weight::Error, &it.pointer, it.message)),
            ),
        }
    }
    judged.remarks.extend(between(&judged.objects));
    Ok(judged)
}

fn text(judged: &Judged) -> String {
    let mut lines: Vec<String> = judged.remarks.iter().map(Remark::to_string).collect();
    lines.extend(judged.objects.iter().map(|(document, _)| {
        format!("{}:{}: {}: ok", document.file, document.position(""), document.title())
    }));
    lines.push(String::new());
    lines.join("\n")
}

/// Looks at the files and tells what is wrong. Exit code 1 when something is.
pub fn validate(options: &Options) -> Result<ExitCode, Error> {
    let form = options.output.form;
    let judged = judge(manifest::read(&options.files)?)?;
    match form {
        Form::Table => output::print(&text(&judged))?,
        Form::Name => {
            output::print(&output::lines(
                judged
                    .objects
                    .iter()
                    .map(|(document, object)| format!("{}/{}", object.kind().singular(), document.name())),
            ))?;
        }
        Form::Json | Form::Yaml => output::print_value(&judged.remarks, form)?,
    }
    let nothing = judged.objects.is_empty() && !judged.refused();
    if nothing && form == Form::Table {
        output::warn("there is nothing of Dragstrip in these files");
    }
    Ok(if judged.refused() { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

#[cfg(test)]
mod tests;
