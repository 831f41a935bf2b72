//! Samples what the pod's servers use, from an order until its time is over, another
//! measurement is ordered, or somebody asked what was used. Touches /proc and the
//! servers' cgroups.

use super::{
    finder,
    samples::{Sample, Samples, ServerSample},
};
use crate::{cgroup, clock, pace::paced, threads::Threads, usage::Around};
use dragstrip_results::{
    protocol::{UsageOrder, UsageWindow},
    usage::ServerUsage,
};
use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::{
    task::AbortHandle,
    time::{Instant, sleep, timeout_at},
};

/// Most threads of all servers together that are sampled: each is an open file.
const MOST_THREADS: usize = 512;

/// How often a server that is not there is looked for.
const FIND_INTERVAL: Duration = Duration::from_secs(1);

/// The servers to sample.
#[derive(Debug, Clone)]
pub struct Servers {
    /// The ports they listen on.
    pub ports: Vec<u16>,
    /// Their processes' name, where it is declared.
    pub process_name: Option<String>,
}

/// One measurement.
struct Measurement {
    token: String,
    samples: Arc<Mutex<Samples>>,
    sampling: AbortHandle,
}

/// Samples one measurement at a time.
pub struct Sampler {
    servers: Servers,
    current: Mutex<Option<Measurement>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Sampler {
    /// Idle until it is told.
    pub fn new(servers: Servers) -> Self {
        Self { servers, current: Mutex::default() }
    }

    /// Samples from now on; goes on where it does so already for the same measurement.
    pub fn begin(&self, order: UsageOrder) {
        let mut current = locked(&self.current);
        if let Some(former) = &*current {
            if former.token == order.token && !former.sampling.is_finished() {
                return;
            }
            former.sampling.abort();
        }
        let samples = Arc::<Mutex<Samples>>::default();
        let work = sample(self.servers.clone(), Arc::clone(&samples));
        let end = Instant::now() + Duration::from_secs(order.seconds);
        // Its time being over is how it is meant to end.
        let sampling = tokio::spawn(async move { drop(timeout_at(end, work).await) }).abort_handle();
        *current = Some(Measurement { token: order.token, samples, sampling });
    }

    /// What each server used in a window. Nothing is sampled after that: who asks has
    /// measured.
    pub fn usage(&self, window: &UsageWindow) -> Result<Vec<ServerUsage>, String> {
        let current = locked(&self.current);
        let Some(measurement) = current.as_ref().filter(|known| known.token == window.token) else {
            return Err("nothing was sampled for this measurement: the observer was never told to, \
                        or was restarted since"
                .to_owned());
        };
        let used = locked(&measurement.samples).usage(&self.servers.ports, window);
        let used = used.map_err(|error| error.to_string())?;
        measurement.sampling.abort();
        Ok(used)
    }
}

/// Samples for ever.
async fn sample(servers: Servers, samples: Arc<Mutex<Samples>>) {
    let mut probes = Probes::of(servers);
    loop {
        let interval = locked(&samples).interval();
        probes.find_missing();
        let (sample, wait) = paced(interval, || probes.sample());
        locked(&samples).keep(sample);
        sleep(wait).await;
    }
}

/// Where the servers are looked at.
struct Probes {
    servers: Servers,
    /// The threads of each server, once it is found.
    threads: Vec<Option<Threads>>,
    /// When those that were not found are looked for again.
    find_at: Instant,
}

impl Probes {
    fn of(servers: Servers) -> Self {
        Self { threads: servers.ports.iter().map(|_| None).collect(), servers, find_at: Instant::now() }
    }

    /// Looks for servers that are not found yet. To look through all processes costs more
    /// than a sample.
    fn find_missing(&mut self) {
        if self.threads.iter().any(Option::is_none) && Instant::now() >= self.find_at {
            let ((), wait) = paced(FIND_INTERVAL, || self.find());
            self.find_at = Instant::now() + wait;
        }
    }

    fn sample(&mut self) -> Sample {
        let unix_nanos = clock::unix_nanos();
        let servers = self.threads.iter_mut().map(look).collect();
        Sample { unix_nanos, around: Around::read(), servers }
    }

    fn find(&mut self) {
        let each = MOST_THREADS / self.threads.len().max(1);
        let found = finder::listeners(&self.servers.ports, self.servers.process_name.as_deref());
        for (known, process) in self.threads.iter_mut().zip(found) {
            if known.is_none() {
                *known = process.map(|process| Threads::of(process, each));
            }
        }
    }
}

/// A server as it is now; it is looked for again when it is gone.
fn look(known: &mut Option<Threads>) -> Option<ServerSample> {
    let threads = known.as_mut()?;
    let sampled = ServerSample {
        process: threads.process(),
        cgroup: cgroup::read(&finder::cgroup_root(threads.process())),
        threads: threads.read(),
    };
    if sampled.threads.is_empty() {
        *known = None;
        return None;
    }
    Some(sampled)
}
