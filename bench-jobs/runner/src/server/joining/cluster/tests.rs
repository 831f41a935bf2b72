//! Every state a cluster may be found in, and what is done about it.

use super::*;

fn at(index: usize) -> SocketAddr {
    format!("10.0.0.{index}:7000").parse().unwrap()
}

fn slots(text: &str) -> Slots {
    slots::parse(text.split(',').filter(|part| !part.is_empty())).unwrap()
}

/// A server `id` at its place, as others see it when all is well.
fn node(id: &str, index: usize, epoch: u64, served: &str) -> ClusterNode {
    ClusterNode {
        id: id.to_owned(),
        address: Some(at(index)),
        myself: false,
        replica: false,
        primary: None,
        failing: false,
        handshake: false,
        connected: true,
        epoch,
        slots: slots(served),
    }
}

const DUE: [&str; 3] = ["0-5460", "5461-10922", "10923-16383"];

fn ids(servers: std::ops::Range<usize>) -> BTreeSet<String> {
    servers.map(|server| format!("id{server}")).collect()
}

/// How the shard `own` of three sees a complete cluster.
fn formed(own: usize) -> View {
    let nodes = (0..3)
        .map(|i| ClusterNode { myself: i == own, ..node(&format!("id{i}"), i, i as u64 + 1, DUE[i]) })
        .collect();
    View { nodes, state_ok: true, synchronised: false, listed: ids(0..3), keys: 0 }
}

/// A server that was just started, with the id `id`.
fn fresh(id: &str, index: usize) -> View {
    let nodes = vec![ClusterNode { myself: true, ..node(id, index, 0, "") }];
    View { nodes, state_ok: false, synchronised: false, listed: BTreeSet::new(), keys: 0 }
}

/// What is decided about three shards, and servers behind them that are to be their replicas.
fn decided(views: Vec<View>) -> Verdict {
    let servers: Vec<_> = views.into_iter().enumerate().map(|(i, view)| (at(i), view)).collect();
    decide(&servers, 3)
}

/// What is done, as text: `SHARD: COMMAND`.
fn done(verdict: Verdict) -> Vec<String> {
    match verdict {
        Verdict::Do(steps) => steps.iter().map(|step| format!("{}: {step}", step.server)).collect(),
        other => panic!("nothing is done: {other:?}"),
    }
}

#[test]
fn a_complete_cluster_is_left_alone() {
    assert_eq!(decided((0..3).map(formed).collect()), Verdict::Complete);
}

#[test]
fn new_servers_get_epochs_and_slots_and_meet_the_first() {
    let new = (0..3).map(|i| fresh(&format!("id{i}"), i)).collect();
    assert_eq!(
        done(decided(new)),
        [
            "0: CLUSTER SET-CONFIG-EPOCH 1",
            "1: CLUSTER SET-CONFIG-EPOCH 2",
            "2: CLUSTER SET-CONFIG-EPOCH 3",
            "0: CLUSTER ADDSLOTSRANGE 0 5460",
            "1: CLUSTER ADDSLOTSRANGE 5461 10922",
            "2: CLUSTER ADDSLOTSRANGE 10923 16383",
            "0: CLUSTER MEET 10.0.0.1 7000",
            "0: CLUSTER MEET 10.0.0.2 7000",
        ]
    );
}

#[test]
fn a_cluster_left_half_made_is_continued() {
    // The first two have epochs, one has its slots, and a meeting is under way.
    let mut views: Vec<View> = (0..3).map(|i| fresh(&format!("id{i}"), i)).collect();
    views[0].nodes[0].epoch = 1;
    views[0].nodes[0].slots = slots(DUE[0]);
    views[0].nodes.push(ClusterNode { handshake: true, ..node("made-up", 1, 0, "") });
    views[1].nodes[0].epoch = 2;
    assert_eq!(
        done(decided(views)),
        [
            "2: CLUSTER SET-CONFIG-EPOCH 3",
            "1: CLUSTER ADDSLOTSRANGE 5461 10922",
            "2: CLUSTER ADDSLOTSRANGE 10923 16383",
            "0: CLUSTER MEET 10.0.0.2 7000",
        ]
    );
}

