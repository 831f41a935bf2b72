//! The `redis` crate (redis-rs): its connections, and requests in its terms.

use std::path::Path;

use bytes::Bytes;
use redis::aio::{ConnectionLike, ConnectionManager, ConnectionManagerConfig, MultiplexedConnection};
use redis::cluster::ClusterClientBuilder;
use redis::cluster_read_routing::RandomReplicaStrategy;
use redis::{
    AsyncConnectionConfig, ClientTlsConfig, Cmd, ConnectionAddr, ConnectionInfo, IntoConnectionInfo as _,
    Pipeline, ProtocolVersion, RedisConnectionInfo, RedisError, TlsCertificates, Value,
};

use crate::clients::error::LibraryError;
use crate::clients::loss::Losses;
use crate::clients::request::{Answer, Chunk, Reply, Request};
use dragstrip_crds::workload::BatchOperation;
use dragstrip_loadgen::configuration::Configuration;
use dragstrip_loadgen::wire::tls::TlsOptions;

#[derive(Debug)]
pub(crate) struct Dialer {
    client: redis::Client,
    pub(crate) cluster: Option<redis::cluster::ClusterClient>,
    config: AsyncConnectionConfig,
    manager_config: ConnectionManagerConfig,
    resp3: bool,
}

impl Dialer {
    pub(crate) fn new(configuration: &Configuration) -> Result<Self, LibraryError> {
        // redis-rs takes the provider of the process; an error only means that there is one already.
        let _ = tokio_rustls::rustls::crypto::ring::default_provider().install_default();
        let info = connection_info(configuration)?;
        let tls = configuration.server().tls.as_ref().map(tls_certificates).transpose()?;
        let cluster = configuration
            .server()
            .cluster
            .then(|| cluster_client(configuration, info.clone(), tls.clone()))
            .transpose()?;
        let client = match tls {
            Some(tls) => redis::Client::build_with_tls(info, tls),
            None => redis::Client::open(info),
        };
        let (connect, response) = (configuration.connect_timeout, configuration.response_timeout);
        Ok(Self {
            client: client.map_err(LibraryError::DescribeRedis)?,
            cluster,
            config: AsyncConnectionConfig::new()
                .set_connection_timeout(Some(connect))
                .set_response_timeout(Some(response)),
            manager_config: ConnectionManagerConfig::new()
                .set_connection_timeout(Some(connect))
                .set_response_timeout(Some(response))
                .set_number_of_retries(0),
            resp3: configuration.load().resp3,
        })
    }

    /// A connection that reconnects by itself; `losses` gets what it would replace silently.
    pub(crate) async fn manager(&self, losses: &Losses) -> Result<ConnectionManager, RedisError> {
        let mut config = self.manager_config.clone();
        // With RESP2 a manager learns of a loss by a request, which fails.
        if self.resp3 {
            config = config.set_push_sender(losses.pushes());
        }
        self.client.get_connection_manager_with_config(config).await
    }

    pub(crate) async fn multiplexed(&self) -> Result<MultiplexedConnection, RedisError> {
        self.client.get_multiplexed_async_connection_with_config(&self.config).await
    }
}

fn connection_info(configuration: &Configuration) -> Result<ConnectionInfo, LibraryError> {
    let (host, port) = (configuration.server().host.clone(), configuration.server().port);
    let address = match &configuration.server().tls {
        Some(tls) => ConnectionAddr::TcpTls { host, port, insecure: tls.insecure, tls_params: None },
        None => ConnectionAddr::Tcp(host, port),
    };
    let mut settings = RedisConnectionInfo::default().set_protocol(if configuration.load().resp3 {
        ProtocolVersion::RESP3
    } else {
        ProtocolVersion::RESP2
    });
    if let Some(credentials) = &configuration.credentials {
        settings = settings.set_password(credentials.password.clone());
        if let Some(username) = &credentials.username {
            settings = settings.set_username(username.clone());
        }
    }
    let info = address.into_connection_info().map_err(LibraryError::DescribeRedis)?;
    Ok(info.set_redis_settings(settings))
}

fn tls_certificates(tls: &TlsOptions) -> Result<TlsCertificates, LibraryError> {
    let client_tls = match (&tls.certificate_file, &tls.key_file) {
        (Some(certificate), Some(key)) => {
            Some(ClientTlsConfig { client_cert: read(certificate)?, client_key: read(key)? })
        }
        _ => None,
    };
    let root_cert = tls.ca_file.as_ref().map(|path| read(path)).transpose()?;
    Ok(TlsCertificates { client_tls, root_cert })
}

fn read(path: &Path) -> Result<Vec<u8>, LibraryError> {
    std::fs::read(path).map_err(|source| LibraryError::ReadTlsFile { path: path.to_path_buf(), source })
}

