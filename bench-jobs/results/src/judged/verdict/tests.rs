use super::*;
use crate::{
    measured::usage::{
        AllowedCpus, ContainerUsage, HostUsage, InterruptedCpu, NetworkUsage, RoundTrip, ServerUsage,
        ThreadUsage,
    },
    result::{FILL, GroupEvidence, GroupRecord, NodeRecord, Operation, PodResult, Window},
};
use dragstrip_crds::{
    measured::{LatencySummary, ScheduleRecord},
    run::{Disturbance, Limiter},
};
use serde_json::json;

const SECONDS: f64 = 10.0;

fn loadgen() -> ToolSpec {
    ToolSpec::Loadgen(serde_json::from_value(json!({"duration": "10s"})).unwrap())
}

fn open_loop() -> ToolSpec {
    let spec = json!({"duration": "10s", "rate": {"operationsPerSecond": 1000}});
    ToolSpec::Loadgen(serde_json::from_value(spec).unwrap())
}

fn thread(name: &str, share: f64) -> ThreadUsage {
    ThreadUsage { name: name.into(), cpu_seconds: share * SECONDS, waiting_seconds: 0.0 }
}

/// Half a CPU of four, of which nobody else used any.
fn usage(threads: Vec<ThreadUsage>) -> ContainerUsage {
    let cpu_seconds = threads.iter().map(|thread| thread.cpu_seconds).sum();
    ContainerUsage {
        seconds: SECONDS,
        cpu_seconds,
        cpu_pressure_seconds: Some(0.02),
        threads,
        host: Some(HostUsage {
            cpus: 4,
            busy_seconds: cpu_seconds,
            interrupt_seconds: 1.0,
            ..HostUsage::default()
        }),
        network: Some(NetworkUsage { sent_segments: 1000, ..NetworkUsage::default() }),
        ..ContainerUsage::default()
    }
}

fn client(name: &str) -> PodResult {
    let mut pod = PodResult { pod: name.to_owned(), complete: true, ..PodResult::default() };
    pod.node = Some(format!("node-of-{name}"));
    pod.tool.connections = 25;
    pod.tool.pipeline = 1;
    pod.window = Window { seconds: SECONDS, ..Window::default() };
    pod.per_second = vec![5000; 10];
    pod.client = usage(vec![thread("load", 0.4)]);
    pod.client.round_trip = Some(RoundTrip { samples: 20, failed: 0, median_milliseconds: 0.1 });
    pod
}

fn node(name: &str, serves: bool) -> NodeRecord {
    NodeRecord {
        name: name.into(),
        serves,
        loads: !serves,
        zone: Some("zone-1".into()),
        groups: vec![GroupRecord { evidence: GroupEvidence::Label, group: Some("group".into()) }],
        boot_id: Some(format!("boot-of-{name}")),
        ..NodeRecord::default()
    }
}

/// Two clients with 25 connections each, 10,000 operations a second of 5 ms: nothing wrong.
fn clean() -> RepetitionResult {
    let mut result = RepetitionResult { window_seconds: SECONDS, ..RepetitionResult::default() };
    result.operations = vec![Operation {
        name: "TOTAL".into(),
        count: 100_000,
        operations_per_second: Some(10_000.0),
        latency_milliseconds: LatencySummary { mean: Some(5.0), ..LatencySummary::default() },
        ..Operation::default()
    }];
    result.pods = vec![client("a"), client("b")];
    let server = usage(vec![thread("redis-server", 0.5), thread("io_thd_1", 0.2)]);
    result.servers =
        vec![ServerUsage { server: "redis-0".into(), node: Some("server".into()), usage: server }];
    result.nodes = vec![node("node-of-a", false), node("node-of-b", false), node("server", true)];
    result
}

fn judged(mut result: RepetitionResult, tool: &ToolSpec, requirements: &[Requirement]) -> RepetitionResult {
    judge(&mut result, tool, requirements);
    result
}

fn requirement(text: serde_json::Value) -> Requirement {
    serde_json::from_value(text).unwrap()
}

#[test]
fn a_clean_repetition_is_valid_and_says_what_was_checked() {
    let result = judged(clean(), &loadgen(), &[]);
    assert_eq!((result.verdict, result.reasons, result.failure), (Some(Verdict::Valid), vec![], None));
    let not_made: Vec<&str> = result
        .checks
        .iter()
        .filter(|check| check.state == CheckState::NotMade)
        .map(|check| check.name.as_str())
        .collect();
    assert_eq!(not_made, Vec::<&str>::new());
    let pointless = "an open loop's two, and hits of a load without reads";
    assert_eq!(result.checks.len(), 14, "{pointless}: {:?}", result.checks);
}

