//! Checks the model of turns, Leases and the start line in large scenarios. `make model` runs it.

use dragstrip_model::checks::{LARGE, SMALL, check};
use std::{io::Write as _, process::ExitCode};

/// Threads: more cores than this have not been tried.
const THREADS: usize = 2;

fn main() -> ExitCode {
    let (mut states, mut broken) = (0, 0);
    let wanted: Vec<usize> = std::env::args().skip(1).filter_map(|number| number.parse().ok()).collect();
    let scenarios = SMALL.iter().chain(&LARGE).enumerate();
    for (_, scenario) in scenarios.filter(|(at, _)| wanted.is_empty() || wanted.contains(at)) {
        let report = check(scenario, THREADS);
        states += report.states;
        broken += usize::from(report.broken.is_some());
        if writeln!(std::io::stdout(), "{report}").is_err() {
            return ExitCode::FAILURE;
        }
    }
    let verdict = if broken == 0 { "every property holds" } else { "a property is broken" };
    if writeln!(std::io::stdout(), "{states} states: {verdict}").is_err() || broken > 0 {
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
