//! Every row of the published tables: in which suite it is, and whether that measures it as its
//! authors did. Reads the suites and their tables.

use super::{EXPANDED, SUITES, figures, suite};
use dragstrip_crds::{run::Target, workload::ToolSpec};
use dragstrip_report::published::Figure;
use dragstrip_results::result::TOTAL;
use kube::ResourceExt as _;
use std::collections::{BTreeMap, BTreeSet};

/// The annotation of a suite that says why it does not measure what was published strictly:
/// with the same tool, flags and topology.
const NOT_STRICT: &str = "dragstrip.dev/not-strict";

/// What makes a row of a source's table.
#[derive(Clone, Copy)]
pub enum By {
    /// A combination: the variant, and values that the table does not fix.
    Combination,
    /// A phase of a combination.
    Phase,
    /// An operation, or the memory.
    Operation,
    /// The first word of a metric, such as a client.
    Client,
    /// A member, or all of them.
    Member,
    /// What a metric begins with, up to its unit.
    Benchmark,
    /// A message, in each of three formats.
    Message,
}

/// A table of a source, named as its authors' headings do.
pub struct Source {
    pub name: &'static str,
    /// Its suite; where there are several, the one that is closest.
    pub suite: &'static str,
    /// The column of our table, and what it must contain.
    only: &'static [(&'static str, &'static str)],
    by: By,
    pub rows: usize,
}

const fn source(
    name: &'static str,
    suite: &'static str,
    only: &'static [(&'static str, &'static str)],
    by: By,
    rows: usize,
) -> Source {
    Source { name, suite, only, by, rows }
}

const THROUGHPUT: &str = "rust-client-throughput-criterion";
const SIZES: &str = "rust-client-sizes-criterion";

/// The 24 tables, 197 rows.
pub const SOURCES: [Source; 24] = [
    source("memtier-dragonfly-garnet", "memtier-dragonfly-garnet", &[], By::Phase, 12),
    source("bullmq-add-jobs", "bullmq-tool", &[], By::Combination, 9),
    source(
        "rust-client-multiset-batch1000-pool100",
        THROUGHPUT,
        &[("batch-size", "1000"), ("metric", " multi_set ")],
        By::Client,
        5,
    ),
    source(
        "rust-client-multiset-batch10000-pool100",
        THROUGHPUT,
        &[("batch-size", "10000"), ("metric", " multi_set ")],
        By::Client,
        5,
    ),
    source(
        "rust-client-pipelined-set-expire-batch1000-pool100",
        THROUGHPUT,
        &[("batch-size", "1000"), ("metric", " pipelined_set ")],
        By::Client,
        5,
    ),
    source(
        "rust-client-pipelined-set-expire-batch10000-pool100",
        THROUGHPUT,
        &[("batch-size", "10000"), ("metric", " pipelined_set ")],
        By::Client,
        5,
    ),
    source("rust-client-multiset-key-value-sizes", SIZES, &[("phase", "multi-set")], By::Combination, 25),
    source(
        "rust-client-pipelined-set-expire-key-value-sizes",
        SIZES,
        &[("phase", "pipelined-set")],
        By::Combination,
        25,
    ),
    source("fred-redis-rs", "fred", &[], By::Combination, 6),
    source(
        "dkv-cluster-threads50-workers50",
        "dkv-cluster",
        &[("threads", "50"), ("workers", "50")],
        By::Combination,
        6,
    ),
    source(
        "dkv-cluster-threads10-workers50",
        "dkv-cluster",
        &[("threads", "10"), ("workers", "50")],
        By::Combination,
        6,
    ),
    source(
        "dkv-cluster-threads50-workers10",
        "dkv-cluster",
        &[("threads", "50"), ("workers", "10")],
        By::Combination,
        6,
    ),
    source(
        "dkv-cluster-threads10-workers10",
        "dkv-cluster",
        &[("threads", "10"), ("workers", "10")],
        By::Combination,
        6,
    ),
    source("dkv-memory-right-after", "dkv-memory", &[("variant", "right-after")], By::Member, 4),
    source("dkv-memory-a-minute-after", "dkv-memory", &[("variant", "a-minute-after")], By::Member, 4),
    source("dkv-three-vs-five-nodes", "dkv-three-vs-five", &[], By::Operation, 8),
    source("dkv-vs-etcd-threads10", "dkv-vs-etcd", &[("threads", "10")], By::Operation, 8),
    source("dkv-vs-etcd-threads50", "dkv-vs-etcd", &[("threads", "50")], By::Operation, 8),
    source("dkv-single-node", "dkv-single-node", &[], By::Combination, 6),
    source("dkv-one-vs-two-clients", "dkv-one-vs-two-clients-unix", &[], By::Operation, 7),
    source("dkv-store-microbenchmarks", "dkv-in-process", &[("phase", "store")], By::Benchmark, 13),
    source("dkv-serialization-speed", "dkv-in-process", &[("metric", "Serialize/")], By::Message, 6),
    source("dkv-deserialization-speed", "dkv-in-process", &[("metric", "Deserialize/")], By::Message, 6),
    source("dkv-message-size", "dkv-in-process", &[("metric", "Size/")], By::Message, 6),
];

