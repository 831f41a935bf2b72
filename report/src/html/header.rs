//! The head of the page: what was found, and what that rests on.

use super::{finding, verdicts};
use crate::{
    document::Document,
    layout::{self, Ending},
};
use dragstrip_crds::{run::Verdict, suite::ComparisonVerdict};
use maud::{Markup, html};

/// Title, finding, badges and notes.
pub fn header(document: &Document) -> Markup {
    html! {
        header {
            p.brand { "Dragstrip report" }
            h1 { (document.title) }
            p.finding { (finding::sentence(document)) }
            @for (about, badges) in badges(document) {
                ul.badges {
                    li { (about) }
                    @for (count, class, text) in badges { li { span class={ "tag " (class) } { b { (count) } " " (text) } } }
                }
            }
            p.rests { (rests_on(document)) }
            @for note in document.all_notes() { p.note { (note) } }
            @let notes = document.variants.iter().filter_map(|head| Some((&head.name, head.note.as_ref()?)));
            @for (variant, note) in notes { p.rests { b { (variant) } ": " (note) } }
        }
    }
}

/// A count with its colour and word.
type Badge = (usize, &'static str, String);

/// What was counted, without what is zero: how runs ended, thresholds, comparisons of throughput.
fn badges(document: &Document) -> Vec<(String, Vec<Badge>)> {
    let ended = layout::endings(document).into_iter();
    let runs: Vec<Badge> = ended
        .map(|(ending, count)| {
            let (class, sign) = verdicts::look(ending);
            let struck = if ending == Ending::Judged(Verdict::Invalid) { ", struck out" } else { "" };
            (count, class, format!("{sign} {}{struck}", ending.word()))
        })
        .collect();
    let missed = document.thresholds.iter().filter(|status| !status.met).count();
    let met = document.thresholds.len() - missed;
    let thresholds = [(missed, "bad", "✗ missed".to_owned()), (met, "good", "✓ met".to_owned())];
    let compared = layout::standing(document, "OperationsPerSecond");
    let stands = |(verdict, class)| {
        let found = compared.iter().filter_map(|row| row.comparison.as_ref());
        let count = found.filter(|found| found.verdict == verdict).count();
        (count, class, format!("{} {}", layout::sign(verdict), verdicts::word(verdict)))
    };
    let throughput = [
        (ComparisonVerdict::Better, "good"),
        (ComparisonVerdict::Worse, "bad"),
        (ComparisonVerdict::Same, ""),
        (ComparisonVerdict::Unclear, ""),
        (ComparisonVerdict::NotComparable, ""),
    ];
    let baseline = document.baseline.as_ref().map_or("the baseline", |baseline| &baseline.name);
    let mut groups = vec![
        ("Runs".to_owned(), runs),
        ("Thresholds".to_owned(), thresholds.to_vec()),
        (format!("Throughput against {baseline}"), throughput.map(stands).to_vec()),
    ];
    for (_, badges) in &mut groups {
        badges.retain(|(count, ..)| *count > 0);
    }
    groups.retain(|(_, badges)| !badges.is_empty());
    groups
}

fn rests_on(document: &Document) -> String {
    let cells = layout::distinct(document.runs.iter().map(|run| &run.cell));
    let axes = layout::varied(document).into_iter();
    let axes =
        axes.map(|(_, axis)| format!("{} {} ({})", axis.values.len(), axis.name, axis.values.join(", ")));
    let mut varied: Vec<String> = axes.collect();
    match layout::variants(document).len() {
        0 | 1 => (),
        count => varied.insert(0, format!("{count} variants")),
    }
    let varied = if varied.is_empty() { String::new() } else { format!(" ({})", varied.join(" × ")) };
    format!(
        "{} of {}{varied}. Each run's verdict rests on its own checks of client, server and network.",
        counted(document.runs.len(), "run"),
        counted(cells.len(), "combination"),
    )
}

fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}
