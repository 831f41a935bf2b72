//! Runs through client libraries: their counts agree exactly with the server's.

use std::time::Duration;

use dragstrip_crds::workload::Client;
use dragstrip_loadgen::counts::report::{FailureKind, Report, RunStatus};
use nix::sys::signal::Signal;

use crate::support::{
    RedisServer, Running, free_port, latencies, openssl, run, unix_nanos, wait_for, write_certificates,
};

/// Every way to use a library that can do everything.
const CLIENTS: [&str; 4] = [
    "client=RedisRs",
    "client=RedisRs library.connectionKind=ConnectionManager resp3=true",
    "client=Fred",
    "client=Bb8Redis",
];

/// Declares INCR, which each task sends for a key of its own.
const INCR: &str = r#"operations=[{"operation":"Incr"}]"#;

fn completed(server: &RedisServer, options: &str) -> Report {
    let ended = run(server.port, options);
    assert_eq!(ended.code, 0, "{options}: {ended:?}");
    let report = ended.report();
    assert_eq!(report.status, RunStatus::Completed, "{options}");
    report
}

fn assert_consistent(report: &Report, what: &str) {
    let operation = &report.operations[0];
    assert_eq!(operation.count + operation.errors, report.totals.requests, "{what}");
    assert_eq!(latencies(operation), operation.count, "{what}");
    assert_eq!(operation.per_second.iter().sum::<u64>(), operation.count, "{what}");
    assert!(report.window_seconds > 0.0, "{what}");
}

fn assert_commands_agree(report: &Report, server: &RedisServer, what: &str) {
    assert!(!report.commands.is_empty(), "{what}");
    let load = &report.specification.as_ref().unwrap().loadgen;
    let pool_size = u64::from(load.library.as_ref().unwrap().pool_size.unsigned_abs());
    for (command, &count) in &report.commands {
        // fred greets on each connection with a PING, which is not part of the load.
        let greetings = if load.client == Client::Fred && command == "ping" { pool_size } else { 0 };
        assert_eq!(server.calls(command), count + greetings, "{what}: calls of {command}");
    }
}

#[test]
fn increments_are_counted_exactly_and_in_order() {
    for client in CLIENTS {
        let server = RedisServer::start(&[]);
        let options = format!(
            "{client} {INCR} threads=2 library.tasks=7 library.poolSize=3 library.totalRequests=1001 library.assertExpected=true "
        );
        let report = completed(&server, &options);
        assert_consistent(&report, client);
        assert_eq!(report.operation("INCR").unwrap().count, 1001, "{client}");
        assert_eq!(report.commands["incr"], 1001, "{client}");
        assert_commands_agree(&report, &server, client);
        assert!(server.ask(&["DBSIZE"]).starts_with(":7\r\n"), "{client}: one key for each task");
        let threads = &report.threads;
        assert_eq!(threads.len(), 2, "{client}: {threads:?}");
        assert!(threads.iter().any(|thread| thread.cpu_seconds > 0.0), "{client}: {threads:?}");
    }
}

#[test]
fn several_client_pods_never_count_each_others_keys() {
    let server = RedisServer::start(&[]);
    let pods: Vec<Running> = (0..3)
        .map(|index| {
            let options = format!(
                "client=Fred {INCR} library.tasks=4 library.poolSize=2 duration=300ms library.assertExpected=true seed=7 \
                 clients=3 clientIndex={index} "
            );
            Running::start(server.port, &options, None)
        })
        .collect();
    for pod in pods {
        let ended = pod.wait();
        assert_eq!(ended.code, 0, "a key of this pod was counted by another one: {ended:?}");
    }
    assert!(server.ask(&["DBSIZE"]).starts_with(":12\r\n"), "one key for each task of each pod");
}

