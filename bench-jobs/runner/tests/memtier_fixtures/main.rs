//! Every recorded run of memtier, good and bad, is judged rightly, and the
//! numbers of the good ones are the tool's own to the last printed digit.

// Clippy takes only functions marked as tests for tests, not what they call.
#![allow(clippy::unwrap_used, clippy::unwrap_in_result, clippy::panic)]

mod printed;
mod recorded;
mod table;

use dragstrip_parsers::Capture;
use dragstrip_results::{
    result::FailureStep::{Interrupted, Output, Tool},
    result::{Operation, PodResult},
};
use dragstrip_runner::{Adapter, MemtierAdapter};
use printed::{TextRow, table_percentiles, text_rows};
use proptest::prelude::*;
use recorded::{bad_cases, case, context, fixtures, good_cases, job, spec};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    time::Duration,
};
use table::{BOTH, NEW, OLD};

#[test]
fn every_recorded_run_is_in_exactly_one_table() {
    let mut listed = BTreeSet::new();
    let cases = good_cases().into_iter().chain(bad_cases().into_iter().map(|(case, _, _)| case));
    for case in cases {
        assert!(case.directory().is_dir(), "{case} is in a table but not recorded");
        assert!(listed.insert(case.directory()), "{case} is in the tables twice");
    }
    for version in BOTH {
        for entry in fs::read_dir(fixtures().join(version)).unwrap() {
            let path = entry.unwrap().path();
            assert!(listed.contains(&path), "{} is recorded but in no table", path.display());
        }
    }
}

#[test]
fn bad_runs_are_refused_at_the_right_step_with_a_precise_message() {
    for (case, step, fragments) in bad_cases() {
        let Err(rejected) = case.judge() else { panic!("{case} was accepted") };
        let failure = rejected.failure;
        assert_eq!(failure.step, step, "{case}: {}", failure.message);
        for fragment in fragments {
            assert!(failure.message.contains(fragment), "{case}: no {fragment:?} in {:?}", failure.message);
        }
        let ended = case.ended();
        assert_eq!((failure.exit_code, failure.signal), (ended.exit.code, ended.exit.signal), "{case}");
        assert_eq!(failure.last_lines, ended.last_lines, "{case}");
        assert!(rejected.partial.is_some(), "{case}: what could be read is not handed on");
    }
}

#[test]
fn good_runs_have_the_counts_of_the_result_file() {
    for case in good_cases() {
        let measured = case.measured();
        let mut expected = BTreeMap::new();
        for row in
            text_rows(&case.file("out.json")).iter().filter(|row| row.label != "Totals" && row.count() > 0)
        {
            let singular = row.label.strip_suffix('s').unwrap();
            let command = singular.split(' ').next().unwrap().to_uppercase();
            *expected.entry(command).or_insert(0) += row.count();
        }
        if (case.version, case.name) == (NEW, "i1b_cluster_time") {
            // 20 replies came after the time was up: they are in the histograms and
            // in the progress output, but not in the counts of the result file.
            expected = [("SET".to_owned(), 13_178), ("GET".to_owned(), 132_683)].into();
        }
        let got: BTreeMap<_, _> = measured.operations.iter().map(|o| (o.name.clone(), o.count)).collect();
        assert_eq!(got, expected, "{case}");
        assert_eq!(measured.operations.iter().map(|operation| operation.errors).sum::<u64>(), 0, "{case}");
        assert!(measured.errors.is_empty(), "{case}: {:?}", measured.errors);
        assert!(measured.window.seconds <= 0.0, "{case}");
    }
}

#[test]
fn good_runs_have_as_many_operations_as_the_last_progress_line() {
    for case in good_cases() {
        let mut adapter = MemtierAdapter::new(spec());
        let lines = case.file("stderr.txt");
        let last = lines.split(['\r', '\n']).filter_map(|line| adapter.stderr_line(line)).last().unwrap();
        let total: u64 = case.measured().operations.iter().map(|operation| operation.count).sum();
        assert_eq!(total, last.operations, "{case}");
    }
}

