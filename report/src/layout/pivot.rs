//! Matrices of one metric. With two axes or more the last two span it; with one, its values
//! and the operations or variants; without any, variants and operations. Pure.

use super::{Phases, cells, distinct, headline, phases, varied};
use crate::document::{Cell, Document, Row};
use dragstrip_results::result::TOTAL;

/// A matrix of one metric.
#[derive(Debug, Clone, PartialEq)]
pub struct Pivot<'a> {
    /// What of the document it is, such as `read GET, redis-8`.
    pub title: String,
    /// The metric; empty where columns have several.
    pub metric: &'a str,
    /// What its lines are, such as the name of an axis.
    pub corner: String,
    /// What its columns are.
    pub across: String,
    /// Headings of the columns.
    pub columns: Vec<String>,
    /// Each line with its heading; absent where nothing was measured.
    pub lines: Vec<(String, Vec<Option<&'a Row>>)>,
    /// Whether the second column is to be told as a difference to the first.
    pub difference: bool,
}

/// A phase's operation, its metric, and what it is called.
struct Measure<'a> {
    phase: &'a str,
    operation: &'a str,
    metric: &'a str,
    label: String,
}

/// What matrices are made of.
struct Source<'a> {
    document: &'a Document,
    rows: Phases<'a>,
    measures: Vec<Measure<'a>>,
}

impl<'a> Source<'a> {
    fn of(document: &'a Document) -> Self {
        let rows = Phases::of(&document.rows);
        let measures = measures(document, &rows);
        Self { document, rows, measures }
    }

    fn at(&self, cell: &Cell, measure: &Measure<'a>) -> Option<&'a Row> {
        self.rows.find(cell, measure.phase, measure.operation, measure.metric)
    }

    /// A combination of `variant` with the first value of each axis.
    fn plain(&self, variant: &str) -> Cell {
        let values = self.document.axes.iter().map(|axis| axis.values.first().cloned().unwrap_or_default());
        Cell { variant: variant.to_owned(), values: values.collect() }
    }

    /// The metric of all measures; nothing where they have several.
    fn metric(&self) -> &'a str {
        match distinct(self.measures.iter().map(|measure| measure.metric)).as_slice() {
            [only] => only,
            _ => "",
        }
    }

    fn labels(&self) -> Vec<String> {
        self.measures.iter().map(|measure| measure.label.clone()).collect()
    }
}

fn measures<'a>(document: &'a Document, rows: &Phases<'a>) -> Vec<Measure<'a>> {
    let phases = phases(document);
    let cells = cells(document);
    let mut found = Vec::new();
    for &phase in &phases {
        let Some(metric) = headline(document, phase) else { continue };
        let mut operations = distinct(cells.iter().flat_map(|cell| rows.operations(cell, phase, metric)));
        operations.sort_by_key(|operation| *operation == TOTAL);
        let only = operations.len() == 1;
        for operation in operations {
            let label = match (phases.len() > 1, only) {
                (true, true) => phase.to_owned(),
                (true, false) => format!("{phase} {operation}"),
                (false, _) => operation.to_owned(),
            };
            found.push(Measure { phase, operation, metric, label });
        }
    }
    found
}

/// The matrices of `document`; none where a list says it all.
pub fn pivots(document: &Document) -> Vec<Pivot<'_>> {
    let source = Source::of(document);
    let measures = source.measures.len();
    let variants = distinct(cells(document).into_iter().map(|cell| cell.variant.as_str()));
    let varied = varied(document);
    let found = match varied.as_slice() {
        [] if variants.len() == 2 && measures > 1 => vec![side_by_side(&source, &variants)],
        [] if variants.len() > 2 && measures > 1 => vec![by_variant(&source, &variants)],
        [(axis, _)] if measures > 2 => by_operation(&source, &variants, *axis),
        [(axis, _)] if variants.len() > 1 => across_variants(&source, &variants, *axis),
        [] | [_] => Vec::new(),
        [.., (down, _), (across, _)] => matrices(&source, *down, *across),
    };
    // Where no line has two figures the list is the same.
    let compares = |pivot: &Pivot<'_>| pivot.lines.iter().any(|(_, rows)| rows.iter().flatten().count() > 1);
    found.into_iter().filter(compares).collect()
}

