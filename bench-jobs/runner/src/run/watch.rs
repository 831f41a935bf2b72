//! Watches the running tool: when its load threads worked, whether it must be
//! ended, and whether the pod must stop. Touches the tool's process and /proc.

use crate::{
    frame::{clock, stop::Stop},
    measuring::{activity::Activity, pace::paced, threads::Threads},
    tools::{
        adapter::{Exit, Launch},
        process::{ProcessError, Tool},
    },
};
use dragstrip_results::usage::ThreadUsage;
use std::{os::unix::process::ExitStatusExt as _, time::Duration};
use tokio::time::{Instant, sleep_until};

/// How often the load threads' CPU times are read, unless that would cost too much.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(20);
/// How often until one is seen to work, since the load begins then.
const FIRST_SAMPLES_INTERVAL: Duration = Duration::from_millis(2);
/// How long that lasts: a tool may have no such threads.
const FIRST_SAMPLES: Duration = Duration::from_secs(1);
/// Most threads that are sampled: each is an open file.
const MOST_THREADS: usize = 512;
/// Stands for "never": further than any run lasts.
const FAR: Duration = Duration::from_secs(365 * 24 * 3600);

#[derive(Debug, Clone)]
pub struct Watched {
    pub exit: Exit,
    pub wall: Duration,
    /// From the start line to the first work of a load thread; zero if none was seen.
    pub began: Duration,
    /// From the start line to the last work of a load thread; to the tool's
    /// end where no load thread was ever seen to work.
    pub active: Duration,
    /// What its threads used after the start line, the busiest first, if sampled.
    pub threads: Vec<ThreadUsage>,
}

/// Returns when the tool has ended, by itself or not. `line` is the start line
/// in nanoseconds of Unix time, `watchdog` the longest time after it: then the
/// tool gets its stop signal, and is killed when it does not end within its grace. Its threads
/// are `sampled` if it does not report by itself when it loaded.
pub async fn watch(
    tool: &mut Tool,
    launch: &Launch,
    line: i64,
    watchdog: Duration,
    sampled: bool,
    stop: &Stop,
) -> Result<Watched, ProcessError> {
    let started = Instant::now();
    let late = Duration::from_nanos(u64::try_from(clock::unix_nanos().saturating_sub(line)).unwrap_or(0));
    let line = started.checked_sub(late).unwrap_or(started) + clock::until(line);
    let mut samples = Samples::of(tool.id(), started, line);
    let mut exit = Exit { code: None, signal: None, interrupted: false, watchdog: false };
    let (mut watchdog_at, mut kill_at) = (line + watchdog.min(FAR), started + FAR);
    let status = loop {
        tokio::select! {
            status = tool.ended() => break status?,
            () = sleep_until(samples.next), if sampled => samples.take(),
            () = stop.requested(), if !exit.interrupted => {
                exit.interrupted = true;
                kill_at = Instant::now() + launch.stop_grace;
                tool.signal(launch.stop_signal);
            }
            () = sleep_until(kill_at) => {
                kill_at = started + FAR;
                tool.kill();
            }
            () = sleep_until(watchdog_at) => {
                exit.watchdog = true;
                watchdog_at = started + FAR;
                // What it writes on its stop signal shows why it did not end.
                kill_at = Instant::now() + launch.stop_grace;
                tool.signal(launch.stop_signal);
            }
        }
    };
    (exit.code, exit.signal) = (status.code(), status.signal());
    let activity = samples.activity;
    let (began, active) = activity.growth().unwrap_or_else(|| (Duration::ZERO, line.elapsed()));
    let threads = activity.threads();
    Ok(Watched { exit, wall: started.elapsed(), began, active, threads })
}

/// The tool's threads, sampled repeatedly.
struct Samples {
    threads: Threads,
    activity: Activity,
    started: Instant,
    line: Instant,
    next: Instant,
}

impl Samples {
    fn of(process: i32, started: Instant, line: Instant) -> Self {
        let threads = Threads::of(process, MOST_THREADS);
        Self { threads, activity: Activity::default(), started, line, next: started }
    }

    fn take(&mut self) {
        let seen = self.activity.growth().is_some() || self.started.elapsed() > FIRST_SAMPLES;
        let shortest = if seen { SAMPLE_INTERVAL } else { FIRST_SAMPLES_INTERVAL };
        let ((), wait) = paced(shortest, || self.activity.note(self.threads.read(), self.line.elapsed()));
        self.next = Instant::now() + if seen { wait } else { shortest };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, sync::mpsc, thread};

    /// CPU time of this thread in seconds, and how often it was sampled meanwhile.
    fn sampled_for(length: Duration) -> (f64, u32) {
        let used = || -> f64 {
            let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap();
            text.split(' ').next().unwrap().parse::<f64>().unwrap() / 1e9
        };
        let begun = Instant::now();
        let mut samples = Samples::of(i32::try_from(std::process::id()).unwrap(), begun, begun);
        let (before, mut count) = (used(), 0);
        while begun.elapsed() < length {
            thread::sleep(samples.next.saturating_duration_since(Instant::now()));
            samples.take();
            count += 1;
        }
        (used() - before, count)
    }

    #[test]
    fn sampling_64_threads_takes_less_than_half_a_percent_of_a_core() {
        let (end, ended) = mpsc::channel::<()>();
        let ended = std::sync::Arc::new(std::sync::Mutex::new(ended));
        for _ in 0..64 {
            let ended = std::sync::Arc::clone(&ended);
            thread::spawn(move || drop(ended.lock().map(|ended| ended.recv())));
        }
        let length = Duration::from_secs(4);
        let (cpu_seconds, count) = sampled_for(length);
        drop(end);
        let share = cpu_seconds / length.as_secs_f64();
        eprintln!("{:.2} % of a core, sampled {count} times in {length:?}", share * 100.0);
        assert!(share < 0.005, "{:.2} % of a core", share * 100.0);
    }
}
