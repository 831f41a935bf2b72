//! Watches the running tool: when its load threads worked, whether it must be
//! ended, and whether somebody asked the pod to stop. Touches the tool's
//! process and /proc.

use crate::{
    activity::{self, Activity},
    clock,
    process::{Listener, Tool},
    stop::Stop,
    tool::{Exit, Launch},
};
use std::{io, os::unix::process::ExitStatusExt as _, process::ExitStatus, time::Duration};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval, sleep_until};

/// How often the load threads' CPU times are read.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(20);
/// How often until one is seen to work, since the load begins then.
const FIRST_SAMPLES_INTERVAL: Duration = Duration::from_millis(2);
/// How long that goes on: a tool may have no such threads.
const FIRST_SAMPLES: Duration = Duration::from_secs(1);
/// Stands for "never": further than any run lasts.
const FAR: Duration = Duration::from_secs(365 * 24 * 3600);

/// What was seen.
#[derive(Debug, Clone, Copy)]
pub struct Watched {
    /// How the tool ended.
    pub exit: Exit,
    /// From its start to its end.
    pub wall: Duration,
    /// From the start line to the first work of a load thread; zero where none
    /// was ever seen to work.
    pub began: Duration,
    /// From the start line to the last work of a load thread; to the tool's
    /// end where no load thread was ever seen to work.
    pub active: Duration,
}

/// Returns when the tool has ended, by itself or not. `line` is the start line
/// in nanoseconds of Unix time, `watchdog` the longest time after it: then the
/// tool is asked to end, and killed when it does not within its grace.
pub async fn watch<L: Listener>(
    tool: &mut Tool<L>,
    launch: &Launch,
    line: i64,
    watchdog: Duration,
    stop: &Stop,
) -> io::Result<Watched> {
    let started = Instant::now();
    let late = Duration::from_nanos(u64::try_from(clock::unix_nanos().saturating_sub(line)).unwrap_or(0));
    let line = started.checked_sub(late).unwrap_or(started) + clock::until(line);
    let mut activity = Activity::default();
    let mut samples = every(FIRST_SAMPLES_INTERVAL);
    let mut fate = Fate { interrupted: false, watchdog: false };
    let (mut watchdog_at, mut kill_at) = (line + watchdog.min(FAR), started + FAR);
    let status = loop {
        tokio::select! {
            status = tool.ended() => break status?,
            _ = samples.tick() => {
                activity.note(&activity::load_threads(tool.id()), line.elapsed());
                let known = activity.growth().is_some() || started.elapsed() > FIRST_SAMPLES;
                if known && samples.period() == FIRST_SAMPLES_INTERVAL {
                    samples = every(SAMPLE_INTERVAL);
                }
            }
            () = stop.requested(), if !fate.interrupted => {
                fate.interrupted = true;
                kill_at = Instant::now() + launch.stop_grace;
                tool.ask_to_stop(launch.stop_signal);
            }
            () = sleep_until(kill_at) => {
                kill_at = started + FAR;
                tool.kill();
            }
            () = sleep_until(watchdog_at) => {
                fate.watchdog = true;
                watchdog_at = started + FAR;
                // What it writes when it is asked says why it did not end.
                kill_at = Instant::now() + launch.stop_grace;
                tool.ask_to_stop(launch.stop_signal);
            }
        }
    };
    let (began, active) = activity.growth().unwrap_or_else(|| (Duration::ZERO, line.elapsed()));
    Ok(Watched { exit: fate.exit(status), wall: started.elapsed(), began, active })
}

fn every(period: Duration) -> Interval {
    let mut samples = interval(period);
    samples.set_missed_tick_behavior(MissedTickBehavior::Skip);
    samples
}

/// What the runner did to the tool.
struct Fate {
    interrupted: bool,
    watchdog: bool,
}

impl Fate {
    fn exit(&self, status: ExitStatus) -> Exit {
        Exit {
            code: status.code(),
            signal: status.signal(),
            interrupted: self.interrupted,
            watchdog: self.watchdog,
        }
    }
}