/// Gives both clients this course.
fn per_second(result: &mut RepetitionResult, operations: [u64; 10]) {
    for pod in &mut result.pods {
        pod.per_second = operations.to_vec();
    }
}

/// Lets a container use these two CPUs, on which all processes used so much.
fn allow(usage: &mut ContainerUsage, list: &str, busy_seconds: f64, steal_seconds: f64) {
    let allowed = AllowedCpus { list: list.to_owned(), cpus: 2, busy_seconds, steal_seconds };
    usage.host.as_mut().unwrap().allowed = Some(allowed);
}

/// Gives the server's node a link of this rate, over which it sent so many bytes.
fn linked(result: &mut RepetitionResult, megabits_per_second: u64, sent_bytes: u64) {
    result.nodes[2].network_megabits_per_second = Some(megabits_per_second);
    result.servers[0].usage.network.as_mut().unwrap().sent_bytes = sent_bytes;
}

/// Makes interrupts use a CPU of its machine.
fn interrupted(usage: &mut ContainerUsage, interrupt_seconds: f64, busy_seconds: f64) {
    let one = InterruptedCpu { cpu: 5, interrupt_seconds, busy_seconds };
    usage.host.as_mut().unwrap().most_interrupted = Some(one);
}

type Mutation = fn(&mut RepetitionResult);

/// Each of `table` spoils a clean repetition, for which the check's finding has these words.
fn each_is_named_and_no_other_check_cries(table: &[(CheckName, &str, Mutation)]) {
    for (check, words, spoil) in table {
        let mut result = clean();
        spoil(&mut result);
        let result = judged(result, &loadgen(), &[]);
        assert_eq!(
            *check == CheckName::NotSteady,
            !result.reasons[0].intervals.is_empty(),
            "{words}: steadiness alone is of a part of the time"
        );
        let names: Vec<&str> = result.reasons.iter().map(|reason| reason.reason.as_str()).collect();
        assert_eq!(names, [check.to_string()], "{words}: {:?}", result.reasons);
        assert!(result.reasons[0].message.contains(words), "{check}: {}", result.reasons[0].message);
        assert_eq!((result.verdict, result.failure), (Some(Verdict::Degraded), None), "{check}");
    }
}

#[test]
fn each_bad_state_of_load_and_placement_is_named() {
    let table: [(CheckName, &str, Mutation); 14] = [
        (CheckName::StartSkew, "within 1.500 s", |r| r.start_skew_seconds = 1.5),
        (CheckName::ShortOverlap, "83 % of the 12.0 s", |r| r.pods[0].window.seconds = 12.0),
        (CheckName::ShortWindow, "9.00 s of the declared 10 s", |r| {
            r.window_seconds = 9.0;
            r.pods.iter_mut().for_each(|pod| pod.window.seconds = 9.0);
        }),
        (CheckName::NotSteady, "rose by 40 % over 10 s", |r| {
            r.pods[0].per_second = (0..10).map(|second| 4000 + 500 * second).collect();
        }),
        (CheckName::NotSteady, "stalled: 4 of 10 seconds", |r| {
            per_second(r, [5000, 5000, 5000, 0, 5000, 5000, 5000, 0, 0, 0]);
        }),
        (CheckName::NotSteady, "50 % lower in the first 2 of 10 s", |r| {
            per_second(r, [2510, 2500, 5000, 5010, 4990, 5000, 5020, 4980, 5000, 5000]);
        }),
        (CheckName::NotSteady, "30 % lower from 3 s to 6 s of 10 s", |r| {
            per_second(r, [5000, 5010, 4990, 3500, 3520, 3480, 5000, 5010, 4990, 5000]);
        }),
        (CheckName::LittleLawViolated, "40.0 requests in flight, but the connections allow 50", |r| {
            r.operations[0].latency_milliseconds.mean = Some(4.0);
        }),
        (CheckName::LittleLawViolated, "longer than the clients' time", |r| {
            r.operations[0].latency_milliseconds.mean = Some(6.0);
        }),
        (CheckName::SharedNode, "the nodes node-of-a, server are one machine", |r| {
            let boot_id = r.nodes[2].boot_id.clone();
            r.nodes[0].boot_id = boot_id;
            // What both used is known to be ours.
            let both = r.pods[0].client.cpu_seconds + r.servers[0].usage.cpu_seconds;
            r.pods[0].client.host.as_mut().unwrap().busy_seconds = both;
        }),
        (
            CheckName::PlacementNotAsDeclared,
            "different zones: by label topology.kubernetes.io/zone: node-of-a in zone-2",
            |r| {
                r.nodes[0].zone = Some("zone-2".into());
            },
        ),
        (
            CheckName::PlacementNotAsDeclared,
            "different placement groups: others have a label and node-of-a none",
            |r| {
                r.nodes[0].groups.clear();
            },
        ),
        (CheckName::ReadsMiss, "0.5 % of the reads found their key", |r| r.hit_ratio = Some(0.005)),
        (CheckName::PlacementNotAsDeclared, "have 8 CPUs, the server's threads are 9", |r| {
            let truth = json!({"version": "7", "threads": 9, "clusterEnabled": false, "loading": false,
                "runId": "x", "usedMemoryBytes": 0});
            let counters = crate::measured::observed::ServerCounters::default();
            let before = serde_json::to_value(counters).unwrap();
            r.pods[0].server = serde_json::from_value(json!({"truth": truth, "before": before})).unwrap();
        }),
    ];
    each_is_named_and_no_other_check_cries(&table);
}

