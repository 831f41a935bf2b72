//! Lines of the tools that print sentences.

use super::*;
use dragstrip_crds::workload::Merge;
use proptest::prelude::*;

fn options(json: &str) -> RegexParser {
    serde_json::from_str(json).unwrap()
}

fn read(json: &str, text: &str) -> Result<Parsed, RegexError> {
    parse(&options(json), &[Cow::Borrowed(text)])
}

/// One pattern as a whole parser.
fn one(pattern: &str, more: &str) -> String {
    format!(r#"{{"lines": [{{"pattern": {}{more}}}]}}"#, serde_json::to_string(pattern).unwrap())
}

const COUNT: &str = "ops: (?<count>[0-9,.]+)";

#[test]
fn names_of_percentiles_are_read_as_people_say_them() {
    for (group, percent) in [
        ("p50", Some(50.0)),
        ("p999", Some(99.9)),
        ("p9999", Some(99.99)),
        ("p05", Some(5.0)),
        ("p100", Some(100.0)),
        ("p5", None),
        ("pool", None),
        ("p50Size", None),
    ] {
        assert_eq!(percentile(group), percent, "{group}");
    }
}

#[test]
fn the_last_line_that_matches_counts() {
    let parsed = read(&one(COUNT, r#", "operation": "set""#), "ops: 5\nops: 70\n").unwrap();
    assert_eq!(parsed.operations[0].count, 70);
}

#[test]
fn a_line_without_an_end_never_counts() {
    let spec = one(COUNT, r#", "operation": "set""#);
    let cut = read(&spec, "ops: 5\nops: 70").unwrap();
    assert_eq!((cut.operations[0].count, cut.incomplete.is_some()), (5, true));
    assert!(matches!(read(&spec, "ops: 70").unwrap_err(), RegexError::NoMatch(_)));
}

#[test]
fn an_open_line_of_standard_error_matters_only_where_it_is_read() {
    let spec = options(&one(COUNT, r#", "operation": "set""#));
    let both = |out: &'static str, err: &'static str| {
        parse(&spec, &[Cow::Borrowed(out), Cow::Borrowed(err)]).unwrap().incomplete
    };
    assert_eq!(both("ops: 5\n", "\r 50% ..."), None);
    assert!(both("\n", "ops: 5\nops: 7").is_some(), "the result is on the stream that was cut");
}

#[test]
fn groups_with_other_names_are_figures() {
    let spec = one(
        "^(?<operation>\\S+) ram=(?<ram>\\S+) p50=(?<p50>\\S+)",
        r#", "latencyUnit": "Microseconds", "merge": {"ram": "Maximum"}, "moreIsBetter": {"ram": false}, "units": {"ram": "MiB"}"#,
    );
    let parsed = read(&spec, "set ram=5.5 p50=250\nget ram=6 p50=1.5ms\n").unwrap();
    let latency = |position: usize| parsed.operations[position].latency_milliseconds.p50;
    assert_eq!(
        (latency(0), latency(1)),
        (Some(0.25), Some(1.5)),
        "a unit in the text beats the declared one"
    );
    assert_eq!(parsed.metrics.len(), 2);
    assert_eq!((parsed.metrics[1].value, parsed.metrics[1].merge), (6.0, Merge::Maximum));
    assert_eq!(parsed.metrics[1].more_is_better, Some(false));
    assert_eq!(parsed.metrics[1].unit.as_deref(), Some("MiB"));
}

#[test]
fn figures_of_an_operation_need_its_name() {
    let error = check(&options(&one(COUNT, ""))).unwrap_err();
    assert!(error.to_string().contains("set operation"), "{error}");
    let optional = one("^(?:(?<operation>[a-z]+) )?n=(?<count>[0-9]+)", "");
    assert!(matches!(read(&optional, "n=5\n").unwrap_err(), RegexError::NoOperation { .. }));
}

#[test]
fn two_patterns_may_complete_but_not_contradict_each_other() {
    let line = |pattern: &str| format!(r#"{{"pattern": "{pattern}", "operation": "put"}}"#);
    let both = |one: &str, other: &str| format!(r#"{{"lines": [{}, {}]}}"#, line(one), line(other));
    let parsed = read(&both("rate (?<operationsPerSecond>.*)", "n (?<count>.*)"), "rate 5\nn 7\n").unwrap();
    assert_eq!((parsed.operations.len(), parsed.operations[0].count), (1, 7));
    let error = read(&both("a (?<count>.*)", "b (?<count>.*)"), "a 5\nb 7\n").unwrap_err();
    assert!(matches!(error, RegexError::Twice { .. }), "{error}");
}

#[test]
fn numbers_in_an_undeclared_notation_are_refused() {
    let error = read(&one(COUNT, r#", "operation": "set""#), "ops: 1,234\n").unwrap_err();
    assert!(error.to_string().contains("thousandsSeparator"), "{error}");
}

#[test]
fn bad_patterns_are_refused_before_anything_is_run() {
    for pattern in ["(?<count>[0-9+", "no group", "(?<operation>x)", "(?<a>(\\\\w{1000}){1000})"] {
        assert!(check(&options(&one(pattern, ""))).is_err(), "{pattern} was taken");
    }
}

#[test]
fn a_pattern_that_is_not_required_may_be_missing() {
    let spec = format!(
        r#"{{"lines": [{{"pattern": "{COUNT}", "operation": "set"}}, {{"pattern": "errors (?<errors>[0-9]+)", "operation": "set", "required": false}}]}}"#
    );
    assert_eq!(read(&spec, "ops: 5\n").unwrap().operations[0].errors, 0);
    assert_eq!(read(&spec, "ops: 5\nerrors 3\n").unwrap().operations[0].errors, 3);
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in "[ -~\n\r]{0,200}") {
        let _ = read(&one("(?<operation>\\S+).*?(?<count>[0-9.,]+).*?(?<p99>[0-9a-zµ.]+)", ""), &text);
    }
}
