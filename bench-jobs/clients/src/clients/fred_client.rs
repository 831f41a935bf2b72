//! The `fred` crate: its clients, and requests in its terms.

use fred::clients::{Client, Pipeline};
use fred::error::{Error, ErrorKind};
use fred::interfaces::{ClientLike as _, KeysInterface as _};
use fred::types::config::{
    ClusterDiscoveryPolicy, Config, ConnectionConfig, Server, ServerConfig, TlsConfig, TlsConnector,
};
use fred::types::{Builder, Expiration, Key, RespVersion, Value};

use crate::clients::error::LibraryError;
use crate::clients::loss::Losses;
use crate::clients::request::{Answer, Chunk, Item, Reply, Request};
use dragstrip_crds::workload::BatchOperation;
use dragstrip_loadgen::configuration::Configuration;
use dragstrip_loadgen::wire::tls::TlsClient;

/// Makes clients with one connection each (one to every node, in a cluster).
#[derive(Debug)]
pub(crate) struct Dialer {
    builder: Builder,
    replica_reads: bool,
}

impl Dialer {
    pub(crate) fn new(configuration: &Configuration) -> Result<Self, LibraryError> {
        let mut builder = Builder::from_config(config(configuration)?);
        builder.with_connection_config(|connection: &mut ConnectionConfig| {
            connection.connection_timeout = configuration.connect_timeout;
            connection.internal_command_timeout = configuration.connect_timeout;
            // A lost connection ends the run; nothing is sent twice.
            connection.max_command_attempts = 1;
            connection.tcp.nodelay = Some(true);
        });
        Ok(Self { builder, replica_reads: configuration.load().replica_reads })
    }

    pub(crate) async fn connect(&self, losses: &Losses) -> Result<FredLink, LibraryError> {
        let client = self.builder.build().map_err(LibraryError::ConnectFred)?;
        losses.note_end_of(client.init().await.map_err(LibraryError::ConnectFred)?);
        Ok(FredLink { client, replica_reads: self.replica_reads })
    }
}

fn config(configuration: &Configuration) -> Result<Config, LibraryError> {
    let mut server = Server::new(configuration.server().host.clone(), configuration.server().port);
    let tls = configuration.server().tls.as_ref().map(TlsClient::new).transpose();
    let tls = tls.map_err(LibraryError::SetUpTls)?;
    if let Some(options) = &configuration.server().tls {
        let name = options.server_name.clone().unwrap_or_else(|| configuration.server().host.clone());
        server.tls_server_name = Some(name.into());
    }
    let server = if configuration.server().cluster {
        ServerConfig::Clustered { hosts: vec![server], policy: ClusterDiscoveryPolicy::ConfigEndpoint }
    } else {
        ServerConfig::Centralized { server }
    };
    let credentials = configuration.credentials.as_ref();
    Ok(Config {
        fail_fast: true,
        server,
        username: credentials.and_then(|credentials| credentials.username.clone()),
        password: credentials.map(|credentials| credentials.password.clone()),
        version: if configuration.load().resp3 { RespVersion::RESP3 } else { RespVersion::RESP2 },
        tls: tls.map(|client| TlsConfig::from(TlsConnector::from(client.connector))),
        ..Config::default()
    })
}

/// One client; clones share its connection.
#[derive(Clone, Debug)]
pub(crate) struct FredLink {
    client: Client,
    replica_reads: bool,
}

impl FredLink {
    pub(crate) async fn request(&self, request: Request<'_>) -> Result<Reply, LibraryError> {
        let replied = match request {
            Request::Increment { key } => self.client.incr(key).await.map(Reply::Number),
            Request::Get { key } => {
                let value: Result<Value, Error> = if self.replica_reads {
                    self.client.replicas().get(key).await
                } else {
                    self.client.get(key).await
                };
                value.map(|value| Reply::Found(!value.is_null()))
            }
            Request::Set { key, value } => {
                let done: Result<(), Error> = self.client.set(key, value, None, None, false).await;
                done.map(|()| Reply::Done)
            }
        };
        replied.or_else(|error| server_error(error).map(Reply::Error))
    }

    pub(crate) async fn send(&self, chunk: &Chunk<'_>) -> Result<Answer, LibraryError> {
        match chunk.operation {
            BatchOperation::Mset => {
                let done: Result<(), Error> = self.client.mset(pairs(chunk.items)).await;
                answered(chunk, vec![done.map(|()| Value::Null)])
            }
            BatchOperation::Mget => {
                let keys: Vec<Key> = chunk.items.iter().map(|item| Key::from(item.key.as_str())).collect();
                let values: Result<Value, Error> = self.client.mget(keys).await;
                answered(chunk, vec![values])
            }
            BatchOperation::SetExpire | BatchOperation::MsetExpire => {
                let pipeline = self.client.pipeline();
                match queue(&pipeline, chunk).await {
                    Ok(()) => answered(chunk, pipeline.try_all::<Value>().await),
                    Err(error) => Err(LibraryError::LoseFred(error)),
                }
            }
        }
    }
}

/// Puts the commands of a chunk into a pipeline; nothing is sent yet.
async fn queue(pipeline: &Pipeline<Client>, chunk: &Chunk<'_>) -> Result<(), Error> {
    if chunk.operation == BatchOperation::MsetExpire {
        let _: () = pipeline.mset(pairs(chunk.items)).await?;
    }
    for item in chunk.items {
        let key = item.key.as_str();
        let queued: Result<(), Error> = match chunk.operation {
            BatchOperation::SetExpire => {
                let expiry = Some(Expiration::EXAT(chunk.expires_at));
                pipeline.set(key, item.value.clone(), expiry, None, false).await
            }
            _ => pipeline.expire_at(key, chunk.expires_at, None).await,
        };
        queued?;
    }
    Ok(())
}

fn pairs(items: &[Item]) -> Vec<(Key, Value)> {
    items.iter().map(|item| (Key::from(item.key.as_str()), Value::Bytes(item.value.clone()))).collect()
}

/// The answer of a chunk, out of the reply to each of its commands.
fn answered(chunk: &Chunk<'_>, replies: Vec<Result<Value, Error>>) -> Result<Answer, LibraryError> {
    let (mut errors, mut hits) = (Vec::new(), 0);
    for reply in replies {
        match reply {
            Ok(Value::Array(values)) => hits += values.iter().filter(|value| !value.is_null()).count() as u64,
            Ok(_) => {}
            Err(error) => errors.push(server_error(error)?),
        }
    }
    Ok(chunk.answer(errors, hits))
}

/// The server's error message; any other error breaks the run.
fn server_error(error: Error) -> Result<String, LibraryError> {
    // fred sorts error replies under these kinds, and all others under Unknown.
    let of_the_server = matches!(
        error.kind(),
        ErrorKind::Unknown
            | ErrorKind::InvalidArgument
            | ErrorKind::InvalidCommand
            | ErrorKind::Auth
            | ErrorKind::Cluster
            | ErrorKind::NotFound
    );
    if of_the_server { Ok(error.details().to_owned()) } else { Err(LibraryError::LoseFred(error)) }
}
