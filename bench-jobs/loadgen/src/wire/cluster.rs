//! Finds the shards of a Redis Cluster and which slots each has.

use redis::Value;

use crate::configuration::Configuration;
use crate::specification::host_and_port;
use crate::wire::connect::{self, Cause, ConnectError, Endpoint, Step};
use crate::wire::slots::{SlotMap, SlotRanges};
use crate::wire::tls::TlsClient;

/// One shard, and where its requests go.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Shard {
    /// `host:port` of its primary, as redirections name it.
    pub(crate) primary: String,
    pub(crate) slots: SlotRanges,
    /// The nodes that take the load; clients share them out.
    pub(crate) nodes: Vec<Endpoint>,
}

/// Where requests go.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Routes {
    pub(crate) shards: Vec<Shard>,
    /// Whether keys decide which shard has a request.
    pub(crate) cluster: bool,
}

/// Finds the server, and in a cluster everything that takes the load.
pub(crate) async fn find(
    configuration: &Configuration,
    tls: Option<&TlsClient>,
) -> Result<Routes, ConnectError> {
    let seed = connect::find(configuration).await?;
    if !configuration.server().cluster {
        let shard = Shard { primary: seed.label.to_string(), slots: Vec::new(), nodes: vec![seed] };
        return Ok(Routes { shards: vec![shard], cluster: false });
    }
    let mut command = redis::cmd("CLUSTER");
    command.arg("SLOTS");
    let answer = connect::establish(configuration, tls, &seed, Some((Step::ReadSlots, command))).await?;
    let failed = |cause: Cause| cause.at(Step::ReadSlots, &*answer.address);
    let members = members(&answer.reply, seed.host()).ok_or_else(|| failed(Cause::Form))?;
    let unassigned = SlotMap::new(members.iter().map(|member| &member.slots)).unassigned();
    if unassigned > 0 {
        return Err(failed(Cause::Incomplete(unassigned)));
    }
    resolve(configuration, members).await
}

/// A shard as the cluster describes it: primary first.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Member {
    /// `host:port` of each.
    nodes: Vec<String>,
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
fn node_of(value: &Value, seed_host: &str) -> Option<String> {
    let Value::Array(fields) = value else { return None };
    let [host, Value::Int(port), ..] = fields.as_slice() else { return None };
    let host = match host {
        Value::BulkString(host) => std::str::from_utf8(host).ok()?,
        Value::SimpleString(host) => host,
        Value::Nil => "",
        _ => return None,
    };
    let host = if host.is_empty() || host == "?" { seed_host } else { host };
    Some(host_and_port(host, u16::try_from(*port).ok()?))
}

async fn resolve(configuration: &Configuration, members: Vec<Member>) -> Result<Routes, ConnectError> {
    let mut shards = Vec::with_capacity(members.len());
    for Member { nodes, slots } in members {
        let (primaries, replicas) = nodes.split_at(1);
        let primary = primaries.concat();
        let loaded = if configuration.load().replica_reads { replicas } else { primaries };
        if loaded.is_empty() {
            return Err(Cause::NoReplica.at(Step::ReadSlots, primary));
        }
        let mut nodes = Vec::with_capacity(loaded.len());
        for label in loaded {
            nodes.push(connect::resolve(label, configuration.connect_timeout).await?);
        }
        shards.push(Shard { primary, slots, nodes });
    }
    Ok(Routes { shards, cluster: true })
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
        assert_eq!(members[0].nodes, ["127.0.0.1:7000", "seed:7003"]);
        assert_eq!(members[1].nodes, ["seed:7001"]);
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