#[test]
fn percentiles_of_good_runs_are_those_of_the_result_file_to_the_last_digit() {
    let mut compared = 0;
    for case in good_cases() {
        let report = case.report();
        let rows = text_rows(&case.file("out.json"));
        let (_, text_rows) = rows.split_last().unwrap();
        assert_eq!(report.rows.len(), text_rows.len(), "{case}: rows lost");
        for (row, text) in report.rows.iter().zip(text_rows).filter(|(row, _)| row.count > 0) {
            for (percentile, expected) in &text.percentiles {
                let got = format!("{:.3}", row.latencies.percentile(*percentile) as f64 / 1000.0);
                assert_eq!(&got, expected, "{case}: p{percentile} of {}", row.label);
                compared += 1;
            }
        }
    }
    assert!(compared > 300, "only {compared} percentiles were compared");
}

#[test]
fn percentiles_and_means_of_good_runs_are_those_of_the_printed_table() {
    for case in good_cases() {
        let report = case.report();
        let mut table = table_percentiles(&case.table());
        let (_, total) = table.pop().unwrap();
        assert_eq!(report.rows.len(), table.len(), "{case}: rows lost");
        let mut merged = report.rows[0].latencies.clone();
        for row in &report.rows[1..] {
            merged.add(&row.latencies).unwrap();
        }
        for (percentile, expected) in total {
            let got = format!("{:.5}", merged.percentile(percentile) as f64 / 1000.0);
            assert_eq!(got, expected, "{case}: p{percentile} of all operations together");
        }
        for (row, (average, percentiles)) in report.rows.iter().zip(table).filter(|(row, _)| row.count > 0) {
            for (percentile, expected) in percentiles {
                let got = format!("{:.5}", row.latencies.percentile(percentile) as f64 / 1000.0);
                assert_eq!(got, expected, "{case}: p{percentile} of {}", row.label);
            }
            let mean = row.latencies.summary().mean.unwrap();
            // The histogram's buckets are 8 µs wide at first and 1 % of their value later.
            assert!(
                (mean - average).abs() < 0.008 + average * 0.01,
                "{case}: {mean} is not {average} in {}",
                row.label
            );
        }
    }
}

#[test]
fn bytes_of_good_runs_agree_with_the_rates() {
    for case in good_cases() {
        for (row, text) in
            case.report().rows.iter().zip(text_rows(&case.file("out.json"))).filter(|(row, _)| row.count > 0)
        {
            let expected = text.number("KB/sec");
            let got = row.bytes as f64 / 1024.0 * text.number("Ops/sec") / row.count as f64;
            assert!(
                (got - expected).abs() <= 0.01 + expected * 1e-3,
                "{case}: {got} is not {expected} in {}",
                row.label
            );
        }
    }
}

#[test]
fn hits_and_misses_are_exact_counts() {
    let reads = |version, name| {
        let measured = case(version, name).measured();
        let get = measured.operations.iter().find(|operation| operation.name == "GET").unwrap();
        (get.count, get.hits, get.misses)
    };
    assert_eq!(reads(OLD, "b_read_only"), (100_000, Some(100_000), Some(0)));
    assert_eq!(reads(NEW, "b_read_only"), (100_000, Some(100_000), Some(0)));
    assert_eq!(reads(OLD, "b2_read_only_half_miss"), (40_000, Some(20_022), Some(19_978)));
    assert_eq!(reads(NEW, "k34_server_frozen_6s"), (39_781, Some(4), Some(39_777)));
    assert_eq!(
        reads(NEW, "j_arbitrary").1,
        None,
        "with --command memtier does not separate hits from misses"
    );
    for case in good_cases() {
        for text in text_rows(&case.file("out.json")).iter().filter(|row| counts_hits(row)) {
            let hits = text.number("Hits/sec") / text.number("Ops/sec") * text.count() as f64;
            assert!((hits - hits.round()).abs() < 0.05, "{case}: {hits} hits are no whole number");
        }
    }
}