#[test]
fn a_shard_that_restarted_empty_replaces_its_former_self() {
    let dead = ClusterNode { address: None, failing: true, connected: false, ..node("id2", 2, 3, DUE[2]) };
    let mut views: Vec<View> = (0..3).map(formed).collect();
    for view in &mut views[..2] {
        view.nodes[2] = dead.clone();
        view.state_ok = false;
        view.keys = 50;
    }
    views[2] = fresh("new", 2);
    assert_eq!(
        done(decided(views)),
        [
            "0: CLUSTER FORGET id2",
            "1: CLUSTER FORGET id2",
            "2: CLUSTER SET-CONFIG-EPOCH 4",
            "2: CLUSTER ADDSLOTSRANGE 10923 16383",
            "0: CLUSTER MEET 10.0.0.2 7000",
        ]
    );
}

#[test]
fn the_former_self_is_recognised_by_its_address_before_anyone_notices() {
    let mut views: Vec<View> = (0..3).map(formed).collect();
    views[2] = fresh("new", 2);
    assert!(done(decided(views)).contains(&"1: CLUSTER FORGET id2".to_owned()));
}

#[test]
fn the_first_shard_restarted_empty_meets_all_others() {
    let mut views: Vec<View> = (0..3).map(formed).collect();
    views[0] = fresh("new", 0);
    let done = done(decided(views));
    assert_eq!(
        done,
        [
            "1: CLUSTER FORGET id0",
            "2: CLUSTER FORGET id0",
            "0: CLUSTER SET-CONFIG-EPOCH 4",
            "0: CLUSTER ADDSLOTSRANGE 0 5460",
            "0: CLUSTER MEET 10.0.0.1 7000",
            "0: CLUSTER MEET 10.0.0.2 7000",
        ]
    );
}

#[test]
fn a_shard_with_a_new_address_and_its_old_id_is_met_there() {
    let mut views: Vec<View> = (0..3).map(formed).collect();
    for view in &mut views[..2] {
        view.nodes[2] = ClusterNode { connected: false, ..node("id2", 9, 3, DUE[2]) };
    }
    assert_eq!(done(decided(views)), ["0: CLUSTER MEET 10.0.0.2 7000", "1: CLUSTER MEET 10.0.0.2 7000"]);
}

#[test]
fn an_empty_cluster_of_another_layout_begins_anew() {
    let mut views: Vec<View> = (0..3).map(formed).collect();
    views[0].nodes[0].slots = slots("0-8191");
    assert_eq!(
        done(decided(views)),
        ["0: CLUSTER RESET HARD", "1: CLUSTER RESET HARD", "2: CLUSTER RESET HARD"]
    );
}

#[test]
fn slots_that_hold_data_are_never_moved() {
    let mut views: Vec<View> = (0..3).map(formed).collect();
    views[0].nodes[0].slots = slots("0-8191");
    views[1].keys = 7;
    let Verdict::Stuck(message) = decided(views) else { panic!("data would be moved") };
    assert!(message.contains("10.0.0.0:7000 serves slots 5461-8191"), "{message}");
    assert!(message.contains("7 keys") && message.contains("delete the Datastore"), "{message}");
}

#[test]
fn a_living_stranger_is_waited_for() {
    let mut views: Vec<View> = (0..3).map(formed).collect();
    views[1].nodes.push(node("other", 8, 9, ""));
    let expected = "10.0.0.8:7000 is in the cluster but is not a shard of this Datastore".to_owned();
    assert_eq!(decided(views), Verdict::Wait(expected));
}

#[test]
fn a_replica_among_the_shards_is_reported() {
    let mut views: Vec<View> = (0..3).map(formed).collect();
    views[2].nodes[2].replica = true;
    let Verdict::Stuck(message) = decided(views) else { panic!("a replica passed for a shard") };
    assert!(message.contains("10.0.0.2:7000 replicates another server"), "{message}");
}

