//! What the containers of a Datastore's pod request, declared or by default. Pure.

use super::{
    engines::{self, MIB, max_memory, threads},
    shape::Shape,
};
use crate::datastore::room::Room;
use dragstrip_crds::{DatastoreSpec, run::ClientsSpec};
use k8s_openapi::{api::core::v1::ResourceRequirements, apimachinery::pkg::api::resource::Quantity};
use std::collections::BTreeMap;

type Amounts = BTreeMap<String, Quantity>;

const OBSERVER_MILLI_CPUS: u64 = 50;
/// CPU that a client requests of an existing node by default, in thousandths: any number of
/// clients fits a node, which belongs to them anyway.
const CLIENT_MILLI_CPUS: u64 = 100;
/// Memory that a client requests by default: what a small tool needs.
const CLIENT_MEMORY: u64 = 64 * MIB;
/// Memory request and limit of a client with exclusive CPUs by default.
const EXCLUSIVE_CLIENT_MEMORY: u64 = 512 * MIB;
/// What is added to that for each load thread.
const EXCLUSIVE_THREAD_MEMORY: u64 = 256 * MIB;
/// What the daemons of a usual cluster (network, proxy, logs) request on every
/// node, in thousandths of a CPU. If they request more, a server with exclusive CPUs may stay
/// Pending, and its condition says so.
const DAEMONS_MILLI_CPUS: u64 = 250;
/// See [`DAEMONS_MILLI_CPUS`].
pub const DAEMONS: Room = Room { cpus: 0.25, memory: 0.0 };

fn amounts(milli_cpus: u64, memory: u64) -> Amounts {
    let cpu = if milli_cpus.is_multiple_of(1000) {
        (milli_cpus / 1000).to_string()
    } else {
        format!("{milli_cpus}m")
    };
    let memory = format!("{}Mi", memory.div_ceil(MIB));
    [("cpu".to_owned(), Quantity(cpu)), ("memory".to_owned(), Quantity(memory))].into()
}

/// One CPU less, and at least half: threads that equal a node's CPUs leave room for daemons.
fn but_one(milli_cpus: u64) -> u64 {
    milli_cpus - (milli_cpus / 2).min(1000)
}

/// The resources of the observer and of the container that installs the runner. Requests equal
/// limits: otherwise the pod would not be Guaranteed.
pub fn of_helper() -> ResourceRequirements {
    let amounts = amounts(OBSERVER_MILLI_CPUS, 64 * MIB);
    ResourceRequirements {
        requests: Some(amounts.clone()),
        limits: Some(amounts),
        ..ResourceRequirements::default()
    }
}

/// What the default requests of a run's clients depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientNeeds {
    /// Most load threads that any phase has in one client pod; 1 if they are unknown.
    pub threads: u64,
    /// Whether nodes exist for them. Otherwise an autoscaler adds one that fits their requests.
    pub placed: bool,
}

/// What clients with exclusive CPUs request by default.
fn exclusive_client(threads: u64) -> Amounts {
    amounts(1000 * threads, EXCLUSIVE_CLIENT_MEMORY + threads * EXCLUSIVE_THREAD_MEMORY)
}

/// Which of `resources`, which stand in `field`, Kubernetes cannot read: it would not name the field.
pub fn unreadable(resources: Option<&ResourceRequirements>, field: &str) -> Option<String> {
    let sides = resources.map(|it| [("requests", &it.requests), ("limits", &it.limits)]);
    sides.into_iter().flatten().find_map(|(side, amounts)| {
        let (kind, amount) = amounts.iter().flatten().find(|(_, amount)| Room::number(amount).is_none())?;
        let problem = "is not an amount: write a number with a unit, such as 4, 500m or 2Gi";
        Some(format!("{field}.{side}.{kind} is {:?}, which {problem}", amount.0))
    })
}

