//! `dragstrip doctor`: checks whether a cluster is ready for benchmarks. Needs the client; the
//! judgements are pure.

mod clocks;
mod finding;
mod manifests;
mod nodes;
mod operator;
mod references;

use super::client::{Cluster, forbidden};
use crate::{
    manifests::{
        check::{Object, check},
        documents::{self, Document},
    },
    output::{
        errors::Outcome,
        print::{self, Form},
    },
};
use clap::Args;
use finding::{Finding, Level, fail, skip, text, unseen};
use jiff::Timestamp;
use k8s_openapi::api::{apps::v1::Deployment, coordination::v1::Lease, core::v1::Node};
use kube::{Api, Client, api::ListParams};
use std::{path::PathBuf, process::ExitCode};

const OPERATOR: &str = "app.kubernetes.io/component=operator";
/// The chart's name in its label, which finds the operator where no release is named.
const CHART: &str = "app.kubernetes.io/name=dragstrip";

#[derive(Debug, Clone, Default, Args)]
pub struct Options {
    /// Search for the operator in this namespace only.
    #[arg(long)]
    pub operator_namespace: Option<String>,
    /// Search for the operator of this Helm release only.
    #[arg(long)]
    pub release: Option<String>,
    /// Check that the nodes have room for the manifests in these files or directories, or on standard
    /// input (-), and that the Secrets, ConfigMaps and Datastores exist that they name.
    #[arg(short, long = "filename", value_name = "FILE")]
    pub files: Vec<PathBuf>,
    #[command(flatten)]
    pub output: print::Options,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("failed to list the kinds that the API server serves")]
    Served(#[source] Box<kube::Error>),
}

/// The names of the kinds that `group_version` serves; none if it is not served.
async fn served(client: &Client, group_version: &str) -> kube::Result<Vec<String>> {
    match client.list_api_group_resources(group_version).await {
        Ok(list) => Ok(list.resources.into_iter().map(|resource| resource.name).collect()),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

async fn operators(client: &Client, options: &Options) -> kube::Result<Vec<Deployment>> {
    let deployments: Api<Deployment> = match &options.operator_namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    };
    let selected = match &options.release {
        Some(release) => format!("{OPERATOR},app.kubernetes.io/instance={release}"),
        None => format!("{OPERATOR},{CHART}"),
    };
    Ok(deployments.list(&ListParams::default().labels(&selected)).await?.items)
}

async fn clocks(client: &Client) -> Finding {
    let leases: Api<Lease> = Api::namespaced(client.clone(), "kube-node-lease");
    match leases.list(&ListParams::default()).await {
        Ok(list) => clocks::clocks(&list.items, Timestamp::now()),
        // A missing right says nothing about the cluster.
        Err(error) if forbidden(&error) => skip("clocks: not checked: this account lacks the right", ""),
        Err(error) => unseen("clocks", &error, "try again"),
    }
}

/// The valid objects of `documents`, and a finding if others are invalid.
fn declared(documents: Vec<Document>) -> (Vec<(Document, Object)>, Option<Finding>) {
    let checked = check(documents);
    let invalid = (checked.errors() > 0)
        .then(|| fail("manifests: some are invalid and were not checked", "see why: dragstrip validate -f"));
    (checked.objects, invalid)
}

async fn examine(cluster: &Cluster, options: &Options) -> Outcome<Vec<Finding>> {
    let client = &cluster.client;
    let documents = documents::read(&options.files)?;
    let (objects, invalid) = declared(documents.clone());
    // Without an answer to this nothing else would be answered either.
    let kinds =
        served(client, operator::GROUP_VERSION).await.map_err(|error| Error::Served(Box::new(error)))?;
    let mut findings = vec![operator::api(&kinds)];
    match operators(client, options).await {
        Ok(found) => findings.extend(operator::operators(&found, env!("CARGO_PKG_VERSION"))),
        Err(error) => {
            let remedy =
                "name its namespace with --operator-namespace, or get the right to list Deployments there";
            findings.push(unseen("operator", &error, remedy));
        }
    }
    match Api::<Node>::all(client.clone()).list(&ListParams::default()).await {
        Ok(list) => {
            findings.extend(nodes::nodes(&list.items));
            findings.extend(manifests::room(objects.iter().map(|(_, object)| object), &list.items));
        }
        Err(error) => findings.push(unseen("nodes", &error, "get the right to list nodes")),
    }
    findings.extend(references::check(cluster, &objects, &documents).await);
    findings.extend(invalid);
    findings.push(clocks(client).await);
    Ok(findings)
}

/// Exit code 1 if no run can work.
pub async fn doctor(cluster: &Cluster, options: &Options) -> Outcome<ExitCode> {
    let findings = examine(cluster, options).await?;
    match options.output.form {
        Form::Table => print::print(&text(&findings))?,
        Form::Json => print::print(&print::json(&findings)?)?,
    }
    let failed = findings.iter().any(|finding| finding.level == Level::Fail);
    Ok(if failed { ExitCode::from(1) } else { ExitCode::SUCCESS })
}
