//! Work that takes long, beside the threads that reconcile and answer probes.

use std::panic::resume_unwind;

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
