//! A lane: a node for a server and one for clients, on which one run after the other is measured.

use crate::{
    disk::SmallDisk,
    inject::{self, Injected, Target},
    judge::{self, Findings, Shown},
    plan::{Fault, Plan, TIMEOUT},
    record::{End, Record},
    shared::Shared,
    witness::{Seen, Witness},
};
use anyhow::{Context, Result, bail};
use dragstrip_crds::{BenchmarkRun, Datastore, conditions, conditions::types::READY, run::RunPhase};
use dragstrip_e2e::{
    Env, Look,
    manifests::{REDIS, object},
    message,
    nodes::server_on,
    phase, processes, results, until,
};
use kube::Client;
use std::time::{Duration, Instant};

/// How long the API server may be away at a time.
const API: Duration = Duration::from_secs(60);
/// How long a server may take to be ready, outages of others included.
const SERVER: Duration = Duration::from_secs(120);
/// How much longer than its timeout a run may take, without the time in a queue: the longest outages.
const MARGIN: Duration = Duration::from_secs(90);
/// How long runs of others may hold what a run needs.
const QUEUED: Duration = Duration::from_secs(600);
/// How long Leases may outlive a run: until the load of a pod that vanished is certainly over.
const LEASES_GONE: Duration = Duration::from_secs(90);

/// A lane.
pub struct Lane {
    pub number: usize,
    /// Name of the server's node.
    pub server: String,
    /// Name of the clients' node.
    pub client: String,
    pub cluster: Client,
    home: Option<Env>,
}

/// How a run ended, as the API server shows it.
enum Ended {
    Run(Box<BenchmarkRun>),
    Gone,
    Never(String),
}

impl Lane {
    /// The lane of two nodes.
    pub fn new(number: usize, cluster: Client, server: &str, client: &str) -> Self {
        Self { number, server: server.to_owned(), client: client.to_owned(), cluster, home: None }
    }

    /// A namespace with a server that is ready.
    async fn home(&mut self) -> Result<Env> {
        for _ in 0..2 {
            let env = match self.home.take() {
                Some(env) => env,
                None => self.new_home().await?,
            };
            match ready(&env).await {
                Ok(()) => return Ok(self.home.insert(env).clone()),
                Err(error) => {
                    eprintln!("lane {}: {error:#}", self.number);
                    leave(env);
                }
            }
        }
        bail!("lane {} has no server", self.number)
    }

    async fn new_home(&self) -> Result<Env> {
        let name = format!("faults-{}", self.number);
        let env =
            until("a namespace", API, async || Ok(Look::Done(Env::make(self.cluster.clone(), &name).await?)))
                .await?;
        let spec = server_on(REDIS, &self.server);
        until("a Datastore", API, async || Ok(Look::Done(env.datastore("redis", &spec).await?))).await?;
        Ok(env)
    }

    /// Measures the run of `plan`, injects its fault, and judges what the run shows.
    pub async fn run(&mut self, plan: &Plan, shared: &Shared) -> Result<Record> {
        let env = self.home().await?;
        let measured = Box::pin(self.measure(&env, plan, shared)).await;
        let reusable = measured.as_ref().is_ok_and(Record::good) && !plan.fault.spoils_the_server();
        if !(reusable && deleted(&env, &plan.run()).await) {
            // One whose namespace is deleted needs nothing more.
            if let Some(home) = self.home.take().filter(|_| plan.fault != Fault::NamespaceDeleted) {
                leave(home);
            }
        }
        measured
    }

    async fn measure(&self, env: &Env, plan: &Plan, shared: &Shared) -> Result<Record> {
        // The turn comes first: the moment would pass while the fault waits for it.
        let turn = if plan.fault.is_shared() { Some(shared.turn().await?) } else { None };
        let begun = Instant::now();
        let witness = Witness::new(env, &plan.run()).await?;
        let name = self.client.trim_start_matches("dragstrip-");
        let disk = (plan.fault == Fault::DiskFull).then(|| SmallDisk::new(name)).transpose()?;
        let run = plan.run();
        let object = object("BenchmarkRun", &run, &plan.spec(&self.client))?;
        until("a run", API, async || {
            // An API server that went away may have created it.
            if env.api::<BenchmarkRun>().get_opt(&run).await?.is_none() {
                env.create::<BenchmarkRun>(object.clone()).await?;
            }
            Ok(Look::Done(()))
        })
        .await?;
        let target = Target { env, lane: self, plan, turn, disk: disk.as_ref() };
        let (injected, ended) = tokio::join!(inject::inject(target), ended(env, &run));
        drop(disk);
        let leases = leases_gone(env).await;
        let seen = witness.seen().await;
        let mut record = self.judged(plan, env, injected.as_ref(), &ended, &seen).await?;
        record.also = shared.felt_by(self.number, begun);
        record.seconds = begun.elapsed().as_secs_f64();
        if let Err(error) = leases {
            record.findings.lost.push(format!("{error:#}"));
        }
        if let Some(Err(error)) = &injected {
            record.missed = Some(format!("{error:#}"));
        }
        Ok(record)
    }

