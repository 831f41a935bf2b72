//! What people see while a local run goes on: a line per step on standard error; on a
//! terminal one that changes while load runs. Touches standard error.

use crate::get::whole;
use dragstrip_crds::units::thousands;
use dragstrip_results::protocol::{RunnerStage, RunnerState};
use std::{
    io::{IsTerminal as _, Write as _},
    time::{Duration, Instant},
};

/// How often progress is told without a terminal.
const PLAIN_INTERVAL: Duration = Duration::from_secs(10);
/// The begin of the line, and nothing on it.
const ANEW: &str = "\r\x1b[2K";

/// Where steps are told.
#[derive(Debug)]
pub struct Screen {
    terminal: bool,
    /// Whether an unfinished line stands there.
    open: bool,
    told: Instant,
}

impl Default for Screen {
    fn default() -> Self {
        Self { terminal: std::io::stderr().is_terminal(), open: false, told: Instant::now() }
    }
}

impl Screen {
    fn write(text: &str) {
        // Nobody has to look.
        let mut stderr = std::io::stderr().lock();
        let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
    }

    /// Tells a step.
    pub fn step(&mut self, text: &str) {
        let begin = if self.open { ANEW } else { "" };
        Self::write(&format!("{begin}{text}\n"));
        (self.open, self.told) = (false, Instant::now());
    }

    /// Tells how a step goes on: at once on a terminal, in place of what stood there, else now and then.
    pub fn progress(&mut self, text: &str) {
        if self.terminal {
            Self::write(&format!("{ANEW}{text}"));
            self.open = true;
        } else if self.told.elapsed() >= PLAIN_INTERVAL {
            self.step(text);
        }
    }
}

/// All runners together at one moment, `rate` in operations per second since the look before. Pure.
pub fn live(states: &[RunnerState], rate: Option<f64>) -> String {
    let Some(slowest) = states.iter().min_by_key(|state| order(state.stage)) else {
        return "the clients start".to_owned();
    };
    let operations: u64 = states.iter().map(|state| state.operations).sum();
    match slowest.stage {
        RunnerStage::Preflight => "the clients look at the server".to_owned(),
        RunnerStage::Loading => format!("{} keys are written", thousands(operations)),
        RunnerStage::WarmingUp => "warms up".to_owned(),
        RunnerStage::AtStartLine | RunnerStage::Armed => "at the start line".to_owned(),
        RunnerStage::Running | RunnerStage::Finished => {
            let p99 = states.iter().filter_map(|state| state.p99_milliseconds).reduce(f64::max);
            let elapsed = states.iter().map(|state| state.elapsed_seconds).fold(0.0, f64::max);
            let p99 = p99.map(|p99| format!("  p99 about {p99:.2} ms")).unwrap_or_default();
            let errors: u64 = states.iter().map(|state| state.errors).sum();
            let errors = if errors > 0 { format!("  {} errors", thousands(errors)) } else { String::new() };
            let rate = rate.map(|rate| format!("  {} ops/s", whole(rate))).unwrap_or_default();
            format!("{elapsed:.0} s{rate}{p99}{errors}")
        }
    }
}

fn order(stage: RunnerStage) -> u8 {
    match stage {
        RunnerStage::Preflight => 0,
        RunnerStage::Loading => 1,
        RunnerStage::WarmingUp => 2,
        RunnerStage::AtStartLine => 3,
        RunnerStage::Armed => 4,
        RunnerStage::Running => 5,
        RunnerStage::Finished => 6,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(stage: RunnerStage, p99: Option<f64>) -> RunnerState {
        RunnerState {
            stage,
            start_at_unix_nanos: None,
            elapsed_seconds: 3.2,
            operations: 1_500,
            errors: 0,
            p99_milliseconds: p99,
        }
    }

    #[test]
    fn the_slowest_client_says_what_all_do_and_the_slowest_p99_counts() {
        let running = [state(RunnerStage::Running, Some(0.3)), state(RunnerStage::Running, Some(0.5))];
        assert_eq!(live(&running, Some(151_234.4)), "3 s  151,234 ops/s  p99 about 0.50 ms");
        let loading = [state(RunnerStage::Running, None), state(RunnerStage::Loading, None)];
        assert_eq!(live(&loading, None), "3,000 keys are written");
        assert_eq!(live(&[], None), "the clients start");
    }
}
