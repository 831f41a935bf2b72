//! What must hold for every parser of the project, whatever bytes it is given:
//! it neither panics nor hangs, and of input that was cut anywhere it reads
//! what stands before the cut or nothing, but no other number. The fuzz targets
//! run these checks on inputs they search for, the tests on mutated fixtures.
//!
//! A check that fails panics: that is how a fuzzer learns of it.
#![allow(clippy::panic, clippy::unwrap_used, clippy::expect_used)]

pub mod examples;
mod outputs;
mod seeds;
mod streams;
mod values;

pub use seeds::Seed;

/// One parser, its check and inputs to begin with.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// Its name: that of the fuzz target.
    pub name: &'static str,
    /// Panics if something does not hold for these bytes.
    pub check: fn(&[u8]),
    /// Inputs out of the fixtures.
    pub seeds: fn() -> Vec<Seed>,
}

/// Every parser of the project.
pub const TARGETS: [Target; 15] = [
    Target { name: "memtier_json", check: outputs::memtier_json, seeds: seeds::memtier_json },
    Target {
        name: "redis_benchmark_csv",
        check: outputs::redis_benchmark_csv,
        seeds: seeds::redis_benchmark_csv,
    },
    Target { name: "go_bench", check: outputs::go_bench, seeds: seeds::go_bench },
    Target { name: "csv", check: outputs::csv, seeds: seeds::csv },
    Target { name: "regex", check: outputs::regex, seeds: seeds::regex },
    Target { name: "regex_pattern", check: outputs::regex_pattern, seeds: seeds::regex_pattern },
    Target { name: "json", check: outputs::json, seeds: seeds::json },
    Target { name: "hdr_histogram_log", check: outputs::hdr_histogram_log, seeds: seeds::hdr_histogram_log },
    Target { name: "dragstrip_json", check: outputs::dragstrip_json, seeds: seeds::dragstrip_json },
    Target { name: "loadgen_report", check: values::loadgen_report, seeds: seeds::loadgen_report },
    Target { name: "resp_replies", check: streams::resp_replies, seeds: seeds::resp_replies },
    Target { name: "memtier_progress", check: streams::memtier_progress, seeds: seeds::memtier_progress },
    Target { name: "info", check: streams::info, seeds: seeds::info },
    Target { name: "histogram", check: values::histogram, seeds: seeds::histogram },
    Target { name: "units", check: values::units, seeds: seeds::units },
];

/// The target with this name.
pub fn target(name: &str) -> Option<Target> {
    TARGETS.into_iter().find(|target| target.name == name)
}

/// Runs the check called `name`.
///
/// # Panics
/// If something does not hold for `data`, or there is no such check.
pub fn check(name: &str, data: &[u8]) {
    (target(name).unwrap_or_else(|| panic!("there is no check {name:?}")).check)(data);
}

/// Where to cut an input: at some ten places, and within its last bytes, where
/// formats close their brackets. Inputs vary, and so do the places.
fn cuts(length: usize) -> impl Iterator<Item = usize> {
    let step = (length / 10).max(1);
    (0..length).step_by(step).chain(length.saturating_sub(3)..length)
}
