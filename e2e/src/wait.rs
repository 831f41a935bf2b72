//! Waiting for a condition, with a deadline.

use anyhow::{Result, bail};
use std::time::{Duration, Instant};

/// Between two looks.
pub(crate) const PAUSE: Duration = Duration::from_millis(150);

/// What a look found.
#[derive(Debug)]
pub enum Look<T> {
    /// The condition holds.
    Done(T),
    /// Not yet; this is how things stand.
    NotYet(String),
    /// It never will; this is why.
    Never(String),
}

/// Looks until the condition `what` holds. A look that fails (an apiserver that
/// is down) counts as not yet; the error at the deadline shows what was last seen.
pub async fn until<T>(
    what: &str,
    within: Duration,
    mut look: impl AsyncFnMut() -> Result<Look<T>>,
) -> Result<T> {
    let begun = Instant::now();
    let mut seen = "nothing".to_owned();
    loop {
        let left = within.saturating_sub(begun.elapsed());
        match tokio::time::timeout(left.max(PAUSE), look()).await {
            Ok(Ok(Look::Done(value))) => return Ok(value),
            Ok(Ok(Look::Never(why))) => bail!("awaited: {what}; it will never be: {why}"),
            Ok(Ok(Look::NotYet(state))) => seen = state,
            Ok(Err(error)) => seen = format!("an error: {error:#}"),
            Err(_) => {}
        }
        if begun.elapsed() >= within {
            bail!("timed out after {within:?} while waiting for: {what}; last seen: {seen}");
        }
        tokio::time::sleep(PAUSE).await;
    }
}