#[test]
fn a_pool_has_as_many_connections_as_wanted() {
    for client in CLIENTS {
        let server = RedisServer::start(&[]);
        let mut running = Running::start(
            server.port,
            &format!("{client} {INCR} library.tasks=8 library.poolSize=5 duration=30s progressInterval=20ms"),
            None,
        );
        running.until_loading();
        // One connection is that of this question.
        assert_eq!(server.info("clients", "connected_clients:"), 6, "{client}");
        running.signal(Signal::SIGTERM);
        let ended = running.wait();
        assert_eq!(ended.code, 143, "{client}: {ended:?}");
        assert_eq!(ended.report().status, RunStatus::Interrupted, "{client}");
        assert_eq!(server.calls("incr"), ended.report().operation("INCR").unwrap().count, "{client}");
    }
}

#[test]
fn sets_and_gets_use_the_key_space() {
    for client in CLIENTS {
        let server = RedisServer::start(&[]);
        let keys =
            "keyPrefix=k: keyMinimum=5 keyMaximum=24 dataSize=33 library.tasks=4 library.totalRequests=400";
        let written = completed(&server, &format!("{client} ratio=1:0 {keys}"));
        assert_consistent(&written, client);
        assert_eq!(written.operation("SET").unwrap().count, 400, "{client}");
        let read = completed(&server, &format!("{client} ratio=0:1 {keys}"));
        let get = read.operation("GET").unwrap();
        let (hits, misses) = (get.hits.unwrap(), get.misses.unwrap());
        assert_eq!(hits + misses, 400, "{client}");
        assert_eq!(server.info("stats", "keyspace_hits:"), hits, "{client}");
        assert!(hits > 300, "{client}: 20 keys, drawn 400 times: {get:?}");
        assert!(server.ask(&["STRLEN k:5"]).starts_with(":33\r\n"), "{client}");
        assert_eq!(server.calls("get"), read.commands["get"], "{client}");
    }
}

#[test]
fn error_replies_are_counted_by_kind() {
    for client in CLIENTS {
        let server = RedisServer::start(&[]);
        server.ask(&["LPUSH k:1 a"]);
        let options = format!(
            "{client} ratio=0:1 keyPrefix=k: keyMinimum=1 keyMaximum=1 library.tasks=3 library.totalRequests=60"
        );
        let ended = run(server.port, &options);
        assert_eq!(ended.code, 10, "{client}: {ended:?}");
        let report = ended.report();
        let get = report.operation("GET").unwrap();
        assert_eq!((get.count, get.errors, report.totals.requests), (0, 60, 60), "{client}");
        assert_eq!((report.errors[0].kind.as_str(), report.errors[0].count), ("WRONGTYPE", 60), "{client}");
        assert!(
            report.errors[0].first_message.contains("wrong kind of value"),
            "{client}: {:?}",
            report.errors
        );
    }
}

#[test]
fn a_server_killed_in_the_run_fails_it() {
    for client in CLIENTS {
        let server = RedisServer::start(&[]);
        let options =
            format!("{client} {INCR} library.tasks=10 library.poolSize=2 duration=60s progressInterval=20ms");
        let mut running = Running::start(server.port, &options, None);
        running.until_loading();
        server.signal(Signal::SIGKILL);
        let ended = running.wait();
        assert_eq!(ended.code, 7, "{client}: {ended:?}");
        let report = ended.report();
        assert_eq!(report.status, RunStatus::Failed, "{client}");
        assert_eq!(report.failure.unwrap().kind, FailureKind::ConnectionLost, "{client}");
        assert!(report.totals.count > 0, "{client}");
    }
}

/// Whether the connection breaks under a request or under a pool's own check.
#[test]
fn a_connection_the_server_cuts_ends_the_run() {
    for client in CLIENTS {
        let server = RedisServer::start(&[]);
        let options =
            format!("{client} {INCR} library.tasks=10 library.poolSize=2 duration=60s progressInterval=20ms");
        let mut running = Running::start(server.port, &options, None);
        running.until_loading();
        server.ask(&["CLIENT KILL TYPE normal"]);
        let ended = running.wait();
        assert_eq!(ended.code, 7, "{client}: {ended:?}");
        assert_eq!(ended.report().failure.unwrap().kind, FailureKind::ConnectionLost, "{client}");
        assert!(ended.took < Duration::from_secs(6), "{client}: {:?}", ended.took);
    }
}

