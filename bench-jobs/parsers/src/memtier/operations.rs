//! From the rows of memtier's table to operations as Dragstrip names them.

use super::report::{Report, ReportError, Row};
use dragstrip_results::{
    commands, histogram::HistogramError, measured::operation::added_seconds, result::Operation,
};
use std::collections::BTreeMap;

/// One entry per command. Rows of the same command (two `SET` lines separated by
/// `--command-stats-breakdown=line`, or `SCAN 0` and `SCAN <cursor>`) are
/// added; rows without a reply are left out. The count is that of the histogram, which holds what
/// was answered: in cluster mode the tool's own count lacks the last few.
///
/// memtier does not say which operation got which error reply; `errors` are
/// taken off an operation's count only if there is just one.
pub fn operations(report: &Report, errors: u64) -> Result<Vec<Operation>, ReportError> {
    let rows =
        report.rows.iter().filter(|row| row.count > 0).map(operation).collect::<Result<Vec<_>, _>>()?;
    let mut operations: Vec<Operation> = Vec::new();
    for row in &rows {
        if operations.iter().any(|known| known.name == row.name) {
            continue;
        }
        let same: Vec<&Operation> = rows.iter().filter(|other| other.name == row.name).collect();
        let sum = Operation::sum(&row.name, &same).map_err(|source| histogram_error(&row.name, source))?;
        operations.push(Operation { commands: row.commands.clone(), ..sum });
    }
    if let [only] = operations.as_mut_slice() {
        only.errors += errors;
        only.count = only.count.saturating_sub(errors);
    }
    Ok(operations)
}

fn operation(row: &Row) -> Result<Operation, ReportError> {
    let name = command(&row.label);
    let redirections = row.moved + row.ask;
    let histogram = row.latencies.encode().map_err(|source| histogram_error(&row.label, source))?;
    Ok(Operation {
        commands: sent(&name),
        name,
        count: row.latencies.count().saturating_sub(redirections),
        hits: row.hits_and_misses.map(|(hits, _)| hits),
        misses: row.hits_and_misses.map(|(_, misses)| misses),
        errors: redirections,
        bytes: row.bytes,
        tool_operations_per_second: row.operations_per_second,
        histogram: Some(histogram),
        per_second: row.per_second.clone(),
        ..Operation::default()
    })
}

/// Replies of all operations in each second.
pub fn per_second(report: &Report) -> Vec<u64> {
    added_seconds(report.rows.iter().map(|row| row.per_second.as_slice()))
}

pub fn redirections(report: &Report) -> BTreeMap<String, u64> {
    let moved = ("MOVED".to_owned(), report.rows.iter().map(|row| row.moved).sum());
    let ask = ("ASK".to_owned(), report.rows.iter().map(|row| row.ask).sum());
    [moved, ask].into_iter().filter(|(_, count)| *count > 0).collect()
}

/// `LPUSH` out of `Lpushs`, `SCAN` out of `Scan <cursor>s`: memtier adds an `s` to commands.
pub(super) fn command(label: &str) -> String {
    let singular = label.strip_suffix('s').unwrap_or(label);
    singular.split_whitespace().next().unwrap_or(label).to_uppercase()
}

/// The server's commands that an operation may be: with `--expiry-range` memtier's SETs
/// are SETEX, with `--data-offset` SETRANGE and GETRANGE.
pub(super) fn sent(operation: &str) -> Vec<String> {
    let of = |commands: &[&str]| commands.iter().map(|&command| command.to_owned()).collect();
    match operation {
        "SET" => of(&["set", "setex", "setrange"]),
        "GET" => of(&["get", "getrange"]),
        _ => commands::named(operation).into_iter().collect(),
    }
}

fn histogram_error(section: &str, source: HistogramError) -> ReportError {
    ReportError::Histogram { section: section.to_owned(), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_become_the_names_of_commands() {
        for (label, name) in [
            ("Sets", "SET"),
            ("Gets", "GET"),
            ("Waits", "WAIT"),
            ("Lpushs", "LPUSH"),
            ("Hgetalls", "HGETALL"),
            ("Existss", "EXISTS"),
            ("Scan 0s", "SCAN"),
            ("Scan <cursor>s", "SCAN"),
            ("s", "S"),
        ] {
            assert_eq!(command(label), name, "{label}");
        }
    }
}
