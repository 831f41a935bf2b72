//! `dragstrip logs`: what client pods and servers of a run say, and what is kept of them when
//! they are gone. Needs the client, but for the choice, which is pure.

use crate::{
    causes,
    cluster::{self, Cluster, Given, Kind, Subject},
    output, results,
};
use clap::Args;
use dragstrip_core::labels;
use dragstrip_crds::BenchmarkRun;
use dragstrip_results::result::{LOG_MARKER, RepetitionResult};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    ResourceExt,
    api::{ListParams, LogParams},
};
use std::process::ExitCode;

/// Whose words.
#[derive(Debug, Clone, Args)]
pub struct Options {
    /// Name of the run.
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Of this phase alone.
    #[arg(long)]
    pub phase: Option<String>,
    /// Of this repetition alone, from 1.
    #[arg(long)]
    pub repetition: Option<u32>,
    /// Of this pod alone.
    #[arg(long)]
    pub pod: Option<String>,
    /// Of the servers, too.
    #[arg(long)]
    pub servers: bool,
    /// So many lines of each, the last ones.
    #[arg(long, value_name = "LINES")]
    pub tail: Option<i64>,
}

/// Nobody could be heard.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The run could not be had.
    #[error(transparent)]
    Cluster(#[from] cluster::Error),
    /// A suite has no pods.
    #[error(
        "suite/{0} has no logs: say one of its runs, which dragstrip get runs -l {label}={0} lists",
        label = labels::SUITE
    )]
    Suite(String),
    /// Its pods could not be listed.
    #[error("failed to list the pods of {1}")]
    Pods(#[source] Box<kube::Error>, String),
    /// What is kept could not be read.
    #[error(transparent)]
    Results(#[from] results::Error),
    /// It could not be told.
    #[error(transparent)]
    Output(#[from] output::Error),
}

impl Options {
    /// Whether the words of `pod`, which measures `phase` for the `repetition`th time, are meant.
    fn means(&self, phase: Option<&str>, repetition: Option<u32>, pod: &str) -> bool {
        let same = |wanted: &Option<String>, found: Option<&str>| {
            wanted.as_deref().is_none_or(|wanted| found == Some(wanted))
        };
        same(&self.phase, phase)
            && self.repetition.is_none_or(|wanted| repetition == Some(wanted))
            && same(&self.pod, Some(pod))
    }

    fn means_pod(&self, pod: &Pod) -> bool {
        let label = |name: &str| pod.labels().get(name).map(String::as_str);
        let repetition = label(labels::REPETITION).and_then(|text| text.parse().ok());
        // Servers are of no phase.
        if label(labels::COMPONENT) == Some(labels::SERVER) {
            return self.pod.as_deref().is_none_or(|wanted| pod.name_any() == wanted);
        }
        self.means(label(labels::PHASE), repetition, &pod.name_any())
    }
}

async fn pods(cluster: &Cluster, selector: String) -> Result<Vec<Pod>, Error> {
    let list = cluster.api::<Pod>().list(&ListParams::default().labels(&selector)).await;
    Ok(list.map_err(|error| Error::Pods(Box::new(error), selector))?.items)
}

/// The pods that are there: clients, and servers where they are asked for.
async fn present(cluster: &Cluster, options: &Options, run: &BenchmarkRun) -> Result<Vec<Pod>, Error> {
    let name = run.name_any();
    let clients = format!("{}={name},{}={}", labels::RUN, labels::COMPONENT, labels::CLIENT);
    let mut found = pods(cluster, clients).await?;
    let target = &run.spec.target;
    let datastore = target.datastore_ref.as_ref().map(|reference| reference.name.clone());
    let datastore = datastore.or_else(|| target.datastore.as_ref().map(|_| name));
    if let Some(datastore) = datastore.filter(|_| options.servers) {
        let servers = format!("{}={datastore},{}={}", labels::DATASTORE, labels::COMPONENT, labels::SERVER);
        found.extend(pods(cluster, servers).await?);
    }
    Ok(found.into_iter().filter(|pod| options.means_pod(pod)).collect())
}

/// `text` with who said it before each line; without the line that carries the result.
fn said(who: &str, text: &str) -> String {
    let lines = text.lines().filter(|line| !line.starts_with(LOG_MARKER));
    output::lines(lines.map(|line| format!("{who}  {line}")))
}

/// Prints what the containers of `pod` say; whether one has said anything.
async fn tell(cluster: &Cluster, options: &Options, pod: &Pod) -> Result<bool, Error> {
    let mut heard = false;
    for container in pod.spec.iter().flat_map(|spec| &spec.containers) {
        let parameters = LogParams {
            container: Some(container.name.clone()),
            tail_lines: options.tail,
            ..LogParams::default()
        };
        let who = format!("{}/{}", pod.name_any(), container.name);
        match cluster.api::<Pod>().logs(&pod.name_any(), &parameters).await {
            Ok(text) => {
                let said = said(&who, &text);
                heard |= !said.is_empty();
                output::print(&said)?;
            }
            Err(error) => output::warn(&format!("{who}: its log cannot be read: {}", causes::told(&error))),
        }
    }
    Ok(heard)
}

/// What the stored results keep of what pods wrote: the last lines of those that failed.
fn kept(options: &Options, results: &[RepetitionResult]) -> String {
    let mut text = String::new();
    for result in results {
        for pod in &result.pods {
            if !options.means(Some(&result.phase), Some(result.repetition), &pod.pod) {
                continue;
            }
            let who = format!("{} ({} #{}, kept)", pod.pod, result.phase, result.repetition);
            let Some(failure) = &pod.failure else { continue };
            text.push_str(&said(&who, &failure.message));
            text.push_str(&said(&who, &failure.last_lines.join("\n")));
        }
    }
    text
}

/// What the run's status keeps of its failure.
fn of_status(run: &BenchmarkRun) -> String {
    let failure = run.status.as_ref().and_then(|status| status.failure.as_ref());
    let Some(failure) = failure else { return String::new() };
    let who = format!("{} (status)", failure.pod.clone().unwrap_or_else(|| run.name_any()));
    said(&who, &failure.message) + &said(&who, &failure.last_lines.join("\n"))
}

/// Prints what the run's pods say, or what is kept of it.
pub async fn logs(cluster: &Cluster, options: &Options) -> Result<ExitCode, Error> {
    let given = Given::of(&options.name, Some(Kind::Run))?;
    let run = match cluster.subject(&given).await? {
        Subject::Run(run) => run,
        Subject::Suite(suite) => return Err(Error::Suite(suite.name_any())),
    };
    let (pods, mut heard) = (present(cluster, options, &run).await?, false);
    for pod in &pods {
        heard |= tell(cluster, options, pod).await?;
    }
    if heard {
        return Ok(ExitCode::SUCCESS);
    }
    let kept =
        kept(options, &results::of(&cluster.client, &cluster.namespace, &run).await?) + &of_status(&run);
    if kept.is_empty() {
        output::warn(if pods.is_empty() {
            "the pods are gone, and nothing that they wrote is kept: only the last lines of what failed are"
        } else {
            "none of the pods has said anything that can be read yet: look again, or see kubectl describe pod"
        });
        return Ok(ExitCode::from(1));
    }
    output::print(&kept)?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> Options {
        Options { name: "a".into(), phase: None, repetition: None, pod: None, servers: false, tail: None }
    }

    #[test]
    fn a_phase_a_repetition_and_a_pod_choose_together() {
        let all = options();
        assert!(all.means(Some("read"), Some(1), "p"));
        let some = Options { phase: Some("read".into()), repetition: Some(2), ..options() };
        assert!(some.means(Some("read"), Some(2), "p"));
        assert!(!some.means(Some("write"), Some(2), "p") && !some.means(Some("read"), Some(1), "p"));
        let one = Options { pod: Some("q".into()), ..options() };
        assert!(!one.means(Some("read"), Some(1), "p"));
    }

    #[test]
    fn each_line_says_whose_it_is_and_results_are_no_lines() {
        let text = said("p/client", &format!("one\n{LOG_MARKER}{{}}\ntwo\n"));
        assert_eq!(text, "p/client  one\np/client  two\n");
    }
}
