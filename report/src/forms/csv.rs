//! The report as CSV: a line for each figure. Pure.

use crate::document::{BaselineHead, Comparison, Document, Row};
use dragstrip_crds::measured::Estimate;

/// The columns after the variant and the axes.
const COLUMNS: &str = "phase operation metric unit n mean stdev cv ci95 verdict";
/// Those of the comparison with each baseline; after the first one, they begin with its kind.
const COMPARED: &str = "baseline baseline_n ratio ratio_low ratio_high difference difference_low difference_high comparison reason";

/// Whether some report or published table has a column of this name, whatever its axes.
pub fn is_column(name: &str) -> bool {
    let columns = COLUMNS.split(' ').chain(COMPARED.split(' '));
    columns.chain(["variant", "value", "note"]).any(|column| column == name)
}

/// A line for each figure: its statistics and its comparison. Numbers have all their digits and a
/// decimal point; missing values are empty.
pub fn render(document: &Document) -> String {
    let axes = document.axes.iter().map(|axis| axis.name.clone());
    let columns = COLUMNS.split(' ').chain(COMPARED.split(' ')).map(str::to_owned);
    let of = |other: &BaselineHead| {
        COMPARED.split(' ').map(|column| format!("{}_{column}", other.kind)).collect::<Vec<_>>()
    };
    let others = document.other_baselines.iter().flat_map(of);
    let head: Vec<String> =
        std::iter::once("variant".to_owned()).chain(axes).chain(columns).chain(others).collect();
    let lines = document.rows.iter().map(|row| [names(row), figures(row), compared(document, row)].concat());
    let mut writer = csv::Writer::from_writer(Vec::new());
    for line in std::iter::once(head).chain(lines) {
        // Writing into memory cannot fail.
        let _: Result<(), csv::Error> = writer.write_record(line);
    }
    String::from_utf8(writer.into_inner().unwrap_or_default()).unwrap_or_default()
}

fn names(row: &Row) -> Vec<String> {
    let own = [&row.phase, &row.operation, &row.metric, &row.unit];
    std::iter::once(&row.cell.variant).chain(&row.cell.values).chain(own).cloned().collect()
}

fn text(value: Option<impl ToString>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

fn figures(row: &Row) -> Vec<String> {
    let spread = row.spread.as_ref();
    vec![
        spread.map_or(0, |spread| spread.repetitions).to_string(),
        text(spread.map(|spread| spread.mean)),
        text(spread.and_then(|spread| spread.standard_deviation)),
        text(spread.and_then(|spread| spread.coefficient_of_variation)),
        text(spread.and_then(|spread| spread.confidence95)),
        text(row.verdict),
    ]
}

/// The comparison of `row` with each baseline; the columns of one are there without any.
fn compared(document: &Document, row: &Row) -> Vec<String> {
    let compared = document.compared(row).map(|(_, found, why)| comparison(found, why));
    let all: Vec<String> = compared.flatten().collect();
    if all.is_empty() { comparison(None, None) } else { all }
}

fn comparison(found: Option<&Comparison>, uncompared: Option<&str>) -> Vec<String> {
    let estimate = |pick: fn(&Comparison) -> Estimate| {
        let ends = found.filter(|it| it.interval_known).map(pick);
        let high = ends.map(|it| it.high).filter(|high| high.is_finite());
        [found.map(pick).map(|it| it.mid), ends.map(|it| it.low), high].map(text)
    };
    let mut fields = vec![text(found.map(|it| it.baseline)), text(found.map(|it| it.baseline_samples))];
    fields.extend(estimate(|it| it.ratio));
    fields.extend(estimate(|it| it.difference));
    fields.push(text(found.map(|it| it.verdict)));
    fields.push(text(found.map(|it| it.reason.as_str()).or(uncompared)));
    fields
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build::tests::suite;

    #[test]
    fn each_figure_is_a_line() {
        let text = render(&suite());
        let lines: Vec<&str> = text.lines().filter(|line| !line.contains("BytesPerSecond")).collect();
        insta::assert_snapshot!(lines.join("\n"));
    }

    #[test]
    fn commas_and_quotes_are_quoted() {
        let mut document = suite();
        document.rows[0].cell.variant = "a,b or \"x\"".to_owned();
        assert!(render(&document).contains("\n\"a,b or \"\"x\"\"\","), "{}", render(&document));
    }
}