/// In cluster mode the rates of a timed run lack the replies under way at its end.
fn counts_hits(row: &TextRow) -> bool {
    row.number("Hits/sec") > 0.0 && !row.numbers.contains_key("MOVED/sec")
}

#[test]
fn seconds_without_operations_are_zero() {
    let measured = case(NEW, "k34_server_frozen_6s").measured();
    assert_eq!(measured.per_second, [31_055, 12_702, 0, 0, 0, 0, 0, 4]);
    let measured = case(OLD, "d2_mixed_time").measured();
    assert_eq!(measured.per_second, [42_930, 47_594, 49_609, 20]);
}

#[test]
fn rows_of_one_command_are_added_and_none_is_lost() {
    let operations = |name| {
        case(NEW, name).measured().operations.into_iter().map(|o| (o.name, o.count)).collect::<Vec<_>>()
    };
    assert_eq!(operations("s7_line_breakdown"), [("SET".to_owned(), 2000)]);
    assert_eq!(operations("s5_scan"), [("SCAN".to_owned(), 600)]);
    assert_eq!(
        operations("j_arbitrary").into_iter().map(|(operation, _)| operation).collect::<Vec<_>>(),
        ["SET", "GET", "LPUSH", "INCR"]
    );
}

#[test]
fn error_replies_are_counted_one_by_one() {
    for (version, name, word, count) in [
        (OLD, "i2_cluster_server_plain_client", "MOVED", 624),
        (NEW, "i2_cluster_server_plain_client", "MOVED", 624),
        (OLD, "i5_cluster_reshard", "MOVED", 92),
        (NEW, "i5_cluster_reshard", "MOVED", 51),
        (OLD, "k11_no_auth_given", "NOAUTH", 400),
        (NEW, "k11_no_auth_given", "NOAUTH", 400),
        (NEW, "k21_err_wrongtype", "WRONGTYPE", 200),
        (NEW, "k22_err_unknown_cmd", "ERR", 200),
        (NEW, "k23_maxclients", "ERR", 30),
        (NEW, "k50_readonly_replica", "READONLY", 100),
    ] {
        let case = case(version, name);
        let partial = case.judge().unwrap_err().partial.unwrap();
        assert_eq!(partial.errors.get(word), Some(&count), "{case}: {:?}", partial.errors);
    }
}

#[test]
fn error_replies_are_no_operations_where_there_is_only_one_operation() {
    let partial = case(NEW, "k21_err_wrongtype").judge().unwrap_err().partial.unwrap();
    let [lpush] = partial.operations.as_slice() else { panic!("{:?}", partial.operations) };
    assert_eq!((lpush.name.as_str(), lpush.count, lpush.errors), ("LPUSH", 0, 200));
}

/// The recorded stderr is cut in the middle; uncut, every failed SET has its line.
#[test]
fn as_many_errors_are_counted_as_the_server_counted() {
    for (version, server) in [(OLD, 16_442), (NEW, 16_303)] {
        let case = case(version, "k20_oom_noeviction");
        let info = case.file("server_info.txt");
        assert!(info.contains(&format!("total_error_replies:{server}")), "{info}");
        let mut adapter = MemtierAdapter::new(spec());
        let line = case.file("stderr.txt").lines().find(|line| line.contains("-OOM")).unwrap().to_owned();
        for _ in 0..server {
            adapter.stderr_line(&line);
        }
        let output = tempfile::tempdir().unwrap();
        fs::write(output.path().join("memtier.json"), case.json().unwrap()).unwrap();
        let rejected = adapter.judge(&job(), &context(output.path()), &case.ended()).unwrap_err();
        assert!(rejected.failure.message.contains(&format!("OOM ×{server}")), "{}", rejected.failure.message);
        let set = &rejected.partial.unwrap().operations[0];
        assert_eq!((set.count, set.errors), (20_000 - server, server), "{case}");
    }
}

