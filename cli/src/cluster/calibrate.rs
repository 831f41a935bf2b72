//! `dragstrip calibrate`: measures again what a run measured, to see how much equal measurements differ
//! between repetitions on one start of a server and between starts, or what of its figures the harness
//! and the network are. Creates a suite and follows it. Needs the client.

mod floor;

use super::{
    client::{Cluster, Subject},
    follow,
};
use crate::output::{details, errors::Outcome, input::text_report, print};
use clap::Args;
use dragstrip_core::{labels::SUITE, run::noise};
use dragstrip_crds::{
    BenchmarkRun, BenchmarkSuite, Datastore,
    run::{NoiseFigure, NoiseStatus, RunReference, Target},
    units::Period,
};
use dragstrip_report::starts_needed;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    ResourceExt,
    api::{DeleteParams, ListParams, PostParams},
};
use serde_json::{Value, json};
use std::process::ExitCode;

/// The differences, as shares, for which the numbers of starts are printed.
const DIFFERENCES: [f64; 3] = [0.02, 0.05, 0.1];

#[derive(Debug, Clone, Args)]
pub struct Options {
    /// Measure the phases of this run with its clients, on servers with the spec of its Datastore.
    #[arg(value_name = "RUN")]
    pub run: String,
    /// Start the server this many times, at least twice.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(2..=64))]
    pub starts: u32,
    /// Measure each start this many times, at least 3.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(3..=99))]
    pub repetitions: u32,
    /// Load a server that answers at once, on the node of the run's Datastore, and print its figures
    /// beside the run's: the overhead of the harness and the network. Needs the right to get pods.
    #[arg(long, conflicts_with = "starts")]
    pub floor: bool,
    /// Give up after this time, with exit code 2.
    #[arg(long, default_value = "2h")]
    pub timeout: Period,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("run {0} loads an external server, which nobody here can start again")]
    External(String),
    #[error(
        "the Datastore of run {0} has no running server: name a run whose target is a datastoreRef that is Ready"
    )]
    NoServer(String),
    #[error("failed to build the suite")]
    Build(#[source] serde_json::Error),
    #[error("failed to create the suite")]
    Create(#[source] Box<kube::Error>),
    #[error("failed to list the runs of suite {1}")]
    List(#[source] Box<kube::Error>, String),
    #[error("failed to remove suite {1}")]
    Remove(#[source] Box<kube::Error>, String),
}

/// The suite: a run for each start of a server with the spec `datastore`, with the clients of `run`.
fn suite(options: &Options, name: &str, run: &BenchmarkRun, datastore: &Value, phases: &Value) -> Value {
    json!({
        "apiVersion": "dragstrip.dev/v1alpha1",
        "kind": "BenchmarkSuite",
        "metadata": {"name": name},
        "spec": {
            "variants": [{"name": "start", "target": {"datastore": datastore}}],
            "repetitions": if options.floor { 1 } else { options.starts },
            "run": {
                "calibrate": !options.floor,
                "repetitions": options.repetitions,
                "timeout": options.timeout.to_string(),
                "clients": run.spec.clients,
                "phases": phases
            }
        }
    })
}

fn found(runs: &[BenchmarkRun]) -> Option<NoiseStatus> {
    let all: Vec<_> = runs
        .iter()
        .filter_map(|run| {
            let namespace = run.namespace().unwrap_or_default();
            Some((RunReference { namespace, name: run.name_any() }, run.status.as_ref()?))
        })
        .collect();
    // Each lists all; a failed one has no figures.
    let noise = all.iter().filter_map(|(_, status)| noise::noise(status, &all));
    noise.max_by_key(|noise| noise.figures.len())
}

/// How many starts of `repetitions` each show a difference of `figure`.
fn needed(figure: &NoiseFigure, repetitions: u32) -> String {
    let starts = DIFFERENCES.map(|difference| {
        let starts = starts_needed(figure, difference, f64::from(repetitions));
        let starts = starts.map_or_else(|| "too many".to_owned(), |starts| starts.to_string());
        format!("{:.0} %: {starts}", difference * 100.0)
    });
    format!(
        "{}: starts of each side that show a difference of {}, with {repetitions} repetitions each: {}",
        figure.phase,
        figure.metric,
        starts.join(", ")
    )
}

fn report(found: &[BenchmarkRun], options: &Options, name: &str) -> Vec<String> {
    let Some(noise) = self::found(found) else {
        return vec![format!("the calibration has no result: see dragstrip report {name}")];
    };
    let figures = noise.figures.iter();
    let lines = figures.flat_map(|figure| [details::noise(figure), needed(figure, options.repetitions)]);
    lines.chain([format!("later runs of these phases report it until suite/{name} is deleted")]).collect()
}

async fn datastore(cluster: &Cluster, run: &BenchmarkRun) -> Outcome<Datastore> {
    Ok(match &run.spec.target {
        Target::DatastoreRef(reference) => cluster.get("datastore", &reference.name).await?,
        Target::Datastore(spec) => Datastore::new(&run.name_any(), spec.clone()),
        Target::External(_) => return Err(Error::External(run.name_any()).into()),
    })
}

/// The server that answers at once in place of `datastore`.
async fn floor_of(cluster: &Cluster, options: &Options, datastore: &Datastore) -> Outcome<Value> {
    let none = || Error::NoServer(options.run.clone());
    let pod = datastore.status.as_ref().and_then(|status| status.pod.as_deref()).ok_or_else(none)?;
    let pod = cluster.get::<Pod>("pod", pod).await?;
    Ok(floor::server(datastore, &pod).ok_or_else(none)?)
}

pub async fn calibrate(cluster: &Cluster, options: &Options) -> Outcome<ExitCode> {
    let run = cluster.get::<BenchmarkRun>("run", &options.run).await?;
    let datastore = datastore(cluster, &run).await?;
    let phases = serde_json::to_value(&run.spec.phases).map_err(Error::Build)?;
    let name = format!("calibrate-{}", Timestamp::now().strftime("%m%d-%H%M%S"));
    let suite = if options.floor {
        let server = floor_of(cluster, options, &datastore).await?;
        suite(options, &name, &run, &server, &floor::phases(&phases))
    } else {
        suite(options, &name, &run, &json!(datastore.spec), &phases)
    };
    let suite: BenchmarkSuite = serde_json::from_value(suite).map_err(Error::Build)?;
    let suites = cluster.api::<BenchmarkSuite>();
    let created = suites.create(&PostParams::default(), &suite).await;
    let created = created.map_err(|error| Error::Create(Box::new(error)))?;
    print::line(&format!("suite/{name} created"))?;
    let ending = follow::subjects(cluster, vec![Subject::Suite(Box::new(created))], &options.timeout).await?;
    let own = ListParams::default().labels(&format!("{SUITE}={name}"));
    let runs = cluster.api::<BenchmarkRun>().list(&own).await;
    let runs = runs.map_err(|error| Error::List(Box::new(error), name.clone()))?.items;
    if options.floor {
        print::line(&format!("overhead of harness and network in {}: {}", options.run, joined(&runs)))?;
        print::line(&text_report(&[vec![run], runs].concat()))?;
        let removed = suites.delete(&name, &DeleteParams::background()).await;
        removed.map_err(|error| Error::Remove(Box::new(error), name))?;
    } else {
        report(&runs, options, &name).iter().try_for_each(|line| print::line(line))?;
    }
    Ok(ending.exit_code())
}

fn joined(runs: &[BenchmarkRun]) -> String {
    runs.iter().map(ResourceExt::name_any).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: Options,
    }

    fn run() -> BenchmarkRun {
        serde_json::from_value(json!({"apiVersion": "dragstrip.dev/v1alpha1", "kind": "BenchmarkRun",
            "metadata": {"name": "redis-read"}, "spec": {"target": {"datastoreRef": {"name": "redis"}},
                "clients": {"shareServerNode": true, "placement": {"nodeSelector": {"dragstrip.dev/role": "client"}}},
                "phases": [{"name": "read", "load": {"keyMaximum": 9}, "loadgen": {"duration": "30s"}}]}}))
        .unwrap()
    }

    fn made(arguments: &[&str], datastore: &Value) -> BenchmarkSuite {
        let options =
            Line::try_parse_from([&["calibrate", "redis-read"], arguments].concat()).unwrap().options;
        let phases = json!(run().spec.phases);
        let phases = if options.floor { floor::phases(&phases) } else { phases };
        let mut value = suite(&options, "calibrate-0101-123456", &run(), datastore, &phases);
        value["metadata"]["namespace"] = json!("races");
        value["metadata"]["uid"] = json!("uid");
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn the_api_server_and_the_operator_accept_the_suite() {
        let redis = json!({"engine": "Redis", "threads": 1});
        for arguments in [&[][..], &["--starts", "64", "--repetitions", "99"]] {
            let suite = made(arguments, &redis);
            suite.validate_cel().unwrap_or_else(|errors| panic!("{arguments:?}: {errors:?}"));
            let expanded = dragstrip_core::suite::expand::expand(&suite)
                .unwrap_or_else(|error| panic!("{arguments:?}: {error}"));
            let starts = usize::try_from(suite.spec.repetitions).unwrap();
            assert_eq!(expanded.runs.len(), starts, "{arguments:?}: a run for each start");
            for child in expanded.runs {
                assert!(child.spec.calibrate && child.spec.target.datastore().is_some(), "{arguments:?}");
                assert!(child.spec.clients.share_server_node, "{arguments:?}: the run's clients");
            }
        }
    }

    #[test]
    fn the_floor_is_one_start_of_a_server_that_stores_nothing() {
        let pod: Pod = serde_json::from_value(json!({"spec": {"nodeName": "node-a", "containers": [],
            "initContainers": [{"name": "observer", "image": "runner:1"}]}}))
        .unwrap();
        let datastore: Datastore = serde_json::from_value(json!({"apiVersion": "dragstrip.dev/v1alpha1",
            "kind": "Datastore", "metadata": {"name": "redis"}, "spec": {"engine": "Redis", "threads": 2,
                "placement": {"nodeSelector": {"pool": "servers"}}}}))
        .unwrap();
        let suite = made(&["--floor"], &floor::server(&datastore, &pod).unwrap());
        suite.validate_cel().unwrap_or_else(|errors| panic!("{errors:?}"));
        let runs = dragstrip_core::suite::expand::expand(&suite).unwrap().runs;
        let [run] = runs.as_slice() else { panic!("{} runs", runs.len()) };
        assert!(!run.spec.calibrate && run.spec.phases[0].load.is_none(), "{:?}", run.spec);
        let server = run.spec.target.datastore().unwrap();
        assert_eq!((server.image.as_deref(), server.threads), (Some("runner:1"), 1));
        let selector = &server.placement.node_selector;
        assert_eq!((&*selector["kubernetes.io/hostname"], &*selector["pool"]), ("node-a", "servers"));
    }

    #[test]
    fn the_needed_starts_are_one_line() {
        let figure = serde_json::from_value(json!({"phase": "read", "metric": "OperationsPerSecond",
            "betweenRepetitions": 0.01, "betweenStarts": 0.05, "starts": 5, "repetitions": 15}));
        let text = needed(&figure.unwrap(), 3);
        assert!(
            text.starts_with(
                "read: starts of each side that show a difference of OperationsPerSecond, with 3"
            ),
            "{text}"
        );
        assert!(text.contains("10 %: 6"), "{text}");
    }
}
