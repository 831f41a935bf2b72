//! A kubelet that only has logs: those of pods with results as large as they may be. kwok has one log for
//! all containers.

use anyhow::{Result, ensure};
use axum::{
    Router,
    extract::{Path, State},
    http::StatusCode,
    routing::get,
    serve::Listener,
};
use dragstrip_results::{
    histogram::Latencies,
    result::{LOG_MARKER, MOST_LOG_BYTES, Operation, PodResult},
};
use rcgen::generate_simple_self_signed;
use std::{
    collections::BTreeMap,
    io,
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        ServerConfig,
        crypto::ring,
        pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
        version::TLS12,
    },
    server::TlsStream,
};

/// Connections of the API server, which speaks TLS and believes any certificate of a kubelet.
struct Tls(TcpListener, TlsAcceptor);

impl Listener for Tls {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            let (stream, address) = Listener::accept(&mut self.0).await;
            if let Ok(stream) = self.1.accept(stream).await {
                return (stream, address);
            }
        }
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        Listener::local_addr(&self.0)
    }
}

/// Operations of a large result, and the seconds of each: of 256 pods, many more operations fit
/// into no result.
pub const ROWS: u64 = 24;
const SECONDS: usize = 4 * 3600;
/// Latencies of each operation: as many values of a histogram.
const LATENCIES: u64 = 1000;

/// Results of pods that have ended; their logs have them with many more operations.
#[derive(Clone, Default)]
pub struct LargeResults(Arc<Mutex<BTreeMap<String, PodResult>>>);

impl LargeResults {
    /// Adds a pod's.
    pub fn insert(&self, result: PodResult) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(result.pod.clone(), result);
    }

    /// The log of the pod of this name.
    fn log(&self, pod: &str) -> Option<Result<String>> {
        let results = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        results.get(pod).cloned().map(large)
    }
}

/// A log with `result`, as large as a result may be.
fn large(mut result: PodResult) -> Result<String> {
    let own = result.operations.remove(0);
    for number in 0..ROWS {
        let mut histogram = hdrhistogram::Histogram::new_with_bounds(1, 3_600_000_000, 3)?;
        for latency in 0..LATENCIES {
            histogram.record_n(100 + latency * latency * 37 + number, own.count / LATENCIES)?;
        }
        let latencies = Latencies::from_microseconds(histogram);
        let name = format!("operation-{number}");
        result.operations.push(Operation {
            name,
            count: own.count / LATENCIES * LATENCIES,
            per_second: vec![1_000_000; SECONDS],
            latency_milliseconds: latencies.summary(),
            histogram: Some(latencies.encode()?),
            ..own.clone()
        });
    }
    let text = serde_json::to_string(&result)?;
    ensure!(text.len() < MOST_LOG_BYTES, "a result of {} bytes is too large", text.len());
    Ok(format!("{LOG_MARKER}{text}\n"))
}

/// Serves logs on a free port of this machine; returns the port.
pub async fn start(results: LargeResults) -> Result<u16> {
    let own = generate_simple_self_signed(["localhost".to_owned()])?;
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(own.signing_key.serialize_der()));
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&TLS12])?
        .with_no_client_auth()
        .with_single_cert(vec![own.cert.der().clone()], key)?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let port = listener.local_addr()?.port();
    let log = async |State(results): State<LargeResults>,
                     Path((_, pod, _)): Path<(String, String, String)>| match results.log(&pod)
    {
        Some(Ok(log)) => (StatusCode::OK, log),
        Some(Err(error)) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error:#}")),
        None => (StatusCode::NOT_FOUND, format!("pod {pod} has no log")),
    };
    let router =
        Router::new().route("/containerLogs/{namespace}/{pod}/{container}", get(log)).with_state(results);
    tokio::spawn(async move {
        // It serves until this program ends.
        let _ = axum::serve(Tls(listener, TlsAcceptor::from(Arc::new(config))), router).await;
    });
    Ok(port)
}
