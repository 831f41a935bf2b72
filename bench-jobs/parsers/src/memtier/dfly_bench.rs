//! dfly_bench's result file: sections and names as memtier's, since v1.38.2.
//! It has counts, rates, mean, smallest and largest latency and a few
//! percentiles, but neither histograms nor hits.

use super::{MemtierError, document::Value, operations::command};
use crate::parsed::{LatencyReport, Operation, Parsed, PrintedLatency, ToolName, only_duration};

pub(super) fn read(document: &Value) -> Result<Parsed, MemtierError> {
    let stats = document.get("ALL STATS").ok_or_else(|| missing("the file", "ALL STATS"))?;
    let totals = stats.get("Totals").ok_or_else(|| missing("ALL STATS", "Totals"))?;
    let total = totals.whole("Count").ok_or_else(|| missing("Totals", "Count"))?;
    let operations = stats
        .members()
        .iter()
        .filter(|(label, value)| label != "Totals" && value.get("Count").is_some())
        .map(|(label, value)| operation(label, value))
        .collect::<Result<Vec<_>, _>>()?;
    let sum: u64 = operations.iter().filter_map(|operation| operation.count).sum();
    if sum != total {
        return Err(MemtierError::Contradiction(format!(
            "the rows add up to {sum} operations, the total is {total}"
        )));
    }
    let operations: Vec<_> =
        operations.into_iter().filter(|operation| operation.count.is_some_and(|count| count > 0)).collect();
    let milliseconds = stats.get("Runtime").and_then(|runtime| runtime.number("Total duration"));
    let seconds = milliseconds.map(|number| number / 1000.0).filter(|seconds| *seconds > 0.0);
    Ok(Parsed {
        seconds: seconds.or_else(|| only_duration(&operations)),
        operations,
        together: true,
        tool: Some(ToolName { name: "dfly_bench".to_owned(), version: None }),
        ..Parsed::default()
    })
}

fn operation(label: &str, value: &Value) -> Result<Operation, MemtierError> {
    let count = value.whole("Count").ok_or_else(|| missing(label, "Count"))?;
    let rate = value.number("Ops/sec").filter(|rate| rate.is_finite() && *rate >= 0.0);
    Ok(Operation {
        count: Some(count),
        operations_per_second: rate,
        latency: Some(LatencyReport::Printed(latency(label, value)?)),
        ..Operation::named(command(label))
    })
}

fn latency(label: &str, value: &Value) -> Result<PrintedLatency, MemtierError> {
    let mut latency = PrintedLatency {
        mean: value.number("Average Latency"),
        minimum: value.number("Min Latency"),
        maximum: value.number("Max Latency"),
        percentiles: Vec::new(),
    };
    let percentiles = value.get("Percentile Latencies").map_or(&[][..], Value::members);
    for (name, _) in percentiles.iter().filter(|(name, _)| name != "Histogram log format") {
        let strange = || MemtierError::Percentile { section: label.to_owned(), name: name.clone() };
        let percent = name
            .strip_prefix('p')
            .and_then(|text| text.parse::<f64>().ok())
            .filter(|percent| (0.0..=100.0).contains(percent))
            .ok_or_else(strange)?;
        let milliseconds = value.get("Percentile Latencies").and_then(|value| value.number(name));
        if !latency.add_percentile(percent, milliseconds.ok_or_else(strange)?) {
            return Err(strange());
        }
    }
    Ok(latency)
}

fn missing(section: &str, field: &'static str) -> MemtierError {
    MemtierError::Missing { section: section.to_owned(), field }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outputs::Capture;

    fn file(total: u64) -> String {
        format!(
            r#"{{"configuration": {{"server": "a"}}, "ALL STATS": {{
              "Runtime": {{"Total duration": 2000}},
              "Gets": {{"Count": 900, "Ops/sec": 450.5, "Average Latency": 0.2, "Min Latency": 0.1, "Max Latency": 3.5,
                "Percentile Latencies": {{"p50.00": 0.15, "p99.90": 2.5, "p99.00": 1.5}}, "Time-Serie": {{}}}},
              "Sets": {{"Count": 100, "Ops/sec": 50, "Average Latency": 0.3, "Percentile Latencies": {{}}}},
              "Totals": {{"Count": {total}, "Ops/sec": 500.5}}}}}}"#
        )
    }

    #[test]
    fn counts_and_printed_percentiles_are_read() {
        let parsed = super::super::parse(&file(1000), &Capture::default(), 1).unwrap();
        assert_eq!(parsed.seconds, Some(2.0));
        let get = &parsed.operations[0];
        assert_eq!((get.name.as_str(), get.count, get.hits, get.errors), ("GET", Some(900), None, None));
        let Some(LatencyReport::Printed(latency)) = &get.latency else { panic!("{get:?}") };
        let percents: Vec<_> = latency.percentiles.iter().map(|percentile| percentile.percent).collect();
        assert_eq!((percents, latency.maximum), (vec![50.0, 99.0, 99.9], Some(3.5)));
    }

    #[test]
    fn counts_that_contradict_each_other_are_refused() {
        let error = super::super::parse(&file(1001), &Capture::default(), 1).unwrap_err();
        assert!(error.to_string().contains("1000") && error.to_string().contains("1001"), "{error}");
    }
}
