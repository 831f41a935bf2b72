//! One line per client pod and repetition, out of the stored results. Pure.

use crate::get::whole;
use comfy_table::{CellAlignment, Table, presets};
use dragstrip_crds::units::thousands;
use dragstrip_results::{
    histogram::Latencies,
    result::{PodResult, RepetitionResult},
};

const HEADER: [&str; 12] = [
    "Phase",
    "Rep",
    "Pod",
    "Node",
    "Ops/sec",
    "Count",
    "Errors",
    "p99 ms",
    "Start ms",
    "Clock ms",
    "CPUs busy",
    "Throttled s",
];
/// Columns of text; those after them hold numbers.
const TEXT_COLUMNS: usize = 4;
const UNKNOWN: &str = "---";

/// The 99th percentile in milliseconds over all operations of the pod: exact where
/// it kept histograms, as its tool told where it has one operation only.
fn p99(pod: &PodResult) -> Option<f64> {
    if let [only] = pod.operations.as_slice() {
        return only.latency_milliseconds.p99;
    }
    let mut decoded =
        pod.operations.iter().map(|operation| Latencies::decode(operation.histogram.as_ref()?).ok());
    let mut all = decoded.next()??;
    for latencies in decoded {
        all.add(&latencies?).ok()?;
    }
    all.summary().p99
}

fn or_unknown(value: Option<String>) -> String {
    value.unwrap_or_else(|| UNKNOWN.to_owned())
}

/// Operations per second of one pod: its count over its own window, or the rate of its
/// only operation's own time. Operations that ran one after the other have no sum.
fn rate(pod: &PodResult, count: u64) -> Option<f64> {
    let mut own = pod.operations.iter().filter_map(|operation| operation.own_operations_per_second);
    match (own.next(), pod.operations.len()) {
        (None, _) => (count > 0 && pod.window.seconds > 0.0).then(|| count as f64 / pod.window.seconds),
        (Some(rate), 1) => Some(rate),
        (Some(_), _) => None,
    }
}

fn row(result: &RepetitionResult, pod: &PodResult) -> Vec<String> {
    let count: u64 = pod.operations.iter().map(|operation| operation.count).sum();
    let errors: u64 = pod.operations.iter().map(|operation| operation.errors).sum();
    // A pod that never got to its load has no window: nothing was measured in it.
    let measured = pod.window.seconds > 0.0;
    let in_window = |text: String| or_unknown(measured.then_some(text));
    // A tool that tells a rate alone counted something.
    let rated = pod.operations.iter().any(|operation| operation.own_operations_per_second.is_some());
    let lost = if result.failure.is_some() { " (void)" } else { "" };
    vec![
        result.phase.clone(),
        format!("{}{lost}", result.repetition),
        pod.pod.clone(),
        or_unknown(pod.node.clone()),
        or_unknown(rate(pod, count).map(whole)),
        or_unknown((measured && (count > 0 || !rated)).then(|| thousands(count))),
        in_window(thousands(errors)),
        or_unknown(p99(pod).map(|milliseconds| format!("{milliseconds:.3}"))),
        in_window(format!("{:.3}", pod.window.start_skew_seconds * 1e3)),
        in_window(format!(
            "{:.3} ±{:.3}",
            pod.window.clock_offset_seconds * 1e3,
            pod.window.clock_uncertainty_seconds * 1e3
        )),
        in_window(format!("{:.2}", pod.client.cpu_seconds / pod.window.seconds)),
        in_window(format!("{:.3}", pod.client.throttled_seconds)),
    ]
}

