//! The head of the page: the finding, and the evidence behind it.

use super::{
    super::words::{Ending, endings},
    finding, verdicts,
};
use crate::{
    document::Document,
    figures::counted,
    select::{distinct, totals, variants, varied_axes},
    tables::sign,
};
use dragstrip_crds::{run::Verdict, suite::ComparisonVerdict};
use maud::{Markup, html};

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
            p.rests { (evidence(document)) }
            @for note in document.all_notes() { p.note { (note) } }
            @let notes = document.variants.iter().filter_map(|head| Some((&head.name, head.note.as_ref()?)));
            @for (variant, note) in notes { p.rests { b { (variant) } ": " (note) } }
        }
    }
}

type Badge = (usize, &'static str, String);

/// Counts of endings, thresholds and comparisons of throughput, without zeros.
fn badges(document: &Document) -> Vec<(String, Vec<Badge>)> {
    let runs = endings(document).into_iter().map(|(ending, count)| {
        let (class, sign) = verdicts::look(ending);
        let struck = if ending == Ending::Judged(Verdict::Invalid) { ", struck out" } else { "" };
        (count, class, format!("{sign} {}{struck}", ending.word()))
    });
    let missed = document.thresholds.iter().filter(|status| !status.met).count();
    let met = document.thresholds.len() - missed;
    let thresholds = [(missed, "bad", "✗ missed".to_owned()), (met, "good", "✓ met".to_owned())];
    let compared =
        totals(document, "OperationsPerSecond").into_iter().filter_map(|row| row.comparison.as_ref());
    let compared: Vec<ComparisonVerdict> = compared.map(|found| found.verdict).collect();
    let throughput = [
        (ComparisonVerdict::Better, "good"),
        (ComparisonVerdict::Worse, "bad"),
        (ComparisonVerdict::Same, ""),
        (ComparisonVerdict::Unclear, ""),
        (ComparisonVerdict::NotComparable, ""),
    ];
    let throughput = throughput.map(|(verdict, class)| {
        let count = compared.iter().filter(|found| **found == verdict).count();
        (count, class, format!("{} {}", sign(verdict), verdicts::word(verdict)))
    });
    let baseline = document.baseline.as_ref().map_or("the baseline", |baseline| &baseline.name);
    let group = |name: String, badges: Vec<Badge>| {
        (name, badges.into_iter().filter(|(count, ..)| *count > 0).collect::<Vec<_>>())
    };
    let groups = [
        group("Runs".to_owned(), runs.collect()),
        group("Thresholds".to_owned(), thresholds.to_vec()),
        group(format!("Throughput against {baseline}"), throughput.to_vec()),
    ];
    groups.into_iter().filter(|(_, badges)| !badges.is_empty()).collect()
}

fn evidence(document: &Document) -> String {
    let cells = distinct(document.runs.iter().map(|run| &run.cell)).len();
    let axis = |name: &str, values: &[String]| format!("{} {name} ({})", values.len(), values.join(", "));
    let axes = varied_axes(document).into_iter().map(|(_, head)| axis(&head.name, &head.values));
    let variants = Some(variants(document).len()).filter(|count| *count > 1);
    let varied: Vec<String> =
        variants.map(|count| format!("{count} variants")).into_iter().chain(axes).collect();
    let varied = if varied.is_empty() { String::new() } else { format!(" ({})", varied.join(" × ")) };
    let (runs, cells) = (counted(document.runs.len(), "run"), counted(cells, "combination"));
    format!(
        "{runs} of {cells}{varied}. Each run's verdict comes from checks of its clients, servers and network."
    )
}
