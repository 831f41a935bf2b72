//! TLS and users with limited rights.

use crate::support::{RedisServer, Running, free_port, run, wait_for, write_certificates};
use dragstrip_loadgen::counts::report::FailureKind;
use dragstrip_loadgen::wire::tls::{TlsClient, TlsOptions};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_rustls::rustls::HandshakeKind;

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
    let client = format!(
        "server.tls.certificateFile={} server.tls.keyFile={}",
        file("client.pem"),
        file("client.key")
    );
    let load = "ratio=1:1 requestsPerConnection=60 pipeline=20 keyMaximum=9 dataSize=20000";
    let trusted = format!("server.tls.caFile={ca} server.tls.serverName=server.test {client}");
    let ended = run(tls_port, &format!("{trusted} resp3=true {load}"));
    assert_eq!(ended.code, 0, "{ended:?}");
    let report = ended.report();
    assert_eq!(report.totals.count, 1200);
    assert_eq!((server.calls("set"), server.calls("get")), (600, 600));
    let insecure = run(tls_port, &format!("server.tls.insecure=true {client} {load}"));
    assert_eq!((insecure.code, insecure.report().totals.count), (0, 1200), "{insecure:?}");
    for (options, reason) in [
        (format!("server.tls.caFile={ca} {client}"), "not valid for name"),
        (format!("server.tls.serverName=server.test {client}"), "UnknownIssuer"),
        ("server.tls.insecure=true".to_owned(), "CertificateRequired"),
        (String::new(), ""),
    ] {
        let refused = run(tls_port, &format!("{options} requestsPerConnection=1 connectTimeout=2s"));
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
            let mut stream = client.connect("server.test", socket).await.unwrap();
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
        "server.tls.insecure=true threads=2 connectionsPerThread=300 requestsPerConnection=3 ratio=0:1 keyMaximum=9",
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
        "server.username=reader ratio=1:1 requestsPerConnection=20 connectionsPerThread=2 keyMaximum=9",
        Some("half-open"),
    )
    .wait();
    assert_eq!(ended.code, 10, "{ended:?}");
    let report = ended.report();
    let (set, get) = (report.operation("SET").unwrap(), report.operation("GET").unwrap());
    assert_eq!((set.count, set.errors, get.count, get.errors), (0, 20, 20, 0));
    assert_eq!(report.errors.len(), 1);
    assert_eq!((report.errors[0].kind.as_str(), report.errors[0].count), ("NOPERM", 20));
    let wrong =
        Running::start(server.port, "server.username=reader requestsPerConnection=1", Some("wrong")).wait();
    assert_eq!(wrong.report().failure.unwrap().kind, FailureKind::Authentication, "{wrong:?}");
}
