//! One connection to a RESP server: connect, authenticate, ask what it is and
//! what it counted. Touches the network and nothing else; what the answers
//! mean is read by the pure modules below.

use crate::server::{
    access::Access,
    counters,
    info::Info,
    truth::{self, Identity},
};
use dragstrip_crds::{Engine, observed::ServerTruth};
use dragstrip_results::{memory::MemberMemory, observed::ServerCounters};
use redis::{
    AsyncConnectionConfig, Cmd, FromRedisValue, RedisConnectionInfo, RedisError, Value,
    aio::MultiplexedConnection, cmd,
};
use std::{collections::HashMap, fmt, io, net::SocketAddr, time::Duration};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    task::JoinHandle,
    time::{sleep, timeout},
};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// How often a server's clock and uptime are read anew when a second ended in between.
const CLOCK_ATTEMPTS: u32 = 5;
/// So long into a second a server's coarse clock may still be in the former one.
const CLOCK_TICK: Duration = Duration::from_millis(20);

/// A step in talking to the server that failed. A server's error reply is given word by word.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    #[error("no TCP connection: {0}")]
    Connect(#[source] io::Error),
    #[error("no TCP connection within {} s", CONNECT_TIMEOUT.as_secs())]
    ConnectTimeout,
    #[error("no TLS connection: {0}")]
    Encrypt(#[source] io::Error),
    #[error("no RESP conversation: {0}")]
    Handshake(Reply),
    #[error("AUTH was refused: {0}")]
    Authenticate(Reply),
    #[error("{command} failed: {reply}")]
    Command { command: &'static str, reply: Reply },
    #[error("TIME and INFO take longer than a second, so that the server's start is unknown")]
    Clock,
    #[error("the server does not speak RESP")]
    NoResp,
}

impl ServerError {
    /// The first word of the server's error reply, such as WRONGPASS.
    pub fn code(&self) -> Option<&str> {
        match self {
            Self::Connect(_) | Self::ConnectTimeout | Self::Encrypt(_) | Self::Clock | Self::NoResp => None,
            Self::Handshake(reply) | Self::Authenticate(reply) | Self::Command { reply, .. } => {
                reply.0.code()
            }
        }
    }
}

/// An error of the RESP client, shown as the server wrote it where it is an error reply.
#[derive(Debug)]
pub struct Reply(pub RedisError);

impl fmt::Display for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0.code(), self.0.detail()) {
            (Some(code), Some(detail)) => write!(f, "{code} {detail}"),
            (Some(code), None) => f.write_str(code),
            (None, _) => write!(f, "{}", self.0),
        }
    }
}

