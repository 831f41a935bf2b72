//! The operator's command line.

use clap::Parser;
use dragstrip_operator::{
    cluster::{agents::Agents, events::Announcer, world::Feeds},
    context::{Context, Settings},
    metrics::Metrics,
    process::{self, chain},
    sinks::{self, Sinks},
};
use kube::client::{Body, ClientBuilder};
use std::{net::SocketAddr, process::ExitCode, sync::Arc};
use tower::{
    limit::ConcurrencyLimitLayer,
    util::{MapFutureLayer, MapRequestLayer},
};
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
    /// How often Prometheus scrapes client pods, in seconds, 0 for never: they stay up to two
    /// intervals after their result for the scrape of their last counts, where somebody scraped.
    #[arg(long, env = "DRAGSTRIP_SCRAPE_INTERVAL_SECONDS", default_value_t = 1.0)]
    scrape_interval_seconds: f64,
    /// Address for health and metrics.
    #[arg(long, env = "DRAGSTRIP_LISTEN", default_value = "0.0.0.0:8080")]
    listen: SocketAddr,
    #[command(flatten)]
    sinks: sinks::Settings,
    /// Log lines for people instead of JSON.
    #[arg(long)]
    plain_logs: bool,
}

/// Where a request fails the caller says so; kube's client would log the whole body of the answer.
const DEFAULT_FILTER: &str = "info,kube_client=error,kube_runtime=error";

/// Requests to the apiserver under way at the same time: it serves others too.
const MOST_IN_FLIGHT: usize = 64;

fn start_logs(plain: bool) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(DEFAULT_FILTER));
    let logs = tracing_subscriber::fmt().with_env_filter(filter);
    if plain {
        logs.init();
    } else {
        logs.json().flatten_event(true).init();
    }
}

/// A client whose requests are counted, by method and while they are under way, and bounded.
fn counting_client(config: kube::Config, metrics: Metrics) -> kube::Result<kube::Client> {
    let under_way = metrics.clone();
    let count = MapRequestLayer::new(move |request: http::Request<Body>| {
        metrics.requested(request.method().as_str());
        request
    });
    let follow = MapFutureLayer::new(move |answer| {
        let in_flight = under_way.in_flight();
        async move {
            let answer = answer.await;
            drop(in_flight);
            answer
        }
    });
    let bound = ConcurrencyLimitLayer::new(MOST_IN_FLIGHT);
    Ok(ClientBuilder::try_from(config)?.with_layer(&count).with_layer(&follow).with_layer(&bound).build())
}

async fn start(arguments: Arguments) -> Result<(), Box<dyn std::error::Error>> {
    let metrics = Metrics::new()?;
    let sinks = Sinks::new(arguments.sinks)?;
    let client = counting_client(kube::Config::infer().await?, metrics.clone())?;
    let feeds = Feeds::new(&client, &metrics);
    let context = Context {
        world: feeds.world(),
        retries: Arc::default(),
        unread: Arc::default(),
        own_writes: Arc::default(),
        remembered: Arc::default(),
        announcer: Arc::new(Announcer::new(client.clone())),
        client,
        settings: Arc::new(Settings {
            runner_image: arguments.runner_image,
            memtier_image: arguments.memtier_image,
            bullmq_image: arguments.bullmq_image,
            namespace: arguments.namespace,
            scrape_interval_seconds: arguments.scrape_interval_seconds,
        }),
        agents: Agents::new()?,
        sinks: Arc::new(sinks),
        metrics,
    };
    Ok(process::run(context, feeds, arguments.listen).await?)
}

// It mostly waits: a thread for each CPU of a large node would only take memory.
#[tokio::main(worker_threads = 2)]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    start_logs(arguments.plain_logs);
    match Box::pin(start(arguments)).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(error = %chain(&*error), "the operator failed");
            ExitCode::FAILURE
        }
    }
}
