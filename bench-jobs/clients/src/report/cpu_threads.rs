//! CPU time of the runtime's threads, from /proc of this process.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use dragstrip_loadgen::counts::report::ThreadCpu;

/// The runtime threads that announced themselves.
#[derive(Debug, Default)]
pub(crate) struct RuntimeThreads {
    /// Directories such as `/proc/self/task/17`.
    directories: Mutex<Vec<PathBuf>>,
}

impl RuntimeThreads {
    /// Remembers the calling thread. Without /proc it stays unknown, which shows in the report.
    pub(crate) fn announce(&self) {
        if let Ok(link) = std::fs::read_link("/proc/thread-self") {
            let directory = PathBuf::from("/proc").join(link);
            self.directories.lock().unwrap_or_else(PoisonError::into_inner).push(directory);
        }
    }

    /// CPU time of each of the first `threads` threads so far; those that cannot be read are left out.
    pub(crate) fn cpu_times(&self, threads: usize) -> Vec<(usize, Duration)> {
        let directories = self.directories.lock().unwrap_or_else(PoisonError::into_inner);
        let read = |(number, directory): (usize, &PathBuf)| Some((number, on_cpu(directory)?));
        directories.iter().take(threads).enumerate().filter_map(read).collect()
    }
}

/// First field of schedstat: nanoseconds spent on a CPU.
fn on_cpu(directory: &std::path::Path) -> Option<Duration> {
    let text = std::fs::read_to_string(directory.join("schedstat")).ok()?;
    text.split_ascii_whitespace().next()?.parse().ok().map(Duration::from_nanos)
}

/// The CPU time used between two readings that were `busy` apart.
pub(crate) fn used(
    before: &[(usize, Duration)],
    after: &[(usize, Duration)],
    busy: Duration,
) -> Vec<ThreadCpu> {
    after
        .iter()
        .map(|&(thread, now)| {
            let earlier = before.iter().find(|(number, _)| *number == thread).map(|(_, time)| *time);
            let cpu_seconds = now.saturating_sub(earlier.unwrap_or_default()).as_secs_f64();
            let share = if busy.is_zero() { 0.0 } else { cpu_seconds / busy.as_secs_f64() };
            ThreadCpu { thread, cpu_seconds, share }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_of_a_thread_shows_as_its_cpu_time() {
        let threads = RuntimeThreads::default();
        threads.announce();
        let before = threads.cpu_times(1);
        let started = std::time::Instant::now();
        let mut sum = 0_u64;
        while started.elapsed() < Duration::from_millis(30) {
            sum = (0..10_000).fold(sum, |sum, number| sum.wrapping_mul(31).wrapping_add(number));
        }
        let used = used(&before, &threads.cpu_times(1), started.elapsed());
        assert_eq!(used.len(), 1, "schedstat of this thread must be readable ({sum})");
        assert!(used[0].cpu_seconds > 0.0 && used[0].share > 0.0, "{used:?}");
    }
}
