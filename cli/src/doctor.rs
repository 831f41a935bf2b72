//! `dragstrip doctor`: whether a cluster is ready for races. Needs the client, but for the
//! judgements, which are pure.

mod finding;
mod manifests;
mod nodes;
mod operator;
mod probe;
mod surroundings;

use crate::{
    causes::{self, forbidden},
    cluster::Cluster,
    manifest,
    output::{self, Form},
    validate::{self, Object, judge},
};
use clap::{
    Args, ValueEnum,
    builder::{PossibleValuesParser, TypedValueParser},
};
use dragstrip_core::labels;
use dragstrip_crds::{BenchmarkSuite, Datastore};
use finding::{Finding, Level, fail, skip, text, unseen, warn};
use jiff::Timestamp;
use k8s_openapi::api::{
    apps::v1::Deployment,
    coordination::v1::Lease,
    core::v1::{ConfigMap, Node},
};
use kube::{
    Api, Client, ResourceExt,
    api::{ApiResource, DynamicObject, GroupVersionKind, ListParams},
};
use std::{path::PathBuf, process::ExitCode};

const OPERATOR: &str = "app.kubernetes.io/component=operator";
/// The chart's name for its label, by which the operator is found where no release is named.
const CHART: &str = "app.kubernetes.io/name=dragstrip";
/// What marks the dashboards that Grafana's sidecar loads.
const DASHBOARDS: &str = "app.kubernetes.io/name=dragstrip,grafana_dashboard";
const MONITORING: &str = "monitoring.coreos.com/v1";

/// What is looked at.
#[derive(Debug, Clone, Default, Args)]
pub struct Options {
    /// Namespace of the operator; all are looked through when absent.
    #[arg(long)]
    pub operator_namespace: Option<String>,
    /// Helm release of the operator; any when absent.
    #[arg(long)]
    pub release: Option<String>,
    /// Manifests that the nodes must have room for: files, directories, or - for standard input.
    #[arg(short, long = "filename", value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Make a short-lived pod with one whole CPU that looks whether CPUs can be one's own and
    /// what the kernel allows; it runs on a server's node where there is one.
    #[arg(long)]
    pub probe: bool,
    /// The form of what is told: table for people, the others for programs.
    #[arg(short, long, value_parser = forms(), default_value = "table")]
    pub output: Form,
    /// What the probe's pod does: tells what it sees.
    #[arg(long, hide = true)]
    pub inside: bool,
}

/// What is found has no names.
fn forms() -> impl TypedValueParser<Value = Form> {
    PossibleValuesParser::new(["table", "json", "yaml"]).try_map(|text| Form::from_str(&text, false))
}

