//! The runner's HTTP server: readiness, the order to start, progress, metrics.
//! Touches the listening socket and the shared state.

use crate::{
    clock,
    exposition::{Exposition, Kind, Label},
    state::{Shared, Snapshot, at_the_line},
};
use axum::{
    Json, Router,
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use dragstrip_results::protocol::{
    CLOCK_PATH, ClockReading, JobSpec, PROGRESS_PATH, READY_PATH, RunnerStage, START_PATH, StartOrder,
    TOKEN_HEADER,
};
use std::{io, net::SocketAddr, sync::Arc};
use tokio::net::TcpListener;

/// Whose numbers these are: the labels of every metric.
#[derive(Debug, Clone)]
pub struct Labels {
    /// Run's name.
    pub run: String,
    /// Phase's name.
    pub phase: String,
    /// Which repetition, from 1.
    pub repetition: String,
    /// The pod's index among the clients.
    pub client: String,
}

/// What the handlers know.
#[derive(Debug)]
struct Desk {
    shared: Arc<Shared>,
    token: String,
    labels: Labels,
}

/// Binds `listen` and serves in the background; returns the address bound.
pub async fn serve(
    listen: SocketAddr,
    job: &JobSpec,
    client: u32,
    shared: Arc<Shared>,
) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind(listen).await?;
    let address = listener.local_addr()?;
    let labels = Labels {
        run: job.run.clone(),
        phase: job.phase.clone(),
        repetition: job.repetition.to_string(),
        client: client.to_string(),
    };
    let router = router(Desk { shared, token: job.token.clone(), labels });
    tokio::spawn(async move {
        // Serving ends with the process; accepting retries by itself.
        let _ = axum::serve(listener, router).await;
    });
    Ok(address)
}

fn router(desk: Desk) -> Router {
    Router::new()
        .route(READY_PATH, get(ready))
        .route(START_PATH, post(start))
        .route(PROGRESS_PATH, get(progress))
        .route(CLOCK_PATH, get(clock_reading))
        .route("/metrics", get(metrics))
        .with_state(Arc::new(desk))
}

/// Whether a request carries the token it must.
pub fn authorised(headers: &HeaderMap, token: &str) -> bool {
    headers.get(TOKEN_HEADER).is_some_and(|value| value.as_bytes() == token.as_bytes())
}

/// The answer to a request with another token, or none.
pub fn refusal() -> Response {
    let message = format!("the header {TOKEN_HEADER} does not hold the token of this run or Datastore\n");
    (StatusCode::FORBIDDEN, message).into_response()
}

async fn ready(State(desk): State<Arc<Desk>>) -> Response {
    let stage = desk.shared.snapshot().stage;
    let status = if at_the_line(stage) { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, format!("{}\n", stage_name(stage))).into_response()
}

async fn start(State(desk): State<Arc<Desk>>, headers: HeaderMap, Json(order): Json<StartOrder>) -> Response {
    if !authorised(&headers, &desk.token) {
        return refusal();
    }
    let now = clock::unix_nanos();
    let accepted = desk.shared.offer(order, now);
    let status = if accepted { StatusCode::OK } else { StatusCode::CONFLICT };
    (status, Json(desk.shared.snapshot().answer(now))).into_response()
}

async fn progress(State(desk): State<Arc<Desk>>, headers: HeaderMap) -> Response {
    if !authorised(&headers, &desk.token) {
        return refusal();
    }
    Json(desk.shared.snapshot().answer(clock::unix_nanos())).into_response()
}

async fn clock_reading(State(desk): State<Arc<Desk>>, headers: HeaderMap) -> Response {
    if authorised(&headers, &desk.token) { clock_answer() } else { refusal() }
}

/// What the clock says, read last, so that nothing of the answer's making is in between.
pub fn clock_answer() -> Response {
    Json(ClockReading { unix_nanos: clock::unix_nanos() }).into_response()
}

async fn metrics(State(desk): State<Arc<Desk>>) -> Response {
    metrics_answer(page(&desk.labels, &desk.shared.snapshot(), clock::unix_nanos()))
}

/// The answer to a scrape.
pub fn metrics_answer(page: Result<String, prometheus::Error>) -> Response {
    match page {
        Ok(text) => ([(header::CONTENT_TYPE, prometheus::TEXT_FORMAT)], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
    }
}

const STAGES: [RunnerStage; 7] = [
    RunnerStage::Preflight,
    RunnerStage::Loading,
    RunnerStage::WarmingUp,
    RunnerStage::AtStartLine,
    RunnerStage::Armed,
    RunnerStage::Running,
    RunnerStage::Finished,
];

fn stage_name(stage: RunnerStage) -> &'static str {
    match stage {
        RunnerStage::Preflight => "preflight",
        RunnerStage::Loading => "loading",
        RunnerStage::WarmingUp => "warmingUp",
        RunnerStage::AtStartLine => "atStartLine",
        RunnerStage::Armed => "armed",
        RunnerStage::Running => "running",
        RunnerStage::Finished => "finished",
    }
}

fn page(labels: &Labels, snapshot: &Snapshot, now_unix_nanos: i64) -> Result<String, prometheus::Error> {
    let common = || -> Vec<Label> {
        vec![
            ("run", labels.run.clone()),
            ("phase", labels.phase.clone()),
            ("repetition", labels.repetition.clone()),
            ("client", labels.client.clone()),
        ]
    };
    let stages = STAGES.map(|stage| {
        let labels = [common(), vec![("stage", stage_name(stage).to_owned())]].concat();
        (labels, f64::from(u8::from(stage == snapshot.stage)))
    });
    let page = Exposition::default();
    page.metric(("dragstrip_runner_stage", Kind::Gauge, "1 for the stage the runner is in."), &stages)?;
    let (operations, errors) = (snapshot.progress.operations as f64, snapshot.progress.errors as f64);
    let elapsed = snapshot.elapsed_seconds(now_unix_nanos);
    for (heading, value) in [
        (("dragstrip_runner_operations_total", Kind::Counter, "Operations so far."), operations),
        (("dragstrip_runner_errors_total", Kind::Counter, "Errors so far."), errors),
        (("dragstrip_runner_elapsed_seconds", Kind::Gauge, "Seconds since the load began."), elapsed),
    ] {
        page.metric(heading, &[(common(), value)])?;
    }
    page.text()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_names_the_stage_and_the_counts() {
        let shared = Shared::default();
        shared.note_progress(crate::tool::Progress { operations: 12, errors: 3 });
        let labels =
            Labels { run: "r".into(), phase: "p".into(), repetition: "2".into(), client: "0".into() };
        let page = page(&labels, &shared.snapshot(), 0).unwrap();
        let common = r#"client="0",phase="p",repetition="2",run="r""#;
        assert!(
            page.contains(&format!("dragstrip_runner_stage{{{common},stage=\"preflight\"}} 1\n")),
            "{page}"
        );
        assert!(
            page.contains(&format!("dragstrip_runner_stage{{{common},stage=\"running\"}} 0\n")),
            "{page}"
        );
        assert!(page.contains(&format!("dragstrip_runner_operations_total{{{common}}} 12\n")), "{page}");
        assert!(page.contains(&format!("dragstrip_runner_errors_total{{{common}}} 3\n")), "{page}");
    }
}
