//! The proxy: plain HTTP towards one operator, TLS and credentials towards the API server. Touches the
//! network.

use crate::{
    engine::Engine,
    fault::{Fault, Moment},
    request::Request,
    watch::{End, Lines, forward},
};
use anyhow::{Context, Result};
use bytes::Bytes;
use futures::{StreamExt, TryFutureExt, TryStreamExt, stream};
use http::{HeaderName, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::{
    body::{Frame, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use kube::{
    Client, Config,
    client::Body,
    config::{KubeConfigOptions, Kubeconfig},
};
use std::{io, net::Ipv4Addr, os::fd::OwnedFd, path::Path, sync::Arc, time::Duration};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::mpsc,
    task::JoinHandle,
    time::sleep,
};

/// Time that the operator has for an answer before the test acts after it.
const ANSWER_ARRIVES: Duration = Duration::from_millis(10);
/// How long an event takes to the operator at most, even on a busy machine.
const EVENT_ARRIVES: Duration = Duration::from_millis(100);

/// A client for the proxies. It repeats nothing by itself.
pub async fn upstream(kubeconfig: &Path) -> Result<Client> {
    let read = Kubeconfig::read_from(kubeconfig)?;
    let mut config = Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await?;
    config.default_retry = false;
    Ok(Client::try_from(config)?)
}

type Answer = Response<UnsyncBoxBody<Bytes, io::Error>>;

/// A running proxy. It ends when this is dropped.
pub struct Proxy {
    port: u16,
    task: JoinHandle<()>,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What every connection of a proxy needs.
struct Shared {
    upstream: Client,
    engine: Arc<Engine>,
    operator: usize,
}

/// A second handle on a connection's socket, to reset it.
struct Socket(OwnedFd);

impl Socket {
    /// Lets the socket reset its connection when it is closed, which loses what it has not sent.
    fn reset_at_close(&self) {
        if let Err(error) = rustix::net::sockopt::set_socket_linger(&self.0, Some(Duration::ZERO)) {
            eprintln!("cannot reset a connection: {error}");
        }
    }
}

fn reset(socket: &Socket) -> io::Error {
    socket.reset_at_close();
    io::Error::new(io::ErrorKind::ConnectionReset, "by the fault proxy")
}

fn full(bytes: impl Into<Bytes>) -> UnsyncBoxBody<Bytes, io::Error> {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed_unsync()
}

/// An answer of the API server that the proxy makes itself.
fn refusal(code: u16) -> Answer {
    let reason = match code {
        409 => "Conflict",
        429 => "TooManyRequests",
        503 => "ServiceUnavailable",
        _ => "InternalError",
    };
    let status = serde_json::json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "injected by the fault proxy", "reason": reason, "code": code,
    });
    let mut answer = Response::new(full(status.to_string()));
    *answer.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    answer.headers_mut().insert(header::CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
    if code == 429 {
        answer.headers_mut().insert(header::RETRY_AFTER, http::HeaderValue::from_static("1"));
    }
    answer
}

/// Headers that belong to one connection.
const OF_CONNECTION: [HeaderName; 5] = [
    header::HOST,
    header::CONNECTION,
    header::CONTENT_LENGTH,
    header::TRANSFER_ENCODING,
    header::ACCEPT_ENCODING,
];

fn other_error(error: impl std::error::Error + Send + Sync + 'static) -> io::Error {
    io::Error::other(error)
}

impl Shared {
    /// The path and query with which the API server gets the request.
    fn target(&self, uri: &http::Uri, about: Option<&Request>) -> String {
        let target = uri.path_and_query().map_or_else(|| uri.path().to_owned(), ToString::to_string);
        let first_page = |about: &&Request| about.verb == "LIST" && !target.contains("continue=");
        match about.filter(first_page).and_then(|_| self.engine.old()) {
            Some(version) => {
                let separator = if target.contains('?') { '&' } else { '?' };
                format!("{target}{separator}resourceVersion={version}&resourceVersionMatch=Exact")
            }
            None => target,
        }
    }

    async fn send(
        &self,
        parts: &http::request::Parts,
        about: Option<&Request>,
        body: Bytes,
    ) -> io::Result<Response<Body>> {
        let mut request = http::Request::builder().method(&parts.method).uri(self.target(&parts.uri, about));
        for (name, value) in parts.headers.iter().filter(|(name, _)| !OF_CONNECTION.contains(name)) {
            request = request.header(name, value);
        }
        let request = request.body(Body::from(body.to_vec())).map_err(other_error)?;
        self.upstream.send(request).await.map_err(other_error)
    }

    /// The answer to one request; an error ends the connection.
    async fn answer(
        self: Arc<Self>,
        socket: Arc<Socket>,
        request: http::Request<Incoming>,
    ) -> io::Result<Answer> {
        let (parts, body) = request.into_parts();
        let body = body.collect().await.map_err(other_error)?.to_bytes();
        let (path, query) = (parts.uri.path(), parts.uri.query().unwrap_or(""));
        let about = Request::read(&parts.method, path, query, &body);
        let (index, fault) =
            about.clone().map_or((usize::MAX, None), |it| self.engine.begin(self.operator, it));
        match fault {
            Some(Fault::Answer(code)) => return Ok(refusal(code)),
            Some(Fault::Reset) => return Err(reset(&socket)),
            Some(Fault::Hang(time)) => {
                sleep(time).await;
                return Err(reset(&socket));
            }
            _ => self.engine.halt(fault, Moment::Before).await.ok_or_else(|| reset(&socket))?,
        }
        let answer = self.send(&parts, about.as_ref(), body).await?;
        match about.as_ref().map(|it| it.verb) {
            Some("WATCH") if answer.status().is_success() => {
                let resource = about.map(|it| it.resource).unwrap_or_default();
                self.engine.answered(index, answer.status().as_u16(), b"");
                let lists = query.split('&').any(|pair| pair == "sendInitialEvents=true");
                return Ok(self.watch(&resource, lists, &socket, answer));
            }
            _ => {}
        }
        let (head, body) = answer.into_parts();
        let body = body.collect().await.map_err(other_error)?.to_bytes();
        self.engine.answered(index, head.status.as_u16(), &body);
        self.engine.halt(fault, Moment::Committed).await.ok_or_else(|| reset(&socket))?;
        if fault == Some(Fault::LoseAnswer) {
            return Err(reset(&socket));
        }
        if fault == Some(Fault::Halt(Moment::Answered)) {
            let shared = Arc::clone(&self);
            tokio::spawn(async move {
                sleep(ANSWER_ARRIVES).await;
                shared.engine.halt(fault, Moment::Answered).await;
            });
        }
        Ok(returned(&head, full(body)))
    }

    /// The answer to a watch, with the fault of watches of its resource.
    fn watch(&self, resource: &str, lists: bool, socket: &Arc<Socket>, answer: Response<Body>) -> Answer {
        let (head, body) = answer.into_parts();
        let (lines, received) = mpsc::unbounded_channel();
        let (out, sent) = mpsc::unbounded_channel();
        let fault = self.engine.of_watch(resource);
        let read = async move {
            let (mut body, mut pieces) = (body.into_data_stream(), Lines::new());
            while let Ok(Some(bytes)) = body.try_next().await {
                if pieces.add(&bytes).into_iter().any(|line| lines.send(line).is_err()) {
                    break;
                }
            }
        };
        // Not the socket itself, which must be closed with its connection.
        let (end, socket) = (out.clone(), Arc::downgrade(socket));
        let (broken, breaks) = tokio::sync::oneshot::channel();
        tokio::spawn(async move {
            let reading = tokio::spawn(read);
            let forwarded = tokio::select! {
                forwarded = forward(fault, lists, received, &out) => forwarded,
                // The operator ended the watch.
                () = end.closed() => End::Clean,
            };
            reading.abort();
            if forwarded == End::Reset {
                // A reset discards what its receiver has not read.
                sleep(EVENT_ARRIVES).await;
                if let Some(socket) = socket.upgrade() {
                    let _ = broken.send(reset(&socket));
                }
            }
        });
        let events = stream::unfold(sent, |mut sent| async move { Some((sent.recv().await?, sent)) });
        let broken = stream::once(breaks).filter_map(|broken| async move { broken.ok() });
        let frames = events.map(|line| Ok(Frame::data(line))).chain(broken.map(Err));
        returned(&head, BodyExt::boxed_unsync(StreamBody::new(frames)))
    }
}

/// `head` with a body of another length or form.
fn returned(head: &http::response::Parts, body: UnsyncBoxBody<Bytes, io::Error>) -> Answer {
    let mut answer = Response::new(body);
    *answer.status_mut() = head.status;
    for (name, value) in head.headers.iter().filter(|(name, _)| !OF_CONNECTION.contains(name)) {
        answer.headers_mut().append(name, value.clone());
    }
    answer
}

async fn serve(stream: TcpStream, shared: Arc<Shared>) -> Result<()> {
    stream.set_nodelay(true)?;
    let fd = rustix::io::fcntl_dupfd_cloexec(&stream, 0)?;
    let socket = Arc::new(Socket(fd));
    let service = service_fn(move |request| Arc::clone(&shared).answer(Arc::clone(&socket), request));
    http1::Builder::new().serve_connection(TokioIo::new(stream), service).await?;
    Ok(())
}

impl Proxy {
    /// Starts the proxy of one operator.
    pub async fn start(upstream: Client, engine: Arc<Engine>, operator: usize) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.context("no port for the proxy")?;
        let port = listener.local_addr()?.port();
        let shared = Arc::new(Shared { upstream, engine, operator });
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                // A connection that is reset, or an operator that is killed, is what the test wants.
                tokio::spawn(serve(stream, Arc::clone(&shared)).map_ok_or_else(drop, drop));
            }
        });
        Ok(Self { port, task })
    }

    /// A kubeconfig whose only server is this proxy.
    pub fn kubeconfig(&self) -> String {
        let server = format!("http://127.0.0.1:{}", self.port);
        serde_json::json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "proxy",
            "clusters": [{"name": "proxy", "cluster": {"server": server}}],
            "users": [{"name": "proxy", "user": {}}],
            "contexts": [{"name": "proxy", "context": {"cluster": "proxy", "user": "proxy"}}],
        })
        .to_string()
    }
}
