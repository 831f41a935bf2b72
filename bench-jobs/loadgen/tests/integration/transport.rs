//! Unix sockets, TLS and users with limited rights.

use crate::support::{RedisServer, Running, free_port, run, wait_for, write_certificates};
use dragstrip_loadgen::counts::report::FailureKind;
use dragstrip_loadgen::wire::tls::{TlsClient, TlsOptions};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_rustls::rustls::HandshakeKind;

#[test]
fn a_unix_socket_carries_the_load() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("redis.sock");
    let path = socket.to_str().unwrap();
    let server = RedisServer::start(&["--unixsocket", path]);
    let words = [
        "--unix-socket",
        path,
        "--ratio",
        "1:1",
        "--requests",
        "50",
        "--pipeline",
        "5",
        "--key-maximum",
        "9",
    ];
    let ended = Running::start_words(&words, None).wait();
    assert_eq!(ended.code, 0, "{ended:?}");
    let report = ended.report();
    assert_eq!(report.totals.count, 1000);
    assert_eq!(server.answered(), report.commands);
    assert_eq!(report.configuration.unix_socket.as_deref(), Some(path));
    let gone = directory.path().join("gone.sock");
    let ended =
        Running::start_words(&["--unix-socket", gone.to_str().unwrap(), "--requests", "1"], None).wait();
    assert_eq!(ended.code, 4, "{ended:?}");
    assert!(ended.stderr.contains("gone.sock"), "{}", ended.stderr);
}

#[test]
fn tls_carries_the_load_and_checks_certificates() {
    let directory = tempfile::tempdir().unwrap();
    write_certificates(directory.path());
    let file = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (ca, certificate, key) = (file("ca.pem"), file("server.pem"), file("server.key"));
    let tls_port = free_port();
    let text = tls_port.to_string();
    let server = RedisServer::start(&[
        "--tls-port",
        &text,
        "--tls-cert-file",
        &certificate,
        "--tls-key-file",
        &key,
        "--tls-ca-cert-file",
        &ca,
    ]);
    wait_for("the TLS port", || std::net::TcpStream::connect(("127.0.0.1", tls_port)).ok());
    let client = format!("--tls-cert-file {} --tls-key-file {}", file("client.pem"), file("client.key"));
    let load = "--ratio 1:1 --requests 60 --pipeline 20 --key-maximum 9 --data-size 20000";
    let trusted = format!("--tls --tls-ca-file {ca} --tls-server-name server.test {client}");
    let ended = run(tls_port, &format!("{trusted} --protocol resp3 {load}"));
    assert_eq!(ended.code, 0, "{ended:?}");
    let report = ended.report();
    assert_eq!((report.totals.count, report.configuration.tls.as_str()), (1200, "verified"));
    assert_eq!((server.calls("set"), server.calls("get")), (600, 600));
    let insecure = run(tls_port, &format!("--tls --tls-insecure {client} {load}"));
    assert_eq!(
        (insecure.code, insecure.report().configuration.tls.as_str()),
        (0, "insecure"),
        "{insecure:?}"
    );
    for (options, reason) in [
        (format!("--tls --tls-ca-file {ca} {client}"), "not valid for name"),
        (format!("--tls --tls-server-name server.test {client}"), "UnknownIssuer"),
        ("--tls --tls-insecure".to_owned(), "CertificateRequired"),
        (String::new(), ""),
    ] {
        let refused = run(tls_port, &format!("{options} --requests 1 --connect-timeout 2s"));
        assert!([6, 7, 9].contains(&refused.code), "{options}: {refused:?}");
        let failure = refused.report().failure.unwrap();
        assert!(failure.message.contains(reason), "{options}: {failure:?}");
    }
}

#[test]
fn a_session_of_tls_is_never_resumed_and_many_connections_are_made_at_a_time() {
    let directory = tempfile::tempdir().unwrap();
    write_certificates(directory.path());
    let file = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let tls_port = free_port();
    let _server = RedisServer::start(&[
        "--tls-port",
        &tls_port.to_string(),
        "--tls-cert-file",
        &file("server.pem"),
        "--tls-key-file",
        &file("server.key"),
        "--tls-auth-clients",
        "no",
    ]);
    wait_for("the TLS port", || std::net::TcpStream::connect(("127.0.0.1", tls_port)).ok());
    let client = TlsClient::new(&TlsOptions { insecure: true, ..TlsOptions::default() }).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for number in 0..3 {
        let kind = runtime.block_on(async {
            let socket = tokio::net::TcpStream::connect(("127.0.0.1", tls_port)).await.unwrap();
            let name = client.name_of("server.test").unwrap();
            let mut stream = client.connector.connect(name, socket).await.unwrap();
            // Tickets come after the handshake.
            stream.write_all(b"PING\r\n").await.unwrap();
            stream.flush().await.unwrap();
            stream.read_u8().await.unwrap();
            stream.get_ref().1.handshake_kind()
        });
        assert_eq!(kind, Some(HandshakeKind::Full), "connection {number} resumed the session of one before");
    }
    let ended = run(
        tls_port,
        "--tls --tls-insecure --threads 2 --connections-per-thread 300 --requests 3 --ratio 0:1 --key-maximum 9",
    );
    assert_eq!((ended.code, ended.report().totals.count), (0, 1800), "{ended:?}");
    println!("600 TLS connections and their load took {:?}", ended.took);
}

#[test]
fn what_a_user_may_not_do_is_an_error_of_its_own_kind() {
    let server = RedisServer::start(&[]);
    server.ask(&["ACL SETUSER reader on >half-open ~* -@all +get"]);
    let ended = Running::start(
        server.port,
        "--username reader --ratio 1:1 --requests 20 --connections-per-thread 2 --key-maximum 9",
        Some("half-open"),
    )
    .wait();
    assert_eq!(ended.code, 10, "{ended:?}");
    let report = ended.report();
    let (set, get) = (report.operation("SET").unwrap(), report.operation("GET").unwrap());
    assert_eq!((set.count, set.errors, get.count, get.errors), (0, 20, 20, 0));
    assert_eq!(report.errors.len(), 1);
    assert_eq!((report.errors[0].kind.as_str(), report.errors[0].count), ("NOPERM", 20));
    let wrong = Running::start(server.port, "--username reader --requests 1", Some("wrong")).wait();
    assert_eq!(wrong.report().failure.unwrap().kind, FailureKind::Authentication, "{wrong:?}");
}
