//! What a primary with replicas lacks: from every server's account of its
//! replication to the commands that repair it. Pure.

use super::step::{Step, Verdict};
use crate::server::info::Info;
use std::net::SocketAddr;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct View {
    /// Host and port of the server that it replicates; `None` for a primary.
    pub primary: Option<(String, u16)>,
    /// Whether the link to its primary is up and the first copy is complete.
    pub synchronised: bool,
    /// How far it is in the stream of writes; absent where the engine does not report it.
    pub offset: Option<u64>,
    /// How many replicas are in step with it, by its own account.
    pub replicas_in_step: usize,
}

impl View {
    /// Reads the fields, which Redis, Valkey, KeyDB and Dragonfly name alike.
    pub fn read(info: &Info) -> Self {
        let replica = matches!(info.text("role"), Some("slave" | "replica"));
        let primary = info
            .text("master_host")
            .zip(info.number("master_port"))
            .map(|(host, port)| (host.to_owned(), port));
        let offset = if replica { "slave_repl_offset" } else { "master_repl_offset" };
        // Dragonfly counts journal records of each of its threads, which do not compare.
        let comparable = info.text("dragonfly_version").is_none();
        let in_step = |entry: &str| entry.contains("state=online") || entry.contains("state=stable_sync");
        Self {
            primary: primary.filter(|_| replica),
            synchronised: info.text("master_link_status") == Some("up")
                && !info.flag("master_sync_in_progress"),
            offset: info.number(offset).filter(|_| comparable),
            // slave0:ip=..,port=..,state=..; other fields have that prefix too.
            replicas_in_step: info.with_prefix("slave").filter(|(_, entry)| in_step(entry)).count(),
        }
    }
}

pub const REPLICAOF: &str = "REPLICAOF";

/// Makes the server with this index follow another one (its host and port), or nobody (`NO ONE`).
fn replicaof(server: usize, host: &str, port: &str) -> Step {
    Step { server, words: [REPLICAOF, host, port].map(str::to_owned).to_vec() }
}

/// What to do so that all of `servers` but the first replicate the first. The
/// primary's view must be older than the others': their offsets are compared.
pub fn decide(servers: &[(SocketAddr, View)]) -> Verdict {
    let Some(((address, primary), replicas)) = servers.split_first() else {
        return Verdict::Complete;
    };
    let (host, port) = (address.ip().to_string(), address.port());
    let mut steps: Vec<Step> = primary.primary.iter().map(|_| replicaof(0, "NO", "ONE")).collect();
    for (index, (_, replica)) in replicas.iter().enumerate() {
        if replica.primary.as_ref() != Some(&(host.clone(), port)) {
            steps.push(replicaof(index + 1, &host, &port.to_string()));
        }
    }
    if !steps.is_empty() {
        return Verdict::Do(steps);
    }
    missing(primary, replicas).map_or(Verdict::Complete, Verdict::Wait)
}

/// What time alone will bring; `None` when every replica is in step.
fn missing(primary: &View, replicas: &[(SocketAddr, View)]) -> Option<String> {
    for (address, replica) in replicas {
        if !replica.synchronised {
            return Some(format!("{address} is not synchronised with the primary yet"));
        }
        if let (Some(ahead), Some(behind)) = (primary.offset, replica.offset)
            && behind < ahead
        {
            return Some(format!("{address} is {} bytes of writes behind the primary", ahead - behind));
        }
    }
    let in_step = primary.replicas_in_step;
    (in_step < replicas.len())
        .then(|| format!("the primary has {in_step} of {} replicas in step", replicas.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(index: usize) -> SocketAddr {
        format!("10.0.0.{index}:6379").parse().unwrap()
    }

    fn primary() -> View {
        View { primary: None, synchronised: false, offset: Some(100), replicas_in_step: 2 }
    }

    fn replica() -> View {
        View {
            primary: Some(("10.0.0.0".to_owned(), 6379)),
            synchronised: true,
            offset: Some(100),
            replicas_in_step: 0,
        }
    }

    fn decided(views: [View; 3]) -> Verdict {
        decide(&views.into_iter().enumerate().map(|(i, view)| (at(i), view)).collect::<Vec<_>>())
    }

    #[test]
    fn replicas_in_step_are_left_alone() {
        assert_eq!(decided([primary(), replica(), replica()]), Verdict::Complete);
        let further = View { offset: Some(180), ..replica() };
        assert_eq!(decided([primary(), further, replica()]), Verdict::Complete);
    }

    #[test]
    fn new_servers_get_the_command_to_follow() {
        let new = View { replicas_in_step: 0, ..primary() };
        let Verdict::Do(steps) = decided([new.clone(), new.clone(), new]) else { panic!("nothing is done") };
        let texts: Vec<String> = steps.iter().map(|step| format!("{}: {step}", step.server)).collect();
        assert_eq!(texts, ["1: REPLICAOF 10.0.0.0 6379", "2: REPLICAOF 10.0.0.0 6379"]);
    }

    #[test]
    fn a_replica_of_the_primarys_old_address_follows_the_new_one() {
        let lost = View { primary: Some(("10.9.9.9".to_owned(), 6379)), synchronised: false, ..replica() };
        assert_eq!(
            decided([primary(), replica(), lost]),
            Verdict::Do(vec![replicaof(2, "10.0.0.0", "6379")])
        );
    }

    #[test]
    fn a_primary_that_replicates_leads_again() {
        let Verdict::Do(steps) = decided([replica(), replica(), replica()]) else {
            panic!("nothing is done")
        };
        assert_eq!(steps[0].to_string(), "REPLICAOF NO ONE");
    }

    #[test]
    fn replicas_that_are_behind_are_waited_for() {
        let down = View { synchronised: false, ..replica() };
        let behind = View { offset: Some(40), ..replica() };
        let alone = View { replicas_in_step: 1, ..primary() };
        for (views, expected) in [
            ([primary(), down, replica()], "10.0.0.1:6379 is not synchronised with the primary yet"),
            ([primary(), replica(), behind], "10.0.0.2:6379 is 60 bytes of writes behind the primary"),
            ([alone, replica(), replica()], "the primary has 1 of 2 replicas in step"),
        ] {
            assert_eq!(decided(views), Verdict::Wait(expected.to_owned()));
        }
    }

    #[test]
    fn redis_reports_its_role_and_offset() {
        let primary = View::read(&Info::parse(
            "role:master\nconnected_slaves:2\nslave0:ip=10.0.0.1,port=6379,state=online,offset=14,lag=0\n\
             slave1:ip=10.0.0.2,port=6379,state=wait_bgsave,offset=0,lag=0\nmaster_repl_offset:14",
        ));
        assert_eq!((primary.primary, primary.offset, primary.replicas_in_step), (None, Some(14), 1));
        let replica = View::read(&Info::parse(
            "role:slave\nmaster_host:10.0.0.0\nmaster_port:6379\nmaster_link_status:up\nmaster_sync_in_progress:0\n\
             slave_repl_offset:9\nmaster_repl_offset:9\nslave_priority:100",
        ));
        assert_eq!(replica.primary, Some(("10.0.0.0".to_owned(), 6379)));
        assert_eq!((replica.synchronised, replica.offset, replica.replicas_in_step), (true, Some(9), 0));
    }

    #[test]
    fn dragonflys_offsets_are_not_compared() {
        let text = "dragonfly_version:df-v1.40.1\nrole:master\nslave0:ip=10.0.0.1,port=6379,state=stable_sync,lag=0\nmaster_repl_offset:77";
        let view = View::read(&Info::parse(text));
        assert_eq!((view.offset, view.replicas_in_step), (None, 1));
    }
}
