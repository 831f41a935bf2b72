use super::pivot::pivots;
use crate::{
    document::{AxisHead, BaselineHead, Cell, Comparison, Document, OtherComparison, Row, VariantHead},
    forms::{html, text},
    select::{RowIndex, distinct},
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
        (found.len(), found[0].down.as_str(), found[0].across.as_str()),
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
fn the_last_two_of_three_axes_span_a_matrix_for_each_value_of_the_first() {
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
    assert!(found.iter().all(|pivot| pivot.down == "workers" && pivot.columns == ["1", "10"]));
}

#[test]
fn a_total_is_listed_only_beside_several_operations() {
    let listed = |document: &Document| {
        let index = RowIndex::of(&document.rows);
        let repeated = document.rows.iter().filter(|row| index.repeats(row)).count();
        let operations = index.operations(&document.rows[0].cell, "perf", "OperationsPerSecond");
        (operations.into_iter().map(str::to_owned).collect::<Vec<_>>(), repeated)
    };
    let one = document(Vec::new(), vec![row("a", &[], "GET", 1.0), row("a", &[], "TOTAL", 1.0)]);
    assert_eq!(listed(&one), (vec!["GET".to_owned()], 1));
    let mut three = one.rows.clone();
    three.insert(0, row("a", &[], "SET", 1.0));
    let (operations, repeated) = listed(&document(Vec::new(), three));
    assert_eq!((operations.len(), repeated), (3, 0), "a total of two says more");
}

/// As fred's benchmark: the same phase reads from replicas, and counts elsewhere.
fn other_operations_of_other_variants() -> Document {
    let of = |variant: &str, operation: &str, rate: f64| row(variant, &[], operation, rate);
    document(
        Vec::new(),
        vec![of("alone", "INCR", 1.0), of("cluster", "INCR", 2.0), of("replicas", "GET", 3.0)],
    )
}

#[test]
fn variants_with_another_operation_have_a_line_each_and_no_empty_line() {
    let document = other_operations_of_other_variants();
    let text = text::render(&document);
    let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("│ ")).collect();
    assert_eq!(lines.len(), 4, "a heading and three variants: {text}");
    assert!(!text.contains("---") && !text.contains("TOTAL"), "{text}");
    let page = html::render(&document);
    let results = page.split("<h2>Results").nth(1).and_then(|rest| rest.split("</section>").next());
    let results = results.unwrap_or_default();
    assert_eq!(results.matches("<tr>").count(), 4, "a heading and three variants: {results}");
}

#[test]
fn an_operation_does_not_have_the_figures_of_another() {
    let document = other_operations_of_other_variants();
    let index = RowIndex::of(&document.rows);
    let replicas = &document.rows[2].cell;
    assert_eq!(index.find(replicas, "perf", "INCR", "OperationsPerSecond"), None);
}

#[test]
fn published_figures_beside_the_headline_have_a_table_of_their_own() {
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
        Row { comparison: Some(compared.clone()), ..memory("ServerPeakBytes", 6018.0) },
        Row { comparison: Some(compared), unit: "MiB".to_owned(), ..memory("member 1 RSS", 0.001) },
        memory("ServerRssBytes", 1115.0),
    ];
    let mut document = document(Vec::new(), rows);
    let baseline = |kind: &str| {
        Some(BaselineHead { kind: kind.to_owned(), name: "t".to_owned(), ..BaselineHead::default() })
    };
    document.baseline = baseline("published");
    insta::assert_snapshot!(text::render(&document));
    document.baseline = baseline("variant");
    assert!(!text::render(&document).contains("published figures"), "they are among all figures");
    document.other_baselines.extend(baseline("published"));
    let comparison = document.rows[2].comparison.take();
    document.rows[2].other_comparisons = vec![OtherComparison { comparison, uncompared: None }];
    assert!(
        text::render(&document).contains("published figures"),
        "the published table is the second baseline"
    );
}

#[test]
fn a_load_whose_reads_miss_has_a_table_of_its_cache() {
    let of = |metric: &str, unit: &str, value: f64| Row {
        metric: metric.to_owned(),
        unit: unit.to_owned(),
        spread: spread(&[value]),
        ..row("redis", &[], "TOTAL", 0.0)
    };
    let mut rows = vec![
        row("redis", &[], "GET", 90_000.0),
        row("redis", &[], "SET (miss)", 30_000.0),
        row("redis", &[], "TOTAL", 90_000.0),
        of("HitRatio", "", 0.66),
        of("BytesPerKey", "B", 612.0),
    ];
    assert!(
        !text::render(&document(Vec::new(), rows.clone())).contains("cache"),
        "all reads found their key"
    );
    rows.extend([of("warm hit ratio", "", 0.71), of("evictions/s", "/s", 1234.0)]);
    let document = document(Vec::new(), rows);
    let text = text::render(&document);
    assert!(
        !text.contains("TOTAL"),
        "the total repeats GET, since it does not count the SETs after misses: {text}"
    );
    let table = text.split_once(": cache\n").map(|(_, table)| table.to_owned());
    let page = html::render(&document);
    let cache = page.split("<h2>Cache").nth(1).and_then(|rest| rest.split("</section>").next());
    for text in ["Hit ratio", "warm hit ratio", "evictions/s", "1,234", "B/key"] {
        assert!(cache.is_some_and(|cache| cache.contains(text)), "{text} is not in {cache:?}");
        assert!(table.as_ref().is_some_and(|table| table.contains(text)), "{text} is not in {table:?}");
    }
}
