//! What the runtime's threads used of CPUs, from /proc of this process.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use dragstrip_loadgen::driver::ScheduleTimes;
use dragstrip_results::usage::ThreadUsage;

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

    /// The times of each of the first `threads` threads so far; those that cannot be read are left out.
    pub(crate) fn cpu_times(&self, threads: usize) -> Vec<(usize, ScheduleTimes)> {
        let directories = self.directories.lock().unwrap_or_else(PoisonError::into_inner);
        let read = |(number, directory): (usize, &PathBuf)| Some((number, schedule_times(directory)?));
        directories.iter().take(threads).enumerate().filter_map(read).collect()
    }
}

fn schedule_times(directory: &std::path::Path) -> Option<ScheduleTimes> {
    ScheduleTimes::parse(&std::fs::read_to_string(directory.join("schedstat")).ok()?)
}

pub(crate) fn used(before: &[(usize, ScheduleTimes)], after: &[(usize, ScheduleTimes)]) -> Vec<ThreadUsage> {
    after
        .iter()
        .map(|&(thread, now)| {
            let earlier = before.iter().find(|(number, _)| *number == thread).map(|(_, times)| *times);
            now.since(earlier.unwrap_or_default()).usage(thread)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn only_what_was_used_between_the_readings_counts() {
        let times = |running, waiting| ScheduleTimes {
            running: Duration::from_millis(running),
            waiting: Duration::from_millis(waiting),
        };
        let used = used(&[(1, times(500, 40))], &[(1, times(900, 140))]);
        let near = |one: f64, other: f64| (one - other).abs() < 1e-9;
        assert!(near(used[0].cpu_seconds, 0.4) && near(used[0].waiting_seconds, 0.1), "{used:?}");
    }

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
        let used = used(&before, &threads.cpu_times(1));
        assert_eq!(used.len(), 1, "schedstat of this thread must be readable ({sum})");
        assert!(used[0].cpu_seconds > 0.0, "{used:?}");
    }
}