#[test]
fn each_bad_state_of_a_container_or_its_machine_is_named() {
    let table: [(CheckName, &str, Mutation); 16] = [
        (
            CheckName::ServerPressure,
            "thread io_thd_1 of redis-0 waited for a CPU for 45 % of the time (limit 10 %)",
            |r| {
                let threads = [("redis-server", 3.0), ("io_thd_1", 4.6)];
                let waiting = threads
                    .map(|(name, seconds)| ThreadUsage { waiting_seconds: seconds, ..thread(name, 0.4) });
                let usage = &mut r.servers[0].usage;
                (usage.cpu_pressure_seconds, usage.throttled_seconds) = (None, 0.1);
                usage.threads = waiting.to_vec();
            },
        ),
        (
            CheckName::ServerPressure,
            "threads of redis-0 waited for a CPU for 20 % of the time (limit 10 %)",
            |r| {
                r.servers[0].usage.cpu_pressure_seconds = Some(2.05);
                r.servers[0].usage.throttled_seconds = 0.05;
            },
        ),
        (CheckName::ClientSaturated, "load thread load of b was busy for 90 % of the time (1 of 2", |r| {
            r.pods[1].client = usage(vec![thread("load", 0.9)]);
        }),
        (CheckName::ClientSaturated, "writer 0 of a was busy for 95 %", |r| {
            r.pods[0].client.threads.clear();
            r.pods[0].workers = serde_json::from_value(json!([
                {"role": "writer", "index": 0, "operations": 1, "errors": 0, "cpuSeconds": 9.5}
            ]))
            .unwrap();
        }),
        (
            CheckName::ClientSaturated,
            "load of b was busy for 90 % of the time, 56 % of it without a CPU",
            |r| {
                r.pods[1].client.threads[0].waiting_seconds = 5.0;
            },
        ),
        (CheckName::ClientSaturated, "load of b waited for a CPU for 12 % of the time (limit 10 %)", |r| {
            r.pods[1].client.threads[0].waiting_seconds = 1.2;
        }),
        (
            CheckName::ClientSaturated,
            "event loop of reader 1 of a was busy for 92 % of the time (1 of 3",
            |r| {
                r.pods[0].client.threads.clear();
                r.pods[0].workers = serde_json::from_value(json!([
                    {"role": "writer", "index": 0, "operations": 1, "errors": 0, "cpuSeconds": 5.0,
                        "eventLoopUtilization": 0.45},
                    {"role": "reader", "index": 1, "operations": 1, "errors": 0, "cpuSeconds": 2.0,
                        "eventLoopUtilization": 0.92}
                ]))
                .unwrap();
            },
        ),
        (CheckName::ClientThrottled, "limit of a held it back for 5.0 %", |r| {
            r.pods[0].client.throttled_seconds = 0.5;
        }),
        (CheckName::ServerThrottled, "limit of redis-0 held it back for 20 %", |r| {
            r.servers[0].usage.throttled_seconds = 2.0;
        }),
        (CheckName::Steal, "3.0 % of the CPU time of server", |r| {
            r.servers[0].usage.host.as_mut().unwrap().steal_seconds = 1.2;
        }),
        (CheckName::ForeignLoad, "others used 1.00 of the 4 CPUs of node-of-a", |r| {
            r.pods[0].client.host.as_mut().unwrap().busy_seconds += 10.0;
        }),
        (CheckName::Steal, "5.0 % of the CPU time of server, CPUs 2-3", |r| {
            allow(&mut r.servers[0].usage, "2-3", 5.0, 1.0);
        }),
        (CheckName::ForeignLoad, "others used 0.60 of the 2 CPUs of server, CPUs 2-3", |r| {
            allow(&mut r.servers[0].usage, "2-3", 13.0, 0.0);
        }),
        (
            CheckName::ClientSaturated,
            "CPU 5 of node-of-a spent 70 % of the time in interrupts and 20 %",
            |r| {
                interrupted(&mut r.pods[0].client, 7.0, 2.0);
            },
        ),
        (CheckName::MemoryPressure, "redis-0 read memory back from disk 50 times", |r| {
            r.servers[0].usage.major_page_faults = 500;
        }),
        (CheckName::MemoryPressure, "4096 bytes of a went into swap", |r| {
            r.pods[0].client.swapped_bytes = 4096;
        }),
    ];
    each_is_named_and_no_other_check_cries(&table);
}

