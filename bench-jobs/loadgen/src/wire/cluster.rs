//! Finds the shards of a Redis Cluster and which slots each has.

use std::sync::Arc;

use redis::Value;
use thiserror::Error;

use crate::configuration::Configuration;
use crate::counts::report::{Failure, FailureKind};
use crate::specification::host_and_port;
use crate::wire::connect::{self, ConnectError, Endpoint, HandshakeStep};
use crate::wire::exchange::encode_command;
use crate::wire::slots::{SLOTS, SlotMap, SlotRanges};
use crate::wire::tls::TlsClient;

/// One shard, and where its requests go.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Shard {
    /// `host:port` of its primary, as redirections name it.
    pub(crate) primary: String,
    pub(crate) slots: SlotRanges,
    /// The nodes that take the load, by their numbers; clients share them out.
    pub(crate) nodes: Vec<usize>,
}

/// Where requests go.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Routes {
    pub(crate) nodes: Vec<Endpoint>,
    pub(crate) shards: Vec<Shard>,
    /// Whether keys decide which shard has a request.
    pub(crate) cluster: bool,
}

impl Routes {
    /// Everything to one server.
    pub(crate) fn single(endpoint: Endpoint) -> Self {
        let shard = Shard { primary: endpoint.label.to_string(), slots: Vec::new(), nodes: vec![0] };
        Self { nodes: vec![endpoint], shards: vec![shard], cluster: false }
    }

    pub(crate) fn labels(&self) -> Vec<Arc<str>> {
        self.nodes.iter().map(|node| Arc::clone(&node.label)).collect()
    }
}

/// The cluster cannot be used.
#[derive(Debug, Error)]
pub(crate) enum ClusterError {
    #[error(transparent)]
    Ask(#[from] ConnectError),
    #[error("cannot read the slots of the cluster at {address}: {source}")]
    Parse { address: String, source: redis::RedisError },
    #[error(
        "cannot read the slots of the cluster at {address}: the answer has another form than that of CLUSTER SLOTS"
    )]
    Form { address: String },
    #[error("{count} of {SLOTS} slots of the cluster at {address} have no shard; finish forming it first")]
    Incomplete { address: String, count: usize },
    #[error("the shard of {primary} has no replica to read from; leave out --replica-reads or add one")]
    NoReplica { primary: String },
}

impl ClusterError {
    /// The form in which the failure is reported.
    pub(crate) fn failure(&self) -> Failure {
        let address = match self {
            Self::Ask(error) => return error.failure(),
            Self::Parse { address, .. } | Self::Form { address } | Self::Incomplete { address, .. } => {
                address
            }
            Self::NoReplica { primary } => primary,
        };
        let step = HandshakeStep::ReadSlots.name().to_owned();
        Failure { kind: FailureKind::Handshake, step, address: address.clone(), message: self.to_string() }
    }
}

/// Finds the server, and in a cluster everything that takes the load.
pub(crate) async fn find(
    configuration: &Configuration,
    security: Option<&TlsClient>,
) -> Result<Routes, ClusterError> {
    let endpoint = connect::find(configuration).await?;
    if configuration.server().cluster {
        discover(configuration, security, &endpoint).await
    } else {
        Ok(Routes::single(endpoint))
    }
}

/// Asks `seed` for the shards and resolves their nodes.
async fn discover(
    configuration: &Configuration,
    security: Option<&TlsClient>,
    seed: &Endpoint,
) -> Result<Routes, ClusterError> {
    let (mut stream, address) = connect::establish(configuration, security, seed).await?;
    let (request, mut raw) = (encode_command(&["CLUSTER", "SLOTS"]), Vec::new());
    let limit = configuration.connect_timeout;
    connect::send(&mut stream, &address, HandshakeStep::ReadSlots, &request, limit, Some(&mut raw)).await?;
    let value = redis::parse_redis_value(&raw)
        .map_err(|source| ClusterError::Parse { address: address.to_string(), source })?;
    let members =
        members(&value, &seed.host).ok_or_else(|| ClusterError::Form { address: address.to_string() })?;
    let slots = SlotMap::new(members.iter().map(|member| &member.slots));
    let count = slots.unassigned();
    if count > 0 {
        return Err(ClusterError::Incomplete { address: address.to_string(), count });
    }
    resolve(configuration, members).await
}

