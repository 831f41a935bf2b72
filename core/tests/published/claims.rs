//! What the sources say about their tables, held against the tables themselves. Reads the tables.

use super::figures;
use dragstrip_crds::{thresholds::Threshold, units::Decimal};

/// The published figures of a suite at `place`: variant, values, phase, operation and metric with
/// slashes between; `*` matches anything.
fn all(suite: &str, place: &str) -> Vec<f64> {
    let wanted: Vec<&str> = place.split('/').collect();
    let matches = |figure: &&dragstrip_report::published::Figure| {
        let mut found = vec![figure.cell.variant.as_str()];
        found.extend(figure.cell.values.iter().map(String::as_str));
        found.extend([figure.phase.as_str(), &figure.operation, &figure.metric]);
        found.len() == wanted.len() && found.iter().zip(&wanted).all(|(one, two)| *two == "*" || one == two)
    };
    figures(suite).iter().filter(matches).map(|figure| figure.value).collect()
}

/// The only such figure.
fn one(suite: &str, place: &str) -> f64 {
    let found = all(suite, place);
    assert_eq!(found.len(), 1, "{suite}: {place}");
    found[0]
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The mean time of a batch of the Rust client, in ms.
fn batch(key: &str, value: &str, phase: &str) -> f64 {
    one("rust-client-sizes-criterion", &format!("v1/{key}/{value}/{phase}/TOTAL/time"))
}

fn jobs(variant: &str) -> f64 {
    one("bullmq", &format!("{variant}/add-jobs/TOTAL/nominalAddJobsPerSecond"))
}

fn jobs_over(variant: &str, baseline: &str) -> f64 {
    jobs(variant) / jobs(baseline)
}

/// What one client of 200 threads had of two of 100.
fn one_of_two(operation: &str) -> f64 {
    let of = |variant| {
        one("dkv-one-vs-two-clients-unix", &format!("{variant}/perf/{operation}/OperationsPerSecond"))
    };
    of("one-client") / of("two-clients")
}

fn dkv_over_etcd(threads: &str, operation: &str, metric: &str) -> f64 {
    let of = |system| one("dkv-vs-etcd", &format!("{system}/{threads}/perf/{operation}/{metric}"));
    of("dkv") / of("etcd")
}

fn serializer(begin: &str, end: &str) -> Vec<f64> {
    let found = figures("dkv-in-process").iter();
    let found = found.filter(|it| it.metric.starts_with(begin) && it.metric.ends_with(end));
    found.map(|figure| figure.value).collect()
}

fn extremes(values: &[f64]) -> (f64, f64) {
    values.iter().fold((f64::MAX, f64::MIN), |(low, high), value| (low.min(*value), high.max(*value)))
}

/// A sentence of a source, what its own figures give, and the least and most that the sentence means.
pub struct Claim {
    pub source: &'static str,
    pub text: &'static str,
    /// The ratio of the published figures; `None` if the source has none.
    pub published: Option<f64>,
    pub means: (f64, f64),
    /// Whose thresholds check a measurement of one's own.
    pub suite: &'static str,
}

impl Claim {
    /// Whether the published figures say what the sentence says.
    pub fn holds(&self) -> Option<bool> {
        self.published.map(|value| (self.means.0..=self.means.1).contains(&value))
    }
}

const RUST: &str = "Rust client";
const BULLMQ: &str = "BullMQ";
const DKV: &str = "dKV";
const FRED: &str = "fred";
const MEMTIER: &str = "memtier";

const SIZES: &str = "rust-client-sizes-criterion";

fn claim(
    source: &'static str,
    text: &'static str,
    published: f64,
    means: (f64, f64),
    suite: &'static str,
) -> Claim {
    Claim { source, text, published: Some(published), means, suite }
}

fn of_the_rust_client() -> Vec<Claim> {
    let multi_set = all("rust-client-sizes-criterion", "v1/*/*/multi-set/TOTAL/time");
    let pipelined = all("rust-client-sizes-criterion", "v1/*/*/pipelined-set/TOTAL/time");
    let (fastest, slowest) = extremes(&multi_set);
    let small: Vec<f64> = ["8", "16", "32"].map(|value| batch("8", value, "multi-set")).to_vec();
    let smallest = batch("8", "8", "multi-set");
    let over = |key, value| batch(key, value, "multi-set") / smallest;
    vec![
        claim(RUST, "fastest over 2x faster than slowest (MSET)", slowest / fastest, (2.0, f64::MAX), SIZES),
        claim(RUST, "key of 128 instead of 8 bytes: latency +67 %", over("128", "8"), (1.665, 1.675), SIZES),
        claim(
            RUST,
            "value of 128 instead of 8 bytes: latency +47 %",
            over("8", "128"),
            (1.465, 1.475),
            SIZES,
        ),
        claim(
            RUST,
            "keys of 8, values up to 32 bytes: at least 47 ms",
            extremes(&small).0,
            (47.0, 55.0),
            SIZES,
        ),
        claim(
            RUST,
            "keys of 8, values up to 32 bytes: at most 55 ms",
            extremes(&small).1,
            (47.0, 55.0),
            SIZES,
        ),
        claim(
            RUST,
            "pipelined SET about 4x the latency of MSET: with the smallest items",
            batch("8", "8", "pipelined-set") / smallest,
            (3.5, 4.5),
            SIZES,
        ),
        claim(RUST, "the same: mean over all sizes", mean(&pipelined) / mean(&multi_set), (3.5, 4.5), SIZES),
    ]
}

const LADDER: &str = "bullmq";

fn of_bullmq() -> Vec<Claim> {
    let locks = "dragonfly-global-locks";
    let hops = "dragonfly-fewer-hops-commands";
    let near = |printed: f64| (printed * 0.995, printed * 1.005);
    let over = |variant| jobs_over(variant, locks);
    let text = |text, value, means| claim(BULLMQ, text, value, means, LADDER);
    vec![
        claim(BULLMQ, "30x throughput", over("dragonfly-round-robin"), (30.0, f64::MAX), LADDER),
        text("hashtag locks: 2.26x, +126 %", over("dragonfly-hashtag-locks"), near(2.26)),
        text("reduced hops (commands): 6.98x", over(hops), near(6.98)),
        text("reduced hops (commands): +200 %", jobs_over(hops, "dragonfly-hashtag-locks"), (2.95, 3.05)),
        text("reduced hops (scripts): 15.97x", over("dragonfly-fewer-hops-scripts"), near(15.97)),
        text("reduced hops (scripts): +132 %", jobs_over("dragonfly-fewer-hops-scripts", hops), near(2.32)),
        text("connection migration: 24.65x", over("dragonfly-migration"), near(24.65)),
        text("shard round robin: 32.87x", over("dragonfly-round-robin"), near(32.87)),
    ]
}

const TWO_CLIENTS: &str = "dkv-one-vs-two-clients-unix";
const VS_ETCD: &str = "dkv-vs-etcd";

fn of_dkv_clients() -> Vec<Claim> {
    let others = ["set", "get", "delete", "has", "has-not", "mixed"].map(one_of_two);
    vec![
        claim(
            DKV,
            "one client about 75 to 80 % of two, large-set apart",
            mean(&others),
            (0.75, 0.8),
            TWO_CLIENTS,
        ),
        claim(
            DKV,
            "the same: least of the operations (mixed)",
            extremes(&others).0,
            (0.75, 0.8),
            TWO_CLIENTS,
        ),
        claim(DKV, "the same: most of the operations (get)", extremes(&others).1, (0.75, 0.8), TWO_CLIENTS),
        claim(
            DKV,
            "large-set nearly the same with one client",
            one_of_two("set-large"),
            (0.95, 1.05),
            TWO_CLIENTS,
        ),
    ]
}

fn of_dkv() -> Vec<Claim> {
    let rss = |variant| one("dkv-memory", &format!("{variant}/perf/TOTAL/ServerRssBytes"));
    let settled = rss("a-minute-after") / rss("right-after");
    let binary = extremes(&serializer("Serialize/Binary", "ns/op"));
    let gob = extremes(&serializer("Serialize/GOB", "ns/op"));
    let rate = "OperationsPerSecond";
    let in_process = "dkv-in-process";
    let etcd = |text, threads, operation, printed: f64| {
        let value = dkv_over_etcd(threads, operation, rate);
        claim(DKV, text, value, (printed - 0.01, printed + 0.01), VS_ETCD)
    };
    vec![
        etcd("10 threads: set +76 % over etcd", "10", "set", 1.76),
        etcd("10 threads: mixed +268 % over etcd", "10", "mixed", 3.68),
        etcd("50 threads: set +154 % over etcd", "50", "set", 2.54),
        etcd("50 threads: mixed +714 % over etcd", "50", "mixed", 8.14),
        claim(DKV, "memory much lower a minute after the load", settled, (0.0, 0.5), "dkv-memory"),
        claim(DKV, "binary serializes in at least 19 ns", binary.0, (19.0, 20.0), in_process),
        claim(DKV, "binary serializes in at most 2115 ns", binary.1, (2114.0, 2116.0), in_process),
        claim(DKV, "GOB serializes in at least 1876 ns", gob.0, (1875.0, 1877.0), in_process),
        claim(
            DKV,
            "GOB serializes in at most 2196 ns whatever the size",
            gob.1,
            (2195.0, 2197.0),
            in_process,
        ),
    ]
}

fn of_others() -> Vec<Claim> {
    let rate = |server| {
        one("memtier-dragonfly-garnet", &format!("{server}/pipelined-read/GET/toolOperationsPerSecond"))
    };
    let factor = rate("garnet-c6in") / rate("dragonfly-c6in");
    let hits = mean(&all("memtier-dragonfly-garnet", "*/*/GET/HitRatio"));
    vec![
        claim(
            MEMTIER,
            "pipelined read: Garnet x3.7 of Dragonfly on c6in",
            factor,
            (3.65, 3.75),
            "memtier-dragonfly-garnet",
        ),
        claim(MEMTIER, "every read hits", hits, (1.0, f64::MAX), "memtier-dragonfly-garnet"),
        Claim {
            source: FRED,
            text: "tracing compiled in: throughput -20 %",
            published: None,
            means: (0.75, 0.85),
            suite: "fred-tracing",
        },
    ]
}

/// Every claim, by source.
pub fn claims() -> Vec<Claim> {
    let all = [of_the_rust_client(), of_bullmq(), of_dkv_clients(), of_dkv(), of_others()];
    all.into_iter().flatten().collect()
}

#[test]
fn a_threshold_of_the_suite_that_it_names_checks_each_claim() {
    for claim in claims() {
        let thresholds = super::suite(claim.suite).spec.thresholds;
        let (low, high) = claim.means;
        // A threshold allows a tenth, where the sentence means the digits that it prints.
        let says = |threshold: &Threshold| {
            let least = threshold.minimum.as_ref().map_or(0.0, Decimal::value);
            let most = threshold.maximum.as_ref().map_or(f64::MAX, Decimal::value);
            (0.9 * low..=low).contains(&least) && (most / 1.1..=most).contains(&high)
        };
        assert!(thresholds.iter().any(says), "{}: no threshold of {} says so", claim.text, claim.suite);
    }
}

/// The rate times the mean latency, divided by the requests in flight: memtier's -t, -c and
/// --pipeline. It cannot exceed 1 in a closed loop.
fn in_flight(variant: &str, phase: &str, operation: &str) -> f64 {
    let of = |metric| one("memtier-dragonfly-garnet", &format!("{variant}/{phase}/{operation}/{metric}"));
    let requests = if phase == "pipelined-read" { 60.0 * 5.0 * 10.0 } else { 60.0 * 20.0 };
    of("toolOperationsPerSecond") * of("MeanMilliseconds") / 1e3 / requests
}

#[test]
fn the_published_rates_of_memtier_are_0_82_to_1_38_of_what_its_latencies_allow() {
    let servers = ["dragonfly-c6gn", "dragonfly-c7gn", "garnet-c6in", "dragonfly-c6in"];
    let phases = [("write-only", "SET"), ("read-only", "GET"), ("pipelined-read", "GET")];
    let all: Vec<f64> = servers
        .iter()
        .flat_map(|server| phases.map(|(phase, operation)| in_flight(server, phase, operation)))
        .collect();
    let (least, most) = extremes(&all);
    assert_eq!(
        (format!("{least:.2}"), format!("{most:.2}")),
        ("0.82".to_owned(), "1.38".to_owned()),
        "{all:?}"
    );
    let readme = super::file("memtier-dragonfly-garnet", "README.md");
    assert!(readme.contains("it is 0.82 to 1.38"), "the README says how far the published rates are off");
}

#[test]
fn a_printed_difference_is_that_of_its_figures_to_a_percent() {
    for (suite, pairs) in
        [("dkv-vs-etcd", ("dkv", "etcd")), ("dkv-one-vs-two-clients-unix", ("one-client", "two-clients"))]
    {
        let all = figures(suite);
        let printed = all.iter().filter(|figure| figure.cell.variant == pairs.0);
        let mut count = 0;
        for figure in printed {
            let note = figure.note.as_deref().unwrap_or_default();
            let Some((_, note)) = note.split_once("printed difference ") else { continue };
            let percent: f64 =
                note.trim_end_matches('%').parse().unwrap_or_else(|_| panic!("{suite}: {note}"));
            let other = all.iter().find(|other| {
                other.cell.variant == pairs.1
                    && other.cell.values == figure.cell.values
                    && (&other.operation, &other.metric) == (&figure.operation, &figure.metric)
            });
            let ratio = figure.value / other.unwrap_or_else(|| panic!("{suite}: {figure:?}")).value;
            assert!(((ratio - 1.0) * 100.0 - percent).abs() < 1.0, "{suite}: {note} of {ratio}");
            count += 1;
        }
        assert!(count >= 7, "{suite}: {count} printed differences");
    }
}
