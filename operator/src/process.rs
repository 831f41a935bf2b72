//! The process around the controllers: it waits for the CRDs, elects a leader, and serves health
//! and metrics over HTTP.

use crate::{
    cluster::{
        leader::{Candidate, Leadership},
        world::Feeds,
    },
    context::Context,
    datastore,
    metrics::Page,
    run,
    shutdown::{self, Shutdown},
    suite,
};
use axum::{Router, extract::State, http::StatusCode, response::IntoResponse, routing::get};
use dragstrip_crds::{BenchmarkRun, BenchmarkSuite, Datastore};
use dragstrip_results::error_chain::chain;
use futures::{Future, FutureExt, StreamExt, future::LocalBoxFuture, stream::FuturesUnordered};
use jiff::Timestamp;
use kube::{Client, Resource};
use std::{
    borrow::Cow,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::time::timeout;

/// A step of the process that failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address is not available.
    #[error("failed to listen on {1}")]
    Listen(#[source] std::io::Error, SocketAddr),
    /// The HTTP server ended.
    #[error("failed to serve health and metrics")]
    Serve(#[source] std::io::Error),
    /// A controller ended before the shutdown.
    #[error("the {0} controller ended unexpectedly")]
    ControllerEnded(&'static str),
    /// Another operator may lead.
    #[error("lost the leader's Lease: {0}")]
    LeadershipLost(&'static str),
    /// The signal handlers could not be installed.
    #[error("failed to wait for signals")]
    Signals(#[source] std::io::Error),
}

#[derive(Clone)]
struct Health {
    ready: Arc<AtomicBool>,
    /// Whether this operator leads.
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

async fn serve(listen: SocketAddr, health: Health, shutdown: Shutdown) -> Result<(), Error> {
    let router = Router::new()
        .route("/healthz", get(|| async { "alive" }))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .with_state(health);
    let listener =
        tokio::net::TcpListener::bind(listen).await.map_err(|error| Error::Listen(error, listen))?;
    axum::serve(listener, router).with_graceful_shutdown(shutdown).await.map_err(Error::Serve)
}

/// How often to query which kinds the API server serves, until it serves all.
const QUERY_INTERVAL: Duration = Duration::from_secs(1);

/// Our kinds that the API server does not serve. Discovery needs a few lines; the CRDs
/// themselves have up to 181 KB of JSON, and decoding them costs 2.6 MB of memory permanently.
async fn unserved(client: &Client) -> Result<Vec<Cow<'static, str>>, kube::Error> {
    let served = match client.list_api_group_resources(&Datastore::api_version(&())).await {
        Ok(list) => list.resources,
        // A group without kinds is a bare path, answered in plain text: `is_not_found` wants a Status.
        Err(kube::Error::Api(status)) if status.code == 404 => Vec::new(),
        Err(error) => return Err(error),
    };
    let kinds = [Datastore::plural(&()), BenchmarkRun::plural(&()), BenchmarkSuite::plural(&())];
    Ok(kinds.into_iter().filter(|kind| served.iter().all(|one| one.name != **kind)).collect())
}

/// Waits until the API server serves every kind, however long that takes: a chart may install
/// CRDs after the operator, and the API server may start later. To exit would cause a crash loop.
async fn await_kinds(client: &Client) {
    let mut logged = None;
    loop {
        let state = match unserved(client).await {
            Ok(missing) if missing.is_empty() => return,
            Ok(missing) => Ok(missing.join(", ")),
            Err(error) => Err(chain(&error)),
        };
        if logged.as_ref() != Some(&state) {
            match &state {
                Ok(kinds) => tracing::info!(
                    kinds,
                    "waiting until the API server serves all kinds: are the CRDs installed?"
                ),
                Err(error) => {
                    tracing::warn!(error, "could not query which kinds the API server serves: retrying");
                }
            }
        }
        logged = Some(state);
        tokio::time::sleep(QUERY_INTERVAL).await;
    }
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
    ctx: Arc<Context>,
    candidate: Option<Candidate>,
    feeds: Feeds,
    health: Health,
    stop: Shutdown,
) -> Result<(), Error> {
    tokio::select! {
        () = await_kinds(&ctx.client) => {}
        () = stop.clone() => return Ok(()),
    }
    let mut leadership = None;
    if let Some(candidate) = candidate {
        tracing::info!("standing by until this operator leads");
        // A replica on standby is as ready as it can be.
        health.ready.store(true, Ordering::Relaxed);
        tokio::select! {
            won = candidate.win() => leadership = Some(won),
            () = stop.clone() => return Ok(()),
        }
        tracing::info!("this operator leads");
    }
    health.leads.store(true, Ordering::Relaxed);
    let worked = tokio::select! {
        worked = controllers(ctx, feeds, health, stop.clone()) => worked,
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
    ctx: Arc<Context>,
    mut feeds: Feeds,
    health: Health,
    stop: Shutdown,
) -> Result<(), Error> {
    let datastores = datastore::controller(ctx.clone(), &mut feeds, &stop);
    let runs = run::controller(ctx.clone(), &mut feeds, &stop);
    let lease_cleanup = run::lease_cleanup(ctx.clone(), &mut feeds, &stop);
    let suites = suite::controller(ctx.clone(), &mut feeds, &stop);
    let expiring = (ctx.world.expiring.clone(), ctx.world.expiring_suites.clone());
    let expiry = run::expiry(ctx.clone(), &mut feeds.expiring, expiring.0, &stop);
    let suite_expiry = run::expiry(ctx.clone(), &mut feeds.expiring_suites, expiring.1, &stop);
    let watches = tokio::spawn(feeds.run());
    tracing::info!("listing all kinds");
    tokio::select! {
        listed = ctx.world.listed() => listed.map_err(|_| Error::ControllerEnded(WATCHES))?,
        () = stop.clone() => return Ok(()),
    }
    if let Err(error) = run::remember_all(&ctx).await {
        tracing::warn!(error = %chain(&error), "could not list the stored results; each run will list its own");
    }
    health.ready.store(true, Ordering::Relaxed);
    tracing::info!("starting the controllers");
    // Later than the controllers: running benchmarks come first.
    let history = Box::pin(health.page.history.follow(ctx.client.clone(), &ctx.settings.scope));
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

/// Runs the operator until the shutdown.
pub async fn run(
    ctx: Context,
    candidate: Option<Candidate>,
    feeds: Feeds,
    page: Page,
    listen: SocketAddr,
) -> Result<(), Error> {
    let stop = shutdown::on_signals().map_err(Error::Signals)?;
    let health = Health { ready: Arc::default(), leads: Arc::default(), page };
    tokio::try_join!(
        serve(listen, health.clone(), stop.clone()),
        lead(Arc::new(ctx), candidate, feeds, health, stop)
    )?;
    tracing::info!("stopped");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

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
