//! Names the best of several combinations, but only where comparisons call it. Pure.

use super::{limits, pair};
use crate::{
    document::{Document, Row},
    select::grouped,
};
use dragstrip_crds::suite::ComparisonVerdict;

/// The best of several rows, and those that cannot be distinguished from it.
#[derive(Debug, Clone, PartialEq)]
pub struct Leaders<'a> {
    /// The row with the best mean first; it alone if it is better than each other one.
    pub first: Vec<&'a Row>,
    /// How many were compared.
    pub of: usize,
}

/// What the rules of `document` call `row` beside `other`; `None` if they cannot be compared.
pub fn between(document: &Document, row: &Row, other: &Row) -> Option<ComparisonVerdict> {
    let found = pair::with_measured(row, other, &document.rules).ok()?;
    let refused = limits::by_both_clients(document, row, other);
    Some(if refused { ComparisonVerdict::NotComparable } else { found.verdict })
}

/// The leaders among `rows` of one metric, of two measured ones or more. Rows that are not comparable
/// with a baseline of this document are left out.
pub fn leaders<'a>(document: &Document, rows: &[&'a Row]) -> Option<Leaders<'a>> {
    let refused = |row: &Row| {
        let found = row.comparison.as_ref().map(|comparison| comparison.verdict);
        found == Some(ComparisonVerdict::NotComparable)
    };
    let mean = |row: &Row| row.spread.map_or(f64::NAN, |spread| spread.mean);
    let mut ranked: Vec<&Row> =
        rows.iter().copied().filter(|row| row.spread.is_some() && !refused(row)).collect();
    let more_is_better = ranked.first()?.more_is_better?;
    ranked.sort_by(|one, other| mean(one).total_cmp(&mean(other)));
    if more_is_better {
        ranked.reverse();
    }
    let (best, others) = ranked.split_first().filter(|(_, others)| !others.is_empty())?;
    let called = |other: &Row| between(document, best, other) == Some(ComparisonVerdict::Better);
    let alike = others.iter().copied().filter(|other| !called(other));
    Some(Leaders { first: std::iter::once(*best).chain(alike).collect(), of: ranked.len() })
}