impl std::error::Error for Reply {}

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
    /// Connects, encrypts and authenticates. Every later answer must come
    /// within `answer_timeout`.
    pub async fn connect(
        address: SocketAddr,
        access: &Access,
        answer_timeout: Duration,
    ) -> Result<Self, ServerError> {
        let stream = reach(address).await?;
        let mut server = match &access.encryption {
            None => Self::converse(stream, answer_timeout).await?,
            Some(encryption) => {
                let encrypted = timeout(CONNECT_TIMEOUT, encryption.connect(stream)).await;
                let encrypted = encrypted.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
                Self::converse(encrypted.map_err(ServerError::Encrypt)?, answer_timeout).await?
            }
        };
        server.authenticate(access).await?;
        Ok(server)
    }

    async fn converse(
        stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
        answer_timeout: Duration,
    ) -> Result<Self, ServerError> {
        // Nothing is sent on connecting: AUTH follows, whose refusal is then an error of its own.
        let settings = RedisConnectionInfo::default().set_skip_set_lib_name();
        let config = AsyncConnectionConfig::new().set_response_timeout(Some(answer_timeout));
        let (connection, driver) = MultiplexedConnection::new_with_config(&settings, stream, config)
            .await
            .map_err(|e| ServerError::Handshake(Reply(e)))?;
        Ok(Self { connection, driver: tokio::spawn(driver) })
    }

    /// AUTH; nothing where neither a user nor a password is known.
    async fn authenticate(&mut self, access: &Access) -> Result<(), ServerError> {
        if access.username.is_none() && access.password.is_none() {
            return Ok(());
        }
        let mut command = cmd("AUTH");
        if let Some(username) = &access.username {
            command.arg(username);
        }
        // A user without a password takes any.
        command.arg(access.password.as_deref().unwrap_or_default());
        let answer = command.query_async::<()>(&mut self.connection).await;
        answer.map_err(|e| ServerError::Authenticate(Reply(e)))
    }

    /// Whether the server has not closed the connection.
    pub fn is_open(&self) -> bool {
        !self.driver.is_finished()
    }

    pub async fn ping(&mut self) -> Result<(), ServerError> {
        self.ask("PING", &cmd("PING")).await
    }

    pub async fn info(&mut self) -> Result<Info, ServerError> {
        // ALL, since only few engines take several sections in one request.
        self.ask("INFO ALL", cmd("INFO").arg("ALL")).await.map(|text: String| Info::parse(&text))
    }

    /// INFO without arguments: it leaves out the statistics of every
    /// command, which cost most of it.
    pub async fn brief_info(&mut self) -> Result<Info, ServerError> {
        self.ask("INFO", &cmd("INFO")).await.map(|text: String| Info::parse(&text))
    }

    /// Whether the server is still loading its data set.
    pub async fn loading(&mut self) -> Result<bool, ServerError> {
        let text: String = self.ask("INFO persistence", cmd("INFO").arg("persistence")).await?;
        Ok(Info::parse(&text).flag("loading"))
    }

    pub async fn truth(&mut self) -> Result<ServerTruth, ServerError> {
        let info = self.info().await?;
        let process = self.process(&info).await?;
        let io_threads = self.setting("io-threads").await;
        Ok(truth::read_truth(&info, process, io_threads.and_then(|value| value.parse().ok())))
    }

    /// What the server says of its memory, and how many keys it has; without its name.
    pub async fn memory(&mut self) -> Result<MemberMemory, ServerError> {
        let info = self.brief_info().await?;
        let keys = if truth::detect_engine(&info) == Some(Engine::Garnet) {
            Err("Dragstrip does not count the keys of Garnet, which walks over all of them for that"
                .to_owned())
        } else {
            // An account may be forbidden to count keys.
            self.ask::<u64>("DBSIZE", &cmd("DBSIZE")).await.map_err(|error| error.to_string())
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
        let info = self.info().await?;
        let process = self.process(&info).await?;
        Ok(counters::read_counters(&info, process))
    }

    /// What identifies the process that answered `info`, the same whenever it is
    /// asked; empty where nothing does.
    async fn process(&mut self, info: &Info) -> Result<String, ServerError> {
        match truth::identity(info) {
            Identity::Drawn(id) => Ok(id),
            Identity::Started { process, .. } => self.started(process).await,
            Identity::Untold => Ok(String::new()),
        }
    }

    /// The process by the second of its start. Both its clock and its uptime are cut
    /// to whole seconds: they give that second when they are read within one.
    async fn started(&mut self, process: u32) -> Result<String, ServerError> {
        for _ in 0..CLOCK_ATTEMPTS {
            // A user may be forbidden to ask for the time.
            let Some((second, into)) = self.clock().await else { return Ok(String::new()) };
            sleep(CLOCK_TICK.saturating_sub(into)).await;
            let text: String = self.ask("INFO server", cmd("INFO").arg("server")).await?;
            let same_second = self.clock().await.is_some_and(|(after, _)| after == second);
            if let Identity::Started { uptime_seconds, .. } = truth::identity(&Info::parse(&text))
                && same_second
            {
                return Ok(truth::started_as(process, second.saturating_sub(uptime_seconds)));
            }
        }
        Err(ServerError::Clock)
    }

    /// The server's clock: seconds of Unix time, and how far it is into the next.
    async fn clock(&mut self) -> Option<(u64, Duration)> {
        let (seconds, micros): (String, String) = cmd("TIME").query_async(&mut self.connection).await.ok()?;
        Some((seconds.parse().ok()?, Duration::from_micros(micros.parse().ok()?)))
    }

    /// Deletes all keys and returns when they are gone.
    pub async fn flush_all(&mut self) -> Result<(), ServerError> {
        self.ask("FLUSHALL SYNC", cmd("FLUSHALL").arg("SYNC")).await
    }

    pub async fn key_count(&mut self) -> Result<u64, ServerError> {
        self.ask("DBSIZE", &cmd("DBSIZE")).await
    }

    /// The nodes of a cluster, by its slots.
    pub async fn cluster_nodes(&mut self) -> Result<Vec<ClusterNode>, ServerError> {
        let ranges: Vec<Vec<Value>> = self.ask("CLUSTER SLOTS", cmd("CLUSTER").arg("SLOTS")).await?;
        let mut nodes: Vec<_> = ranges.into_iter().flat_map(nodes_of_range).collect();
        nodes.sort();
        nodes.dedup();
        Ok(nodes)
    }

    pub async fn cluster_info(&mut self) -> Result<Info, ServerError> {
        let text: String = self.ask("CLUSTER INFO", cmd("CLUSTER").arg("INFO")).await?;
        Ok(Info::parse(&text))
    }

    /// CLUSTER NODES, as it is written.
    pub async fn cluster_table(&mut self) -> Result<String, ServerError> {
        self.ask("CLUSTER NODES", cmd("CLUSTER").arg("NODES")).await
    }

    /// Sends a command that changes how servers are joined.
    pub async fn command(&mut self, name: &'static str, arguments: &[String]) -> Result<(), ServerError> {
        self.ask::<Value>(name, cmd(name).arg(arguments)).await.map(drop)
    }

    /// Sets the password a replica gives to its primary.
    pub async fn set_primary_password(&mut self, password: &str) -> Result<(), ServerError> {
        let request = cmd("CONFIG").arg("SET").arg("masterauth").arg(password).to_owned();
        self.ask("CONFIG SET masterauth", &request).await
    }

    /// Writes a key that goes away by itself.
    pub async fn set_for(&mut self, key: &str, seconds: u64) -> Result<(), ServerError> {
        self.ask("SET", cmd("SET").arg(key).arg(1).arg("EX").arg(seconds)).await
    }

    pub async fn exists(&mut self, key: &str) -> Result<bool, ServerError> {
        self.ask("EXISTS", cmd("EXISTS").arg(key)).await
    }

    pub async fn delete(&mut self, key: &str) -> Result<(), ServerError> {
        self.ask("DEL", cmd("DEL").arg(key)).await
    }

    /// One setting; `None` where the engine has it not or hides it, which is no fault.
    async fn setting(&mut self, name: &str) -> Option<String> {
        let pairs: HashMap<String, String> =
            cmd("CONFIG").arg("GET").arg(name).query_async(&mut self.connection).await.ok()?;
        pairs.get(name).cloned()
    }

    async fn ask<T: FromRedisValue>(
        &mut self,
        command: &'static str,
        request: &Cmd,
    ) -> Result<T, ServerError> {
        request
            .query_async(&mut self.connection)
            .await
            .map_err(|e| ServerError::Command { command, reply: Reply(e) })
    }
}

