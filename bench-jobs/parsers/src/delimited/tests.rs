//! Tables and options of every kind.

use super::*;
use proptest::prelude::*;

/// Options as they are written in a manifest.
fn options(json: &str) -> CsvParser {
    serde_json::from_str(json).unwrap()
}

fn dkv() -> CsvParser {
    options(
        r#"{"file": "perf.csv", "columns": [
            {"header": "Test", "meaning": "Operation"},
            {"header": "NsPerOp", "meaning": "TimePerOperation", "unit": "Nanoseconds", "merge": "Mean"},
            {"header": "OpsPerSec", "meaning": "OperationsPerSecond"},
            {"header": "LatencyP50", "meaning": "LatencyPercentile", "percentile": "50"},
            {"header": "LatencyP95", "meaning": "LatencyPercentile", "percentile": "95"},
            {"header": "LatencyP99", "meaning": "LatencyPercentile", "percentile": "99"}]}"#,
    )
}

const DKV: &str = "Test,NsPerOp,DurationPerOp,OpsPerSec,Skipped,Endpoints,LatencyP50,LatencyP95,LatencyP99\n\
    set,7871,7.871µs,127049,false,a:1;b:2,1.234567ms,2.5ms,1m2.5s\n\
    has-not,0,0s,0,true,a:1;b:2,N/A,N/A,N/A\n\
    get,5901,5.901µs,169463,false,a:1;b:2,950µs,1.1ms,2ms\n";

#[test]
fn durations_with_units_of_their_own_become_milliseconds() {
    let parsed = parse(&dkv(), DKV).unwrap();
    let set = &parsed.operations[0];
    assert_eq!((set.name.as_str(), set.tool_operations_per_second), ("set", Some(127_049.0)));
    let LatencySummary { p50, p90, p95, p99, .. } = set.latency_milliseconds;
    assert_eq!((p50, p90, p95, p99), (Some(1.234_567), None, Some(2.5), Some(62_500.0)));
    assert_eq!(
        (parsed.metrics[0].value, parsed.metrics[0].merge),
        (7871.0, dragstrip_crds::workload::Merge::Mean)
    );
}

#[test]
fn what_a_tool_skipped_is_left_out() {
    let parsed = parse(&dkv(), DKV).unwrap();
    let names: Vec<_> = parsed.operations.iter().map(|operation| operation.name.as_str()).collect();
    assert_eq!(names, ["set", "get"]);
    assert!(parsed.metrics.iter().all(|metric| !metric.name.contains("has-not")));
}

#[test]
fn a_row_that_was_cut_is_not_read() {
    let end = DKV.len() - 5;
    let parsed = parse(&dkv(), &DKV[..end]).unwrap();
    assert_eq!(parsed.operations.len(), 1);
    assert!(parsed.incomplete.is_some());
}

#[test]
fn a_quote_without_an_end_is_an_error() {
    let error = parse(&dkv(), &DKV.replace("a:1;b:2,950", "\"a:1;b:2,950")).unwrap_err();
    assert!(matches!(error, CsvError::Quote), "{error}");
}

#[test]
fn units_that_would_have_to_be_guessed_are_refused() {
    let rate = options(
        r#"{"columns": [{"header": "t", "meaning": "Operation"}, {"header": "r", "meaning": "OperationsPerSecond"}]}"#,
    );
    assert_eq!(parse(&rate, "t,r\na,5 ops/sec\n").unwrap().operations[0].operations_per_second, Some(5.0));
    for cell in ["1.27 M elem/s", "474.3 (*13)", "5 - 6", "5k", "-3", "fast"] {
        assert!(parse(&rate, &format!("t,r\na,{cell}\n")).is_err(), "{cell} was read as a rate");
    }
    let memory = options(
        r#"{"columns": [{"header": "t", "meaning": "Operation"}, {"header": "m", "meaning": "Metric", "metric": "ram"}]}"#,
    );
    let parsed = parse(&memory, "t,m\na,900 MiB\nb,10 MiB\n").unwrap();
    assert_eq!((parsed.metrics[0].value, parsed.metrics[0].unit.as_deref()), (900.0, Some("MiB")));
    let error = parse(&memory, "t,m\na,900 MiB\nb,1.2 GiB\n").unwrap_err();
    assert!(error.to_string().contains("MiB"), "{error}");
}

#[test]
fn errors_name_the_column_and_what_there_is() {
    let message = parse(&dkv(), "Test,OpsPerSec\nset,1\n").unwrap_err().to_string();
    assert!(message.contains("NsPerOp") && message.contains("OpsPerSec"), "{message}");
    let message = parse(&dkv(), &DKV.replace("127049", "127.049,0").replace("set,", "\"set\",")).unwrap_err();
    assert!(matches!(message, CsvError::Table(_)), "a comma more is another number of columns: {message}");
}

#[test]
fn two_rows_of_one_operation_are_refused() {
    let error = parse(&dkv(), &DKV.replace("get,", "set,")).unwrap_err();
    assert!(matches!(error, CsvError::Twice { line: 4, .. }), "{error}");
}

#[test]
fn options_that_make_no_sense_are_refused_before_anything_is_run() {
    for (what, json) in [
        ("no operation", r#"{"columns": [{"header": "r", "meaning": "Count"}]}"#),
        (
            "two counts",
            r#"{"operation": "a", "columns": [{"header": "r", "meaning": "Count"}, {"header": "s", "meaning": "Count"}]}"#,
        ),
    ] {
        assert!(check(&options(json)).is_err(), "{what} was taken");
    }
}

#[test]
fn a_byte_order_mark_is_not_part_of_a_header() {
    let options = options(
        r#"{"columns": [{"header": "Test", "meaning": "Operation"}, {"header": "n", "meaning": "Count"}]}"#,
    );
    let parsed = parse(&options, "\u{feff}Test,n\r\nset,2000000\r\n").unwrap();
    assert_eq!(parsed.operations[0].count, 2_000_000);
}

#[test]
fn grouped_numbers_are_refused() {
    let rate =
        options(r#"{"operation": "a", "columns": [{"header": "r", "meaning": "OperationsPerSecond"}]}"#);
    let error = parse(&rate, "r\n\"1,234.5\"\n").unwrap_err();
    assert!(error.to_string().contains("','"), "{error}");
}

proptest! {
    #[test]
    fn a_table_cut_anywhere_gives_its_first_rows_or_nothing(cut in 0usize..400) {
        let whole = parse(&dkv(), DKV).unwrap();
        let mut cut = cut.min(DKV.len());
        while !DKV.is_char_boundary(cut) { cut -= 1; }
        if let Ok(parsed) = parse(&dkv(), &DKV[..cut]) {
            prop_assert!(whole.operations.starts_with(&parsed.operations));
            prop_assert!(whole.metrics.starts_with(&parsed.metrics));
        }
    }

    #[test]
    fn any_text_is_read_or_refused(text in "[ -~\n\"é]{0,200}") {
        let _ = parse(&dkv(), &text);
    }
}
