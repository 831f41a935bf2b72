//! The runner's HTTP server: readiness, the start command, progress, metrics.
//! Touches the listening socket, the shared state, and what tells the container's use.

use crate::{
    delivery::{
        agent::{Guard, Own as OwnEnd, commands, questions},
        metrics::{Own, Series, stage_name},
        state::{Shared, at_the_line},
    },
    frame::clock,
    measuring::{cgroup, network},
};
use axum::{
    Json, Router,
    extract::State,
    http::{StatusCode, header},
    middleware::from_fn_with_state,
    response::{IntoResponse, Response},
    routing::{get, post},
};
use dragstrip_results::protocol::{
    CLOCK_PATH, ClockReading, JobSpec, PROGRESS_PATH, READY_PATH, RunnerStage, START_PATH, StartCommand,
};
use std::{
    io,
    net::SocketAddr,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};
use tokio::{net::TcpListener, sync::oneshot, task::JoinHandle, time::timeout};

/// How long what the container has used stands for who asks again: whoever scrapes,
/// and how many, it is read about once a second.
const OWN_STANDS: Duration = Duration::from_millis(900);
/// How long answers under way may take when the runner ends.
const LAST_ANSWERS: Duration = Duration::from_secs(1);

/// What the handlers know.
#[derive(Debug)]
struct Desk {
    shared: Arc<Shared>,
    series: Series,
    /// What the container had used, when, and in which stage.
    own: Mutex<Option<(Instant, RunnerStage, Own)>>,
}

impl Desk {
    fn own(&self, stage: RunnerStage) -> Own {
        let mut kept = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        // What was used until the end is told to the last one who asks.
        if let Some((_, _, own)) =
            kept.as_ref().filter(|(at, of, _)| *of == stage && at.elapsed() < OWN_STANDS)
        {
            return own.clone();
        }
        let own = Own { cgroup: cgroup::read(Path::new(cgroup::OWN_ROOT)), network: network::usage() };
        *kept = Some((Instant::now(), stage, own.clone()));
        own
    }
}

/// The server at work.
#[derive(Debug)]
pub struct Serving {
    /// Where it listens.
    pub address: SocketAddr,
    end: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Serving {
    /// Ends it, and lets answers under way go out.
    pub async fn end(self) {
        drop(self.end);
        // An answer that nobody takes in is none to wait for.
        let _ = timeout(LAST_ANSWERS, self.task).await;
    }
}

/// Binds `listen` and serves in the background.
pub async fn serve(
    listen: SocketAddr,
    job: &JobSpec,
    client: u32,
    shared: Arc<Shared>,
) -> io::Result<Serving> {
    let listener = TcpListener::bind(listen).await?;
    let address = listener.local_addr()?;
    let series = Series::of(job, client);
    let guard = Guard { token: Some(job.token.clone()), key: job.verifying_key.clone() };
    let router = router(Desk { shared, series, own: Mutex::default() }, guard);
    let service = router.into_make_service_with_connect_info::<OwnEnd>();
    let (end, ended) = oneshot::channel::<()>();
    let task = tokio::spawn(async move {
        let ended = async { drop(ended.await) };
        // Accepting retries by itself.
        let _ = axum::serve(listener, service).with_graceful_shutdown(ended).await;
    });
    Ok(Serving { address, end, task })
}

fn router(desk: Desk, guard: Guard) -> Router {
    let guard = Arc::new(guard);
    let commanded = Router::new()
        .route(START_PATH, post(start))
        .route_layer(from_fn_with_state(Arc::clone(&guard), commands));
    let asked = Router::new()
        .route(PROGRESS_PATH, get(progress))
        .route(CLOCK_PATH, get(clock_answer))
        .route_layer(from_fn_with_state(guard, questions));
    Router::new()
        .route(READY_PATH, get(ready))
        .route("/metrics", get(metrics))
        .merge(commanded)
        .merge(asked)
        .with_state(Arc::new(desk))
}

async fn ready(State(desk): State<Arc<Desk>>) -> Response {
    let stage = desk.shared.snapshot().stage;
    let status = if at_the_line(stage) { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, format!("{}\n", stage_name(stage))).into_response()
}

async fn start(State(desk): State<Arc<Desk>>, Json(command): Json<StartCommand>) -> Response {
    let now = clock::unix_nanos();
    let accepted = desk.shared.offer(command, now);
    let status = if accepted { StatusCode::OK } else { StatusCode::CONFLICT };
    (status, Json(desk.shared.snapshot().answer(now))).into_response()
}

async fn progress(State(desk): State<Arc<Desk>>) -> Response {
    Json(desk.shared.snapshot().answer(clock::unix_nanos())).into_response()
}

/// What the clock says, read last, so that nothing of the answer's making is in between.
pub async fn clock_answer() -> Response {
    Json(ClockReading { unix_nanos: clock::unix_nanos() }).into_response()
}

async fn metrics(State(desk): State<Arc<Desk>>) -> Response {
    let snapshot = desk.shared.snapshot();
    let (latencies, own) = (desk.shared.latencies(), desk.own(snapshot.stage));
    let answer = metrics_answer(desk.series.page(&snapshot, &latencies, &own, clock::unix_nanos()));
    desk.shared.note_scrape(snapshot.stage);
    answer
}

/// The answer to a scrape.
pub fn metrics_answer(page: Result<String, prometheus::Error>) -> Response {
    match page {
        Ok(text) => ([(header::CONTENT_TYPE, prometheus::TEXT_FORMAT)], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
    }
}
