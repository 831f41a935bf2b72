//! How combinations are laid out: what has a colour, what has a panel, and in which order.

use crate::document::{Cell, Document, Row};
use dragstrip_results::result::TOTAL;
use maud::{Markup, html};
use std::{
    collections::{HashMap, HashSet},
    hash::Hash,
};

/// Colours in the style sheet; beyond them they repeat.
pub const COLOURS: usize = 8;

/// Variants are told apart by colour, combinations of axes by panel. Where there is one
/// variant, the last axis takes its place.
pub struct Layout {
    /// Names of what has a colour, in order.
    pub series: Vec<String>,
    axes: Vec<String>,
    coloured: Coloured,
}

enum Coloured {
    Variants,
    Axis(usize),
}

impl Layout {
    /// The layout that suits a document.
    pub fn of(document: &Document) -> Self {
        let axes = document.axes.iter().map(|axis| axis.name.clone()).collect();
        let variants = variants(document);
        let last_axis = document.axes.iter().rposition(|axis| axis.values.len() > 1);
        match last_axis {
            Some(axis) if variants.len() < 2 => {
                Self { series: document.axes[axis].values.clone(), axes, coloured: Coloured::Axis(axis) }
            }
            _ => Self { series: variants, axes, coloured: Coloured::Variants },
        }
    }

    /// The place of a combination's colour.
    pub fn series_of(&self, cell: &Cell) -> usize {
        let name = self.series_name(cell);
        self.series.iter().position(|series| series == name).unwrap_or_default()
    }

    /// The name beside a combination's colour.
    pub fn series_name<'a>(&self, cell: &'a Cell) -> &'a str {
        match self.coloured {
            Coloured::Variants => &cell.variant,
            Coloured::Axis(axis) => cell.values.get(axis).map_or(&cell.variant, |value| value),
        }
    }

    /// What all combinations of a panel have in common; nothing where there is one panel.
    pub fn panel_of(&self, cell: &Cell) -> String {
        let coloured = match self.coloured {
            Coloured::Variants => None,
            Coloured::Axis(axis) => Some(axis),
        };
        let values = self.axes.iter().zip(&cell.values).enumerate();
        let values = values.filter(|(index, _)| Some(*index) != coloured);
        values.map(|(_, (axis, value))| format!("{axis}={value}")).collect::<Vec<_>>().join(" ")
    }

    /// What the colours mean; nothing where there is one.
    pub fn legend(&self) -> Markup {
        let axis = match self.coloured {
            Coloured::Variants => "",
            Coloured::Axis(axis) => &self.axes[axis],
        };
        html! {
            @if self.series.len() > 1 {
                ul.legend {
                    @for (index, name) in self.series.iter().enumerate() {
                        li { i class={ "b" (index % COLOURS) } {} " " @if !axis.is_empty() { (axis) "=" } (name) }
                    }
                }
            }
        }
    }
}

/// Variants as they were declared, then in the order in which they appear.
pub fn variants(document: &Document) -> Vec<String> {
    let declared = document.variants.iter().map(|variant| variant.name.as_str());
    let of_rows = document.rows.iter().map(|row| row.cell.variant.as_str());
    distinct(declared.chain(of_rows).chain(document.runs.iter().map(|run| run.cell.variant.as_str())))
}

/// Each name once, in the order of first appearance.
pub fn distinct<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut seen = HashSet::new();
    names.filter(|name| seen.insert(*name)).map(str::to_owned).collect()
}

/// Items under the key that they share, keys in the order of first appearance.
pub fn grouped<T, K: Eq + Hash + Clone>(
    items: impl IntoIterator<Item = T>,
    key: impl Fn(&T) -> K,
) -> Vec<(K, Vec<T>)> {
    let mut places = HashMap::new();
    let mut groups: Vec<(K, Vec<T>)> = Vec::new();
    for item in items {
        let key = key(&item);
        let place = *places.entry(key.clone()).or_insert(groups.len());
        match groups.get_mut(place) {
            Some((_, group)) => group.push(item),
            None => groups.push((key, vec![item])),
        }
    }
    groups
}

/// One row for each combination and phase: of all operations, or of the first where nothing
/// was summed.
pub fn total_rows<'a>(document: &'a Document, metric: &str) -> Vec<&'a Row> {
    let rows = document.rows.iter().filter(|row| row.metric == metric);
    grouped(rows, |row| (row.cell.clone(), row.phase.clone()))
        .into_iter()
        .filter_map(|(_, rows)| rows.iter().find(|row| row.operation == TOTAL).or(rows.first()).copied())
        .collect()
}

/// Rows without those that sum up a single operation: they would say the same twice.
pub fn told_once(document: &Document) -> Vec<&Row> {
    let mut operations: HashMap<(&str, &str), HashSet<&str>> = HashMap::new();
    for row in document.rows.iter().filter(|row| row.operation != TOTAL) {
        operations.entry((&row.phase, &row.metric)).or_default().insert(&row.operation);
    }
    let single = |row: &Row| {
        operations.get(&(row.phase.as_str(), row.metric.as_str())).is_some_and(|names| names.len() == 1)
    };
    document.rows.iter().filter(|row| !(row.operation == TOTAL && single(row))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::AxisHead;

    fn document(variants: &[&str], axes: &[(&str, &[&str])]) -> Document {
        let axes = axes.iter().map(|(name, values)| AxisHead {
            name: (*name).to_owned(),
            values: values.iter().map(|value| (*value).to_owned()).collect(),
        });
        let runs = variants.iter().map(|variant| crate::document::RunRecord {
            cell: Cell { variant: (*variant).to_owned(), values: vec![] },
            ..Default::default()
        });
        Document { axes: axes.collect(), runs: runs.collect(), ..Document::default() }
    }

    fn cell(variant: &str, values: &[&str]) -> Cell {
        Cell { variant: variant.to_owned(), values: values.iter().map(|value| (*value).to_owned()).collect() }
    }

    #[test]
    fn variants_have_colours_and_axes_have_panels() {
        let layout = Layout::of(&document(&["redis", "valkey"], &[("threads", &["1", "2"])]));
        let there = cell("valkey", &["2"]);
        assert_eq!((layout.series_of(&there), layout.panel_of(&there).as_str()), (1, "threads=2"));
    }

    #[test]
    fn the_last_axis_has_colours_where_there_is_one_variant() {
        let layout = Layout::of(&document(&["redis"], &[("key", &["8", "64"]), ("value", &["8", "64"])]));
        let there = cell("redis", &["8", "64"]);
        assert_eq!((layout.series_of(&there), layout.panel_of(&there).as_str()), (1, "key=8"));
    }
}
