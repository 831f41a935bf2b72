//! The complete observer: the real program beside a real redis-server.

// A helper of a test is a test too, which clippy cannot see.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, dead_code)]

#[path = "support/observer.rs"]
mod observer;
#[path = "support/redis.rs"]
mod redis;
#[path = "support/signing.rs"]
mod signing;

use dragstrip_crds::Engine;
use dragstrip_results::{memory::MemberMemory, observed::Observation, signing::SigningKey};
use observer::{Observer, TOKEN};
use redis::{Redis, wait_for};

const PASSWORD: &str = "Correct-Horse-77";
#[tokio::test]
async fn an_observer_obeys_the_operator_alone() {
    let server = Redis::start(&[]).await;
    let stranger = SigningKey::read(&SigningKey::generate().unwrap()).unwrap();
    let observer = Observer::start(server.port, "");
    assert_eq!(observer.unsigned("/v1/observed", None).await.0, 200, "a query needs the token alone");
    let sample = serde_json::json!({"token": "run/read-1", "seconds": 5});
    let victim = format!("127.0.0.1:{}", server.port);
    let join = serde_json::json!({"replication": {"primary": victim, "replicas": ["10.0.0.9:6379"]}});
    for (path, command) in [("/v1/usage", &sample), ("/v1/topology", &join)] {
        let (status, message) = observer.unsigned(path, Some(command)).await;
        assert!(status == 403 && message.contains("must be signed"), "{path}: {status} {message}");
        let (status, message) = observer.post_signed(&stranger, path, TOKEN, command).await;
        assert!(status == 403 && message.contains("does not fit"), "{path}: {status} {message}");
    }
    let window = "/v1/usage?token=run/read-1&fromUnixNanos=0&toUnixNanos=1";
    assert_eq!(observer.unsigned(window, None).await.0, 403, "reading the usage ends the sampling");
    let (status, message) = observer.post("/v1/usage", TOKEN, &sample).await;
    assert_eq!(status, 200, "{message}");
}

#[tokio::test]
async fn the_truth_needs_the_token() {
    let persistence = ["--save", "300", "1", "--appendonly", "yes", "--appendfsync", "always"];
    let others = ["--requirepass", PASSWORD, "--io-threads", "2", "--maxmemory", "64mb"];
    let server = Redis::start(&[&others[..], &persistence[..]].concat()).await;
    let observer = Observer::start(server.port, PASSWORD);
    assert_eq!(observer.get("/ready", "").await.0, 200);
    assert_eq!(observer.get("/v1/observed", "another token").await.0, 403);
    let (status, text) = observer.get("/v1/observed", TOKEN).await;
    assert_eq!(status, 200, "{text}");
    let observation: Observation = serde_json::from_str(&text).unwrap();
    assert_eq!((observation.server.engine, observation.server.threads), (Some(Engine::Redis), Some(2)));
    assert_eq!(observation.server.max_memory_bytes, Some(64 << 20));
    let settings: Vec<String> =
        observation.server.persistence.iter().map(|(name, value)| format!("{name} {value}")).collect();
    assert_eq!(settings, ["appendfsync always", "appendonly yes", "save 300 1"]);
    assert_eq!(observation.server.run_id, server.run_id());
    assert!(observation.host.cpus > 0 && !observation.host.kernel.is_empty());
    let (_, metrics) = observer.get("/metrics", "").await;
    assert!(metrics.contains("dragstrip_server_up{engine=\"Redis\"} 1\n"), "{metrics}");
    assert!(metrics.contains("dragstrip_server_max_memory_bytes{engine=\"Redis\"} 67108864\n"), "{metrics}");
    assert!(!metrics.contains(PASSWORD) && !text.contains(PASSWORD));
}

