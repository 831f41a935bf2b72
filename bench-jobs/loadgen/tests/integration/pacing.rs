//! Warm-up and open loop: what is measured, and from when.

use std::time::Duration;

use nix::sys::signal::Signal;

use crate::support::{RedisServer, Running, latencies, run, run_mix, unix_nanos};

#[test]
fn the_warm_up_is_sent_and_counted_nowhere_else() {
    let server = RedisServer::start(&[]);
    let begun = unix_nanos();
    let ended = run(
        server.port,
        "threads=2 connectionsPerThread=3 ratio=1:1 pipeline=4 keyMaximum=99 warmup=400ms duration=300ms",
    );
    assert_eq!(ended.code, 0, "{ended:?}");
    let report = ended.report();
    let warmup = report.warmup.as_ref().unwrap();
    assert!((warmup.seconds - 0.4).abs() < 1e-9);
    assert!(warmup.operations["SET"] > 0 && warmup.operations["GET"] > 0, "{warmup:?}");
    let total = |name: &str| report.operation(name).unwrap().count + warmup.operations[name];
    assert_eq!(report.commands["set"], total("SET"));
    assert_eq!(report.commands["get"], total("GET"));
    assert_eq!(server.answered(), report.commands);
    let started = report.started_at_unix_nanos.unwrap();
    assert!(started >= begun + 400_000_000, "measured {} ns after the begin", started - begun);
    assert!(report.window_seconds >= 0.25 && report.window_seconds < 5.0, "{}", report.window_seconds);
    let in_seconds: u64 = report.operations.iter().flat_map(|operation| &operation.per_second).sum();
    assert_eq!(in_seconds, report.totals.count);
}

#[test]
fn a_counted_load_starts_to_count_after_the_warm_up() {
    let server = RedisServer::start(&[]);
    let options = "connectionsPerThread=3 keyMaximum=299 task=WriteKeys warmup=100ms";
    let report = run(server.port, options).report();
    assert_eq!(report.totals.count, 300);
    assert_eq!(server.calls("set"), 300 + report.warmup.unwrap().operations["SET"]);
    assert!(server.ask(&["DBSIZE"]).starts_with(":300\r\n"));
}

#[test]
fn an_open_loop_sends_what_is_scheduled() {
    let server = RedisServer::start(&[]);
    for arrival in ["Fixed", "Poisson"] {
        let report = run(
            server.port,
            &format!(
                "threads=2 connectionsPerThread=5 rate.operationsPerSecond=2000 rate.arrival={arrival} seed=3 \
                 duration=1s warmup=200ms keyMaximum=99"
            ),
        )
        .report();
        let schedule = report.schedule.as_ref().unwrap();
        assert_eq!(schedule.kind, arrival.to_lowercase());
        assert_eq!((schedule.scheduled, schedule.scheduled), (schedule.sent, schedule.answered));
        assert_eq!(report.totals.count, schedule.answered);
        let tolerance = if arrival == "Fixed" { 10 } else { 250 };
        assert!(schedule.scheduled.abs_diff(2000) <= tolerance, "{schedule:?}");
        let warmup = report.warmup.as_ref().unwrap().operations.values().sum::<u64>();
        assert!(warmup.abs_diff(400) <= 100, "{warmup}");
        println!("{arrival}: lag {:?}", schedule.lag_milliseconds);
        // Tens of microseconds on a quiet machine; this one may be busy.
        assert!(schedule.lag_milliseconds.p50 < Some(20.0), "{schedule:?}");
    }
    let commands = server.answered();
    assert!(commands["get"] > 3000, "{commands:?}");
}

#[test]
fn a_thread_that_spins_between_its_requests_does_not_look_busy() {
    let server = RedisServer::start(&[]);
    let options = "rate.operationsPerSecond=2000 rate.pacing=Spin duration=1s keyMaximum=99";
    let report = run(server.port, options).report();
    let schedule = report.schedule.as_ref().unwrap();
    assert_eq!((schedule.scheduled, schedule.answered), (2000, 2000));
    assert!(schedule.wake_lag_p99_milliseconds <= schedule.lag_milliseconds.p99, "{schedule:?}");
    assert!(report.threads[0].cpu_seconds < 0.5 * report.window_seconds, "{:?}", report.threads);
}

#[test]
fn a_stalled_server_shows_in_the_latency_of_everything_that_was_due() {
    let server = RedisServer::start(&[]);
    let options = "connectionsPerThread=10 rate.operationsPerSecond=1000 duration=5s keyMaximum=99 progressInterval=50ms";
    let mut running = Running::start(server.port, options, None);
    running.until_loading();
    server.signal(Signal::SIGSTOP);
    // The length of the stall is what this test is about.
    std::thread::sleep(Duration::from_secs(1));
    server.signal(Signal::SIGCONT);
    let ended = running.wait();
    assert_eq!(ended.code, 0, "{ended:?}");
    let report = ended.report();
    let schedule = report.schedule.as_ref().unwrap();
    assert_eq!(schedule.scheduled, 5000);
    assert_eq!((schedule.sent, schedule.answered, schedule.unanswered), (5000, 5000, 0));
    assert_eq!(report.due_per_second, [1000; 5]);
    assert!(schedule.answered_in_time > Some(0.995), "the server caught up: {schedule:?}");
    let get = &report.operation("GET").unwrap().latency_milliseconds;
    assert!(get.p99 >= Some(900.0), "a stall of 1 s in 5 s must show at p99: {get:?}");
    println!("after a stall of 1 s: {get:?}, {schedule:?}");
}

