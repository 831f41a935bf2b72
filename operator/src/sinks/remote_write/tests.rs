//! Remote write against the real Prometheus, and against a server that is strict about
//! the specification; results come from a mock apiserver.

use super::*;
use crate::{
    cluster::world::World,
    datastore::tests::{Calls, Cluster, body, context, seen},
    sinks::{
        Sinks,
        fixtures::{Server, pod, repetition},
        timeline::STALE,
        write_request::Sample,
    },
};
use jiff::Timestamp;
use k8s_openapi::ByteString;
use prost::Message;
use serde_json::Value;
use std::{
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
    time::Instant,
};

/// A Prometheus of its own, which ends with the test.
struct Prometheus {
    process: Child,
    endpoint: Endpoint,
    write: RemoteWrite,
    _directory: tempfile::TempDir,
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Prometheus {
    async fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("prometheus.yml"), "").unwrap();
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let process = Command::new("prometheus")
            .current_dir(directory.path())
            .arg("--web.enable-remote-write-receiver")
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .args(["--storage.tsdb.path=data", "--log.level=error"])
            .stdout(Stdio::null())
            .spawn()
            .expect("no 'prometheus' on PATH: make tools installs it");
        let url = format!("http://127.0.0.1:{port}");
        let endpoint = Endpoint::new(&url, None, vec![]).unwrap();
        let write = RemoteWrite::new(Endpoint::new(&format!("{url}/api/v1/write"), None, vec![]).unwrap());
        let prometheus = Self { process, endpoint, write, _directory: directory };
        let deadline = Instant::now() + Duration::from_secs(60);
        while !matches!(prometheus.get("/-/ready").await, Ok(answer) if answer.status.is_success()) {
            assert!(Instant::now() < deadline, "prometheus is not ready after a minute");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        prometheus
    }

    async fn get(&self, path: &str) -> Result<Answer, EndpointError> {
        self.endpoint.ask(Method::GET, path, &[], "").await
    }

    /// The series that a question without special characters gives at a time in seconds.
    async fn series(&self, question: &str, at: i64) -> Vec<Value> {
        let answer = self.get(&format!("/api/v1/query?query={question}&time={at}")).await.unwrap();
        let answer: Value = serde_json::from_slice(&answer.body).unwrap();
        answer["data"]["result"].as_array().unwrap_or_else(|| panic!("{answer}")).clone()
    }