#[test]
fn gossip_is_waited_for() {
    let mut few: Vec<View> = (0..3).map(formed).collect();
    few[2].nodes.remove(1);
    let mut unclaimed: Vec<View> = (0..3).map(formed).collect();
    unclaimed[0].nodes[2].slots = slots("");
    let mut failing: Vec<View> = (0..3).map(formed).collect();
    failing[1].state_ok = false;
    for (views, expected) in [
        (few, "10.0.0.2:7000 knows 2 of 3 servers"),
        (unclaimed, "10.0.0.0:7000 does not know yet that 10.0.0.2:7000 serves 10923-16383"),
        (failing, "10.0.0.1:7000 does not report cluster_state:ok yet"),
    ] {
        assert_eq!(decided(views), Verdict::Wait(expected.to_owned()));
    }
}

/// How the server `own` of six sees a complete cluster: three shards with a replica each.
fn replicated(own: usize) -> View {
    let mut view = formed(own);
    view.nodes.extend((3..6).map(|i| ClusterNode {
        replica: true,
        primary: Some(format!("id{}", i - 3)),
        myself: i == own,
        ..node(&format!("id{i}"), i, i as u64 - 2, "")
    }));
    View { synchronised: own >= 3, listed: ids(0..6), ..view }
}

#[test]
fn shards_with_their_replicas_are_left_alone() {
    assert_eq!(decided((0..6).map(replicated).collect()), Verdict::Complete);
}

#[test]
fn new_replicas_get_no_slots_and_follow_their_shard_as_soon_as_they_know_it() {
    let new = (0..6).map(|i| fresh(&format!("id{i}"), i)).collect();
    let first = done(decided(new));
    assert_eq!(first.iter().filter(|step| step.contains("ADDSLOTSRANGE")).count(), 3, "{first:?}");
    assert!(first.contains(&"0: CLUSTER MEET 10.0.0.5 7000".to_owned()), "{first:?}");
    let mut met: Vec<View> = (0..6).map(replicated).collect();
    for node in met.iter_mut().flat_map(|view| &mut view.nodes[3..]) {
        (node.replica, node.primary) = (false, None);
    }
    let expected = ["3: CLUSTER REPLICATE id0", "4: CLUSTER REPLICATE id1", "5: CLUSTER REPLICATE id2"];
    assert_eq!(done(decided(met)), expected);
}

#[test]
fn a_replica_follows_the_shard_that_restarted_before_it_forgets_the_former_one() {
    let mut views: Vec<View> = (0..6).map(replicated).collect();
    views[1] = replicated(1);
    for view in &mut views {
        view.nodes[1].id = "new".to_owned();
    }
    views[4].nodes.push(ClusterNode { failing: true, connected: false, ..node("id1", 9, 2, "") });
    assert_eq!(done(decided(views.clone())), ["4: CLUSTER REPLICATE new"]);
    for node in views.iter_mut().flat_map(|view| &mut view.nodes).filter(|node| node.id == "id4") {
        node.primary = Some("new".to_owned());
    }
    assert_eq!(done(decided(views)), ["4: CLUSTER FORGET id1"]);
}

#[test]
fn the_copies_of_replicas_and_what_others_know_of_them_are_waited_for() {
    let mut behind: Vec<View> = (0..6).map(replicated).collect();
    behind[4].synchronised = false;
    let mut unknown: Vec<View> = (0..6).map(replicated).collect();
    unknown[0].nodes[5].primary = Some("id0".to_owned());
    let mut unlisted: Vec<View> = (0..6).map(replicated).collect();
    unlisted[2].listed.remove("id3");
    for (views, expected) in [
        (behind, "10.0.0.4:7000 is not synchronised with its shard yet"),
        (unknown, "10.0.0.0:7000 does not know yet what 10.0.0.5:7000 replicates"),
        (unlisted, "10.0.0.2:7000 does not list 10.0.0.3:7000 in CLUSTER SLOTS yet"),
    ] {
        assert_eq!(decided(views), Verdict::Wait(expected.to_owned()));
    }
}
