//! The runner's HTTP server: readiness, the start command, progress, metrics.
//! Touches the listening socket, the shared state, and what the container uses.

use crate::{
    delivery::{
        agent::{Guard, LocalEnd, clock_answer, guarded, metrics_answer},
        metrics::{ContainerUse, Series, stage_name},
        state::{Shared, at_the_line},
    },
    frame::clock,
    measuring::{cgroup, network},
};
use axum::{
    Json, Router,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::{get, post},
};
use dragstrip_results::protocol::{
    CLOCK_PATH, JobSpec, PROGRESS_PATH, READY_PATH, RunnerStage, START_PATH, StartCommand,
};
use std::{
    io,
    net::SocketAddr,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};
use tokio::{net::TcpListener, sync::oneshot, task::JoinHandle, time::timeout};

/// What the container uses is read about once a second, however many scrape.
const USE_STANDS: Duration = Duration::from_millis(900);
/// How long answers under way may take when the runner ends.
const LAST_ANSWERS: Duration = Duration::from_secs(1);

#[derive(Debug)]
struct Desk {
    shared: Arc<Shared>,
    series: Series,
    /// What the container had used, when, and in which stage.
    cache: Mutex<Option<(Instant, RunnerStage, ContainerUse)>>,
}

impl Desk {
    fn container_use(&self, stage: RunnerStage) -> ContainerUse {
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        // The last scrape shows what was used until the end, so that a new stage ends the cache.
        if let Some((_, _, used)) =
            cache.as_ref().filter(|(at, of, _)| *of == stage && at.elapsed() < USE_STANDS)
        {
            return used.clone();
        }
        let used =
            ContainerUse { cgroup: cgroup::read(Path::new(cgroup::OWN_ROOT)), network: network::usage() };
        *cache = Some((Instant::now(), stage, used.clone()));
        used
    }
}

#[derive(Debug)]
pub struct Serving {
    pub address: SocketAddr,
    end: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Serving {
    /// Ends it, and lets answers under way go out.
    pub async fn end(self) {
        drop(self.end);
        // A client that does not read its answer is not worth waiting for.
        let _ = timeout(LAST_ANSWERS, self.task).await;
    }
}

/// Binds `listen` and serves in the background; `guard` authenticates queries and commands.
pub async fn serve(
    listen: SocketAddr,
    job: &JobSpec,
    guard: Guard,
    client: u32,
    shared: Arc<Shared>,
) -> io::Result<Serving> {
    let listener = TcpListener::bind(listen).await?;
    let address = listener.local_addr()?;
    let desk = Desk { shared, series: Series::of(job, client), cache: Mutex::default() };
    let service = router(desk, guard).into_make_service_with_connect_info::<LocalEnd>();
    let (end, ended) = oneshot::channel::<()>();
    let task = tokio::spawn(async move {
        let ended = async { drop(ended.await) };
        // axum retries failed accepts itself, and returns no other error.
        let _ = axum::serve(listener, service).with_graceful_shutdown(ended).await;
    });
    Ok(Serving { address, end, task })
}

fn router(desk: Desk, guard: Guard) -> Router {
    let open = Router::new().route(READY_PATH, get(ready)).route("/metrics", get(metrics));
    let queries = Router::new().route(PROGRESS_PATH, get(progress)).route(CLOCK_PATH, get(clock_answer));
    let commands = Router::new().route(START_PATH, post(start));
    guarded(guard, open, queries, commands).with_state(Arc::new(desk))
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

async fn metrics(State(desk): State<Arc<Desk>>) -> Response {
    let snapshot = desk.shared.snapshot();
    let (latencies, used) = (desk.shared.latencies(), desk.container_use(snapshot.stage));
    let answer = metrics_answer(desk.series.page(&snapshot, &latencies, &used, clock::unix_nanos()));
    desk.shared.note_scrape(snapshot.stage);
    answer
}
