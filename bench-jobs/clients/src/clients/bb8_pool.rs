//! The `redis` crate behind a `bb8` pool: every request takes a connection out
//! of the pool and puts it back, so that a connection serves one request at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use redis::aio::MultiplexedConnection;
use redis::{Cmd, RedisError};

use crate::clients::error::LibraryError;
use crate::clients::loss::Losses;
use crate::clients::redis_client::Dialer;
use crate::plan::LibraryPlan;
use dragstrip_loadgen::configuration::Configuration;

/// What a pool does besides the requests.
#[derive(Clone, Debug)]
pub(crate) struct PoolWatch {
    /// PINGs by which it checked a connection before it handed it out (bb8's
    /// default); the server counts them too.
    pub(crate) pings: Arc<AtomicU64>,
    /// Connections that broke in the pool's hands. They would be replaced
    /// silently, and a run whose server went away would go on.
    pub(crate) losses: Losses,
}

impl bb8::ErrorSink<RedisError> for PoolWatch {
    fn sink(&self, error: RedisError) {
        self.losses.note(LibraryError::LoseRedis(error));
    }

    fn boxed_clone(&self) -> Box<dyn bb8::ErrorSink<RedisError>> {
        Box::new(self.clone())
    }
}

/// Does what the manager of the bb8-redis crate does, and counts its checks.
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

/// A pool that holds all its connections from the beginning.
pub(crate) async fn connect(
    configuration: &Configuration,
    plan: &LibraryPlan,
    watch: &PoolWatch,
) -> Result<bb8::Pool<CountingManager>, LibraryError> {
    let dialer = Dialer::new(configuration)?;
    let size = u32::try_from(plan.pool_size).unwrap_or(u32::MAX);
    let pool = bb8::Pool::builder()
        .max_size(size)
        .min_idle(size)
        .retry_connection(false)
        .connection_timeout(configuration.response_timeout)
        .error_sink(Box::new(watch.clone()))
        .build(CountingManager { dialer, pings: Arc::clone(&watch.pings) });
    pool.await.map_err(LibraryError::ConnectRedis)
}
