//! Saturation searches: the latency that comes with more throughput, the variants side by side. Pure.

use super::grid::{Column, Grid, Item, Kind};
use crate::{
    document::{Cell, Document, RunRecord, Search},
    figures::{figure, heading},
    select::{grouped, variants},
};
use dragstrip_crds::{measured::LatencySummary, thresholds::MetricName, units::thousands};
use std::collections::{BTreeMap, BTreeSet};

/// Most combinations side by side: more do not fit a terminal.
const BESIDE: usize = 4;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Load {
    Rising,
    /// An open loop at shares of the throughput found.
    Shares,
}

/// Throughput, or the rate of an open loop, and p99 in milliseconds.
pub type Place = (f64, f64);

/// The measurements of a repetition of a search: each value, or rate, once.
pub struct Curve<'a> {
    pub run: &'a RunRecord,
    pub search: &'a Search,
    pub load: Load,
    pub points: BTreeMap<u64, Place>,
}

impl Curve<'_> {
    pub fn is_knee(&self, value: u64) -> bool {
        self.load == Load::Rising && self.search.found.knee.as_ref().is_some_and(|knee| knee.value == value)
    }
}

/// The curves of `document`, one for each repetition and load of a search.
pub fn curves(document: &Document) -> impl Iterator<Item = Curve<'_>> {
    let searches = document.runs.iter().flat_map(|run| run.searches.iter().map(move |search| (run, search)));
    searches.flat_map(|(run, search)| of_search(run, search))
}

fn of_search<'a>(run: &'a RunRecord, search: &'a Search) -> impl Iterator<Item = Curve<'a>> {
    let rising = search.found.points.iter().filter_map(|point| {
        let place = place(point.operations_per_second, &point.latency_milliseconds)?;
        Some((Load::Rising, point.repetition, point.value, place))
    });
    let shares = search.found.rates.iter().filter_map(|share| {
        let place = place(share.value as f64, &share.latency_milliseconds)?;
        Some((Load::Shares, share.repetition, (share.share? * 1e6).round().to_bits(), place))
    });
    let each = grouped(rising.chain(shares), |(load, repetition, ..)| (*load, *repetition));
    each.into_iter().map(move |((load, _), measured)| {
        let points = by_value(measured.into_iter().map(|(.., value, place)| (value, place)));
        Curve { run, search, load, points }
    })
}

/// The one of several measurements of a value that has the median latency, by value.
fn by_value(points: impl Iterator<Item = (u64, Place)>) -> BTreeMap<u64, Place> {
    let typical = |(value, mut measured): (u64, Vec<(u64, Place)>)| {
        measured.sort_by(|(_, a), (_, b)| a.1.total_cmp(&b.1));
        Some((value, measured.get(measured.len() / 2)?.1))
    };
    grouped(points, |(value, _)| *value).into_iter().filter_map(typical).collect()
}

fn place(operations_per_second: f64, latency: &LatencySummary) -> Option<Place> {
    Some((operations_per_second, latency.p99.filter(|p99| *p99 > 0.0)?))
}

/// Latency against load of each search, for the combinations that can stand side by side: the
/// variants, or those of the only variant.
pub fn saturation(document: &Document) -> Vec<Grid> {
    let several = variants(document).len() > 1;
    let panels = grouped(curves(document), |curve| {
        let values = several.then_some(&curve.run.cell.values);
        (&curve.search.phase, format!("{:?}", curve.search.found.raise), curve.load, values)
    });
    let grids = panels.into_iter().map(|((phase, raised, load, _), curves)| {
        let (title, first) = match load {
            Load::Rising => (format!("{phase}: rising {raised}, the knee marked <"), raised),
            Load::Shares => {
                (format!("{phase}: open loop at shares of the throughput found"), "Share".to_owned())
            }
        };
        let cells = grouped(curves, |curve| &curve.run.cell);
        cells
            .chunks(BESIDE)
            .filter(|_| cells.len() > 1)
            .map(|cells| grid(document, &title, &first, cells))
            .collect::<Vec<_>>()
    });
    grids.flatten().collect()
}

