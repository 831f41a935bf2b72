//! Samples what the pod's servers have used. The files that it reads stay open, and it
//! walks through all processes only for a server that it has not found. Touches /proc
//! and the servers' cgroups.

use super::{
    finder::{self, Servers},
    samples::{Sample, ServerSample},
};
use crate::{
    frame::clock,
    measuring::{pace::paced, threads::Threads, usage::Around},
};
use std::time::Duration;
use tokio::time::Instant;

/// Most threads of all servers together that are sampled: each is an open file.
const MOST_THREADS: usize = 512;
/// Time between two searches for a missing server.
const FIND_INTERVAL: Duration = Duration::from_secs(1);

pub struct Probes {
    servers: Servers,
    /// The threads of each server, once its process is found.
    threads: Vec<Option<Threads>>,
    find_at: Instant,
}

impl Probes {
    pub fn of(servers: Servers) -> Self {
        Self { threads: servers.ports.iter().map(|_| None).collect(), servers, find_at: Instant::now() }
    }

    /// Searches for missing servers if the last search is old enough: walking through all
    /// processes costs more than a sample.
    pub fn find_missing(&mut self) {
        if self.threads.iter().any(Option::is_none) && Instant::now() >= self.find_at {
            let ((), wait) = paced(FIND_INTERVAL, || self.find());
            self.find_at = Instant::now() + wait;
        }
    }

    /// The servers, the machine and the network as they are now.
    pub fn sample(&mut self) -> Sample {
        let unix_nanos = clock::unix_nanos();
        let servers = self.threads.iter_mut().map(|place| sample_one(&self.servers, place)).collect();
        Sample { unix_nanos, around: Around::read(), servers }
    }

    fn find(&mut self) {
        let each = MOST_THREADS / self.threads.len().max(1);
        let found = finder::listeners(&self.servers.ports);
        for (threads, process) in self.threads.iter_mut().zip(found) {
            if threads.is_none() {
                *threads = process.map(|process| Threads::of(process, each));
            }
        }
    }
}

/// A server as it is now; `None` when its process is gone, which also empties its `place`.
fn sample_one(servers: &Servers, place: &mut Option<Threads>) -> Option<ServerSample> {
    let threads = place.as_mut()?;
    let process = threads.process;
    let sample = ServerSample { process, cgroup: servers.read(process), threads: threads.read() };
    if sample.threads.is_empty() {
        *place = None;
        return None;
    }
    Some(sample)
}
