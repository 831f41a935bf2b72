//! Work that takes long, beside the threads that reconcile and answer probes.

use std::panic::resume_unwind;
use tokio::runtime::{Handle, RuntimeFlavor};

/// Waits for `work` on a thread of its own. A panic in it is one of the caller.
pub async fn off_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => resume_unwind(panic),
            // The process ends.
            Err(_) => std::future::pending().await,
        },
    }
}

/// Does `work` that borrows from its caller; other tasks of this thread continue on another.
pub fn in_place<T>(work: impl FnOnce() -> T) -> T {
    match Handle::current().runtime_flavor() {
        RuntimeFlavor::MultiThread => tokio::task::block_in_place(work),
        _ => work(),
    }
}
