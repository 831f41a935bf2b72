//! The table of every figure with its measurements. Pure.

use super::{
    cells::{has_ratio, measurements, ratio_heading, ratio_item, verdict_item},
    grid::{Column, Grid, Item, Kind, identity, identity_columns},
};
use crate::{
    document::{BaselineHead, Document, Row},
    figures::{figure, heading, percent},
    select::varied_axes,
};

pub fn all_figures(document: &Document) -> Grid {
    let axes = varied_axes(document);
    let mut columns = identity_columns(&axes);
    columns.extend(["Phase", "Operation", "Metric"].map(Column::name));
    columns.extend(["n", "Mean", "Stdev", "CV", "±95%"].map(|heading| Column::new(heading, Kind::Figure)));
    let compared = |baseline: &BaselineHead| {
        [
            Column::new(ratio_heading(baseline), Kind::Figure),
            Column::new("Difference", Kind::Figure),
            Column::new("Verdict", Kind::Choice),
        ]
    };
    columns.extend(document.baselines().flat_map(compared));
    columns.push(Column::new("Measurements", Kind::Words));
    let line = |row: &Row| {
        let mut line = identity(&axes, &row.cell);
        let metric = heading(&row.metric, &row.unit);
        line.extend([row.phase.clone(), row.operation.clone(), metric].map(Item::text));
        line.extend(statistics(row));
        for (_, found, why) in document.compared(row) {
            let shown = found.filter(|found| has_ratio(found));
            let difference = Item::or_nothing(shown.map(|found| percent(found.ratio.mid)));
            line.extend([ratio_item(found), difference, verdict_item(found, why)]);
        }
        line.push(measurements(row));
        line
    };
    let lines = document.rows.iter().map(line).collect();
    Grid { title: String::new(), columns, lines }
}

fn statistics(row: &Row) -> [Item; 5] {
    let spread = row.spread.as_ref();
    let value = |value: Option<f64>| Item::or_nothing(value.map(|value| figure(&row.metric, value)));
    let variation = spread.and_then(|spread| spread.coefficient_of_variation);
    [
        Item::text(spread.map_or(0, |spread| spread.repetitions).to_string()),
        value(spread.map(|spread| spread.mean)),
        value(spread.and_then(|spread| spread.standard_deviation)),
        Item::or_nothing(variation.map(|variation| format!("{:.1} %", variation * 100.0))),
        value(spread.and_then(|spread| spread.confidence95)),
    ]
}
