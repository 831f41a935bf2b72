//! What a container and its machine used while a load ran: the evidence of what
//! limited it, and of who disturbed it. Counters are differences over a window.

use crate::measured::observed::CgroupUsage;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use std::collections::BTreeMap;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ThreadUsage {
    /// Its name, as the kernel has it.
    pub name: String,
    pub cpu_seconds: f64,
    /// Time in which it was ready to run and had no CPU, in seconds; 0 if the kernel does not report it.
    #[serde(default)]
    pub waiting_seconds: f64,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AllowedCpus {
    /// Them, as a kernel list such as 0-3.
    pub list: String,
    /// How many of them are online.
    pub cpus: u32,
    /// CPU time of processes on them, whosever they are, in seconds.
    pub busy_seconds: f64,
    /// Time on them that the hypervisor gave to others, in seconds.
    pub steal_seconds: f64,
}

/// The CPU of a machine that spent the most time in interrupts.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InterruptedCpu {
    pub cpu: u32,
    pub interrupt_seconds: f64,
    /// CPU time of processes on it, in seconds.
    pub busy_seconds: f64,
}

/// All CPUs of a machine, as `/proc/stat` has them.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HostUsage {
    /// Online CPUs.
    pub cpus: u32,
    /// Their model; absent if the kernel does not report it.
    pub cpu_model: Option<String>,
    /// CPU time of processes, in the kernel and out of it, in seconds over all CPUs.
    pub busy_seconds: f64,
    /// CPU time of interrupts, which no container is charged with, in seconds over all CPUs.
    pub interrupt_seconds: f64,
    /// Time that the hypervisor gave to others, in seconds over all CPUs.
    pub steal_seconds: f64,
    /// Lowest and highest clock rate of its CPUs, in MHz; absent if the kernel does not report it.
    pub megahertz: Option<[f64; 2]>,
    /// Those that the container may use; absent if they are not known.
    pub allowed: Option<AllowedCpus>,
    pub most_interrupted: Option<InterruptedCpu>,
    /// Settings of the kernel and the CPUs that change performance, by name, such as governor.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NetworkUsage {
    pub received_bytes: u64,
    pub sent_bytes: u64,
    pub sent_segments: u64,
    /// TCP segments sent again.
    pub retransmitted_segments: u64,
}

/// What the network alone takes from this pod to the server's and back: TCP's
/// handshake, which the kernels make without the programs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RoundTrip {
    /// How often it was measured while the load ran.
    pub samples: u32,
    /// Tries without an answer.
    pub failed: u32,
    pub median_milliseconds: f64,
}

/// What a container used while a load ran, and what went on around it.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContainerUsage {
    /// Length of the window that all of this is of, in seconds; 0 where it is not known.
    #[serde(default)]
    pub seconds: f64,
    pub cpu_seconds: f64,
    /// Time held back by its CPU limit, in seconds.
    pub throttled_seconds: f64,
    pub throttled_periods: u64,
    /// Time in which a process of it was ready and had no CPU, as the machine's pressure; absent if the
    /// kernel does not report it by cgroup.
    pub cpu_pressure_seconds: Option<f64>,
    /// Its CPU limit, in CPUs; absent without one.
    pub cpu_limit: Option<f64>,
    /// Page faults for which the disk had to be read.
    #[serde(default)]
    pub major_page_faults: u64,
    /// By how much its memory in swap grew, in bytes.
    #[serde(default)]
    pub swapped_bytes: u64,
    /// The threads of its server or tool, the busiest first; empty where they were not
    /// sampled: our own tools report their threads themselves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub threads: Vec<ThreadUsage>,
    pub host: Option<HostUsage>,
    pub network: Option<NetworkUsage>,
    /// The way to the server's pod, measured by clients of a Datastore.
    pub round_trip: Option<RoundTrip>,
    /// The cgroup at the end.
    pub cgroup: Option<CgroupUsage>,
}

/// What one server's container used while a load ran.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServerUsage {
    /// The server's name: its pod, with the port where the pod runs several servers.
    pub server: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    pub usage: ContainerUsage,
}