/// A shard as the cluster describes it: primary first.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Member {
    nodes: Vec<(String, u16)>,
    slots: SlotRanges,
}

/// Reads the answer to CLUSTER SLOTS, a list of first slot, last slot and nodes.
fn members(value: &Value, seed_host: &str) -> Option<Vec<Member>> {
    let Value::Array(entries) = value else { return None };
    let mut members: Vec<Member> = Vec::new();
    for entry in entries {
        let Value::Array(fields) = entry else { return None };
        let [Value::Int(first), Value::Int(last), nodes @ ..] = fields.as_slice() else { return None };
        let range = (u16::try_from(*first).ok()?, u16::try_from(*last).ok()?);
        let nodes: Vec<_> = nodes.iter().map(|node| node_of(node, seed_host)).collect::<Option<_>>()?;
        match members.iter_mut().find(|member| member.nodes.first() == nodes.first()) {
            Some(member) => member.slots.push(range),
            None => members.push(Member { nodes, slots: vec![range] }),
        }
    }
    (!members.is_empty() && members.iter().all(|member| !member.nodes.is_empty())).then_some(members)
}

/// A node without a host of its own has the host of the node that answered.
fn node_of(value: &Value, seed_host: &str) -> Option<(String, u16)> {
    let Value::Array(fields) = value else { return None };
    let [host, Value::Int(port), ..] = fields.as_slice() else { return None };
    let host = match host {
        Value::BulkString(host) => String::from_utf8(host.clone()).ok()?,
        Value::SimpleString(host) => host.clone(),
        Value::Nil => String::new(),
        _ => return None,
    };
    let host = if host.is_empty() || host == "?" { seed_host.to_owned() } else { host };
    Some((host, u16::try_from(*port).ok()?))
}

async fn resolve(configuration: &Configuration, members: Vec<Member>) -> Result<Routes, ClusterError> {
    let mut routes = Routes { nodes: Vec::new(), shards: Vec::new(), cluster: true };
    for member in members {
        let Some((host, port)) = member.nodes.first() else { continue };
        let primary = host_and_port(host, *port);
        let (primaries, replicas) = member.nodes.split_at(1);
        let loaded = if configuration.load().replica_reads { replicas } else { primaries };
        if loaded.is_empty() {
            return Err(ClusterError::NoReplica { primary });
        }
        let mut nodes = Vec::with_capacity(loaded.len());
        for (host, port) in loaded {
            nodes.push(routes.nodes.len());
            routes.nodes.push(connect::resolve(host, *port, configuration.connect_timeout).await?);
        }
        routes.shards.push(Shard { primary, slots: member.slots, nodes });
    }
    Ok(routes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_of_a_cluster_is_read() {
        let raw = b"*3\r\n*4\r\n:0\r\n:100\r\n*4\r\n$9\r\n127.0.0.1\r\n:7000\r\n$2\r\nid\r\n*0\r\n\
            *4\r\n$0\r\n\r\n:7003\r\n$2\r\nid\r\n*0\r\n\
            *3\r\n:101\r\n:16000\r\n*3\r\n$-1\r\n:7001\r\n$2\r\nid\r\n\
            *3\r\n:16001\r\n:16383\r\n*3\r\n$9\r\n127.0.0.1\r\n:7000\r\n$2\r\nid\r\n";
        let members = members(&redis::parse_redis_value(raw).unwrap(), "seed").unwrap();
        assert_eq!(members.len(), 2);
        assert_eq!(members[0].slots, [(0, 100), (16_001, 16_383)]);
        assert_eq!(members[0].nodes, [("127.0.0.1".into(), 7000), ("seed".into(), 7003)]);
        assert_eq!(members[1].nodes, [("seed".into(), 7001)]);
    }

    #[test]
    fn other_answers_are_refused() {
        for raw in [
            &b"+OK\r\n"[..],
            b"*0\r\n",
            b"*1\r\n:1\r\n",
            b"*1\r\n*2\r\n:1\r\n:2\r\n",
            b"*1\r\n*3\r\n:1\r\n:99999\r\n*0\r\n",
        ] {
            assert_eq!(members(&redis::parse_redis_value(raw).unwrap(), "h"), None, "{}", raw.escape_ascii());
        }
    }
}
