//! What both lanes share: the parts of the cluster that only one of them stops at a time, and when it did.

use crate::plan::Fault;
use anyhow::Result;
use std::{
    fs::File,
    path::PathBuf,
    sync::{Mutex, PoisonError},
    time::Instant,
};
use tokio::{
    sync::{Mutex as Turns, MutexGuard},
    task::spawn_blocking,
};

/// A fault that every run feels.
struct Outage {
    fault: Fault,
    lane: usize,
    until: Option<Instant>,
}

/// What both lanes share.
#[derive(Default)]
pub struct Shared {
    lock: Option<PathBuf>,
    turns: Turns<()>,
    outages: Mutex<Vec<Outage>>,
}

/// The right to stop a part of the cluster; an outage ends with it.
pub struct Turn<'a> {
    shared: &'a Shared,
    /// Held, not read.
    _alone: (MutexGuard<'a, ()>, Option<File>),
}

impl Shared {
    /// With the file whose lock those hold who stop a part of the cluster.
    pub fn new(lock: Option<PathBuf>) -> Self {
        Self { lock, ..Self::default() }
    }

    fn outages<T>(&self, access: impl FnOnce(&mut Vec<Outage>) -> T) -> T {
        access(&mut self.outages.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Waits for the turn to stop a part of the cluster.
    pub async fn turn(&self) -> Result<Turn<'_>> {
        let turn = self.turns.lock().await;
        let lock = match self.lock.clone() {
            None => None,
            Some(path) => {
                let locked = move || -> Result<File> {
                    let file = File::create(path)?;
                    file.lock()?;
                    Ok(file)
                };
                Some(spawn_blocking(locked).await??)
            }
        };
        Ok(Turn { shared: self, _alone: (turn, lock) })
    }

    /// What the other lanes stopped since `from`, and what they have stopped now.
    pub fn felt_by(&self, lane: usize, from: Instant) -> Vec<Fault> {
        let felt = |outage: &&Outage| outage.lane != lane && outage.until.is_none_or(|until| until > from);
        self.outages(|outages| outages.iter().filter(felt).map(|outage| outage.fault).collect())
    }
}

impl Turn<'_> {
    /// Records that `lane` begins an outage.
    pub fn begin(&self, fault: Fault, lane: usize) {
        self.shared.outages(|outages| outages.push(Outage { fault, lane, until: None }));
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let ended = Some(Instant::now());
        self.shared.outages(|outages| {
            for outage in outages.iter_mut() {
                outage.until = outage.until.or(ended);
            }
        });
    }
}