/// Why `resources`, which stand in `field`, rule out exclusive CPUs, with the remedy.
pub fn not_exclusive(resources: &ResourceRequirements, field: &str) -> Option<String> {
    let amount = |amounts: &Option<Amounts>, kind: &str| amounts.as_ref()?.get(kind).cloned();
    let sides = [("requests", &resources.requests), ("limits", &resources.limits)];
    for (side, amounts) in sides {
        if let Some(cpus) =
            amount(amounts, "cpu").filter(|cpus| Room::number(cpus).is_none_or(|n| n.fract() != 0.0))
        {
            return Some(format!(
                "{field}.{side}.cpu is {}: exclusive CPUs (cpu.exclusive) must be whole numbers, such as 4",
                cpus.0
            ));
        }
    }
    ["cpu", "memory"].into_iter().find_map(|kind| {
        let (request, limit) = (amount(&resources.requests, kind)?, amount(&resources.limits, kind)?);
        (Room::number(&request) != Room::number(&limit)).then(|| {
            format!(
                "{field}.requests.{kind} is {} and {field}.limits.{kind} {}: with cpu.exclusive they must be equal, so leave one of them out",
                request.0, limit.0
            )
        })
    })
}

/// Sets requests equal to limits: the declared amount of each kind, else that of `kinds`.
fn equal(mut resources: ResourceRequirements, kinds: Amounts) -> ResourceRequirements {
    let requests = resources.requests.get_or_insert_default();
    let limits = resources.limits.get_or_insert_default();
    for (kind, amount) in kinds {
        let declared = limits.get(&kind).or_else(|| requests.get(&kind)).cloned().unwrap_or(amount);
        requests.insert(kind.clone(), declared.clone());
        limits.insert(kind, declared);
    }
    resources
}

/// The resources of a run's clients, with default requests for what `clients` declare neither as
/// request nor as limit. Without a request clients would be the first to lose
/// CPU and memory on a busy node, and an autoscaler would add a small one. They get no
/// limit, unless their CPUs are exclusive: the client must be stronger than the server, and
/// only its author knows what a tool needs.
pub fn of_client(clients: &ClientsSpec, needs: ClientNeeds) -> ResourceRequirements {
    let mut resources = clients.resources.clone().unwrap_or_default();
    if clients.cpu.exclusive {
        return equal(resources, exclusive_client(needs.threads));
    }
    let cpus = if needs.placed { CLIENT_MILLI_CPUS } else { but_one(1000 * needs.threads) };
    for (kind, amount) in amounts(cpus, CLIENT_MEMORY) {
        if !resources.limits.as_ref().is_some_and(|limits| limits.contains_key(&kind)) {
            resources.requests.get_or_insert_default().entry(kind).or_insert(amount);
        }
    }
    resources
}

/// Memory that a server with `maxMemory` needs, in bytes.
pub fn needed_memory(spec: &DatastoreSpec) -> u64 {
    max_memory(spec).saturating_add(engines::rules(spec.engine).memory_overhead(spec))
}

/// Whole CPUs for every thread, requests equal to limits, if the node with `most_cpus` has room
/// for them or the declaration demands it: a static CPU manager then gives the server exclusive
/// CPUs. Otherwise the pod requests one CPU less, with the same limit: daemons use a part of every
/// node, and threads that equal a node's CPUs could never be scheduled.
fn default_resources(spec: &DatastoreSpec, most_cpus: Option<f64>) -> ResourceRequirements {
    let servers = u64::from(Shape::of(spec).servers_per_pod());
    let all = servers.saturating_mul(threads(spec)).saturating_mul(1000);
    let beside = OBSERVER_MILLI_CPUS + DAEMONS_MILLI_CPUS;
    let fits = |cpus: f64| all.saturating_add(beside) as f64 <= cpus * 1000.0;
    let exclusive = spec.cpu.exclusive || most_cpus.is_some_and(fits);
    let requested = if exclusive { all } else { but_one(all) };
    let limits = amounts(all / servers, needed_memory(spec));
    let requests = amounts(requested / servers, needed_memory(spec));
    ResourceRequirements { requests: Some(requests), limits: Some(limits), ..ResourceRequirements::default() }
}

/// The larger of two amounts; `other` if `amount` cannot be read.
fn larger(amount: &Quantity, other: &Quantity) -> Quantity {
    let smaller = Room::number(amount) < Room::number(other);
    if smaller { other.clone() } else { amount.clone() }
}

