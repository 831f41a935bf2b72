//! Makes the connections of a run, whichever library it uses.

use std::time::Duration;

use tokio::time::timeout;

use crate::clients::bb8_pool::{PoolWatch, PooledConnections};
use crate::clients::error::LibraryError;
use crate::clients::fred_client;
use crate::clients::link::Link;
use crate::clients::redis_client;
use crate::plan::{Library, LibraryPlan};
use dragstrip_loadgen::configuration::Configuration;

/// The connections of a run; never none.
#[derive(Debug)]
pub(crate) struct Links {
    first: Link,
    others: Vec<Link>,
}

impl Links {
    /// Connects `plan.pool_size` times, one after the other. `watch` sees
    /// what a library does by itself.
    pub(crate) async fn connect(
        configuration: &Configuration,
        plan: &LibraryPlan,
        watch: &PoolWatch,
    ) -> Result<Self, LibraryError> {
        let limit = configuration.connect_timeout;
        match plan.library {
            Library::Bb8Redis => {
                let pool = within(limit, PooledConnections::connect(configuration, plan, watch)).await?;
                Ok(Self { first: Link::Bb8(pool), others: Vec::new() })
            }
            Library::RedisRs(kind) => {
                let dialer = redis_client::Dialer::new(configuration)?;
                let first = Link::RedisRs(within(limit, dialer.connect(kind, &watch.losses)).await?);
                let mut others = Vec::new();
                for _ in 1..plan.pool_size {
                    others.push(Link::RedisRs(within(limit, dialer.connect(kind, &watch.losses)).await?));
                }
                Ok(Self { first, others })
            }
            Library::Fred => {
                let dialer = fred_client::Dialer::new(configuration)?;
                let first = Link::Fred(within(limit, dialer.connect(&watch.losses)).await?);
                let mut others = Vec::new();
                for _ in 1..plan.pool_size {
                    others.push(Link::Fred(within(limit, dialer.connect(&watch.losses)).await?));
                }
                Ok(Self { first, others })
            }
        }
    }

    /// The connection of turn number `turn`: they take turns.
    pub(crate) fn take_turn(&self, turn: usize) -> Link {
        let place = turn % (self.others.len() + 1);
        place.checked_sub(1).and_then(|place| self.others.get(place)).unwrap_or(&self.first).clone()
    }
}

async fn within<T>(
    limit: Duration,
    connecting: impl Future<Output = Result<T, LibraryError>>,
) -> Result<T, LibraryError> {
    let seconds = limit.as_secs_f64();
    timeout(limit, connecting).await.unwrap_or(Err(LibraryError::ConnectTimeout { seconds }))
}
