//! When the tool's load threads worked, and how much, by their sampled CPU times. Main
//! threads do not count for the load's begin and end: memtier's only polls once a
//! second for the end, and a script's waits for the tool that it started. Pure.

use crate::measuring::threads::{Times, busiest};
use dragstrip_results::usage::ThreadUsage;
use std::{collections::HashMap, time::Duration};

const MOST_THREADS: usize = 64;

#[derive(Debug)]
struct Track {
    /// The last reading at or before the start line, of a thread that was there.
    before: Option<Times>,
    last: Times,
}

/// Finds when a load thread's CPU time first and last grew, and what threads used after the start line.
#[derive(Debug, Default)]
pub struct Activity {
    tracks: HashMap<i32, Track>,
    growth: Option<(Duration, Duration)>,
}

impl Activity {
    /// Notes the threads' CPU times `at` a time after the start line; zero before it.
    pub fn note(&mut self, threads: Vec<Times>, at: Duration) {
        let mut grew = false;
        for times in threads {
            let track = self.tracks.remove(&times.id);
            let cpu_before = track.as_ref().map_or(0, |track| track.last.cpu_nanos);
            grew |= !times.main && times.cpu_nanos > cpu_before;
            let before =
                if at.is_zero() { Some(times.clone()) } else { track.and_then(|track| track.before) };
            self.tracks.insert(times.id, Track { before, last: times });
        }
        if grew {
            self.growth = Some((self.growth.map_or(at, |(first, _)| first), at));
        }
    }

    /// When a load thread first and last worked; `None` if none was seen to.
    pub fn growth(&self) -> Option<(Duration, Duration)> {
        self.growth
    }

    /// What each thread used after the start line, ended ones too, the busiest first.
    pub fn threads(&self) -> Vec<ThreadUsage> {
        let used = self.tracks.values().map(|track| track.last.since(track.before.as_ref()));
        busiest(used.filter(|thread| thread.cpu_seconds > 0.0).collect(), MOST_THREADS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(id: i32, cpu_nanos: u64) -> Times {
        Times { id, main: id == 1, name: format!("thread-{id}").into(), cpu_nanos, waiting_nanos: 3 }
    }

    fn at(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    #[test]
    fn the_first_and_the_last_growth_of_any_thread_count() {
        let mut activity = Activity::default();
        activity.note(vec![], at(0));
        assert_eq!(activity.growth(), None);
        activity.note(vec![times(7, 10), times(8, 0)], at(20));
        activity.note(vec![times(7, 10), times(8, 5)], at(40));
        activity.note(vec![times(7, 10), times(8, 5)], at(60));
        activity.note(vec![times(8, 5)], at(80));
        assert_eq!(activity.growth(), Some((at(20), at(40))));
        activity.note(vec![times(9, 1)], at(100));
        assert_eq!(activity.growth(), Some((at(20), at(100))));
    }

    #[test]
    fn main_threads_begin_no_load_but_are_reported() {
        let mut activity = Activity::default();
        activity.note(vec![times(1, 500_000_000)], at(20));
        assert_eq!(activity.growth(), None);
        assert_eq!(activity.threads()[0].name, "thread-1");
    }

    #[test]
    fn a_thread_counts_with_what_it_did_after_the_line() {
        let mut activity = Activity::default();
        let second = 1_000_000_000;
        activity.note(vec![times(7, second), times(8, 2 * second), times(10, second)], at(0));
        activity.note(vec![times(7, 2 * second), times(8, 5 * second), times(10, second)], at(1000));
        // One came, another went, and the third never worked.
        activity.note(vec![times(7, 4 * second), times(9, second), times(10, second)], at(2000));
        let used: Vec<_> =
            activity.threads().into_iter().map(|thread| (thread.name, thread.cpu_seconds)).collect();
        let expected = [("thread-7", 3.0), ("thread-8", 3.0), ("thread-9", 1.0)];
        let mut sorted = used.clone();
        sorted.sort_by(|one, other| one.0.cmp(&other.0));
        assert_eq!(sorted, expected.map(|(name, seconds)| (name.to_owned(), seconds)));
        assert_eq!(used[2].0, "thread-9", "the busiest come first: {used:?}");
    }
}
