//! The process around the controllers: options, logs, wait for CRDs, election, health and metrics.

use crate::{
    cluster::{
        client::counting_client,
        context::Context,
        events::Announcer,
        leader::{Candidate, Leadership, Times},
        settings::Settings,
        signing_key,
        world::Feeds,
    },
    datastore, expiry,
    metrics::{Metrics, Page, Prices, Readers},
    run::{self, RunContext},
    shutdown::{self, Shutdown},
    suite::{self, SuiteContext},
};
use axum::{
    Router,
    extract::{Request, State},
    http::StatusCode,
    middleware::{Next, from_fn_with_state},
    response::{IntoResponse, Response},
    routing::{MethodRouter, get},
};
use dragstrip_agents::Agents;
use dragstrip_results::error_chain::chain;
use futures::{Future, FutureExt, StreamExt, future::LocalBoxFuture, stream::FuturesUnordered};
use jiff::Timestamp;
use kube::Client;
use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::time::timeout;
use tracing_subscriber::EnvFilter;

/// Run Dragstrip's operator, which controls Datastores, BenchmarkRuns and BenchmarkSuites.
#[derive(Debug, clap::Parser)]
#[command(version)]
pub struct Arguments {
    #[command(flatten)]
    settings: Settings,
    /// Lease in the operator's namespace by which replicas elect a leader; without it there is no election.
    #[arg(long, env = "DRAGSTRIP_LEADER_LEASE", requires = "pod_name")]
    leader_lease: Option<String>,
    /// Name of this replica in the election.
    #[arg(long, env = "DRAGSTRIP_POD_NAME")]
    pod_name: Option<String>,
    /// Address at which to serve health and metrics.
    #[arg(long, env = "DRAGSTRIP_LISTEN", default_value = "0.0.0.0:8080")]
    listen: SocketAddr,
    /// Number of finished runs in the metrics, the newest first; 0 for none.
    #[arg(long, env = "DRAGSTRIP_METRICS_MAX_RUNS", default_value_t = 200)]
    metrics_max_runs: usize,
    /// CSV table with the columns `instance_type` and `usd_per_hour`, which extends the built-in prices.
    #[arg(long, env = "DRAGSTRIP_PRICES_FILE")]
    prices_file: Option<PathBuf>,
    /// Log plain text instead of JSON.
    #[arg(long)]
    plain_logs: bool,
}

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("failed to listen on {1}")]
    Listen(#[source] std::io::Error, SocketAddr),
    #[error("failed to serve health and metrics")]
    Serve(#[source] std::io::Error),
    #[error("the {0} controller ended unexpectedly")]
    ControllerEnded(&'static str),
    #[error("lost the leader's Lease: {0}")]
    LeadershipLost(&'static str),
    #[error("failed to wait for signals")]
    Signals(#[source] std::io::Error),
}

#[derive(Clone)]
struct Health {
    ready: Arc<AtomicBool>,
    leads: Arc<AtomicBool>,
    page: Page,
}

async fn readyz(State(health): State<Health>) -> impl IntoResponse {
    if health.ready.load(Ordering::Relaxed) {
        (StatusCode::OK, "ready")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "waiting for the CRDs and for the first list of every kind")
    }
}

async fn metrics(State(health): State<Health>) -> impl IntoResponse {
    let leads = health.leads.load(Ordering::Relaxed);
    let text = if leads { health.page.text(Timestamp::now()) } else { health.page.of_process() };
    text.map_err(|error| (StatusCode::INTERNAL_SERVER_ERROR, chain(&error)))
}

async fn admit(State(readers): State<Readers>, request: Request, next: Next) -> Response {
    match readers.admit(request.headers()).await {
        Ok(()) => next.run(request).await,
        Err(refused) => (refused.status(), chain(&refused)).into_response(),
    }
}

/// The routes. The kubelet's probes have no token.
fn routes<S: Clone + Send + Sync + 'static>(
    readyz: MethodRouter<S>,
    metrics: MethodRouter<S>,
    readers: Readers,
) -> Router<S> {
    Router::new()
        .route("/healthz", get(|| async { "alive" }))
        .route("/readyz", readyz)
        .route("/metrics", metrics.layer(from_fn_with_state(readers, admit)))
}

async fn serve(
    listen: SocketAddr,
    health: Health,
    readers: Readers,
    shutdown: Shutdown,
) -> Result<(), Error> {
    let router = routes(get(readyz), get(metrics), readers).with_state(health);
    let listener =
        tokio::net::TcpListener::bind(listen).await.map_err(|error| Error::Listen(error, listen))?;
    axum::serve(listener, router).with_graceful_shutdown(shutdown).await.map_err(Error::Serve)
}

/// Why `leadership` was lost; never completes without an election.
async fn lost(leadership: Option<&mut Leadership>) -> &'static str {
    match leadership {
        Some(leadership) => leadership.lost().await,
        None => std::future::pending().await,
    }
}

/// Runs the controllers while this operator leads: from the start if there is no election.
async fn lead(
    shared: Context,
    feeds: Feeds,
    prices: Arc<Prices>,
    candidate: Option<Candidate>,
    health: Health,
    stop: Shutdown,
) -> Result<(), Error> {
    let mut leadership = None;
    if let Some(candidate) = candidate {
        tracing::info!("standing by until this operator leads");
        // A replica on standby is ready too.
        health.ready.store(true, Ordering::Relaxed);
        tokio::select! {
            won = candidate.win() => leadership = Some(won),
            () = stop.clone() => return Ok(()),
        }
        tracing::info!("this operator leads");
    }
    health.leads.store(true, Ordering::Relaxed);
    let worked = tokio::select! {
        worked = controllers(shared, feeds, prices, health, stop.clone()) => worked,
        why = lost(leadership.as_mut()) => Err(Error::LeadershipLost(why)),
    };
    if let (Ok(()), Some(leadership)) = (&worked, leadership)
        && let Err(error) = leadership.release().await
    {
        tracing::warn!(%error, "could not release the leader's Lease: the next leader waits until it expires");
    }
    worked
}

async fn controllers(
    shared: Context,
    mut feeds: Feeds,
    prices: Arc<Prices>,
    health: Health,
    stop: Shutdown,
) -> Result<(), Error> {
    let ctx = Arc::new(shared.clone());
    let run_ctx = Arc::new(RunContext::new(shared.clone(), prices));
    let datastores = datastore::controller(ctx.clone(), &mut feeds, &stop);
    let runs = run::controller(run_ctx.clone(), &mut feeds, &stop);
    let lease_cleanup = run::lease_cleanup(run_ctx.clone(), &mut feeds, &stop);
    let suites = suite::controller(Arc::new(SuiteContext::new(shared)), &mut feeds, &stop);
    let expiring = (ctx.world.expiring.clone(), ctx.world.expiring_suites.clone());
    let expiry = expiry::controller(ctx.clone(), &mut feeds.expiring, expiring.0, &stop);
    let suite_expiry = expiry::controller(ctx.clone(), &mut feeds.expiring_suites, expiring.1, &stop);
    let watches = tokio::spawn(feeds.run());
    // If a chart installs the CRDs after the operator, their watches retry until then.
    tracing::info!("listing all kinds: the operator waits until the CRDs are installed");
    tokio::select! {
        listed = ctx.world.listed() => listed.map_err(|_| Error::ControllerEnded(WATCHES))?,
        () = stop.clone() => return Ok(()),
    }
    if let Err(error) = run::cache_all(&run_ctx).await {
        tracing::warn!(error = %chain(&error), "could not list the stored results; each run will list its own");
    }
    health.ready.store(true, Ordering::Relaxed);
    tracing::info!("starting the controllers");
    // Later than the controllers: running benchmarks come first.
    let scope = ctx.settings.scope();
    let history = Box::pin(health.page.history.follow(ctx.client.clone(), &scope));
    let working: Working<'_> = [
        named("datastore", datastores),
        named("run", runs),
        named("turn", lease_cleanup),
        named("suite", suites),
        named("expiry", expiry),
        named("expiry of suites", suite_expiry),
    ]
    .into_iter()
    .collect();
    let endless = async {
        tokio::select! {
            _ = watches => WATCHES,
            () = history => "history",
        }
    };
    until_stopped(working, endless, stop.clone()).await
}

