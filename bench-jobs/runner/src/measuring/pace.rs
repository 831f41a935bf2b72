//! How often something may be sampled, so that it never takes more than its
//! share of a core. Reads the calling thread's own CPU time.

use nix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// Sampling may take one of so many parts of a core: a third of a percent.
const SHARES: u32 = 300;

/// Does `work` and returns how long to wait until it may be done again: `shortest`, or
/// as long as the CPU time that it took demands.
pub fn paced<T>(shortest: Duration, work: impl FnOnce() -> T) -> (T, Duration) {
    let before = thread_cpu();
    let done = work();
    (done, shortest.max(thread_cpu().saturating_sub(before) * SHARES))
}

/// CPU time of this thread, to the nanosecond, without what the CPU did for others. The kernel has this clock for every thread.
fn thread_cpu() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cheap_work_repeats_at_its_pace_and_expensive_work_waits() {
        let shortest = Duration::from_millis(250);
        assert_eq!(paced(shortest, || 7), (7, shortest));
        let busy = || {
            let begun = thread_cpu();
            while thread_cpu() < begun + Duration::from_millis(4) {}
        };
        let ((), wait) = paced(shortest, busy);
        assert!(wait >= Duration::from_secs(1), "4 ms of CPU may come once a second, not after {wait:?}");
    }
}
