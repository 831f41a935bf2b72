//! The servers behind a target: the shards of a cluster, a primary and its
//! replicas, or the one server. Finds them, verifies each, and reads its counters.
//! Touches the network.

use crate::server::{
    access::Access,
    connection::{ANSWER_TIMEOUT, Server, ServerError},
    info::Info,
    nodes::ClusterNode,
    resolve::{self, ResolveError},
    slots::SLOTS,
};
use dragstrip_crds::observed::ServerTruth;
use dragstrip_results::{
    counters::joined,
    memory::MemberMemory,
    observed::ServerCounters,
    protocol::{JobMember, JobTarget},
    result::ShardRecord,
};
use futures::future::try_join_all;
use std::net::SocketAddr;

/// Commands that a client sends to replicas. Everything else that a replica
/// counts is what its primary passes on.
const REPLICA_READS: [&str; 3] = ["get", "mget", "exists"];

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// host:port, as declared or as the cluster names it.
    pub name: String,
    pub address: SocketAddr,
    pub run_id: String,
    /// Whether it only follows a primary.
    pub replica: bool,
}

/// A server of the target that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum MemberError {
    #[error("{member}, a server of the target: {source}. Check that its name exists")]
    Resolve { member: String, source: ResolveError },
    #[error(
        "{member}, a server of the target: {source}. Check that every member runs and lets this client in"
    )]
    Query { member: String, source: ServerError },
    #[error(
        "{0}: the server is still loading its data set. Wait until INFO shows loading:0, or start it empty"
    )]
    Loading(String),
    #[error(
        "{member}: the server was restarted or replaced before the load: verified was {verified}, now {actual} answers. Check why it does not stay up"
    )]
    Replaced { member: String, verified: String, actual: String },
    #[error("{member}: {what}. Wait until the cluster serves every slot, or repair it")]
    Incomplete { member: String, what: String },
}

/// Whether a server is ready, and the process that was `verified` where one was.
pub fn check_process(name: &str, truth: &ServerTruth, verified: Option<&str>) -> Result<(), MemberError> {
    let member = name.to_owned();
    if truth.loading {
        return Err(MemberError::Loading(member));
    }
    match verified.filter(|verified| *verified != truth.run_id) {
        Some(verified) => {
            let (verified, actual) = (verified.to_owned(), truth.run_id.clone());
            Err(MemberError::Replaced { member, verified, actual })
        }
        None => Ok(()),
    }
}

/// Finds the servers of a target, of which `seed` at `address` was reached and
/// reported `truth`, and verifies each.
pub async fn find(
    target: &JobTarget,
    access: &Access,
    address: SocketAddr,
    seed: &mut Server,
    truth: &ServerTruth,
    replicas: bool,
) -> Result<Vec<Member>, MemberError> {
    let name = format!("{}:{}", target.host, target.port);
    let candidates = if !target.members.is_empty() {
        target.members.clone()
    } else if target.cluster {
        let refused = |source| MemberError::Query { member: name, source };
        let nodes = seed.cluster_nodes().await.map_err(refused)?;
        let loaded = |node: &ClusterNode| {
            if node.replica { replicas && !node.failing } else { !node.slots.is_empty() }
        };
        nodes.into_iter().filter(loaded).map(|node| candidate(&node, address)).collect()
    } else {
        let run_id = truth.run_id.clone();
        return Ok(vec![Member { name, address, run_id, replica: is_replica(truth) }]);
    };
    let mut members = Vec::with_capacity(candidates.len());
    for candidate in &candidates {
        members.push(verify(candidate, target, access).await?);
    }
    Ok(members)
}

/// A node that does not know its own address is the one that was queried.
fn candidate(node: &ClusterNode, seed: SocketAddr) -> JobMember {
    let address = node.address.unwrap_or(seed);
    JobMember { host: address.ip().to_string(), port: address.port(), run_id: None }
}

fn is_replica(truth: &ServerTruth) -> bool {
    matches!(truth.role.as_deref(), Some("slave" | "replica"))
}

/// Reaches a member and checks that it is the one that was verified.
async fn verify(candidate: &JobMember, target: &JobTarget, access: &Access) -> Result<Member, MemberError> {
    let name = format!("{}:{}", candidate.host, candidate.port);
    let unresolved = |source| MemberError::Resolve { member: name.clone(), source };
    let refused = |source| MemberError::Query { member: name.clone(), source };
    let addresses = resolve::resolve(&candidate.host, candidate.port, &target.blocked).await;
    let addresses = addresses.map_err(unresolved)?;
    let address = *addresses.first().ok_or_else(|| unresolved(ResolveError::NoAddress))?;
    let mut server = Server::connect(address, access, ANSWER_TIMEOUT).await.map_err(refused)?;
    let truth = server.truth().await.map_err(refused)?;
    check_process(&name, &truth, candidate.run_id.as_deref())?;
    if target.cluster {
        let info = server.info(&["CLUSTER", "INFO"]).await.map_err(refused)?;
        complete(&info).map_err(|what| MemberError::Incomplete { member: name.clone(), what })?;
    }
    let replica = is_replica(&truth);
    Ok(Member { name, address, run_id: truth.run_id, replica })
}