/// An open loop of ten seconds with a p99 of 6 ms.
fn scheduled(answered: u64, p99: f64) -> RepetitionResult {
    let mut result = clean();
    result.operations[0].latency_milliseconds.p99 = Some(6.0);
    result.schedule = Some(ScheduleRecord {
        kind: "fixed".into(),
        operations_per_second: 1000.0,
        scheduled: 10_000,
        answered_in_time: Some(answered as f64 / 1e4),
        sent: 10_000,
        answered,
        unanswered: 10_000 - answered,
        lag_milliseconds: LatencySummary { p99: Some(p99), ..LatencySummary::default() },
        wake_lag_p99_milliseconds: Some(p99 - 0.01),
    });
    result
}

#[test]
fn an_open_loop_that_is_late_or_not_followed_is_degraded() {
    let names = |result| -> Vec<String> {
        judged(result, &open_loop(), &[]).reasons.into_iter().map(|reason| reason.reason).collect()
    };
    assert_eq!(names(scheduled(10_000, 0.05)), Vec::<String>::new());
    assert_eq!(names(scheduled(10_000, 1.5)), ["ScheduleLag"], "a quarter of the p99");
    let message = judged(scheduled(10_000, 1.5), &open_loop(), &[]).reasons.remove(0).message;
    assert!(
        message.ends_with("the machine's part: it woke the load threads 1.490 ms late (p99)"),
        "{message}"
    );
    assert_eq!(names(scheduled(10_000, 1.1)), Vec::<String>::new());
    assert_eq!(names(scheduled(9_000, 0.05)), ["RateNotKept"]);
}

#[test]
fn work_of_the_run_on_shared_cpus_is_nobody_elses() {
    let mut together = clean();
    // The client may use all CPUs and the server two of them.
    together.pods[0].node = Some("server".into());
    together.pods.truncate(1);
    let of_both = together.pods[0].client.cpu_seconds + together.servers[0].usage.cpu_seconds;
    allow(&mut together.servers[0].usage, "2-3", of_both, 0.0);
    allow(&mut together.pods[0].client, "0-3", of_both, 0.0);
    let names = |result: RepetitionResult| -> Vec<String> {
        let ignore = |check| requirement(json!({"check": check, "level": "Ignore"}));
        let requirements = ["SharedNode", "LittleLawViolated"].map(ignore);
        judged(result, &loadgen(), &requirements).reasons.into_iter().map(|reason| reason.reason).collect()
    };
    assert_eq!(names(together.clone()), Vec::<String>::new());
    allow(&mut together.servers[0].usage, "2-3", of_both + 4.0, 0.0);
    assert_eq!(names(together), ["ForeignLoad"], "a fifth of its two CPUs");
}

#[test]
fn a_cpu_that_has_time_left_is_not_saturated_by_interrupts() {
    for (interrupt_seconds, busy_seconds) in [(8.0, 0.2), (4.0, 6.0)] {
        let mut result = clean();
        interrupted(&mut result.pods[0].client, interrupt_seconds, busy_seconds);
        let result = judged(result, &loadgen(), &[]);
        assert_eq!(result.verdict, Some(Verdict::Valid), "{:?}", result.reasons);
        assert_eq!(result.limited_by.unwrap().by, Limiter::NothingFound);
    }
}

#[test]
fn a_required_check_that_cannot_be_made_fails_the_repetition() {
    let blind = || {
        let mut result = clean();
        result.servers.clear();
        result
    };
    let required = [requirement(json!({"check": "ServerThrottled", "level": "Required"}))];
    let result = judged(blind(), &loadgen(), &required);
    assert_eq!(result.verdict, Some(Verdict::Invalid));
    let message = &result.reasons[0].message;
    assert!(message.contains("could not be made: what the server used is not known"), "{message}");
    let judged = judged(blind(), &loadgen(), &[]);
    assert_eq!(judged.verdict, Some(Verdict::Valid), "{:?}", judged.reasons);
}

