//! Whose turn it is: which Leases a run needs, who holds them, and its place in
//! the queue. [`look`] needs the client; the ordering is pure.

use super::{
    decide::{ReadyTarget, Turn},
    validate::ValidatedRun,
};
use crate::{
    cluster::lease::{self, Found, LeaseKey},
    context::Context,
};
use dragstrip_crds::{BenchmarkRun, conditions::holds, conditions::types::COMPLETE, run::QueueStatus};
use jiff::Timestamp;
use kube::ResourceExt;
use sha2::{Digest, Sha256};
use std::{fmt::Write, sync::Arc};

/// The Leases a run against `target` must hold: the target's, and that of each
/// node its servers run on, since two servers loaded on one node disturb each other.
/// In a fixed order, so that two runs never wait for each other.
pub fn keys(run: &ValidatedRun, target: &ReadyTarget, operator_namespace: &str) -> Vec<LeaseKey> {
    if !target.datastore {
        // An address is the same target from every namespace.
        let digest = Sha256::digest(target.name.as_bytes());
        let mut short = String::with_capacity(12);
        for byte in digest.iter().take(6) {
            // Writing into a String cannot fail.
            let _ = write!(short, "{byte:02x}");
        }
        return vec![LeaseKey {
            namespace: operator_namespace.to_owned(),
            name: format!("dragstrip-external-{short}"),
        }];
    }
    let own =
        LeaseKey { namespace: run.holder.namespace.clone(), name: format!("dragstrip-{}", target.name) };
    let node = target.nodes.iter().map(|node| LeaseKey {
        namespace: operator_namespace.to_owned(),
        name: format!("dragstrip-node-{node}"),
    });
    std::iter::once(own).chain(node).collect()
}

/// Whether `run` has ended.
pub fn ended(run: &BenchmarkRun) -> bool {
    run.status.as_ref().is_some_and(|status| holds(&status.conditions, COMPLETE, None))
}

/// A run that published that it is queued: its ticket.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Ticket {
    created: Timestamp,
    run: String,
    lease: String,
}

fn tickets(runs: &[Arc<BenchmarkRun>], except_uid: &str) -> Vec<Ticket> {
    let queued = runs.iter().filter(|run| run.uid().as_deref() != Some(except_uid) && !ended(run));
    queued
        .filter_map(|run| {
            Some(Ticket {
                created: run.metadata.creation_timestamp.as_ref()?.0,
                run: format!("{}/{}", run.namespace()?, run.name_any()),
                lease: run.status.as_ref()?.queue.as_ref()?.lease.clone(),
            })
        })
        .collect()
}

/// Tickets for one of `keys` that were drawn before this run was made.
fn ahead<'a>(tickets: &'a [Ticket], keys: &[LeaseKey], created: Timestamp, own: &str) -> Vec<&'a Ticket> {
    let mut ahead: Vec<&Ticket> = tickets
        .iter()
        .filter(|ticket| keys.iter().any(|key| key.to_string() == ticket.lease))
        .filter(|ticket| (ticket.created, ticket.run.as_str()) < (created, own))
        .collect();
    ahead.sort_by(|a, b| (a.created, &a.run).cmp(&(b.created, &b.run)));
    ahead
}

/// The Leases as they were found, and what they mean.
pub struct Looked {
    /// In the order of [`keys`].
    pub found: Vec<Found>,
    /// Whose turn it is.
    pub turn: Turn,
    /// Since when this run holds the first of them.
    pub since: Option<Timestamp>,
}

/// Finds out whose turn it is.
pub async fn look(
    ctx: &Context,
    run: &ValidatedRun,
    target: &ReadyTarget,
    runs: &[Arc<BenchmarkRun>],
) -> kube::Result<Looked> {
    let keys = keys(run, target, &ctx.settings.namespace);
    let mut found = Vec::new();
    for key in &keys {
        found.push(lease::find(&ctx.client, key).await?);
    }
    let turn = whose(run, &found, &tickets(runs, &run.holder.uid));
    let since = found
        .first()
        .filter(|first| first.holder.as_ref() == Some(&run.holder))
        .and_then(|first| first.since);
    Ok(Looked { found, turn, since })
}

