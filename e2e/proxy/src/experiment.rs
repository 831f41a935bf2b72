//! One run of a scenario, with a fault or without, and what it shows.

use crate::{
    operator::{LEASE, Operator, Start},
    plan::{Deed, Injected, Plan},
    scenario::{self, Scenario},
    state::{self, State},
};
use anyhow::{Context, Result, bail, ensure};
use dragstrip_bench_operator::{
    cluster::Cluster,
    runners::{Load, Simulation},
};
use dragstrip_fault_proxy::{
    engine::{Engine, Entry, Hit},
    proxy::Proxy,
};
use kube::Client;
use serde_json::json;
use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::sync::mpsc;

/// How long there must be no request: one in this time would be ten a minute.
const QUIET: Duration = Duration::from_secs(6);
/// How long recovery from a fault may take.
pub const RECOVERED_WITHIN: Duration = Duration::from_secs(30);
/// How long an operator that was stopped stays so after another one leads.
const STOPPED: Duration = Duration::from_secs(2);
/// Time between two looks.
const LOOK: Duration = Duration::from_millis(100);
/// An operator with a new namespace is ready within this time.
const READY_WITHIN: Duration = Duration::from_secs(60);

/// What all experiments share.
pub struct Laboratory {
    pub cluster: Cluster,
    pub upstream: Client,
    pub simulation: Arc<Simulation>,
    pub program: PathBuf,
    pub directory: PathBuf,
    pub number: AtomicUsize,
    pub http: reqwest::Client,
}

/// What an experiment shows.
pub struct Shown {
    /// What exists when the scenario has ended.
    pub end: State,
    /// What is left after the deletion.
    pub left: State,
    /// All requests.
    pub entries: Vec<Entry>,
    /// All loads.
    pub loads: Vec<Load>,
    /// From the declaration until the operator has nothing to do, without what a fault lasts.
    pub took: Duration,
    /// How often an operator ended by itself.
    pub exits: usize,
    /// Whether the fault was injected.
    pub injected: bool,
    /// The operators' logs.
    pub directory: PathBuf,
}

/// A scenario under way.
struct Experiment<'a> {
    laboratory: &'a Laboratory,
    scenario: Scenario,
    plan: Option<&'a Plan>,
    golden: Option<&'a Shown>,
    namespace: String,
    directory: PathBuf,
    engine: Arc<Engine>,
    hits: mpsc::UnboundedReceiver<Hit>,
    operators: Vec<Operator>,
    /// The halted request of a stopped operator, and since when another one leads.
    stopped: Option<(Hit, Option<Instant>)>,
    /// How long the operator was kept from its work.
    paused: Duration,
    pause_began: Option<Instant>,
}

fn deed(plan: Option<&Plan>) -> Option<Deed> {
    plan.and_then(|plan| plan.kind.deed())
}

/// Whether a request belongs to the scenario, and not to the election of a leader.
pub fn of_scenario(entry: &Entry) -> bool {
    !(entry.request.resource == "leases" && entry.request.name == LEASE)
}

impl<'a> Experiment<'a> {
    async fn prepare(
        laboratory: &'a Laboratory,
        scenario: Scenario,
        plan: Option<&'a Plan>,
        golden: Option<&'a Shown>,
    ) -> Result<Self> {
        let namespace = format!("faults-{}", laboratory.number.fetch_add(1, Ordering::Relaxed));
        let directory = laboratory.directory.join(&namespace);
        std::fs::create_dir_all(&directory)?;
        let (engine, hits) = Engine::new();
        let engine = Arc::new(engine);
        match plan.map(|plan| (plan, plan.kind.injected)) {
            Some((plan, Injected::Request(fault, _))) => engine.arm(plan.place.clone(), fault),
            Some((plan, Injected::Watch(fault))) => engine.disturb(plan.resource.clone(), fault),
            None => {}
        }
        laboratory.cluster.namespace(&namespace).await?;
        for (name, role) in scenario::nodes(&namespace) {
            laboratory.cluster.node(&name, &role, json!({})).await?;
        }
        let mut experiment = Self {
            laboratory,
            scenario,
            plan,
            golden,
            namespace,
            directory,
            engine,
            hits,
            operators: Vec::new(),
            stopped: None,
            paused: Duration::ZERO,
            pause_began: None,
        };
        experiment.start_operator().await?;
        Ok(experiment)
    }

    async fn start_operator(&mut self) -> Result<()> {
        let number = self.operators.len();
        let elected_as = (deed(self.plan) == Some(Deed::Stop)).then_some(["first", "second"][number]);
        let proxy = Proxy::start(self.laboratory.upstream.clone(), Arc::clone(&self.engine), number).await?;
        let start = Start {
            program: &self.laboratory.program,
            namespace: &self.namespace,
            elected_as,
            directory: &self.directory,
        };
        self.operators.push(Operator::start(&start, proxy)?);
        Ok(())
    }

