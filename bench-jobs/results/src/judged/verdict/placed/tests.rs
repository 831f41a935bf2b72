use super::*;
use crate::result::GroupRecord;

fn node(name: &str, serves: bool) -> NodeRecord {
    NodeRecord {
        name: name.into(),
        serves,
        loads: !serves,
        zone: Some("z1".into()),
        boot_id: Some(format!("boot-of-{name}")),
        groups: vec![by(GroupEvidence::Label, "fast")],
        allocatable_millicpus: Some(if serves { 4000 } else { 8000 }),
        ..NodeRecord::default()
    }
}

fn by(evidence: GroupEvidence, group: &str) -> GroupRecord {
    GroupRecord { evidence, group: Some(group.into()) }
}

/// Two servers and two clients, all in one zone and group.
fn four() -> Vec<NodeRecord> {
    vec![node("s1", true), node("s2", true), node("c1", false), node("c2", false)]
}

type Spoil = fn(&mut Vec<NodeRecord>);

/// What is said of `check` of the four nodes after `spoil`.
fn said(check: CheckName, spoil: Spoil) -> Placed {
    let mut nodes = four();
    spoil(&mut nodes);
    of_nodes(&nodes, None).into_iter().find(|one| one.check == check).unwrap()
}

fn assert_said(check: CheckName, table: &[(&str, Spoil, Option<bool>, &str, &str)]) {
    for (sentence, spoil, holds, reason, words) in table {
        let said = said(check, *spoil);
        assert_eq!((said.holds, said.reason), (*holds, *reason), "{sentence}: {}", said.message);
        assert!(said.message.contains(words), "{sentence}: {}", said.message);
    }
}

#[test]
fn one_zone_is_known_by_the_label_of_every_node() {
    assert_said(
        CheckName::SameZone,
        &[
            ("all four", |_| {}, Some(true), "Label", "zone: s1 in z1, s2 in z1, c1 in z1, c2 in z1"),
            ("one client", |n| n[3].zone = Some("z2".into()), Some(false), "Label", "c2 in z2"),
            ("one server", |n| n[1].zone = Some("z2".into()), Some(false), "Label", "s2 in z2"),
            ("no label on one", |n| n[3].zone = None, Some(false), "NotLabelled", "and c2 none"),
            (
                "no label at all",
                |n| n.iter_mut().for_each(|n| n.zone = None),
                None,
                "NotLabelled",
                "no node has",
            ),
            (
                "no server known",
                |n| n.iter_mut().for_each(|n| n.serves = false),
                None,
                "ServerUnknown",
                "server's node",
            ),
            ("no client yet", |n| n.truncate(2), None, "NotYetKnown", "clients' nodes"),
        ],
    );
}

#[test]
fn one_group_is_known_by_the_strongest_evidence_that_all_nodes_have() {
    const KARPENTER: GroupEvidence = GroupEvidence::KarpenterLabel;
    assert_said(
        CheckName::SamePlacementGroup,
        &[
            ("all four", |_| {}, Some(true), "Label", "dragstrip.dev/placement-group: s1 in fast"),
            (
                "members over two groups",
                |n| n[1].groups = vec![by(GroupEvidence::Label, "other")],
                Some(false),
                "Label",
                "s2 in other",
            ),
            ("a node without", |n| n[2].groups.clear(), Some(false), "NotLabelled", "and c1 none"),
            (
                "no labels",
                |n| n.iter_mut().for_each(|n| n.groups.clear()),
                None,
                "NotLabelled",
                "dragstrip.dev/placement-group=GROUP",
            ),
            (
                "two kinds of labels",
                |n| n[0].groups = vec![by(KARPENTER, "pg-1")],
                None,
                "NotLabelled",
                "cannot be compared: s1 in pg-1 by label karpenter",
            ),
            (
                "Karpenter's label counts more",
                |n| {
                    for n in n.iter_mut() {
                        n.groups.push(by(KARPENTER, "pg-1"));
                    }
                    n[3].groups[1] = by(KARPENTER, "pg-2");
                },
                Some(false),
                "KarpenterLabel",
                "label dragstrip.dev/placement-group says otherwise",
            ),
        ],
    );
}

