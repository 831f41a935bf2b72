//! Repeated samples of what servers used, and what they used in a window. Bounded: too many
//! samples halve the resolution. Pure.

use crate::{
    frame::clock::seconds,
    measuring::{
        cgroup,
        threads::{Times, busiest},
        usage::Around,
    },
};
use dragstrip_results::{
    protocol::UsageWindow,
    usage::{ContainerUsage, ServerUsage, ThreadUsage},
};
use std::{collections::HashMap, time::Duration};

const INTERVAL: Duration = Duration::from_millis(250);
const MOST_SAMPLES: usize = 2_000;
/// Most readings of single threads and CPUs that are stored, of all samples: about 4 MB.
const MOST_READINGS: usize = 80_000;
const MOST_THREADS: usize = 256;
/// A thread that used less of a core is idle, and not reported.
const IDLE: f64 = 0.001;

/// Why the samples do not cover a window.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WindowError {
    #[error("no two samples lie in the window, or around it: there are {samples}")]
    Outside { samples: usize },
    #[error("the process that listens on port {0} is not found")]
    NotFound(u16),
    #[error("the server on port {0} was restarted, or is gone")]
    Restarted(u16),
}

#[derive(Debug, Clone, PartialEq)]
pub struct ServerSample {
    pub process: i32,
    /// Its container, since it began; absent where it cannot be read.
    pub cgroup: Option<cgroup::Reading>,
    pub threads: Vec<Times>,
}

/// All servers of the pod at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    pub unix_nanos: i64,
    /// The machine and the network, since they began.
    pub around: Around,
    /// Every server, in the order of their ports; `None` while it is not found.
    pub servers: Vec<Option<ServerSample>>,
}

impl Sample {
    fn readings(&self) -> usize {
        let cpus = self.around.host.as_ref().map_or(0, |host| host.cpus.len());
        cpus + self.servers.iter().flatten().map(|server| server.threads.len()).sum::<usize>()
    }
}

#[derive(Debug)]
pub struct Samples {
    taken: Vec<Sample>,
    /// How long after one sample the next is due.
    pub interval: Duration,
    readings: usize,
}

impl Default for Samples {
    fn default() -> Self {
        Self { taken: Vec::new(), interval: INTERVAL, readings: 0 }
    }
}

impl Samples {
    /// Stores a sample, and only every other one when there are too many.
    pub fn push(&mut self, sample: Sample) {
        self.readings += sample.readings();
        self.taken.push(sample);
        if self.taken.len() > MOST_SAMPLES || self.readings > MOST_READINGS {
            let mut index = 0;
            self.taken.retain(|_| {
                index += 1;
                index % 2 == 1
            });
            self.readings = self.taken.iter().map(Sample::readings).sum();
            self.interval *= 2;
        }
    }

    /// What each server used in `window`, named by its port.
    pub fn usage(&self, ports: &[u16], window: &UsageWindow) -> Result<Vec<ServerUsage>, WindowError> {
        let inside = self.range(window).ok_or(WindowError::Outside { samples: self.taken.len() })?;
        let of = |(index, port): (usize, &u16)| {
            let server = of_server(inside, index, *port)?;
            Ok(ServerUsage { server: port.to_string(), node: None, usage: server })
        };
        ports.iter().enumerate().map(of).collect()
    }

    /// The samples in the window if these cover most of it: samples around it contain no
    /// load, and would make a busy thread look less so. Else the samples around it.
    fn range(&self, window: &UsageWindow) -> Option<&[Sample]> {
        let (from, to) = (window.from_unix_nanos, window.to_unix_nanos);
        let first = self.taken.partition_point(|sample| sample.unix_nanos < from);
        let end = self.taken.partition_point(|sample| sample.unix_nanos <= to);
        let inside = self.taken.get(first..end)?;
        if length(inside) >= seconds(to.saturating_sub(from)) / 2.0 && inside.len() > 1 {
            return Some(inside);
        }
        // Samples far from a window do not describe it.
        self.taken.get(first.checked_sub(1)?..=end)
    }
}

/// From the first sample to the last one, in seconds.
fn length(samples: &[Sample]) -> f64 {
    let at = |sample: Option<&Sample>| sample.map_or(0, |sample| sample.unix_nanos);
    seconds(at(samples.last()).saturating_sub(at(samples.first())))
}

/// What the server with this index used from the first sample to the last.
fn of_server(samples: &[Sample], index: usize, port: u16) -> Result<ContainerUsage, WindowError> {
    let found = samples.iter().filter_map(|sample| sample.servers.get(index)?.as_ref());
    let sampled: Vec<&ServerSample> = found.collect();
    let (Some(first), Some(last)) = (sampled.first(), sampled.last()) else {
        return Err(WindowError::NotFound(port));
    };
    if first.process != last.process || sampled.len() < samples.len() {
        return Err(WindowError::Restarted(port));
    }
    let length = length(samples);
    let threads = threads(&sampled, length);
    let container = match (&first.cgroup, &last.cgroup) {
        (Some(before), Some(after)) => cgroup::usage_between(before, after),
        _ => ContainerUsage {
            cpu_seconds: threads.iter().map(|thread| thread.cpu_seconds).sum(),
            ..ContainerUsage::default()
        },
    };
    let busy = threads.into_iter().filter(|thread| thread.cpu_seconds >= IDLE * length).collect();
    let used = ContainerUsage { seconds: length, threads: busiest(busy, MOST_THREADS), ..container };
    let ends = samples.first().zip(samples.last());
    Ok(ends.map_or_else(ContainerUsage::default, |(from, to)| to.around.since(&from.around, used)))
}

/// What every thread used. One that began or ended in between counts with what it did.
fn threads(sampled: &[&ServerSample], length: f64) -> Vec<ThreadUsage> {
    let first = sampled.first().map_or(&[][..], |server| &server.threads);
    let before: HashMap<i32, &Times> = first.iter().map(|times| (times.id, times)).collect();
    let last: HashMap<i32, &Times> =
        sampled.iter().flat_map(|server| &server.threads).map(|times| (times.id, times)).collect();
    let used = last.values().map(|times| times.since(before.get(&times.id).copied()));
    // One without an earlier sample may be older than the window.
    used.map(|thread| ThreadUsage { cpu_seconds: thread.cpu_seconds.min(length), ..thread }).collect()
}

#[cfg(test)]
mod tests;
