//! Ties the monotonic clock, which measures, to the wall clock, which names
//! instants that other processes understand, and waits for instants.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::time::sleep_until;

/// Timers of the runtime are good to a millisecond; the rest before an instant is slept more finely.
const COARSE_WAIT_MARGIN: Duration = Duration::from_millis(2);
/// A thread sleeps until this long before an instant and spins from there.
const FINE_WAIT_MARGIN: Duration = Duration::from_micros(150);

/// One instant read on both clocks. All conversions go through it, so that a
/// step of the wall clock during the run changes no measured time.
#[derive(Clone, Copy, Debug)]
pub struct ClockAnchor {
    instant: Instant,
    unix_nanos: u64,
}

impl ClockAnchor {
    pub fn now() -> Self {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { instant: Instant::now(), unix_nanos: whole_nanos(since_epoch) }
    }

    pub fn instant(self) -> Instant {
        self.instant
    }

    pub fn unix_nanos_at(self, instant: Instant) -> u64 {
        let after = whole_nanos(instant.saturating_duration_since(self.instant));
        let before = whole_nanos(self.instant.saturating_duration_since(instant));
        self.unix_nanos.saturating_add(after).saturating_sub(before)
    }

    /// The start line: the wanted wall time, or the anchor if none is wanted.
    pub fn line(self, wanted: Option<u64>) -> Instant {
        wanted.and_then(|unix_nanos| self.instant_at(unix_nanos)).unwrap_or(self.instant)
    }

    /// The instant of a wall time, unless the monotonic clock cannot express it.
    fn instant_at(self, unix_nanos: u64) -> Option<Instant> {
        if unix_nanos >= self.unix_nanos {
            self.instant.checked_add(Duration::from_nanos(unix_nanos - self.unix_nanos))
        } else {
            self.instant.checked_sub(Duration::from_nanos(self.unix_nanos - unix_nanos))
        }
    }
}

/// Waits until `instant`, to the microsecond.
pub async fn wait_until(instant: Instant) {
    if let Some(coarse) = instant.checked_sub(COARSE_WAIT_MARGIN) {
        sleep_until(coarse.into()).await;
    }
    let fine = instant.saturating_duration_since(Instant::now()).saturating_sub(FINE_WAIT_MARGIN);
    std::thread::sleep(fine);
    while Instant::now() < instant {
        std::hint::spin_loop();
    }
}

fn whole_nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conversions_are_inverse_in_both_directions() {
        let anchor = ClockAnchor::now();
        for offset in [-1_500_000_001_i64, 0, 2_500_000_003] {
            let wall = anchor.unix_nanos.checked_add_signed(offset).unwrap();
            let instant = anchor.instant_at(wall).unwrap();
            assert_eq!(anchor.unix_nanos_at(instant), wall);
        }
    }
}