#[test]
fn a_required_check_fails_the_repetition_and_one_to_ignore_is_not_made() {
    let late = || RepetitionResult { start_skew_seconds: 1.5, ..clean() };
    let required = [requirement(json!({"check": "StartSkew", "level": "Required"}))];
    let result = judged(late(), &loadgen(), &required);
    let failure = result.failure.unwrap().failure;
    assert_eq!((result.verdict, failure.step), (Some(Verdict::Invalid), FailureStep::Requirement));
    assert!(failure.message.starts_with("StartSkew: the clients started"), "{}", failure.message);
    let result = judged(late(), &loadgen(), &[requirement(json!({"check": "StartSkew", "level": "Ignore"}))]);
    assert_eq!(result.verdict, Some(Verdict::Valid));
    assert!(!result.checks.iter().any(|check| check.name == "StartSkew"), "{:?}", result.checks);
    let wider = [requirement(json!({"check": "StartSkew", "limit": "2"}))];
    assert_eq!(judged(late(), &loadgen(), &wider).verdict, Some(Verdict::Valid));
}

#[test]
fn what_failed_is_invalid_for_that_reason_alone() {
    let failure = Failure {
        step: FailureStep::CounterCheck,
        message: "the server counted more".into(),
        exit_code: None,
        signal: None,
        last_lines: vec![],
    };
    let failed = RepetitionResult {
        failure: Some(PodFailure { pod: "a".into(), failure }),
        start_skew_seconds: 9.0,
        ..clean()
    };
    let result = judged(failed, &loadgen(), &[]);
    assert_eq!((result.verdict, result.limited_by), (Some(Verdict::Invalid), None));
    assert_eq!(result.reasons.len(), 1);
    assert_eq!(result.reasons[0].reason, "CountMismatch");
}

#[test]
fn what_is_not_known_is_not_checked_and_said_so() {
    let mut blind = clean();
    blind.servers.clear();
    blind.nodes.clear();
    for pod in &mut blind.pods {
        pod.client = ContainerUsage::default();
        pod.per_second.clear();
    }
    let result = judged(blind, &loadgen(), &[]);
    assert_eq!(result.verdict, Some(Verdict::Valid));
    let passed: Vec<&str> = result
        .checks
        .iter()
        .filter(|check| check.state == CheckState::Passed)
        .map(|check| check.name.as_str())
        .collect();
    assert_eq!(passed, ["StartSkew", "ShortOverlap", "ShortWindow", "LittleLawViolated"]);
    assert_eq!(result.limited_by.unwrap().by, Limiter::NothingFound);
}

#[test]
fn pipelines_and_clusters_have_fewer_requests_in_flight_than_connections_allow() {
    let mut result = clean();
    result.operations[0].latency_milliseconds.mean = Some(2.0);
    result.pods.iter_mut().for_each(|pod| pod.tool.pipeline = 10);
    assert_eq!(judged(result, &loadgen(), &[]).verdict, Some(Verdict::Valid));
}

/// A disturbance and its seconds.
type Part = (Disturbance, u32, u32);

#[test]
fn a_finding_about_a_part_of_the_time_names_its_seconds() {
    let table: [(Vec<u64>, &[Part]); 4] = [
        (
            vec![5000, 5000, 5000, 0, 5000, 5000, 5000, 0, 0, 0],
            &[(Disturbance::Stall, 3, 4), (Disturbance::Stall, 7, 10)],
        ),
        (vec![2510, 2500, 5000, 5010, 4990, 5000, 5020, 4980, 5000, 5000], &[(Disturbance::ColdStart, 0, 2)]),
        (
            vec![5000, 5010, 4990, 3500, 3520, 3480, 5000, 5010, 4990, 5000],
            &[(Disturbance::OtherLevel, 3, 6)],
        ),
        ((0..10).map(|second| 4000 + 250 * second).collect(), &[(Disturbance::Trend, 0, 10)]),
    ];
    for (operations, expected) in table {
        let mut result = clean();
        result.pods.iter_mut().for_each(|pod| pod.per_second.clone_from(&operations));
        let result = judged(result, &loadgen(), &[]);
        let found = result.reasons.iter().flat_map(|reason| &reason.intervals);
        let found: Vec<_> = found.map(|one| (one.disturbance, one.from_second, one.to_second)).collect();
        assert_eq!(found, expected, "{operations:?}: {:?}", result.reasons);
    }
}

#[test]
fn repetitions_that_differ_too_much_are_told_from_three_on() {
    assert_eq!(high_variance(2, Some(0.3), &[]), None);
    assert_eq!(high_variance(3, Some(0.04), &[]), None);
    assert_eq!(high_variance(3, None, &[]), None);
    let found = high_variance(3, Some(0.08), &[]).unwrap();
    assert_eq!((found.reason.as_str(), found.verdict), ("HighVariance", Verdict::Degraded));
    assert!(found.message.contains("varies by 8.0 % (limit 5.0 %)"), "{}", found.message);
    let strict = [requirement(json!({"check": "HighVariance", "level": "Required", "limit": "0.02"}))];
    assert_eq!(high_variance(3, Some(0.04), &strict).unwrap().verdict, Verdict::Invalid);
}

