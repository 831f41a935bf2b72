//! When a test may use the cluster: what tests share, and what one test has alone.
//!
//! Most of a test is waiting for pods, so that tests run side by side. But the
//! nodes share the CPUs of one machine, and a run that waits for another test's
//! node is not what a test is about: load takes turns. And a test that breaks the
//! cluster, counts what the operator does, has tight bounds on time or needs nodes
//! without another test's servers has the cluster alone.

use tokio::sync::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};

static CLUSTER: RwLock<()> = RwLock::const_new(());
static LOAD: Mutex<()> = Mutex::const_new(());

/// Held by a test from its first object to its last.
pub(crate) enum Share {
    /// Others may be there.
    Beside(#[allow(dead_code, reason = "held, not read")] RwLockReadGuard<'static, ()>),
    /// Nobody else is.
    Alone(#[allow(dead_code, reason = "held, not read")] RwLockWriteGuard<'static, ()>),
}

impl Share {
    /// Waits until no test is alone.
    pub(crate) async fn beside() -> Self {
        Self::Beside(CLUSTER.read().await)
    }

    /// Waits until no other test is there.
    pub(crate) async fn alone() -> Self {
        Self::Alone(CLUSTER.write().await)
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
}