/// A TCP connection, and no more.
pub async fn reach(address: SocketAddr) -> Result<TcpStream, ServerError> {
    let stream = timeout(CONNECT_TIMEOUT, TcpStream::connect(address))
        .await
        .map_err(|_| ServerError::ConnectTimeout)?
        .map_err(ServerError::Connect)?;
    stream.set_nodelay(true).map_err(ServerError::Connect)?;
    Ok(stream)
}

/// A node of a cluster, as another node names it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClusterNode {
    /// Host name or IP address; empty where the queried node means itself.
    pub host: String,
    pub port: u16,
    /// Whether it only follows another one.
    pub replica: bool,
}

/// A range of CLUSTER SLOTS is first slot, last slot, primary, replicas; a node
/// begins with its host and port.
fn nodes_of_range(range: Vec<Value>) -> impl Iterator<Item = ClusterNode> {
    range.into_iter().skip(2).enumerate().filter_map(|(position, node)| {
        let mut fields = Vec::<Value>::from_redis_value(node).ok()?.into_iter();
        let host = match fields.next()? {
            Value::Nil => String::new(),
            host => String::from_redis_value(host).ok()?,
        };
        let port = u16::from_redis_value(fields.next()?).ok()?;
        Some(ClusterNode { host, port, replica: position > 0 })
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

    #[test]
    fn a_slot_range_names_its_primary_and_its_replicas() {
        let text = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        let node = |port| Value::Array(vec![text("10.0.0.7"), Value::Int(port), text("id")]);
        let range = vec![Value::Int(0), Value::Int(16383), node(6379), node(6380)];
        let expected = |port, replica| ClusterNode { host: "10.0.0.7".to_owned(), port, replica };
        assert_eq!(nodes_of_range(range).collect::<Vec<_>>(), [expected(6379, false), expected(6380, true)]);
        assert_eq!(nodes_of_range(vec![Value::Int(0)]).count(), 0);
        let nameless = Value::Array(vec![Value::Nil, Value::Int(1)]);
        let nodes: Vec<_> = nodes_of_range(vec![Value::Int(0), Value::Int(1), nameless]).collect();
        assert_eq!(nodes[0].host, "", "a node may not know its own name");
    }
}