#[test]
fn a_load_of_exactly_the_least_duration_is_long_enough() {
    let short = |seconds: f64| {
        let mut result = clean();
        result.window_seconds = seconds;
        let least = requirement(json!({"check": "ShortWindow", "limit": "10"}));
        let reasons = judged(result, &loadgen(), &[least]).reasons;
        reasons.iter().any(|reason| reason.reason == "ShortWindow")
    };
    assert!(!short(9.99965), "the last reply comes a little before the end");
    assert!(short(9.8));
}

#[test]
fn what_limited_the_throughput_is_named_with_its_evidence() {
    let table: [(Limiter, &str, Mutation); 16] = [
        (
            Limiter::NothingFound,
            "server thread redis-server of redis-0 at 50 %, the other 1 at 20 % at most",
            |_| {},
        ),
        (
            Limiter::Server,
            "server thread redis-server of redis-0 at 99 %, the other 1 at 41 % at most; 10,101 operations per busy second of its main thread; load",
            |r| {
                r.servers[0].usage = usage(vec![thread("redis-server", 0.99), thread("io_thd_1", 0.41)]);
            },
        ),
        (Limiter::Server, "2 of 2 server threads at 90 % or more", |r| {
            r.servers[0].usage = usage(vec![thread("Proactor0", 0.95), thread("Proactor1", 0.9)]);
        }),
        (Limiter::Server, "used 0.50 CPUs of its limit of 0.5, which held it back for 50 %", |r| {
            let mut limited = usage(vec![thread("redis-server", 0.5)]);
            limited.cpu_limit = Some(0.5);
            limited.throttled_seconds = 5.0;
            r.servers[0].usage = limited;
        }),
        (Limiter::Client, "load thread load of a at 97 %", |r| {
            r.pods[0].client = usage(vec![thread("load", 0.97)]);
        }),
        (Limiter::Client, "load thread event loop of writer 0 of a at 99 %", |r| {
            r.pods[0].client.threads.clear();
            r.pods[0].workers = serde_json::from_value(json!([
                {"role": "writer", "index": 0, "operations": 1, "errors": 0, "eventLoopUtilization": 0.99}
            ]))
            .unwrap();
        }),
        (Limiter::Client, "client a used 0.40 CPUs of its limit of 0.4", |r| {
            r.pods[0].client.cpu_limit = Some(0.4);
        }),
        (Limiter::Network, "CPU 5 of server spent 95 % of the time in interrupts", |r| {
            interrupted(&mut r.servers[0].usage, 9.5, 0.0);
        }),
        (Limiter::Network, "a network link was full; server thread redis-server", |r| {
            linked(r, 5_000, 6_000_000_000);
        }),
        (
            Limiter::NothingFound,
            "server sent 2.40 Gbit/s, 48 % of its link's 5 Gbit/s, and sent 100 TCP segments per second",
            |r| linked(r, 5_000, 3_000_000_000),
        ),
        (
            Limiter::NothingFound,
            "20,000 operations per busy second of its main thread; load thread load of a",
            |r| {
                linked(r, 5_000, 6_000_000_000);
                r.nodes[2].loads = true;
            },
        ),
        (Limiter::Network, "took 4.500 ms, a request 5.000 ms", |r| {
            r.pods[0].client.round_trip.as_mut().unwrap().median_milliseconds = 4.5;
        }),
        (Limiter::Network, "took 5.500 ms, a request 5.000 ms", |r| {
            r.pods[0].client.round_trip.as_mut().unwrap().median_milliseconds = 5.5;
        }),
        (Limiter::NothingFound, "load thread load of a", |r| {
            r.pods[0].client.round_trip.as_mut().unwrap().median_milliseconds = 6.5;
        }),
        // One machine's loopback.
        (Limiter::NothingFound, "server thread redis-server of redis-0 at 50 %", |r| {
            r.pods[0].node = Some("server".into());
            r.nodes[2].loads = true;
            r.pods[0].client.round_trip.as_mut().unwrap().median_milliseconds = 4.5;
        }),
        (Limiter::Network, "a retransmitted 5.0 % of its segments", |r| {
            r.pods[0].client.network.as_mut().unwrap().retransmitted_segments = 50;
        }),
    ];
    for (by, words, change) in table {
        let mut result = clean();
        change(&mut result);
        let found = judged(result, &loadgen(), &[]).limited_by.unwrap();
        assert_eq!(found.by, by, "{}", found.evidence);
        assert!(found.evidence.contains(words), "{by}: {}", found.evidence);
    }
}

