//! CPUs and memory: what nodes have, what pods request, and which nodes a server may use. Pure.

use crate::nodes::{selected, server_tolerations, tolerated};
use dragstrip_crds::datastore::Placement;
use k8s_openapi::{
    api::core::v1::{Container, Node, Pod, Taint},
    apimachinery::pkg::api::resource::Quantity,
};
use std::{borrow::Borrow, collections::BTreeMap, fmt};

/// CPUs, and memory in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Room {
    pub cpus: f64,
    pub memory: f64,
}

impl fmt::Display for Room {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cpus = format!("{:.2}", self.cpus);
        let cpus = cpus.trim_end_matches('0').trim_end_matches('.');
        write!(f, "{cpus} CPUs and {:.0} MiB", self.memory / f64::from(1 << 20))
    }
}

impl Room {
    /// A quantity as Kubernetes writes it (250m, 2, 1.5Gi, 1e3) as a number.
    pub fn number(quantity: &Quantity) -> Option<f64> {
        let text = &quantity.0;
        // Rust also reads inf and NaN.
        if let Some(plain) = text.parse().ok().filter(|number: &f64| number.is_finite()) {
            return Some(plain);
        }
        let (number, unit) = text.split_at(text.find(|c: char| c.is_ascii_alphabetic())?);
        let power = |units: [&str; 6]| i32::try_from(units.iter().position(|it| *it == unit)? + 1).ok();
        let factor = match unit {
            "n" => 1e-9,
            "u" => 1e-6,
            "m" => 1e-3,
            _ => power(["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"]).map_or_else(
                || Some(1000_f64.powi(power(["k", "M", "G", "T", "P", "E"])?)),
                |power| Some(1024_f64.powi(power)),
            )?,
        };
        Some(number.parse::<f64>().ok()? * factor)
    }

    pub fn of(amounts: Option<&BTreeMap<String, Quantity>>) -> Self {
        let amount = |kind| amounts.and_then(|amounts| Self::number(amounts.get(kind)?)).unwrap_or(0.0);
        Self { cpus: amount("cpu"), memory: amount("memory") }
    }

    pub fn sum(parts: impl IntoIterator<Item = Self>) -> Self {
        parts.into_iter().fold(Self::default(), |sum, part| Self {
            cpus: sum.cpus + part.cpus,
            memory: sum.memory + part.memory,
        })
    }

    /// What `node` has for pods, including daemons.
    pub fn of_node(node: &Node) -> Self {
        Self::of(node.status.as_ref().and_then(|status| status.allocatable.as_ref()))
    }

    /// What `pod` requests: its containers and its sidecars.
    pub fn of_pod(pod: &Pod) -> Self {
        let requests = |container: &Container| {
            Self::of(container.resources.as_ref().and_then(|resources| resources.requests.as_ref()))
        };
        let spec = pod.spec.as_ref();
        let beside = spec
            .iter()
            .flat_map(|spec| spec.init_containers.iter().flatten())
            .filter(|container| container.restart_policy.is_some());
        Self::sum(spec.iter().flat_map(|spec| &spec.containers).chain(beside).map(requests))
    }

    /// Whether `other` fits. Sums of decimal fractions are not exact.
    pub fn holds(self, other: Self) -> bool {
        other.cpus <= self.cpus + 1e-6 && other.memory <= self.memory
    }
}

/// The taints of `node` that a server does not tolerate, without those that Kubernetes itself
/// sets: they come and go with the node's state.
pub fn taints<'a>(node: &'a Node, placement: &Placement) -> Vec<&'a Taint> {
    let tolerations = server_tolerations(placement);
    let all = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    all.filter(|taint| !taint.key.starts_with("node.kubernetes.io/") && !tolerated(taint, &tolerations))
        .collect()
}

/// The nodes that `placement` selects and whose taints a server tolerates.
pub fn open<'a, N: Borrow<Node>>(nodes: &'a [N], placement: &Placement) -> Vec<&'a Node> {
    let nodes = nodes.iter().map(Borrow::borrow);
    nodes.filter(|node| selected(node, placement) && taints(node, placement).is_empty()).collect()
}

/// Most CPUs of a node on which `placement` allows a server; `None` without such a node.
pub fn most_cpus<N: Borrow<Node>>(nodes: &[N], placement: &Placement) -> Option<f64> {
    largest(&open(nodes, placement).into_iter().map(Room::of_node).collect::<Vec<_>>())
}

pub fn largest(rooms: &[Room]) -> Option<f64> {
    rooms.iter().map(|room| room.cpus).max_by(f64::total_cmp)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_read_as_kubernetes_writes_them() {
        for (text, number) in [
            ("2", 2.0),
            ("250m", 0.25),
            ("1.5Gi", 1_610_612_736.0),
            ("3k", 3000.0),
            ("2M", 2e6),
            ("1e3", 1e3),
        ] {
            assert_eq!(Room::number(&Quantity(text.to_owned())), Some(number), "{text}");
        }
        for text in ["1 elephant", "1gi", "1K", "5i", "inf", "NaN", "", "m", "1e"] {
            assert_eq!(Room::number(&Quantity(text.to_owned())), None, "Kubernetes cannot read {text:?}");
        }
    }
}