#[test]
fn an_interrupted_result_is_refused_even_if_nobody_owns_up_to_the_signal() {
    for name in ["k30_sigint", "k33_sigint_n_mode", "k64_double_sigint"] {
        let case = case(NEW, name);
        let mut ended = case.ended();
        ended.exit.interrupted = false;
        let rejected = case.judge_as(case.json().as_deref(), &ended).unwrap_err();
        assert_eq!(rejected.failure.step, Interrupted, "{case}: {}", rejected.failure.message);
    }
}

#[test]
fn the_numbers_of_an_interrupted_run_are_stored_for_people() {
    let partial = case(NEW, "k30_sigint").judge().unwrap_err().partial.unwrap();
    let total: u64 = partial.operations.iter().map(|operation| operation.count).sum();
    assert!(total > 45_842, "only {total} operations");
    let partial = case(OLD, "k30_sigint").judge().unwrap_err().partial.unwrap();
    assert!(partial.operations.is_empty(), "1.4.0 leaves nothing to read");
}

#[test]
fn dead_servers_are_noticed_without_any_line_on_stderr() {
    for (version, name, fragment) in [
        (OLD, "k40_server_killed", "never finished"),
        (OLD, "k41_server_killed_n_mode", "never finished"),
        (OLD, "k02_conn_refused_time", "no operation at all"),
        (NEW, "k40_server_killed", "no operation at all"),
        (NEW, "i4_cluster_master_killed", "1 connection errors"),
    ] {
        let case = case(version, name);
        let output = tempfile::tempdir().unwrap();
        fs::write(output.path().join("memtier.json"), case.json().unwrap()).unwrap();
        let rejected =
            MemtierAdapter::new(spec()).judge(&job(), &context(output.path()), &case.ended()).unwrap_err();
        assert!(rejected.failure.message.contains(fragment), "{case}: {}", rejected.failure.message);
    }
}

#[test]
fn a_run_that_ended_too_early_is_refused() {
    let case = case(NEW, "d2_mixed_time");
    let mut ended = case.ended();
    ended.wall = Duration::from_millis(2500);
    let rejected = case.judge_as(case.json().as_deref(), &ended).unwrap_err();
    assert_eq!(rejected.failure.step, Tool);
    assert!(
        rejected.failure.message.contains("after 2.5 s but was to run for 3 s"),
        "{}",
        rejected.failure.message
    );
}

#[test]
fn missing_replies_are_refused() {
    let case = case(NEW, "t_tiny_n1");
    let json = case.file("out.json").replace("\"Requests per client\": 1", "\"Requests per client\": 2");
    let rejected = case.judge_as(Some(json.as_bytes()), &case.ended()).unwrap_err();
    assert!(rejected.failure.message.contains("1 replies but was to send 2"), "{}", rejected.failure.message);
}

#[test]
fn counts_that_contradict_each_other_are_refused() {
    let case = case(NEW, "a_write_only");
    let json = case.file("out.json");
    let sets = json.find("\"Count\": 100000").unwrap();
    let changed = format!("{}{}", &json[..sets], json[sets..].replacen("100000", "100001", 1));
    let rejected = case.judge_as(Some(changed.as_bytes()), &case.ended()).unwrap_err();
    assert_eq!(rejected.failure.step, Output, "{}", rejected.failure.message);
    assert!(rejected.failure.message.contains("add up to 100001"), "{}", rejected.failure.message);
}

