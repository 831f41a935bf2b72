//! The progress of a measurement in one line. Pure.

use crate::output::figures;
use dragstrip_crds::units::thousands;
use dragstrip_results::protocol::{RunnerStage, RunnerState};

/// All runners together at a moment; `rate` is in operations per second since the last one.
pub fn live(states: &[RunnerState], rate: Option<f64>) -> String {
    let Some(slowest) = states.iter().min_by_key(|state| state.stage) else {
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

/// Operations per second since the last query, and the state to compare the next one with.
pub fn rate(states: &[RunnerState], last: Option<(f64, u64)>) -> (Option<f64>, Option<(f64, u64)>) {
    let elapsed = states.iter().map(|state| state.elapsed_seconds).fold(0.0, f64::max);
    let operations: u64 = states.iter().map(|state| state.operations).sum();
    let (since, before) = last.unwrap_or((0.0, 0));
    let rate = (elapsed > since).then(|| operations.saturating_sub(before) as f64 / (elapsed - since));
    (rate, Some((elapsed, operations)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(stage: RunnerStage, p99: Option<f64>) -> RunnerState {
        RunnerState {
            stage,
            elapsed_seconds: 3.2,
            operations: 1_500,
            p99_milliseconds: p99,
            ..RunnerState::default()
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

    #[test]
    fn the_rate_is_that_of_all_clients_since_the_last_query() {
        let state = |elapsed_seconds: f64, operations: u64| RunnerState {
            elapsed_seconds,
            operations,
            ..state(RunnerStage::Running, None)
        };
        let (first, last) = rate(&[state(1.0, 100), state(0.9, 50)], None);
        assert_eq!(first, Some(150.0));
        let (second, _) = rate(&[state(2.0, 300), state(1.9, 150)], last);
        assert_eq!(second, Some(300.0));
        assert_eq!(rate(&[state(2.0, 300)], Some((2.0, 300))).0, None, "no time has passed");
    }
}
