//! `dragstrip cancel`: stops runs and suites; what was measured stays. Needs the client.

use crate::{
    cluster::{self, Cluster, Subject},
    output::{self, Form},
};
use clap::Args;
use dragstrip_crds::{BenchmarkRun, BenchmarkSuite};
use kube::api::{Patch, PatchParams};
use serde_json::json;
use std::process::ExitCode;

/// What is to be stopped.
#[derive(Debug, Clone, Args)]
pub struct Options {
    /// Names of runs and suites; run/NAME and suite/NAME say which.
    #[arg(required = true, value_name = "NAME")]
    pub names: Vec<String>,
}

/// It could not be stopped.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It could not be had.
    #[error(transparent)]
    Cluster(#[from] cluster::Error),
    /// It could not be told to stop.
    #[error("failed to cancel {1}")]
    Patch(#[source] Box<kube::Error>, String),
    /// What was done could not be told.
    #[error(transparent)]
    Output(#[from] output::Error),
}

/// The phase in which `subject` has ended, where it has.
pub fn ended(subject: &Subject) -> Option<String> {
    match subject {
        Subject::Run(run) => {
            let phase = run.status.as_ref().map(|status| status.phase)?;
            phase.finished().then(|| phase.to_string())
        }
        Subject::Suite(suite) => {
            let phase = suite.status.as_ref().map(|status| status.phase)?;
            phase.finished().then(|| phase.to_string())
        }
    }
}

/// Stops what is named; nothing when one of the names is wrong.
pub async fn cancel(cluster: &Cluster, options: &Options, form: Form) -> Result<ExitCode, Error> {
    let subjects = cluster.subjects(&cluster::given(&options.names)?).await?;
    let patch = Patch::Merge(json!({"spec": {"cancel": true}}));
    let mut told = Vec::new();
    for subject in subjects {
        let (name, title) = (subject.name(), format!("{}/{}", subject.kind().singular(), subject.name()));
        if let Some(phase) = ended(&subject) {
            told.push((title, format!("has ended already ({phase})")));
            continue;
        }
        let parameters = PatchParams::default();
        let outcome = match subject {
            Subject::Run(_) => {
                cluster.api::<BenchmarkRun>().patch(&name, &parameters, &patch).await.map(drop)
            }
            Subject::Suite(_) => {
                cluster.api::<BenchmarkSuite>().patch(&name, &parameters, &patch).await.map(drop)
            }
        };
        outcome.map_err(|error| Error::Patch(Box::new(error), title.clone()))?;
        told.push((title, "is being cancelled".to_owned()));
    }
    match form {
        Form::Json | Form::Yaml => {
            let values: Vec<_> =
                told.iter().map(|(title, state)| json!({"name": title, "state": state})).collect();
            output::print_value(&values, form)?;
        }
        Form::Name => output::print(&output::lines(told.into_iter().map(|(title, _)| title)))?,
        Form::Table => {
            output::print(&output::lines(told.iter().map(|(title, state)| format!("{title} {state}"))))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
