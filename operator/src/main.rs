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
    failure::chain,
    metrics::{Metrics, Page, Prices},
    process,
};
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
    /// When these images are pulled: Always, IfNotPresent or Never; Kubernetes' own rule when absent.
    #[arg(long, env = "DRAGSTRIP_IMAGE_PULL_POLICY", value_parser = ["Always", "IfNotPresent", "Never"])]
    image_pull_policy: Option<String>,
    /// Names of Secrets that pods of runs and Datastores may pull images with, separated by commas.
    #[arg(long, env = "DRAGSTRIP_IMAGE_PULL_SECRETS", value_delimiter = ',')]
    image_pull_secrets: Vec<String>,
    /// The operator's namespace: the Leases of nodes are kept there.
    #[arg(long, env = "DRAGSTRIP_NAMESPACE", default_value = "dragstrip-system")]
    namespace: String,
    /// Networks that no external target may resolve to, such as 169.254.0.0/16, separated by commas.
    #[arg(long, env = "DRAGSTRIP_BLOCKED_NETWORKS", value_delimiter = ',')]
    blocked_networks: Vec<IpNet>,
    /// Name of the Lease in the operator's namespace by which several operators elect the one that
    /// works; without it this one works at once.
    #[arg(long, env = "DRAGSTRIP_LEADER_LEASE", requires = "pod_name")]
    leader_lease: Option<String>,
    /// This operator's name among those that elect a leader.
    #[arg(long, env = "DRAGSTRIP_POD_NAME")]
    pod_name: Option<String>,
    /// Watch the operator's own namespace instead of the whole cluster.
    #[arg(long, env = "DRAGSTRIP_OWN_NAMESPACE_ONLY")]
    own_namespace_only: bool,
    /// How often Prometheus scrapes client pods, in seconds, 0 for never: they stay up to two
    /// intervals after their result for the scrape of their last counts, where somebody scraped.
    #[arg(long, env = "DRAGSTRIP_SCRAPE_INTERVAL_SECONDS", default_value_t = 1.0)]
    scrape_interval_seconds: f64,
    /// Address for health and metrics.
    #[arg(long, env = "DRAGSTRIP_LISTEN", default_value = "0.0.0.0:8080")]
    listen: SocketAddr,
    /// Runs that have ended and whose metrics are shown, the newest; 0 for none.
    #[arg(long, env = "DRAGSTRIP_METRICS_MAX_RUNS", default_value_t = 200)]
    metrics_max_runs: usize,
    /// Memory that this process may take: suites whose report would need more are refused.
    #[arg(long, env = "DRAGSTRIP_MEMORY_LIMIT_BYTES")]
    memory_limit_bytes: Option<u64>,
    /// A CSV table with the columns `instance_type` and `usd_per_hour`, added to the prices that are known.
    #[arg(long, env = "DRAGSTRIP_PRICES_FILE")]
    prices_file: Option<PathBuf>,
    /// Log lines for people instead of JSON.
    #[arg(long)]
    plain_logs: bool,
}

/// Where a request fails the caller says so; kube's client would log the whole body of the answer.
const DEFAULT_FILTER: &str = "info,kube=error";

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

/// The apiserver gives up after a minute; what it never answers would hold up who asked for ever.
const ANSWERED_WITHIN: Duration = Duration::from_secs(90);

/// Counts requests: those that are answered by method and status, and those under way. What is
/// not answered in time fails; a watch is answered when it begins.
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
            let answer = timeout(ANSWERED_WITHIN, answer).await;
            let answer = answer.map_err(BoxError::from).and_then(|answer| answer.map_err(Into::into));
            drop(in_flight);
            let code = answer.as_ref().ok().map(|answer| answer.status().as_u16());
            metrics.requested(method.as_str(), code);
            answer
        })
    }
}

/// A client whose requests are counted and bounded.
fn counting_client(config: kube::Config, metrics: &Metrics) -> kube::Result<kube::Client> {
    let count = layer_fn(|inner| Counted { inner, metrics: metrics.clone() });
    let bound = ConcurrencyLimitLayer::new(MOST_IN_FLIGHT);
    Ok(ClientBuilder::try_from(config)?.with_layer(&count).with_layer(&bound).build())
}

/// The prices that are known, and those of the file at `path`, which win.
fn prices(path: Option<&Path>) -> Result<Prices, String> {
    let told = |error: &dyn std::error::Error| {
        format!("failed to read the table of prices {path:?}: {}", chain(error))
    };
    let own = path.map_or(Ok(String::new()), std::fs::read_to_string).map_err(|error| told(&error))?;
    Prices::with(&own).map_err(|error| told(&error))
}

async fn start(arguments: Arguments) -> Result<(), Box<dyn std::error::Error>> {
    let metrics = Metrics::new()?;
    let prices = prices(arguments.prices_file.as_deref())?;
    let config = kube::Config::infer().await?;
    let client = counting_client(config.clone(), &metrics)?;
    let signing_key = signing_key::read_or_create(&client, &arguments.namespace).await?;
    let elected = arguments.leader_lease.zip(arguments.pod_name);
    // Of its own, so that the Lease is renewed in time whatever else is under way.
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
        own_writes: Arc::default(),
        own_leases: Arc::default(),
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
