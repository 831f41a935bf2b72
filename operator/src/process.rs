//! The process around the controllers: shutdown, waiting for the CRDs, health
//! and metrics over HTTP.

use crate::{
    cluster::{
        leader::{Candidate, Leadership},
        world::Feeds,
    },
    context::Context,
    datastore,
    failure::chain,
    metrics::Page,
    run,
    shutdown::Shutdown,
    suite,
};
use axum::{Router, extract::State, http::StatusCode, response::IntoResponse, routing::get};
use dragstrip_crds::{BenchmarkRun, BenchmarkSuite, Datastore};
use futures::{Future, FutureExt, StreamExt, future::LocalBoxFuture, stream::FuturesUnordered};
use jiff::Timestamp;
use kube::{Client, Resource};
use std::{
    borrow::Cow,
    net::SocketAddr,
    pin::Pin,
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
    /// The address could not be listened on.
    #[error("failed to listen on {1}")]
    Listen(#[source] std::io::Error, SocketAddr),
    /// The HTTP server ended.
    #[error("failed to serve health and metrics")]
    Serve(#[source] std::io::Error),
    /// A controller ended without being told to.
    #[error("the {0} controller ended by itself")]
    ControllerEnded(&'static str),
    /// Another operator works, or may.
    #[error("the Lease of the leader is lost: {0}")]
    LeadershipLost(&'static str),
    /// Signals could not be waited for.
    #[error("failed to wait for signals")]
    Signals(#[source] std::io::Error),
}

fn shutdown() -> Result<Shutdown, Error> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate()).map_err(Error::Signals)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(Error::Signals)?;
    let either: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    });
    Ok(either.shared())
}

#[derive(Clone)]
struct Health {
    ready: Arc<AtomicBool>,
    /// Whether this operator works, or will as soon as it is ready.
    leads: Arc<AtomicBool>,
    page: Page,
}

async fn readyz(State(health): State<Health>) -> impl IntoResponse {
    if health.ready.load(Ordering::Relaxed) {
        (StatusCode::OK, "ready")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "waiting for the CRDs, and for every kind to be listed")
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

/// How often the apiserver is asked what it serves, while it does not serve all kinds.
const ASKED_EVERY: Duration = Duration::from_secs(1);

/// The kinds of ours that the apiserver does not serve. Discovery tells it in a few lines; the
/// CRDs themselves have 48 to 181 KB of JSON, and decoding them left 2.6 MB more in memory for good.
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

/// Waits until every kind is served, however long that takes: a chart may install
/// CRDs after the operator, an apiserver may come up after it, and exiting would only
/// make a crash loop.
async fn await_kinds(client: &Client) {
    let mut told = None;
    loop {
        let state = match unserved(client).await {
            Ok(missing) if missing.is_empty() => return,
            Ok(missing) => Ok(missing.join(", ")),
            Err(error) => Err(chain(&error)),
        };
        if told.as_ref() != Some(&state) {
            match &state {
                Ok(kinds) => tracing::info!(
                    kinds,
                    "waiting until the apiserver serves all kinds: are the CRDs installed?"
                ),
                Err(error) => {
                    tracing::warn!(error, "the apiserver does not say which kinds it serves: asking again");
                }
            }
        }
        told = Some(state);
        tokio::time::sleep(ASKED_EVERY).await;
    }
}

/// Why `leadership` was lost. Never ends where there is none to lose.
async fn lost(leadership: Option<&mut Leadership>) -> &'static str {
    match leadership {
        Some(leadership) => leadership.lost().await,
        None => std::future::pending().await,
    }
}

/// Works as long as this operator leads: from the start where nobody is elected.
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
        // Ready to take over: that is all a replica can be.
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
        tracing::warn!(%error, "the Lease of the leader was not given back: the next one waits for its end");
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
    tracing::info!("listing what there is");
    tokio::select! {
        listed = ctx.world.listed() => listed.map_err(|_| Error::ControllerEnded(WATCHES))?,
        () = stop.clone() => return Ok(()),
    }
    if let Err(error) = run::remember_all(&ctx).await {
        tracing::warn!(error = %chain(&error), "stored results cannot be listed; each run asks for its own");
    }
    health.ready.store(true, Ordering::Relaxed);
    tracing::info!("controllers start");
    // Not before: runs under way come first.
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

/// Parts of the operator that end when the process is told to stop, by name.
type Working<'a> = FuturesUnordered<LocalBoxFuture<'a, &'static str>>;

const WATCHES: &str = "watches";
/// How long passes under way have when the process is told to stop: the chart gives it 10 s.
const LAST_PASSES: Duration = Duration::from_secs(7);

fn named<'a>(name: &'static str, part: impl Future<Output = ()> + 'a) -> LocalBoxFuture<'a, &'static str> {
    part.map(move |()| name).boxed_local()
}

/// Works until the process is told to stop, and then until every pass under way has ended: what
/// one has begun, such as telling pods to start, is not left half done.
async fn until_stopped(
    mut working: Working<'_>,
    endless: impl Future<Output = &'static str>,
    stop: Shutdown,
) -> Result<(), Error> {
    let ended = tokio::select! {
        Some(ended) = working.next() => ended,
        ended = endless => ended,
    };
    // A controller that ends while nobody asked must not leave half an operator behind.
    if stop.now_or_never().is_none() {
        return Err(Error::ControllerEnded(ended));
    }
    if timeout(LAST_PASSES, working.count()).await.is_err() {
        tracing::warn!("passes that are under way are given up");
    }
    Ok(())
}

/// Runs the operator until it is told to stop.
pub async fn run(
    ctx: Context,
    candidate: Option<Candidate>,
    feeds: Feeds,
    page: Page,
    listen: SocketAddr,
) -> Result<(), Error> {
    let stop = shutdown()?;
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
    async fn passes_under_way_end_when_the_process_is_told_to_stop() {
        let ended = AtomicBool::new(false);
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let told: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(stopped.map(drop));
        let slow = async {
            tokio::time::sleep(Duration::from_millis(50)).await;
            ended.store(true, Ordering::Relaxed);
        };
        let working = [named("idle", std::future::ready(())), named("busy", slow)].into_iter().collect();
        stop.send(()).unwrap();
        let told = told.shared();
        told.clone().await;
        until_stopped(working, std::future::pending(), told).await.unwrap();
        assert!(ended.load(Ordering::Relaxed), "a pass was given up half-way");
    }

    #[tokio::test]
    async fn a_controller_that_ends_unasked_ends_the_operator() {
        let never: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(std::future::pending());
        let working = [named("run", std::future::ready(()))].into_iter().collect();
        let error = until_stopped(working, std::future::pending(), never.shared()).await.unwrap_err();
        assert_eq!(error.to_string(), "the run controller ended by itself");
    }

    #[test]
    fn a_status_that_the_definitions_do_not_know_tells_that_they_are_old() {
        let refused = "failed to write the status: ApiError: failed to create typed patch object \
                       (caches/redis; dragstrip.dev/v1alpha1, Kind=Datastore): .status.members: field not \
                       declared in schema";
        assert!(remedy(refused).is_some_and(|remedy| remedy.contains("CustomResourceDefinitions are older")));
        assert_eq!(remedy("failed to write the status: forbidden"), None);
    }
}
