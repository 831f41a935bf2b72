//! dfly_bench's result file: sections and names as memtier's, since v1.38.2.
//! It has counts, rates, mean, smallest and largest latency and a few
//! percentiles, but neither histograms nor hits.

use super::{MemtierError, document::Value, operations::command, report::missing};
use crate::parsed::{Parsed, Tool, named};
use dragstrip_crds::measured::LatencySummary;
use dragstrip_results::result::Operation;

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
    let sum: u64 = operations.iter().map(|operation| operation.count).sum();
    if sum != total {
        return Err(MemtierError::Contradiction(format!(
            "the rows add up to {sum} operations, the total is {total}"
        )));
    }
    let milliseconds = stats.get("Runtime").and_then(|runtime| runtime.number("Total duration"));
    let seconds = milliseconds.map(|number| number / 1000.0).filter(|seconds| *seconds > 0.0);
    Ok(Parsed {
        seconds,
        operations: operations.into_iter().filter(|operation| operation.count > 0).collect(),
        tool: Some(Tool::named("dfly_bench")),
        ..Parsed::default()
    })
}

fn operation(label: &str, value: &Value) -> Result<Operation, MemtierError> {
    let count = value.whole("Count").ok_or_else(|| missing(label, "Count"))?;
    let rate = value.number("Ops/sec").filter(|rate| rate.is_finite() && *rate >= 0.0);
    Ok(Operation {
        count,
        tool_operations_per_second: rate,
        latency_milliseconds: latency(label, value)?,
        ..named(&command(label))
    })
}

fn latency(label: &str, value: &Value) -> Result<LatencySummary, MemtierError> {
    let mut latency = LatencySummary {
        mean: value.number("Average Latency"),
        max: value.number("Max Latency"),
        ..LatencySummary::default()
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
        let milliseconds = milliseconds.ok_or_else(strange)?;
        if let Some(place) = latency.percentile_mut(percent)
            && place.replace(milliseconds).is_some()
        {
            return Err(strange());
        }
    }
    Ok(latency)
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
        assert_eq!((get.name.as_str(), get.count, get.hits, get.errors), ("GET", 900, None, 0));
        let LatencySummary { p50, p90, p99, p999, max, .. } = get.latency_milliseconds;
        assert_eq!((p50, p90, p99, p999, max), (Some(0.15), None, Some(1.5), Some(2.5), Some(3.5)));
    }

    #[test]
    fn counts_that_contradict_each_other_are_refused() {
        let error = super::super::parse(&file(1001), &Capture::default(), 1).unwrap_err();
        assert!(error.to_string().contains("1000") && error.to_string().contains("1001"), "{error}");
    }
}
