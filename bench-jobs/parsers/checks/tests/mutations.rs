//! Every check on every fixture, as it is and with bytes cut, changed, added
//! and swapped: a short run of what the fuzz targets do for longer.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use dragstrip_parser_checks::{Seed, TARGETS, Target, target};
use proptest::{prelude::*, test_runner::TestRunner};

/// Mutated inputs per target.
const CASES: u32 = 80;

/// Text that breaks parsers: numbers at the edge of their type, and things that are no numbers.
const TOKENS: [&str; 16] = [
    "0",
    "-1",
    "1e999",
    "nan",
    "-inf",
    "18446744073709551616",
    "9007199254740993",
    "1,234.5",
    "1.234,5",
    "\"",
    "\n",
    "\u{0}",
    "{",
    "]",
    "µs",
    "\u{feff}",
];

#[derive(Debug, Clone)]
enum Mutation {
    Cut(prop::sample::Index),
    Remove(prop::sample::Index, usize),
    Change(prop::sample::Index, u8),
    Insert(prop::sample::Index, usize),
    Repeat(prop::sample::Index, usize),
}

fn mutation() -> impl Strategy<Value = Mutation> {
    let place = any::<prop::sample::Index>;
    prop_oneof![
        place().prop_map(Mutation::Cut),
        (place(), 1usize..40).prop_map(|(at, length)| Mutation::Remove(at, length)),
        (place(), any::<u8>()).prop_map(|(at, byte)| Mutation::Change(at, byte)),
        (place(), 0..TOKENS.len()).prop_map(|(at, token)| Mutation::Insert(at, token)),
        (place(), 1usize..80).prop_map(|(at, length)| Mutation::Repeat(at, length)),
    ]
}

fn apply(data: &mut Vec<u8>, mutation: &Mutation) {
    if data.is_empty() {
        return;
    }
    let length = data.len();
    match mutation {
        Mutation::Cut(at) => data.truncate(at.index(length)),
        Mutation::Remove(at, count) => {
            let start = at.index(length);
            data.drain(start..length.min(start + count));
        }
        Mutation::Change(at, byte) => data[at.index(length)] = *byte,
        Mutation::Insert(at, token) => {
            let start = at.index(length);
            data.splice(start..start, TOKENS[*token].bytes());
        }
        Mutation::Repeat(at, count) => {
            let start = at.index(length);
            let piece = data[start..length.min(start + count)].to_vec();
            data.splice(start..start, piece);
        }
    }
}

fn seeds(target: &Target) -> Vec<Seed> {
    let seeds = (target.seeds)();
    assert!(!seeds.is_empty(), "{} has no fixtures to begin with", target.name);
    seeds
}

fn holds_for_mutated_fixtures(name: &str) {
    let target = target(name).unwrap();
    let seeds = seeds(&target);
    for seed in &seeds {
        (target.check)(&seed.data);
    }
    let inputs = (0..seeds.len(), prop::collection::vec(mutation(), 1..5));
    let mut runner = TestRunner::new(ProptestConfig {
        cases: CASES,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let outcome = runner.run(&inputs, |(seed, mutations)| {
        let mut data = seeds[seed].data.clone();
        for mutation in &mutations {
            apply(&mut data, mutation);
        }
        (target.check)(&data);
        Ok(())
    });
    outcome.unwrap_or_else(|error| panic!("{name}: {error}"));
}

macro_rules! targets {
    ($($name:ident),* $(,)?) => {
        $(#[test] fn $name() { holds_for_mutated_fixtures(stringify!($name)); })*
        const TESTED: &[&str] = &[$(stringify!($name)),*];
    };
}

targets!(
    memtier_json,
    redis_benchmark_csv,
    go_bench,
    csv,
    regex,
    regex_pattern,
    json,
    hdr_histogram_log,
    dragstrip_json,
    loadgen_report,
    resp_replies,
    memtier_progress,
    info,
    histogram,
    units,
);

#[test]
fn every_target_is_tested_and_fuzzed() {
    let fuzzed = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../fuzz/fuzz_targets");
    for target in TARGETS {
        assert!(TESTED.contains(&target.name), "{} is not tested", target.name);
        let file = std::path::Path::new(fuzzed).join(target.name).with_extension("rs");
        assert!(file.is_file(), "{} has no fuzz target", target.name);
    }
}
