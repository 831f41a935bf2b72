//! One task's hold on a client library, whichever it is.

use redis::aio::{ConnectionManager, MultiplexedConnection};
use redis::cluster_async::ClusterConnection;

use crate::clients::bb8_pool::CountingManager;
use crate::clients::error::LibraryError;
use crate::clients::fred_client::FredLink;
use crate::clients::redis_client::{self, Encoded};
use crate::clients::request::{Answer, Chunk, Reply, Request};

#[derive(Debug)]
pub(crate) struct Prepared<'a> {
    pub(crate) chunk: Chunk<'a>,
    /// As far as redis-rs encodes before sending; fred encodes while it sends.
    encoded: Option<Encoded>,
}

/// One task's hold on a client library; clones share its connections.
#[derive(Clone)]
pub(crate) enum Link {
    Multiplexed(MultiplexedConnection),
    Manager(ConnectionManager),
    Cluster(ClusterConnection),
    Pool(bb8::Pool<CountingManager>),
    Fred(FredLink),
}

impl Link {
    pub(crate) async fn request(&mut self, request: Request<'_>) -> Result<Reply, LibraryError> {
        match self {
            Self::Multiplexed(connection) => redis_client::request(connection, request).await,
            Self::Manager(connection) => redis_client::request(connection, request).await,
            Self::Cluster(connection) => redis_client::request(connection, request).await,
            Self::Pool(pool) => redis_client::request(&mut *pool.get().await?, request).await,
            Self::Fred(link) => link.request(request).await,
        }
    }

    pub(crate) fn prepare<'a>(&self, chunk: Chunk<'a>) -> Prepared<'a> {
        let encoded = (!matches!(self, Self::Fred(_))).then(|| redis_client::encode(&chunk));
        Prepared { chunk, encoded }
    }

    /// Sends a chunk and awaits all its replies.
    pub(crate) async fn send(&mut self, prepared: Prepared<'_>) -> Result<Answer, LibraryError> {
        let Prepared { chunk, encoded } = prepared;
        let encoded = || encoded.unwrap_or_else(|| redis_client::encode(&chunk));
        match self {
            Self::Multiplexed(connection) => redis_client::send(connection, &chunk, &encoded()).await,
            Self::Manager(connection) => redis_client::send(connection, &chunk, &encoded()).await,
            Self::Cluster(connection) => redis_client::send(connection, &chunk, &encoded()).await,
            Self::Pool(pool) => redis_client::send(&mut *pool.get().await?, &chunk, &encoded()).await,
            Self::Fred(link) => link.send(&chunk).await,
        }
    }
}
