//! The progress of a local run: a line per step, and on a terminal a line that changes while
//! load runs. Touches standard error.

use crate::output::{block::CLEAR_LINE, figures};
use dragstrip_crds::units::thousands;
use dragstrip_results::protocol::{RunnerStage, RunnerState};
use std::{
    io::{IsTerminal as _, Write as _},
    time::{Duration, Instant},
};

/// How often progress is printed where there is no terminal.
const PLAIN_INTERVAL: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub struct Screen {
    terminal: bool,
    /// Whether the cursor is in an unfinished line.
    open: bool,
    printed: Instant,
}

impl Default for Screen {
    fn default() -> Self {
        Self { terminal: std::io::stderr().is_terminal(), open: false, printed: Instant::now() }
    }
}

impl Screen {
    fn write(text: &str) {
        // A closed standard error is no reason to fail.
        let mut stderr = std::io::stderr().lock();
        let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
    }

    pub fn step(&mut self, text: &str) {
        let begin = if self.open { CLEAR_LINE } else { "" };
        Self::write(&format!("{begin}{text}\n"));
        (self.open, self.printed) = (false, Instant::now());
    }

    /// Prints the progress of a step: at once on a terminal, replacing the last one, elsewhere rarely.
    pub fn progress(&mut self, text: &str) {
        if self.terminal {
            Self::write(&format!("{CLEAR_LINE}{text}"));
            self.open = true;
        } else if self.printed.elapsed() >= PLAIN_INTERVAL {
            self.step(text);
        }
    }
}

/// All runners together at a moment; `rate` is in operations per second since the last one. Pure.
pub fn live(states: &[RunnerState], rate: Option<f64>) -> String {
    let Some(slowest) = states.iter().min_by_key(|state| rank(state.stage)) else {
        return "clients are starting".to_owned();
    };
    let operations: u64 = states.iter().map(|state| state.operations).sum();
    match slowest.stage {
        RunnerStage::Preflight => "clients are checking the server".to_owned(),
        RunnerStage::Loading => format!("{} keys written", thousands(operations)),
        RunnerStage::WarmingUp => "warming up".to_owned(),
        RunnerStage::AtStartLine | RunnerStage::Armed => "at the start line".to_owned(),
        RunnerStage::Running | RunnerStage::Finished => {
            let p99 = states.iter().filter_map(|state| state.p99_milliseconds).reduce(f64::max);
            let elapsed = states.iter().map(|state| state.elapsed_seconds).fold(0.0, f64::max);
            let p99 = p99.map(|p99| format!("  p99 about {p99:.2} ms")).unwrap_or_default();
            let errors: u64 = states.iter().map(|state| state.errors).sum();
            let errors = if errors > 0 { format!("  {} errors", thousands(errors)) } else { String::new() };
            let rate = rate.map(|rate| format!("  {} ops/s", figures::rate(rate))).unwrap_or_default();
            format!("{elapsed:.0} s{rate}{p99}{errors}")
        }
    }
}

fn rank(stage: RunnerStage) -> u8 {
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
    fn the_slowest_stage_and_the_slowest_p99_are_shown() {
        let running = [state(RunnerStage::Running, Some(0.3)), state(RunnerStage::Running, Some(0.5))];
        assert_eq!(live(&running, Some(151_234.4)), "3 s  151,234 ops/s  p99 about 0.50 ms");
        let loading = [state(RunnerStage::Running, None), state(RunnerStage::Loading, None)];
        assert_eq!(live(&loading, None), "3,000 keys written");
        assert_eq!(live(&[], None), "clients are starting");
    }
}
