//! Empties the target before the load. Touches the network.

use crate::server::{
    access::Access,
    connection::{Server, ServerError},
    preflight::Ready,
};
use dragstrip_crds::Engine;
use std::{net::SocketAddr, time::Duration};
use tokio::time::Instant;

/// How long FLUSHALL may take: a synchronous one walks the whole data set.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(300);
/// How long afterwards keys may still be counted.
const EMPTY_TIMEOUT: Duration = Duration::from_secs(30);

/// A step of emptying the target that failed.
#[derive(Debug, thiserror::Error)]
pub enum FlushError {
    #[error("the phase declares flush: true, but the target does not speak RESP. Leave flush out")]
    Mute,
    #[error("{address}: {source}. The phase declares flush: true, which needs the right to FLUSHALL")]
    Ask { address: SocketAddr, source: ServerError },
    #[error(
        "{address}: {keys} keys are there {} s after FLUSHALL was answered. Check that nobody else writes to the server",
        EMPTY_TIMEOUT.as_secs()
    )]
    NotEmpty { address: SocketAddr, keys: u64 },
}

/// Deletes all keys of the target, of every primary where there are several, and
/// returns when they are gone.
pub async fn flush(ready: &Ready) -> Result<(), FlushError> {
    // Garnet counts its keys one by one, and FLUSHALL has answered by then.
    let engine = ready.truth.as_ref().ok_or(FlushError::Mute)?.engine;
    let count_keys = engine != Some(Engine::Garnet);
    for member in ready.members.iter().filter(|member| !member.replica) {
        flush_one(member.address, &ready.access, count_keys).await?;
    }
    Ok(())
}

async fn flush_one(address: SocketAddr, access: &Access, count_keys: bool) -> Result<(), FlushError> {
    let refused = |source| FlushError::Ask { address, source };
    let mut server = Server::connect(address, access, FLUSH_TIMEOUT).await.map_err(refused)?;
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
