//! The operator's command line.

use clap::Parser;
use dragstrip_agents::Agents;
use dragstrip_operator::{
    cluster::{
        events::Announcer,
        leader::{Candidate, Times},
        scope::Scope,
        signing_key,
        world::Feeds,
    },
    context::{Context, Settings},
    metrics::{Metrics, Page, Prices},
    process,
};
use dragstrip_results::error_chain::chain;
use futures::future::BoxFuture;
use http::{Request, Response};
use ipnet::IpNet;
use kube::client::{Body, ClientBuilder};
use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
    task,
    time::Duration,
};
use tokio::time::timeout;
use tower::{BoxError, Service, layer::layer_fn, limit::ConcurrencyLimitLayer};
use tracing_subscriber::EnvFilter;

/// Run Dragstrip's operator, which controls Datastores, BenchmarkRuns and BenchmarkSuites.
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    /// Image with dragstrip-runner, dragstrip-loadgen and dragstrip-clients.
    #[arg(long, env = "DRAGSTRIP_RUNNER_IMAGE", default_value = concat!("dragstrip.dev/runner:", env!("CARGO_PKG_VERSION")))]
    runner_image: String,
    /// Image with memtier_benchmark, for phases without an image.
    #[arg(
        long,
        env = "DRAGSTRIP_MEMTIER_IMAGE",
        default_value = "docker.io/redislabs/memtier_benchmark:2.3.0"
    )]
    memtier_image: String,
    /// Image with dragstrip-bullmq, for phases without an image.
    #[arg(long, env = "DRAGSTRIP_BULLMQ_IMAGE", default_value = concat!("dragstrip.dev/bullmq:", env!("CARGO_PKG_VERSION")))]
    bullmq_image: String,
    /// Pull policy of these images; Kubernetes' default if omitted.
    #[arg(long, env = "DRAGSTRIP_IMAGE_PULL_POLICY", value_parser = ["Always", "IfNotPresent", "Never"])]
    image_pull_policy: Option<String>,
    /// Pull secrets for the pods of runs and Datastores, separated by commas.
    #[arg(long, env = "DRAGSTRIP_IMAGE_PULL_SECRETS", value_delimiter = ',')]
    image_pull_secrets: Vec<String>,
    /// The operator's namespace, in which it stores the Leases of nodes.
    #[arg(long, env = "DRAGSTRIP_NAMESPACE", default_value = "dragstrip-system")]
    namespace: String,
    /// Networks that no external target may resolve to, such as 169.254.0.0/16, separated by commas.
    #[arg(long, env = "DRAGSTRIP_BLOCKED_NETWORKS", value_delimiter = ',')]
    blocked_networks: Vec<IpNet>,
    /// Lease in the operator's namespace by which replicas elect a leader; without it there is no election.
    #[arg(long, env = "DRAGSTRIP_LEADER_LEASE", requires = "pod_name")]
    leader_lease: Option<String>,
    /// Name of this replica in the election.
    #[arg(long, env = "DRAGSTRIP_POD_NAME")]
    pod_name: Option<String>,
    /// Watch the operator's own namespace instead of the whole cluster.
    #[arg(long, env = "DRAGSTRIP_OWN_NAMESPACE_ONLY")]
    own_namespace_only: bool,
    /// Interval in seconds at which Prometheus scrapes client pods, 0 for never. A scraped pod waits up to
    /// two intervals after its result, so that Prometheus reads its last counts.
    #[arg(long, env = "DRAGSTRIP_SCRAPE_INTERVAL_SECONDS", default_value_t = 1.0)]
    scrape_interval_seconds: f64,
    /// Address at which to serve health and metrics.
    #[arg(long, env = "DRAGSTRIP_LISTEN", default_value = "0.0.0.0:8080")]
    listen: SocketAddr,
    /// Number of finished runs in the metrics, the newest first; 0 for none.
    #[arg(long, env = "DRAGSTRIP_METRICS_MAX_RUNS", default_value_t = 200)]
    metrics_max_runs: usize,
    /// Memory limit of this process: it rejects suites whose report would exceed it.
    #[arg(long, env = "DRAGSTRIP_MEMORY_LIMIT_BYTES")]
    memory_limit_bytes: Option<u64>,
    /// CSV table with the columns `instance_type` and `usd_per_hour`, which extends the built-in prices.
    #[arg(long, env = "DRAGSTRIP_PRICES_FILE")]
    prices_file: Option<PathBuf>,
    /// Log plain text instead of JSON.
    #[arg(long)]
    plain_logs: bool,
}