    /// The fate of the timeline of `result`.
    async fn take(&self, result: &RepetitionResult) -> (Fate, Vec<(&'static str, usize)>) {
        let mut told = Vec::new();
        let requests = requests_of(result, "races", "sprint");
        let fate = self.write.write(&requests, |fate, samples| told.push((fate.label(), samples))).await;
        (fate.unwrap(), told)
    }
}

/// A repetition whose load began so many milliseconds after the Unix epoch.
fn begun(start: i64, per_second: &[u64]) -> RepetitionResult {
    let mut pod = pod(per_second, per_second.len() as f64);
    // What is less than a millisecond is cut off.
    pod.window.start_unix_nanos = start * 1_000_000 + 999;
    repetition(vec![pod])
}

#[tokio::test]
async fn the_real_prometheus_has_each_second_with_its_value_and_time() {
    let prometheus = Prometheus::start().await;
    let start = Timestamp::now().as_millisecond() - 600_123;
    let (fate, told) = prometheus.take(&begun(start, &[5, 0, 123_456_789])).await;
    assert_eq!((fate, told), (Fate::Sent, vec![("sent", 8)]));
    let end = start / 1000 + 4;
    let all = prometheus.series(&format!("{METRIC}%5B1h%5D"), end + 60).await;
    let samples = json!([
        [(start + 1000) as f64 / 1000.0, "5"],
        [(start + 2000) as f64 / 1000.0, "0"],
        [(start + 3000) as f64 / 1000.0, "123456789"]
    ]);
    let of = |operation: &str| {
        json!({
            "metric": {
                "__name__": METRIC, "namespace": "races", "run": "sprint", "phase": "read", "repetition": "1",
                "operation": operation
            },
            "values": samples
        })
    };
    assert_eq!(all, [of("GET"), of("TOTAL")]);
    assert_eq!(prometheus.series(METRIC, end - 1).await.len(), 2, "the load ran then");
    assert_eq!(prometheus.series(METRIC, end + 5).await.len(), 0, "the load had ended: nothing is repeated");
}

#[tokio::test]
async fn the_real_prometheus_takes_a_timeline_once_and_says_when_it_is_too_old() {
    let prometheus = Prometheus::start().await;
    let now = Timestamp::now().as_millisecond();
    let recent = begun(now - 60_000, &[5, 6, 7]);
    assert_eq!(prometheus.take(&recent).await.0, Fate::Sent);
    let (fate, told) = prometheus.take(&recent).await;
    assert_eq!(
        (fate, told),
        (Fate::Sent, vec![("repeated", 8)]),
        "its answer was lost, and it is sent again"
    );
    assert_eq!(prometheus.take(&begun(now - 40_000, &[1])).await.0, Fate::Sent, "a later point of a search");
    let mut old = begun(now - 3 * 24 * 3_600_000, &[5]);
    old.repetition = 2;
    let (Fate::Dropped(why), told) = prometheus.take(&old).await else { panic!("3 days old, and taken") };
    assert_eq!(told, [("dropped", 4)]);
    assert!(why.contains("out of bounds") && why.contains("set its out_of_order_time_window"), "{why}");
}

/// What a server answers, in turn; 204 when nothing is left.
type Turns = Arc<Mutex<Vec<(u16, &'static str)>>>;

/// A server that is strict about the specification.
async fn strict(turns: Turns) -> Server {
    let server = Server::answering(move |asked| {
        for (name, value) in [
            ("content-type", "application/x-protobuf"),
            ("content-encoding", "snappy"),
            ("x-prometheus-remote-write-version", "0.1.0"),
            ("x-scope-orgid", "races"),
        ] {
            assert_eq!(asked.headers.get(name).expect(name), value);
        }
        assert!(asked.headers["user-agent"].to_str().unwrap().starts_with("dragstrip-operator/"));
        assert_eq!((asked.method.as_str(), asked.path.as_str()), ("POST", "/api/v1/push"));
        let request = decoded(&asked.body);
        for series in &request.timeseries {
            assert!(series.labels.is_sorted_by(|one, other| one.name < other.name), "labels are not sorted");
            assert!(series.samples.is_sorted_by(|one, other| one.timestamp < other.timestamp));
            assert_eq!(series.samples.last().unwrap().value.to_bits(), STALE, "the series has no end");
        }
        let (code, text) = turns.lock().unwrap().pop().unwrap_or((204, ""));
        std::future::ready((code, text.to_owned()))
    });
    server.await
}

fn decoded(body: &[u8]) -> WriteRequest {
    let message = snap::raw::Decoder::new().decompress_vec(body).unwrap();
    WriteRequest::decode(message.as_slice()).unwrap()
}

/// A later one is named as if it were the earlier.
fn created(name: &str) -> (&'static str, i64) {
    match name {
        "sprint-read-2" => ("2026-01-01T00:00:00Z", 1000),
        "sprint-read-1" => ("2026-01-01T00:05:00Z", 300_000),
        other => panic!("there is no {other}"),
    }
}

fn config_map(name: &str) -> Value {
    let parts = stored::pack(&begun(created(name).1, &[5, 6])).unwrap();
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "pits"},
        "binaryData": {stored::KEY: ByteString(parts[0].clone())}
    })
}

/// An apiserver with two Jobs whose timelines are due.
fn two_due(call: &str) -> Option<(u16, Value)> {
    let metadata = |name: &str| {
        json!({
            "apiVersion": "batch/v1", "kind": "Job",
            "metadata": {
                "name": name, "namespace": "pits", "uid": "job", "creationTimestamp": created(name).0,
                "labels": {labels::RUN: "sprint", labels::RUN_UID: "u", labels::TIMELINE: DUE}
            },
        })
    };
    let content = match call.split(' ').collect::<Vec<_>>()[..] {
        ["GET", "", "apis", "batch", "v1", "jobs"] => {
            json!({"metadata": {}, "items": [metadata("sprint-read-1"), metadata("sprint-read-2")]})
        }
        ["GET", "configmaps", name] => config_map(name),
        ["PATCH", "jobs", name] => metadata(name),
        _ => return None,
    };
    Some((200, content))
}