#[test]
fn how_near_the_nodes_are_in_the_network_is_said_where_all_have_the_labels() {
    let placed = |layers: [&[&str]; 2]| {
        let mut nodes = vec![node("s1", true), node("c1", false)];
        for (node, layers) in nodes.iter_mut().zip(layers) {
            node.network_layers = layers.iter().map(|&layer| layer.to_owned()).collect();
        }
        of_nodes(&nodes, None).into_iter().find(|one| one.check == CheckName::SamePlacementGroup).unwrap()
    };
    for (layers, words) in [
        ([&["a", "b", "c"][..], &["a", "b", "c"]], Some("they share 3 of 3 layers")),
        ([&["a", "b", "c"], &["a", "b", "d"]], Some("they share 2 of 3 layers")),
        ([&["a", "b", "c"], &["d", "b", "c"]], Some("they share 0 of 3 layers")),
        ([&["a", "b", "c"], &[]], None),
        ([&[], &[]], None),
    ] {
        let placed = placed(layers);
        assert_eq!(placed.holds, Some(true), "layers are evidence and decide nothing: {layers:?}");
        match words {
            Some(words) => assert!(placed.message.contains(words), "{layers:?}: {}", placed.message),
            None => assert!(!placed.message.contains("layers"), "{layers:?}: {}", placed.message),
        }
    }
}

#[test]
fn clients_are_stronger_with_more_cpus_and_no_less_network() {
    let network: Spoil = |n| {
        for n in n.iter_mut() {
            n.network_megabits_per_second = Some(75_000);
        }
    };
    let less: Spoil = |n| {
        for n in n.iter_mut() {
            n.network_megabits_per_second = Some(75_000);
        }
        n[2].network_megabits_per_second = Some(25_000);
    };
    assert_said(
        CheckName::ClientStronger,
        &[
            (
                "by CPUs",
                |_| {},
                Some(true),
                "MoreCPUs",
                "clients on c1 (8 CPUs), c2 (8 CPUs), servers on s1 (4 CPUs)",
            ),
            ("by both", network, Some(true), "MoreCPUsAndNoLessNetwork", "c1 (8 CPUs, 75 Gbit/s)"),
            ("less network", less, Some(false), "LessNetwork", "c1 (8 CPUs, 25 Gbit/s)"),
            (
                "as strong",
                |n| n.iter_mut().for_each(|n| n.allocatable_millicpus = Some(3920)),
                Some(false),
                "NotMoreCPUs",
                "3.92 CPUs",
            ),
            (
                "one client is gone",
                |n| {
                    n[3].allocatable_millicpus = None;
                },
                None,
                "NotKnown",
                "c2 (CPUs not known)",
            ),
            (
                "nodes of one machine count once",
                |n| n[3].boot_id = n[2].boot_id.clone(),
                Some(false),
                "NotMoreCPUs",
                "c2",
            ),
            (
                "one machine for both",
                |n| n[3].boot_id = n[0].boot_id.clone(),
                None,
                "SharedNode",
                "share a machine",
            ),
        ],
    );
}

#[test]
fn a_machine_that_serves_and_loads_is_named() {
    assert_said(
        CheckName::DistinctNodes,
        &[
            ("four machines", |_| {}, Some(true), "DistinctNodes", "s1 (serves boot boot-of-s1)"),
            ("one node", |n| n[1].loads = true, Some(false), "SharedNode", "s2 (serves and loads"),
            (
                "two nodes of one machine",
                |n| n[3].boot_id = n[0].boot_id.clone(),
                Some(false),
                "SharedNode",
                "s1 (serves boot boot-of-s1), c2 (loads",
            ),
        ],
    );
}

fn set(pod: &str, node: &str, serves: bool, cpus: &str, whole: Option<u32>) -> CpuSetRecord {
    CpuSetRecord {
        pod: pod.into(),
        node: Some(node.into()),
        serves,
        cpus: cpus.into(),
        online: 8,
        whole_cpus: whole,
    }
}