/// Parts of the operator that end with the shutdown, by name.
type Working<'a> = FuturesUnordered<LocalBoxFuture<'a, &'static str>>;

const WATCHES: &str = "watches";
/// How long running reconciles may take after the shutdown begins: the chart allows 10 s.
const LAST_RECONCILES: Duration = Duration::from_secs(7);

fn named<'a>(name: &'static str, part: impl Future<Output = ()> + 'a) -> LocalBoxFuture<'a, &'static str> {
    part.map(move |()| name).boxed_local()
}

/// Waits for the shutdown, and then for the reconciles that are still running, so that none stops
/// halfway, such as while it sends start commands to pods.
async fn until_stopped(
    mut working: Working<'_>,
    endless: impl Future<Output = &'static str>,
    stop: Shutdown,
) -> Result<(), Error> {
    let ended = tokio::select! {
        Some(ended) = working.next() => ended,
        ended = endless => ended,
    };
    // A controller that ends early must not leave half an operator behind.
    if stop.now_or_never().is_none() {
        return Err(Error::ControllerEnded(ended));
    }
    if timeout(LAST_RECONCILES, working.count()).await.is_err() {
        tracing::warn!("abandoning reconciles that are still running");
    }
    Ok(())
}

/// The built-in prices, overridden by those in the file at `path`.
fn prices(path: Option<&Path>) -> Result<Prices, String> {
    let message = |error: &(dyn std::error::Error + 'static)| {
        format!("failed to read the price table {path:?}: {}", chain(error))
    };
    let own = path.map_or(Ok(String::new()), std::fs::read_to_string).map_err(|error| message(&error))?;
    Prices::with(&own).map_err(|error| message(&error))
}