    /// Whether the operator with this number has written the Lease of the election.
    fn leads(&self, number: usize) -> bool {
        self.engine.entries().iter().any(|entry| {
            entry.operator == number
                && !of_scenario(entry)
                && entry.request.mutates
                && entry.status.is_some_and(|status| status < 300)
        })
    }

    /// Does what the plan has for a halted request.
    async fn halted(&mut self, hit: Hit) -> Result<()> {
        match deed(self.plan).context("a request was halted without a plan")? {
            Deed::Stop => {
                self.operators[0].stop().await?;
                self.pause_began = Some(Instant::now());
                // It may have been stopped before it led.
                if self.operators.len() == 1 {
                    self.start_operator().await?;
                }
                self.stopped = Some((hit, None));
            }
            deed => {
                self.operators[0].kill().await?;
                drop(hit);
                self.engine.serve_old_lists(deed == Deed::KillAndServeOldLists);
                self.operators[0].revive()?;
            }
        }
        Ok(())
    }

    /// Resumes the stopped operator once another one has led for a moment.
    async fn resume(&mut self) -> Result<()> {
        let second_leads = self.leads(1);
        let Some((_, since)) = &mut self.stopped else { return Ok(()) };
        let led = second_leads.then(|| *since.get_or_insert_with(Instant::now));
        if led.is_some_and(|since| since.elapsed() > STOPPED)
            && let Some((hit, _)) = self.stopped.take()
        {
            // Its connection may have been closed meanwhile.
            let _ = hit.send(());
            self.operators[0].resume().await?;
            self.paused += self.pause_began.take().map(|since| since.elapsed()).unwrap_or_default();
        }
        Ok(())
    }

    /// One look: acts where the plan or the operators need it.
    async fn tend(&mut self) -> Result<()> {
        if let Ok(Some(hit)) = tokio::time::timeout(LOOK, self.hits.recv()).await {
            self.halted(hit).await?;
        }
        self.resume().await?;
        if self.stopped.is_none() {
            self.operators[0].restart_if_ended()?;
        }
        for operator in self.operators.iter_mut().skip(1) {
            operator.restart_if_ended()?;
        }
        if deed(self.plan) == Some(Deed::KillAndServeOldLists)
            && self.engine.injected().is_some()
            && self.operators[0].is_ready(&self.laboratory.http).await
        {
            self.engine.serve_old_lists(false);
        }
        Ok(())
    }

    /// Tends until `check` returns nothing that is missing.
    async fn until(
        &mut self,
        what: &str,
        within: Duration,
        mut check: impl AsyncFnMut(&Self) -> Result<Option<String>>,
    ) -> Result<()> {
        let begun = Instant::now();
        loop {
            self.tend().await?;
            let Some(missing) = check(&*self).await? else { return Ok(()) };
            let fault = self.plan.map_or(Duration::ZERO, |plan| plan.kind.lasts()) + self.paused;
            if self.stopped.is_none() && begun.elapsed() > within + fault {
                bail!("not within {} s: {what}: {missing}", (within + fault).as_secs());
            }
            ensure!(begun.elapsed() < Duration::from_secs(300), "no other operator leads: {missing}");
        }
    }

    async fn ready(&mut self) -> Result<()> {
        self.until("the operator is ready", READY_WITHIN, async |this| {
            let last = this.operators.last().context("no operator")?;
            let ready = last.is_ready(&this.laboratory.http).await;
            Ok((!ready).then(|| "it is not ready".to_owned()))
        })
        .await
    }

    /// Starts all operators, the first as the leader.
    async fn start(&mut self) -> Result<()> {
        self.ready().await?;
        if deed(self.plan) == Some(Deed::Stop) {
            self.until("an operator leads", READY_WITHIN, async |this| {
                let leads = (0..this.operators.len()).any(|number| this.leads(number));
                Ok((!leads).then(|| "none does".to_owned()))
            })
            .await?;
            if self.operators.len() == 1 {
                self.start_operator().await?;
            }
            self.ready().await?;
        }
        Ok(())
    }

    /// How long a step may take that took so long without a fault.
    fn within(&self) -> Duration {
        self.golden.map_or(self.scenario.within(), |golden| golden.took * 2 + RECOVERED_WITHIN * 2)
    }

