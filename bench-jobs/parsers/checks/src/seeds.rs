//! Inputs to begin with: the fixtures of the project's parsers.

use dragstrip_loadgen::counts::report::Report;
use dragstrip_results::{histogram::EncodedHistogram, result::Operation};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// Longest seed: fuzzers and debug builds crawl on longer ones.
const LONGEST: u64 = 32 * 1024;

/// One input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seed {
    /// Where it comes from.
    pub name: String,
    /// The input.
    pub data: Vec<u8>,
}

pub(crate) fn memtier_json() -> Vec<Seed> {
    let mut seeds = files("../../runner/tests/fixtures/memtier", "out.json");
    seeds.extend(files("../tests/fixtures/dfly_bench", ".json"));
    seeds
}

pub(crate) fn redis_benchmark_csv() -> Vec<Seed> {
    let mut seeds = files("../tests/fixtures/redis-benchmark", ".csv");
    seeds.push(seed(
        "two columns",
        "\"SET\",\"123456.79\"\n\"LRANGE_100 (first 100 elements)\",\"51020.41\"\n",
    ));
    seeds
}

pub(crate) fn go_bench() -> Vec<Seed> {
    files("../tests/fixtures/go-bench", ".txt")
}

pub(crate) fn csv() -> Vec<Seed> {
    let mut seeds = files("../tests/fixtures/csv", ".csv");
    seeds.push(seed(
        "units",
        "Test,NsPerOp,OpsPerSec,Keys Count,TimeoutSec,LatencyP50,LatencyP99\n\
         set,7871,127049.5,100,15 s,1.2ms,3.75ms\nget,1,N/A,---,15 s,0.5,1m2.5s\n",
    ));
    seeds
}

/// The first byte chooses the patterns.
pub(crate) fn regex() -> Vec<Seed> {
    let names = ["fred.txt", "bullmq.txt", "etcd-3.5.txt", "resp-benchmark.txt", "dkv-perf.txt"];
    let fixtures = files("../tests/fixtures/regex", ".txt");
    let of = |(choice, name): (usize, &str)| {
        let fixture = fixtures.iter().find(|seed| seed.name.ends_with(name)).unwrap();
        chosen(u8::try_from(choice).unwrap(), fixture.clone())
    };
    names.into_iter().enumerate().map(of).collect()
}

pub(crate) fn regex_pattern() -> Vec<Seed> {
    vec![
        seed("count", "^(?<operation>\\w+) (?<count>[0-9]+)\nset 5\nget 7\n"),
        seed("latency", "p50=(?<p50>\\S+) .*(?<ram>[0-9.]+)\nx p50=1.2ms ram 7\n"),
        seed("rate", "(?i)throughput: (?<operationsPerSecond>[0-9.,]+)\\s*ops\nThroughput: 5.5 ops\n"),
    ]
}

pub(crate) fn json() -> Vec<Seed> {
    files("../tests/fixtures/json", ".json")
}

pub(crate) fn hdr_histogram_log() -> Vec<Seed> {
    files("../tests/fixtures/hdr-histogram-log", ".hdr")
}

pub(crate) fn dragstrip_json() -> Vec<Seed> {
    files("../tests/fixtures/dragstrip", ".json")
}

pub(crate) fn loadgen_report() -> Vec<Seed> {
    // Its histogram is memtier's: another generator's, but the same encoding.
    let histogram = histogram().into_iter().next().map(|seed| String::from_utf8(seed.data).unwrap());
    let operation = Operation {
        name: "GET".to_owned(),
        count: 990,
        hits: Some(900),
        misses: Some(90),
        errors: 10,
        histogram: Some(EncodedHistogram(histogram.unwrap())),
        per_second: vec![330; 3],
        ..Operation::default()
    };
    let report = Report {
        tool: "dragstrip-loadgen".to_owned(),
        started_at_unix_nanos: Some(1_790_000_000_123_456_789),
        window_seconds: 2.5,
        operations: vec![operation],
        ..Report::default()
    };
    vec![seed("report", &report.to_json().unwrap())]
}

pub(crate) fn resp_replies() -> Vec<Seed> {
    vec![
        seed(
            "resp2",
            "+OK\r\n:1000\r\n$5\r\nhello\r\n$-1\r\n*2\r\n$3\r\nfoo\r\n*-1\r\n-ERR unknown command\r\n",
        ),
        seed(
            "resp3",
            "_\r\n#t\r\n,3.14\r\n(3492890328409238509324850943850943825024385\r\n%1\r\n+a\r\n:1\r\n~1\r\n+x\r\n>2\r\n+message\r\n+x\r\n",
        ),
        seed(
            "attributes",
            "|1\r\n+ttl\r\n:3600\r\n$3\r\nfoo\r\n=15\r\ntxt:Some string\r\n!21\r\nSYNTAX invalid syntax\r\n",
        ),
    ]
}

pub(crate) fn memtier_progress() -> Vec<Seed> {
    files("../../runner/tests/fixtures/memtier", "stderr.txt")
}

pub(crate) fn info() -> Vec<Seed> {
    files("../../runner/tests/fixtures/dragonfly", ".txt")
}

pub(crate) fn histogram() -> Vec<Seed> {
    // memtier's histograms, out of its files, and an empty one's text.
    memtier_json()
        .into_iter()
        .filter_map(|file| {
            let text = String::from_utf8_lossy(&file.data).into_owned();
            let start = text.find("HISTF")?;
            let length = text[start..].find('"')?;
            Some(seed(&file.name, &text[start..start + length]))
        })
        .collect()
}

pub(crate) fn units() -> Vec<Seed> {
    ["512Mi", "2Gi", "1000000", "90s", "1h30m", "1m30s", "250ms", "24h", "P1DT2H"]
        .map(|text| seed(text, text))
        .into()
}

fn here() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn seed(name: &str, text: &str) -> Seed {
    Seed { name: name.to_owned(), data: text.as_bytes().to_vec() }
}

fn chosen(choice: u8, mut seed: Seed) -> Seed {
    seed.data.insert(0, choice);
    seed
}

/// Files below a directory whose path ends like this, sorted by path.
fn files(directory: &str, ending: &str) -> Vec<Seed> {
    let root = here().join(directory);
    let mut seeds = Vec::new();
    collect(&root, &root, ending, &mut seeds);
    seeds.sort_by(|one, other| one.name.cmp(&other.name));
    seeds
}

fn collect(root: &Path, directory: &Path, ending: &str, seeds: &mut Vec<Seed>) {
    let entries = fs::read_dir(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    for entry in entries {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(root, &path, ending, seeds);
        } else if path.to_string_lossy().ends_with(ending) && fs::metadata(&path).unwrap().len() <= LONGEST {
            let name = path.strip_prefix(root).unwrap().to_string_lossy().into_owned();
            seeds.push(Seed { name, data: fs::read(&path).unwrap() });
        }
    }
}