    async fn judged(
        &self,
        plan: &Plan,
        env: &Env,
        injected: Option<&Result<Injected>>,
        ended: &Ended,
        seen: &Seen,
    ) -> Result<Record> {
        let injected = injected.and_then(|injected| injected.as_ref().ok());
        let mut record = Record {
            seed: plan.seed,
            fault: plan.fault,
            moment: plan.moment,
            injected: injected.map(|injected| injected.what.clone()),
            missed: None,
            also: Vec::new(),
            end: End::Deleted,
            failure: None,
            findings: Findings::default(),
            seconds: 0.0,
            lane: self.number,
        };
        match ended {
            // Its results go with the namespace.
            Ended::Run(run) if plan.fault != Fault::NamespaceDeleted || injected.is_none() => {
                let shown = shown(env, run).await?;
                record.findings = judge::judge(plan, &shown, seen, injected.map(|injected| injected.at));
                record.end = match shown.status.phase {
                    RunPhase::Succeeded if shown.status.retries.is_empty() => End::Unharmed,
                    RunPhase::Succeeded => End::Repeated,
                    _ => End::Failed,
                };
                let failure = shown.status.failure;
                record.failure = failure.map(|failure| (failure.step, failure.message));
            }
            Ended::Run(_) | Ended::Gone => {
                for tally in &seen.tallies {
                    if let Err(error) = processes::await_none(&tally.uid).await {
                        record.findings.lost.push(format!("a deleted run still loads: {error:#}"));
                    }
                }
            }
            Ended::Never(line) => {
                record.end = End::Never;
                record.findings.lost.push(format!("the run did not end: {line}"));
            }
        }
        if record.end == End::Deleted && plan.fault != Fault::NamespaceDeleted {
            record.findings.lost.push("the run is gone".to_owned());
        }
        Ok(record)
    }

    /// Leaves the lane.
    pub async fn close(mut self) -> Result<()> {
        match self.home.take() {
            Some(home) => home.remove().await,
            None => Ok(()),
        }
    }
}

/// Deletes a run; whether that succeeded.
async fn deleted(env: &Env, run: &str) -> bool {
    let api = env.api::<BenchmarkRun>();
    let deleted = until("a deleted run", API, async || {
        Ok(match api.get_opt(run).await? {
            Some(_) => Look::Done(env.delete::<BenchmarkRun>(run).await?),
            None => Look::Done(()),
        })
    });
    deleted.await.is_ok()
}

/// Removes a home beside the next runs.
fn leave(env: Env) {
    tokio::task::spawn_local(async move {
        if let Err(error) = env.remove().await {
            eprintln!("namespace {}: {error:#}", env.namespace);
        }
    });
}

async fn ready(env: &Env) -> Result<()> {
    let holds = |datastore: &Datastore| {
        let conditions = datastore.status.clone().unwrap_or_default().conditions;
        conditions::holds(&conditions, READY, datastore.metadata.generation)
    };
    env.datastore_is("redis", "Ready=True", SERVER, holds).await?;
    Ok(())
}

/// Waits for the end of a run.
async fn ended(env: &Env, run: &str) -> Ended {
    let api = env.api::<BenchmarkRun>();
    let what = format!("the end of run {run}");
    let mut since = Instant::now();
    let found = until(&what, QUEUED, async || {
        let Some(run) = api.get_opt(run).await? else { return Ok(Look::Done(Ended::Gone)) };
        let seen = format!("{} {:?}", phase(&run), message(&run));
        Ok(match phase(&run) {
            ended if ended.finished() => Look::Done(Ended::Run(Box::new(run))),
            RunPhase::Queued => {
                since = Instant::now();
                Look::NotYet(seen)
            }
            _ if since.elapsed() > TIMEOUT + MARGIN => Look::Never(seen),
            _ => Look::NotYet(seen),
        })
    })
    .await;
    found.unwrap_or_else(|error| Ended::Never(format!("{error:#}")))
}

/// What a run that has ended shows.
async fn shown(env: &Env, run: &BenchmarkRun) -> Result<Shown> {
    let status = results::status(run)?;
    let results = until("the stored results", API, async || {
        let uid = run.metadata.uid.as_deref().context("no uid")?;
        Ok(Look::Done(env.stored_results(uid).await?))
    })
    .await?;
    Ok(Shown { status, results })
}

/// Waits until no run of the namespace holds a Lease.
async fn leases_gone(env: &Env) -> Result<()> {
    until("no Lease of the run", LEASES_GONE, async || {
        let held = env.held().await?;
        Ok(if held.is_empty() { Look::Done(()) } else { Look::NotYet(held.join(", ")) })
    })
    .await
}
