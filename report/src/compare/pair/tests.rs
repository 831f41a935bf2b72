use super::*;
use crate::document::Cell;
use dragstrip_results::statistics::spread;

fn row(values: &[f64]) -> Row {
    Row {
        metric: "OperationsPerSecond".to_owned(),
        more_is_better: Some(true),
        spread: spread(values),
        ..Row::default()
    }
}

fn published(value: f64) -> published::Figure {
    published::Figure {
        cell: Cell::default(),
        phase: String::new(),
        operation: String::new(),
        metric: "OperationsPerSecond".to_owned(),
        value,
        unit: String::new(),
        note: None,
    }
}

fn noise() -> verdict::Noise {
    verdict::Noise::default()
}

#[test]
fn a_published_figure_within_reach_of_one_more_measurement_is_unclear() {
    // Mean 110, deviation 2, so +-4.97 of the mean, and +-9.94 of one more measurement.
    let here = row(&[108.0, 110.0, 112.0]);
    let near = with_published(&here, &published(102.0), &noise()).unwrap();
    assert_eq!(near.verdict, ComparisonVerdict::Unclear, "{near:?}");
    assert!(near.ratio.low > 1.0, "the mean's own interval excludes it: {near:?}");
    let far = with_published(&here, &published(95.0), &noise()).unwrap();
    assert_eq!(far.verdict, ComparisonVerdict::Better, "{far:?}");
    let alone = with_published(&row(&[110.0]), &published(50.0), &noise()).unwrap();
    assert_eq!((alone.verdict, alone.interval_known), (ComparisonVerdict::Unclear, false));
}

#[test]
fn nothing_is_divided_by_zero() {
    let nothing = row(&[0.0, 0.0, 0.0]);
    let same = with_measured(&nothing, &nothing, &noise()).unwrap();
    assert_eq!(same.verdict, ComparisonVerdict::Same, "{same:?}");
    let why = with_measured(&row(&[3.0, 4.0]), &nothing, &noise()).unwrap_err();
    assert!(why.contains("baseline's figure is 0"), "{why}");
    assert!(with_published(&row(&[3.0]), &published(0.0), &noise()).is_err());
    let gone = with_measured(&nothing, &row(&[3.0, 4.0, 3.5]), &noise()).unwrap();
    assert_eq!(gone.verdict, ComparisonVerdict::Worse, "{gone:?}");
}
