//! `dragstrip validate`: checks manifests without a cluster. Reads files.

use super::{
    check::{Checked, Remark, check},
    documents,
};
use crate::output::{
    errors::Outcome,
    print::{self, Form},
};
use clap::Args;
use std::{path::PathBuf, process::ExitCode};

#[derive(Debug, Clone, Args)]
pub struct Options {
    /// Check the manifests in these files or directories, or on standard input (-).
    #[arg(short, long = "filename", value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    #[command(flatten)]
    pub output: print::Options,
}

fn text(checked: &Checked) -> String {
    let valid =
        checked.objects.iter().map(|(document, _)| format!("{}: {}: ok", document.file, document.title()));
    print::lines(checked.remarks.iter().map(Remark::to_string).chain(valid))
}

pub fn validate(options: &Options) -> Outcome<ExitCode> {
    let checked = check(documents::read(&options.files)?);
    match options.output.form {
        Form::Table => print::print(&text(&checked))?,
        Form::Json => print::print(&print::json(&checked.remarks)?)?,
    }
    if checked.objects.is_empty() && checked.errors() == 0 {
        print::warn("these files declare no Datastore, BenchmarkRun or BenchmarkSuite");
    }
    Ok(if checked.errors() > 0 { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_valid_manifest_is_reported_as_ok() {
        let text_of = "apiVersion: dragstrip.dev/v1alpha1\nkind: Datastore\nmetadata: {name: redis}\nspec: {engine: Redis, threads: 1}\n";
        let checked = check(documents::parse("a.yaml", text_of).unwrap());
        assert_eq!((text(&checked).as_str(), checked.errors()), ("a.yaml: Datastore redis: ok\n", 0));
    }
}
