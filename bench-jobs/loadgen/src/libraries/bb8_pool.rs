//! The `redis` crate behind a `bb8` pool: every request takes a connection out
//! of the pool and puts it back, so a connection serves one request at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use redis::aio::MultiplexedConnection;
use redis::{Cmd, RedisError};

use crate::configuration::Configuration;
use crate::libraries::counters::Answer;
use crate::libraries::error::LibraryError;
use crate::libraries::link::{Chunk, Reply, Request};
use crate::libraries::plan::LibraryPlan;
use crate::libraries::redis_client::{self, Dialer, Encoded};

/// Does what the manager of the bb8-redis crate does; besides, it counts the
/// PINGs by which the pool checks a connection before it hands it out (bb8's
/// default), since the server counts them too.
#[derive(Debug)]
pub(crate) struct CountingManager {
    dialer: Dialer,
    pings: Arc<AtomicU64>,
}

impl bb8::ManageConnection for CountingManager {
    type Connection = MultiplexedConnection;
    type Error = RedisError;

    async fn connect(&self) -> Result<Self::Connection, Self::Error> {
        self.dialer.multiplexed().await
    }

    async fn is_valid(&self, connection: &mut Self::Connection) -> Result<(), Self::Error> {
        Cmd::ping().exec_async(connection).await?;
        self.pings.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn has_broken(&self, _connection: &mut Self::Connection) -> bool {
        false
    }
}

/// The pool; clones share it.
#[derive(Clone, Debug)]
pub(crate) struct PooledConnections {
    pool: bb8::Pool<CountingManager>,
}

impl PooledConnections {
    /// A pool that holds all its connections from the beginning.
    pub(crate) async fn connect(
        configuration: &Configuration,
        plan: &LibraryPlan,
        pings: &Arc<AtomicU64>,
    ) -> Result<Self, LibraryError> {
        let dialer = Dialer::new(configuration)?;
        let size = u32::try_from(plan.pool_size).unwrap_or(u32::MAX);
        let pool = bb8::Pool::builder()
            .max_size(size)
            .min_idle(size)
            .retry_connection(false)
            .connection_timeout(configuration.response_timeout)
            .build(CountingManager { dialer, pings: Arc::clone(pings) })
            .await
            .map_err(LibraryError::FillPool)?;
        Ok(Self { pool })
    }

    pub(crate) async fn ask(&self, request: Request<'_>) -> Result<Reply, LibraryError> {
        let mut connection = self.pool.get().await.map_err(LibraryError::TakeFromPool)?;
        redis_client::ask(&mut *connection, request).await
    }

    pub(crate) async fn send(&self, chunk: &Chunk<'_>, encoded: &Encoded) -> Result<Answer, LibraryError> {
        let mut connection = self.pool.get().await.map_err(LibraryError::TakeFromPool)?;
        redis_client::send(&mut *connection, chunk, encoded).await
    }
}