#[test]
fn a_frozen_server_ends_the_run_after_the_response_timeout() {
    for client in CLIENTS {
        let server = RedisServer::start(&[]);
        let options = format!(
            "{client} {INCR} library.tasks=3 duration=60s responseTimeout=400ms progressInterval=20ms"
        );
        let mut running = Running::start(server.port, &options, None);
        running.until_loading();
        server.signal(Signal::SIGSTOP);
        let ended = running.wait();
        assert_eq!(ended.code, 8, "{client}: {ended:?}");
        assert_eq!(ended.report().failure.unwrap().kind, FailureKind::ResponseTimeout, "{client}");
        assert!(ended.took < Duration::from_secs(6), "{client}: {:?}", ended.took);
    }
}

#[test]
fn an_absent_server_and_a_wrong_password_have_different_exit_codes() {
    let server = RedisServer::start(&["--requirepass", "right"]);
    let unused = free_port();
    for client in CLIENTS {
        let options = format!("{client} {INCR} library.totalRequests=5 connectTimeout=2s");
        let ended = run(unused, &options);
        assert_eq!(ended.code, 4, "{client}: {ended:?}");
        let ended = Running::start(server.port, &options, Some("not-this-one")).wait();
        assert_eq!(ended.code, 5, "{client}: {ended:?}");
        assert!(!format!("{ended:?}").contains("not-this-one"), "{client}");
        let ended = Running::start(server.port, &options, Some("right")).wait();
        assert_eq!(ended.code, 0, "{client}: {ended:?}");
    }
}

#[test]
fn batches_are_complete_and_their_commands_agree_with_the_server() {
    for client in CLIENTS {
        for (operation, name) in
            [("Mset", "MSET"), ("SetExpire", "SET"), ("MsetExpire", "MSET+EXPIREAT"), ("Mget", "MGET")]
        {
            let what = format!("{client} {operation}");
            let server = RedisServer::start(&[]);
            let options = format!(
                "{client} batch.operation={operation} library.poolSize=4 batch.parallelism=3 batch.items=250 batch.batchSize=100 \
                 batch.keySize=12 dataSize=8 warmup=30ms duration=150ms"
            );
            let report = completed(&server, &options);
            assert_consistent(&report, &what);
            assert_commands_agree(&report, &server, &what);
            let batches = report.batches.clone().unwrap();
            assert_eq!((batches.items, batches.batch_size), (250, 100), "{what}");
            let per_batch = if name == "SET" { 250 } else { 3 };
            let counted = report.operation(name).unwrap();
            assert_eq!(counted.count, batches.iterations * per_batch, "{what}");
            let time = batches.seconds_per_batch;
            assert!(time.low <= time.mid && time.mid <= time.high && time.low > 0.0, "{what}: {time:?}");
            if operation == "Mget" {
                assert_eq!(
                    (counted.hits, counted.misses),
                    (Some(batches.iterations * 250), Some(0)),
                    "{what}"
                );
            }
            if operation.ends_with("Expire") {
                let keyspace = server.ask(&["INFO keyspace"]);
                assert!(keyspace.contains("keys=250,expires=250"), "{what}: {keyspace}");
            }
        }
    }
}

#[test]
fn errors_within_a_pipeline_are_counted_one_by_one() {
    for client in CLIENTS {
        let server = RedisServer::start(&["--maxmemory", "1", "--maxmemory-policy", "noeviction"]);
        let options = format!(
            "{client} batch.operation=SetExpire library.poolSize=1 batch.items=30 batch.batchSize=10 dataSize=8 duration=50ms"
        );
        let ended = run(server.port, &options);
        assert_eq!(ended.code, 10, "{client}: {ended:?}");
        let report = ended.report();
        let set = report.operation("SET").unwrap();
        assert_eq!(
            (set.count, set.errors),
            (0, report.batches.as_ref().unwrap().iterations * 30),
            "{client}"
        );
        assert_eq!((report.errors[0].kind.as_str(), report.errors[0].count), ("OOM", set.errors), "{client}");
    }
}