#[test]
fn names_and_values_that_make_the_configuration_no_json_do_no_harm() {
    for version in BOTH {
        let case = case(version, "k12_right_auth");
        let text = case.file("out.json");
        let spoiled = text.replace("memtier-", "me\"m\\tier-").replace("sekret", "se\"k\\ret");
        assert!(serde_json::from_str::<serde_json::Value>(&spoiled).is_err(), "{case} is not spoiled");
        let measured = case.judge_as(Some(spoiled.as_bytes()), &case.ended()).unwrap();
        assert_eq!(numbers(&measured), numbers(&case.measured()), "{case}");
        let parsed = dragstrip_parsers::memtier::parse(&spoiled, &Capture::default(), 1).unwrap();
        assert!(parsed.operations.iter().any(|operation| operation.count > 0), "{case}");
    }
}

#[test]
fn a_missing_result_file_is_refused() {
    let case = case(NEW, "a_write_only");
    let rejected = case.judge_as(None, &case.ended()).unwrap_err();
    assert_eq!(rejected.failure.step, Output);
    assert!(rejected.failure.message.contains("no result file"), "{}", rejected.failure.message);
    let partial = rejected.partial.unwrap();
    assert_eq!(
        (partial.tool.connections, partial.tool.pipeline),
        (21, 5),
        "its command line is known all the same"
    );
}

#[test]
fn numbers_that_are_none_do_not_spoil_a_result() {
    let case = case(NEW, "a_write_only");
    let json = case
        .file("out.json")
        .replace("\"KB/sec\": 0.00", "\"KB/sec\": -nan")
        .replace("\"Max Latency\": 7.103", "\"Max Latency\": inf");
    let measured = case.judge_as(Some(json.as_bytes()), &case.ended()).unwrap();
    assert_eq!(numbers(&measured), numbers(&case.measured()));
}

/// Everything but the command line, which holds the name of a temporary directory.
fn numbers(measured: &PodResult) -> (&[Operation], &BTreeMap<String, u64>, &[u64]) {
    (&measured.operations, &measured.errors, &measured.per_second)
}

#[test]
fn the_tools_record_has_its_load_and_the_password_only_among_its_arguments() {
    for version in BOTH {
        let case = case(version, "k12_right_auth");
        assert!(case.file("out.json").contains("sekret"), "{case} has no secret to hide");
        let mut measured = case.measured();
        assert_eq!((measured.tool.connections, measured.tool.pipeline), (2, 5), "{case}");
        // The runner redacts them, as those of every tool.
        measured.tool.arguments.clear();
        assert!(!format!("{measured:?}").contains("sekret"), "{case} gives the password away");
    }
}

#[test]
fn the_tool_s_own_rate_and_duration_are_recorded_as_they_are() {
    let tool = case(NEW, "a_write_only").measured().tool;
    assert_eq!(
        tool.reported_operations_per_second,
        Some(847_436.08),
        "ten times the truth, but that is what it says"
    );
    let tool = case(OLD, "k40_server_killed").judge().unwrap_err().partial.unwrap().tool;
    assert_eq!(tool.reported_operations_per_second, None);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn a_result_file_cut_anywhere_never_gives_wrong_numbers(which in 0usize..1000, cut in any::<prop::sample::Index>()) {
        let cases = good_cases();
        let case = &cases[which % cases.len()];
        let json = case.json().unwrap();
        let length = cut.index(json.len() + 1);
        match case.judge_as(Some(&json[..length]), &case.ended()) {
            Ok(measured) => {
                let whole = case.measured();
                prop_assert_eq!(numbers(&measured), numbers(&whole), "{} cut at {}", case, length);
            }
            Err(rejected) => prop_assert_eq!(rejected.failure.step, Output, "{}: {}", case, rejected.failure.message),
        }
    }

    #[test]
    fn a_damaged_result_file_never_causes_a_panic(which in 0usize..1000, position in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let cases = good_cases();
        let case = &cases[which % cases.len()];
        let mut json = case.json().unwrap();
        let position = position.index(json.len());
        json[position] = byte;
        let _ = case.judge_as(Some(&json), &case.ended());
    }

    #[test]
    fn random_bytes_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
        let case = case(NEW, "a_write_only");
        prop_assert!(case.judge_as(Some(&bytes), &case.ended()).is_err());
    }
}
