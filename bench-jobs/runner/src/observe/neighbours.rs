//! The servers of the pod, over one open connection each. Touches the network.

use crate::{
    server::{
        access::Access,
        connection::{ANSWER_TIMEOUT, Server, ServerError},
        info::Info,
    },
    tools::output::Redactor,
};
use dragstrip_crds::observed::ServerTruth;
use std::{
    net::SocketAddr,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};
use tokio::{sync::Mutex, time::sleep};

/// How long a server that was ready counts as ready while its connection stays
/// open. It is probed every second, and each query is work for its threads.
const READY_STANDS: Duration = Duration::from_secs(10);

/// Until a server that starts is tried again.
const NEXT_TRY: Duration = Duration::from_millis(200);

pub struct Neighbour {
    pub address: SocketAddr,
    /// Whether it has accepted a connection.
    started: AtomicBool,
    /// Its connection, made when it is first needed and after it broke, and when the server
    /// last answered over it that it is ready.
    connection: Mutex<Option<(Server, Option<Instant>)>>,
}

impl Neighbour {
    pub fn at(address: SocketAddr) -> Self {
        Self { address, started: AtomicBool::new(false), connection: Mutex::new(None) }
    }

    async fn still_ready(&self) -> bool {
        let connection = self.connection.lock().await;
        let open = connection.as_ref().filter(|(server, _)| server.is_open());
        open.and_then(|(_, ready)| *ready).is_some_and(|at| at.elapsed() < READY_STANDS)
    }
}

/// What a server that answers PING reports of its data set.
async fn persistence(server: &mut Server) -> Result<Info, ServerError> {
    server.command::<()>(&["PING"]).await?;
    server.info(&["INFO", "persistence"]).await
}

/// All servers of the pod, in the sequence of their ports.
pub struct Neighbours {
    pub servers: Vec<Neighbour>,
    pub access: Access,
    pub speaks_resp: bool,
    pub redactor: Redactor,
}

impl Neighbours {
    /// Queries a server over its open connection, and once more over a new one
    /// when the open one turns out to be broken: the server may have restarted.
    pub async fn query<T>(
        &self,
        neighbour: &Neighbour,
        query: impl AsyncFn(&mut Server) -> Result<T, ServerError>,
    ) -> Result<T, ServerError> {
        if !self.speaks_resp {
            return Err(ServerError::NoResp);
        }
        let mut place = neighbour.connection.lock().await;
        if let Some((mut open, ready)) = place.take()
            && let Ok(answer) = query(&mut open).await
        {
            *place = Some((open, ready));
            return Ok(answer);
        }
        let mut server = self.connect(neighbour).await?;
        let answer = query(&mut server).await?;
        *place = Some((server, None));
        Ok(answer)
    }

    /// Connects twice, one after the other, as every client of a load does: a server
    /// that accepts the first connection may refuse the second.
    async fn connect(&self, neighbour: &Neighbour) -> Result<Server, ServerError> {
        let connect = || Server::connect(neighbour.address, &self.access, ANSWER_TIMEOUT);
        connect().await?.command::<()>(&["PING"]).await?;
        connect().await
    }

    /// Waits until every server has accepted a connection: each probe that failed while they start
    /// would leave a Warning event.
    pub async fn started(&self) {
        for neighbour in &self.servers {
            while !neighbour.started.load(Ordering::Relaxed) {
                match self.query(neighbour, persistence).await {
                    Err(ServerError::Connect(_)) => sleep(NEXT_TRY).await,
                    _ => neighbour.started.store(true, Ordering::Relaxed),
                }
            }
        }
    }

    /// Whether every server answers and has loaded its data set; the error says which does not.
    pub async fn ready(&self) -> Result<(), String> {
        for neighbour in &self.servers {
            if neighbour.still_ready().await {
                continue;
            }
            let answer = self.query(neighbour, persistence).await;
            if answer.map_err(|error| self.complaint(neighbour, &error.to_string()))?.flag("loading") {
                return Err(self.complaint(neighbour, "the server is still loading its data set"));
            }
            if let Some((_, ready)) = neighbour.connection.lock().await.as_mut() {
                *ready = Some(Instant::now());
            }
        }
        Ok(())
    }

    pub async fn truths(&self) -> Result<Vec<ServerTruth>, String> {
        let mut truths = Vec::with_capacity(self.servers.len());
        for neighbour in &self.servers {
            let truth = self.query(neighbour, async |server: &mut Server| server.truth().await).await;
            truths.push(truth.map_err(|error| self.complaint(neighbour, &error.to_string()))?);
        }
        Ok(truths)
    }

    /// Names one of several servers, without the password, which a server may repeat.
    fn complaint(&self, neighbour: &Neighbour, reason: &str) -> String {
        let port = neighbour.address.port();
        let place = if self.servers.len() > 1 { format!("port {port}: ") } else { String::new() };
        format!("{place}{}", self.redactor.clean(reason))
    }
}