#[test]
fn a_stall_longer_than_the_response_timeout_leaves_the_rest_unsent_and_says_so() {
    let server = RedisServer::start(&[]);
    let options = "connectionsPerThread=2 rate.operationsPerSecond=500 duration=60s responseTimeout=500ms progressInterval=20ms";
    let mut running = Running::start(server.port, options, None);
    running.until_loading();
    server.signal(Signal::SIGSTOP);
    let ended = running.wait();
    server.signal(Signal::SIGCONT);
    assert_eq!(ended.code, 8, "{ended:?}");
    let schedule = ended.report().schedule.unwrap();
    assert!(schedule.scheduled >= 200 && schedule.answered < schedule.scheduled, "{schedule:?}");
    assert_eq!(schedule.unanswered, schedule.scheduled - schedule.answered);
}

#[test]
fn an_open_loop_ends_soon_after_a_signal() {
    let server = RedisServer::start(&[]);
    let options = "connectionsPerThread=2 rate.operationsPerSecond=3 duration=60s progressInterval=20ms";
    let mut running = Running::start(server.port, options, None);
    running.until_loading();
    running.signal(Signal::SIGTERM);
    let ended = running.wait();
    assert_eq!(ended.code, 143, "{ended:?}");
    let schedule = ended.report().schedule.unwrap();
    assert_eq!(schedule.scheduled, schedule.answered);
    assert_eq!(server.calls("get") + server.calls("set"), schedule.answered);
}

#[test]
fn a_server_that_cannot_follow_gives_a_result_with_everything_that_was_due_in_it() {
    let server = RedisServer::start(&["--enable-debug-command", "yes"]);
    // A hundred of these a second at most.
    let ended = run_mix(
        server.port,
        "connectionsPerThread=4 rate.operationsPerSecond=1000 duration=1s drain=500ms",
        &["command DEBUG SLEEP 0.01"],
    );
    assert_eq!(ended.code, 0, "an overload is a result: {ended:?}");
    let report = ended.report();
    let schedule = report.schedule.as_ref().unwrap();
    assert_eq!(schedule.scheduled, 1000, "{schedule:?}");
    assert_eq!(schedule.answered + schedule.unanswered, 1000, "{schedule:?}");
    // How many depends on when the server writes what it has ready.
    assert!((1..200).contains(&schedule.answered), "{schedule:?}");
    let debug = report.operation("DEBUG").unwrap();
    assert_eq!(debug.count, schedule.answered);
    assert_eq!(latencies(debug), 1000, "what is unanswered counts with its wait");
    let latency = debug.latency_milliseconds;
    assert!((450.0..1_700.0).contains(&latency.p50.unwrap()), "{latency:?}");
    assert!(latency.max >= Some(1_400.0), "the first ones wait until the end: {latency:?}");
    assert!(report.window_seconds < 2.0, "the window ends with the last answer: {}", report.window_seconds);
    assert!(ended.took < Duration::from_secs(4), "the drain is bounded: {:?}", ended.took);
}

#[test]
fn answers_after_the_end_do_not_make_a_server_follow() {
    let server = RedisServer::start(&["--enable-debug-command", "yes"]);
    // Two hundred of these a second at most: an overload of 140 %.
    let ended = run_mix(
        server.port,
        "connectionsPerThread=4 rate.operationsPerSecond=280 duration=4s drain=15s",
        &["command DEBUG SLEEP 0.005"],
    );
    let schedule = ended.report().schedule.unwrap();
    assert_eq!((schedule.scheduled, schedule.answered, schedule.unanswered), (1120, 1120, 0));
    assert!(schedule.answered_in_time < Some(0.9), "{schedule:?}");
}

#[test]
fn what_a_stalled_server_does_not_accept_is_counted_without_being_stored() {
    let server = RedisServer::start(&[]);
    let options = "connectionsPerThread=2 ratio=1:0 dataSize=200000 rate.operationsPerSecond=500 duration=2s \
        drain=300ms keyMaximum=9 progressInterval=20ms";
    let mut running = Running::start(server.port, options, None);
    running.until_loading();
    server.signal(Signal::SIGSTOP);
    let ended = running.wait();
    server.signal(Signal::SIGCONT);
    assert_eq!(ended.code, 0, "{ended:?}");
    let schedule = ended.report().schedule.unwrap();
    assert_eq!(schedule.scheduled, 1000, "{schedule:?}");
    let unsent = schedule.scheduled - schedule.sent;
    assert!(unsent > 100 && schedule.unanswered >= unsent, "{schedule:?}");
    assert!(
        schedule.lag_milliseconds.max > Some(500.0),
        "the lag of what was never written is its wait: {schedule:?}"
    );
}

#[test]
fn a_rate_over_a_short_window_is_the_declared_one() {
    let server = RedisServer::start(&[]);
    let options = "connectionsPerThread=1 rate.operationsPerSecond=10 duration=1s keyMaximum=9";
    let report = run(server.port, options).report();
    assert_eq!(report.totals.count, 10);
    let rate = report.totals.operations_per_second;
    assert!((9.8..=10.01).contains(&rate), "ten requests of a second are 10/s, not {rate}/s");
}

#[test]
fn pods_share_a_rate() {
    let server = RedisServer::start(&[]);
    let pod = |index: u32| {
        let options = format!(
            "connectionsPerThread=2 rate.operationsPerSecond=400 clients=2 clientIndex={index} duration=1s seed=5"
        );
        Running::start(server.port, &options, None)
    };
    let pods = [pod(0), pod(1)];
    for pod in pods {
        let schedule = pod.wait().report().schedule.unwrap();
        assert_eq!((schedule.scheduled, schedule.answered), (200, 200), "{schedule:?}");
        assert!((schedule.operations_per_second - 200.0).abs() < 1e-9, "{schedule:?}");
    }
}
