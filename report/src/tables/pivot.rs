//! Matrices of one metric. With two varied axes or more, the last two span it; with one, its values
//! and the operations or variants; without any, variants and operations. Pure.

use super::{
    cells::{brief_item, change_item},
    grid::{Column, Grid, Item, Kind},
};
use crate::{
    document::{Cell, Document, Row},
    figures::heading,
    select::{RowIndex, distinct, headline, measured_cells, phases, varied_axes},
};
use dragstrip_results::result::TOTAL;

#[derive(Debug, Clone, PartialEq)]
pub struct Pivot<'a> {
    /// The part of the document that it shows, such as `read GET, redis-8`.
    pub title: String,
    /// What its lines and its columns are, such as the name of an axis.
    pub down: String,
    pub across: String,
    pub columns: Vec<String>,
    /// Each line with its heading; `None` if nothing was measured.
    pub lines: Vec<(String, Vec<Option<&'a Row>>)>,
    pub difference: bool,
}

struct Measure<'a> {
    phase: &'a str,
    operation: &'a str,
    metric: &'a str,
    label: String,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Dimension {
    Variant,
    Axis(usize),
    Measure,
}

use Dimension::{Axis, Variant};

struct Source<'a> {
    document: &'a Document,
    index: RowIndex<'a>,
    measures: Vec<Measure<'a>>,
    variants: Vec<&'a str>,
}

fn measures<'a>(document: &'a Document, index: &RowIndex<'a>) -> Vec<Measure<'a>> {
    let phases = phases(document);
    let cells = measured_cells(document);
    let mut found = Vec::new();
    for &phase in &phases {
        let Some((metric, _)) = headline(document, phase) else { continue };
        let mut operations = distinct(cells.iter().flat_map(|cell| index.operations(cell, phase, metric)));
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

/// The matrices of `document`; none if the listings say it all.
pub fn pivots(document: &Document) -> Vec<Pivot<'_>> {
    let index = RowIndex::of(&document.rows);
    let measures = measures(document, &index);
    let variants = distinct(measured_cells(document).into_iter().map(|cell| cell.variant.as_str()));
    let source = Source { document, index, measures, variants };
    let (measures, variants) = (source.measures.len(), source.variants.len());
    let spanned = match varied_axes(document).as_slice() {
        // A few listings with ratios say it all.
        [] if variants == 2 && measures <= 3 && document.baseline.is_some() => None,
        [] if variants == 2 && measures > 1 => Some((Dimension::Measure, Variant)),
        [] if variants > 2 && measures > 1 => Some((Variant, Dimension::Measure)),
        [(axis, _)] if measures > 2 => Some((Axis(*axis), Dimension::Measure)),
        [(axis, _)] if variants > 1 => Some((Axis(*axis), Variant)),
        [] | [_] => None,
        [.., (down, _), (across, _)] => Some((Axis(*down), Axis(*across))),
    };
    let found = spanned.map(|(down, across)| source.span(down, across)).unwrap_or_default();
    // Without two figures in a line, a matrix repeats the listing.
    let compares = |pivot: &Pivot<'_>| pivot.lines.iter().any(|(_, rows)| rows.iter().flatten().count() > 1);
    found.into_iter().filter(compares).collect()
}

impl<'a> Source<'a> {
    /// A matrix for each value of the dimensions that it does not span.
    fn span(&self, down: Dimension, across: Dimension) -> Vec<Pivot<'a>> {
        let spans = |dimension: Dimension| down == dimension || across == dimension;
        let blank = |cell: &Cell| with(&with(cell, down, ""), across, "");
        let corners = distinct(measured_cells(self.document).into_iter().map(blank));
        let all = self.measures.iter().map(Some);
        let measures: Vec<_> = if spans(Dimension::Measure) { vec![None] } else { all.collect() };
        let others = varied_axes(self.document).into_iter().filter(|(place, _)| !spans(Axis(*place)));
        let others: Vec<_> = others.collect();
        let mut found = Vec::new();
        for measure in measures {
            for corner in &corners {
                let axis = |(place, axis): &(usize, &crate::document::AxisHead)| {
                    Some(format!("{}={}", axis.name, corner.values.get(*place)?))
                };
                let variant = (!spans(Variant)).then(|| corner.variant.clone());
                let names: Vec<String> = variant.into_iter().chain(others.iter().filter_map(axis)).collect();
                let title = measure.map(|measure| measure.label.clone());
                let title = title.into_iter().chain(Some(names.join(" ")).filter(|names| !names.is_empty()));
                found.push(Pivot {
                    title: title.collect::<Vec<_>>().join(", "),
                    lines: self.lines(corner, measure, down, across),
                    down: self.name(down),
                    across: self.name(across),
                    columns: self.values(across),
                    difference: across == Variant && self.variants.len() == 2,
                });
            }
        }
        found
    }

    fn lines(
        &self,
        corner: &Cell,
        measure: Option<&Measure<'a>>,
        down: Dimension,
        across: Dimension,
    ) -> Vec<(String, Vec<Option<&'a Row>>)> {
        let row = |line: &String, column: &String| {
            let cell = with(&with(corner, down, line), across, column);
            let label = if down == Dimension::Measure { line } else { column };
            let measure = measure.or_else(|| self.measures.iter().find(|measure| measure.label == *label))?;
            self.index.find(&cell, measure.phase, measure.operation, measure.metric)
        };
        let columns = self.values(across);
        let line = |value: String| {
            let rows = columns.iter().map(|column| row(&value, column)).collect();
            (value, rows)
        };
        self.values(down).into_iter().map(line).collect()
    }

    fn name(&self, dimension: Dimension) -> String {
        match dimension {
            Variant => "Variant".to_owned(),
            Dimension::Measure => "Operation".to_owned(),
            Axis(place) => self.document.axes.get(place).map(|axis| axis.name.clone()).unwrap_or_default(),
        }
    }

    fn values(&self, dimension: Dimension) -> Vec<String> {
        match dimension {
            Variant => self.variants.iter().map(|name| (*name).to_owned()).collect(),
            Dimension::Measure => self.measures.iter().map(|measure| measure.label.clone()).collect(),
            Axis(place) => self.document.axes.get(place).map(|axis| axis.values.clone()).unwrap_or_default(),
        }
    }
}

