//! Prints the properties of docs/statistics.md as a table. `make simulate` runs it.

use dragstrip_simulate::Property;
use std::{io::Write as _, process::ExitCode};

/// Cases of each property: shares are known to about half a percent.
const CASES: usize = 2_000;

fn main() -> ExitCode {
    let properties = dragstrip_simulate::all(CASES);
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    let row = |one: &Property| format!("| {} | {} | {} |", one.claim, percent(one.least), percent(one.held));
    let head = ["| Property | Demanded | Simulated |", "|---|--:|--:|"].map(str::to_owned);
    let table: Vec<String> = head.into_iter().chain(properties.iter().map(row)).collect();
    if writeln!(std::io::stdout(), "{}", table.join("\n")).is_err() {
        return ExitCode::FAILURE;
    }
    let missed = properties.iter().filter(|property| !property.holds()).count();
    if missed > 0 {
        eprintln!("{missed} of {} properties do not hold", properties.len());
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
