//! Where servers and clients ran, and what ran there.

use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// The source of a node's placement group, the most trustworthy first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum GroupEvidence {
    /// The label `karpenter.k8s.aws/placement-group-id`, which Karpenter writes.
    KarpenterLabel,
    /// The label `dragstrip.dev/placement-group`, which people write.
    Label,
}

/// What one source says about a node's placement group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GroupRecord {
    pub evidence: GroupEvidence,
    /// The group; absent if the node is in none.
    pub group: Option<String>,
}

/// The CPUs that a server's or client's container may run on, as seen from inside.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CpuSetRecord {
    pub pod: String,
    pub node: Option<String>,
    /// Whether it is a server of the target, else a client.
    pub serves: bool,
    /// The CPUs, as a kernel list such as 2-5.
    pub cpus: String,
    /// Online CPUs of the machine; 0 if unknown.
    pub online: u32,
    /// Whole CPUs that the container requests and is limited to, for which a static CPU
    /// manager gives it CPUs of its own; absent if it requests no whole CPUs.
    pub whole_cpus: Option<u32>,
}

/// A node of clients or servers, as Kubernetes knows it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeRecord {
    pub name: String,
    pub serves: bool,
    pub loads: bool,
    pub zone: Option<String>,
    pub placement_group: Option<String>,
    pub instance_type: Option<String>,
    /// Its architecture, such as arm64.
    pub architecture: Option<String>,
    pub kernel: Option<String>,
    /// Identifies the start of its machine: two nodes with one are one machine.
    pub boot_id: Option<String>,
    /// What each source says about its placement group.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<GroupRecord>,
    /// Its place in EC2's network by its labels, the widest layer first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub network_layers: Vec<String>,
    /// CPU that it has for pods, in thousandths.
    pub allocatable_millicpus: Option<u64>,
    /// Baseline bandwidth of its network in megabits per second, by Karpenter or its instance type.
    pub network_megabits_per_second: Option<u64>,
}

impl NodeRecord {
    /// The machine of the node: what several nodes run on (kind) is one.
    pub fn machine(&self) -> &str {
        self.boot_id.as_deref().unwrap_or(&self.name)
    }
}

/// What ran in the pods of servers and clients.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EnvironmentRecord {
    /// Images of the servers' pods, by digest.
    #[serde(default)]
    pub server_images: BTreeSet<String>,
    /// Command line of the first server.
    #[serde(default)]
    pub server_command: Vec<String>,
    /// Digest of what the Datastore declares besides its place, its image and its threads.
    pub server_declaration: Option<String>,
    /// Images of the client pods, by digest.
    #[serde(default)]
    pub client_images: BTreeSet<String>,
    /// Whether servers use the network of their node.
    #[serde(default)]
    pub server_host_network: bool,
    /// Whether clients use the network of their node.
    #[serde(default)]
    pub client_host_network: bool,
}