/// Whose turn it is: this run's when it holds every Lease, somebody else's when
/// another run holds one of them or was there first.
fn whose(run: &ValidatedRun, found: &[Found], tickets: &[Ticket]) -> Turn {
    if found.iter().all(|lease| lease.holder.as_ref() == Some(&run.holder)) {
        return Turn::Held;
    }
    let keys: Vec<LeaseKey> = found.iter().map(|lease| lease.key.clone()).collect();
    let ahead = ahead(tickets, &keys, run.created, &run.holder.run());
    let held = found.iter().find_map(|lease| {
        let holder = lease.holder.as_ref().filter(|holder| **holder != run.holder)?;
        Some((lease.key.to_string(), holder.run()))
    });
    let first = || ahead.first().map(|ticket| (ticket.lease.clone(), ticket.run.clone()));
    held.or_else(first).map_or(Turn::Free, |(lease, held_by)| {
        let position = i32::try_from(ahead.len()).unwrap_or(i32::MAX).saturating_add(1);
        Turn::Busy(QueueStatus { position, lease, held_by })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        cluster::lease::Holder,
        run::{
            fixtures::{self, run},
            validate::validate,
        },
    };

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    fn target(datastore: bool) -> ReadyTarget {
        if datastore {
            return fixtures::target();
        }
        let name = "10.0.0.7:6379".to_owned();
        ReadyTarget { name, nodes: Vec::new(), datastore, ..fixtures::target() }
    }

    fn names(target: &ReadyTarget) -> Vec<String> {
        let run = validate(&run(&["write"], 1)).unwrap();
        keys(&run, target, "dragstrip-system").iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_datastore_needs_its_own_lease_and_its_nodes() {
        assert_eq!(names(&target(true)), ["races/dragstrip-redis", "dragstrip-system/dragstrip-node-worker"]);
    }

    #[test]
    fn a_cluster_needs_the_lease_of_every_node_it_runs_on() {
        let spread = ReadyTarget { nodes: vec!["a".into(), "b".into()], ..fixtures::target() };
        assert_eq!(
            names(&spread)[1..],
            ["dragstrip-system/dragstrip-node-a", "dragstrip-system/dragstrip-node-b"]
        );
    }

    #[test]
    fn an_external_address_has_one_lease_for_all_namespaces() {
        let names = names(&target(false));
        assert_eq!(names.len(), 1);
        assert!(names[0].starts_with("dragstrip-system/dragstrip-external-"), "{names:?}");
    }

    #[test]
    fn older_runs_that_wait_for_the_same_lease_go_first() {
        let ticket = |created, run: &str, lease: &str| Ticket {
            created: at(created),
            run: run.into(),
            lease: lease.into(),
        };
        let all = [
            ticket(30, "races/later", "races/dragstrip-redis"),
            ticket(10, "races/first", "races/dragstrip-redis"),
            ticket(5, "races/elsewhere", "races/dragstrip-valkey"),
            ticket(20, "races/a-tie", "races/dragstrip-redis"),
        ];
        let keys = [LeaseKey { namespace: "races".into(), name: "dragstrip-redis".into() }];
        let order: Vec<&str> =
            ahead(&all, &keys, at(20), "races/me").iter().map(|t| t.run.as_str()).collect();
        assert_eq!(order, ["races/first", "races/a-tie"]);
    }

    fn holder(name: &str) -> Holder {
        Holder {
            namespace: "races".into(),
            name: name.into(),
            uid: if name == "sprint" { "run-uid" } else { "u" }.into(),
        }
    }

    fn found(name: &str, holder: Option<Holder>) -> Found {
        Found { key: LeaseKey { namespace: "races".into(), name: name.into() }, holder, since: None }
    }

    #[test]
    fn a_turn_is_held_only_with_every_lease() {
        let run = validate(&run(&["write"], 1)).unwrap();
        let own = || Some(holder("sprint"));
        let whose = |a, b| whose(&run, &[found("target", a), found("node", b)], &[]);
        assert_eq!(whose(own(), own()), Turn::Held);
        assert_eq!(whose(own(), None), Turn::Free, "the second is still to be taken");
        assert_eq!(whose(None, None), Turn::Free);
        let busy = QueueStatus { position: 1, lease: "races/node".into(), held_by: "races/other".into() };
        assert_eq!(whose(own(), Some(holder("other"))), Turn::Busy(busy));
    }

    #[test]
    fn a_free_lease_is_left_to_who_came_first() {
        let run = validate(&run(&["write"], 1)).unwrap();
        let earlier = Ticket { created: at(0), run: "races/first".into(), lease: "races/target".into() };
        let busy = QueueStatus { position: 2, lease: "races/target".into(), held_by: "races/first".into() };
        assert_eq!(whose(&run, &[found("target", None)], &[earlier]), Turn::Busy(busy));
    }
}
