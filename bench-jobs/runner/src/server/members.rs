//! The servers behind a target: the shards of a cluster, a primary and its
//! replicas, or the one server. Finds them, makes sure of each, and asks what
//! each has counted. Touches the network.

use crate::server::{
    access::Access,
    connection::{ANSWER_TIMEOUT, ClusterNode, Server, ServerError},
    info::Info,
    preflight::PreflightError,
    resolve,
};
use dragstrip_crds::observed::ServerTruth;
use dragstrip_results::{
    counters::summed,
    memory::MemberMemory,
    observed::{ServerCounters, is_another},
    protocol::{JobMember, JobTarget},
    result::ShardRecord,
};
use std::net::SocketAddr;
use tokio::task::JoinSet;

/// Slots of every cluster.
const SLOTS: u64 = 16384;
/// Commands that a client sends to replicas. Everything else that a replica
/// counts is what its primary passes on.
const REPLICA_READS: [&str; 3] = ["get", "mget", "exists"];

/// What a server of the target has to do with the load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The load goes to it.
    Loaded,
    /// Only reads go to it.
    Read,
    /// It is no part of the load, and must only stay the same.
    Watched,
}

/// One server of the target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// host:port, as declared or as the cluster names it.
    pub name: String,
    /// Its address.
    pub address: SocketAddr,
    /// Identifies its process.
    pub run_id: String,
    /// Whether it only follows a primary.
    pub replica: bool,
}

impl Member {
    /// What it has to do with a load, of which reads may go to replicas.
    fn part(&self, replica_reads: bool) -> Part {
        match (self.replica, replica_reads) {
            (false, _) => Part::Loaded,
            (true, true) => Part::Read,
            (true, false) => Part::Watched,
        }
    }
}

/// The memory of all `members`; of one that does not answer why.
pub async fn memory(access: &Access, members: &[Member]) -> Vec<MemberMemory> {
    let mut all = Vec::with_capacity(members.len());
    for member in members {
        let asked = async {
            let mut server = Server::connect(member.address, access, ANSWER_TIMEOUT).await?;
            server.memory().await
        };
        let told = asked.await.unwrap_or_else(|error: ServerError| MemberMemory {
            unread: Some(error.to_string()),
            ..MemberMemory::default()
        });
        all.push(MemberMemory { server: member.name.clone(), ..told });
    }
    all
}

/// A member before it was asked anything.
struct Candidate {
    name: String,
    host: String,
    port: u16,
    verified: Option<String>,
}

impl From<&JobMember> for Candidate {
    fn from(member: &JobMember) -> Self {
        Self {
            name: format!("{}:{}", member.host, member.port),
            host: member.host.clone(),
            port: member.port,
            verified: member.run_id.clone(),
        }
    }
}

/// Finds the servers of a target, of which `seed` at `address` was reached and
/// said `truth`, and makes sure of each.
pub async fn find(
    target: &JobTarget,
    access: &Access,
    address: SocketAddr,
    seed: &mut Server,
    truth: &ServerTruth,
    replicas: bool,
) -> Result<Vec<Member>, PreflightError> {
    let name = format!("{}:{}", target.host, target.port);
    let candidates: Vec<Candidate> = if !target.members.is_empty() {
        target.members.iter().map(Candidate::from).collect()
    } else if target.cluster {
        let refused = |source| PreflightError::Ask { target: name.clone(), source };
        let nodes = seed.cluster_nodes().await.map_err(refused)?;
        nodes.into_iter().filter(|node| replicas || !node.replica).map(|n| named(n, address)).collect()
    } else {
        let run_id = truth.run_id.clone();
        return Ok(vec![Member { name, address, run_id, replica: is_replica(truth) }]);
    };
    let mut members = Vec::with_capacity(candidates.len());
    for candidate in candidates {
        members.push(make_sure(candidate, target, access).await?);
    }
    Ok(members)
}

/// A node that does not know its own name is the one that was asked.
fn named(node: ClusterNode, seed: SocketAddr) -> Candidate {
    let host = if node.host.is_empty() { seed.ip().to_string() } else { node.host };
    Candidate { name: format!("{host}:{}", node.port), host, port: node.port, verified: None }
}