/// Runs the operator until the shutdown.
async fn operate(arguments: Arguments) -> Result<(), Box<dyn std::error::Error>> {
    let metrics = Metrics::new()?;
    let prices = prices(arguments.prices_file.as_deref())?;
    let config = kube::Config::infer().await?;
    let client = counting_client(config.clone(), &metrics)?;
    let mut settings = arguments.settings;
    let signing_key = signing_key::read_or_create(&client, &settings.namespace).await?;
    settings.verifying_key = Some(signing_key.public());
    // Separate clients: other requests never delay the renewal of the Lease, and a reader of the metrics
    // does not change what they count.
    let for_lease = counting_client(config.clone(), &metrics)?;
    let readers = Readers::new(Client::try_from(config)?);
    let elected = arguments.leader_lease.zip(arguments.pod_name);
    let candidate = elected.map(|(lease, identity)| {
        Candidate::new(for_lease, &settings.namespace, lease, identity, Times::default())
    });
    let feeds = Feeds::new(&client, &settings.scope(), &metrics);
    let page = Page::new(metrics.clone(), feeds.world(), prices.clone(), arguments.metrics_max_runs);
    let shared = Context {
        world: feeds.world(),
        retries: Arc::default(),
        overlay: Arc::default(),
        announcer: Arc::new(Announcer::new(client.clone())),
        client,
        settings: Arc::new(settings),
        agents: Agents::new(signing_key)?,
        metrics,
    };
    let stop = shutdown::on_signals().map_err(Error::Signals)?;
    let health = Health { ready: Arc::default(), leads: Arc::default(), page };
    tokio::try_join!(
        serve(arguments.listen, health.clone(), readers, stop.clone()),
        Box::pin(lead(shared, feeds, Arc::new(prices), candidate, health, stop))
    )?;
    tracing::info!("stopped");
    Ok(())
}

/// The caller logs a failed request; kube's client would log the complete body of the response.
const DEFAULT_FILTER: &str = "info,kube=error";

fn start_logs(plain: bool) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(DEFAULT_FILTER));
    let logs = tracing_subscriber::fmt().with_env_filter(filter);
    if plain {
        logs.init();
    } else {
        logs.json().flatten_event(true).init();
    }
}

/// Runs the operator until the shutdown, and logs why it failed.
pub async fn run(arguments: Arguments) -> ExitCode {
    start_logs(arguments.plain_logs);
    match Box::pin(operate(arguments)).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(error = %chain(&*error), "the operator failed");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::readers::tests::{readers, with};
    use axum::http::HeaderMap;
    use tower::ServiceExt;

    #[tokio::test]
    async fn metrics_need_a_token_and_probes_do_not() {
        let (readers, _) = readers();
        let routes = routes::<()>(get(|| async { "ready" }), get(|| async { "figures" }), readers);
        let status = async |path: &str, headers| {
            let mut request = Request::new(axum::body::Body::empty());
            *request.uri_mut() = path.parse().unwrap();
            *request.headers_mut() = headers;
            routes.clone().oneshot(request).await.unwrap().status().as_u16()
        };
        assert_eq!(status("/metrics", HeaderMap::new()).await, 401);
        assert_eq!(status("/metrics", with("Bearer good")).await, 200);
        assert_eq!(status("/healthz", HeaderMap::new()).await, 200);
        assert_eq!(status("/readyz", HeaderMap::new()).await, 200);
    }

    #[tokio::test]
    async fn running_reconciles_finish_after_the_shutdown_begins() {
        let ended = AtomicBool::new(false);
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let stopped = shutdown::shutdown_after(stopped.map(drop));
        let slow = async {
            tokio::time::sleep(Duration::from_millis(50)).await;
            ended.store(true, Ordering::Relaxed);
        };
        let working = [named("idle", std::future::ready(())), named("busy", slow)].into_iter().collect();
        stop.send(()).unwrap();
        stopped.clone().await;
        until_stopped(working, std::future::pending(), stopped).await.unwrap();
        assert!(ended.load(Ordering::Relaxed), "a reconcile stopped halfway");
    }

    #[tokio::test]
    async fn a_controller_that_ends_early_ends_the_operator() {
        let never = shutdown::shutdown_after(std::future::pending());
        let working = [named("run", std::future::ready(()))].into_iter().collect();
        let error = until_stopped(working, std::future::pending(), never).await.unwrap_err();
        assert_eq!(error.to_string(), "the run controller ended unexpectedly");
    }
}
