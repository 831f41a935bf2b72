//! Matrices of one metric. With two axes or more the last two span it; with one, its values
//! and the operations or variants; without any, variants and operations. Pure.

use super::{cells, distinct, find, headline, operations, phases, varied};
use crate::document::{Cell, Document, Row};

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

fn measures(document: &Document) -> Vec<Measure<'_>> {
    let phases = phases(document);
    let mut found = Vec::new();
    for &phase in &phases {
        let Some(metric) = headline(document, phase) else { continue };
        let operations = operations(document, phase);
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
    let measures = measures(document);
    let variants = distinct(cells(document).into_iter().map(|cell| cell.variant.as_str()));
    let varied = varied(document);
    let found = match varied.as_slice() {
        [] if variants.len() == 2 && measures.len() > 1 => vec![side_by_side(document, &measures, &variants)],
        [] if variants.len() > 2 && measures.len() > 1 => vec![by_variant(document, &measures, &variants)],
        [(axis, _)] if measures.len() > 2 => by_operation(document, &measures, &variants, *axis),
        [(axis, _)] if variants.len() > 1 => across_variants(document, &measures, &variants, *axis),
        [] | [_] => Vec::new(),
        [.., (down, _), (across, _)] => matrices(document, &measures, *down, *across),
    };
    let measured = |pivot: &Pivot<'_>| pivot.lines.iter().any(|(_, rows)| rows.iter().any(Option::is_some));
    found.into_iter().filter(measured).collect()
}

fn at<'a>(document: &'a Document, cell: &Cell, measure: &Measure<'a>) -> Option<&'a Row> {
    find(document, cell, measure.phase, measure.operation, measure.metric)
}

fn plain(document: &Document, variant: &str) -> Cell {
    let values = document.axes.iter().map(|axis| axis.values.first().cloned().unwrap_or_default());
    Cell { variant: variant.to_owned(), values: values.collect() }
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

fn one_metric<'a>(measures: &[Measure<'a>]) -> &'a str {
    match distinct(measures.iter().map(|measure| measure.metric)).as_slice() {
        [only] => only,
        _ => "",
    }
}

/// Operations down, two variants across, and their difference.
fn side_by_side<'a>(document: &'a Document, measures: &[Measure<'a>], variants: &[&str]) -> Pivot<'a> {
    let line = |measure: &Measure<'a>| {
        let rows = variants.iter().map(|variant| at(document, &plain(document, variant), measure));
        (measure.label.clone(), rows.collect())
    };
    Pivot {
        title: String::new(),
        metric: one_metric(measures),
        corner: "Operation".to_owned(),
        across: "Variant".to_owned(),
        columns: owned(variants),
        lines: measures.iter().map(line).collect(),
        difference: true,
    }
}

/// Variants down, operations across.
fn by_variant<'a>(document: &'a Document, measures: &[Measure<'a>], variants: &[&str]) -> Pivot<'a> {
    let line = |variant: &&str| {
        let cell = plain(document, variant);
        ((*variant).to_owned(), measures.iter().map(|measure| at(document, &cell, measure)).collect())
    };
    Pivot {
        title: String::new(),
        metric: one_metric(measures),
        corner: "Variant".to_owned(),
        across: "Operation".to_owned(),
        columns: measures.iter().map(|measure| measure.label.clone()).collect(),
        lines: variants.iter().map(line).collect(),
        difference: false,
    }
}

/// For each variant the values of the axis down, operations across.
fn by_operation<'a>(
    document: &'a Document,
    measures: &[Measure<'a>],
    variants: &[&str],
    axis: usize,
) -> Vec<Pivot<'a>> {
    let Some(head) = document.axes.get(axis) else { return Vec::new() };
    let of = |variant: &&str| {
        let line = |value: &String| {
            let cell = with(&plain(document, variant), axis, value);
            (value.clone(), measures.iter().map(|measure| at(document, &cell, measure)).collect())
        };
        Pivot {
            title: (*variant).to_owned(),
            metric: one_metric(measures),
            corner: head.name.clone(),
            across: "Operation".to_owned(),
            columns: measures.iter().map(|measure| measure.label.clone()).collect(),
            lines: head.values.iter().map(line).collect(),
            difference: false,
        }
    };
    variants.iter().map(of).collect()
}

/// For each operation the values of the axis down, variants across.
fn across_variants<'a>(
    document: &'a Document,
    measures: &[Measure<'a>],
    variants: &[&str],
    axis: usize,
) -> Vec<Pivot<'a>> {
    let Some(head) = document.axes.get(axis) else { return Vec::new() };
    let of = |measure: &Measure<'a>| {
        let line = |value: &String| {
            let row = |variant: &&str| at(document, &with(&plain(document, variant), axis, value), measure);
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
    measures.iter().map(of).collect()
}

/// For each operation, variant and value of the other axes one axis down, the other across.
fn matrices<'a>(
    document: &'a Document,
    measures: &[Measure<'a>],
    down: usize,
    across: usize,
) -> Vec<Pivot<'a>> {
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
    for measure in measures {
        for cell in &corners {
            let line = |value: &String| {
                let row =
                    |other: &String| at(document, &with(&with(cell, down, value), across, other), measure);
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
