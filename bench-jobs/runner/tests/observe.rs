//! The observer as a whole: the real program beside a real redis-server.

// A helper of a test is a test too, which clippy cannot see.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, dead_code)]

#[path = "support/observer.rs"]
mod observer;
#[path = "support/redis.rs"]
mod redis;

use dragstrip_crds::Engine;
use dragstrip_results::{observed::Observation, orders::SigningKey};
use observer::{Observer, TOKEN};
use redis::{Redis, wait_for};

const PASSWORD: &str = "Correct-Horse-77";
#[tokio::test]
async fn an_observer_with_the_operators_key_obeys_nobody_else() {
    let server = Redis::start(&[]).await;
    let key = || SigningKey::read(&SigningKey::generate().unwrap()).unwrap();
    let operator = key();
    let observer = Observer::with_key(server.port, "", &String::from(operator.public()));
    assert_eq!(observer.get("/v1/observed", TOKEN).await.0, 200, "a question needs the token alone");
    let sample = serde_json::json!({"token": "run/read-1", "seconds": 5});
    let victim = format!("127.0.0.1:{}", server.port);
    let join = serde_json::json!({"replication": {"primary": victim, "replicas": ["10.0.0.9:6379"]}});
    for (path, order) in [("/v1/usage", &sample), ("/v1/topology", &join)] {
        let (status, told) = observer.post(path, TOKEN, order).await;
        assert!(status == 403 && told.contains("must be signed"), "{path}: {status} {told}");
        let (status, told) = observer.signed(&key(), path, order).await;
        assert!(status == 403 && told.contains("does not fit"), "{path}: {status} {told}");
    }
    let window = "/v1/usage?token=run/read-1&fromUnixNanos=0&toUnixNanos=1";
    assert_eq!(observer.get(window, TOKEN).await.0, 403, "who asks for the use ends the sampling");
    let (status, told) = observer.signed(&operator, "/v1/usage", &sample).await;
    assert_eq!(status, 200, "{told}");
}

#[tokio::test]
async fn the_truth_is_told_to_who_may_ask() {
    let server = Redis::start(&["--requirepass", PASSWORD, "--io-threads", "2", "--maxmemory", "64mb"]).await;
    let observer = Observer::start(server.port, PASSWORD);
    assert_eq!(observer.get("/ready", "").await.0, 200);
    assert_eq!(observer.get("/v1/observed", "another token").await.0, 403);
    let (status, text) = observer.get("/v1/observed", TOKEN).await;
    assert_eq!(status, 200, "{text}");
    let observation: Observation = serde_json::from_str(&text).unwrap();
    assert_eq!((observation.server.engine, observation.server.threads), (Some(Engine::Redis), Some(2)));
    assert_eq!(observation.server.max_memory_bytes, Some(64 << 20));
    assert_eq!(observation.server.run_id, server.run_id());
    assert!(observation.host.cpus > 0 && !observation.host.kernel.is_empty());
    let (_, metrics) = observer.get("/metrics", "").await;
    assert!(metrics.contains("dragstrip_server_up{engine=\"Redis\"} 1\n"), "{metrics}");
    assert!(metrics.contains("dragstrip_server_max_memory_bytes{engine=\"Redis\"} 67108864\n"), "{metrics}");
    assert!(!metrics.contains(PASSWORD) && !text.contains(PASSWORD));
}

#[tokio::test]
async fn readiness_follows_the_server() {
    let mut server = Redis::start(&["--requirepass", PASSWORD]).await;
    let observer = Observer::start(server.port, PASSWORD);
    assert_eq!(observer.get("/ready", "").await.0, 200);
    server.stop();
    let (status, text) = observer.get("/ready", "").await;
    assert_eq!(status, 503);
    assert!(text.contains("no TCP connection"), "{text}");
    assert!(observer.get("/metrics", "").await.1.contains("dragstrip_server_up{engine=\"\"} 0"));
    server.restart().await;
    wait_for("readiness", async || (observer.get("/ready", "").await.0 == 200).then_some(())).await;
}

#[tokio::test]
async fn a_wrong_password_is_never_ready() {
    let server = Redis::start(&["--requirepass", "another-password"]).await;
    let observer = Observer::start(server.port, PASSWORD);
    let (status, text) = observer.get("/ready", "").await;
    assert_eq!(status, 503);
    assert!(text.contains("WRONGPASS") && !text.contains(PASSWORD), "{text}");
}

#[tokio::test]
async fn a_ready_server_is_not_asked_at_every_probe() {
    let server = Redis::start(&[]).await;
    let observer = Observer::start(server.port, "");
    assert_eq!(observer.get("/ready", "").await.0, 200);
    server.ask("CONFIG RESETSTAT");
    for _ in 0..20 {
        assert_eq!(observer.get("/ready", "").await.0, 200);
    }
    let counted = server.ask("INFO commandstats").unwrap();
    assert!(!counted.contains("cmdstat_info") && !counted.contains("cmdstat_ping"), "{counted}");
}

#[tokio::test]
async fn readiness_is_shown_by_two_connections() {
    let server = Redis::start(&[]).await;
    let observer = Observer::start(server.port, "");
    server.ask("CONFIG RESETSTAT");
    assert_eq!(observer.get("/ready", "").await.0, 200);
    let counted = server.ask("INFO stats").unwrap();
    assert!(counted.contains("total_connections_received:3\r\n"), "two and this question: {counted}");
}

#[tokio::test]
async fn a_probe_keeps_one_connection_and_costs_little() {
    let server = Redis::start(&["--requirepass", PASSWORD]).await;
    let observer = Observer::start(server.port, PASSWORD);
    observer.get("/ready", "").await;
    let probes = 50;
    let before = observer.cpu_seconds();
    for _ in 0..probes {
        assert_eq!(observer.get("/ready", "").await.0, 200);
    }
    let each = (observer.cpu_seconds() - before) / f64::from(probes);
    // Asked once a second this is the share of a core.
    assert!(each < 0.005, "{each} s of CPU per probe");
    let clients = server.ask("CLIENT LIST").unwrap().matches("id=").count();
    assert_eq!(clients, 2, "the observer and this question");
}
