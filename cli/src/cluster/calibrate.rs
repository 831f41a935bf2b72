//! `dragstrip calibrate`: measures how much equal measurements differ on some nodes, with a run
//! that it creates and follows. Needs the client.

use super::{
    client::{self, Cluster, Subject},
    follow,
};
use crate::output::print;
use clap::Args;
use dragstrip_crds::{BenchmarkRun, Datastore, run::NoiseStatus, units::Period};
use jiff::Timestamp;
use kube::api::PostParams;
use serde_json::{Map, Value, json};
use std::process::ExitCode;

#[derive(Debug, Clone, Args)]
pub struct Options {
    /// Load this Datastore.
    #[arg(long, value_name = "NAME")]
    pub datastore: String,
    /// Place clients on nodes with this label, such as dragstrip.dev/role=client; may be repeated.
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair)]
    pub client_nodes: Vec<(String, String)>,
    /// Let clients run on the server's node, as a cluster of one machine needs.
    #[arg(long)]
    pub share_server_node: bool,
    /// Measure this many times, at least 3.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(3..=99))]
    pub repetitions: u32,
    /// Measure for this time each.
    #[arg(long, default_value = "30s")]
    pub duration: Period,
    /// Give up after this time, with exit code 2.
    #[arg(long, default_value = "1h")]
    pub timeout: Period,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Cluster(#[from] client::Error),
    #[error("failed to build the run")]
    Build(#[source] serde_json::Error),
    #[error("failed to create the run")]
    Create(#[source] Box<kube::Error>),
    #[error(transparent)]
    Follow(#[from] follow::Error),
    #[error(transparent)]
    Print(#[from] print::Error),
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or_else(|| format!("{text} is not KEY=VALUE"))?;
    Ok((key.to_owned(), value.to_owned()))
}

/// The run: equal reads of the same keys.
fn run(options: &Options, name: &str) -> Value {
    let selector: Map<String, Value> =
        options.client_nodes.iter().map(|(key, value)| (key.clone(), json!(value))).collect();
    let mut clients = json!({"shareServerNode": options.share_server_node});
    if !selector.is_empty() {
        clients["placement"] = json!({"nodeSelector": selector});
    }
    let seconds = options.duration.seconds() * f64::from(options.repetitions);
    // Each repetition starts its pods and writes its keys.
    let minutes = (seconds / 60.0).ceil() + 2.0 * f64::from(options.repetitions) + 5.0;
    json!({
        "apiVersion": "dragstrip.dev/v1alpha1",
        "kind": "BenchmarkRun",
        "metadata": {"name": name},
        "spec": {
            "target": {"datastoreRef": {"name": options.datastore}},
            "calibrate": true,
            "repetitions": options.repetitions,
            "timeout": format!("{minutes:.0}m"),
            "clients": clients,
            "phases": [{
                "name": "read",
                "warmup": "3s",
                "load": {"keyMaximum": 99_999},
                "loadgen": {"ratio": "0:1", "keyMaximum": 99_999, "duration": options.duration.to_string()}
            }]
        }
    })
}

fn summary(noise: &NoiseStatus) -> String {
    let percent = |share: f64| format!("{:.2} %", share * 100.0);
    let p99 = noise.p99.map(|p99| format!(", their p99 by {}", percent(p99))).unwrap_or_default();
    format!(
        "equal measurements on these nodes differ by {} in throughput{p99} (coefficient of variation); later runs there report it in status.noise",
        percent(noise.throughput)
    )
}

pub async fn calibrate(cluster: &Cluster, options: &Options) -> Result<ExitCode, Error> {
    cluster.get::<Datastore>("datastore", &options.datastore).await?;
    let name = format!("calibrate-{}", Timestamp::now().strftime("%m%d-%H%M%S"));
    let run: BenchmarkRun = serde_json::from_value(run(options, &name)).map_err(Error::Build)?;
    let api = cluster.api::<BenchmarkRun>();
    let created =
        api.create(&PostParams::default(), &run).await.map_err(|error| Error::Create(Box::new(error)))?;
    print::line(&format!("run/{name} created"))?;
    let ending = follow::subjects(cluster, vec![Subject::Run(Box::new(created))], &options.timeout).await?;
    let run = cluster.find::<BenchmarkRun>(&name).await?;
    let noise = run.and_then(|run| run.status?.noise);
    print::line(&noise.map_or_else(
        || format!("the calibration has no result: see dragstrip report {name}"),
        |noise| summary(&noise),
    ))?;
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

    fn made(arguments: &[&str]) -> BenchmarkRun {
        let line = Line::try_parse_from([&["calibrate"], arguments].concat()).unwrap();
        let mut value = run(&line.options, "calibrate-0101-123456");
        value["metadata"]["namespace"] = json!("races");
        value["metadata"]["uid"] = json!("uid");
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn the_api_server_and_the_operator_accept_the_run() {
        for arguments in [
            &["--datastore", "redis"][..],
            &["--datastore", "redis", "--repetitions", "99", "--duration", "10m"],
            &["--datastore", "redis", "--client-nodes", "dragstrip.dev/role=client", "--share-server-node"],
        ] {
            let run = made(arguments);
            run.validate_cel().unwrap_or_else(|errors| panic!("{arguments:?}: {errors:?}"));
            dragstrip_core::run::validate::validate(&run)
                .unwrap_or_else(|error| panic!("{arguments:?}: {error}"));
            assert!(run.spec.calibrate, "{arguments:?}");
        }
    }

    #[test]
    fn the_noise_is_printed_in_percent() {
        let noise: NoiseStatus = serde_json::from_value(json!({"throughput": 0.0125, "p99": 0.05,
            "foundBy": {"namespace": "a", "name": "b"}, "measuredAt": "2026-01-01T00:00:00Z"}))
        .unwrap();
        let text = summary(&noise);
        assert!(text.contains("differ by 1.25 % in throughput, their p99 by 5.00 %"), "{text}");
    }
}
