use super::*;
use crate::{
    document::{BaselineHead, Cell, Comparison, VariantHead},
    text,
};
use dragstrip_results::statistics::spread;

fn row(variant: &str, values: &[&str], operation: &str, rate: f64) -> Row {
    Row {
        cell: Cell {
            variant: variant.to_owned(),
            values: values.iter().map(|value| (*value).to_owned()).collect(),
        },
        phase: "perf".to_owned(),
        operation: operation.to_owned(),
        metric: "OperationsPerSecond".to_owned(),
        unit: "ops/s".to_owned(),
        more_is_better: Some(true),
        spread: spread(&[rate]),
        ..Row::default()
    }
}

fn document(axes: Vec<AxisHead>, rows: Vec<Row>) -> Document {
    let variants = distinct(rows.iter().map(|row| row.cell.variant.clone()));
    let variants = variants.into_iter().map(|name| VariantHead { name, note: None }).collect();
    Document { title: "perf".to_owned(), variants, axes, rows, ..Document::default() }
}

fn connections() -> AxisHead {
    AxisHead { name: "connections".to_owned(), values: vec!["1".to_owned(), "10".to_owned()] }
}

#[test]
fn two_systems_stand_side_by_side_with_their_difference() {
    let rows = vec![
        row("etcd", &[], "set", 72_160.0),
        row("etcd", &[], "set-large", 401.0),
        row("dkv", &[], "set", 127_049.0),
        row("dkv", &[], "set-large", 814.0),
    ];
    insta::assert_snapshot!(text::render(&document(Vec::new(), rows)));
}

#[test]
fn values_of_an_axis_stand_against_operations() {
    let operations = ["set", "large-set", "get"];
    let rows = ["1", "10"].iter().flat_map(|value| {
        operations.iter().map(move |operation| row("dkv", &[value], operation, 1000.0 * value.len() as f64))
    });
    let document = document(vec![connections()], rows.collect());
    let found = pivots(&document);
    assert_eq!(
        (found.len(), found[0].corner.as_str(), found[0].across.as_str()),
        (1, "connections", "Operation")
    );
    assert_eq!(found[0].columns, operations);
    let headings: Vec<&str> = found[0].lines.iter().map(|(heading, _)| heading.as_str()).collect();
    assert_eq!(headings, ["1", "10"]);
}

#[test]
fn values_of_an_axis_stand_against_variants() {
    let rows = ["fred", "redis-rs"]
        .iter()
        .flat_map(|client| ["1", "10"].iter().map(move |value| row(client, &[value], "INCR", 1000.0)));
    let document = document(vec![connections()], rows.collect());
    let found = pivots(&document);
    assert_eq!((found.len(), found[0].across.as_str()), (1, "Variant"));
    assert!(found[0].difference && found[0].columns == ["fred", "redis-rs"], "{found:?}");
}

#[test]
fn of_three_axes_the_last_two_span_a_matrix_for_each_value_of_the_first() {
    let axis = |name: &str| AxisHead { name: name.to_owned(), ..connections() };
    let mut rows = Vec::new();
    for first in ["1", "10"] {
        for second in ["1", "10"] {
            for third in ["1", "10"] {
                rows.push(row("dkv", &[first, second, third], "set", 1.0));
            }
        }
    }
    let document = document(vec![axis("threads"), axis("workers"), axis("connections")], rows);
    let found = pivots(&document);
    let titles: Vec<&str> = found.iter().map(|pivot| pivot.title.as_str()).collect();
    assert_eq!(titles, ["set, dkv threads=1", "set, dkv threads=10"]);
    assert!(found.iter().all(|pivot| pivot.corner == "workers" && pivot.columns == ["1", "10"]));
}

#[test]
fn a_total_is_shown_only_where_it_says_more_than_its_only_operation() {
    let one = document(Vec::new(), vec![row("a", &[], "GET", 1.0), row("a", &[], "TOTAL", 1.0)]);
    assert_eq!(operations(&one, "perf"), ["GET"]);
    let single = Single::of(&one.rows);
    assert_eq!([&one.rows[0], &one.rows[1]].map(|row| single.is_twin(row)), [false, true]);
    let mut rows = one.rows.clone();
    rows.insert(0, row("a", &[], "SET", 1.0));
    let two = document(Vec::new(), rows);
    assert_eq!(operations(&two, "perf"), ["SET", "GET", "TOTAL"]);
    assert!(!Single::of(&two.rows).is_twin(&two.rows[2]));
}

#[test]
fn memory_that_was_published_has_a_table_of_its_own() {
    let memory = |metric: &str, mebibytes: f64| Row {
        metric: metric.to_owned(),
        unit: "B".to_owned(),
        spread: spread(&[mebibytes * 1024.0 * 1024.0]),
        ..row("dkv", &[], "TOTAL", 0.0)
    };
    let compared: Comparison = serde_json::from_value(serde_json::json!({
        "baseline": 1e9, "baselineSamples": 0, "ratio": {"low": 0.5, "mid": 0.5, "high": 0.5},
        "difference": {"low": -1e9, "mid": -1e9, "high": -1e9}, "intervalKnown": false, "margin": 0.03,
        "verdict": "Unclear", "reason": ""
    }))
    .unwrap();
    let rows = vec![
        row("dkv", &[], "set", 127_049.0),
        row("dkv", &[], "get", 254_098.0),
        Row { comparison: Some(compared), ..memory("ServerPeakBytes", 6018.0) },
        memory("ServerRssBytes", 1115.0),
    ];
    let mut document = document(Vec::new(), rows);
    let baseline = |kind: &str| {
        Some(BaselineHead { kind: kind.to_owned(), name: "t".to_owned(), ..BaselineHead::default() })
    };
    document.baseline = baseline("published");
    insta::assert_snapshot!(text::render(&document));
    document.baseline = baseline("variant");
    assert!(!text::render(&document).contains("memory"), "it is among all figures");
}