#[test]
fn a_warm_up_is_left_out_of_the_figures_but_not_of_the_commands() {
    for client in CLIENTS {
        let server = RedisServer::start(&[]);
        let options = format!(
            "{client} {INCR} library.tasks=5 warmup=100ms duration=200ms library.assertExpected=true"
        );
        let begun = unix_nanos();
        let report = completed(&server, &options);
        assert_consistent(&report, client);
        let incr = report.operation("INCR").unwrap();
        assert!(report.commands["incr"] > incr.count && incr.count > 0, "{client}: {incr:?}");
        assert_commands_agree(&report, &server, client);
        let after = report.started_at_unix_nanos.unwrap() - begun;
        assert!(after >= 100_000_000, "{client}: the measured part began {after} ns after the run");
    }
}

#[test]
fn encrypted_connections_serve_as_well_and_certificates_count() {
    let directory = tempfile::tempdir().unwrap();
    write_certificates(directory.path());
    let issued = "-CA ca.pem -CAkey ca.key -addext basicConstraints=critical,CA:FALSE";
    let local = format!("-subj /CN=local -addext subjectAltName=IP:127.0.0.1 {issued}");
    openssl(directory.path(), &format!("{local} -keyout local.key -out local.pem"));
    let file = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let port = free_port();
    let server = RedisServer::start(&[
        "--tls-port",
        &port.to_string(),
        "--tls-cert-file",
        &file("local.pem"),
        "--tls-key-file",
        &file("local.key"),
        "--tls-ca-cert-file",
        &file("ca.pem"),
    ]);
    wait_for("the TLS port", || std::net::TcpStream::connect(("127.0.0.1", port)).ok());
    let client_files = format!(
        "server.tls.certificateFile={} server.tls.keyFile={}",
        file("client.pem"),
        file("client.key")
    );
    let load = format!("{INCR} library.tasks=2 library.totalRequests=50 connectTimeout=3s");
    let mut expected = 0;
    for client in CLIENTS {
        for trust in [format!("server.tls.caFile={}", file("ca.pem")), "server.tls.insecure=true".into()] {
            let ended = run(port, &format!("{client} {trust} {client_files} {load}"));
            assert_eq!(ended.code, 0, "{client} {trust}: {ended:?}");
            expected += 50;
            assert_eq!(server.calls("incr"), expected, "{client} {trust}");
        }
        for trust in [format!("server.tls.caFile={}", file("client.pem")), String::new()] {
            let ended = run(port, &format!("{client} {trust} {client_files} {load}"));
            assert!(
                [4, 6].contains(&ended.code),
                "{client} {trust}: another authority was trusted: {ended:?}"
            );
        }
    }
}

#[test]
fn users_with_limited_rights_get_errors_of_their_own_kind() {
    for client in CLIENTS {
        let server = RedisServer::start(&[]);
        server.ask(&["ACL SETUSER reader on >half-open ~* -@all +get +hello +client +ping +info"]);
        let options = format!("{client} server.username=reader library.tasks=2 library.totalRequests=20");
        let ended = Running::start(server.port, &format!("{options} {INCR}"), Some("half-open")).wait();
        assert_eq!(ended.code, 10, "{client}: {ended:?}");
        let report = ended.report();
        assert_eq!((report.errors[0].kind.as_str(), report.errors[0].count), ("NOPERM", 20), "{client}");
        let ended = Running::start(server.port, &format!("{options} ratio=0:1"), Some("half-open")).wait();
        assert_eq!(ended.code, 0, "{client}: {ended:?}");
    }
}
