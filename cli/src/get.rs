//! `dragstrip get`: what there is, as tables that fit a terminal. Needs the client, but for
//! the rows, which are pure.

use crate::{
    causes,
    cluster::{self, Cluster, Kind},
    output::{self, Form},
};
use clap::Args;
use dragstrip_crds::{
    BenchmarkRun, BenchmarkSuite, Datastore,
    conditions::{
        find, holds,
        types::{PASSED, READY, VERIFIED},
    },
    run::{OperationStatus, PhaseStatus},
    units::thousands,
};
use dragstrip_results::thresholds;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{
    Api, Resource, ResourceExt,
    api::ListParams,
    core::{DeserializeGuard, NamespaceResourceScope},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use std::{fmt::Debug, process::ExitCode};

/// What is to be shown.
#[derive(Debug, Clone, Args)]
pub struct Options {
    /// runs, suites or datastores; all of them when absent. A name may follow, or several.
    pub what: Vec<String>,
    /// Of all namespaces.
    #[arg(short = 'A', long)]
    pub all_namespaces: bool,
    /// Of those with these labels, such as team=cache.
    #[arg(short = 'l', long, value_name = "LABELS")]
    pub selector: Option<String>,
    /// The form.
    #[command(flatten)]
    pub output: output::Options,
}

/// What there is could not be shown.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It could not be had.
    #[error(transparent)]
    Cluster(#[from] cluster::Error),
    /// The kinds are none of the cluster's.
    #[error(
        "the cluster knows no {0}: its CustomResourceDefinitions are not installed; install the chart with crds.install=true, or kubectl apply -f crds/yaml"
    )]
    NotServed(String),
    /// It could not be told.
    #[error(transparent)]
    Output(#[from] output::Error),
    /// An object has no form as JSON.
    #[error("cannot write an object as JSON")]
    Json(#[source] serde_json::Error),
}

/// How long ago `since` was, as kubectl writes it: 5s, 3m, 2h, 4d.
pub fn age(since: Option<Timestamp>, now: Timestamp) -> String {
    let Some(since) = since else { return "-".to_owned() };
    let seconds = now.duration_since(since).as_secs().max(0);
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7200 => format!("{}m", seconds / 60),
        7200..172_800 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

fn or_dash(text: Option<impl ToString>) -> String {
    text.map_or_else(|| "-".to_owned(), |text| text.to_string())
}

fn status_of(conditions: &[Condition], kind: &str) -> String {
    or_dash(find(conditions, kind).map(|condition| condition.status.clone()))
}

/// A rate as whole operations per second.
// Throughput is far below 2^63 and never negative: rounding is safe.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
pub fn whole(rate: f64) -> String {
    thousands(rate.max(0.0).round() as u64)
}

/// What stands for all operations of a phase: its total, or its only operation.
pub fn total(phase: &PhaseStatus) -> Option<&OperationStatus> {
    thresholds::operation(phase, None)
}

/// Milliseconds as tables show them.
pub fn milliseconds(value: f64) -> String {
    format!("{value:.3}")
}

const RUN_HEAD: [&str; 10] =
    ["NAME", "PHASE", "DONE", "TARGET", "MEASURED", "OPS/S", "P99 MS", "VERDICT", "PASSED", "AGE"];
const RUN_NUMBERS: [usize; 2] = [5, 6];

/// One row for a run: the phase of its headline, or the last that has figures.
fn run_row(run: &BenchmarkRun, now: Timestamp) -> Vec<String> {
    let status = run.status.clone().unwrap_or_default();
    let named = status.headline.as_ref().map(|headline| headline.phase.as_str());
    let mut phases = status.phases.iter().rev();
    let shown = phases.find_map(|phase| {
        let meant = named.is_none_or(|named| named.is_empty() || named == phase.name);
        Some((phase, total(phase).filter(|_| meant)?))
    });
    let p99 = shown.and_then(|(_, total)| total.latency_milliseconds.p99);
    vec![
        run.name_any(),
        status.phase.to_string(),
        or_dash(status.progress.map(|progress| format!("{}/{}", progress.measured, progress.total))),
        or_dash(status.target.as_ref().map(|target| target.name.clone())),
        or_dash(shown.map(|(phase, _)| phase.name.clone())),
        or_dash(shown.map(|(_, total)| whole(total.operations_per_second.mean))),
        or_dash(p99.map(milliseconds)),
        or_dash(status.verdict),
        status_of(&status.conditions, PASSED),
        age(run.creation_timestamp().map(|time| time.0), now),
    ]
}

const SUITE_HEAD: [&str; 8] = ["NAME", "PHASE", "DONE", "LEFT", "BEST", "BASELINE", "PASSED", "AGE"];

fn suite_row(suite: &BenchmarkSuite, now: Timestamp) -> Vec<String> {
    let status = suite.status.clone().unwrap_or_default();
    let progress = status.progress;
    let left = progress.and_then(|progress| progress.seconds_left);
    vec![
        suite.name_any(),
        status.phase.to_string(),
        or_dash(progress.map(|progress| format!("{}/{}", progress.done, progress.total))),
        or_dash(left.map(|seconds| format!("{}m", (seconds + 59) / 60))),
        or_dash(status.best.map(|row| row.cell)),
        or_dash(status.baseline.map(|baseline| baseline.name)),
        status_of(&status.conditions, PASSED),
        age(suite.creation_timestamp().map(|time| time.0), now),
    ]
}

const DATASTORE_HEAD: [&str; 8] =
    ["NAME", "ENGINE", "VERSION", "THREADS", "READY", "VERIFIED", "NODE", "AGE"];

fn datastore_row(datastore: &Datastore, now: Timestamp) -> Vec<String> {
    let (spec, status) = (&datastore.spec, datastore.status.clone().unwrap_or_default());
    let observed = status.observed.map(|observed| observed.version);
    let ready = holds(&status.conditions, READY, datastore.metadata.generation);
    let servers = match status.members.len() {
        0 | 1 => or_dash(status.node.map(|node| node.name)),
        several => format!("{several} servers"),
    };
    vec![
        datastore.name_any(),
        spec.engine.to_string(),
        or_dash(observed.or_else(|| spec.version.clone())),
        spec.threads.to_string(),
        if ready { "True".to_owned() } else { status_of(&status.conditions, READY) },
        status_of(&status.conditions, VERIFIED),
        servers,
        age(datastore.creation_timestamp().map(|time| time.0), now),
    ]
}

/// What is shown of one kind.
#[derive(Debug)]
struct Shown {
    kind: Kind,
    head: Vec<&'static str>,
    numbers: Vec<usize>,
    names: Vec<String>,
    rows: Vec<Vec<String>>,
    values: Vec<Value>,
    /// Those that are rows and no values, and why.
    unreadable: Vec<String>,
}

impl Shown {
    /// `of_all` namespaces begins each row with its own. What cannot be read is a row too.
    fn of<K>(
        kind: Kind,
        objects: Vec<DeserializeGuard<K>>,
        of_all: bool,
        row: impl Fn(&K) -> Vec<String>,
    ) -> Result<Self, Error>
    where
        K: Resource<DynamicType = ()> + Serialize,
    {
        let (head, numbers): (&[_], &[usize]) = match kind {
            Kind::Run => (&RUN_HEAD, &RUN_NUMBERS),
            Kind::Suite => (&SUITE_HEAD, &[]),
            Kind::Datastore => (&DATASTORE_HEAD, &[3]),
        };
        let first = of_all.then_some("NAMESPACE");
        let mut shown = Self {
            kind,
            head: first.into_iter().chain(head.iter().copied()).collect(),
            numbers: numbers.iter().map(|number| number + usize::from(of_all)).collect(),
            names: Vec::new(),
            rows: Vec::new(),
            values: Vec::new(),
            unreadable: Vec::new(),
        };
        for object in objects {
            let (name, namespace) = (object.name_any(), object.namespace().unwrap_or_default());
            let cells = match object.0 {
                Ok(mut object) => {
                    object.meta_mut().managed_fields = None;
                    shown.values.push(serde_json::to_value(&object).map_err(Error::Json)?);
                    row(&object)
                }
                Err(invalid) => {
                    let why = format!("cannot be read: {}", invalid.error);
                    shown
                        .unreadable
                        .push(format!("{}/{name} in namespace {namespace} {why}", kind.singular()));
                    vec![name.clone(), format!("({why})")]
                }
            };
            shown.rows.push(of_all.then_some(namespace).into_iter().chain(cells).collect());
            shown.names.push(name);
        }
        Ok(shown)
    }
}

/// Those that are asked for; `None` where the kind is not served.
async fn objects<K>(
    cluster: &Cluster,
    options: &Options,
    names: &[String],
    kind: Kind,
) -> Result<Option<Vec<DeserializeGuard<K>>>, Error>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    let api: Api<DeserializeGuard<K>> =
        if options.all_namespaces { Api::all(cluster.client.clone()) } else { cluster.api() };
    let parameters = ListParams { label_selector: options.selector.clone(), ..ListParams::default() };
    let mut list = match api.list(&parameters).await {
        Ok(list) => list.items,
        Err(kube::Error::Api(status)) if status.code == 404 => return Ok(None),
        Err(error) => return Err(cluster::Error::List(Box::new(error), kind.plural()).into()),
    };
    let known: Vec<String> = list.iter().map(ResourceExt::name_any).collect();
    if let Some(absent) = names.iter().find(|name| !known.contains(name)) {
        return Err(cluster.absent(kind.singular(), absent, &known).into());
    }
    list.retain(|object| names.is_empty() || names.contains(&object.name_any()));
    Ok(Some(list))
}

async fn shown(
    cluster: &Cluster,
    options: &Options,
    kind: Kind,
    names: &[String],
) -> Result<Option<Shown>, Error> {
    let (now, of_all) = (Timestamp::now(), options.all_namespaces);
    let shown = match kind {
        Kind::Run => objects(cluster, options, names, kind)
            .await?
            .map(|found| Shown::of(kind, found, of_all, |run| run_row(run, now))),
        Kind::Suite => objects(cluster, options, names, kind)
            .await?
            .map(|found| Shown::of(kind, found, of_all, |suite| suite_row(suite, now))),
        Kind::Datastore => objects(cluster, options, names, kind)
            .await?
            .map(|found| Shown::of(kind, found, of_all, |datastore| datastore_row(datastore, now))),
    };
    shown.transpose()
}

/// All that is `asked` for. Where no kind was named, one that may not be seen is left out.
async fn everything(
    cluster: &Cluster,
    options: &Options,
    asked: &[(Kind, Vec<String>)],
) -> Result<Vec<Shown>, Error> {
    let (mut all, mut forbidden, mut unknown) = (Vec::new(), None, Vec::new());
    for (kind, names) in asked {
        match shown(cluster, options, *kind, names).await {
            Ok(Some(shown)) => all.push(shown),
            Ok(None) => unknown.push(kind.plural()),
            Err(Error::Cluster(error)) if options.what.is_empty() && error.is_forbidden() => {
                output::warn(&format!("left out: {}", causes::told(&error)));
                forbidden = Some(error);
            }
            Err(error) => return Err(error),
        }
    }
    match forbidden {
        _ if !all.is_empty() => Ok(all),
        Some(error) => Err(error.into()),
        None => Err(Error::NotServed(unknown.join(", "))),
    }
}

/// The kinds and names that are asked for, from words such as `runs a b`, `run/a`, or none.
fn asked(what: &[String]) -> Result<Vec<(Kind, Vec<String>)>, cluster::Error> {
    match what {
        [] => Ok([Kind::Datastore, Kind::Run, Kind::Suite].map(|kind| (kind, Vec::new())).into()),
        [one] if !one.contains('/') => one.split(',').map(|kind| Ok((Kind::of(kind)?, Vec::new()))).collect(),
        words => {
            let mut asked: Vec<(Kind, Vec<String>)> = Vec::new();
            for given in cluster::given(words)? {
                let kind = given.kind.ok_or_else(|| cluster::Error::Kind(words[0].clone()))?;
                match asked.iter_mut().find(|(known, _)| *known == kind) {
                    Some((_, names)) => names.push(given.name),
                    None => asked.push((kind, vec![given.name])),
                }
            }
            Ok(asked)
        }
    }
}

fn text(shown: &[Shown]) -> String {
    let table = |shown: &Shown| {
        let rows = shown.rows.iter().map(|row| {
            let mut row = row.clone();
            row.resize(shown.head.len(), String::new());
            row
        });
        output::table(&shown.head, rows.collect(), &shown.numbers)
    };
    let tables: Vec<String> = shown.iter().filter(|shown| !shown.rows.is_empty()).map(table).collect();
    tables.join("\n")
}

/// As kubectl has it: the `one` that was named by itself, else a list.
fn value(shown: &[Shown], one: bool) -> Value {
    let values: Vec<&Value> = shown.iter().flat_map(|shown| &shown.values).collect();
    match values.as_slice() {
        [value] if one => (*value).clone(),
        values => json!({"apiVersion": "v1", "kind": "List", "items": values}),
    }
}

/// Shows what there is. Exit code 2 where a program is not told of all of it.
pub async fn get(cluster: &Cluster, options: &Options) -> Result<ExitCode, Error> {
    let (asked, form) = (asked(&options.what)?, options.output.form);
    let all = everything(cluster, options, &asked).await?;
    match form {
        Form::Table => output::print(&text(&all))?,
        Form::Name => {
            let names = all
                .iter()
                .flat_map(|shown| shown.names.iter().map(|name| format!("{}/{name}", shown.kind.singular())));
            output::print(&output::lines(names))?;
        }
        Form::Json | Form::Yaml => {
            let one = matches!(asked.as_slice(), [(_, names)] if names.len() == 1);
            output::print_value(&value(&all, one), form)?;
            let mut code = ExitCode::SUCCESS;
            for one in all.iter().flat_map(|shown| &shown.unreadable) {
                output::warn(one);
                code = ExitCode::from(2);
            }
            return Ok(code);
        }
    }
    if all.iter().all(|shown| shown.rows.is_empty()) && form == Form::Table {
        let place = if options.all_namespaces {
            "any namespace"
        } else {
            &format!("namespace {}", cluster.namespace)
        };
        output::warn(&format!("there is nothing in {place}"));
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        "2026-01-01T01:00:00Z".parse().unwrap()
    }

    #[test]
    fn a_run_has_one_row_with_the_figures_of_the_last_phase_that_has_some() {
        let operation = |rate: f64| {
            json!({"operation": "TOTAL", "count": 1, "operationsPerSecond": {"mean": rate, "repetitions": 1},
                   "bytesPerSecond": 0.0, "errors": 0, "latencyMilliseconds": {"p99": 0.5}})
        };
        let phase = |name: &str, rate: f64| json!({"name": name, "tool": {"name": "loadgen"}, "operations": [operation(rate)], "repetitions": []});
        let run: BenchmarkRun = serde_json::from_value(json!({
            "apiVersion": "dragstrip.dev/v1alpha1", "kind": "BenchmarkRun",
            "metadata": {"name": "a", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"target": {"datastoreRef": {"name": "redis"}}, "phases": [{"name": "read", "loadgen": {"duration": "5s"}}]},
            "status": {"phase": "Running", "progress": {"measured": 2, "total": 3},
                       "phases": [phase("write", 10.0), phase("read", 151_234.4)]}
        }))
        .unwrap();
        let row = run_row(&run, now());
        assert_eq!(row, ["a", "Running", "2/3", "-", "read", "151,234", "0.500", "-", "-", "60m"]);
        assert_eq!(row.len(), RUN_HEAD.len());
    }

    #[test]
    fn kinds_and_names_are_read_in_every_order() {
        let words = |text: &str| asked(&text.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(words("").unwrap().len(), 3);
        assert_eq!(words("runs").unwrap(), [(Kind::Run, vec![])]);
        assert_eq!(words("runs,dst").unwrap().len(), 2);
        assert_eq!(words("suite a b").unwrap(), [(Kind::Suite, vec!["a".to_owned(), "b".to_owned()])]);
        assert_eq!(words("run/a").unwrap(), [(Kind::Run, vec!["a".to_owned()])]);
        assert!(words("pods").is_err(), "pods are not ours");
    }

    /// A datastore called `name`, which this version can read or not.
    fn guarded(name: &str, threads: &Value) -> DeserializeGuard<Datastore> {
        serde_json::from_value(json!({
            "apiVersion": "dragstrip.dev/v1alpha1", "kind": "Datastore",
            "metadata": {"name": name, "namespace": "lab"}, "spec": {"engine": "Redis", "threads": threads}
        }))
        .unwrap()
    }

    fn shown(of_all: bool) -> Shown {
        let objects = vec![guarded("a", &json!(1)), guarded("b", &json!("many"))];
        Shown::of(Kind::Datastore, objects, of_all, |datastore| datastore_row(datastore, now())).unwrap()
    }

    #[test]
    fn of_all_namespaces_each_row_begins_with_its_own() {
        let told = text(&[shown(true)]);
        assert!(told.starts_with("NAMESPACE   NAME "), "{told}");
        assert!(told.lines().skip(1).all(|line| line.starts_with("lab         ")), "{told}");
        assert_eq!(shown(true).names, ["a", "b"]);
        assert!(text(&[shown(false)]).starts_with("NAME "), "else there is one namespace");
    }

    #[test]
    fn what_cannot_be_read_is_a_row_and_named_where_rows_are_not_told() {
        let shown = shown(false);
        assert!(shown.rows[1][1].starts_with("(cannot be read: "), "{shown:?}");
        assert_eq!(shown.values.len(), 1);
        assert!(shown.unreadable[0].starts_with("datastore/b in namespace lab cannot be read"), "{shown:?}");
    }

    #[test]
    fn one_that_is_named_is_itself_and_all_else_is_a_list() {
        let shown = [shown(false)];
        assert_eq!(value(&shown, true)["kind"], "Datastore");
        let list = value(&shown, false);
        assert_eq!((&list["kind"], &list["apiVersion"]), (&json!("List"), &json!("v1")));
        assert_eq!(list["items"][0]["metadata"]["name"], "a");
    }

    #[test]
    fn ages_have_one_unit() {
        let at = |text: &str| age(Some(text.parse().unwrap()), now());
        assert_eq!(at("2026-01-01T00:59:15Z"), "45s");
        assert_eq!(at("2026-01-01T00:30:00Z"), "30m");
        assert_eq!(at("2025-12-31T20:00:00Z"), "5h");
        assert_eq!(at("2025-12-01T00:00:00Z"), "31d");
        assert_eq!(age(None, now()), "-");
    }
}