/// A clean repetition of a server whose threads were this busy; `active` is for how many of 10 s of CPU time
/// its main thread had work, if the server reports it.
fn served(engine: &str, version: &str, threads: [f64; 2], active: Option<u64>) -> RepetitionResult {
    let mut result = clean();
    let main = if engine == "Valkey" { "valkey-server" } else { "redis-server" };
    result.servers[0].usage = usage(vec![thread(main, threads[0]), thread("io_thd_1", threads[1])]);
    let truth = json!({"engine": engine, "version": version, "threads": 2, "clusterEnabled": false,
        "loading": false, "runId": "x", "usedMemoryBytes": 0});
    let counters = |active: u64, cpu: u64| {
        let main_thread = json!({"activeMicros": active * 1_000_000, "cpuMicros": cpu * 1_000_000});
        let mut counters =
            serde_json::to_value(crate::measured::observed::ServerCounters::default()).unwrap();
        counters.as_object_mut().unwrap().insert("mainThread".into(), main_thread);
        counters
    };
    let mut record = json!({"truth": truth, "before": counters(5, 7), "after": null});
    match active {
        Some(active) => record["after"] = counters(5 + active, 17),
        None => record["before"]["mainThread"] = serde_json::Value::Null,
    }
    result.pods[0].server = serde_json::from_value(record).unwrap();
    result
}

#[test]
fn threads_that_spin_while_they_wait_do_not_make_a_server_look_used_up() {
    type Row<'a> = (&'a str, &'a str, [f64; 2], Option<u64>, Limiter, &'a str);
    let spinning = "its I/O threads (up to 99 %) are not counted: Redis 7.0.15 keeps them in a busy loop";
    let table: [Row<'_>; 12] = [
        ("Redis", "7.0.15", [0.05, 0.99], None, Limiter::NothingFound, spinning),
        ("Redis", "7.0.15", [0.95, 0.99], None, Limiter::Server, "thread redis-server of redis-0 at 95 %"),
        ("Redis", "6.2.1", [0.05, 0.99], None, Limiter::NothingFound, "redis-server of redis-0 at 5.0 %"),
        ("Redis", "8.2.0", [0.05, 0.99], None, Limiter::Server, "thread io_thd_1 of redis-0 at 99 %"),
        ("Valkey", "7.2.5", [0.05, 0.99], None, Limiter::NothingFound, "valkey-server of redis-0 at 5.0 %"),
        ("Valkey", "7.2.5", [0.95, 0.99], None, Limiter::Server, "valkey-server of redis-0 at 95 %"),
        (
            "Valkey",
            "8.0.1",
            [0.99, 0.99],
            None,
            Limiter::Unknown,
            "its main thread's share is an upper bound",
        ),
        ("Valkey", "8.0.1", [0.50, 0.99], None, Limiter::NothingFound, "valkey-server of redis-0 at 50 %"),
        ("Valkey", "8.0.1", [0.99, 0.0], None, Limiter::Server, "valkey-server of redis-0 at 99 %"),
        (
            "Valkey",
            "9.1.0",
            [0.99, 0.99],
            Some(5),
            Limiter::NothingFound,
            "had work for 50 % of its CPU time",
        ),
        ("Valkey", "9.1.0", [0.99, 0.99], Some(9), Limiter::Server, "valkey-server of redis-0 at 89 %"),
        ("Dragonfly", "df-v1.30", [0.5, 0.99], None, Limiter::Server, "io_thd_1 of redis-0 at 99 %"),
    ];
    for (engine, version, threads, active, by, words) in table {
        let result = served(engine, version, threads, active);
        let found = judged(result, &loadgen(), &[]).limited_by.unwrap();
        let what = format!("{engine} {version} at {threads:?}: {}", found.evidence);
        assert_eq!(found.by, by, "{what}");
        assert!(found.evidence.contains(words), "{what}");
    }
}

#[test]
fn other_evidence_decides_where_a_servers_main_thread_spins() {
    let spinning = || served("Valkey", "8.1.0", [0.99, 0.99], None);
    let by = |result, tool: &ToolSpec| judged(result, tool, &[]).limited_by.unwrap();
    let mut used_up = spinning();
    used_up.pods[1].client = usage(vec![thread("load", 0.9)]);
    assert_eq!(by(used_up, &loadgen()).by, Limiter::Client, "the client is the one that is used up for sure");
    let behind = RepetitionResult { schedule: scheduled(9_000, 0.05).schedule, ..spinning() };
    assert_eq!(by(behind, &open_loop()).by, Limiter::Server, "only a server can be late in an open loop");
    let mut near_limit = spinning();
    near_limit.servers[0].usage.cpu_limit = Some(2.0);
    assert_eq!(by(near_limit.clone(), &loadgen()).by, Limiter::Unknown, "a busy loop uses up any limit");
    near_limit.servers[0].usage.throttled_seconds = 2.0;
    let held_back = by(near_limit, &loadgen());
    assert_eq!(held_back.by, Limiter::Server, "a limit holds back work, too: {}", held_back.evidence);
}

