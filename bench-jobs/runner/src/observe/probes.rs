//! Looks at what the pod's servers have used. Keeps the files open that it reads, and
//! looks through the processes only for a server that it does not know. Touches /proc
//! and the servers' cgroups.

use super::{
    finder,
    samples::{Sample, ServerSample},
};
use crate::{
    frame::clock,
    measuring::{
        cgroup,
        pace::paced,
        processes::{self, Accounting},
        threads::Threads,
        usage::Around,
    },
};
use std::time::Duration;
use tokio::time::Instant;

/// Most threads of all servers together that are sampled: each is an open file.
const MOST_THREADS: usize = 512;
/// How often a server that is not there is looked for.
const FIND_INTERVAL: Duration = Duration::from_secs(1);

/// The servers to look at.
#[derive(Debug, Clone)]
pub struct Servers {
    /// The ports they listen on.
    pub ports: Vec<u16>,
    /// Their processes' name, where it is declared.
    pub process_name: Option<String>,
    /// Whose account of CPU and memory is the servers'.
    pub accounting: Accounting,
}

/// Where the servers are looked at.
pub struct Probes {
    servers: Servers,
    /// The threads of each server, once it is found.
    threads: Vec<Option<Threads>>,
    /// When those that were not found are looked for again.
    find_at: Instant,
}

impl Probes {
    /// Of these servers, none of which is looked for yet.
    pub fn of(servers: Servers) -> Self {
        Self { threads: servers.ports.iter().map(|_| None).collect(), servers, find_at: Instant::now() }
    }

    /// Looks for servers that are not found yet, where it is time to: to look through all
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
        let servers = self.threads.iter_mut().map(|known| look(known, self.servers.accounting)).collect();
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
fn look(known: &mut Option<Threads>, accounting: Accounting) -> Option<ServerSample> {
    let threads = known.as_mut()?;
    let sampled = ServerSample {
        process: threads.process(),
        cgroup: match accounting {
            Accounting::Container => cgroup::read(&finder::cgroup_root(threads.process())),
            Accounting::Processes => processes::read(threads.process()),
        },
        threads: threads.read(),
    };
    if sampled.threads.is_empty() {
        *known = None;
        return None;
    }
    Some(sampled)
}
