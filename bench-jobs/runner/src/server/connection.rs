//! One connection to a RESP server: connect, authenticate, query what it is and
//! what it counted. Touches the network and nothing else; pure modules interpret the answers.

use crate::server::{
    access::Access,
    counters,
    info::Info,
    nodes::{self, ClusterNode},
    truth::{self, Identity, Settings},
};
use dragstrip_crds::{Engine, observed::ServerTruth};
use dragstrip_results::{memory::MemberMemory, observed::ServerCounters};
use redis::{
    AsyncConnectionConfig, Cmd, FromRedisValue, RedisConnectionInfo, RedisError, aio::MultiplexedConnection,
    cmd,
};
use std::{collections::BTreeSet, io, net::SocketAddr, time::Duration};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    task::JoinHandle,
    time::{sleep, timeout},
};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// How often a server's clock and uptime are read until no second ends in between.
const CLOCK_ATTEMPTS: u32 = 5;
/// So long into a second a server's coarse clock may still be in the former one.
const CLOCK_TICK: Duration = Duration::from_millis(20);

/// A step of a conversation with the server that failed.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    #[error("no TCP connection: {0}")]
    Connect(#[source] io::Error),
    #[error("no TLS connection: {0}")]
    Encrypt(#[source] io::Error),
    #[error("no RESP conversation: {}", reply(.0))]
    Handshake(#[source] RedisError),
    #[error("AUTH was refused: {}", reply(.0))]
    Authenticate(#[source] RedisError),
    #[error("{command} failed: {}", reply(.source))]
    Command { command: String, source: RedisError },
    #[error("cannot read the answer to CLUSTER NODES: {0}")]
    Nodes(String),
    #[error("TIME and INFO take longer than a second, so that the server's start is unknown")]
    Clock,
    #[error("the server does not speak RESP")]
    NoResp,
}

impl ServerError {
    /// The first word of the server's error reply, such as WRONGPASS.
    pub fn code(&self) -> Option<&str> {
        match self {
            Self::Handshake(source) | Self::Authenticate(source) | Self::Command { source, .. } => {
                source.code()
            }
            _ => None,
        }
    }
}

/// An error of the RESP client, word by word where it is the server's error reply.
fn reply(error: &RedisError) -> String {
    match (error.code(), error.detail()) {
        (Some(code), Some(detail)) => format!("{code} {detail}"),
        (Some(code), None) => code.to_owned(),
        (None, _) => error.to_string(),
    }
}

#[derive(Debug)]
pub struct Server {
    connection: MultiplexedConnection,
    driver: JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl Server {
    /// Connects, encrypts and authenticates. `answer_timeout` is for each later answer.
    pub async fn connect(
        address: SocketAddr,
        access: &Access,
        answer_timeout: Duration,
    ) -> Result<Self, ServerError> {
        let stream = reach(address).await?;
        let mut server = match &access.tls {
            None => Self::converse(stream, answer_timeout).await?,
            Some(tls) => {
                let host = address.ip().to_string();
                let encrypted = in_time(tls.connect(&host, stream)).await.map_err(ServerError::Encrypt)?;
                Self::converse(encrypted, answer_timeout).await?
            }
        };
        server.authenticate(access).await?;
        Ok(server)
    }

    async fn converse(
        stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
        answer_timeout: Duration,
    ) -> Result<Self, ServerError> {
        // Nothing is sent on connecting: AUTH follows, so that its refusal is a distinct error.
        let settings = RedisConnectionInfo::default().set_skip_set_lib_name();
        let config = AsyncConnectionConfig::new().set_response_timeout(Some(answer_timeout));
        let (connection, driver) = MultiplexedConnection::new_with_config(&settings, stream, config)
            .await
            .map_err(ServerError::Handshake)?;
        Ok(Self { connection, driver: tokio::spawn(driver) })
    }

    /// AUTH; nothing where neither a user nor a password is given.
    async fn authenticate(&mut self, access: &Access) -> Result<(), ServerError> {
        if access.username.is_none() && access.password.is_none() {
            return Ok(());
        }
        let mut command = cmd("AUTH");
        command.arg(&access.username);
        // A user without a password takes any.
        command.arg(access.password.as_deref().unwrap_or_default());
        command.query_async(&mut self.connection).await.map_err(ServerError::Authenticate)
    }

    pub fn is_open(&self) -> bool {
        !self.driver.is_finished()
    }

    /// Sends a command and reads its answer. Errors name two words: a later one may be a password.
    pub async fn command<T: FromRedisValue>(&mut self, words: &[&str]) -> Result<T, ServerError> {
        let mut command = Cmd::new();
        for word in words {
            command.arg(*word);
        }
        command.query_async(&mut self.connection).await.map_err(|source| {
            let named = words.iter().take(2).copied().collect::<Vec<_>>();
            ServerError::Command { command: named.join(" "), source }
        })
    }

    /// Sends a command whose answer is a text of fields: INFO, CLUSTER INFO. INFO without
    /// arguments leaves out the statistics of every command, which cost most of it.
    pub async fn info(&mut self, words: &[&str]) -> Result<Info, ServerError> {
        self.command::<String>(words).await.map(|text| Info::parse(&text))
    }

    /// All of INFO, since only few engines take several sections in one request.
    async fn complete_info(&mut self) -> Result<Info, ServerError> {
        self.info(&["INFO", "ALL"]).await
    }

    pub async fn truth(&mut self) -> Result<ServerTruth, ServerError> {
        let info = self.complete_info().await?;
        let process = self.process(&info).await?;
        Ok(truth::read_truth(&info, process, &self.settings().await))
    }

    /// The server's account of its memory, and how many keys it has; without its name.
    pub async fn memory(&mut self) -> Result<MemberMemory, ServerError> {
        let info = self.info(&["INFO"]).await?;
        let keys = if truth::detect_engine(&info) == Some(Engine::Garnet) {
            Err("Dragstrip does not count the keys of Garnet, which walks over all of them for that"
                .to_owned())
        } else {
            // An account may be forbidden to count keys.
            self.key_count().await.map_err(|error| error.to_string())
        };
        let silent = info.text("used_memory").is_none().then(|| "INFO has no used_memory".to_owned());
        Ok(MemberMemory {
            used_bytes: info.number("used_memory"),
            rss_bytes: info.number("used_memory_rss"),
            peak_bytes: info.number("used_memory_peak"),
            unread: silent.or_else(|| keys.as_ref().err().cloned()),
            keys: keys.ok(),
            ..MemberMemory::default()
        })
    }

    pub async fn counters(&mut self) -> Result<ServerCounters, ServerError> {
        let info = self.complete_info().await?;
        let process = self.process(&info).await?;
        Ok(counters::read_counters(&info, process))
    }

    /// What always identifies the process that answered `info`; empty if nothing does.
    async fn process(&mut self, info: &Info) -> Result<String, ServerError> {
        match truth::identity(info) {
            Identity::Drawn(id) => Ok(id),
            Identity::Started { process, .. } => self.started(process).await,
            Identity::Unknown => Ok(String::new()),
        }
    }

    /// The process by the second of its start. Both its clock and its uptime are cut
    /// to whole seconds: they give that second when they are read within one.
    async fn started(&mut self, process: u32) -> Result<String, ServerError> {
        for _ in 0..CLOCK_ATTEMPTS {
            // A user may be forbidden to query the time.
            let Some((second, into)) = self.clock().await else { return Ok(String::new()) };
            sleep(CLOCK_TICK.saturating_sub(into)).await;
            let info = self.info(&["INFO", "server"]).await?;
            let same_second = self.clock().await.is_some_and(|(after, _)| after == second);
            if let Identity::Started { uptime_seconds, .. } = truth::identity(&info)
                && same_second
            {
                return Ok(truth::started_as(process, second.saturating_sub(uptime_seconds)));
            }
        }
        Err(ServerError::Clock)
    }

    /// The server's clock: seconds of Unix time, and how far it is into the next.
    async fn clock(&mut self) -> Option<(u64, Duration)> {
        let (seconds, micros): (u64, u64) = self.command(&["TIME"]).await.ok()?;
        Some((seconds, Duration::from_micros(micros)))
    }

    pub async fn key_count(&mut self) -> Result<u64, ServerError> {
        self.command(&["DBSIZE"]).await
    }

    /// The servers of its cluster, itself too.
    pub async fn cluster_nodes(&mut self) -> Result<Vec<ClusterNode>, ServerError> {
        let answer: String = self.command(&["CLUSTER", "NODES"]).await?;
        nodes::parse(&answer).ok_or(ServerError::Nodes(answer))
    }

    /// The ids of the servers that it names to clients for their reads and writes.
    pub async fn listed_nodes(&mut self) -> Result<BTreeSet<String>, ServerError> {
        self.command(&["CLUSTER", "SLOTS"]).await.map(|answer: Vec<Vec<_>>| nodes::listed(&answer))
    }

    /// All its settings, in one command, because a server that refuses it counts each refusal as an
    /// error; none if the engine hides them, which is not a fault.
    async fn settings(&mut self) -> Settings {
        self.command(&["CONFIG", "GET", "*"]).await.unwrap_or_default()
    }
}

/// A TCP connection alone.
pub async fn reach(address: SocketAddr) -> Result<TcpStream, ServerError> {
    let connect = async {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(stream)
    };
    in_time(connect).await.map_err(ServerError::Connect)
}

async fn in_time<T>(step: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    timeout(CONNECT_TIMEOUT, step).await.unwrap_or_else(|_| {
        let message = format!("no answer within {} s", CONNECT_TIMEOUT.as_secs());
        Err(io::Error::new(io::ErrorKind::TimedOut, message))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::fake_dragonfly::FakeDragonfly;
    use std::time::Instant;

    #[tokio::test]
    async fn a_process_without_an_id_is_the_same_at_any_moment_of_a_second() {
        let fake = FakeDragonfly::up_for(100);
        let mut server = Server::connect(fake.address, &Access::default(), ANSWER_TIMEOUT).await.unwrap();
        let first = server.truth().await.unwrap().run_id;
        assert!(first.starts_with("1@"), "{first}");
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(1200) {
            assert_eq!(server.counters().await.unwrap().run_id, first, "the same process");
        }
        fake.restarted(0);
        assert_ne!(server.truth().await.unwrap().run_id, first, "a process of the same number");
    }
}