#[test]
fn a_rate_that_the_server_follows_is_the_limit_and_otherwise_the_server_is() {
    let by = |result| judged(result, &open_loop(), &[]).limited_by.unwrap();
    let followed = by(scheduled(10_000, 0.05));
    assert_eq!(followed.by, Limiter::Rate);
    assert!(followed.evidence.contains("asks for 1,000 operations per second"), "{}", followed.evidence);
    let behind = by(scheduled(9_000, 0.05));
    assert_eq!(behind.by, Limiter::Server);
    let words = "answered 90 % of the 1,000 operations per second in time";
    assert!(behind.evidence.contains(words), "{}", behind.evidence);
}

#[test]
fn a_client_that_spins_through_its_whole_cpu_does_not_limit_the_throughput() {
    let spec = json!({"duration": "10s", "rate": {"operationsPerSecond": 1000, "pacing": "Spin"}});
    let spinning = ToolSpec::Loadgen(serde_json::from_value(spec).unwrap());
    let mut behind = scheduled(9_000, 0.05);
    behind.pods[0].client.cpu_limit = Some(0.4);
    let by = |tool| judged(behind.clone(), tool, &[]).limited_by.unwrap();
    assert_eq!((by(&spinning).by, by(&open_loop()).by), (Limiter::Server, Limiter::Client));
}

#[test]
fn a_saturated_client_beside_a_saturated_server_is_the_limit_unless_both_are_equally_busy() {
    for (client, server, by) in
        [(0.99, 0.9, Limiter::Client), (0.97, 0.93, Limiter::Both), (0.9, 0.99, Limiter::Server)]
    {
        let mut result = clean();
        result.pods[0].client = usage(vec![thread("load", client)]);
        result.servers[0].usage = usage(vec![thread("redis-server", server)]);
        let found = judged(result, &loadgen(), &[]).limited_by.unwrap();
        assert_eq!(found.by, by, "client at {client}, server at {server}");
        let evidence = format!("redis-server of redis-0 at {:.0} %", server * 100.0);
        assert!(found.evidence.contains(&evidence), "{}", found.evidence);
    }
}

#[test]
fn a_condition_is_judged_only_where_it_is_asked_for() {
    let apart = || {
        let mut result = clean();
        result.nodes[0].zone = Some("zone-2".into());
        result
    };
    let ignore = json!({"check": "PlacementNotAsDeclared", "level": "Ignore"});
    let with = |level: &str| {
        [requirement(ignore.clone()), requirement(json!({"check": "SameZone", "level": level}))]
    };
    let names = |result: &RepetitionResult| -> Vec<String> {
        result.reasons.iter().map(|reason| reason.reason.clone()).collect()
    };
    let silent = judged(apart(), &loadgen(), &[requirement(ignore.clone())]);
    assert_eq!(silent.verdict, Some(Verdict::Valid), "{:?}", silent.reasons);
    let warned = judged(apart(), &loadgen(), &with("Warn"));
    assert_eq!((warned.verdict, names(&warned)), (Some(Verdict::Degraded), vec!["NotSameZone".to_owned()]));
    let strict = judged(apart(), &loadgen(), &with("Required"));
    assert_eq!((strict.verdict, names(&strict)), (Some(Verdict::Invalid), vec!["NotSameZone".to_owned()]));
    let holds = judged(clean(), &loadgen(), &with("Required"));
    assert!(holds.checks.iter().any(|check| check.name == "SameZone" && check.state == CheckState::Passed));
}

#[test]
fn a_cache_that_is_filled_after_each_miss_may_miss_much() {
    let mut result = clean();
    result.hit_ratio = Some(0.005);
    // Each request waits for the SET that follows it.
    result.operations[0].operations_per_second = Some(5_000.0);
    let violated = judged(result.clone(), &loadgen(), &[]);
    let names: Vec<_> = violated.reasons.iter().map(|reason| reason.reason.as_str()).collect();
    assert_eq!(names, ["ReadsMiss", "LittleLawViolated"]);
    result.operations.insert(0, Operation { name: FILL.into(), ..result.operations[0].clone() });
    assert_eq!(judged(result, &loadgen(), &[]).reasons, vec![]);
}
