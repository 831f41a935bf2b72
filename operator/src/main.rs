//! The operator's command line.

use clap::Parser;
use dragstrip_operator::{
    cluster::{agents::Agents, events::Announcer},
    context::{Context, Settings},
    metrics::Metrics,
    process::{self, chain},
};
use kube::client::{Body, ClientBuilder};
use std::{net::SocketAddr, process::ExitCode, sync::Arc};
use tower::util::MapRequestLayer;
use tracing_subscriber::EnvFilter;

/// Dragstrip's operator: Datastores and BenchmarkRuns.
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    /// Image that holds dragstrip-runner, dragstrip-loadgen and dragstrip-clients.
    #[arg(long, env = "DRAGSTRIP_RUNNER_IMAGE", default_value = concat!("dragstrip.dev/runner:", env!("CARGO_PKG_VERSION")))]
    runner_image: String,
    /// Image that holds memtier_benchmark, for phases that name none.
    #[arg(
        long,
        env = "DRAGSTRIP_MEMTIER_IMAGE",
        default_value = "docker.io/redislabs/memtier_benchmark:2.3.0"
    )]
    memtier_image: String,
    /// Image that holds dragstrip-bullmq, for phases that name none.
    #[arg(long, env = "DRAGSTRIP_BULLMQ_IMAGE", default_value = concat!("dragstrip.dev/bullmq:", env!("CARGO_PKG_VERSION")))]
    bullmq_image: String,
    /// The operator's namespace: the Leases of nodes are kept there.
    #[arg(long, env = "DRAGSTRIP_NAMESPACE", default_value = "dragstrip-system")]
    namespace: String,
    /// Address for health and metrics.
    #[arg(long, env = "DRAGSTRIP_LISTEN", default_value = "0.0.0.0:8080")]
    listen: SocketAddr,
    /// Log lines for people instead of JSON.
    #[arg(long)]
    plain_logs: bool,
}

fn start_logs(plain: bool) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info,kube=warn"));
    let logs = tracing_subscriber::fmt().with_env_filter(filter);
    if plain {
        logs.init();
    } else {
        logs.json().flatten_event(true).init();
    }
}

/// A client whose requests are counted by method.
fn counting_client(config: kube::Config, metrics: Metrics) -> kube::Result<kube::Client> {
    let count = MapRequestLayer::new(move |request: http::Request<Body>| {
        metrics.requested(request.method().as_str());
        request
    });
    Ok(ClientBuilder::try_from(config)?.with_layer(&count).build())
}

async fn start(arguments: Arguments) -> Result<(), Box<dyn std::error::Error>> {
    let metrics = Metrics::new()?;
    let client = counting_client(kube::Config::infer().await?, metrics.clone())?;
    let context = Context {
        announcer: Arc::new(Announcer::new(client.clone())),
        client,
        settings: Arc::new(Settings {
            runner_image: arguments.runner_image,
            memtier_image: arguments.memtier_image,
            bullmq_image: arguments.bullmq_image,
            namespace: arguments.namespace,
        }),
        agents: Agents::new()?,
        metrics,
    };
    Ok(process::run(context, arguments.listen).await?)
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    start_logs(arguments.plain_logs);
    match start(arguments).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(error = %chain(&*error), "the operator failed");
            ExitCode::FAILURE
        }
    }
}