/// The pods of every repetition of the run called `name`, and why any of them has
/// no numbers.
pub fn table(name: &str, results: &[RepetitionResult]) -> String {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_BORDERS_ONLY).set_header(HEADER);
    let pods = || results.iter().flat_map(|result| result.pods.iter().map(move |pod| (result, pod)));
    for (result, pod) in pods() {
        table.add_row(row(result, pod));
    }
    for column in table.column_iter_mut().skip(TEXT_COLUMNS) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let failures = pods().filter_map(|(_, pod)| {
        let failure = pod.failure.as_ref()?;
        Some(format!("    {}: {:?}: {}\n", pod.pod, failure.step, failure.message))
    });
    format!("{name}: client pods\n{table}\n{}", failures.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored() -> RepetitionResult {
        serde_json::from_str(include_str!("../../../bench-jobs/results/tests/two-pods.json")).unwrap()
    }

    /// The cells of the line that holds `word`.
    fn cells(text: &str, word: &str) -> Vec<String> {
        let line =
            text.lines().find(|line| line.contains(word)).unwrap_or_else(|| panic!("no {word} in {text}"));
        line.trim_matches('│')
            .split("  ")
            .map(str::trim)
            .filter(|cell| !cell.is_empty())
            .map(str::to_owned)
            .collect()
    }

    #[test]
    fn each_pod_has_a_line_with_its_own_figures() {
        let text = table("race", &[stored()]);
        assert_eq!(
            cells(&text, "race-read-1-0-x7k2p"),
            [
                "read",
                "1",
                "race-read-1-0-x7k2p",
                "client-a",
                "100,000",
                "500,000",
                "0",
                "0.740",
                "0.412",
                "-1.250 ±0.180",
                "0.96",
                "0.000"
            ]
        );
        assert_eq!(cells(&text, "race-read-1-1-q9d4m")[3..6], ["client-b", "60,000", "300,000"]);
    }

    #[test]
    fn all_lines_are_equally_long() {
        let text = table("race", &[stored()]);
        let widths: Vec<_> = text.lines().skip(1).map(|line| line.chars().count()).collect();
        assert!(widths.len() >= 5 && widths.iter().all(|width| *width == widths[0]), "{widths:?} in {text}");
    }

    #[test]
    fn a_pod_without_a_window_has_no_numbers_but_a_reason() {
        let mut lost = stored();
        let failure = serde_json::json!({"step": "Lost", "message": "the pod was taken away: Evicted"});
        lost.pods[1] =
            PodResult::failed("read", 1, "race-read-1-1-q9d4m", serde_json::from_value(failure).unwrap());
        lost.failure = Some(dragstrip_results::result::PodFailure {
            pod: "race-read-1-1-q9d4m".into(),
            failure: lost.pods[1].failure.clone().unwrap(),
        });
        let text = table("race", &[lost]);
        let row = cells(&text, "q9d4m");
        assert_eq!(row[1], "1 (void)");
        assert!(row[3..].iter().all(|cell| cell == UNKNOWN), "{row:?}");
        assert!(text.contains("Lost: the pod was taken away: Evicted"), "{text}");
    }

    #[test]
    fn operations_that_ran_one_after_the_other_have_no_sum() {
        let mut sequence = stored();
        let pod = &mut sequence.pods[0];
        for operation in &mut pod.operations {
            (operation.count, operation.own_operations_per_second) = (0, Some(26_810.0));
        }
        let one = cells(&table("race", std::slice::from_ref(&sequence)), "x7k2p");
        assert_eq!(one[4..6], ["26,810".to_owned(), UNKNOWN.to_owned()], "a count that is not known is no 0");
        let twin = sequence.pods[0].operations[0].clone();
        sequence.pods[0].operations.push(twin);
        assert_eq!(cells(&table("race", &[sequence]), "x7k2p")[4], UNKNOWN);
    }

    #[test]
    fn percentiles_of_several_operations_without_histograms_are_not_made_up() {
        let mut mixed = stored();
        let twin = mixed.pods[0].operations[0].clone();
        mixed.pods[0].operations.push(twin);
        assert_eq!(cells(&table("race", &[mixed]), "x7k2p")[7], UNKNOWN);
    }
}
