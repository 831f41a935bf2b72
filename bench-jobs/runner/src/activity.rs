//! When the tool's load threads worked: their CPU time, sampled from
//! /proc/PID/task. Main threads do not count: memtier's only polls once a second
//! for the end, and a script's waits for the tool that it started.

use std::{collections::HashMap, fs, time::Duration};

/// A thread's id and its CPU time in nanoseconds.
pub type ThreadTime = (i32, u64);

/// Finds the first and the last sample in which a load thread's CPU time grew. Pure.
#[derive(Debug, Default)]
pub struct Activity {
    seen: HashMap<i32, u64>,
    growth: Option<(Duration, Duration)>,
}

impl Activity {
    /// Takes in the CPU times of all load threads `at` some time after the start line.
    pub fn note(&mut self, threads: &[ThreadTime], at: Duration) {
        let mut grew = false;
        for (id, nanos) in threads {
            let before = self.seen.insert(*id, *nanos).unwrap_or_default();
            grew |= *nanos > before;
        }
        if grew {
            self.growth = Some((self.growth.map_or(at, |(first, _)| first), at));
        }
    }

    /// When a load thread first worked, and when one last did; `None` when none
    /// was ever seen to.
    pub fn growth(&self) -> Option<(Duration, Duration)> {
        self.growth
    }
}

/// The CPU times of the threads of a process and of those it started, without
/// their main ones; empty when they are gone or the kernel keeps no such statistics.
pub fn load_threads(process: i32) -> Vec<ThreadTime> {
    let mut processes = vec![process];
    let mut threads = Vec::new();
    while let Some(process) = processes.pop() {
        threads.extend(threads_of(process));
        // A script starts the tool from its only thread.
        let children = fs::read_to_string(format!("/proc/{process}/task/{process}/children"));
        processes.extend(children.unwrap_or_default().split_whitespace().flat_map(str::parse::<i32>));
    }
    threads
}

fn threads_of(process: i32) -> Vec<ThreadTime> {
    let Ok(tasks) = fs::read_dir(format!("/proc/{process}/task")) else {
        return Vec::new();
    };
    tasks
        .filter_map(|task| task.ok()?.file_name().to_str()?.parse::<i32>().ok())
        .filter(|id| *id != process)
        .filter_map(|id| {
            let text = fs::read_to_string(format!("/proc/{process}/task/{id}/schedstat")).ok()?;
            Some((id, text.split_whitespace().next()?.parse().ok()?))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_and_the_last_growth_of_any_thread_count() {
        let mut activity = Activity::default();
        let at = Duration::from_millis;
        activity.note(&[], at(0));
        assert_eq!(activity.growth(), None);
        activity.note(&[(7, 10), (8, 0)], at(20));
        activity.note(&[(7, 10), (8, 5)], at(40));
        activity.note(&[(7, 10), (8, 5)], at(60));
        activity.note(&[(8, 5)], at(80));
        assert_eq!(activity.growth(), Some((at(20), at(40))));
        activity.note(&[(9, 1)], at(100));
        assert_eq!(activity.growth(), Some((at(20), at(100))));
    }

    #[test]
    fn own_threads_are_seen_without_the_main_one() {
        let own = i32::try_from(std::process::id()).unwrap();
        let worker = std::thread::spawn(move || load_threads(own)).join().unwrap();
        assert!(!worker.is_empty());
        assert!(worker.iter().all(|(id, _)| *id != own));
    }
}
