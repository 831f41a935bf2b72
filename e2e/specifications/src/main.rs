//! Specifications as a fuzzer writes them: random objects of every kind for a real API server without
//! kubelets and the operator's program. `make test-specifications` runs it; docs/reliability.md says what
//! must hold.

mod api;
mod bench;
mod edits;
mod kinds;
mod messages;
#[cfg(test)]
mod rules;
mod shrink;
mod trial;
mod values;

use anyhow::{Context, Result, anyhow, bail, ensure};
use api::{Answer, Server};
use bench::{Bench, Program};
use clap::Parser;
use dragstrip_bench_operator::{
    arguments::Ground,
    cluster::Cluster,
    runners::{self, Simulation},
};
use edits::{Case, case, specification};
use futures::{StreamExt, TryStreamExt, stream};
use kinds::{Kind, kinds};
use serde::Deserialize;
use serde_json::Value;
use std::{cell::Cell, path::PathBuf, process::ExitCode};
use tokio::{process::Command, sync::Mutex};
use trial::{Fault, Place, Trial, check_refusal, manifest, split};

/// Nodes for clients.
const CLIENT_NODES: usize = 4;
/// Namespace in which the API server judges objects.
const JUDGED: &str = "judged";
/// Trials at the same time.
const AT_ONCE: usize = 12;
/// Datastores that one is edited to, with itself.
const EDITS: usize = 3;
/// Kinds of cases, by their numbers: Datastores are edited, so they are twice as many.
const TURNS: [usize; 8] = [0, 1, 2, 0, 1, 0, 2, 0];

/// Try random specifications on the cluster of testbed/without-kubelets.
#[derive(Debug, Parser)]
struct Arguments {
    #[command(flatten)]
    ground: Ground,
    /// File for the operator's log.
    #[arg(long, default_value = "/dev/null")]
    log: PathBuf,
    /// Number of specifications.
    #[arg(long, default_value_t = 400)]
    specs: u64,
    /// Seed: the same seed makes the same specifications.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Try the objects of this file instead, its Datastores as edits of the first.
    #[arg(long)]
    manifests: Option<PathBuf>,
}

/// What happened to the specifications.
#[derive(Debug, Default)]
struct Tally {
    generated: usize,
    refused_by_server: usize,
    refused_for_author: usize,
    accepted: usize,
    refused_by_operator: usize,
    trials: usize,
    comparisons: usize,
}

/// A fault and the smallest objects that show it.
struct Finding {
    fault: Fault,
    objects: Vec<Value>,
    cases: Vec<u64>,
}

/// Applies the chart's admission policies.
async fn apply_policies() -> Result<()> {
    let chart = concat!(env!("CARGO_MANIFEST_DIR"), "/../../charts/dragstrip");
    let script = "set -o pipefail; helm template dragstrip \"$1\" --namespace dragstrip-system --kube-version 1.34.0 --show-only templates/policy.yaml \
                  | kubectl apply --server-side --filename - >/dev/null";
    let status = Command::new("bash").args(["-c", script, "bash", chart]).status().await?;
    ensure!(status.success(), "the chart's policies could not be applied: {status}");
    Ok(())
}

/// The objects of `file` as trials.
fn read_trials<'a>(file: &std::path::Path, kinds: &'a [Kind]) -> Result<Vec<Trial<'a>>> {
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let mut trials: Vec<Trial<'a>> = Vec::new();
    for document in serde_yaml::Deserializer::from_str(&text) {
        let object = Value::deserialize(document)?;
        let kind = kinds
            .iter()
            .find(|kind| object["kind"] == kind.name.as_str())
            .context("an object of another kind")?;
        let name = object["metadata"]["name"].as_str().context("an object without a name")?.to_owned();
        let case = Case { number: 0, name, spec: object["spec"].clone() };
        match trials.iter_mut().find(|trial| kind.name == "Datastore" && trial.kind.name == kind.name) {
            Some(trial) => trial.cases.push(case),
            None => trials.push(Trial { kind, cases: vec![case] }),
        }
    }
    Ok(trials)
}

/// What the API server says to a case, for an administrator and for an author.
async fn judge(server: &Server, kind: &Kind, case: &Case) -> Result<(bool, bool)> {
    let path = format!("/apis/dragstrip.dev/v1alpha1/namespaces/{JUDGED}/{}", kind.plural);
    let object = manifest(kind, &case.name, &case.spec);
    let mut accepted = [false; 2];
    for (accepted, author) in accepted.iter_mut().zip([false, true]) {
        match server.judge(&path, &object, author).await? {
            Answer::Object(_) => *accepted = true,
            Answer::Refusal(status) => {
                check_refusal(kind, &status)?;
                break;
            }
        }
    }
    Ok((accepted[0], accepted[1]))
}