fn with(cell: &Cell, dimension: Dimension, value: &str) -> Cell {
    let mut cell = cell.clone();
    match dimension {
        Variant => value.clone_into(&mut cell.variant),
        Axis(place) => cell.values.iter_mut().skip(place).take(1).for_each(|own| value.clone_into(own)),
        Dimension::Measure => {}
    }
    cell
}

pub fn pivot_grids(document: &Document) -> Vec<Grid> {
    pivots(document).iter().map(|pivot| grid(document, pivot)).collect()
}

fn grid(document: &Document, pivot: &Pivot<'_>) -> Grid {
    let heading = |row: &Row| heading(&row.metric, &row.unit);
    let units: Vec<Option<String>> = (0..pivot.columns.len())
        .map(|column| pivot.lines.iter().find_map(|(_, rows)| Some(heading(rows.get(column).copied()??))))
        .collect();
    let common = distinct(units.iter().flatten());
    let unit = if let [only] = common.as_slice() { Some((*only).clone()) } else { None };
    let column = |(name, own): (&String, &Option<String>)| match (own, &unit) {
        (Some(own), None) => Column::new(format!("{name} ({own})"), Kind::Figure),
        _ => Column::new(name, Kind::Figure),
    };
    let mut columns = vec![Column::name(format!("{} \\ {}", pivot.down, pivot.across))];
    columns.extend(pivot.columns.iter().zip(&units).map(column));
    columns.extend(pivot.difference.then(|| Column::new("Difference", Kind::Figure)));
    let line = |(name, rows): &(String, Vec<Option<&Row>>)| {
        let difference = pivot.difference.then(|| match rows.as_slice() {
            [first, second] => change_item(document, *first, *second),
            _ => Item::nothing(),
        });
        let figures = rows.iter().map(|row| brief_item(*row));
        std::iter::once(Item::text(name)).chain(figures).chain(difference).collect()
    };
    let title = [Some(pivot.title.clone()).filter(|title| !title.is_empty()), unit.clone()];
    Grid {
        title: title.into_iter().flatten().collect::<Vec<_>>().join(": "),
        columns,
        lines: pivot.lines.iter().map(line).collect(),
    }
}
