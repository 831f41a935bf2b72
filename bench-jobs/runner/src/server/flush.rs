//! Empties the target before the load. Touches the network.

use crate::server::{
    access::Access,
    connection::{Server, ServerError},
    preflight::Ready,
};
use dragstrip_crds::Engine;
use std::{net::SocketAddr, time::Duration};
use tokio::time::Instant;

/// How long FLUSHALL may take: a synchronous one walks the complete data set.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(300);
/// How long afterwards keys may still be counted.
const EMPTY_TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Debug, thiserror::Error)]
pub enum FlushError {
    #[error("{address}: {source}. The phase declares flush: true, which needs the right to FLUSHALL")]
    Query { address: SocketAddr, source: ServerError },
    #[error(
        "{address}: {keys} keys are there {} s after FLUSHALL was answered. Check that nobody else writes to the server",
        EMPTY_TIMEOUT.as_secs()
    )]
    NotEmpty { address: SocketAddr, keys: u64 },
}

/// Deletes all keys of the target, of each primary, and returns when they are gone.
pub async fn flush(ready: &Ready) -> Result<(), FlushError> {
    // Garnet counts its keys one by one, and FLUSHALL has answered by then.
    let count_keys = ready.truth.as_ref().is_none_or(|truth| truth.engine != Some(Engine::Garnet));
    for address in ready.primaries() {
        let failed = |source| FlushError::Query { address, source };
        let (mut server, deadline) = flush_one(address, &ready.access).await.map_err(failed)?;
        if !count_keys {
            continue;
        }
        loop {
            let keys = server.key_count().await.map_err(failed)?;
            if keys == 0 {
                break;
            }
            if Instant::now() >= deadline {
                return Err(FlushError::NotEmpty { address, keys });
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    Ok(())
}

/// Deletes the keys of one server; returns until when some may still be counted.
async fn flush_one(address: SocketAddr, access: &Access) -> Result<(Server, Instant), ServerError> {
    let mut server = Server::connect(address, access, FLUSH_TIMEOUT).await?;
    server.command::<()>(&["FLUSHALL", "SYNC"]).await?;
    Ok((server, Instant::now() + EMPTY_TIMEOUT))
}