async fn sending(turns: &Turns, answer: crate::datastore::tests::Answer) -> (Context, Calls, Server) {
    let server = strict(turns.clone()).await;
    let headers = vec!["X-Scope-OrgID=races".parse().unwrap()];
    let endpoint = Endpoint::new(&format!("{}/api/v1/push", server.url), None, headers).unwrap();
    let sinks = Sinks { remote_write: Some(RemoteWrite::new(endpoint)), grafana: None };
    let (ctx, calls) = context(Cluster::default(), answer);
    (Context { sinks: Arc::new(sinks), ..(*ctx).clone() }, calls, server)
}

async fn one_round(ctx: &Context) -> Result<(), Error> {
    round(ctx, ctx.sinks.remote_write.as_ref().unwrap()).await
}

fn counted(ctx: &Context, outcome: &str) -> bool {
    let line = format!("dragstrip_remote_write_samples_total{{outcome=\"{outcome}\"}}");
    ctx.metrics.text().unwrap().contains(&line)
}

#[tokio::test]
async fn what_is_due_is_sent_oldest_first_and_noted_on_its_job() {
    let (ctx, calls, server) = sending(&Turns::default(), two_due).await;
    one_round(&ctx).await.unwrap();
    let first = |body: &[u8]| decoded(body).timeseries[0].samples[0];
    let sent: Vec<Sample> = server.asked().iter().map(|asked| first(&asked.body)).collect();
    let sample = |timestamp| Sample { value: 5.0, timestamp };
    assert_eq!(sent, [sample(2000), sample(301_000)], "in another order a server refuses them");
    for name in ["sprint-read-1", "sprint-read-2"] {
        let noted = body(&calls, &format!("PATCH jobs {name}"));
        assert_eq!(noted["metadata"]["labels"], json!({labels::TIMELINE: "Sent"}));
    }
    assert!(counted(&ctx, "sent"));
}

#[tokio::test]
async fn a_server_in_trouble_is_asked_later_and_nothing_is_noted_until_then() {
    let turns = Turns::new(Mutex::new(vec![(429, "slow down"), (503, "")]));
    let (ctx, calls, server) = sending(&turns, two_due).await;
    for told in ["503", "429 Too Many Requests: slow down"] {
        let error = one_round(&ctx).await.unwrap_err();
        assert_eq!(error.retry_after(), Duration::from_secs(7), "Retry-After is not honoured");
        assert!(error.to_string().contains(told), "{error}");
    }
    assert_eq!(server.asked().len(), 2, "others are not tried while the server is in trouble");
    assert!(!calls.lock().unwrap().iter().any(|(call, _)| call.starts_with("PATCH")), "it would be lost");
    one_round(&ctx).await.unwrap();
    body(&calls, "PATCH jobs sprint-read-1");
}

#[tokio::test]
async fn what_a_server_refuses_is_dropped_with_a_note_and_an_event() {
    let turns = Turns::new(Mutex::new(vec![(400, "label too long\n")]));
    let (ctx, calls, _server) = sending(&turns, two_due).await;
    one_round(&ctx).await.unwrap();
    let metadata = &body(&calls, "PATCH jobs sprint-read-2")["metadata"];
    assert_eq!(metadata["labels"], json!({labels::TIMELINE: "Dropped"}));
    assert_eq!(metadata["annotations"], json!({labels::TIMELINE_DROPPED: "400 Bad Request: label too long"}));
    let calls = calls.lock().unwrap();
    let (_, event) = calls.iter().find(|(call, _)| call.ends_with(" events")).expect("no event");
    assert_eq!(
        (&event["reason"], &event["regarding"]["name"]),
        (&json!("TimelineDropped"), &json!("sprint"))
    );
    assert!(event["note"].as_str().unwrap().contains("label too long"), "{event}");
    assert!(counted(&ctx, "dropped") && counted(&ctx, "sent"), "the other one is sent nevertheless");
}

