//! The report as CSV: every figure, or every measurement. Pure.

use crate::document::{Document, Row};
use dragstrip_crds::measured::Estimate;

/// The columns of every figure, behind its variant and the values of its axes.
const FIGURES: [&str; 20] = [
    "phase",
    "operation",
    "metric",
    "unit",
    "n",
    "mean",
    "stdev",
    "cv",
    "ci95",
    "verdict",
    "baseline",
    "baseline_n",
    "ratio",
    "ratio_low",
    "ratio_high",
    "difference",
    "difference_low",
    "difference_high",
    "comparison",
    "reason",
];

/// Those of every measurement.
const SAMPLES: [&str; 9] =
    ["phase", "operation", "metric", "unit", "run", "repetition", "value", "verdict", "outlier"];

/// Whether a report or a published table has a column of this `name`, whatever its axes.
pub fn is_column(name: &str) -> bool {
    ["variant", "note"].iter().chain(&FIGURES).chain(&SAMPLES).any(|column| *column == name)
}

/// A line per figure: its statistics and how it stands to the baseline. Numbers are written
/// to their last digit, with a point; what is not known is empty.
pub fn render(document: &Document) -> String {
    let lines = document.rows.iter().map(|row| names(row).chain(figures(row)).collect());
    table(head(document, &FIGURES), lines)
}

/// A line per measurement, Invalid ones too.
pub fn samples(document: &Document) -> String {
    let lines = document.rows.iter().flat_map(|row| {
        row.samples.iter().map(move |sample| {
            let own = [
                sample.run.clone(),
                sample.repetition.to_string(),
                sample.value.to_string(),
                sample.verdict.map(|verdict| verdict.to_string()).unwrap_or_default(),
                sample.outlier.to_string(),
            ];
            names(row).chain(own).collect()
        })
    });
    table(head(document, &SAMPLES), lines)
}

fn head(document: &Document, columns: &[&str]) -> Vec<String> {
    let axes = document.axes.iter().map(|axis| axis.name.clone());
    let columns = columns.iter().map(|column| (*column).to_owned());
    std::iter::once("variant".to_owned()).chain(axes).chain(columns).collect()
}

fn table(head: Vec<String>, lines: impl Iterator<Item = Vec<String>>) -> String {
    let lines: Vec<String> = std::iter::once(head).chain(lines).map(|line| record(&line) + "\n").collect();
    lines.concat()
}

/// The fields as RFC 4180 has them.
fn record(fields: &[String]) -> String {
    let quoted = |field: &String| {
        if field.contains([',', '"', '\n', '\r']) {
            format!("\"{}\"", field.replace('"', "\"\""))
        } else {
            field.clone()
        }
    };
    fields.iter().map(quoted).collect::<Vec<_>>().join(",")
}

fn names(row: &Row) -> impl Iterator<Item = String> {
    let own = [&row.phase, &row.operation, &row.metric, &row.unit];
    let names = std::iter::once(&row.cell.variant).chain(&row.cell.values).chain(own);
    names.cloned().collect::<Vec<_>>().into_iter()
}

fn known(value: Option<f64>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

fn figures(row: &Row) -> Vec<String> {
    let spread = row.spread.as_ref();
    let found = row.comparison.as_ref();
    let estimate = |pick: fn(&crate::document::Comparison) -> Estimate| {
        let interval = found.map(pick);
        let ends = found.filter(|it| it.interval_known).map(pick);
        [interval.map(|it| it.mid), ends.map(|it| it.low), ends.map(|it| it.high)].map(known)
    };
    let mut fields = vec![
        spread.map_or(0, |spread| spread.repetitions).to_string(),
        known(spread.map(|spread| spread.mean)),
        known(spread.and_then(|spread| spread.standard_deviation)),
        known(spread.and_then(|spread| spread.coefficient_of_variation)),
        known(spread.and_then(|spread| spread.confidence95)),
        row.verdict.map(|verdict| verdict.to_string()).unwrap_or_default(),
        known(found.map(|it| it.baseline)),
        found.map(|it| it.baseline_samples.to_string()).unwrap_or_default(),
    ];
    fields.extend(estimate(|it| it.ratio));
    fields.extend(estimate(|it| it.difference));
    fields.push(found.map(|it| it.verdict.to_string()).unwrap_or_default());
    fields.push(found.map(|it| it.reason.clone()).or_else(|| row.uncompared.clone()).unwrap_or_default());
    fields
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build::tests::{invalid_run, suite};

    #[test]
    fn each_figure_is_a_line() {
        let text = render(&suite());
        let lines: Vec<&str> = text.lines().filter(|line| !line.contains("BytesPerSecond")).collect();
        insta::assert_snapshot!(lines.join("\n"));
    }

    #[test]
    fn each_measurement_is_a_line_and_invalid_ones_say_so() {
        let text = samples(&invalid_run());
        let rates: Vec<&str> = text.lines().filter(|line| line.contains("GET,OperationsPerSecond")).collect();
        insta::assert_snapshot!(rates.join("\n"));
    }

    #[test]
    fn commas_and_quotes_are_quoted() {
        let fields = ["a,b", "say \"x\"", "plain"].map(str::to_owned);
        assert_eq!(record(&fields), "\"a,b\",\"say \"\"x\"\"\",plain");
    }
}
