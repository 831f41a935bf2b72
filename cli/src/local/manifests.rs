//! What the manifests of a local run declare, judged as `dragstrip validate` judges them.
//! Reads files and standard input.

use crate::{
    manifest::{self, Document},
    validate::{self, Object, Remark, Weight, judge},
};
use dragstrip_crds::{BenchmarkRun, BenchmarkSuite, Datastore};
use serde::de::DeserializeOwned;
use std::path::PathBuf;

/// Manifests that cannot be used. Each names the file and the line.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file cannot be read.
    #[error(transparent)]
    Read(#[from] manifest::Error),
    /// They cannot be judged.
    #[error("failed to judge the manifests")]
    Judge(#[source] validate::Error),
    /// They have faults, each a line.
    #[error("{0}")]
    Faults(String),
    /// What was judged to be good cannot be decoded.
    #[error("failed to read {1}")]
    Decode(#[source] serde_json::Error, String),
}

/// What manifests declare.
#[derive(Debug, Default, Clone)]
pub struct Manifests {
    /// Datastores, in order.
    pub datastores: Vec<Datastore>,
    /// Runs, in order.
    pub runs: Vec<BenchmarkRun>,
    /// Suites, in order.
    pub suites: Vec<BenchmarkSuite>,
    /// What else is to be said of them, for people.
    pub notes: Vec<String>,
}

fn lines<'a>(remarks: impl Iterator<Item = &'a Remark>) -> Vec<String> {
    remarks.map(ToString::to_string).collect()
}

/// The object that `document` declares, as it is written.
fn written<T: DeserializeOwned>(document: &Document) -> Result<T, Error> {
    serde_json::from_value(document.value.clone()).map_err(|error| Error::Decode(error, document.title()))
}

/// Everything that `files` declare, without a fault. - is standard input.
pub fn read(files: &[PathBuf]) -> Result<Manifests, Error> {
    let judged = judge(manifest::read(files)?).map_err(|error| Error::Judge(error.into()))?;
    let (faults, notes): (Vec<&Remark>, Vec<&Remark>) =
        judged.remarks.iter().partition(|remark| remark.weight == Weight::Error);
    if !faults.is_empty() {
        return Err(Error::Faults(lines(faults.into_iter()).join("\n")));
    }
    let mut manifests = Manifests { notes: lines(notes.into_iter()), ..Manifests::default() };
    for (document, object) in &judged.objects {
        match object {
            Object::Datastore(_) => manifests.datastores.push(written(document)?),
            Object::Run(_) => manifests.runs.push(written(document)?),
            Object::Suite => manifests.suites.push(written(document)?),
        }
    }
    Ok(manifests)
}
