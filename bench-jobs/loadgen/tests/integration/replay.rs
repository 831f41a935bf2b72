//! The BullMQ replay: the queues hold exactly the jobs that were added.

use dragstrip_loadgen::counts::report::{FailureKind, RunStatus};
use nix::sys::signal::Signal;

use crate::support::{RedisServer, Running, run};

const QUEUES: &str = "--bullmq-add --bullmq-queues 4 --bullmq-prefix b";

#[test]
fn every_job_is_in_its_queue_with_an_id_of_its_own() {
    let server = RedisServer::start(&[]);
    for pass in 1..=2 {
        let options = format!("{QUEUES} --threads 2 --connections-per-thread 3 --pipeline 7 --requests 100");
        let ended = run(server.port, &options);
        assert_eq!(ended.code, 0, "{ended:?}");
        let report = ended.report();
        let add = report.operation("ADD").unwrap();
        assert_eq!((add.count, add.errors, add.hits), (600, 0, 0));
        assert_eq!(add.latencies().unwrap().count(), 600);
        let queues = report.queues.unwrap();
        // Jobs of an earlier run are not taken for this one's.
        assert_eq!((queues.expected, queues.found), (600 * pass, 600 * pass));
        assert_eq!(report.commands["evalsha"], 600);
        assert_eq!(server.calls("evalsha"), 600 * pass);
        let replay = report.configuration.replay.unwrap();
        assert_eq!((replay.queues.len(), replay.script.as_str()), (4, "bullmq 6.7.0"));
    }
    let waiting: Vec<String> = (0..4)
        .map(|queue| server.ask(&[&format!("LLEN b:{{queue{queue}}}:wait")]))
        .map(|answer| answer.lines().next().unwrap().trim_start_matches(':').to_owned())
        .collect();
    let counted: Vec<u64> = waiting.iter().map(|length| length.parse().unwrap()).collect();
    assert_eq!(counted.iter().sum::<u64>(), 1200, "{waiting:?}");
    for (queue, length) in counted.iter().enumerate() {
        // Ids count up from 1 in each queue, and each job has a hash of its own.
        let last = format!("HGET b:{{queue{queue}}}:{length} name");
        assert!(server.ask(&[&last]).contains("test"), "{last}");
        let id = server.ask(&[&format!("GET b:{{queue{queue}}}:id")]);
        assert!(id.contains(&length.to_string()), "queue {queue} of {length}: {id}");
    }
}

#[test]
fn jobs_taken_by_others_fail_the_run() {
    let server = RedisServer::start(&[]);
    let options = format!("{QUEUES} --connections-per-thread 2 --duration 700ms --progress-interval 20ms");
    let mut running = Running::start(server.port, &options, None);
    running.until_loading();
    assert!(server.ask(&["LPOP b:{queue1}:wait"]).starts_with('$'));
    let ended = running.wait();
    assert_eq!(ended.code, 14, "{ended:?}");
    let report = ended.report();
    assert_eq!(report.status, RunStatus::Failed);
    assert_eq!(report.failure.unwrap().kind, FailureKind::QueueLength);
    let queues = report.queues.unwrap();
    assert_eq!(queues.expected - queues.found, 1);
}

#[test]
fn errors_of_the_script_are_counted() {
    let server = RedisServer::start(&[]);
    server.ask(&["SET b:{queue0}:wait nonsense"]);
    let ended = run(server.port, "--bullmq-add --bullmq-prefix b --requests 5");
    assert_eq!(ended.code, 6, "a queue that is no list is found out before the run: {ended:?}");
    server.ask(&["DEL b:{queue0}:wait", "SET b:{queue0}:events nonsense"]);
    let ended = run(server.port, "--bullmq-add --bullmq-prefix b --connections-per-thread 2 --requests 5");
    let report = ended.report();
    let add = report.operation("ADD").unwrap();
    assert_eq!((add.count, add.errors), (0, 10), "{ended:?}");
    assert_eq!((ended.code, report.errors[0].operation.as_str()), (10, "ADD"));
}

#[test]
fn an_interrupted_replay_still_reports() {
    let server = RedisServer::start(&[]);
    let mut running =
        Running::start(server.port, &format!("{QUEUES} --duration 60s --progress-interval 20ms"), None);
    running.until_loading();
    running.signal(Signal::SIGTERM);
    let ended = running.wait();
    assert_eq!(ended.code, 143, "{ended:?}");
    let queues = ended.report().queues.unwrap();
    assert_eq!(queues.expected, queues.found);
}
