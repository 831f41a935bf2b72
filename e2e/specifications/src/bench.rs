//! Tries objects with the operator running: it must neither end, nor panic, nor go on sending requests.

use crate::trial::{Attempt, Fault, Outcome, Place, Trial, split};
use anyhow::Result;
use dragstrip_bench_operator::operator::Operator;
use futures::future::{join_all, try_join_all};
use std::{
    path::PathBuf,
    time::{Duration, Instant},
};
use tokio::sync::Mutex;

/// Longest time until the operator has become quiet beside objects that do not change.
const QUIET_WITHIN: Duration = Duration::from_secs(90);
/// Most requests in a minute for each object.
const MOST_REQUESTS: f64 = 10.0;
/// Time over which they are counted.
const COUNTED: u32 = 12;

/// How to start an operator.
pub struct Program {
    /// The operator's program.
    pub path: PathBuf,
    /// Its kubeconfig.
    pub kubeconfig: PathBuf,
    /// File for its log.
    pub log: PathBuf,
    /// Token for its metrics.
    pub token: String,
}

/// The cluster with an operator.
pub struct Bench {
    /// The cluster.
    pub place: Place,
    /// How to start the operator.
    pub program: Program,
    /// The operator that runs now.
    pub operator: Mutex<Operator>,
}

/// Passes of the operator that ended by a panic.
fn panics(page: &str) -> f64 {
    let count = |line: &&str| {
        line.starts_with("dragstrip_reconcile_duration_seconds_count")
            && line.contains("outcome=\"panicked\"")
    };
    page.lines().filter(count).filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok()).sum()
}

impl Program {
    /// Starts an operator.
    pub async fn start(&self) -> Result<Operator> {
        Operator::start(&self.path, &self.kubeconfig, &self.log, &self.token).await
    }
}

impl Bench {
    async fn panics(&self) -> Result<f64> {
        Ok(panics(&self.operator.lock().await.page().await?))
    }

    /// What is wrong with the operator itself beside so many objects.
    async fn health(&self, panics_before: f64, objects: usize) -> Result<(), Fault> {
        let fault = |property, detail: String| Err(Fault { property, detail });
        let panics = match self.panics().await {
            Ok(panics) => panics - panics_before,
            Err(error) => return fault("the operator stays alive", format!("{error:#}")),
        };
        if panics > 0.0 {
            return fault("no reconcile panics", format!("{panics} panics, see the log"));
        }
        let (begun, most) = (Instant::now(), MOST_REQUESTS * objects as f64);
        loop {
            let rate = self.operator.lock().await.rate(COUNTED).await;
            let rate = rate.map_or(f64::INFINITY, |rate| rate * 60.0);
            if rate <= most {
                return Ok(());
            }
            if begun.elapsed() > QUIET_WITHIN {
                let detail = format!(
                    "{rate:.0} requests in a minute after {QUIET_WITHIN:?}, at most {most} are allowed"
                );
                return fault("the operator becomes quiet", detail);
            }
        }
    }

    /// Tries all of `trials` at the same time. A fault of the operator itself is that of every one of them.
    pub async fn run<'a>(&'a self, trials: &'a [Trial<'a>]) -> Result<Vec<Result<Outcome, Fault>>> {
        let before = self.panics().await?;
        let attempts = try_join_all(trials.iter().map(|trial| Attempt::begin(&self.place, trial))).await?;
        let observed = join_all(attempts.iter().map(Attempt::observe)).await;
        let mut found = observed.into_iter().map(split).collect::<Result<Vec<_>>>()?;
        let health = self.health(before, 2 * trials.len()).await;
        if let Err(fault) = &health
            && fault.property == "the operator stays alive"
        {
            *self.operator.lock().await = self.program.start().await?;
        }
        let ends = join_all(attempts.iter().map(Attempt::end)).await;
        for (found, end) in found.iter_mut().zip(ends) {
            let end = split(end)?;
            if let (Ok(_), Err(fault)) = (&*found, health.clone().and(end)) {
                *found = Err(fault);
            }
        }
        Ok(found)
    }

    /// Whether a fault may be another trial's.
    pub fn is_shared(fault: &Fault) -> bool {
        ["the operator stays alive", "no reconcile panics", "the operator becomes quiet"]
            .contains(&fault.property)
    }
}