fn complete(info: &Info) -> Result<(), String> {
    let state = info.text("cluster_state").unwrap_or("unknown");
    let assigned = info.number::<u16>("cluster_slots_assigned").unwrap_or_default();
    let served = info.number("cluster_slots_ok").unwrap_or(assigned);
    if state != "ok" {
        return Err(format!("cluster_state is {state} with {served} of {SLOTS} slots served"));
    }
    if assigned != SLOTS || served != SLOTS {
        return Err(format!("{assigned} of {SLOTS} slots are assigned, {served} are served"));
    }
    Ok(())
}

/// The memory of all `members`; for one that does not answer, why.
pub async fn memory(access: &Access, members: &[Member]) -> Vec<MemberMemory> {
    let mut all = Vec::with_capacity(members.len());
    for member in members {
        let answer = async {
            let mut server = Server::connect(member.address, access, ANSWER_TIMEOUT).await?;
            server.memory().await
        };
        let memory = answer.await.unwrap_or_else(|error: ServerError| MemberMemory {
            unread: Some(error.to_string()),
            ..MemberMemory::default()
        });
        all.push(MemberMemory { server: member.name.clone(), ..memory });
    }
    all
}

/// What every member has counted, in the members' sequence.
#[derive(Debug, Clone, PartialEq)]
pub struct Counts(pub Vec<ServerCounters>);

#[derive(Debug, thiserror::Error)]
#[error("{member}: {source}")]
pub struct CountsError {
    member: String,
    source: ServerError,
}

pub async fn counts(access: &Access, members: &[Member]) -> Result<Counts, CountsError> {
    let queries = members.iter().map(async |member| {
        let counters =
            async { Server::connect(member.address, access, ANSWER_TIMEOUT).await?.counters().await };
        counters.await.map_err(|source| CountsError { member: member.name.clone(), source })
    });
    try_join_all(queries).await.map(Counts)
}

impl Counts {
    /// What the load's servers counted together. A load whose reads may go to replicas counts
    /// there too; other replicas only follow.
    pub fn sum(&self, members: &[Member], replica_reads: bool) -> ServerCounters {
        let counted = members.iter().zip(&self.0).filter_map(|(member, counters)| {
            match (member.replica, replica_reads) {
                (false, _) => Some(counters.clone()),
                (true, true) => Some(reads_of(counters)),
                (true, false) => None,
            }
        });
        joined(&counted.collect::<Vec<_>>(), |a, b| a + b).unwrap_or_default()
    }
}

/// What a replica counted for clients; its total, with its primary's writes, is left out as 0.
fn reads_of(counters: &ServerCounters) -> ServerCounters {
    let mut reads = counters.clone();
    reads.commands.retain(|command, _| REPLICA_READS.contains(&command.as_str()));
    reads.commands_processed = reads.commands_processed.map(|_| 0);
    reads
}

/// Shard by shard, for a record; nothing for a single server.
pub fn shards(members: &[Member], before: &Counts, after: Option<&Counts>) -> Vec<ShardRecord> {
    if members.len() < 2 {
        return Vec::new();
    }
    let counted = members.iter().zip(&before.0).enumerate();
    counted
        .map(|(position, (member, before))| ShardRecord {
            address: member.name.clone(),
            before: before.clone(),
            after: after.and_then(|counts| counts.0.get(position)).cloned(),
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
        complete(&Info::parse(info)).err().unwrap_or_else(|| "complete".to_owned())
    }

    #[test]
    fn a_cluster_must_serve_every_slot() {
        let ok = "cluster_state:ok\r\ncluster_slots_assigned:16384\r\ncluster_slots_ok:16384";
        assert_eq!(verdict(ok), "complete");
        assert_eq!(verdict("cluster_state:ok\ncluster_slots_assigned:16384"), "complete");
        let message = verdict("cluster_state:fail\ncluster_slots_assigned:5\ncluster_slots_ok:5");
        assert_eq!(message, "cluster_state is fail with 5 of 16384 slots served");
        let message = verdict("cluster_state:ok\ncluster_slots_assigned:16384\ncluster_slots_ok:100");
        assert_eq!(message, "16384 of 16384 slots are assigned, 100 are served");
        assert!(verdict("").contains("cluster_state is unknown"));
    }

    #[test]
    fn replicas_count_only_where_reads_go_to_them() {
        let members = [member(1, false), member(2, true)];
        let counts = Counts(vec![counted(&[("get", 10), ("set", 5)]), counted(&[("get", 7), ("set", 5)])]);
        let sum = counts.sum(&members, false);
        assert_eq!((sum.commands["get"].calls, sum.commands["set"].calls), (10, 5));
        let sum = counts.sum(&members, true);
        assert_eq!((sum.commands["get"].calls, sum.commands["set"].calls), (17, 5));
        assert_eq!(sum.commands_processed, Some(15), "what a primary passes on was counted there already");
    }

    #[test]
    fn shards_are_recorded_one_by_one_only_where_there_are_several() {
        let members = [member(1, false), member(2, false)];
        let counts = Counts(vec![counted(&[("get", 1)]), counted(&[("get", 2)])]);
        assert!(shards(&members[..1], &Counts(counts.0[..1].to_vec()), None).is_empty());
        let records = shards(&members, &counts, Some(&counts));
        assert_eq!((records[1].address.as_str(), records[1].after.as_ref()), ("db:2", Some(&counts.0[1])));
    }
}