fn cluster_client(
    configuration: &Configuration,
    info: ConnectionInfo,
    tls: Option<TlsCertificates>,
) -> Result<redis::cluster::ClusterClient, LibraryError> {
    let mut builder = ClusterClientBuilder::new([info])
        .connection_timeout(configuration.connect_timeout)
        .response_timeout(configuration.response_timeout);
    if let Some(tls) = tls {
        builder = builder.certs(tls);
    }
    if configuration.load().replica_reads {
        builder = builder.read_routing_strategy(RandomReplicaStrategy);
    }
    builder.build().map_err(LibraryError::DescribeRedis)
}

/// Sends one request on any kind of connection.
pub(crate) async fn request(
    connection: &mut impl ConnectionLike,
    request: Request<'_>,
) -> Result<Reply, LibraryError> {
    let replied = match request {
        // Not Cmd::incr, which sends INCRBY.
        Request::Increment { key } => {
            redis::cmd("INCR").arg(key).query_async(connection).await.map(Reply::Number)
        }
        Request::Get { key } => {
            let value: Result<Value, _> = Cmd::get(key).query_async(connection).await;
            value.map(|value| Reply::Found(value != Value::Nil))
        }
        Request::Set { key, value } => {
            let done: Result<(), _> = Cmd::set(key, &*value).query_async(connection).await;
            done.map(|()| Reply::Done)
        }
    };
    replied.or_else(|error| server_error(error).map(Reply::Error))
}

/// A chunk as redis-rs sends it.
#[derive(Debug)]
pub(crate) enum Encoded {
    Command(Cmd),
    Pipeline(Pipeline),
}

/// Encodes a chunk, with redis-rs's own builders.
pub(crate) fn encode(chunk: &Chunk<'_>) -> Encoded {
    let items = chunk.items.iter().map(|item| (item.key.as_str(), &item.value));
    match chunk.operation {
        BatchOperation::Mset => Encoded::Command(multi_set(items)),
        BatchOperation::Mget => {
            let mut command = redis::cmd("MGET");
            items.for_each(|(key, _)| {
                command.arg(key);
            });
            Encoded::Command(command)
        }
        BatchOperation::SetExpire => {
            let mut pipeline = Pipeline::with_capacity(items.len());
            for (key, value) in items {
                pipeline.cmd("SET").arg(key).arg(&**value).arg("EXAT").arg(chunk.expires_at);
            }
            Encoded::Pipeline(pipeline)
        }
        BatchOperation::MsetExpire => {
            let mut pipeline = Pipeline::with_capacity(items.len() + 1);
            pipeline.add_command(multi_set(items.clone()));
            for (key, _) in items {
                pipeline.cmd("EXPIREAT").arg(key).arg(chunk.expires_at);
            }
            Encoded::Pipeline(pipeline)
        }
    }
}

fn multi_set<'a>(items: impl Iterator<Item = (&'a str, &'a Bytes)>) -> Cmd {
    let mut command = redis::cmd("MSET");
    for (key, value) in items {
        command.arg(key).arg(&**value);
    }
    command
}

/// Sends a chunk on any kind of connection.
pub(crate) async fn send(
    connection: &mut impl ConnectionLike,
    chunk: &Chunk<'_>,
    encoded: &Encoded,
) -> Result<Answer, LibraryError> {
    let replied: Result<Value, RedisError> = match encoded {
        Encoded::Command(command) => command.query_async(connection).await,
        Encoded::Pipeline(pipeline) => pipeline.exec_async(connection).await.map(|()| Value::Okay),
    };
    match replied {
        Ok(value) => Ok(chunk.answer(Vec::new(), values_found(&value))),
        Err(error) => Ok(chunk.answer(server_errors(error)?, 0)),
    }
}

fn values_found(value: &Value) -> u64 {
    match value {
        Value::Array(values) => values.iter().filter(|value| **value != Value::Nil).count() as u64,
        _ => 0,
    }
}

/// The server's error messages to a pipeline; any other error breaks the run.
fn server_errors(error: RedisError) -> Result<Vec<String>, LibraryError> {
    match error.clone().into_server_errors() {
        Some(errors) => Ok(errors.iter().map(|(_, error)| message(error.code(), error.details())).collect()),
        None => server_error(error).map(|message| vec![message]),
    }
}

/// The server's error message; any other error breaks the run.
fn server_error(error: RedisError) -> Result<String, LibraryError> {
    match error.code() {
        Some(code) if !error.is_io_error() => Ok(message(code, error.detail())),
        _ => Err(LibraryError::LoseRedis(error)),
    }
}

fn message(code: &str, detail: Option<&str>) -> String {
    detail.map_or_else(|| code.to_owned(), |detail| format!("{code} {detail}"))
}
