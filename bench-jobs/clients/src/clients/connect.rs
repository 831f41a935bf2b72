//! Makes the connections of a run, whichever library it uses.

use std::time::Duration;

use tokio::time::timeout;

use crate::clients::bb8_pool::{self, PoolWatch};
use crate::clients::error::LibraryError;
use crate::clients::fred_client;
use crate::clients::link::Link;
use crate::clients::loss::Losses;
use crate::clients::redis_client::Dialer;
use crate::plan::{Library, LibraryPlan};
use dragstrip_crds::workload::ConnectionKind;
use dragstrip_loadgen::configuration::Configuration;

/// Connects `plan.pool_size` times in turn; a pool is one link. `watch` sees the library's own connects.
pub(crate) async fn connect(
    configuration: &Configuration,
    plan: &LibraryPlan,
    watch: &PoolWatch,
) -> Result<Vec<Link>, LibraryError> {
    let limit = configuration.connect_timeout;
    let mut links = Vec::with_capacity(plan.pool_size);
    match plan.library {
        Library::Bb8Redis => {
            links.push(Link::Pool(within(limit, bb8_pool::connect(configuration, plan, watch)).await?));
        }
        Library::RedisRs(kind) => {
            let dialer = Dialer::new(configuration)?;
            for _ in 0..plan.pool_size {
                links.push(within(limit, redis_link(&dialer, kind, &watch.losses)).await?);
            }
        }
        Library::Fred => {
            let dialer = fred_client::Dialer::new(configuration)?;
            for _ in 0..plan.pool_size {
                links.push(Link::Fred(within(limit, dialer.connect(&watch.losses)).await?));
            }
        }
    }
    Ok(links)
}

async fn redis_link(dialer: &Dialer, kind: ConnectionKind, losses: &Losses) -> Result<Link, LibraryError> {
    let link = match (&dialer.cluster, kind) {
        (Some(cluster), _) => cluster.get_async_connection().await.map(Link::Cluster),
        (None, ConnectionKind::Multiplexed) => dialer.multiplexed().await.map(Link::Multiplexed),
        (None, ConnectionKind::ConnectionManager) => dialer.manager(losses).await.map(Link::Manager),
    };
    link.map_err(LibraryError::ConnectRedis)
}

async fn within<T>(
    limit: Duration,
    connecting: impl Future<Output = Result<T, LibraryError>>,
) -> Result<T, LibraryError> {
    timeout(limit, connecting).await.unwrap_or(Err(LibraryError::ConnectTimeout(limit.as_secs_f64())))
}
