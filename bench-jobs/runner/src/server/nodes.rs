//! CLUSTER NODES and CLUSTER SLOTS: how one server sees its cluster. Pure.

use super::slots::{self, Slots};
use redis::Value;
use std::{
    collections::BTreeSet,
    net::{IpAddr, SocketAddr},
};

/// One server, as another one (or itself) sees it.
// Each bool is one flag of the server's own line.
#[allow(clippy::struct_excessive_bools)]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterNode {
    pub id: String,
    /// Where it is believed to be; `None` where that is unknown.
    pub address: Option<SocketAddr>,
    /// Whether it is the server that was queried.
    pub myself: bool,
    pub replica: bool,
    /// The id of the server that it replicates.
    pub primary: Option<String>,
    /// Whether it is, or may be, gone, or its address is lost.
    pub failing: bool,
    /// Whether it was met and has not answered yet; its id is then made up.
    pub handshake: bool,
    pub connected: bool,
    pub epoch: u64,
    pub slots: Slots,
}

/// `IP:PORT@BUS-PORT`, with more after a comma from Redis 7 on. A server that
/// does not know its own address leaves the IP out.
fn address(field: &str) -> Option<SocketAddr> {
    let (host_and_port, _) = field.split_once('@')?;
    let (host, port) = host_and_port.rsplit_once(':')?;
    Some(SocketAddr::new(host.parse::<IpAddr>().ok()?, port.parse().ok()?))
}

fn node(line: &str) -> Option<ClusterNode> {
    let mut fields = line.split_whitespace();
    let mut next = || fields.next();
    let (id, address_field, flags, primary) = (next()?, next()?, next()?, next()?);
    let (_ping, _pong, epoch, link) = (next()?, next()?, next()?, next()?);
    let flag = |name: &str| flags.split(',').any(|flag| flag == name);
    Some(ClusterNode {
        id: id.to_owned(),
        address: address(address_field),
        myself: flag("myself"),
        replica: flag("slave"),
        primary: (primary != "-").then(|| primary.to_owned()),
        failing: flag("fail") || flag("fail?") || flag("noaddr"),
        handshake: flag("handshake"),
        connected: link == "connected",
        epoch: epoch.parse().ok()?,
        slots: slots::parse(fields)?,
    })
}

/// Every server of the answer; `None` when it is not one.
pub fn parse(answer: &str) -> Option<Vec<ClusterNode>> {
    answer.lines().filter(|line| !line.trim().is_empty()).map(node).collect()
}

/// The ids of the servers in an answer to CLUSTER SLOTS: first slot, last slot, and the servers, each with host,
/// port and id.
pub fn listed(answer: &[Vec<Value>]) -> BTreeSet<String> {
    let id = |server: &Value| match server {
        Value::Array(fields) => redis::from_redis_value(fields.get(2)?.clone()).ok(),
        _ => None,
    };
    answer.iter().flat_map(|entry| entry.iter().skip(2).filter_map(id)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_servers_of_slots_are_read() {
        let raw = b"*2\r\n*4\r\n:0\r\n:99\r\n*4\r\n$9\r\n127.0.0.1\r\n:7000\r\n$2\r\nab\r\n*0\r\n\
            *3\r\n$0\r\n\r\n:7003\r\n$2\r\ncd\r\n*3\r\n:100\r\n:16383\r\n*3\r\n$-1\r\n:7001\r\n$2\r\nef\r\n";
        let answer: Vec<Vec<Value>> =
            redis::from_redis_value(redis::parse_redis_value(raw).unwrap()).unwrap();
        assert_eq!(listed(&answer).into_iter().collect::<Vec<_>>(), ["ab", "cd", "ef"]);
    }

    #[test]
    fn the_answer_of_a_formed_cluster_is_read() {
        let nodes = parse(
            "8f3c 127.0.0.1:7001@17001,,tls-port=0,shard-id=ab master - 0 1700000000000 2 connected 5461-10922\n\
             11aa 127.0.0.1:7000@17000 myself,master - 0 0 1 connected 0-5460 [7->-8f3c]\n",
        )
        .unwrap();
        assert_eq!(nodes[0].address, Some("127.0.0.1:7001".parse().unwrap()));
        assert_eq!((nodes[0].epoch, nodes[0].connected, nodes[0].myself), (2, true, false));
        assert_eq!(slots::text(&nodes[0].slots), "5461-10922");
        assert!(nodes[1].myself && !nodes[1].replica && !nodes[1].failing);
        assert_eq!(slots::text(&nodes[1].slots), "0-5460");
    }

    #[test]
    fn a_server_that_restarted_empty_leaves_an_id_without_address() {
        let nodes = parse("ab :0@0 master,noaddr - 1 1 3 disconnected 0-9\n").unwrap();
        assert_eq!((nodes[0].address, nodes[0].failing, nodes[0].connected), (None, true, false));
    }

    #[test]
    fn failing_and_unfinished_servers_are_recognised() {
        let text = "a 10.0.0.1:1@2 master,fail? - 1 1 0 connected\nb ::1:7@8 handshake - 1 1 0 disconnected\nc 10.0.0.1:9@10 slave,fail a 0 0 4 connected";
        let nodes = parse(text).unwrap();
        assert!(nodes[0].failing && nodes[1].handshake && nodes[2].replica && nodes[2].failing);
        assert_eq!(nodes[1].address, Some("[::1]:7".parse().unwrap()));
    }

    #[test]
    fn anything_else_is_refused() {
        assert_eq!(parse("ERR This instance has cluster support disabled"), None);
    }
}
