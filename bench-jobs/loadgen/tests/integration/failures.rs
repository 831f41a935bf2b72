//! Whatever goes wrong, the run ends soon, reports what happened and where, and
//! leaves a result that nobody can mistake for a complete one.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::time::Duration;

use dragstrip_loadgen::counts::report::{FailureKind, RunStatus};
use nix::sys::signal::Signal;

use crate::support::{Ended, RedisServer, Running, free_port, run, unix_nanos};

const ENDLESS: &str = "duration=60s progressInterval=50ms keyMaximum=999 ratio=1:1";

fn assert_failed(ended: &Ended, code: i32, kind: FailureKind, address: &str) {
    assert_eq!(ended.code, code, "{ended:?}");
    let report = ended.report();
    assert_eq!(report.status, RunStatus::Failed);
    assert_eq!(i32::from(report.exit_code), code);
    let failure = report.failure.unwrap();
    assert_eq!(failure.kind, kind);
    assert!(failure.message.contains(address), "{}", failure.message);
    assert!(ended.stderr.contains(&format!("error: {}", failure.message)), "{}", ended.stderr);
}

#[test]
fn a_refused_connection_names_the_address() {
    let port = free_port();
    let ended = run(port, "requestsPerConnection=1");
    assert_failed(&ended, 4, FailureKind::Connect, &format!("cannot connect to 127.0.0.1:{port}"));
    assert_eq!(ended.report().totals.requests, 0);
}

#[test]
fn an_unknown_host_is_a_failure_of_name_resolution() {
    let ended = run(7, "server.host=no-such-host.invalid connectTimeout=1s requestsPerConnection=1");
    assert_failed(&ended, 3, FailureKind::NameResolution, "cannot resolve no-such-host.invalid:7");
    assert!(ended.took < Duration::from_secs(3));
}

#[test]
fn a_wrong_password_is_refused_with_the_servers_words() {
    let server = RedisServer::start(&["--requirepass", "right"]);
    let ended = Running::start(server.port, "requestsPerConnection=1", Some("not-this-one")).wait();
    assert_failed(&ended, 5, FailureKind::Authentication, &format!("127.0.0.1:{}", server.port));
    assert!(ended.stderr.contains("WRONGPASS"), "{}", ended.stderr);
    assert!(!format!("{ended:?}").contains("not-this-one"));
    let ended = run(server.port, "requestsPerConnection=1 resp3=true");
    assert_failed(&ended, 5, FailureKind::Authentication, "NOAUTH");
}

#[test]
fn a_server_killed_in_the_run_keeps_the_partial_result() {
    let server = RedisServer::start(&[]);
    let mut running = Running::start(server.port, ENDLESS, None);
    running.until_loading();
    server.signal(Signal::SIGKILL);
    let ended = running.wait();
    assert_failed(&ended, 7, FailureKind::ConnectionLost, &format!("127.0.0.1:{}", server.port));
    let report = ended.report();
    assert!(report.totals.count > 0 && report.window_seconds > 0.0);
    assert!(report.totals.requests > report.totals.count);
}

#[test]
fn a_frozen_server_ends_the_run_after_the_response_timeout() {
    let server = RedisServer::start(&[]);
    let mut running = Running::start(server.port, &format!("{ENDLESS} responseTimeout=400ms"), None);
    running.until_loading();
    server.signal(Signal::SIGSTOP);
    let ended = running.wait();
    assert_failed(&ended, 8, FailureKind::ResponseTimeout, &format!("127.0.0.1:{}", server.port));
    assert!(ended.report().totals.count > 0);
    assert!(ended.took < Duration::from_secs(4), "{:?}", ended.took);
}

#[test]
fn a_frozen_server_does_not_hold_up_sigterm() {
    let server = RedisServer::start(&[]);
    let mut running = Running::start(server.port, ENDLESS, None);
    running.until_loading();
    server.signal(Signal::SIGSTOP);
    running.signal(Signal::SIGTERM);
    let ended = running.wait();
    assert_eq!(ended.code, 143, "{ended:?}");
    assert_eq!(ended.report().status, RunStatus::Interrupted);
}