fn is_replica(truth: &ServerTruth) -> bool {
    matches!(truth.role.as_deref(), Some("slave" | "replica"))
}

/// The member, reached and the one that was verified.
async fn make_sure(
    candidate: Candidate,
    target: &JobTarget,
    access: &Access,
) -> Result<Member, PreflightError> {
    let Candidate { name, host, port, verified } = candidate;
    let unresolved = |source| PreflightError::Resolve { target: name.clone(), source };
    let addresses = resolve::resolve(&host, port).await;
    let addresses = addresses.and_then(|found| resolve::unblocked(found, &target.blocked));
    let addresses = addresses.map_err(unresolved)?;
    let address = *addresses.first().ok_or_else(|| unresolved(resolve::ResolveError::NoAddress))?;
    let refused = |source| PreflightError::Member { member: name.clone(), source };
    let mut server = Server::connect(address, access, ANSWER_TIMEOUT).await.map_err(refused)?;
    let truth = server.truth().await.map_err(refused)?;
    if truth.loading {
        return Err(PreflightError::Loading(name));
    }
    if let Some(verified) = verified.filter(|verified| is_another(verified, &truth.run_id)) {
        return Err(PreflightError::Replaced { target: name, verified, actual: truth.run_id });
    }
    if target.cluster {
        let info = server.cluster_info().await.map_err(refused)?;
        whole(&info).map_err(|what| PreflightError::Incomplete { member: name.clone(), what })?;
    }
    Ok(Member { name, address, run_id: truth.run_id.clone(), replica: is_replica(&truth) })
}

/// Whether a node's cluster serves every slot.
fn whole(info: &Info) -> Result<(), String> {
    let state = info.text("cluster_state").unwrap_or("unknown");
    let number = |name| info.number::<u64>(name);
    let assigned = number("cluster_slots_assigned").unwrap_or_default();
    let fine = number("cluster_slots_ok").unwrap_or(assigned);
    if state != "ok" {
        return Err(format!("cluster_state is {state} with {fine} of {SLOTS} slots served"));
    }
    if assigned != SLOTS || fine != SLOTS {
        return Err(format!("{assigned} of {SLOTS} slots are assigned, {fine} are served"));
    }
    Ok(())
}

/// What every member has counted, in the members' order.
#[derive(Debug, Clone, PartialEq)]
pub struct Look(pub Vec<ServerCounters>);

/// Why a member could not be asked.
#[derive(Debug, thiserror::Error)]
#[error("{member}: {reason}")]
pub struct LookError {
    /// Which.
    pub member: String,
    /// Why not.
    pub reason: String,
}

/// Asks all members at once.
pub async fn look(access: &Access, members: &[Member]) -> Result<Look, LookError> {
    let mut asked = JoinSet::new();
    for (position, member) in members.iter().enumerate() {
        let (access, address) = (access.clone(), member.address);
        asked.spawn(async move { (position, counters(address, &access).await) });
    }
    let mut answers = vec![ServerCounters::default(); members.len()];
    while let Some(ended) = asked.join_next().await {
        let named = |position: usize| members.get(position).map(|m| m.name.clone()).unwrap_or_default();
        let (position, answer) =
            ended.map_err(|e| LookError { member: "a member".to_owned(), reason: e.to_string() })?;
        let counters = answer.map_err(|e| LookError { member: named(position), reason: e.to_string() })?;
        if let Some(place) = answers.get_mut(position) {
            *place = counters;
        }
    }
    Ok(Look(answers))
}

async fn counters(address: SocketAddr, access: &Access) -> Result<ServerCounters, ServerError> {
    Server::connect(address, access, ANSWER_TIMEOUT).await?.counters().await
}

impl Look {
    /// What the load's servers counted together.
    pub fn sum(&self, members: &[Member], replica_reads: bool) -> ServerCounters {
        let counted: Vec<_> = members
            .iter()
            .zip(&self.0)
            .filter_map(|(member, counters)| match member.part(replica_reads) {
                Part::Loaded => Some(counters.clone()),
                Part::Read => Some(reads_of(counters)),
                Part::Watched => None,
            })
            .collect();
        summed(&counted)
    }
}

