//! `dragstrip cancel`: stops runs and suites. Needs the client.

use super::client::{Cluster, Subject};
use crate::output::{
    errors::Outcome,
    print::{self, Done},
};
use clap::Args;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use std::process::ExitCode;

#[derive(Debug, Clone, Args)]
pub struct Options {
    /// Cancel these runs and suites: NAME, run/NAME or suite/NAME.
    #[arg(required = true, value_name = "NAME")]
    pub names: Vec<String>,
    #[command(flatten)]
    pub output: print::Options,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("failed to cancel {1}")]
    Patch(#[source] Box<kube::Error>, String),
}

async fn stop(cluster: &Cluster, subject: &Subject) -> Result<Done, Error> {
    let title = subject.title();
    if let Some(phase) = subject.final_phase() {
        return Ok(Done { name: title, namespace: None, state: format!("has already ended ({phase})") });
    }
    let patch = json!({"spec": {"cancel": true}});
    let name = subject.name();
    let patched =
        cluster.patch((subject.kind(), &name), &PatchParams::default(), &Patch::Merge(&patch)).await;
    patched.map_err(|error| Error::Patch(Box::new(error), title.clone()))?;
    Ok(Done { name: title, namespace: None, state: "is being cancelled".to_owned() })
}

/// Stops all subjects that are named; none if one of the names is wrong.
pub async fn cancel(cluster: &Cluster, options: &Options) -> Outcome<ExitCode> {
    let subjects = cluster.subjects(&options.names).await?;
    let (mut done, mut outcome) = (Vec::new(), Ok(()));
    for subject in &subjects {
        match stop(cluster, subject).await {
            Ok(one) => done.push(one),
            Err(error) => {
                outcome = Err(error);
                break;
            }
        }
    }
    // What was stopped before the failure stays stopped, and is printed.
    let printed = print::print_done(&done, options.output.form);
    outcome?;
    printed?;
    Ok(ExitCode::SUCCESS)
}
