//! Runs the load: resolves the server, starts the load threads, releases them
//! together, prints progress, obeys signals and gathers the result.

use std::sync::Arc;
use std::time::Instant;

use tokio::sync::{mpsc, watch};

use crate::configuration::Configuration;
use crate::counts::assemble::{self, Gathered};
use crate::counts::report::{Failure, Report};
use crate::driver::clock::ClockAnchor;
use crate::driver::connector::Load;
use crate::driver::cpu;
use crate::driver::phase::{Ending, Phase, Signals};
use crate::driver::progress::{ProgressCounters, ProgressLines};
use crate::driver::worker::{self, WorkerEvent, WorkerPlan};
use crate::wire::cluster;
use crate::wire::tls::TlsClient;
use crate::workload::requests::RequestTemplates;

/// Runs the load that `configuration` describes. Whatever happens, the report
/// has how it ended and what was done until then.
pub async fn run(configuration: Configuration) -> Report {
    let configuration = Arc::new(configuration);
    let mut gathered = Gathered { clock: ClockAnchor::now(), outcomes: Vec::new() };
    let ending = conduct(&configuration, &mut gathered).await.err().unwrap_or(Ending::Completed);
    assemble::report(&configuration, gathered, ending)
}

async fn conduct(configuration: &Arc<Configuration>, gathered: &mut Gathered) -> Result<(), Ending> {
    let failed =
        |step: &str, problem: &dyn std::fmt::Display| Ending::Failed(Failure::of_client(step, problem));
    let mut signals = Signals::listen().map_err(|error| failed("listen for signals", &error))?;
    let tls = configuration.server().tls.as_ref().map(TlsClient::new).transpose();
    let tls = tls.map_err(|error| failed("set up TLS", &error))?;
    let routes = tokio::select! {
        biased;
        stopper = signals.next() => return Err(Ending::Interrupted(stopper)),
        found = cluster::find(configuration, tls.as_ref()) => {
            found.map_err(|error| Ending::Failed(error.failure()))?
        }
    };
    cpu::allow_open_files(configuration.connections() * routes.shards.len())
        .map_err(|error| failed("open so many connections", &error))?;
    let templates = RequestTemplates::new(configuration).into();
    let load = Load { configuration: Arc::clone(configuration), templates, routes: routes.into(), tls };
    let mut crew = Crew::start(&load.into()).map_err(|error| failed("start a load thread", &error))?;
    crew.until_ready(&mut signals).await;
    let origin = if crew.ending.is_none() { crew.release(configuration, gathered) } else { Instant::now() };
    crew.until_finished(&mut signals, configuration, origin).await;
    gathered.outcomes = crew.outcomes;
    crew.ending.map_or(Ok(()), Err)
}

struct Crew {
    phase: watch::Sender<Phase>,
    events: mpsc::UnboundedReceiver<WorkerEvent>,
    progress: Vec<Arc<ProgressCounters>>,
    ready: usize,
    outcomes: Vec<worker::WorkerOutcome>,
    /// Why the run ends before its time; the first reason stays.
    ending: Option<Ending>,
}

impl Crew {
    fn start(load: &Arc<Load>) -> std::io::Result<Self> {
        let (phase, phase_seen) = watch::channel(Phase::Prepare);
        let (event_sender, events) = mpsc::unbounded_channel();
        let mut progress = Vec::new();
        for thread in 0..load.configuration.threads {
            let counters = Arc::new(ProgressCounters::default());
            progress.push(Arc::clone(&counters));
            let (load, phase, events) = (Arc::clone(load), phase_seen.clone(), event_sender.clone());
            let plan = WorkerPlan { thread, load, phase, events, progress: counters };
            std::thread::Builder::new().name(format!("load-{thread}")).spawn(move || worker::run(&plan))?;
        }
        Ok(Self { phase, events, progress, ready: 0, outcomes: Vec::new(), ending: None })
    }

    async fn until_ready(&mut self, signals: &mut Signals) {
        while self.ending.is_none() && self.ready < self.progress.len() {
            tokio::select! {
                biased;
                stopper = signals.next() => self.stop(Ending::Interrupted(stopper)),
                event = self.events.recv() => self.note(event),
            }
        }
    }

    /// Sends the threads off at the wanted instant, or at once if it has
    /// passed, and returns the instant at which the load begins.
    fn release(&mut self, configuration: &Configuration, gathered: &mut Gathered) -> Instant {
        gathered.clock = ClockAnchor::now();
        let line = gathered.clock.line(configuration.specification.start_at_unix_nanos);
        let origin = line.max(gathered.clock.instant());
        self.phase.send_replace(Phase::Load { origin });
        origin
    }

    async fn until_finished(&mut self, signals: &mut Signals, configuration: &Configuration, since: Instant) {
        let mut progress = ProgressLines::new(configuration.progress_interval, since);
        while self.outcomes.len() < self.progress.len() {
            tokio::select! {
                biased;
                stopper = signals.next() => self.stop(Ending::Interrupted(stopper)),
                event = self.events.recv() => {
                    let channel_closed = event.is_none();
                    self.note(event);
                    if channel_closed { return }
                }
                () = progress.next() => progress.print(&self.progress),
            }
        }
    }

    fn note(&mut self, event: Option<WorkerEvent>) {
        match event {
            Some(WorkerEvent::Ready) => self.ready += 1,
            Some(WorkerEvent::Finished(outcome)) => {
                if let Some(failure) = outcome.failure.clone() {
                    self.stop(Ending::Failed(failure));
                }
                self.outcomes.push(*outcome);
            }
            None => {
                let failure = Failure::of_client("run a load thread", &"it ended without a result");
                self.stop(Ending::Failed(failure));
            }
        }
    }

    fn stop(&mut self, ending: Ending) {
        self.ending.get_or_insert(ending);
        self.phase.send_replace(Phase::Stop);
    }
}
