//! Results and servers for tests.

use axum::{Router, body, extract::Request, http::StatusCode};
use dragstrip_results::result::{Failure, FailureStep, OperationResult, PodResult, RepetitionResult, Window};
use http::{HeaderMap, Method};
use serde_json::json;
use std::{
    future::Future,
    sync::{Arc, Mutex},
};

/// When the load of [`pod`] began, in milliseconds of Unix time.
pub const START: i64 = 1_800_000_000_000;

/// A pod whose GETs of each second are these, in a load of so many seconds.
pub fn pod(per_second: &[u64], seconds: f64) -> PodResult {
    let failure = Failure {
        step: FailureStep::Tool,
        message: String::new(),
        exit_code: None,
        signal: None,
        last_lines: vec![],
    };
    let get = OperationResult {
        operation: "GET".into(),
        count: per_second.iter().sum(),
        per_second: per_second.to_vec(),
        ..OperationResult::default()
    };
    PodResult {
        failure: None,
        window: Window { start_unix_nanos: START * 1_000_000, seconds, ..Window::default() },
        operations: vec![get],
        per_second: per_second.to_vec(),
        ..PodResult::failed("read", 1, "a", failure)
    }
}

/// A repetition of these pods.
pub fn repetition(pods: Vec<PodResult>) -> RepetitionResult {
    let row = |operation: &str| json!({"operation": operation, "count": 1, "operationsPerSecond": 1.0, "bytesPerSecond": 1.0, "errors": 0});
    let result = json!({
        "phase": "read", "repetition": 1, "windowSeconds": 1.0, "pods": [],
        "operations": [row("GET"), row("TOTAL")]
    });
    RepetitionResult { pods, ..serde_json::from_value(result).unwrap() }
}

/// A request as it arrived.
#[derive(Debug, Clone)]
pub struct Asked {
    pub method: Method,
    /// With the query.
    pub path: String,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

/// An HTTP server on a port of its own.
pub struct Server {
    pub url: String,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Server {
    /// One that gives these statuses and bodies.
    pub async fn answering<F, A>(answer: F) -> Self
    where
        F: Fn(Asked) -> A + Clone + Send + Sync + 'static,
        A: Future<Output = (u16, String)> + Send + 'static,
    {
        let asked: Arc<Mutex<Vec<Asked>>> = Arc::default();
        let told = asked.clone();
        let handler = move |request: Request| {
            let (told, answer) = (told.clone(), answer.clone());
            async move {
                let (head, content) = request.into_parts();
                let path = head.uri.path_and_query().unwrap().to_string();
                let body = body::to_bytes(content, usize::MAX).await.unwrap().to_vec();
                let asked = Asked { method: head.method, path, headers: head.headers, body };
                told.lock().unwrap().push(asked.clone());
                let (code, text) = answer(asked).await;
                // What a proxy in trouble says; others ignore it.
                (StatusCode::from_u16(code).unwrap(), [("retry-after", "7")], text)
            }
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let router = Router::new().fallback(handler);
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { url, asked }
    }

    /// What it was asked, oldest first.
    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}
