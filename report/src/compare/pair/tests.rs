use super::*;
use crate::document::{Cell, Sample};
use dragstrip_results::statistics::spread;

fn row(values: &[f64]) -> Row {
    Row {
        metric: "OperationsPerSecond".to_owned(),
        more_is_better: Some(true),
        samples: (1..).zip(values).map(sample).collect(),
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

/// Each of a server of its own.
fn sample((repetition, value): (u32, &f64)) -> Sample {
    Sample {
        run: String::new(),
        repetition,
        server: Some(repetition.to_string()),
        value: *value,
        verdict: None,
        outlier: false,
    }
}

fn rules() -> Rules {
    Rules::default()
}

#[test]
fn a_published_figure_within_reach_of_one_more_measurement_is_unclear() {
    // Mean 110, deviation 2, so +-4.97 of the mean, and +-9.94 of one more measurement.
    let here = row(&[108.0, 110.0, 112.0]);
    let near = with_published(&here, &published(102.0), &rules()).unwrap();
    assert_eq!(near.verdict, ComparisonVerdict::Unclear, "{near:?}");
    assert!(near.ratio.low > 1.0, "the mean's own interval excludes it: {near:?}");
    let far = with_published(&here, &published(95.0), &rules()).unwrap();
    assert_eq!(far.verdict, ComparisonVerdict::Better, "{far:?}");
    let alone = with_published(&row(&[110.0]), &published(50.0), &rules()).unwrap();
    assert_eq!((alone.verdict, alone.interval_known), (ComparisonVerdict::Unclear, false));
}

#[test]
fn nothing_is_divided_by_zero() {
    let nothing = row(&[0.0, 0.0, 0.0]);
    let same = with_measured(&nothing, &nothing, &rules()).unwrap();
    assert_eq!(same.verdict, ComparisonVerdict::Same, "{same:?}");
    let why = with_measured(&row(&[3.0, 4.0]), &nothing, &rules()).unwrap_err();
    assert!(why.contains("baseline's figure is 0"), "{why}");
    assert!(with_published(&row(&[3.0]), &published(0.0), &rules()).is_err());
    let gone = with_measured(&nothing, &row(&[3.0, 4.0, 3.5]), &rules()).unwrap();
    assert_eq!(gone.verdict, ComparisonVerdict::Worse, "{gone:?}");
}

/// The row with these servers.
fn on(servers: &[&str], row: &Row) -> Row {
    let mut row = row.clone();
    for (sample, server) in row.samples.iter_mut().zip(servers) {
        sample.server = Some((*server).to_owned());
    }
    row
}

#[test]
fn repetitions_on_one_start_of_each_server_call_no_winner() {
    let (fast, slow) = (row(&[110.0, 111.0, 110.5, 110.2]), row(&[100.0, 101.0, 100.5, 100.2]));
    let once = with_measured(&on(&["a"; 4], &fast), &on(&["b"; 4], &slow), &rules()).unwrap();
    assert_eq!((once.verdict, once.interval_known, once.chance), (ComparisonVerdict::Unclear, false, None));
    assert!(once.reason.contains("a single start of a server"), "{}", once.reason);
    let alike = row(&[109.0, 109.1, 111.0, 111.1]);
    let each = with_measured(&on(&["a", "b", "c", "d"], &alike), &on(&["e", "f", "g", "h"], &slow), &rules());
    let twice =
        with_measured(&on(&["a", "a", "b", "b"], &alike), &on(&["e", "e", "f", "f"], &slow), &rules());
    let (each, twice) = (each.unwrap(), twice.unwrap());
    assert!(twice.ratio.high > each.ratio.high, "two starts are two measurements: {twice:?} {each:?}");
    let same = with_measured(&on(&["a"; 4], &fast), &on(&["a"; 4], &slow), &rules()).unwrap();
    assert_eq!(same.verdict, ComparisonVerdict::Better, "both sides measured the same server: {same:?}");
    let table = with_published(&on(&["a"; 4], &fast), &published(50.0), &rules()).unwrap();
    assert_eq!((table.verdict, table.interval_known), (ComparisonVerdict::Unclear, false));
}

#[test]
fn blocks_cancel_the_drift_of_the_machine() {
    let (here, there) = (row(&[105.0, 110.3, 115.4, 120.9]), row(&[100.0, 105.0, 110.0, 115.0]));
    let apart = with_measured(&here, &there, &rules()).unwrap();
    assert_eq!(apart.verdict, ComparisonVerdict::Unclear, "{apart:?}");
    let in_blocks = Rules { in_blocks: true, ..rules() };
    let paired = with_measured(&here, &there, &in_blocks).unwrap();
    assert_eq!(paired.verdict, ComparisonVerdict::Better, "{paired:?}");
    assert!(paired.detectable < apart.detectable && paired.chance < apart.chance, "{paired:?}");
}