    async fn ended(&mut self) -> Result<State> {
        let mut last = State::new();
        let within = self.within();
        let cell = &mut last;
        self.until("the end state", within, async |this| {
            if !this.scenario.has_ended(&this.laboratory.cluster, &this.namespace).await? {
                return Ok(Some("the scenario has not ended".to_owned()));
            }
            *cell = state::read(&this.laboratory.cluster, &this.namespace).await?;
            let Some(golden) = this.golden else { return Ok(None) };
            if retries(cell) > 0 {
                return Ok(None);
            }
            let differences = state::differences(&golden.end, cell);
            Ok((!differences.is_empty()).then(|| differences.join("; ")))
        })
        .await?;
        Ok(last)
    }

    async fn quiet(&mut self) -> Result<()> {
        self.until("no request for 6 s", RECOVERED_WITHIN, async |this| {
            // Experiments beside this one add and remove nodes, which all operators see.
            let own = |entry: &Entry| of_scenario(entry) && entry.request.resource != "nodes";
            let recent = this.engine.recent(QUIET, own);
            Ok((recent > 0)
                .then(|| format!("{recent} requests in the last 6 s, such as {}", this.last_request())))
        })
        .await
    }

    /// What exists once nobody changes it: the garbage collector may be slower than the operator.
    async fn settled(&mut self) -> Result<State> {
        let mut last = (State::new(), Instant::now());
        let seen = &mut last;
        self.until("no change for 6 s", RECOVERED_WITHIN * 2, async |this| {
            let state = state::read(&this.laboratory.cluster, &this.namespace).await?;
            if state != seen.0 {
                *seen = (state, Instant::now());
            }
            Ok((seen.1.elapsed() < QUIET).then(|| "objects still change".to_owned()))
        })
        .await?;
        Ok(last.0)
    }

    fn last_request(&self) -> String {
        let entries = self.engine.entries();
        entries.iter().rev().find(|entry| of_scenario(entry)).map(|it| it.request.words()).unwrap_or_default()
    }

    async fn run(&mut self) -> Result<Shown> {
        self.start().await?;
        let begun = Instant::now();
        self.scenario.declare(&self.laboratory.cluster, &self.namespace).await?;
        let mut end = self.ended().await?;
        self.quiet().await?;
        if self.golden.is_none() {
            end = self.settled().await?;
        }
        self.scenario.delete(&self.laboratory.cluster, &self.namespace).await?;
        let mut left = State::new();
        let cell = &mut left;
        self.until("the end of the deletion", RECOVERED_WITHIN * 2, async |this| {
            *cell = state::read(&this.laboratory.cluster, &this.namespace).await?;
            let names = || format!("left are {}", cell.keys().cloned().collect::<Vec<_>>().join(", "));
            Ok((!cell.is_empty()).then(names))
        })
        .await?;
        self.quiet().await?;
        let fault = self.plan.map_or(Duration::ZERO, |plan| plan.kind.lasts()) + self.paused;
        Ok(Shown {
            end,
            left,
            entries: self.engine.entries(),
            loads: self.laboratory.simulation.loads(&self.namespace),
            took: begun.elapsed().saturating_sub(fault),
            exits: self.operators.iter().map(|operator| operator.exits).sum(),
            injected: self.engine.injected().is_some(),
            directory: self.directory.clone(),
        })
    }

    /// Ends the operators, and removes the nodes, and the namespace beside other work.
    async fn clear(mut self) -> Result<()> {
        for operator in &mut self.operators {
            operator.kill().await?;
        }
        for (name, _) in scenario::nodes(&self.namespace) {
            self.laboratory.cluster.remove_node(&name).await?;
        }
        self.laboratory.cluster.begin_to_remove_namespace(&self.namespace).await
    }
}

/// Repetitions that the runs of `state` record as measured again.
pub fn retries(state: &State) -> usize {
    let runs = state.iter().filter(|(key, _)| key.starts_with("benchmarkruns "));
    runs.filter_map(|(_, run)| run.pointer("/status/retries")?.as_array().map(Vec::len)).sum()
}

/// Runs `scenario`, with the fault of `plan` if there is one. The operators' logs stay if it fails.
pub async fn run(
    laboratory: &Laboratory,
    scenario: Scenario,
    plan: Option<&Plan>,
    golden: Option<&Shown>,
) -> Result<Shown> {
    let mut experiment = Experiment::prepare(laboratory, scenario, plan, golden).await?;
    let shown = experiment.run().await;
    let directory = experiment.directory.clone();
    let requests = || {
        let line = |entry: &Entry| {
            let (words, status) = (entry.request.words(), entry.status.unwrap_or_default());
            format!(
                "{:8.3} {} {words} #{} {status}\n",
                entry.at.elapsed().as_secs_f64(),
                entry.operator,
                entry.number
            )
        };
        experiment.engine.entries().iter().map(line).collect::<String>()
    };
    std::fs::write(directory.join("requests"), requests())?;
    experiment.clear().await?;
    shown.with_context(|| format!("see {}", directory.display()))
}
