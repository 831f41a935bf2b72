//! CPU time of threads, and the limit of open files. Reads and sets only what belongs to this process.

use std::{fs, time::Duration};

use dragstrip_results::usage::ThreadUsage;
use nix::sys::resource::{Resource, Usage, UsageWho, getrlimit, getrusage, setrlimit};
use nix::sys::time::TimeVal;
use thiserror::Error;

/// Files that are open besides the connections: streams, event loops, timers.
const SPARE_FILES: u64 = 64;

/// The process cannot hold all its connections.
#[derive(Debug, Error)]
pub enum LimitError {
    #[error("cannot read the limit of open files: {source}")]
    ReadLimit { source: nix::Error },
    #[error("{needed} open files are needed, the limit is {hard}")]
    LimitTooLow { needed: u64, hard: u64 },
    #[error("cannot raise the limit of open files to {needed}: {source}")]
    RaiseLimit { needed: u64, source: nix::Error },
}

/// The times of a thread by the kernel's scheduler.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ScheduleTimes {
    /// On a CPU, in user and kernel mode.
    pub running: Duration,
    /// Ready to run, without a CPU; zero if the kernel does not report it.
    pub waiting: Duration,
}

impl ScheduleTimes {
    /// The times in a thread's `schedstat`: two numbers of nanoseconds, and how often it ran.
    pub fn parse(text: &str) -> Option<Self> {
        let mut times = text.split_ascii_whitespace().map(|number| number.parse().map(Duration::from_nanos));
        Some(Self { running: times.next()?.ok()?, waiting: times.next()?.ok()? })
    }

    /// Those of the calling thread so far. Its time on a CPU is that of getrusage, which every kernel has.
    pub(crate) fn of_this_thread() -> Self {
        let schedule = fs::read_to_string("/proc/thread-self/schedstat");
        let times = schedule.ok().and_then(|text| Self::parse(&text)).unwrap_or_default();
        let used = |usage: Usage| duration(usage.user_time()) + duration(usage.system_time());
        // The call cannot fail for one's own thread; zero would show.
        Self { running: getrusage(UsageWho::RUSAGE_THREAD).map(used).unwrap_or_default(), ..times }
    }

    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            running: self.running.saturating_sub(earlier.running),
            waiting: self.waiting.saturating_sub(earlier.waiting),
        }
    }

    /// What the load thread of this number used, if these are the times of its window.
    pub fn usage(self, thread: usize) -> ThreadUsage {
        ThreadUsage {
            name: format!("loadgen {thread}"),
            cpu_seconds: self.running.as_secs_f64(),
            waiting_seconds: self.waiting.as_secs_f64(),
        }
    }
}

fn duration(time: TimeVal) -> Duration {
    let seconds = u64::try_from(time.tv_sec()).unwrap_or_default();
    let micros = u64::try_from(time.tv_usec()).unwrap_or_default();
    Duration::from_secs(seconds) + Duration::from_micros(micros)
}

/// Raises the limit of open files for so many connections.
pub fn allow_open_files(connections: usize) -> Result<(), LimitError> {
    let needed = connections as u64 + SPARE_FILES;
    let (soft, hard) =
        getrlimit(Resource::RLIMIT_NOFILE).map_err(|source| LimitError::ReadLimit { source })?;
    if soft >= needed {
        return Ok(());
    }
    if hard < needed {
        return Err(LimitError::LimitTooLow { needed, hard });
    }
    setrlimit(Resource::RLIMIT_NOFILE, needed, hard)
        .map_err(|source| LimitError::RaiseLimit { needed, source })
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::{
        sched::{CpuSet, sched_getaffinity, sched_setaffinity},
        unistd::Pid,
    };

    #[test]
    fn work_shows_as_cpu_time_of_the_thread() {
        let before = ScheduleTimes::of_this_thread();
        let mut sum = 0_u64;
        let deadline = std::time::Instant::now() + Duration::from_secs(4);
        while ScheduleTimes::of_this_thread().since(before).running < Duration::from_millis(20) {
            assert!(std::time::Instant::now() < deadline, "no CPU time was counted ({sum})");
            sum = (0..10_000).fold(sum, |sum, number| sum.wrapping_mul(31).wrapping_add(number));
        }
    }

    #[test]
    fn a_recorded_account_of_the_scheduler_is_read() {
        let times = ScheduleTimes::parse("1038098 1750429 16\n").unwrap();
        assert_eq!(times.running, Duration::from_nanos(1_038_098));
        assert_eq!(times.waiting, Duration::from_nanos(1_750_429));
        assert_eq!(ScheduleTimes::parse("1038098"), None);
    }

    #[test]
    fn threads_that_share_a_cpu_wait_for_it() {
        let used = || {
            let before = ScheduleTimes::of_this_thread();
            let this = Pid::from_raw(0);
            let allowed = sched_getaffinity(this).unwrap();
            let mut only = CpuSet::new();
            only.set((0..CpuSet::count()).find(|cpu| allowed.is_set(*cpu).unwrap()).unwrap()).unwrap();
            sched_setaffinity(this, &only).unwrap();
            let deadline = std::time::Instant::now() + Duration::from_secs(10);
            let since = || ScheduleTimes::of_this_thread().since(before);
            while since().waiting.is_zero() && std::time::Instant::now() < deadline {
                std::hint::spin_loop();
            }
            since()
        };
        let threads: Vec<_> = (0..3).map(|_| std::thread::spawn(used)).collect();
        let used: Vec<ScheduleTimes> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        assert!(used.iter().any(|time| time.waiting > Duration::ZERO), "nobody waited: {used:?}");
    }

    #[test]
    fn an_impossible_number_of_files_is_refused() {
        assert!(allow_open_files(1).is_ok());
        let refused = allow_open_files(1 << 40).unwrap_err();
        assert!(matches!(refused, LimitError::LimitTooLow { .. } | LimitError::RaiseLimit { .. }));
    }
}