/// Lets the API server judge random cases; returns those that it accepts as trials.
async fn generate<'a>(
    server: &Server,
    kinds: &'a [Kind],
    arguments: &Arguments,
    (tally, findings): (&mut Tally, &mut Vec<Finding>),
) -> Result<Vec<Trial<'a>>> {
    let strategies: Vec<_> = kinds.iter().map(specification).collect();
    let cases = (0..arguments.specs).map(|number| {
        let turn = TURNS[usize::try_from(number).unwrap_or_default() % TURNS.len()];
        let case = case(&strategies[turn], &kinds[turn], arguments.seed, number).map_err(|why| anyhow!(why));
        case.map(|case| (&kinds[turn], case))
    });
    let judged = stream::iter(cases).map(|case| async {
        let (kind, case) = case?;
        let verdict = split(judge(server, kind, &case).await)?;
        anyhow::Ok((kind, case, verdict))
    });
    let judged: Vec<_> = judged.buffered(AT_ONCE).try_collect().await?;
    let (mut trials, mut datastores): (Vec<Trial<'a>>, Vec<Case>) = Default::default();
    tally.generated = judged.len();
    for (kind, case, verdict) in judged {
        match verdict {
            Err(fault) => {
                let cases = vec![case.number];
                let spec = shrink::refusal(server, kind, &case, &fault).await?;
                findings.push(Finding { fault, objects: vec![manifest(kind, &case.name, &spec)], cases });
            }
            Ok((false, _)) => tally.refused_by_server += 1,
            Ok((true, for_author)) => {
                tally.accepted += 1;
                tally.refused_for_author += usize::from(!for_author);
                if kind.name == "Datastore" {
                    datastores.push(case);
                } else {
                    trials.push(Trial { kind, cases: vec![case] });
                }
            }
        }
    }
    trials.extend(datastores.chunks(EDITS).map(|cases| Trial { kind: &kinds[0], cases: cases.to_vec() }));
    Ok(trials)
}

/// Tries all of `trials` with the operator.
async fn try_all(
    bench: &Bench,
    trials: &[Trial<'_>],
    tally: &mut Tally,
    findings: &mut Vec<Finding>,
) -> Result<()> {
    for batch in trials.chunks(AT_ONCE) {
        let mut outcomes = bench.run(batch).await?;
        for (trial, outcome) in batch.iter().zip(&mut outcomes) {
            // Only alone it is clear whose fault it is.
            if outcome.as_ref().is_err_and(Bench::is_shared) {
                *outcome = bench.run(std::slice::from_ref(trial)).await?.remove(0);
            }
        }
        for (trial, outcome) in batch.iter().zip(outcomes) {
            tally.trials += 1;
            match outcome {
                Ok(outcome) => {
                    tally.refused_by_operator += outcome.refused;
                    tally.comparisons += outcome.comparisons;
                }
                Err(fault) => {
                    println!("a fault, which is made smaller: {fault}");
                    let small = shrink::trial(bench, trial, &fault).await?;
                    let objects =
                        small.cases.iter().map(|case| manifest(small.kind, &case.name, &case.spec)).collect();
                    findings.push(Finding {
                        fault,
                        objects,
                        cases: trial.cases.iter().map(|case| case.number).collect(),
                    });
                }
            }
        }
        println!("{} of {} trials, {} faults so far", tally.trials, trials.len(), findings.len());
    }
    Ok(())
}

async fn work(arguments: &Arguments, cluster: &Cluster) -> Result<Vec<Finding>> {
    cluster.prepare(CLIENT_NODES).await?;
    apply_policies().await?;
    cluster.namespace(JUDGED).await?;
    let server = Server::connect(&arguments.ground.fast_kubeconfig).await?;
    server.grant_author().await?;
    let kinds = kinds()?;
    let (mut tally, mut findings) = (Tally::default(), Vec::new());
    let trials = match &arguments.manifests {
        Some(file) => read_trials(file, &kinds)?,
        None => generate(&server, &kinds, arguments, (&mut tally, &mut findings)).await?,
    };
    let program = Program {
        path: arguments.ground.operator.clone(),
        kubeconfig: arguments.ground.kubeconfig.clone(),
        log: arguments.log.clone(),
        token: cluster.metrics_token().await?,
    };
    let operator = Mutex::new(program.start().await?);
    let place = Place { server, cluster: cluster.clone(), namespaces: Cell::new(0) };
    let bench = Bench { place, program, operator };
    println!(
        "{} specifications, of which {} are accepted: {} trials",
        tally.generated,
        tally.accepted,
        trials.len()
    );
    try_all(&bench, &trials, &mut tally, &mut findings).await?;
    let Tally {
        generated,
        refused_by_server,
        refused_for_author,
        accepted,
        refused_by_operator,
        trials,
        comparisons,
    } = tally;
    println!(
        "{generated} specifications with seed {}: the API server refused {refused_by_server} and accepted {accepted}, of \
         which an author without rights may not create {refused_for_author}; the operator refused {refused_by_operator}; \
         {trials} trials, {comparisons} comparisons of a Datastore's objects, {} faults",
        arguments.seed,
        findings.len()
    );
    Ok(findings)
}

async fn run(arguments: &Arguments) -> Result<Vec<Finding>> {
    let cluster = Cluster::connect(&arguments.ground.fast_kubeconfig).await?;
    tokio::select! {
        _ = tokio::signal::ctrl_c() => bail!("interrupted"),
        findings = work(arguments, &cluster) => findings,
        served = runners::serve(Simulation::new(cluster.clone(), arguments.ground.pod_log.clone())) => {
            served.and_then(|()| bail!("it ended by itself")).context("the simulated runners ended")
        }
    }
}

fn print(findings: &[Finding], seed: u64) -> Result<()> {
    for (number, Finding { fault, objects, cases }) in (1..).zip(findings) {
        println!("\nFAULT {number} (seed {seed}, cases {cases:?}): {fault}");
        println!("To try it again, write these objects into a file: make test-specifications MANIFESTS=file");
        for object in objects {
            println!("---\n{}", serde_yaml::to_string(object)?.trim_end());
        }
    }
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let found = Box::pin(run(&arguments)).await;
    match found.and_then(|findings| print(&findings, arguments.seed).map(|()| findings.len())) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("FAIL: {error:#}");
            ExitCode::FAILURE
        }
    }
}