/// Nothing could be told.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The apiserver does not answer.
    #[error("failed to ask the apiserver what it serves")]
    Served(#[source] Box<kube::Error>),
    /// The manifests are none.
    #[error(transparent)]
    Manifest(#[from] manifest::Error),
    /// The manifests could not be judged.
    #[error(transparent)]
    Validate(#[from] validate::Error),
    /// A suite that is without fault cannot be decoded.
    #[error("failed to read {1}")]
    Decode(#[source] serde_json::Error, String),
    /// Somebody has pressed Ctrl-C.
    #[error("interrupted: the probe's pod is deleted")]
    Interrupted,
    /// It could not be told.
    #[error(transparent)]
    Output(#[from] output::Error),
}

/// What could not be looked at, and matters little.
fn left_out(what: &str, error: &kube::Error) -> Finding {
    // That says nothing of the cluster.
    if forbidden(error) {
        return skip(format!("{what}: not looked at: this account may not"), "");
    }
    unseen(what, error, "look again")
}

/// The names of what is served of `group_version`; none where it is not.
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
        Ok(list) => surroundings::clocks(&list.items, Timestamp::now()),
        Err(error) => left_out("clocks", &error),
    }
}

async fn io_uring(client: &Client) -> Option<Finding> {
    match Api::<Datastore>::all(client.clone()).list(&ListParams::default()).await {
        Ok(list) => surroundings::io_uring(&list.items),
        Err(error) => Some(left_out("io_uring", &error)),
    }
}

async fn monitors(client: &Client) -> kube::Result<usize> {
    let mut count = 0;
    for kind in ["ServiceMonitor", "PodMonitor"] {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("monitoring.coreos.com", "v1", kind));
        let found: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
        count += found.list_metadata(&ListParams::default().labels(CHART)).await?.items.len();
    }
    Ok(count)
}

async fn prometheus(client: &Client) -> Finding {
    let kinds = match served(client, MONITORING).await {
        Ok(kinds) => kinds,
        Err(error) => return left_out("Prometheus", &error),
    };
    if kinds.is_empty() {
        return surroundings::prometheus(&kinds, 0);
    }
    match monitors(client).await {
        Ok(count) => surroundings::prometheus(&kinds, count),
        Err(error) => left_out("Prometheus", &error),
    }
}

async fn grafana(client: &Client) -> Finding {
    let maps: Api<ConfigMap> = Api::all(client.clone());
    match maps.list_metadata(&ListParams::default().labels(DASHBOARDS)).await {
        Ok(list) => surroundings::grafana(list.items.len()),
        Err(error) => left_out("Grafana", &error),
    }
}

/// Lets a pod look, with the image of one of `operators`, which holds this program.
async fn probed(
    cluster: &Cluster,
    options: &Options,
    operators: &[Deployment],
    all: &[Node],
) -> Result<Vec<Finding>, Error> {
    let template = operators.iter().find_map(|deployment| deployment.spec.as_ref()?.template.spec.as_ref());
    let Some(template) = template.filter(|_| options.probe) else {
        return Ok(vec![skip("CPU manager and kernel: only a pod can see them", "look with --probe")]);
    };
    let on_servers = all.iter().any(|node| {
        nodes::usable(node) && node.labels().get(labels::NODE_ROLE).is_some_and(|role| role == labels::SERVER)
    });
    match probe::probe(&cluster.client, &cluster.namespace, template, on_servers).await {
        Ok(findings) => Ok(findings),
        Err(probe::Error::Interrupted) => Err(Error::Interrupted),
        Err(error) => Ok(vec![warn(
            format!("CPU manager and kernel: {}", causes::told(&error)),
            "look again, or in another namespace",
        )]),
    }
}

/// What the manifests declare that needs room.
#[derive(Default)]
struct Declared {
    objects: Vec<Object>,
    suites: Vec<BenchmarkSuite>,
    faults: Option<Finding>,
}

fn declared(options: &Options) -> Result<Declared, Error> {
    let judged = judge(manifest::read(&options.files)?).map_err(validate::Error::from)?;
    let faults = judged.refused().then(|| {
        fail("manifests: some have faults and are not looked at", "dragstrip validate -f says which")
    });
    let mut declared = Declared { faults, ..Declared::default() };
    for (document, object) in judged.objects {
        match object {
            Object::Suite => declared.suites.push(
                serde_json::from_value(document.value.clone())
                    .map_err(|error| Error::Decode(error, document.title()))?,
            ),
            object => declared.objects.push(object),
        }
    }
    Ok(declared)
}

async fn look(cluster: &Cluster, options: &Options) -> Result<Vec<Finding>, Error> {
    let client = &cluster.client;
    let declared = declared(options)?;
    // Without an answer to this nothing else could be told either.
    let kinds =
        served(client, operator::GROUP_VERSION).await.map_err(|error| Error::Served(Box::new(error)))?;
    let mut findings = vec![operator::api(&kinds)];
    let operators = match operators(client, options).await {
        Ok(found) => {
            findings.extend(operator::operators(&found, env!("CARGO_PKG_VERSION")));
            found
        }
        Err(error) => {
            let remedy = "name its namespace with --operator-namespace, or ask for the right to list Deployments there";
            findings.push(unseen("operator", &error, remedy));
            Vec::new()
        }
    };
    let nodes = match Api::<Node>::all(client.clone()).list(&ListParams::default()).await {
        Ok(list) => {
            findings.extend(nodes::nodes(&list.items));
            findings.extend(manifests::manifests(&declared.objects, &declared.suites, &list.items));
            list.items
        }
        Err(error) => {
            findings.push(unseen("nodes", &error, "ask for the right to list nodes"));
            Vec::new()
        }
    };
    findings.extend(declared.faults);
    findings.push(clocks(client).await);
    if kinds.iter().any(|kind| kind == "datastores") {
        findings.extend(io_uring(client).await);
    }
    findings.extend(probed(cluster, options, &operators, &nodes).await?);
    findings.push(prometheus(client).await);
    findings.push(grafana(client).await);
    Ok(findings)
}

/// What the probe's pod tells.
pub fn inside() -> Result<ExitCode, Error> {
    output::print_value(&probe::inside(), Form::Json)?;
    Ok(ExitCode::SUCCESS)
}

/// Looks at everything and tells it. Exit code 1 when no run can work.
pub async fn doctor(cluster: &Cluster, options: &Options) -> Result<ExitCode, Error> {
    let findings = look(cluster, options).await?;
    match options.output {
        Form::Table | Form::Name => output::print(&text(&findings, output::coloured()))?,
        Form::Json | Form::Yaml => output::print_value(&findings, options.output)?,
    }
    let failed = findings.iter().any(|finding| finding.level == Level::Fail);
    Ok(if failed { ExitCode::from(1) } else { ExitCode::SUCCESS })
}