fn grid(document: &Document, title: &str, first: &str, cells: &[(&Cell, Vec<Curve>)]) -> Grid {
    let points = |curves: &[Curve]| by_value(curves.iter().flat_map(|curve| curve.points.clone()));
    let measured: Vec<_> = cells.iter().map(|(_, curves)| (points(curves), curves)).collect();
    let figures = [MetricName::OperationsPerSecond, MetricName::P99Milliseconds].map(|name| name.to_string());
    let of_cell = |(cell, _): &(&Cell, _)| {
        let label = cell.label(&document.axes);
        figures.each_ref().map(|metric| format!("{label} {}", heading(metric, "")))
    };
    let headings = std::iter::once(first.to_owned()).chain(cells.iter().flat_map(of_cell));
    let line = |value: u64| {
        let of_cell = measured.iter().flat_map(|(points, curves)| {
            let mark = if curves.iter().any(|curve| curve.is_knee(value)) { " <" } else { "" };
            let place = points.get(&value);
            let rate = place.map(|(rate, _)| figure(&figures[0], *rate));
            [rate, place.map(|(_, p99)| figure(&figures[1], *p99) + mark)].map(Item::or_nothing)
        });
        let shares = measured.iter().flat_map(|(_, curves)| *curves).any(|curve| curve.load == Load::Shares);
        let load = if shares { format!("{:.0} %", f64::from_bits(value) / 1e4) } else { thousands(value) };
        std::iter::once(Item::text(load)).chain(of_cell).collect()
    };
    let values: BTreeSet<u64> = measured.iter().flat_map(|(points, _)| points.keys().copied()).collect();
    Grid {
        title: title.to_owned(),
        columns: headings.map(|heading| Column::new(heading, Kind::Figure)).collect(),
        lines: values.into_iter().map(line).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forms::{markdown, text};
    use serde_json::{Value, json};

    /// A run whose search measured these values with this many operations per second each.
    fn searched(variant: &str, values: &[u64], knee: u64, each: u64) -> RunRecord {
        let point = |value: &u64| {
            json!({"repetition": 1, "value": value, "operationsPerSecond": each * *value,
                "latencyMilliseconds": {"p99": 0.1 * *value as f64}, "configMap": "c"})
        };
        let share = json!({"repetition": 1, "share": 0.5, "value": 500 * each,
            "operationsPerSecond": 1.0, "latencyMilliseconds": {"p99": 0.25}, "configMap": "c"});
        let search = json!({"phase": "knee", "raise": "Connections", "rates": [share],
            "points": values.iter().map(point).collect::<Vec<Value>>(),
            "knee": {"value": knee, "low": knee, "high": knee, "operationsPerSecond": 1.0, "why": "Gain"}});
        let mut run = RunRecord { name: variant.to_owned(), ..RunRecord::default() };
        variant.clone_into(&mut run.cell.variant);
        run.searches = vec![serde_json::from_value(search).unwrap()];
        run
    }

    fn lines(grid: &Grid) -> Vec<String> {
        let cells =
            |line: &Vec<Item>| line.iter().map(|item| item.render(str::to_owned, str::to_owned)).collect();
        grid.lines
            .iter()
            .map(|line| {
                let cells: Vec<String> = cells(line);
                cells.join(" | ")
            })
            .collect()
    }

    #[test]
    fn variants_stand_side_by_side_with_a_gap_where_one_was_not_measured() {
        let runs = vec![searched("redis", &[1, 2, 4], 2, 1000), searched("valkey", &[1, 4], 4, 2000)];
        let document = Document { runs, ..Document::default() };
        let grids = saturation(&document);
        assert_eq!(grids.len(), 2, "the rising load, and the shares");
        let headings: Vec<&str> = grids[0].columns.iter().map(|column| column.heading.as_str()).collect();
        assert_eq!(headings, ["Connections", "redis Ops/s", "redis p99 ms", "valkey Ops/s", "valkey p99 ms"]);
        assert_eq!(
            lines(&grids[0]),
            [
                "1 | 1,000 | 0.100 | 2,000 | 0.100",
                "2 | 2,000 | 0.200 < | --- | ---",
                "4 | 4,000 | 0.400 | 8,000 | 0.400 <"
            ]
        );
        assert_eq!(lines(&grids[1]), ["50 % | 500,000 | 0.250 | 1,000,000 | 0.250"]);
        for text in [text::render(&document), markdown::render(&document)] {
            assert!(text.contains("knee: rising Connections") && text.contains("8,000"), "{text}");
        }
    }

    #[test]
    fn one_variant_alone_stands_beside_nothing_and_many_share_no_table() {
        let runs = |count: usize| (0..count).map(|one| searched(&format!("v{one}"), &[1], 1, 1)).collect();
        assert_eq!(saturation(&Document { runs: runs(1), ..Document::default() }), []);
        let many = saturation(&Document { runs: runs(6), ..Document::default() });
        let columns: Vec<usize> = many.iter().map(|grid| grid.columns.len()).collect();
        assert_eq!(columns, [9, 5, 9, 5], "four beside each other, then two, for each load");
    }
}
