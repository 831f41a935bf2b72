//! The tables of each phase: a line for each combination and operation. Pure.

use super::{
    cells::{brief_item, change_item, mean_item, ratio_heading, ratio_item, verdict_item},
    grid::{Column, Grid, Item, Kind, identity, identity_columns},
};
use crate::{
    document::{BaselineHead, Cell, Document, Row, Sample},
    figures::{CACHE, figure, heading},
    select::{RowIndex, distinct, headline, measured_cells, metrics, phases, varied_axes, with_operation},
};
use dragstrip_crds::{run::Verdict, thresholds::MetricName};
use dragstrip_results::result::TOTAL;

/// The memory of all servers together.
const MEMORY: [MetricName; 3] =
    [MetricName::ServerRssBytes, MetricName::ServerPeakBytes, MetricName::ServerUsedBytes];
const BESIDE_OWN: usize = 4;

#[derive(Debug, Clone, Copy)]
pub struct Style {
    pub beside: &'static [MetricName],
    pub notes: bool,
}

type Metric<'a> = (&'a str, &'a str);

struct Listing<'a> {
    document: &'a Document,
    index: &'a RowIndex<'a>,
    phase: &'a str,
    lines: Vec<(&'a Cell, &'a str)>,
    headline: Metric<'a>,
    beside: Vec<Metric<'a>>,
}

pub fn listings(document: &Document, style: &Style) -> Vec<Grid> {
    let index = RowIndex::of(&document.rows);
    let of_phase = |phase| {
        let figures = figures(document, &index, phase, style).map(|listing| listing.grid(phase, style));
        let published = published(document, &index, phase);
        let cache = cache(document, &index, phase);
        let cache = cache.map(|listing| listing.grid(&format!("{phase}: cache"), style));
        figures.into_iter().chain(published).chain(cache)
    };
    phases(document).into_iter().flat_map(of_phase).collect()
}

fn figures<'a>(
    document: &'a Document,
    index: &'a RowIndex<'a>,
    phase: &'a str,
    style: &Style,
) -> Option<Listing<'a>> {
    let headline = headline(document, phase)?;
    let of_cell = |cell| {
        let operations = index.operations(cell, phase, headline.0).into_iter();
        operations.map(move |operation| (cell, operation))
    };
    let lines = measured_cells(document).into_iter().flat_map(of_cell).collect();
    let mut beside = metrics(document, phase);
    beside.retain(|metric| *metric != headline);
    if MetricName::named(headline.0).is_none() {
        beside.truncate(BESIDE_OWN);
    } else {
        beside.retain(|(metric, _)| style.beside.iter().any(|name| name.to_string() == *metric));
    }
    Some(Listing { document, index, phase, lines, headline, beside })
}

/// The published figures of `phase` beside its headline: memory, and those that only its tool has. Each has a line.
fn published(document: &Document, index: &RowIndex<'_>, phase: &str) -> Option<Grid> {
    let headline = headline(document, phase).map(|(metric, _)| metric);
    let axes = varied_axes(document);
    let is_beside = |row: &&Row| {
        let named = MetricName::named(&row.metric);
        let of_other_tables = named.is_some_and(|name| !MEMORY.contains(&name));
        row.phase == phase && Some(row.metric.as_str()) != headline && !of_other_tables && !index.repeats(row)
    };
    let line = |row: &Row| {
        let mut compared = document.compared(row);
        let found = compared.find_map(|(head, found, _)| found.filter(|_| head.kind == "published"))?;
        let mut line = identity(&axes, &row.cell);
        line.push(Item::text(with_operation(&heading(&row.metric, &row.unit), &row.operation)));
        line.push(mean_item(Some(row)));
        line.push(Item::text(figure(&row.metric, found.baseline)));
        line.extend([ratio_item(Some(found)), verdict_item(Some(found), None)]);
        Some(line)
    };
    let lines: Vec<_> = document.rows.iter().filter(is_beside).filter_map(line).collect();
    let mut columns = identity_columns(&axes);
    columns.push(Column::name("Figure"));
    columns.extend(["Measured ±95%", "Published", "Ratio"].map(|name| Column::new(name, Kind::Figure)));
    columns.push(Column::new("It is", Kind::Choice));
    (!lines.is_empty()).then(|| Grid { title: format!("{phase}: published figures"), columns, lines })
}

/// How caches did, if reads missed: each figure is that of all operations together.
fn cache<'a>(document: &'a Document, index: &'a RowIndex<'a>, phase: &'a str) -> Option<Listing<'a>> {
    let [hit_ratio, bytes] = [MetricName::HitRatio, MetricName::BytesPerKey].map(|name| name.to_string());
    let all = metrics(document, phase);
    all.iter().find(|(metric, _)| CACHE.contains(metric))?;
    let headline = *all.iter().find(|(metric, _)| *metric == hit_ratio)?;
    let of_cache = |metric: &str| CACHE.contains(&metric) || metric == bytes;
    let beside = all.into_iter().filter(|(metric, _)| of_cache(metric)).collect();
    let lines = measured_cells(document).into_iter().map(|cell| (cell, TOTAL)).collect();
    Some(Listing { document, index, phase, lines, headline, beside })
}

