//! One task's hold on a client library, whichever it is.

use crate::clients::bb8_pool::PooledConnections;
use crate::clients::error::LibraryError;
use crate::clients::fred_client::FredLink;
use crate::clients::redis_client::{self, RedisLink};
use crate::clients::request::{Answer, Chunk, Reply, Request};

/// A chunk that is ready to be sent.
#[derive(Debug)]
pub(crate) struct Prepared<'a> {
    pub(crate) chunk: Chunk<'a>,
    /// As far as redis-rs encodes before sending; fred encodes while it sends.
    encoded: Option<redis_client::Encoded>,
}

/// One task's hold on a client library.
#[derive(Clone, Debug)]
pub(crate) enum Link {
    RedisRs(RedisLink),
    Fred(FredLink),
    Bb8(PooledConnections),
}

impl Link {
    /// Sends one request and awaits its reply.
    pub(crate) async fn request(&mut self, request: Request<'_>) -> Result<Reply, LibraryError> {
        match self {
            Self::RedisRs(link) => link.request(request).await,
            Self::Fred(link) => link.request(request).await,
            Self::Bb8(pool) => pool.request(request).await,
        }
    }

    /// Makes a chunk ready to be sent.
    pub(crate) fn prepare<'a>(&self, chunk: Chunk<'a>) -> Prepared<'a> {
        let encoded = match self {
            Self::RedisRs(_) | Self::Bb8(_) => Some(redis_client::encode(&chunk)),
            Self::Fred(_) => None,
        };
        Prepared { chunk, encoded }
    }

    /// Sends a chunk and awaits all its replies.
    pub(crate) async fn send(&mut self, prepared: Prepared<'_>) -> Result<Answer, LibraryError> {
        let Prepared { chunk, encoded } = prepared;
        let encoded = || encoded.unwrap_or_else(|| redis_client::encode(&chunk));
        match self {
            Self::RedisRs(link) => link.send(&chunk, &encoded()).await,
            Self::Bb8(pool) => pool.send(&chunk, &encoded()).await,
            Self::Fred(link) => link.send(&chunk).await,
        }
    }
}