/// The first row of the variant that leads alone among `rows` of one metric in every phase and at all
/// values of the axes.
pub fn best<'a>(document: &Document, rows: &[&'a Row]) -> Option<&'a Row> {
    let places = grouped(rows.iter().copied(), |row| (&row.phase, &row.operation, &row.cell.values));
    let alone = |rows: &[&'a Row]| match leaders(document, rows)?.first.as_slice() {
        [only] => Some(*only),
        _ => None,
    };
    let mut winners = places.iter().map(|(_, rows)| alone(rows));
    let first = winners.next()??;
    winners.all(|one| one.is_some_and(|one| one.cell.variant == first.cell.variant)).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{document::Sample, rules::Rules};
    use dragstrip_crds::{suite::Margin, thresholds::MetricName};
    use dragstrip_results::statistics::spread;
    use rand::{SeedableRng, rngs::StdRng};
    use rand_distr::{Distribution, Normal};

    /// A measurement of a server of its own.
    fn sample(variant: &str, value: f64, repetition: u32) -> Sample {
        let server = Some(format!("{variant}-{repetition}"));
        Sample { repetition, server, value, ..Sample::default() }
    }

    fn row(variant: &str, values: &[f64]) -> Row {
        let mut row = Row {
            metric: "OperationsPerSecond".to_owned(),
            more_is_better: Some(true),
            samples: values
                .iter()
                .zip(1..)
                .map(|(value, repetition)| sample(variant, *value, repetition))
                .collect(),
            spread: spread(values),
            ..Row::default()
        };
        row.cell.variant = variant.to_owned();
        row
    }

    fn names(rows: &[Row]) -> (Vec<String>, usize) {
        let rows: Vec<&Row> = rows.iter().collect();
        let found = leaders(&Document::default(), &rows).unwrap();
        (found.first.iter().map(|row| row.cell.variant.clone()).collect(), found.of)
    }

    #[test]
    fn the_best_is_alone_only_if_it_is_better_than_each_other_one() {
        let fast = row("fast", &[150.0, 151.0, 149.0]);
        let slow = row("slow", &[100.0, 101.0, 99.0]);
        let unsure = row("unsure", &[90.0, 145.0, 190.0]);
        assert_eq!(names(&[slow.clone(), fast.clone()]), (vec!["fast".into()], 2));
        let all = [slow.clone(), unsure.clone(), fast.clone()];
        assert_eq!(names(&all), (vec!["fast".into(), "unsure".into()], 3));
        let once = [row("a", &[200.0]), row("b", &[100.0])];
        assert_eq!(names(&once).0.len(), 2, "one measurement proves nothing");
        let mut less = [slow.clone(), fast.clone()];
        for row in &mut less {
            row.more_is_better = Some(false);
        }
        assert_eq!(names(&less).0, ["slow"], "less is better");
        assert_eq!(leaders(&Document::default(), &[&fast]), None, "nothing to compare with");
    }

    #[test]
    fn the_best_of_all_leads_everywhere_and_values_of_an_axis_do_not_race() {
        let at = |value: &str, mut row: Row| {
            row.cell.values = vec![value.to_owned()];
            row
        };
        let best_of = |rows: &[Row]| {
            let rows: Vec<&Row> = rows.iter().collect();
            best(&Document::default(), &rows).map(|row| row.cell.label(&[]))
        };
        let (low, high) = ([100.0, 101.0, 99.0], [200.0, 201.0, 199.0]);
        assert_eq!(best_of(&[at("1", row("a", &low)), at("10", row("a", &high))]), None, "one variant");
        let first = [at("1", row("a", &low)), at("1", row("b", &high))];
        assert_eq!(best_of(&first).as_deref(), Some("b"));
        let same = [at("10", row("a", &high)), at("10", row("b", &high))];
        assert_eq!(best_of(&[first, same].concat()), None, "not distinguishable at 10");
    }

    #[test]
    fn the_rules_of_the_comparison_hold_for_the_best_too() {
        let drifting =
            [row("fast", &[110.0, 121.0, 132.0, 143.0]), row("slow", &[100.0, 110.0, 120.0, 130.0])];
        let rows: Vec<&Row> = drifting.iter().collect();
        let best = |rules| {
            let document = Document { rules, ..Document::default() };
            leaders(&document, &rows).unwrap().first.len() == 1
        };
        assert!(!best(Rules::default()), "the drift hides the difference of separate samples");
        let in_blocks = || Rules { in_blocks: true, ..Rules::default() };
        assert!(best(in_blocks()), "each block has the same difference");
        let share = "0.3".parse().unwrap();
        let margins = vec![Margin { metric: MetricName::OperationsPerSecond, share }];
        assert!(!best(Rules { margins, ..in_blocks() }), "10 % is within the declared margin");
    }

    #[test]
    fn equal_combinations_seldom_have_a_best_one() {
        let mut random = StdRng::seed_from_u64(7);
        for (variants, repetitions, deviation) in [(2, 3, 5.0), (2, 5, 10.0), (4, 3, 10.0), (8, 3, 10.0)] {
            let normal = Normal::new(100.0, deviation).unwrap();
            let cases = 1_000;
            let named = (0..cases).filter(|_| {
                let rows: Vec<Row> = (0..variants)
                    .map(|place| {
                        row(
                            &format!("v{place}"),
                            &normal.sample_iter(&mut random).take(repetitions).collect::<Vec<_>>(),
                        )
                    })
                    .collect();
                names(&rows).0.len() == 1
            });
            let named = named.count();
            assert!(
                named <= cases * 6 / 100,
                "{variants} equal variants: {named} of {cases} have a best one"
            );
        }
    }
}
