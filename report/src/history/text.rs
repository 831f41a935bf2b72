//! A history for terminals. Pure.

use super::{Change, FEWEST_ROUNDS, Figure, History, Latest, RoundHead};
use crate::{
    figures::{self, heading, percent},
    select::with_operation,
};
use comfy_table::{CellAlignment, Table, presets};
use dragstrip_crds::{suite::ComparisonVerdict, units::counted};
use std::collections::BTreeSet;

/// The combination, phase, operation and metric.
pub fn figure_name(figure: &Figure, history: &History) -> String {
    let cell = figure.cell.label(&history.axes);
    let phase = with_operation(&figure.phase, &figure.operation);
    format!("{cell}, {phase}, {}", heading(&figure.metric, &figure.unit))
}

pub fn round_name(round: &RoundHead) -> String {
    match round.time {
        Some(time) => format!("{time} {}", round.name),
        None => round.name.clone(),
    }
}

/// `99.8 %`; never 100 %, which no test gives.
pub fn confidence(share: f64) -> String {
    if share > 0.9999 { "> 99.99 %".to_owned() } else { format!("{:.2} %", share * 100.0) }
}

fn change(change: &Change, figure: &Figure, history: &History) -> String {
    let Change { ratio, verdict, .. } = change;
    let shown = |value| figures::figure(&figure.metric, value);
    format!(
        "  {}: {} [{}, {}], from {} to {}, confidence {}, {verdict}\n",
        figure_name(figure, history),
        percent(ratio.mid),
        percent(ratio.low),
        percent(ratio.high),
        shown(change.before),
        shown(change.after),
        confidence(change.confidence),
    )
}

/// The facts that changed with `changes`.
pub fn conditions(changes: &[(&Change, &Figure)]) -> BTreeSet<String> {
    let all = changes.iter().flat_map(|(change, _)| &change.conditions);
    all.map(|one| format!("{} is {} instead of {}", one.fact, one.here, one.baseline)).collect()
}

/// A round with everything that changed in it, the conditions first.
fn round(changes: &[(&Change, &Figure)], history: &History) -> String {
    let name = changes.first().map(|(change, _)| round_name(&change.round)).unwrap_or_default();
    let conditions = conditions(changes).into_iter().map(|one| format!("  differs: {one}\n"));
    let lines = changes.iter().map(|(found, figure)| change(found, figure, history));
    std::iter::once(format!("{name}:\n")).chain(conditions).chain(lines).collect()
}

fn word(latest: &Latest) -> String {
    let differs = matches!(latest.verdict, ComparisonVerdict::Better | ComparisonVerdict::Worse);
    if differs && !latest.holds_among_all {
        format!("{} (alone)", latest.verdict)
    } else {
        latest.verdict.to_string()
    }
}

/// The latest level of each figure that changed, against its anchor.
fn table(history: &History) -> Option<String> {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_BORDERS_ONLY);
    table.set_header(["Figure", "Anchor", "Latest", "Change", "Rounds", "Verdict"]);
    for figure in history.figures.iter().filter(|figure| !figure.changes.is_empty()) {
        let Some(latest) = &figure.latest else { continue };
        let shown = |value| figures::figure(&figure.metric, value);
        table.add_row([
            figure_name(figure, history),
            shown(latest.anchor),
            shown(latest.level),
            percent(latest.ratio.mid),
            format!("{} + {}", latest.anchor_rounds, latest.rounds),
            word(latest),
        ]);
    }
    for column in table.column_iter_mut().skip(1).take(4) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    (!table.is_empty()).then(|| format!("\nThe latest level against the first, the anchor:\n{table}\n"))
}

/// What the history cannot show.
fn notes(history: &History) -> String {
    let blind = history.figures.iter().filter(|figure| figure.latest.is_none()).count();
    let few = format!(
        "note: {blind} of {} were 0 in a round or have fewer than {FEWEST_ROUNDS} rounds, which show no change\n",
        counted(history.figures.len() as u64, "figure")
    );
    let alone =
        "note: \"alone\" means that the difference is significant by itself, but not among so many figures\n";
    let latest = history.figures.iter().filter_map(|figure| figure.latest.as_ref());
    let has_alone = latest.into_iter().any(|latest| word(latest).ends_with("(alone)"));
    [(blind > 0, few.as_str()), (has_alone, alone)]
        .into_iter()
        .filter_map(|(applies, note)| applies.then_some(note))
        .collect()
}

/// How many rounds and figures there are, and how many changed.
pub fn summary(history: &History) -> String {
    let changed = history.figures.iter().filter(|figure| !figure.changes.is_empty()).count();
    let ends = match (history.rounds.first(), history.rounds.last()) {
        (Some(first), Some(last)) => format!(" from {} to {}", round_name(first), round_name(last)),
        _ => String::new(),
    };
    let (rounds, figures) = (history.rounds.len(), history.figures.len());
    format!(
        "{}{ends}; {changed} of {} changed",
        counted(rounds as u64, "round"),
        counted(figures as u64, "figure")
    )
}

pub fn render(history: &History) -> String {
    let head = format!("{}: {}\n", history.title, summary(history));
    let changes: Vec<_> = history.changes().collect();
    let by_round = changes.chunk_by(|(one, _), (other, _)| one.round == other.round);
    let lines: String = by_round.map(|changes| round(changes, history)).collect();
    [head, lines, table(history).unwrap_or_default(), notes(history)].concat()
}
