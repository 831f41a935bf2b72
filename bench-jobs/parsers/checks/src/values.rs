//! Single values and documents that are no tool's output: loadgen's report,
//! histograms, and the units of manifests.

use crate::cuts;
use dragstrip_crds::units::{Memory, Period};
use dragstrip_loadgen::counts::report::Report;
use dragstrip_results::histogram::{EncodedHistogram, Latencies};

pub(crate) fn loadgen_report(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let Ok(whole) = Report::from_json(&text) else { return };
    for histogram in whole.operations.iter().filter_map(|operation| operation.histogram.as_ref()) {
        let _ = Latencies::decode(histogram);
    }
    for length in cuts(text.len()) {
        if let Some(Ok(cut)) = text.get(..length).map(Report::from_json) {
            assert_eq!(cut, whole, "cut after {length} of {} bytes gave another report", text.len());
        }
    }
}

pub(crate) fn histogram(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let Ok(whole) = Latencies::decode(&EncodedHistogram(text.to_string())) else { return };
    let summary = whole.summary();
    let percentiles = [summary.p50, summary.p90, summary.p95, summary.p99, summary.p999, summary.p9999];
    let percentiles: Vec<f64> = percentiles.into_iter().flatten().collect();
    assert!(percentiles.is_sorted(), "percentiles fall: {summary:?}");
    assert!(percentiles.iter().chain(&summary.mean).all(|value| value.is_finite()), "{summary:?}");
    let again = Latencies::decode(&whole.encode().expect("what was decoded can be encoded"));
    assert_eq!(again.expect("what was encoded can be decoded"), whole);
    for length in cuts(text.len()) {
        let cut = text.get(..length).map(|text| Latencies::decode(&EncodedHistogram(text.to_owned())));
        if let Some(Ok(cut)) = cut {
            assert_eq!(cut, whole, "a histogram cut after {length} bytes holds other latencies");
        }
    }
}

pub(crate) fn units(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    if let Ok(memory) = text.parse::<Memory>() {
        assert_eq!(memory.to_string().parse().as_ref(), Ok(&memory), "{text:?} is not written as it is read");
        assert!(
            text.bytes().next().is_some_and(|byte| byte.is_ascii_digit()),
            "{text:?} is not an amount of memory"
        );
    }
    if let Ok(period) = text.parse::<Period>() {
        assert_eq!(period.to_string().parse().as_ref(), Ok(&period), "{text:?} is not written as it is read");
        assert!(period.seconds().is_finite() && period.signed().as_secs() >= 0, "{text:?}");
    }
}
