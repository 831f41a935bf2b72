//! The runner's HTTP server: readiness, the start command, progress, metrics.
//! Touches the listening socket, the shared state, and what the container uses.

use crate::{
    delivery::{
        agent::{Guard, LocalEnd, clock_answer, guarded, metrics_answer},
        metrics::{Series, stage_name},
        state::Shared,
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
use dragstrip_results::protocol::{CLOCK_PATH, JobSpec, PROGRESS_PATH, READY_PATH, START_PATH, StartCommand};
use std::{io, net::SocketAddr, path::Path, sync::Arc, time::Duration};
use tokio::{net::TcpListener, sync::oneshot, task::JoinHandle, time::timeout};

/// How long answers under way may take when the runner ends.
const LAST_ANSWERS: Duration = Duration::from_secs(1);

#[derive(Debug)]
struct Desk {
    shared: Arc<Shared>,
    series: Series,
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
    let desk = Desk { shared, series: Series::of(job, client) };
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

/// Answers at the start line and not before: a probe that fails would leave a Warning event, and one
/// that asks again is late.
async fn ready(State(desk): State<Arc<Desk>>) -> Response {
    stage_name(desk.shared.at_the_line().await).into_response()
}

async fn start(State(desk): State<Arc<Desk>>, Json(command): Json<StartCommand>) -> Response {
    let accepted = desk.shared.offer(command);
    let status = if accepted { StatusCode::OK } else { StatusCode::CONFLICT };
    (status, Json(desk.shared.snapshot().answer(clock::unix_nanos()))).into_response()
}

async fn progress(State(desk): State<Arc<Desk>>) -> Response {
    Json(desk.shared.snapshot().answer(clock::unix_nanos())).into_response()
}

async fn metrics(State(desk): State<Arc<Desk>>) -> Response {
    let snapshot = desk.shared.snapshot();
    let (cgroup, network) = (cgroup::read(Path::new(cgroup::OWN_ROOT)), network::usage());
    let latencies = desk.shared.latencies();
    let now = clock::unix_nanos();
    let page = desk.series.page(&snapshot, &latencies, cgroup.as_ref(), network.as_ref(), now);
    desk.shared.note_scrape(snapshot.stage);
    metrics_answer(page)
}
