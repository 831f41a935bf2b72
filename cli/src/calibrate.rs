//! `dragstrip calibrate`: how much equal measurements differ in a place. Makes a run that
//! says so and follows it. Needs the client, but for the run, which is pure.

use crate::{
    cluster::{self, Cluster, Subject},
    follow, output,
};
use clap::Args;
use dragstrip_crds::{BenchmarkRun, Datastore, run::NoiseStatus, units::Period};
use jiff::Timestamp;
use kube::api::PostParams;
use serde_json::{Map, Value, json};
use std::process::ExitCode;

/// Where, and how.
#[derive(Debug, Clone, Args)]
pub struct Options {
    /// The Datastore that is loaded.
    #[arg(long, value_name = "NAME", conflicts_with = "address", required_unless_present = "address")]
    pub datastore: Option<String>,
    /// An external server that is loaded, as HOST:PORT.
    #[arg(long, value_name = "HOST:PORT")]
    pub address: Option<String>,
    /// Labels of the clients' nodes, such as dragstrip.dev/role=client; several times for several.
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair)]
    pub client_nodes: Vec<(String, String)>,
    /// Let clients run on the server's node, as on clusters of one machine.
    #[arg(long)]
    pub share_server_node: bool,
    /// Equal measurements, at least 3.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(3..=99))]
    pub repetitions: u32,
    /// Length of each.
    #[arg(long, default_value = "30s", value_parser = follow::period)]
    pub duration: Period,
    /// Give up after this time, with exit code 2.
    #[arg(long, default_value = "1h", value_parser = follow::period)]
    pub timeout: Period,
}

/// The place could not be calibrated.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// What is loaded could not be had.
    #[error(transparent)]
    Cluster(#[from] cluster::Error),
    /// The run has no form.
    #[error("failed to write the run")]
    Form(#[source] serde_json::Error),
    /// The run was refused.
    #[error("failed to make the run")]
    Make(#[source] Box<kube::Error>),
    /// It could not be followed.
    #[error(transparent)]
    Follow(#[from] follow::Error),
    /// It could not be told.
    #[error(transparent)]
    Output(#[from] output::Error),
}

/// Reads KEY=VALUE.
fn pair(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or_else(|| format!("{text} is not KEY=VALUE"))?;
    Ok((key.to_owned(), value.to_owned()))
}

/// The run: as many equal reads of the same keys as are asked for.
fn run(options: &Options, name: &str) -> Value {
    let target = match (&options.datastore, &options.address) {
        (Some(datastore), _) => json!({"datastoreRef": {"name": datastore}}),
        (None, address) => json!({"external": {"address": address}}),
    };
    let selector: Map<String, Value> =
        options.client_nodes.iter().map(|(key, value)| (key.clone(), json!(value))).collect();
    let mut clients = json!({"shareServerNode": options.share_server_node});
    if !selector.is_empty() {
        clients["placement"] = json!({"nodeSelector": selector});
    }
    let seconds = options.duration.seconds() * f64::from(options.repetitions);
    // Each repetition has its pods to start and its keys to write.
    let minutes = (seconds / 60.0).ceil() + 2.0 * f64::from(options.repetitions) + 5.0;
    json!({
        "apiVersion": "dragstrip.dev/v1alpha1",
        "kind": "BenchmarkRun",
        "metadata": {"name": name},
        "spec": {
            "target": target,
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

/// What was found, in one sentence.
fn found(noise: &NoiseStatus) -> String {
    let percent = |share: f64| format!("{:.2} %", share * 100.0);
    let p99 = noise.p99.map(|p99| format!(", their p99 by {}", percent(p99))).unwrap_or_default();
    format!(
        "equal measurements on these nodes differ by {} in throughput{p99} (coefficient of variation); later runs there tell it in status.noise",
        percent(noise.throughput)
    )
}

/// Makes the run, follows it, and tells what it has found.
pub async fn calibrate(cluster: &Cluster, options: &Options) -> Result<ExitCode, Error> {
    if let Some(name) = &options.datastore
        && cluster.find::<Datastore>(name).await?.is_none()
    {
        let known = cluster.names::<Datastore>().await?;
        return Err(cluster.absent("datastore", name, &known).into());
    }
    let name = format!("calibrate-{}", Timestamp::now().strftime("%m%d-%H%M%S"));
    let run: BenchmarkRun = serde_json::from_value(run(options, &name)).map_err(Error::Form)?;
    let api = cluster.api::<BenchmarkRun>();
    let made =
        api.create(&PostParams::default(), &run).await.map_err(|error| Error::Make(Box::new(error)))?;
    output::line(&format!("run/{name} made"))?;
    let ending = follow::subjects(cluster, vec![Subject::Run(Box::new(made))], &options.timeout).await?;
    let run = cluster.find::<BenchmarkRun>(&name).await?;
    let noise = run.and_then(|run| run.status?.noise);
    output::line(&noise.map_or_else(
        || format!("nothing was found: see why with dragstrip report {name}"),
        |noise| found(&noise),
    ))?;
    Ok(follow::exit_code(ending))
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
    fn the_run_is_one_that_the_apiserver_and_the_operator_take() {
        for arguments in [
            &["--datastore", "redis"][..],
            &["--address", "10.0.0.7:6379", "--repetitions", "99", "--duration", "10m"],
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
    fn what_was_found_is_told_in_percent() {
        let noise: NoiseStatus = serde_json::from_value(json!({"throughput": 0.0125, "p99": 0.05,
            "foundBy": {"namespace": "a", "name": "b"}, "measuredAt": "2026-01-01T00:00:00Z"}))
        .unwrap();
        let text = found(&noise);
        assert!(text.contains("differ by 1.25 % in throughput, their p99 by 5.00 %"), "{text}");
    }
}