#[test]
fn cpus_are_exclusive_when_they_are_as_many_as_requested_and_nobody_elses() {
    let server = || set("redis-0", "s1", true, "1-4", Some(4));
    let beside = |cpus: &str, whole| set("client", "s1", false, cpus, whole);
    let table = [
        ("a server alone", vec![server()], Some(true), "SeenFromInside"),
        (
            "a client without wishes elsewhere",
            vec![server(), set("c", "c1", false, "0-7", None)],
            Some(true),
            "SeenFromInside",
        ),
        ("both on one machine, apart", vec![server(), beside("5-6", Some(2))], Some(true), "SeenFromInside"),
        (
            "a client in the shared pool beside it",
            vec![server(), beside("0,5-7", None)],
            Some(true),
            "SeenFromInside",
        ),
        (
            "two servers, of which one shares",
            vec![server(), set("redis-1", "s2", true, "0-7", Some(4))],
            Some(false),
            "SharedCPUs",
        ),
        (
            "a server without whole CPUs in a pool",
            vec![set("redis-0", "s1", true, "0,5-7", None)],
            Some(false),
            "SharedCPUs",
        ),
        (
            "a client that got none of its own",
            vec![server(), set("c", "c1", false, "0-7", Some(2))],
            Some(false),
            "SharedCPUs",
        ),
        (
            "all CPUs of the machine",
            vec![set("redis-0", "s1", true, "0-7", Some(8))],
            Some(false),
            "SharedCPUs",
        ),
        ("one CPU of two containers", vec![server(), beside("4-5", Some(2))], Some(false), "OverlappingCPUs"),
        ("a kernel without the list", vec![set("redis-0", "s1", true, "", Some(4))], None, "NotKnown"),
        ("nothing", vec![], None, "NotKnown"),
    ];
    for (sentence, sets, holds, reason) in table {
        let found = exclusive_cpus(&sets, true);
        assert_eq!((found.holds, found.reason), (holds, reason), "{sentence}: {}", found.message);
    }
    assert_eq!(exclusive_cpus(&[server()], false).reason, "NotYetKnown", "the clients are still to come");
    let shared = exclusive_cpus(&[set("redis-0", "s1", true, "0-7", Some(4))], false);
    assert_eq!(shared.holds, Some(false), "no client makes it better");
    assert!(
        shared.message.contains("redis-0 may run on CPUs 0-7 of s1, which has 8 (4 requested)"),
        "{}",
        shared.message
    );
}

#[test]
fn the_servers_own_account_is_compared() {
    let truth = |io: Option<&str>, threads: Option<i32>| {
        let mut truth: ServerTruth = serde_json::from_str(
            r#"{"version": "1", "clusterEnabled": false, "loading": false, "runId": "", "usedMemoryBytes": 0}"#,
        )
        .unwrap();
        truth.io_interface = io.map(Into::into);
        truth.threads = threads;
        truth
    };
    let holds = |io, threads, declared| of_server(Some(&truth(io, threads)), declared).map(|one| one.holds);
    assert_eq!(holds(Some("iouring"), Some(4), Some(4)), [Some(true), Some(true)]);
    assert_eq!(holds(Some("epoll"), Some(2), Some(4)), [Some(false), Some(false)]);
    assert_eq!(holds(None, None, Some(4)), [None, None], "an engine that does not report them");
    assert_eq!(of_server(None, None).map(|one| one.reason), ["NotReported", "ServerUnknown"]);
}

fn required(check: &str, level: &str) -> Vec<Requirement> {
    vec![serde_json::from_value(serde_json::json!({"check": check, "level": level})).unwrap()]
}

#[test]
fn a_required_condition_that_does_not_hold_or_is_unknown_is_broken_before_load() {
    let mut nodes = four();
    nodes[2].groups = vec![by(GroupEvidence::Label, "other")];
    let placed = of_nodes(&nodes, Some(0.042));
    let message = broken(&placed, &required("SamePlacementGroup", "Required")).unwrap();
    for words in ["SamePlacementGroup: by label", "c1 in other", "takes 0.042 ms (median)", "Required)"] {
        assert!(message.contains(words), "{words}: {message}");
    }
    assert_eq!(broken(&placed, &required("SamePlacementGroup", "Warn")), None);
    assert_eq!(broken(&placed, &required("SameZone", "Required")), None, "it holds");
    for node in &mut nodes {
        node.groups.clear();
    }
    let message = broken(&of_nodes(&nodes, None), &required("SamePlacementGroup", "Required")).unwrap();
    assert!(message.contains("SamePlacementGroup: unknown: "), "{message}");
    nodes.truncate(2);
    let placed = of_nodes(&nodes, None);
    assert_eq!(broken(&placed, &required("SamePlacementGroup", "Required")), None, "the clients are to come");
}
