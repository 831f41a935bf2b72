//! CPU time used by this process and by single threads, and its limit of open
//! files. Reads and sets only what belongs to this process.

use std::time::Duration;

use nix::sys::resource::{Resource, UsageWho, getrlimit, getrusage, setrlimit};
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

/// CPU time in user and kernel mode.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct CpuTime {
    /// User mode.
    pub user: Duration,
    /// Kernel mode.
    pub system: Duration,
}

impl CpuTime {
    /// Time used by all threads of the process so far.
    pub fn of_process() -> Self {
        Self::of(UsageWho::RUSAGE_SELF)
    }

    /// Time used by the calling thread so far.
    pub(crate) fn of_thread() -> Self {
        Self::of(UsageWho::RUSAGE_THREAD)
    }

    /// What was used since an `earlier` reading.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            user: self.user.saturating_sub(earlier.user),
            system: self.system.saturating_sub(earlier.system),
        }
    }

    pub(crate) fn total(self) -> Duration {
        self.user + self.system
    }

    /// The call cannot fail for one's own process on Linux; zero would show.
    fn of(who: UsageWho) -> Self {
        getrusage(who).map_or_else(
            |_| Self::default(),
            |usage| Self { user: duration(usage.user_time()), system: duration(usage.system_time()) },
        )
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

    #[test]
    fn work_shows_as_cpu_time_of_the_thread_and_the_process() {
        let (process, thread) = (CpuTime::of_process(), CpuTime::of_thread());
        let mut sum = 0_u64;
        let deadline = std::time::Instant::now() + Duration::from_secs(4);
        while CpuTime::of_thread().since(thread).total() < Duration::from_millis(20) {
            assert!(std::time::Instant::now() < deadline, "no CPU time was counted ({sum})");
            sum = (0..10_000).fold(sum, |sum, number| sum.wrapping_mul(31).wrapping_add(number));
        }
        assert!(CpuTime::of_process().since(process).total() >= Duration::from_millis(20));
    }

    #[test]
    fn an_impossible_number_of_files_is_refused() {
        assert!(allow_open_files(1).is_ok());
        let refused = allow_open_files(1 << 40).unwrap_err();
        assert!(matches!(refused, LimitError::LimitTooLow { .. } | LimitError::RaiseLimit { .. }));
    }
}