/// The server container's resources: `spec.resources` with defaults,
/// so that every container has requests and limits of both kinds. `most_cpus` are
/// those of the largest node that it may use, if one exists.
pub fn of_server(spec: &DatastoreSpec, most_cpus: Option<f64>) -> ResourceRequirements {
    let default = default_resources(spec, most_cpus);
    let mut resources = spec.resources.clone().unwrap_or_default();
    if spec.cpu.exclusive {
        return equal(resources, default.limits.unwrap_or_default());
    }
    let requests = resources.requests.get_or_insert_default();
    let limits = resources.limits.get_or_insert_default();
    for (kind, limit) in default.limits.unwrap_or_default() {
        let request = default.requests.as_ref().and_then(|requests| requests.get(&kind)).unwrap_or(&limit);
        let declared = requests.get(&kind).cloned();
        requests
            .entry(kind.clone())
            .or_insert_with(|| limits.get(&kind).cloned().unwrap_or_else(|| request.clone()));
        limits
            .entry(kind)
            .or_insert_with(|| declared.map_or_else(|| limit.clone(), |declared| larger(&declared, &limit)));
    }
    resources
}

/// What all containers of the pod of `spec` request.
pub fn of_pod(spec: &DatastoreSpec, most_cpus: Option<f64>) -> Room {
    let server = Room::of(of_server(spec, most_cpus).requests.as_ref());
    let servers = Room::sum(std::iter::repeat_n(server, usize::from(Shape::of(spec).servers_per_pod())));
    Room::sum([servers, Room::of(of_helper().requests.as_ref())])
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// CPU requests, CPU limits, memory requests and memory limits.
    fn texts(spec: Value, most_cpus: Option<f64>) -> [String; 4] {
        let spec = serde_json::from_value(spec).unwrap();
        let found = of_server(&spec, most_cpus);
        let text = |amounts: &Option<Amounts>, kind: &str| amounts.as_ref().unwrap()[kind].0.clone();
        [
            text(&found.requests, "cpu"),
            text(&found.limits, "cpu"),
            text(&found.requests, "memory"),
            text(&found.limits, "memory"),
        ]
    }

    fn cpus(threads: i32, most_cpus: Option<f64>) -> [String; 2] {
        let [request, limit, ..] = texts(json!({"engine": "Redis", "threads": threads}), most_cpus);
        [request, limit]
    }

    #[test]
    fn whole_cpus_are_requested_where_a_node_has_room_for_them() {
        assert_eq!(cpus(48, Some(63.77)), ["48", "48"]);
        assert_eq!(cpus(1, Some(1.9)), ["1", "1"]);
    }

    #[test]
    fn threads_that_equal_a_nodes_cpus_leave_room_for_its_daemons() {
        for (threads, allocatable) in [(48, 47.81), (8, 7.91), (2, 1.93), (1, 0.94)] {
            let spec = serde_json::from_value(json!({"engine": "Redis", "threads": threads})).unwrap();
            let pod = of_pod(&spec, Some(allocatable));
            let room = Room { cpus: allocatable, memory: 1e11 };
            assert!(
                room.holds(Room::sum([pod, DAEMONS])),
                "{threads} threads request {pod:?} of {room:?} and leave nothing to daemons"
            );
        }
        assert_eq!(cpus(48, Some(47.81)), ["47", "48"]);
        assert_eq!(cpus(8, Some(7.91)), ["7", "8"]);
        assert_eq!(cpus(1, Some(0.94)), ["500m", "1"]);
    }

    #[test]
    fn where_there_is_no_node_yet_any_node_with_as_many_cpus_will_do() {
        assert_eq!(cpus(48, None), ["47", "48"]);
    }

    #[test]
    fn the_shards_of_one_pod_share_what_is_left_to_daemons() {
        let spec = json!({"engine": "Redis", "threads": 1, "cluster": {"shards": 8}});
        let [request, limit, ..] = texts(spec.clone(), Some(7.91));
        assert_eq!([request.as_str(), limit.as_str()], ["875m", "1"]);
        let [request, limit, ..] = texts(spec, Some(9.0));
        assert_eq!([request.as_str(), limit.as_str()], ["1", "1"]);
    }

    #[test]
    fn exclusive_cpus_are_whole_and_requests_equal_limits_on_every_node() {
        let own = |more: Value| {
            let mut spec =
                json!({"engine": "Redis", "threads": 2, "maxMemory": "1Gi", "cpu": {"exclusive": true}});
            spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            spec
        };
        for most_cpus in [None, Some(1.9), Some(64.0)] {
            assert_eq!(texts(own(json!({})), most_cpus), ["2", "2", "1104Mi", "1104Mi"]);
        }
        let declared = own(json!({"resources": {"requests": {"cpu": "4"}, "limits": {"memory": "2Gi"}}}));
        assert_eq!(texts(declared, None), ["4", "4", "2Gi", "2Gi"]);
        let shards = own(json!({"cluster": {"shards": 8}, "threads": 1}));
        assert_eq!(texts(shards, Some(7.91))[..2], ["1", "1"], "each shard has a CPU of its own");
    }

    #[test]
    fn resources_that_rule_out_exclusive_cpus_are_refused_with_the_remedy() {
        let reported = |resources: Value| {
            not_exclusive(&serde_json::from_value(resources).unwrap(), "spec.resources").unwrap_or_default()
        };
        assert_eq!(reported(json!({"requests": {"cpu": 4}, "limits": {"cpu": "4", "memory": "2Gi"}})), "");
        assert_eq!(reported(json!({"requests": {"memory": "2048Mi"}, "limits": {"memory": "2Gi"}})), "");
        for (resources, expected) in [
            (json!({"limits": {"cpu": "3500m"}}), "spec.resources.limits.cpu is 3500m"),
            (
                json!({"requests": {"cpu": "4"}, "limits": {"cpu": "8"}}),
                "requests.cpu is 4 and spec.resources.limits.cpu 8",
            ),
            (json!({"requests": {"memory": "1Gi"}, "limits": {"memory": "2Gi"}}), "leave one of them out"),
        ] {
            let found = reported(resources);
            assert!(found.contains(expected), "expected {expected:?}, got {found:?}");
        }
    }

    #[test]
    fn a_server_that_forks_to_write_its_data_has_room_for_a_copy_of_them() {
        let memory = |engine: &str, persistence: Value| {
            let spec =
                json!({"engine": engine, "threads": 2, "maxMemory": "1Gi", "persistence": persistence});
            let [.., limit] = texts(spec, Some(64.0));
            limit
        };
        assert_eq!(memory("Redis", json!({"appendOnly": true})), "2128Mi");
        assert_eq!(memory("KeyDB", json!({"snapshotInterval": "1m"})), "2128Mi");
        assert_eq!(memory("Valkey", json!({"appendOnly": false})), "1104Mi", "it writes nothing");
        assert_eq!(memory("Dragonfly", json!({"snapshotInterval": "1m"})), memory("Dragonfly", json!({})));
        assert_eq!(memory("Garnet", json!({"appendOnly": true})), "1696Mi", "128Mi are the file's buffer");
    }

    #[test]
    fn what_is_not_declared_is_filled_in() {
        let spec = |resources: Value| json!({"engine": "Redis", "threads": 2, "maxMemory": "1Gi", "resources": resources});
        let all = |resources| texts(spec(resources), Some(64.0));
        assert_eq!(all(json!({})), ["2", "2", "1104Mi", "1104Mi"]);
        assert_eq!(all(json!({"requests": {"cpu": "500m"}})), ["500m", "2", "1104Mi", "1104Mi"]);
        assert_eq!(all(json!({"requests": {"cpu": "3500m"}})), ["3500m", "3500m", "1104Mi", "1104Mi"]);
        assert_eq!(
            all(json!({"limits": {"memory": "2Gi"}, "requests": {"cpu": "1"}})),
            ["1", "2", "2Gi", "2Gi"]
        );
    }
}
