//! `dragstrip cancel`: stops runs and suites; what was measured stays. Needs the client.

use crate::{
    cluster::{self, Cluster, Subject},
    output::{self, Done},
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
    /// The form.
    #[command(flatten)]
    pub output: output::Options,
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

/// Tells `subject` to stop, where it has not ended.
async fn stop(cluster: &Cluster, subject: &Subject) -> Result<Done, Error> {
    let name = subject.title();
    if let Some(phase) = ended(subject) {
        return Ok(Done { name, namespace: None, state: format!("has ended already ({phase})") });
    }
    let (of, parameters) = (subject.name(), PatchParams::default());
    let patch = Patch::Merge(json!({"spec": {"cancel": true}}));
    let outcome = match subject {
        Subject::Run(_) => cluster.api::<BenchmarkRun>().patch(&of, &parameters, &patch).await.map(drop),
        Subject::Suite(_) => cluster.api::<BenchmarkSuite>().patch(&of, &parameters, &patch).await.map(drop),
    };
    match outcome {
        Ok(()) => Ok(Done { name, namespace: None, state: "is being cancelled".to_owned() }),
        Err(error) => Err(Error::Patch(Box::new(error), name)),
    }
}

/// Stops what is named; nothing when one of the names is wrong.
pub async fn cancel(cluster: &Cluster, options: &Options) -> Result<ExitCode, Error> {
    let subjects = cluster.subjects(&cluster::given(&options.names)?).await?;
    let (mut done, mut outcome) = (Vec::new(), Ok(ExitCode::SUCCESS));
    for subject in &subjects {
        match stop(cluster, subject).await {
            Ok(one) => done.push(one),
            Err(error) => {
                outcome = Err(error);
                break;
            }
        }
    }
    // What was stopped before the one that failed stays so, and is told.
    let told = output::print_done(&done, options.output.form);
    outcome.and_then(|code| Ok(told.map(|()| code)?))
}
