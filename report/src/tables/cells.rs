//! The cells that tables have in common: figures, ratios, verdicts. Pure.

use super::grid::{Item, Piece};
use crate::{
    compare,
    document::{BaselineHead, Comparison, Document, Row},
    figures::{figure, interval, percent, ratio, spread},
};
use dragstrip_crds::{run::Verdict, suite::ComparisonVerdict};

pub fn sign(verdict: ComparisonVerdict) -> &'static str {
    match verdict {
        ComparisonVerdict::Better => "▲",
        ComparisonVerdict::Worse => "▼",
        ComparisonVerdict::Same => "=",
        ComparisonVerdict::Unclear => "?",
        ComparisonVerdict::NotComparable => "≠",
    }
}

pub fn word(verdict: ComparisonVerdict) -> String {
    match verdict {
        ComparisonVerdict::NotComparable => "not comparable".to_owned(),
        other => other.to_string(),
    }
}

/// Whether `found` has a ratio to show: readers would take that of different conditions for an answer.
pub fn has_ratio(found: &Comparison) -> bool {
    found.verdict != ComparisonVerdict::NotComparable
}

pub fn verdict_item(found: Option<&Comparison>, uncompared: Option<&str>) -> Item {
    Item::text(match (found, uncompared) {
        (Some(found), _) => format!("{} {}", sign(found.verdict), word(found.verdict)),
        (None, None) => "baseline".to_owned(),
        (None, Some(_)) => return Item::nothing(),
    })
}

pub fn ratio_item(found: Option<&Comparison>) -> Item {
    Item::or_nothing(found.filter(|found| has_ratio(found)).map(|found| {
        let interval = found.interval_known.then(|| format!(" {}", interval(&found.ratio)));
        ratio(found.ratio.mid) + &interval.unwrap_or_default()
    }))
}

pub fn ratio_heading(baseline: &BaselineHead) -> String {
    match baseline.kind.as_str() {
        "published" => "ratio to published".to_owned(),
        _ if baseline.name.chars().count() <= 12 => format!("× {}", baseline.name),
        "suite" => "× suite".to_owned(),
        _ => "× baseline".to_owned(),
    }
}

/// Each measurement: Invalid ones struck out, Degraded ones and outliers marked.
pub fn measurements(row: &Row) -> Item {
    let mut pieces = Vec::new();
    for (index, sample) in row.samples.iter().enumerate() {
        let value = figure(&row.metric, sample.value);
        pieces.extend((index > 0).then(|| Piece::Plain("; ".to_owned())));
        pieces.push(match (sample.verdict, sample.outlier) {
            (Some(Verdict::Invalid), _) => Piece::Struck(value),
            (_, true) => Piece::Plain(format!("{value} (outlier)")),
            (Some(Verdict::Degraded), false) => Piece::Plain(format!("{value} (Degraded)")),
            _ => Piece::Plain(value),
        });
    }
    if pieces.is_empty() { Item::nothing() } else { Item(pieces) }
}

pub fn mean_item(row: Option<&Row>) -> Item {
    let Some(row) = row else { return Item::nothing() };
    row.spread.as_ref().map_or_else(|| measurements(row), |found| Item::text(spread(&row.metric, found)))
}

/// A mean without its interval, with a sign if it is Better, Worse or not comparable.
pub fn brief_item(row: Option<&Row>) -> Item {
    let Some(row) = row else { return Item::nothing() };
    let Some(spread) = &row.spread else { return measurements(row) };
    let mean = figure(&row.metric, spread.mean);
    Item::text(match row.comparison.as_ref().map(|found| found.verdict) {
        None | Some(ComparisonVerdict::Same | ComparisonVerdict::Unclear) => mean,
        Some(found) => format!("{mean} {}", sign(found)),
    })
}

/// The change from `first` to `second`, without a direction unless it is beyond chance; nothing if they
/// cannot be compared.
pub fn change_item(document: &Document, first: Option<&Row>, second: Option<&Row>) -> Item {
    let found = change(first, second).zip(first.zip(second));
    Item::or_nothing(found.and_then(|(ratio, (first, second))| {
        let size = || percent(ratio).trim_start_matches(['+', '-']).to_owned();
        match compare::between(document, second, first)? {
            ComparisonVerdict::NotComparable => None,
            ComparisonVerdict::Better | ComparisonVerdict::Worse => Some(percent(ratio)),
            verdict => Some(format!("{} {}", sign(verdict), size())),
        }
    }))
}

/// The change from `first` to `second`; nothing if one of them ran under different conditions.
fn change(first: Option<&Row>, second: Option<&Row>) -> Option<f64> {
    let mean = |row: Option<&Row>| {
        let row = row.filter(|row| row.comparison.as_ref().is_none_or(has_ratio))?;
        Some(row.spread?.mean)
    };
    let first = mean(first).filter(|first| *first > 0.0)?;
    Some(mean(second)? / first)
}
