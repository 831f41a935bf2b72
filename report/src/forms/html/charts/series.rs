//! Assigns colours and panels to combinations.

use super::svg::COLOURS;
use crate::{
    document::{Cell, Document},
    select::variants,
};
use maud::{Markup, html};

/// Each variant has a colour and a number, each combination of axis values a panel. With a single
/// variant, the values of the last axis have the colours.
pub struct SeriesLayout {
    /// The names of the series, in the order of their colours.
    series: Vec<String>,
    axes: Vec<String>,
    /// The axis whose values have the colours; `None` if variants have them.
    coloured: Option<usize>,
}

impl SeriesLayout {
    pub fn of(document: &Document) -> Self {
        let axes = document.axes.iter().map(|axis| axis.name.clone()).collect();
        let variants = variants(document);
        let last_axis = document.axes.iter().rposition(|axis| axis.values.len() > 1);
        let coloured = last_axis.filter(|_| variants.len() < 2);
        let series = match coloured.and_then(|axis| document.axes.get(axis)) {
            Some(axis) => axis.values.iter().map(|value| format!("{}={value}", axis.name)).collect(),
            None => variants.into_iter().map(str::to_owned).collect(),
        };
        Self { series, axes, coloured }
    }

    pub fn series_of(&self, cell: &Cell) -> usize {
        let name = self.series_name(cell);
        self.series.iter().position(|series| *series == name).unwrap_or_default()
    }

    pub fn series_name(&self, cell: &Cell) -> String {
        let axis = self.coloured.and_then(|axis| Some((self.axes.get(axis)?, cell.values.get(axis)?)));
        axis.map_or_else(|| cell.variant.clone(), |(axis, value)| format!("{axis}={value}"))
    }

    /// The number of a series; `None` if there is only one series.
    pub fn number(&self, series: usize) -> Option<String> {
        (self.series.len() > 1).then(|| (series + 1).to_string())
    }

    /// The axis values that the combinations of a panel share; empty if there is only one panel.
    pub fn panel_of(&self, cell: &Cell) -> String {
        let values = self.axes.iter().zip(&cell.values).enumerate();
        let values = values.filter(|(index, _)| Some(*index) != self.coloured);
        values.map(|(_, (axis, value))| format!("{axis}={value}")).collect::<Vec<_>>().join(" ")
    }

    /// The panel and, if there are more series than colours, the numbers of the series in the chart,
    /// so that no colour appears twice.
    pub fn chart_of(&self, cell: &Cell) -> String {
        let panel = self.panel_of(cell);
        if self.series.len() <= COLOURS {
            return panel;
        }
        let first = self.series_of(cell) / COLOURS * COLOURS;
        let last = self.series.len().min(first + COLOURS);
        let separator = if panel.is_empty() { "" } else { " · " };
        format!("{panel}{separator}{} to {last}", first + 1)
    }

    /// The meaning of colours and numbers; empty if there is only one series.
    pub fn legend(&self) -> Markup {
        html! {
            @if self.series.len() > 1 {
                ul.legend {
                    @for (index, name) in self.series.iter().enumerate() {
                        li { i class={ "b" (index % COLOURS) } {} " " b { (index + 1) } " " (name) }
                    }
                }
            }
        }
    }
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
        let layout = SeriesLayout::of(&document(&["redis", "valkey"], &[("threads", &["1", "2"])]));
        let there = cell("valkey", &["2"]);
        assert_eq!((layout.series_of(&there), layout.panel_of(&there).as_str()), (1, "threads=2"));
    }

    #[test]
    fn more_series_than_colours_have_several_charts() {
        let names: Vec<String> = (1..=20).map(|number| format!("v{number}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let layout = SeriesLayout::of(&document(&names, &[("threads", &["1", "2"])]));
        let charts = ["v8", "v9", "v20"].map(|variant| layout.chart_of(&cell(variant, &["2"])));
        assert_eq!(charts, ["threads=2 · 1 to 8", "threads=2 · 9 to 16", "threads=2 · 17 to 20"]);
    }

    #[test]
    fn with_one_variant_the_last_axis_has_the_colours() {
        let layout =
            SeriesLayout::of(&document(&["redis"], &[("key", &["8", "64"]), ("value", &["8", "64"])]));
        let there = cell("redis", &["8", "64"]);
        assert_eq!((layout.series_of(&there), layout.panel_of(&there).as_str()), (1, "key=8"));
        assert_eq!(layout.series_name(&there), "value=64", "a value alone does not say of what");
    }
}
