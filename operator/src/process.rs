//! The process around the controllers: shutdown, waiting for the CRDs, health
//! and metrics over HTTP.

use crate::{
    cluster::{
        apply::namespace_ends,
        leader::{Candidate, Leadership},
        world::Feeds,
    },
    context::Context,
    datastore,
    metrics::Page,
    run, sinks,
};
use axum::{Router, extract::State, http::StatusCode, response::IntoResponse, routing::get};
use futures::{Future, FutureExt, future::Shared};
use jiff::Timestamp;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client,
    runtime::wait::{await_condition, conditions::is_crd_established},
};
use std::{
    net::SocketAddr,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

/// A step of the process that failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Waiting for a CRD failed.
    #[error("failed to wait for the CRD {1}")]
    AwaitCrd(#[source] kube::runtime::wait::Error, &'static str),
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

/// `error` and all its causes, joined by colons.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text = format!("{text}: {cause}");
        next = cause.source();
    }
    text
}

/// Writes a failed pass to the log, unless its namespace is being deleted: what
/// was asked for cannot be made then and will not be missed.
pub fn log_failure(
    kind: &'static str,
    name: &str,
    namespace: Option<&str>,
    error: &(dyn std::error::Error + 'static),
) {
    let mut next = Some(error);
    while let Some(cause) = next {
        if cause.downcast_ref::<kube::Error>().is_some_and(namespace_ends) {
            tracing::debug!(kind, name, namespace, "the namespace is being deleted");
            return;
        }
        next = cause.source();
    }
    tracing::warn!(kind, name, namespace, error = %chain(error), "reconcile failed");
}

/// A shutdown that several can wait for.
type Shutdown = Shared<Pin<Box<dyn Future<Output = ()> + Send>>>;

/// What controllers need of the process.
#[derive(Clone)]
pub struct Parts {
    shutdown: Shutdown,
}

impl Parts {
    /// Ends when the process is told to stop.
    pub fn shutdown(&self) -> Shutdown {
        self.shutdown.clone()
    }
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

/// Waits until both kinds are served, however long that takes: a chart may
/// install CRDs after the operator, and exiting would only make a crash loop.
async fn await_crds(client: &Client) -> Result<(), Error> {
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    for name in ["datastores.dragstrip.dev", "benchmarkruns.dragstrip.dev"] {
        tracing::info!(crd = name, "waiting for the CRD");
        await_condition(crds.clone(), name, is_crd_established())
            .await
            .map_err(|error| Error::AwaitCrd(error, name))?;
    }
    Ok(())
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
    parts: Parts,
) -> Result<(), Error> {
    tokio::select! {
        established = await_crds(&ctx.client) => established?,
        () = parts.shutdown() => return Ok(()),
    }
    let mut leadership = None;
    if let Some(candidate) = candidate {
        tracing::info!("standing by until this operator leads");
        // Ready to take over: that is all a replica can be.
        health.ready.store(true, Ordering::Relaxed);
        tokio::select! {
            won = candidate.win() => leadership = Some(won),
            () = parts.shutdown() => return Ok(()),
        }
        tracing::info!("this operator leads");
    }
    health.leads.store(true, Ordering::Relaxed);
    let worked = tokio::select! {
        worked = controllers(ctx, feeds, health, parts) => worked,
        why = lost(leadership.as_mut()) => Err(Error::LeadershipLost(why)),
    };
    if let (Ok(()), Some(leadership)) = (&worked, leadership)
        && let Err(error) = leadership.release().await
    {
        tracing::warn!(%error, "the Lease of the leader was not given back: the next one waits for its end");
    }
    worked
}

async fn controllers(ctx: Arc<Context>, mut feeds: Feeds, health: Health, parts: Parts) -> Result<(), Error> {
    let stop = parts.shutdown();
    let datastores = datastore::controller(ctx.clone(), &mut feeds, &parts);
    let runs = run::controller(ctx.clone(), &mut feeds, &parts);
    let keeper = run::keeper(ctx.clone(), &mut feeds, &parts);
    let expiry = run::expiry(ctx.clone(), &mut feeds, &parts);
    let watches = tokio::spawn(feeds.run());
    tracing::info!("listing what there is");
    tokio::select! {
        () = ctx.world.listed() => {}
        () = parts.shutdown() => return Ok(()),
    }
    if let Err(error) = run::remember_all(&ctx).await {
        tracing::warn!(error = %chain(&error), "stored results cannot be listed; each run asks for its own");
    }
    health.ready.store(true, Ordering::Relaxed);
    tracing::info!("controllers start");
    // Not before: runs under way come first.
    let history = Box::pin(health.page.history.follow(ctx.client.clone(), &ctx.settings.scope));
    let ended = tokio::select! {
        _ = watches => "watches",
        () = datastores => "datastore",
        () = runs => "run",
        () = keeper => "turn",
        () = expiry => "expiry",
        () = Box::pin(sinks::annotations::controller(ctx.clone(), &parts)) => "annotation",
        () = Box::pin(sinks::remote_write::sender(&ctx)) => "remote write",
        () = history => "history",
    };
    // A controller that ends while nobody asked must not leave half an operator behind.
    if stop.now_or_never().is_some() { Ok(()) } else { Err(Error::ControllerEnded(ended)) }
}

/// Runs the operator until it is told to stop.
pub async fn run(
    ctx: Context,
    candidate: Option<Candidate>,
    feeds: Feeds,
    page: Page,
    listen: SocketAddr,
) -> Result<(), Error> {
    let parts = Parts { shutdown: shutdown()? };
    let health = Health { ready: Arc::default(), leads: Arc::default(), page };
    tokio::try_join!(
        serve(listen, health.clone(), parts.shutdown()),
        lead(Arc::new(ctx), candidate, feeds, health, parts.clone())
    )?;
    tracing::info!("stopped");
    Ok(())
}