#[tokio::test]
async fn memory_has_the_accounts_of_the_server_and_of_its_container() {
    let server = Redis::start(&["--requirepass", PASSWORD, "--enable-debug-command", "local"]).await;
    let observer = Observer::start(server.port, PASSWORD);
    assert_eq!(observer.get("/v1/memory", "another token").await.0, 403);
    let memory = async || -> MemberMemory {
        let (status, text) = observer.get("/v1/memory", TOKEN).await;
        assert_eq!(status, 200, "{text}");
        let mut all: Vec<MemberMemory> = serde_json::from_str(&text).unwrap();
        assert_eq!(all.len(), 1, "{text}");
        all.remove(0)
    };
    let empty = memory().await;
    assert_eq!((empty.server.as_str(), empty.keys), (server.port.to_string().as_str(), Some(0)));
    server.ask("DEBUG POPULATE 20000 key 500").unwrap();
    let full = memory().await;
    assert_eq!(full.keys, Some(20_000));
    let grown = full.used_bytes.unwrap() - empty.used_bytes.unwrap();
    assert!(grown > 20_000 * 500, "20,000 keys of 500 bytes took {grown} bytes: {full:?}");
    // Redis reads its resident memory ten times a second: it may not have seen the keys yet.
    assert!(full.rss_bytes > Some(0) && full.peak_bytes >= full.used_bytes, "{full:?}");
    assert!(full.cgroup_bytes.is_some_and(|bytes| bytes > 0), "its process listens on the port: {full:?}");
}

#[tokio::test]
async fn a_server_without_resp_gets_no_query_and_the_kernel_reports_its_memory() {
    let server = Redis::start(&["--requirepass", PASSWORD]).await;
    let commands = || {
        let info = server.ask("INFO stats").unwrap();
        let line = info.lines().find_map(|line| line.strip_prefix("total_connections_received:"));
        line.unwrap().trim().parse::<u64>().unwrap()
    };
    let before = commands();
    let observer = Observer::without_resp(server.port);
    for path in ["/ready", "/v1/observed"] {
        let (status, message) = observer.get(path, TOKEN).await;
        assert!(status == 503 && message.contains("does not speak RESP"), "{path}: {status} {message}");
    }
    let (_, text) = observer.get("/v1/memory", TOKEN).await;
    let all: Vec<MemberMemory> = serde_json::from_str(&text).unwrap();
    let memory = &all[0];
    assert!(memory.rss_bytes > Some(1 << 20) && memory.peak_bytes >= memory.rss_bytes, "{memory:?}");
    assert!(memory.cgroup_bytes > Some(0) && memory.unread.is_none(), "{memory:?}");
    assert_eq!((memory.used_bytes, memory.keys), (None, None), "only the server knows");
    let (_, metrics) = observer.get("/metrics", "").await;
    assert!(metrics.contains("dragstrip_server_up{engine=\"\"} 1\n"), "its process listens: {metrics}");
    assert!(metrics.contains("dragstrip_server_thread_cpu_seconds_total{"), "{metrics}");
    assert_eq!(commands(), before + 1, "the test's own query alone");
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
async fn a_probe_waits_for_a_server_that_starts() {
    let mut server = Redis::start(&[]).await;
    server.stop();
    let observer = Observer::start(server.port, "");
    let (answer, ()) = tokio::join!(observer.get("/ready", ""), server.restart());
    assert_eq!(answer.0, 200, "a probe that fails leaves a Warning event: {}", answer.1);
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
async fn a_ready_server_is_not_queried_at_every_probe() {
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
    assert!(counted.contains("total_connections_received:3\r\n"), "two and this query: {counted}");
}

#[tokio::test]
async fn a_probe_reuses_one_connection_and_costs_little() {
    let server = Redis::start(&["--requirepass", PASSWORD]).await;
    let observer = Observer::start(server.port, PASSWORD);
    observer.get("/ready", "").await;
    let probes = 50;
    let before = observer.cpu_seconds();
    for _ in 0..probes {
        assert_eq!(observer.get("/ready", "").await.0, 200);
    }
    let each = (observer.cpu_seconds() - before) / f64::from(probes);
    // At one probe a second this is the share of a core.
    assert!(each < 0.005, "{each} s of CPU per probe");
    let clients = server.ask("CLIENT LIST").unwrap().matches("id=").count();
    assert_eq!(clients, 2, "the observer and this query");
}
