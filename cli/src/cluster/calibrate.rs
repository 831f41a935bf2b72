//! `dragstrip calibrate`: measures how much equal measurements differ, between repetitions on one start
//! of a server and between starts, with a suite that it creates and follows. Needs the client.

mod floor;

use super::{
    client::{self, Cluster, Subject},
    follow,
};
use crate::output::{details, print};
use clap::Args;
use dragstrip_core::{labels::SUITE, run::noise};
use dragstrip_crds::{
    BenchmarkRun, BenchmarkSuite, Datastore,
    run::{NoiseFigure, NoiseStatus, RunReference},
    units::Period,
};
use dragstrip_report::starts_needed;
use jiff::Timestamp;
use kube::{
    ResourceExt,
    api::{ListParams, PostParams},
};
use serde_json::{Map, Value, json};
use std::process::ExitCode;

/// The differences, as shares, for which the numbers of starts are printed.
const DIFFERENCES: [f64; 3] = [0.02, 0.05, 0.1];

#[derive(Debug, Clone, Args)]
pub struct Options {
    /// Load servers with the spec of this Datastore, one after the other. It keeps its own server.
    #[arg(long, value_name = "NAME")]
    pub datastore: String,
    /// Load as this run does, with its phases and clients, instead of reading 100,000 keys. Only runs
    /// with the same phases report the noise.
    #[arg(long, value_name = "RUN", conflicts_with_all = ["client_nodes", "share_server_node", "duration"])]
    pub like: Option<String>,
    /// Measure once, on a server that answers at once on the Datastore's node: the part of latency and
    /// rate that is the harness's and the network's, beside the figures of --like. Needs the access to
    /// get pods.
    #[arg(long, conflicts_with_all = ["starts", "repetitions"])]
    pub floor: bool,
    /// Place clients on nodes with this label, such as dragstrip.dev/role=client; may be repeated.
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair)]
    pub client_nodes: Vec<(String, String)>,
    /// Let clients run on the server's node, as a cluster of one machine needs.
    #[arg(long)]
    pub share_server_node: bool,
    /// Start the server this many times, at least twice.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(2..=64))]
    pub starts: u32,
    /// Measure each start this many times, at least 3.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(3..=99))]
    pub repetitions: u32,
    /// Measure for this time each, without --like.
    #[arg(long, default_value = "30s")]
    pub duration: Period,
    /// Give up after this time, with exit code 2.
    #[arg(long, default_value = "2h")]
    pub timeout: Period,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Cluster(#[from] client::Error),
    #[error("failed to build the manifest")]
    Build(#[source] serde_json::Error),
    #[error("failed to create the suite or run")]
    Create(#[source] Box<kube::Error>),
    #[error("Datastore {0} has no running server: wait until it is Ready")]
    NoServer(String),
    #[error("failed to read pod {1}")]
    Pod(#[source] Box<kube::Error>, String),
    #[error("failed to remove run/{1}")]
    Remove(#[source] Box<kube::Error>, String),
    #[error(transparent)]
    Follow(#[from] follow::Error),
    #[error("failed to list the runs of suite {1}")]
    List(#[source] Box<kube::Error>, String),
    #[error(transparent)]
    Print(#[from] print::Error),
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or_else(|| format!("{text} is not KEY=VALUE"))?;
    Ok((key.to_owned(), value.to_owned()))
}

/// What is measured.
struct Load {
    phases: Value,
    clients: Value,
    /// The run that is repeated.
    run: Option<BenchmarkRun>,
}

impl Load {
    /// The load of the run `like`; else equal reads of the same keys.
    fn of(options: &Options, like: Option<BenchmarkRun>) -> Result<Self, Error> {
        if let Some(run) = like {
            let phases = serde_json::to_value(&run.spec.phases).map_err(Error::Build)?;
            let clients = serde_json::to_value(&run.spec.clients).map_err(Error::Build)?;
            return Ok(Self { phases, clients, run: Some(run) });
        }
        let selector: Map<String, Value> =
            options.client_nodes.iter().map(|(key, value)| (key.clone(), json!(value))).collect();
        let mut clients = json!({"shareServerNode": options.share_server_node});
        if !selector.is_empty() {
            clients["placement"] = json!({"nodeSelector": selector});
        }
        let phases = json!([{
            "name": "read",
            "warmup": "3s",
            "load": {"keyMaximum": 99_999},
            "loadgen": {"ratio": "0:1", "keyMaximum": 99_999, "duration": options.duration.to_string()}
        }]);
        Ok(Self { phases, clients, run: None })
    }
}

/// The suite: a run for each start of a server with the spec `datastore`.
fn suite(options: &Options, name: &str, datastore: &Value, load: &Load) -> Value {
    json!({
        "apiVersion": "dragstrip.dev/v1alpha1",
        "kind": "BenchmarkSuite",
        "metadata": {"name": name},
        "spec": {
            "variants": [{"name": "start", "target": {"datastore": datastore}}],
            "repetitions": options.starts,
            "run": {
                "calibrate": true,
                "repetitions": options.repetitions,
                "timeout": options.timeout.to_string(),
                "clients": load.clients,
                "phases": load.phases
            }
        }
    })
}

/// The noise that `runs` found.
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

pub async fn calibrate(cluster: &Cluster, options: &Options) -> Result<ExitCode, Error> {
    let datastore = cluster.get::<Datastore>("datastore", &options.datastore).await?;
    let like = match &options.like {
        Some(name) => Some(cluster.get::<BenchmarkRun>("run", name).await?),
        None => None,
    };
    let load = Load::of(options, like)?;
    if options.floor {
        return floor::measure(cluster, options, &datastore, &load).await;
    }
    let datastore = serde_json::to_value(&datastore.spec).map_err(Error::Build)?;
    let name = format!("calibrate-{}", Timestamp::now().strftime("%m%d-%H%M%S"));
    let suite = suite(options, &name, &datastore, &load);
    let suite: BenchmarkSuite = serde_json::from_value(suite).map_err(Error::Build)?;
    let created = cluster.api::<BenchmarkSuite>().create(&PostParams::default(), &suite).await;
    let created = created.map_err(|error| Error::Create(Box::new(error)))?;
    print::line(&format!("suite/{name} created"))?;
    let ending = follow::subjects(cluster, vec![Subject::Suite(Box::new(created))], &options.timeout).await?;
    let own = ListParams::default().labels(&format!("{SUITE}={name}"));
    let runs = cluster.api::<BenchmarkRun>().list(&own).await;
    let runs = runs.map_err(|error| Error::List(Box::new(error), name.clone()))?.items;
    let Some(noise) = found(&runs) else {
        print::line(&format!("the calibration has no result: see dragstrip report {name}"))?;
        return Ok(ending.exit_code());
    };
    for figure in &noise.figures {
        print::line(&details::noise(figure))?;
        print::line(&needed(figure, options.repetitions))?;
    }
    print::line(&format!("later runs of these phases report it until suite/{name} is deleted"))?;
    Ok(ending.exit_code())
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

    pub(super) fn options(arguments: &[&str]) -> Options {
        Line::try_parse_from([&["calibrate"], arguments].concat()).unwrap().options
    }

    fn made(arguments: &[&str]) -> BenchmarkSuite {
        let (options, datastore) = (options(arguments), json!({"engine": "Redis", "threads": 1}));
        let load = Load::of(&options, None).unwrap();
        let mut value = suite(&options, "calibrate-0101-123456", &datastore, &load);
        value["metadata"]["namespace"] = json!("races");
        value["metadata"]["uid"] = json!("uid");
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn the_api_server_and_the_operator_accept_the_suite() {
        for arguments in [
            &["--datastore", "redis"][..],
            &["--datastore", "redis", "--starts", "64", "--duration", "1m"],
            &["--datastore", "redis", "--client-nodes", "dragstrip.dev/role=client", "--share-server-node"],
        ] {
            let suite = made(arguments);
            suite.validate_cel().unwrap_or_else(|errors| panic!("{arguments:?}: {errors:?}"));
            let expanded = dragstrip_core::suite::expand::expand(&suite)
                .unwrap_or_else(|error| panic!("{arguments:?}: {error}"));
            let starts = usize::try_from(suite.spec.repetitions).unwrap();
            assert_eq!(expanded.runs.len(), starts, "{arguments:?}: a run for each start");
            for child in expanded.runs {
                assert!(child.spec.calibrate && child.spec.target.datastore().is_some(), "{arguments:?}");
            }
        }
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