/// What a replica counted for clients. Its total holds what its primary passed
/// on, and is left out as 0.
fn reads_of(counters: &ServerCounters) -> ServerCounters {
    let mut reads = counters.clone();
    reads.commands.retain(|command, _| REPLICA_READS.contains(&command.as_str()));
    reads.commands_processed = reads.commands_processed.map(|_| 0);
    reads
}

/// Shard by shard, for a record; nothing for a single server.
pub fn shards(members: &[Member], before: &Look, after: Option<&Look>) -> Vec<ShardRecord> {
    if members.len() < 2 {
        return Vec::new();
    }
    members
        .iter()
        .zip(&before.0)
        .enumerate()
        .map(|(position, (member, before))| ShardRecord {
            address: member.name.clone(),
            before: before.clone(),
            after: after.and_then(|look| look.0.get(position)).cloned(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use dragstrip_results::observed::CommandCounter;

    fn member(port: u16, replica: bool) -> Member {
        Member {
            name: format!("db:{port}"),
            address: SocketAddr::from(([127, 0, 0, 1], port)),
            run_id: port.to_string(),
            replica,
        }
    }

    fn counted(commands: &[(&str, u64)]) -> ServerCounters {
        let counter = |calls| CommandCounter { calls, failed: 0, rejected: 0 };
        ServerCounters {
            commands: commands.iter().map(|(name, calls)| ((*name).to_owned(), counter(*calls))).collect(),
            commands_processed: Some(commands.iter().map(|(_, calls)| calls).sum()),
            ..ServerCounters::default()
        }
    }

    fn verdict(info: &str) -> String {
        whole(&Info::parse(info)).err().unwrap_or_else(|| "fine".to_owned())
    }

    #[test]
    fn a_cluster_must_serve_every_slot() {
        let ok = "cluster_state:ok\r\ncluster_slots_assigned:16384\r\ncluster_slots_ok:16384";
        assert_eq!(verdict(ok), "fine");
        assert_eq!(verdict("cluster_state:ok\ncluster_slots_assigned:16384"), "fine");
        let message = verdict("cluster_state:fail\ncluster_slots_assigned:5\ncluster_slots_ok:5");
        assert_eq!(message, "cluster_state is fail with 5 of 16384 slots served");
        let message = verdict("cluster_state:ok\ncluster_slots_assigned:16384\ncluster_slots_ok:100");
        assert_eq!(message, "16384 of 16384 slots are assigned, 100 are served");
        assert!(verdict("").contains("cluster_state is unknown"));
    }

    #[test]
    fn replicas_count_only_where_reads_go_to_them() {
        let members = [member(1, false), member(2, true)];
        let look = Look(vec![counted(&[("get", 10), ("set", 5)]), counted(&[("get", 7), ("set", 5)])]);
        let sum = look.sum(&members, false);
        assert_eq!((sum.commands["get"].calls, sum.commands["set"].calls), (10, 5));
        let sum = look.sum(&members, true);
        assert_eq!((sum.commands["get"].calls, sum.commands["set"].calls), (17, 5));
        assert_eq!(sum.commands_processed, Some(15), "what a primary passes on was counted there already");
    }

    #[test]
    fn shards_are_recorded_one_by_one_only_where_there_are_several() {
        let members = [member(1, false), member(2, false)];
        let look = Look(vec![counted(&[("get", 1)]), counted(&[("get", 2)])]);
        assert!(shards(&members[..1], &Look(look.0[..1].to_vec()), None).is_empty());
        let records = shards(&members, &look, Some(&look));
        assert_eq!((records[1].address.as_str(), records[1].after.as_ref()), ("db:2", Some(&look.0[1])));
    }

    #[test]
    fn a_node_without_a_name_is_the_one_that_was_asked() {
        let node = ClusterNode { host: String::new(), port: 7000, replica: false };
        assert_eq!(named(node, "10.0.0.9:7001".parse().unwrap()).name, "10.0.0.9:7000");
    }
}