/// The caller logs a failed request; kube's client would log the complete body of the response.
const DEFAULT_FILTER: &str = "info,kube=error";

/// Highest number of concurrent requests: the API server serves others too.
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

/// The API server gives up after a minute; a request without a response would block its caller forever.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(90);

/// Counts requests, by method and status, and those in flight. A request without a response in time
/// fails; the response of a watch is its begin.
#[derive(Clone)]
struct Counted<S> {
    inner: S,
    metrics: Metrics,
}

impl<S, B> Service<Request<Body>> for Counted<S>
where
    S: Service<Request<Body>, Response = Response<B>, Future: Send + 'static>,
    S::Error: Into<BoxError>,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<S::Response, BoxError>>;

    fn poll_ready(&mut self, context: &mut task::Context<'_>) -> task::Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let (method, metrics, in_flight) =
            (request.method().clone(), self.metrics.clone(), self.metrics.in_flight());
        let answer = self.inner.call(request);
        Box::pin(async move {
            let answer = timeout(RESPONSE_TIMEOUT, answer).await;
            let answer = answer.map_err(BoxError::from).and_then(|answer| answer.map_err(Into::into));
            drop(in_flight);
            let code = answer.as_ref().ok().map(|answer| answer.status().as_u16());
            metrics.requested(method.as_str(), code);
            answer
        })
    }
}

/// A client that counts and limits its requests.
fn counting_client(config: kube::Config, metrics: &Metrics) -> kube::Result<kube::Client> {
    let count = layer_fn(|inner| Counted { inner, metrics: metrics.clone() });
    let bound = ConcurrencyLimitLayer::new(MOST_IN_FLIGHT);
    Ok(ClientBuilder::try_from(config)?.with_layer(&count).with_layer(&bound).build())
}

/// The built-in prices, overridden by those in the file at `path`.
fn prices(path: Option<&Path>) -> Result<Prices, String> {
    let message = |error: &(dyn std::error::Error + 'static)| {
        format!("failed to read the price table {path:?}: {}", chain(error))
    };
    let own = path.map_or(Ok(String::new()), std::fs::read_to_string).map_err(|error| message(&error))?;
    Prices::with(&own).map_err(|error| message(&error))
}

async fn start(arguments: Arguments) -> Result<(), Box<dyn std::error::Error>> {
    let metrics = Metrics::new()?;
    let prices = prices(arguments.prices_file.as_deref())?;
    let config = kube::Config::infer().await?;
    let client = counting_client(config.clone(), &metrics)?;
    let signing_key = signing_key::read_or_create(&client, &arguments.namespace).await?;
    let elected = arguments.leader_lease.zip(arguments.pod_name);
    // A separate client, so that other requests never delay the renewal of the Lease.
    let for_lease = counting_client(config, &metrics)?;
    let candidate = elected.map(|(lease, identity)| {
        Candidate::new(for_lease, &arguments.namespace, lease, identity, Times::default())
    });
    let scope = if arguments.own_namespace_only {
        Scope::Namespace(arguments.namespace.clone())
    } else {
        Scope::Cluster
    };
    let feeds = Feeds::new(&client, &scope, &metrics);
    let page = Page::new(metrics.clone(), feeds.world(), prices.clone(), arguments.metrics_max_runs);
    let context = Context {
        world: feeds.world(),
        retries: Arc::default(),
        log_retries: Arc::default(),
        overlay: Arc::default(),
        loads: Arc::default(),
        result_cache: Arc::default(),
        suites: Arc::default(),
        announcer: Arc::new(Announcer::new(client.clone())),
        client,
        settings: Arc::new(Settings {
            runner_image: arguments.runner_image,
            memtier_image: arguments.memtier_image,
            bullmq_image: arguments.bullmq_image,
            verifying_key: Some(signing_key.public()),
            blocked_networks: arguments.blocked_networks,
            memory_limit_bytes: arguments.memory_limit_bytes,
            namespace: arguments.namespace,
            scope,
            pull_policy: arguments.image_pull_policy,
            pull_secrets: arguments.image_pull_secrets,
            scrape_interval_seconds: arguments.scrape_interval_seconds,
        }),
        agents: Agents::new(signing_key)?,
        prices: Arc::new(prices),
        metrics,
    };
    Ok(Box::pin(process::run(context, candidate, feeds, page, arguments.listen)).await?)
}

// The operator mostly waits: a thread for each CPU of a large node would only cost memory.
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