#[test]
fn signals_end_the_run_with_exact_partial_counts() {
    for (signal, code, name) in [(Signal::SIGTERM, 143, "SIGTERM"), (Signal::SIGINT, 130, "SIGINT")] {
        let server = RedisServer::start(&[]);
        let mut running = Running::start(server.port, &format!("{ENDLESS} pipeline=10"), None);
        running.until_loading();
        running.signal(signal);
        let ended = running.wait();
        assert_eq!(ended.code, code, "{ended:?}");
        let report = ended.report();
        assert_eq!((report.status, report.interrupted.as_deref()), (RunStatus::Interrupted, Some(name)));
        assert_eq!(report.totals.requests, report.totals.count);
        assert_eq!(server.calls("set"), report.operation("SET").unwrap().count);
        assert_eq!(server.calls("get"), report.operation("GET").unwrap().count);
    }
}

#[test]
fn all_connections_start_at_the_wanted_instant() {
    let server = RedisServer::start(&[]);
    let line = unix_nanos() + 700_000_000;
    let options =
        format!("threads=2 connectionsPerThread=5 requestsPerConnection=10 startAtUnixNanos={line}");
    let ended = run(server.port, &options);
    assert_eq!(ended.code, 0, "{ended:?}");
    let report = ended.report();
    // Nothing leaves early; how late depends on who else uses this machine.
    let started = report.started_at_unix_nanos.unwrap();
    assert!((line..line + 300_000_000).contains(&started), "started {started}, wanted {line}");
}

#[test]
fn a_signal_before_the_line_ends_the_wait() {
    let server = RedisServer::start(&[]);
    let line = unix_nanos() + 60_000_000_000;
    let running =
        Running::start(server.port, &format!("requestsPerConnection=1 startAtUnixNanos={line}"), None);
    let deadline = std::time::Instant::now() + Duration::from_secs(5);
    while server.info("clients", "connected_clients:") < 21 {
        assert!(std::time::Instant::now() < deadline, "the connections were not made");
    }
    running.signal(Signal::SIGTERM);
    let ended = running.wait();
    assert_eq!(ended.code, 143, "{ended:?}");
    assert_eq!(ended.report().totals.requests, 0);
}

/// A server of one connection that answers `words` to whatever it receives.
fn impostor(words: &'static [u8]) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut buffer = [0; 1024];
        while stream.read(&mut buffer).is_ok_and(|length| length > 0) {
            stream.write_all(words).unwrap();
        }
    });
    port
}

#[test]
fn something_other_than_resp_is_a_protocol_failure() {
    let port = impostor(b"HTTP/1.1 400 Bad Request\r\n\r\n");
    let ended = run(port, "connectionsPerThread=1 requestsPerConnection=5");
    assert_failed(&ended, 9, FailureKind::Protocol, &format!("127.0.0.1:{port}"));
    let port = impostor(b"+OK\r\n+OK\r\n+OK\r\n");
    let ended = run(port, "connectionsPerThread=1 ratio=1:0 requestsPerConnection=5");
    assert_failed(&ended, 9, FailureKind::Protocol, "2 more replies than requests");
}

#[test]
fn a_server_that_never_answers_the_handshake_is_given_up() {
    let port = impostor(b"");
    let running = Running::start(port, "requestsPerConnection=5 connectTimeout=300ms", Some("secret"));
    let ended = running.wait();
    assert_failed(&ended, 6, FailureKind::Handshake, "cannot authenticate (AUTH)");
    assert!(ended.took < Duration::from_secs(3));
}

#[test]
fn unusable_specifications_and_report_files_are_found_out_before_the_load() {
    let server = RedisServer::start(&[]);
    assert_eq!(run(server.port, "requestsPerConnection=1 pipeline=0").code, 2);
    assert_eq!(run(server.port, "duration=forever").code, 2);
    let path = tempfile::tempdir().unwrap().path().join("gone").join("result.json");
    let options = format!("requestsPerConnection=1 reportFile={}", path.display());
    let ended = run(server.port, &options);
    assert_eq!(ended.code, 11, "{ended:?}");
    assert_eq!(server.calls("get"), 0);
}