impl<'a> Listing<'a> {
    fn grid(&self, title: &str, style: &Style) -> Grid {
        let document = self.document;
        let axes = varied_axes(document);
        let several = distinct(self.lines.iter().map(|(_, operation)| *operation)).len() > 1;
        let declared = document.baselines().any(|baseline| baseline.kind == "above");
        let steps = axes.is_empty() && !several && document.variants.len() > 2 && !declared;
        let notes: Vec<String> =
            self.lines.iter().map(|(cell, operation)| self.note(cell, operation, style)).collect();
        let noted = notes.iter().any(|note| !note.is_empty());
        let mut columns = identity_columns(&axes);
        columns.extend(several.then(|| Column::name("Operation")));
        let figure = heading(self.headline.0, self.headline.1);
        let mut rows =
            self.lines.iter().filter_map(|(cell, operation)| self.find(cell, operation, self.headline.0));
        let interval =
            rows.any(|row| row.spread.as_ref().is_some_and(|spread| spread.confidence95.is_some()));
        columns.push(Column::new(format!("{figure}{}", if interval { " ±95%" } else { "" }), Kind::Figure));
        columns.extend(
            self.beside.iter().map(|(metric, unit)| Column::new(heading(metric, unit), Kind::Figure)),
        );
        columns.extend(steps.then(|| Column::new("vs. above", Kind::Figure)));
        let compared = |baseline: &BaselineHead| {
            [
                Column::new(format!("{figure} {}", ratio_heading(baseline)), Kind::Figure),
                Column::new(format!("{figure} is"), Kind::Choice),
            ]
        };
        columns.extend(document.baselines().flat_map(compared));
        columns.extend(noted.then(|| Column::new("Notes", Kind::Words)));
        let mut above: Option<&Row> = None;
        let mut lines = Vec::new();
        for ((cell, operation), note) in self.lines.iter().zip(notes) {
            let row = self.find(cell, operation, self.headline.0);
            let mut line = identity(&axes, cell);
            line.extend(several.then(|| Item::text(*operation)));
            line.push(mean_item(row));
            line.extend(self.beside.iter().map(|(metric, _)| brief_item(self.find(cell, operation, metric))));
            line.extend(steps.then(|| change_item(document, above, row)));
            above = row.filter(|row| row.spread.is_some()).or(above);
            line.extend(self.compared(row));
            line.extend(noted.then(|| Item::text(note)));
            lines.push(line);
        }
        Grid { title: title.to_owned(), columns, lines }
    }

    /// The ratio of `row` to each baseline, and what that is called.
    fn compared(&self, row: Option<&Row>) -> Vec<Item> {
        let Some(row) = row else { return vec![Item::nothing(); 2 * self.document.baselines().count()] };
        let compared = self.document.compared(row);
        compared.flat_map(|(_, found, why)| [ratio_item(found), verdict_item(found, why)]).collect()
    }

    fn find(&self, cell: &Cell, operation: &str, metric: &str) -> Option<&'a Row> {
        self.index.find(cell, self.phase, operation, metric)
    }

    /// Invalid, Degraded and outlying measurements of a line, and with room for them the
    /// bottleneck and the note of the variant.
    fn note(&self, cell: &Cell, operation: &str, style: &Style) -> String {
        let row = self.find(cell, operation, self.headline.0);
        let mut parts = row.map(marks).unwrap_or_default();
        if style.notes {
            parts.extend(row.and_then(|_| self.bottleneck(cell)));
            let variant = self.document.variants.iter().find(|head| head.name == cell.variant);
            parts.extend(variant.and_then(|head| head.note.clone()));
        }
        parts.join(", ")
    }

    fn bottleneck(&self, cell: &Cell) -> Option<String> {
        let runs = self.document.runs.iter().filter(|run| run.cell == *cell);
        let limits = runs.flat_map(|run| &run.limited_by).filter(|limit| limit.phase == self.phase);
        let names: Vec<String> =
            distinct(limits.map(|limit| limit.limited_by.by)).iter().map(ToString::to_string).collect();
        (!names.is_empty()).then(|| format!("limited by {}", names.join(" or ")))
    }
}

fn marks(row: &Row) -> Vec<String> {
    let count = |is: &dyn Fn(&Sample) -> bool| row.samples.iter().filter(|one| is(one)).count();
    let invalid = count(&|sample| sample.is_invalid());
    let outliers = count(&|sample| sample.outlier);
    let mut marks = Vec::new();
    match invalid {
        0 => {}
        all if all == row.samples.len() => marks.push("Invalid".to_owned()),
        some => marks.push(format!("{some} Invalid")),
    }
    if count(&|sample| sample.verdict == Some(Verdict::Degraded)) > 0 {
        marks.push("Degraded".to_owned());
    }
    if outliers > 0 {
        marks.push(format!("{outliers} outlier{}", if outliers > 1 { "s" } else { "" }));
    }
    marks
}