#[tokio::test]
async fn a_result_that_is_gone_is_passed_over_and_one_that_is_damaged_is_told() {
    let gone = |call: &str| if call.starts_with("GET configmaps") { None } else { two_due(call) };
    let (ctx, calls, server) = sending(&Turns::default(), gone).await;
    one_round(&ctx).await.unwrap();
    assert_eq!((server.asked().len(), calls.lock().unwrap().len()), (0, 3), "a list and two looks");
    let damaged = |call: &str| {
        let (code, mut content) = two_due(call)?;
        if call.starts_with("GET configmaps") {
            content["binaryData"] = json!({stored::KEY: "AAAA"});
        }
        Some((code, content))
    };
    let (ctx, calls, _server) = sending(&Turns::default(), damaged).await;
    one_round(&ctx).await.unwrap();
    let noted = body(&calls, "PATCH jobs sprint-read-1")["metadata"]["annotations"].to_string();
    assert!(noted.contains("is damaged"), "{noted}");
}

#[test]
fn each_answer_has_the_fate_that_the_specification_gives_it() {
    let fate = |code: u16, text: &'static str| {
        let (status, body) = (StatusCode::from_u16(code).unwrap(), text.into());
        fate(&Answer { status, retry_after: None, body })
    };
    for (code, text) in [(200, ""), (204, "")] {
        assert_eq!(fate(code, text).unwrap(), Fate::Sent);
    }
    for code in [500, 502, 503, 429] {
        assert!(matches!(fate(code, ""), Err(Error::Later { .. })), "{code} is to be tried again");
    }
    let mimir = "another sample with a more recent timestamp has already been ingested (err-mimir-sample-out-of-order)";
    assert_eq!(fate(400, mimir).unwrap(), Fate::Repeated);
    for code in [301, 400, 401, 404, 413] {
        assert!(matches!(fate(code, "no"), Ok(Fate::Dropped(_))), "{code} is not to be tried again");
    }
    let Ok(Fate::Dropped(why)) =
        fate(400, "the sample's timestamp is too old (err-mimir-sample-timestamp-too-old)")
    else {
        panic!("not dropped")
    };
    assert!(why.contains("out_of_order_time_window"), "{why}");
}

#[tokio::test]
async fn only_a_job_whose_result_has_a_timeline_is_due() {
    let job = serde_json::from_value(two_due("PATCH jobs sprint-read-1").unwrap().1).unwrap();
    for (seconds, calls_made) in [(&[5][..], 1), (&[], 0)] {
        let (ctx, calls, _server) = sending(&Turns::default(), two_due).await;
        mark_due(&ctx.client, &job, &begun(1000, seconds)).await.unwrap();
        assert_eq!(calls.lock().unwrap().len(), calls_made, "{seconds:?}");
    }
}

#[tokio::test]
async fn what_an_earlier_version_left_due_on_results_is_taken_over() {
    let left = |call: &str| match call {
        "GET  api v1 configmaps" => Some((
            200,
            json!({"metadata": {}, "items": [
                {"metadata": {"name": "sprint-read-1", "namespace": "pits"}},
                {"metadata": {"name": "sprint-read-2", "namespace": "pits"}},
            ]}),
        )),
        _ => two_due(call),
    };
    let (ctx, calls, _server) = sending(&Turns::default(), left).await;
    let job = |name: &str, labels: Value| -> Job {
        serde_json::from_value(json!({"metadata": {"name": name, "namespace": "pits", "labels": labels}}))
            .unwrap()
    };
    let jobs = vec![job("sprint-read-1", json!({})), job("sprint-read-2", json!({labels::TIMELINE: SENT}))];
    let world = World { jobs: seen(jobs), ..ctx.world.clone() };
    adopt(&Context { world, ..ctx }).await.unwrap();
    let noted: Vec<String> = calls.lock().unwrap().iter().map(|(call, _)| call.clone()).collect();
    assert_eq!(noted, ["GET  api v1 configmaps", "PATCH jobs sprint-read-1"]);
}
