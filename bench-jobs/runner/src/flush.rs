//! Empties the target before the load. Touches the network.

use crate::{
    failure::failure,
    job::Assignment,
    preflight::Ready,
    resolve::{self, ResolveError},
    server::{Server, ServerError},
};
use dragstrip_crds::{
    Engine,
    result::{Failure, FailureStep},
};
use std::{net::SocketAddr, time::Duration};
use tokio::time::Instant;

/// How long FLUSHALL may take: a synchronous one walks the whole data set.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(300);
/// How long afterwards keys may still be counted.
const EMPTY_TIMEOUT: Duration = Duration::from_secs(30);

/// A step of emptying the target that failed.
#[derive(Debug, thiserror::Error)]
pub enum FlushError {
    /// A cluster's primary cannot be found.
    #[error("the cluster names a primary {host}:{port}: {source}")]
    Resolve {
        /// The primary's host.
        host: String,
        /// The primary's port.
        port: u16,
        /// Why not.
        source: ResolveError,
    },
    /// The server refused, or was not reached.
    #[error("{address}: {source}. The phase declares flush: true, which needs the right to FLUSHALL")]
    Ask {
        /// The server.
        address: SocketAddr,
        /// What failed.
        source: ServerError,
    },
    /// There are still keys.
    #[error(
        "{address}: {keys} keys are there {} s after FLUSHALL was answered. Check that nobody else writes to the server",
        EMPTY_TIMEOUT.as_secs()
    )]
    NotEmpty {
        /// The server.
        address: SocketAddr,
        /// How many keys.
        keys: u64,
    },
}

impl FlushError {
    /// The same as a result's failure.
    pub fn failure(&self) -> Failure {
        failure(FailureStep::Preflight, self.to_string())
    }
}

/// Deletes all keys of the target, of every primary when it is a cluster, and
/// returns when they are gone.
pub async fn flush(assignment: &Assignment, ready: &Ready) -> Result<(), FlushError> {
    let password = assignment.password.as_deref();
    let addresses = if assignment.job.target.cluster {
        primaries(ready.address, password).await?
    } else {
        vec![ready.address]
    };
    // Garnet counts its keys one by one, and FLUSHALL has answered by then.
    let count_keys = ready.truth.engine != Some(Engine::Garnet);
    for address in addresses {
        flush_one(address, password, count_keys).await?;
    }
    Ok(())
}

async fn flush_one(address: SocketAddr, password: Option<&str>, count_keys: bool) -> Result<(), FlushError> {
    let refused = |source| FlushError::Ask { address, source };
    let mut server = Server::connect(address, password, FLUSH_TIMEOUT).await.map_err(refused)?;
    server.flush_all().await.map_err(refused)?;
    if count_keys { wait_until_empty(&mut server, address).await } else { Ok(()) }
}

async fn wait_until_empty(server: &mut Server, address: SocketAddr) -> Result<(), FlushError> {
    let deadline = Instant::now() + EMPTY_TIMEOUT;
    loop {
        let keys = server.key_count().await.map_err(|source| FlushError::Ask { address, source })?;
        if keys == 0 {
            return Ok(());
        }
        if Instant::now() >= deadline {
            return Err(FlushError::NotEmpty { address, keys });
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn primaries(seed: SocketAddr, password: Option<&str>) -> Result<Vec<SocketAddr>, FlushError> {
    let refused = |source| FlushError::Ask { address: seed, source };
    let mut server = Server::connect(seed, password, FLUSH_TIMEOUT).await.map_err(refused)?;
    let mut addresses = Vec::new();
    for (host, port) in server.cluster_primaries().await.map_err(refused)? {
        // A node that does not know its own name is the one that was asked.
        let host = if host.is_empty() { seed.ip().to_string() } else { host };
        let found = resolve::resolve(&host, port).await;
        let found = found.map_err(|source| FlushError::Resolve { host, port, source })?;
        addresses.extend(found.first());
    }
    Ok(addresses)
}
