//! The machines of published benchmarks as nodes of EKS. Pure.

use serde_json::{Value, json};

/// A machine as a node: what its kubelet leaves for pods.
#[derive(Debug)]
pub struct Machine {
    /// The instance type.
    pub name: &'static str,
    /// For what deploy/eks has it.
    pub role: &'static str,
    cpus: u32,
    memory_mebibytes: u32,
    pods: u32,
}

const fn machine(
    name: &'static str,
    role: &'static str,
    cpus: u32,
    memory_mebibytes: u32,
    pods: u32,
) -> Machine {
    Machine { name, role, cpus, memory_mebibytes, pods }
}

/// vCPUs; allocatable memory and pods as Karpenter's reference of instance types has
/// them, which takes 7.5 % of the memory for the machine: real nodes have more.
pub const MACHINES: [Machine; 10] = [
    machine("c6gn.12xlarge", "server", 48, 87_943, 234),
    machine("c7gn.12xlarge", "server", 48, 87_943, 234),
    machine("c6in.12xlarge", "server", 48, 88_002, 234),
    machine("c7i.2xlarge", "server", 8, 14_162, 58),
    machine("c7i.4xlarge", "server", 16, 27_381, 234),
    machine("c7i.8xlarge", "server", 32, 57_691, 234),
    machine("m7i.12xlarge", "server", 48, 178_933, 234),
    machine("r6a.metal", "server", 192, 1_446_437, 737),
    machine("c7gn.16xlarge", "client", 64, 112_720, 737),
    machine("c7i.16xlarge", "client", 64, 112_779, 737),
];

/// What a kubelet keeps of a machine's CPUs.
#[derive(Debug, Clone, Copy)]
pub enum Reserved {
    /// As nodeadm has it.
    Usual,
    /// One CPU, as deploy/eks has it.
    OneCpu,
}

/// What nodeadm reserves, in thousandths of a CPU: 6 % of the first, 1 % of the
/// second, 0.5 % of the next two and 0.25 % of all others.
fn usual(cpus: u32) -> u32 {
    60 + 10 + 10 + (cpus - 4) * 5 / 2
}

impl Machine {
    /// Its CPUs, as AWS counts them.
    pub fn cpus(&self) -> u32 {
        self.cpus
    }

    /// CPUs that pods may request, in thousandths.
    pub fn allocatable(&self, reserved: Reserved) -> u32 {
        let reserve = match reserved {
            Reserved::Usual => usual(self.cpus),
            Reserved::OneCpu => 1000,
        };
        self.cpus * 1000 - reserve
    }

    /// The Node, ready, with labels and taint of deploy/eks.
    pub fn node(&self, reserved: Reserved) -> Value {
        let allocatable = json!({
            "cpu": format!("{}m", self.allocatable(reserved)),
            "memory": format!("{}Mi", self.memory_mebibytes), "pods": self.pods.to_string(),
        });
        json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": self.name.replace('.', "-"), "labels": {
                "kubernetes.io/hostname": self.name.replace('.', "-"),
                "node.kubernetes.io/instance-type": self.name,
                "topology.kubernetes.io/zone": "us-east-1a",
                "dragstrip.dev/role": self.role, "dragstrip.dev/placement-group": "dragstrip",
            }},
            "spec": {"taints": [{"key": "dragstrip.dev/role", "value": self.role, "effect": "NoSchedule"}]},
            "status": {
                "allocatable": allocatable, "capacity": allocatable,
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        })
    }

    /// A pod that requests what the daemons of EKS do on each node: aws-node 50m,
    /// kube-proxy 100m, ebs-csi-node 30m and 120 MiB.
    pub fn daemons(&self) -> Value {
        let node = self.name.replace('.', "-");
        json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("daemons-{node}")},
            "spec": {"nodeName": node, "tolerations": [{"operator": "Exists"}], "containers": [{
                "name": "daemons", "image": "daemons",
                "resources": {"requests": {"cpu": "180m", "memory": "120Mi"}},
            }]},
        })
    }
}

#[test]
fn allocatable_cpus_are_those_that_eks_gives() {
    let found: Vec<u32> = MACHINES.iter().map(|machine| machine.allocatable(Reserved::Usual)).collect();
    let expected = [47_810, 47_810, 47_810, 7_910, 15_890, 31_850, 47_810, 191_450, 63_770, 63_770];
    assert_eq!(found, expected, "Karpenter's reference");
}
