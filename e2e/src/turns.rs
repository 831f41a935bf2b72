//! When a test may use the cluster: what tests share, and what one test has alone.
//!
//! Most of a test is waiting for pods, so that tests run side by side. But the
//! nodes share the CPUs of one machine, and a run that waits for another test's
//! node is not what a test is about: load takes turns. And a test that breaks the
//! cluster, counts what the operator does, has tight bounds on time or needs nodes
//! without another test's servers has the cluster alone.

use anyhow::Result;
use std::{future::Future, sync::LazyLock};
use tokio::sync::{
    Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard, Semaphore, SemaphorePermit, watch,
};

/// Tests beside each other at most: more would take the nodes' memory and the machine's CPUs.
const BESIDE: usize = 4;

static CLUSTER: RwLock<()> = RwLock::const_new(());
static PLACES: Semaphore = Semaphore::const_new(BESIDE);
static LOAD: Mutex<()> = Mutex::const_new(());
/// How many tests are beside others, or wait to be.
static NEIGHBOURS: LazyLock<watch::Sender<usize>> = LazyLock::new(|| watch::Sender::new(0));

/// One of [`NEIGHBOURS`].
pub(crate) struct Neighbour;

impl Neighbour {
    fn new() -> Self {
        NEIGHBOURS.send_modify(|count| *count += 1);
        Self
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        NEIGHBOURS.send_modify(|count| *count -= 1);
    }
}

/// Held by a test from its first object to its last.
#[allow(dead_code, reason = "held, not read")]
pub(crate) enum Share {
    /// Others may be there.
    Beside(RwLockReadGuard<'static, ()>, SemaphorePermit<'static>, Neighbour),
    /// Nobody else is.
    Alone(RwLockWriteGuard<'static, ()>),
}

impl Share {
    /// Waits for a place beside other tests, and until no test is alone.
    pub(crate) async fn beside() -> Result<Self> {
        let neighbour = Neighbour::new();
        let place = PLACES.acquire().await?;
        Ok(Self::Beside(CLUSTER.read().await, place, neighbour))
    }

    /// Waits until no other test is there, and as long as another could be beside others: each test that is
    /// alone would make the places of the others empty first, and they run for minutes.
    pub(crate) async fn alone() -> Result<Self> {
        NEIGHBOURS.subscribe().wait_for(|count| *count == 0).await?;
        Ok(Self::Alone(CLUSTER.write().await))
    }
}

/// A test's turn to send load.
#[derive(Default)]
pub(crate) struct Turn(Mutex<Option<MutexGuard<'static, ()>>>);

impl Turn {
    /// Waits until it is there, unless it is already.
    pub(crate) async fn take(&self) {
        let mut held = self.0.lock().await;
        if held.is_none() {
            *held = Some(LOAD.lock().await);
        }
    }

    /// The next test's.
    pub(crate) async fn pass_on(&self) {
        *self.0.lock().await = None;
    }

    /// The next test's, if this one is `idle`. To take it meanwhile means to wait for the answer.
    pub(crate) async fn pass_on_if(&self, idle: impl Future<Output = bool>) {
        let mut held = self.0.lock().await;
        if held.is_some() && idle.await {
            *held = None;
        }
    }
}