fn with(cell: &Cell, axis: usize, value: &str) -> Cell {
    let mut cell = cell.clone();
    if let Some(place) = cell.values.get_mut(axis) {
        value.clone_into(place);
    }
    cell
}

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// Operations down, two variants across, and their difference.
fn side_by_side<'a>(source: &Source<'a>, variants: &[&str]) -> Pivot<'a> {
    let line = |measure: &Measure<'a>| {
        let rows = variants.iter().map(|variant| source.at(&source.plain(variant), measure));
        (measure.label.clone(), rows.collect())
    };
    Pivot {
        title: String::new(),
        metric: source.metric(),
        corner: "Operation".to_owned(),
        across: "Variant".to_owned(),
        columns: owned(variants),
        lines: source.measures.iter().map(line).collect(),
        difference: true,
    }
}

/// Variants down, operations across.
fn by_variant<'a>(source: &Source<'a>, variants: &[&str]) -> Pivot<'a> {
    let line = |variant: &&str| {
        let cell = source.plain(variant);
        ((*variant).to_owned(), source.measures.iter().map(|measure| source.at(&cell, measure)).collect())
    };
    Pivot {
        title: String::new(),
        metric: source.metric(),
        corner: "Variant".to_owned(),
        across: "Operation".to_owned(),
        columns: source.labels(),
        lines: variants.iter().map(line).collect(),
        difference: false,
    }
}

/// For each variant the values of the axis down, operations across.
fn by_operation<'a>(source: &Source<'a>, variants: &[&str], axis: usize) -> Vec<Pivot<'a>> {
    let Some(head) = source.document.axes.get(axis) else { return Vec::new() };
    let of = |variant: &&str| {
        let line = |value: &String| {
            let cell = with(&source.plain(variant), axis, value);
            (value.clone(), source.measures.iter().map(|measure| source.at(&cell, measure)).collect())
        };
        Pivot {
            title: (*variant).to_owned(),
            metric: source.metric(),
            corner: head.name.clone(),
            across: "Operation".to_owned(),
            columns: source.labels(),
            lines: head.values.iter().map(line).collect(),
            difference: false,
        }
    };
    variants.iter().map(of).collect()
}

/// For each operation the values of the axis down, variants across.
fn across_variants<'a>(source: &Source<'a>, variants: &[&str], axis: usize) -> Vec<Pivot<'a>> {
    let Some(head) = source.document.axes.get(axis) else { return Vec::new() };
    let of = |measure: &Measure<'a>| {
        let line = |value: &String| {
            let row = |variant: &&str| source.at(&with(&source.plain(variant), axis, value), measure);
            (value.clone(), variants.iter().map(row).collect())
        };
        Pivot {
            title: measure.label.clone(),
            metric: measure.metric,
            corner: head.name.clone(),
            across: "Variant".to_owned(),
            columns: owned(variants),
            lines: head.values.iter().map(line).collect(),
            difference: variants.len() == 2,
        }
    };
    source.measures.iter().map(of).collect()
}

/// For each operation, variant and value of the other axes one axis down, the other across.
fn matrices<'a>(source: &Source<'a>, down: usize, across: usize) -> Vec<Pivot<'a>> {
    let document = source.document;
    let (Some(rows), Some(columns)) = (document.axes.get(down), document.axes.get(across)) else {
        return Vec::new();
    };
    let corner = |cell: &Cell| with(&with(cell, down, ""), across, "");
    let corners = distinct(cells(document).into_iter().map(corner));
    let others: Vec<usize> = varied(document)
        .into_iter()
        .map(|(axis, _)| axis)
        .filter(|axis| *axis != down && *axis != across)
        .collect();
    let mut found = Vec::new();
    for measure in &source.measures {
        for cell in &corners {
            let line = |value: &String| {
                let row = |other: &String| source.at(&with(&with(cell, down, value), across, other), measure);
                (value.clone(), columns.values.iter().map(row).collect())
            };
            let other = |axis: &usize| {
                Some(format!("{}={}", document.axes.get(*axis)?.name, cell.values.get(*axis)?))
            };
            let names = std::iter::once(cell.variant.clone()).chain(others.iter().filter_map(other));
            found.push(Pivot {
                title: format!("{}, {}", measure.label, names.collect::<Vec<_>>().join(" ")),
                metric: measure.metric,
                corner: rows.name.clone(),
                across: columns.name.clone(),
                columns: columns.values.clone(),
                lines: rows.values.iter().map(line).collect(),
                difference: false,
            });
        }
    }
    found
}
