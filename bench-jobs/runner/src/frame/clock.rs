//! Unix time, which pods share, and conversions of lengths of time. Touches the clock.

use std::time::{Duration, SystemTime};

pub fn unix_nanos() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

pub fn seconds(nanos: i64) -> f64 {
    nanos as f64 / 1e9
}

/// A length of time in nanoseconds. Saturates after 292 years.
pub fn nanos(length: Duration) -> i64 {
    i64::try_from(length.as_nanos()).unwrap_or(i64::MAX)
}

/// The time from now until an instant of Unix time; zero when it has passed.
pub fn until(unix_nanos_then: i64) -> Duration {
    let left = unix_nanos_then.saturating_sub(unix_nanos());
    Duration::from_nanos(u64::try_from(left).unwrap_or(0))
}

/// Returns at an instant of Unix time, at once when it has passed.
pub async fn sleep_until(unix_nanos_then: i64) {
    tokio::time::sleep(until(unix_nanos_then)).await;
}