/// A row of a source's table.
#[derive(Debug)]
pub struct Row {
    pub name: String,
    /// How many of its figures are compared.
    pub figures: usize,
    /// Why it is not measured strictly.
    pub reason: Option<String>,
}

impl Source {
    /// The columns of `figure` beside its value.
    fn columns(&self, figure: &Figure) -> BTreeMap<String, String> {
        let axes = EXPANDED[self.suite].axes.iter().map(|axis| axis.name.clone());
        let values = axes.zip(figure.cell.values.iter().cloned());
        let own = [
            ("variant", &figure.cell.variant),
            ("phase", &figure.phase),
            ("operation", &figure.operation),
            ("metric", &figure.metric),
        ];
        values.chain(own.map(|(name, value)| (name.to_owned(), value.clone()))).collect()
    }

    fn has(&self, columns: &BTreeMap<String, String>) -> bool {
        self.only.iter().all(|(name, value)| {
            let found = &columns[*name];
            if *name == "metric" { found.contains(value) } else { found == value }
        })
    }

    /// The name of the row that `figure` is in.
    fn row(&self, figure: &Figure) -> String {
        let metric = &figure.metric;
        let is_fixed = |axis: &str| self.only.iter().any(|(name, _)| *name == axis);
        let axes = EXPANDED[self.suite].axes.iter().zip(&figure.cell.values);
        let values = axes.filter(|(axis, _)| !is_fixed(&axis.name));
        let values = values.map(|(axis, value)| format!(" {}={value}", axis.name));
        let combination = || [figure.cell.variant.clone()].into_iter().chain(values).collect::<String>();
        match self.by {
            By::Combination => combination(),
            By::Phase => format!("{} {}", combination(), figure.phase),
            By::Operation if figure.operation == TOTAL => "RAM".to_owned(),
            // That of one of two clients begins with its number.
            By::Operation => figure.operation.trim_start_matches(['1', '2', ' ']).to_owned(),
            By::Client => metric.split(' ').next().unwrap().to_owned(),
            By::Member if metric.starts_with("member ") => metric[.."member 1".len()].to_owned(),
            By::Member => "SUM".to_owned(),
            By::Benchmark => metric.rsplit_once(' ').unwrap().0.trim_start_matches('/').to_owned(),
            By::Message => metric.split_once('_').unwrap().1.split(' ').next().unwrap().to_owned(),
        }
    }

    /// The rows in the order of the table.
    pub fn found(&self) -> Vec<Row> {
        let mut rows: Vec<Row> = Vec::new();
        for figure in figures(self.suite).iter().filter(|figure| self.has(&self.columns(figure))) {
            let name = self.row(figure);
            match rows.iter_mut().find(|row| row.name == name) {
                Some(row) => row.figures += 1,
                None => {
                    rows.push(Row { name, figures: 1, reason: reason(self.suite, &figure.cell.variant) });
                }
            }
        }
        rows
    }
}

/// Why the suite does not measure strictly, or not this one of its variants; `None` if it does.
pub fn reason(name: &str, variant: &str) -> Option<String> {
    let suite = suite(name);
    let annotations = suite.annotations();
    annotations.get(NOT_STRICT).or_else(|| annotations.get(&format!("{NOT_STRICT}-{variant}"))).cloned()
}

#[test]
fn all_197_published_rows_are_declared() {
    for source in &SOURCES {
        let found = source.found();
        assert_eq!(found.len(), source.rows, "rows of {}: {found:?}", source.name);
    }
    assert_eq!(SOURCES.iter().map(|source| source.rows).sum::<usize>(), 197);
}

#[test]
fn every_figure_of_a_suite_that_a_table_names_is_in_a_row() {
    let named: BTreeSet<_> = SOURCES.iter().map(|source| source.suite).collect();
    for name in named {
        let of_suite = SOURCES.iter().filter(|source| source.suite == name);
        let in_rows: usize = of_suite.flat_map(Source::found).map(|row| row.figures).sum();
        assert_eq!(in_rows, figures(name).len(), "{name}: figures in rows, and in its table");
    }
}

#[test]
fn a_suite_with_another_tool_or_a_server_of_the_users_says_why_it_is_not_strict() {
    for (name, ..) in SUITES {
        let ours = |run: &&super::ChildRun| {
            let own = |tool: &ToolSpec| !matches!(tool, ToolSpec::Memtier(_) | ToolSpec::Exec(_));
            run.spec.phases.iter().any(|phase| own(&phase.tool))
                || matches!(run.spec.target, Target::External(_))
        };
        for run in EXPANDED[name].runs.iter().filter(|run| ours(run)) {
            let why = reason(name, &run.cell.variant);
            assert!(why.is_some(), "{name}: annotate it with {NOT_STRICT}: WHY");
        }
    }
}
