//! The objects of a local run's manifests, checked as `dragstrip validate` checks them. Reads
//! files and standard input.

use crate::manifests::{
    check::{Object, Remark, Weight, check},
    documents,
};
use dragstrip_crds::{BenchmarkRun, BenchmarkSuite, Datastore};
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Read(#[from] documents::Error),
    /// One line per error.
    #[error("{0}")]
    Invalid(String),
}

#[derive(Debug, Default, Clone)]
pub struct Manifests {
    pub datastores: Vec<Datastore>,
    pub runs: Vec<BenchmarkRun>,
    pub suites: Vec<BenchmarkSuite>,
    /// Notes for people, such as about objects of other projects.
    pub notes: Vec<String>,
}

/// The valid objects of `files`, in order.
pub fn read(files: &[PathBuf]) -> Result<Manifests, Error> {
    let checked = check(documents::read(files)?);
    let lines = |weight: Weight| -> Vec<String> {
        checked.remarks.iter().filter(|remark| remark.weight == weight).map(Remark::to_string).collect()
    };
    if checked.errors() > 0 {
        return Err(Error::Invalid(lines(Weight::Error).join("\n")));
    }
    let mut manifests = Manifests { notes: lines(Weight::Note), ..Manifests::default() };
    for (_, object) in checked.objects {
        match object {
            Object::Datastore(datastore) => manifests.datastores.push(*datastore),
            Object::Run(run) => manifests.runs.push(*run),
            Object::Suite(suite) => manifests.suites.push(*suite),
        }
    }
    Ok(manifests)
}
